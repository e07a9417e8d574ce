//! Every file under `tests/golden/config`: what it says, or what is said about it.

use std::path::{Path, PathBuf};

use expect_test::expect_file;
use serde_json::Value;

use super::*;
use crate::yaml::{Colour, Document, Severity};

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
fn a_file_that_works_says_this() {
    for path in golden("valid") {
        let reading = Source::file(&path).read(&environment, None);
        let loaded = reading.outcome.unwrap_or_else(|problems| panic!("{}", rendered(&problems)));
        let Loaded { config, warnings } = loaded;
        let files: Vec<_> = reading.sources.files().map(|file| file.display().to_string()).collect();
        let text = format!("{}\n{config:#?}\n\nread: {}\n", rendered(&warnings), files.join(", "));
        expect_file![beside(&path, "txt")].assert_eq(text.trim_start());
    }
}

#[test]
fn a_broken_file_is_told_all_that_is_wrong() {
    for path in golden("invalid") {
        let diagnostics = Config::load(&path, &environment).expect_err(&path.display().to_string());
        expect_file![beside(&path, "txt")].assert_eq(&rendered(&diagnostics));
    }
}

#[test]
fn the_schema_is_this() {
    let schema = serde_json::to_string_pretty(&schema()).unwrap() + "\n";
    expect_file![Path::new(env!("CARGO_MANIFEST_DIR")).join(GOLDEN).join("schema.json")].assert_eq(&schema);
}

#[test]
fn no_problem_shows_a_credential() {
    let credentials = ["hunter2", "sk-literal", "k-0123456789abcdef", "token-out-of-a-file"];
    let mut problems = 0;
    for path in golden("invalid") {
        for diagnostic in Config::load(&path, &environment).unwrap_err() {
            let shown = diagnostic.render(Colour::Never) + &serde_json::to_string(&diagnostic).unwrap();
            assert!(credentials.iter().all(|credential| !shown.contains(credential)), "{shown}");
            problems += 1;
        }
    }
    assert!(problems > 200);
}

#[test]
fn both_yaml_readers_read_every_file_alike() {
    for path in golden("valid").into_iter().chain(golden("invalid")) {
        let text = std::fs::read_to_string(&path).unwrap();
        let other = serde_yaml::from_str::<serde_yaml::Value>(&text).and_then(|mut value| {
            value.apply_merge()?;
            serde_yaml::from_value::<Value>(value)
        });
        match Document::parse("t", Path::new(""), text) {
            Ok(document) if document.is_sound() => assert_eq!(document.root().to_json(), other.unwrap(), "{path:?}"),
            _ => assert!(other.is_err(), "{path:?}"),
        }
    }
}

/// Each value of a file in turn is replaced by one of every kind, or left out; each mapping gets one key more. What
/// the schema refuses is refused, and what is refused for its shape is refused by the schema.
#[test]
fn the_schema_is_what_is_accepted() {
    let directory = Path::new(GOLDEN).join("valid");
    let text = std::fs::read_to_string(directory.join("everything.yaml")).unwrap();
    let mut file: Value = serde_yaml::from_str(&text).unwrap();
    // Reading other files again and again would take most of the time.
    *file.pointer_mut("/include").unwrap() = Value::Array(Vec::new());
    *file.pointer_mut("/agents/support/upstream").unwrap() = "plain".into();
    let schema = jsonschema::validator_for(&schema()).unwrap();
    assert!(schema.is_valid(&file));
    let errors = |file: &Value| {
        let text = serde_yaml::to_string(file).unwrap();
        let problems = Config::from_text("t", &text, &directory, &environment).err().unwrap_or_default();
        problems.into_iter().filter(|problem| problem.severity == Severity::Error).collect::<Vec<_>>()
    };
    assert_eq!(errors(&file), []);
    let mut count = [0, 0];
    for (path, variation) in variations(&file) {
        let errors = errors(&variation);
        let of_shape = errors.iter().find(|Diagnostic { message, .. }| {
            message.starts_with("unknown key")
                || message.ends_with("is missing")
                || (message.starts_with("expected") && !message.contains("found the text"))
        });
        let valid = schema.is_valid(&variation);
        count[usize::from(valid)] += 1;
        let here = errors.iter().any(|error| error.path.starts_with(&path));
        assert!(valid || here, "the schema refuses what is accepted at {path}: {variation}");
        assert!(!valid || of_shape.is_none(), "the schema accepts what is refused: {of_shape:?}");
    }
    assert!(count.iter().all(|count| *count > 100), "{count:?}");
}

