//! `JsonSchema`: a JSON Schema in the file, or in a file that it names.

use std::path::PathBuf;

use jsonschema::{Draft, ValidationError};
use serde_json::{Value as Json, json};

use super::document::Kind;
use super::file;
use super::mismatch::Mismatch;
use super::report::Problem;
use super::slot::Slot;
use super::value::Value;

const TYPES: &str = "string, number, integer, boolean, array, object and null";

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
        slot.mapping_with_or("file", Self::out_of_file, |slot| {
            let report = slot.report();
            let schema = json!({"anyOf": [{"type": "boolean"}, {"type": "object", "not": {"required": ["file"]}}]});
            slot.value(schema, |node| match node.kind() {
                Kind::Mapping | Kind::Bool(_) => {
                    let schema = node.to_json();
                    let problems = problems(&schema);
                    let sound = problems.is_empty();
                    if let Some(report) = report {
                        for (pointer, reason) in problems {
                            report.add(Problem::error(node.nearest(&pointer), reason));
                        }
                    }
                    Ok(sound.then_some(Self(schema)))
                }
                _ => Err(Mismatch::found(node, "a JSON Schema, or {file: path}")),
            })?
        })
    }
}

impl JsonSchema {
    fn out_of_file(slot: Slot<'_, '_>) -> Option<Self> {
        slot.section("schema_file", |fields| {
            let path: PathBuf = fields.required("file", "The file that holds the schema, as JSON or YAML.")?;
            let (node, report) = (fields.get("file")?, fields.report()?);
            report.file(path.clone());
            let read = file::read_json(&path).and_then(|schema| match problems(&schema).into_iter().next() {
                None => Ok(Self(schema)),
                Some((pointer, reason)) if pointer.is_empty() => Err(reason),
                Some((pointer, reason)) => Err(format!("{reason} (at {pointer} in the file)")),
            });
            read.map_err(|reason| report.add(Problem::error(node, reason))).ok()
        })
    }
}

/// JSON pointers to what keeps a schema from being one, and why.
fn problems(schema: &Json) -> Vec<(String, String)> {
    let problem = |what: &str, error: &ValidationError<'_>| {
        let pointer = error.instance_path().to_string();
        // The rule that a wrong type breaks is a list of forms, which says less than the types themselves.
        let reason = if pointer.ends_with("/type") { format!("the types are {TYPES}") } else { error.to_string() };
        (pointer, format!("{what}: {reason}"))
    };
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
