//! `JsonSchema`: a JSON Schema in the file, or in a file that it names.

use jsonschema::{Draft, ValidationError};
use serde_json::{Value as Json, json};

use super::document::{Kind, Node};
use super::file;
use super::report::Problem;
use super::slot::{Mismatch, Slot, text};
use super::value::Value;

/// Problems of one schema that are reported.
const PROBLEMS_MAX: usize = 10;

/// A valid JSON Schema 2020-12; a `$ref` in it stays inside of it.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonSchema(pub Json);

impl From<JsonSchema> for Json {
    fn from(schema: JsonSchema) -> Self {
        schema.0
    }
}

/// The schema itself, or `{file: path}`.
impl Value for JsonSchema {
    fn take(slot: Slot<'_, '_>) -> Option<Self> {
        let report = slot.report();
        slot.value(json!({"type": ["object", "boolean"]}), |node| match (node.kind(), file_of(node)) {
            (_, Some(path)) => {
                let path = node.document().directory().join(text(path, "a path")?);
                let schema = file::read_json(&path).map_err(Mismatch::new);
                if let Some(report) = report {
                    report.file(path);
                }
                let schema = schema?;
                match problems(&schema).into_iter().next() {
                    None => Ok(Self(schema)),
                    Some((pointer, reason)) if pointer.is_empty() => Err(Mismatch::new(reason)),
                    Some((pointer, reason)) => Err(Mismatch::new(format!("{reason} (at {pointer} in the file)"))),
                }
            }
            (Kind::Mapping | Kind::Bool(_), None) => {
                let schema = node.to_json();
                for (pointer, reason) in problems(&schema) {
                    if let Some(report) = report {
                        report.add(Problem::error(node.nearest(&pointer), reason));
                    }
                }
                Ok(Self(schema))
            }
            _ => Err(Mismatch::found(node, "a JSON Schema, or {file: path}")),
        })
    }
}

fn file_of(node: Node<'_>) -> Option<Node<'_>> {
    let mut entries = node.children();
    match (entries.next(), entries.next()) {
        (Some(entry), None) if entry.key() == Some("file") => Some(entry),
        _ => None,
    }
}

/// JSON pointers to what keeps a schema from being one, and why.
fn problems(schema: &Json) -> Vec<(String, String)> {
    let problem =
        |what: &str, error: &ValidationError<'_>| (error.instance_path().to_string(), format!("{what}: {error}"));
    let errors = jsonschema::draft202012::meta::validator();
    let errors: Vec<_> = errors.iter_errors(schema).take(PROBLEMS_MAX).collect();
    if !errors.is_empty() {
        return errors.iter().map(|error| problem("this is no JSON Schema", error)).collect();
    }
    match jsonschema::options().with_draft(Draft::Draft202012).build(schema) {
        Ok(_) => Vec::new(),
        Err(error) => vec![problem("this JSON Schema can't be used", &error)],
    }
}