/// Each with the path of what was changed, or of the mapping that a key was taken from.
fn variations(file: &Value) -> Vec<(String, Value)> {
    let kinds = serde_json::json!([null, true, 1.5, "text", []]);
    let mut all = Vec::new();
    for pointer in pointers(file) {
        // What stands below is JSON of any shape.
        if ["input_schema/", "options/", "protocols/", "schema/"].iter().any(|free| pointer.contains(free)) {
            continue;
        }
        let (parent, key) = pointer.rsplit_once('/').unwrap_or_default();
        let mut vary = |path: &str, change: &dyn Fn(&mut Value) -> Option<()>| {
            let mut variation = file.clone();
            if change(&mut variation).is_some() {
                all.push((path_of(path), variation));
            }
        };
        for kind in kinds.as_array().unwrap() {
            vary(&pointer, &|file| {
                *file.pointer_mut(&pointer)? = kind.clone();
                Some(())
            });
        }
        vary(&pointer, &|file| {
            file.pointer_mut(&pointer)?.as_object_mut()?.insert("one_more".into(), "text".into());
            Some(())
        });
        vary(parent, &|file| file.pointer_mut(parent)?.as_object_mut()?.remove(key).map(|_| ()));
    }
    all
}

/// `/a/0/b` as `a[0].b`.
fn path_of(pointer: &str) -> String {
    let steps = pointer.split('/').skip(1).map(|step| match step.parse::<usize>() {
        Ok(index) => format!("[{index}]"),
        Err(_) => format!(".{step}"),
    });
    steps.collect::<String>().trim_start_matches('.').to_owned()
}

/// JSON pointers to all that a value holds, and to itself.
fn pointers(value: &Value) -> Vec<String> {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(mapping) => mapping.iter().map(|(key, value)| (key.clone(), value)).collect(),
        Value::Array(items) => items.iter().enumerate().map(|(index, item)| (index.to_string(), item)).collect(),
        _ => Vec::new(),
    };
    let below = children
        .into_iter()
        .flat_map(|(key, child)| pointers(child).into_iter().map(move |pointer| format!("/{key}{pointer}")));
    below.chain([String::new()]).collect()
}

#[test]
fn a_thousand_agents_are_one_file_like_any_other() {
    let agent = |index: usize| {
        format!(
            "  a{index}: {{upstream: u{index}, talk: {{upstream: llm}}, capabilities: [{{id: a, endpoint: /a}}]}}\n"
        )
    };
    let upstream =
        |index: usize| format!("  u{index}: {{url: http://127.0.0.1:1, bearer: \"${{API_KEY}}-{index}\"}}\n");
    let (mut agents, mut upstreams) = (String::from("agents:\n"), String::from("upstreams:\n  llm: {url: http://h}\n"));
    for index in 0..1_000 {
        agents += &agent(index);
        upstreams += &upstream(index);
    }
    let loaded = Config::from_text("t", &(agents + &upstreams), Path::new(""), &environment).unwrap();
    assert_eq!((loaded.config.agents.len(), loaded.config.upstreams.len(), loaded.warnings.len()), (1_000, 1_001, 0));
}

#[test]
fn a_file_that_is_not_there_is_one_problem() {
    let problems = Config::load(Path::new("no/gateway.yaml"), &environment).unwrap_err();
    assert_eq!(rendered(&problems), "no/gateway.yaml:1:1: error: the file can't be read: there is no such file\n");
}

#[test]
fn an_empty_section_is_what_a_missing_one_is() {
    let load = |text: &str| Config::from_text("t", text, Path::new(""), &environment).unwrap().config;
    let without = load("agent: {name: A}");
    let with = load(
        "{agent: {name: A, news: {retention: {}}, cors: {}, packages: [], protocols: {}, capabilities: []}, \
          limits: {}, log: {}, store: {embedded: {}}, upstreams: {}, agents: {}, include: [], trusted_proxies: []}",
    );
    assert_eq!(format!("{with:?}"), format!("{without:?}"));
}

#[test]
fn a_schema_may_be_as_deep_as_a_file() {
    let schema = (0..42).fold("{type: string}".to_owned(), |inner, _| format!("{{properties: {{a: {inner}}}}}"));
    let capability = format!("{{id: a, endpoint: /a, method: POST, input_schema: {schema}}}");
    let text = format!("agent: {{name: A, upstream: http://127.0.0.1:1, capabilities: [{capability}]}}");
    Config::from_text("t", &text, Path::new(""), &environment).unwrap();
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]

    #[test]
    fn no_file_is_too_odd(cut in 0_usize..4_500, length in 0_usize..60, put in "[a-z:{}\\[\\]'\"#&*!|>$/ \n-]{0,4}") {
        let directory = Path::new(GOLDEN).join("valid");
        let text = std::fs::read_to_string(directory.join("everything.yaml")).unwrap();
        let (cut, end) = (text.floor_char_boundary(cut), text.floor_char_boundary(cut + length));
        let text = format!("{}{put}{}", text.get(..cut).unwrap(), text.get(end..).unwrap());
        let lines = text.lines().count().max(1);
        for problem in Config::from_text("t", &text, &directory, &environment).err().unwrap_or_default() {
            proptest::prop_assert!(problem.line as usize <= lines + 1 || problem.file != "t");
            problem.render(Colour::Always);
        }
    }
}
