//! Every file under `tests/golden/config`: what it says, or what is said about it.

use std::path::{Path, PathBuf};

use expect_test::expect_file;
use serde_json::Value;

use super::*;
use crate::yaml::Colour;

const GOLDEN: &str = "tests/golden/config";

fn environment(name: &str) -> Option<String> {
    let value = match name {
        "API_KEY" => "k-0123456789abcdef",
        "PORT" => "8080",
        "CONNECTIONS" => "500",
        "EMPTY" => "",
        _ => return None,
    };
    Some(value.to_owned())
}

/// A dialect without a request is enough to see that problems of one get their places.
fn compile(dialect: &Value) -> Vec<(String, String)> {
    match dialect.pointer("/request/path") {
        Some(Value::String(_)) => Vec::new(),
        Some(_) => vec![("/request/path".into(), "`path` must be text".into())],
        None => vec![("/request".into(), "a dialect needs a `request`".into())],
    }
}

fn surroundings() -> Surroundings<'static> {
    Surroundings {
        environment: &environment,
        dialects: &["openai-chat", "openai-responses", "anthropic-messages", "ollama-chat"],
        compile: &compile,
    }
}

fn golden(kind: &str) -> Vec<PathBuf> {
    let files = std::fs::read_dir(Path::new(GOLDEN).join(kind)).unwrap();
    let files = files.map(|file| file.unwrap().path());
    let mut files: Vec<_> = files.filter(|path| path.extension().is_some_and(|end| end == "yaml")).collect();
    files.sort();
    files
}

fn beside(path: &Path, extension: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path.with_extension(extension))
}

fn rendered(diagnostics: &[Diagnostic]) -> String {
    diagnostics.iter().map(|diagnostic| diagnostic.render(Colour::Never)).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_broken_file_is_told_all_that_is_wrong() {
    for path in golden("invalid") {
        let diagnostics = Config::load(&path, surroundings()).expect_err(&path.display().to_string());
        expect_file![beside(&path, "txt")].assert_eq(&rendered(&diagnostics));
    }
}
