//! The file as a whole. A `Config` that exists is valid.

mod agent;
mod check;
mod diff;
mod documents;
mod elsewhere;
pub mod imports;
mod include;
pub mod listen;
mod load;
mod part;
mod room;
mod server;
pub mod settings;
pub mod shorthand;
mod source;
mod sources;
mod upstreams;
mod way;

use std::path::Path;

use serde_json::{Map, Value, json};

pub use diff::changes;
pub use documents::{Copy, Documents, Kind, Named};
pub use settings::Config;
pub use shorthand::Shorthand;
pub use source::{Reading, Source};
pub use sources::{Look, Sources};

pub use crate::net::Cidr;
use crate::yaml::{Diagnostic, Slot};

/// The value of an environment variable, for `${NAME}`.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// A file that can be used.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// What it says.
    pub config: Config,
    /// What the operator should look at.
    pub warnings: Vec<Diagnostic>,
}

impl Config {
    /// Reads a file and what it includes. An error is the list of all problems, warnings among them, in the order
    /// of the files and of their lines.
    pub fn load(path: &Path, environment: Environment<'_>) -> Result<Loaded, Vec<Diagnostic>> {
        Source::file(path).read(environment, None).outcome
    }

    /// Reads a text that stands in no file; paths in it are relative to `directory`, problems name it `name`.
    pub fn from_text(
        name: &str,
        text: &str,
        directory: &Path,
        environment: Environment<'_>,
    ) -> Result<Loaded, Vec<Diagnostic>> {
        Source::text(name, text, directory).read(environment, None).outcome
    }
}

/// The JSON Schema (2020-12) of gateway.yaml, with every default.
pub fn schema() -> Value {
    let mut root = Value::Null;
    let mut definitions = Map::new();
    part::gateway(Slot::describe(&mut root, &mut definitions));
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "gateway.yaml of restap-gateway",
        "$ref": root.get("$ref"),
        "$defs": definitions,
    })
}

#[cfg(test)]
mod tests;
