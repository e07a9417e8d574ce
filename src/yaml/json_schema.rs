//! `JsonSchema`: a JSON Schema in the file, or in a file that it names.

use jsonschema::Draft;
use serde_json::{Value as Json, json};

use super::document::{Kind, Node};
use super::file;
use super::report::Problem;
use super::slot::{Mismatch, Slot, text};
use super::value::Value;

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
                match invalid(&schema) {
                    None => Ok(Self(schema)),
                    Some((pointer, reason)) if pointer.is_empty() => Err(Mismatch::new(reason)),
                    Some((pointer, reason)) => Err(Mismatch::new(format!("{reason} (at {pointer} in the file)"))),
                }
            }
            (Kind::Mapping | Kind::Bool(_), None) => {
                let schema = node.to_json();
                if let (Some((pointer, reason)), Some(report)) = (invalid(&schema), report) {
                    report.add(Problem::error(node.nearest(&pointer), reason));
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

/// A JSON pointer to what keeps a schema from being one, and why.
fn invalid(schema: &Json) -> Option<(String, String)> {
    if let Err(error) = jsonschema::draft202012::meta::validate(schema) {
        return Some((error.instance_path().to_string(), format!("this is no JSON Schema: {error}")));
    }
    match jsonschema::options().with_draft(Draft::Draft202012).build(schema) {
        Ok(_) => None,
        Err(error) => Some((error.instance_path().to_string(), format!("this JSON Schema can't be used: {error}"))),
    }
}
