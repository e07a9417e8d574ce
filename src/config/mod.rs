//! The file as a whole. A `Config` that exists is valid.

pub mod settings;

use std::path::{Path, PathBuf};

use serde_json::Value;

pub use settings::Config;

use crate::yaml::Diagnostic;

/// What the file is read against, from the rooms and from the process.
#[derive(Clone, Copy)]
pub struct Surroundings<'a> {
    /// The value of an environment variable, for `${NAME}`.
    pub environment: &'a dyn Fn(&str) -> Option<String>,
    /// The names that `dialect:` may have, beside `guide`.
    pub dialects: &'a [&'a str],
    /// Compiles a dialect that is written in the file; each problem is a JSON pointer into it and a sentence.
    pub compile: &'a dyn Fn(&Value) -> Vec<(String, String)>,
}

/// A file that can be used.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// What it says.
    pub config: Config,
    /// What the operator should look at.
    pub warnings: Vec<Diagnostic>,
    /// Every file that was read, the first being the file itself: a change of any of them is a reason to reload.
    pub files: Vec<PathBuf>,
}

impl Config {
    /// Reads a file and what it includes. An error is the list of all problems, warnings among them, in the order
    /// of the files and of their lines.
    pub fn load(path: &Path, surroundings: Surroundings<'_>) -> Result<Loaded, Vec<Diagnostic>> {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        Self::from_text(&path.display().to_string(), &text, path.parent().unwrap_or(Path::new("")), surroundings)
    }

    /// Reads a text that stands in no file; paths in it are relative to `directory`, problems name it `name`.
    pub fn from_text(
        name: &str,
        text: &str,
        directory: &Path,
        surroundings: Surroundings<'_>,
    ) -> Result<Loaded, Vec<Diagnostic>> {
        let _ = (name, text, directory, surroundings);
        Err(Vec::new())
    }
}

/// The JSON Schema (2020-12) of gateway.yaml, with every default.
pub fn schema() -> Value {
    Value::Null
}
