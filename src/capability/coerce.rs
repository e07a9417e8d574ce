//! Texts read as what a schema wants: queries, forms, CSV and XML know nothing but text.

use std::cell::Cell;

use serde_json::Value;

/// Schemas held against a part of a value. A schema that leads to itself in two ways doubles them with every level.
const STEPS_MAX: usize = 1 << 20;

/// Schemas within schemas that are followed, references among them.
const DEPTH_MAX: usize = 64;

/// `value` with its texts read as the numbers, booleans and nulls that `schema` asks for, and with a lone value made a
/// list of one where it asks for a list. What can't be read so stays.
pub(super) fn coerce(value: Value, schema: &Value) -> Value {
    Reading { root: schema, left: Cell::new(STEPS_MAX) }.read(value, schema, DEPTH_MAX)
}

/// A number, boolean or null as JSON writes it; any other text is itself.
pub(super) fn scalar(text: &str) -> Value {
    match serde_json::from_str(text) {
        // JSON may have space around it, a parameter may not.
        Ok(_) if text.trim().len() < text.len() => text.into(),
        Ok(value @ (Value::Number(_) | Value::Bool(_) | Value::Null)) => value,
        _ => text.into(),
    }
}

struct Reading<'s> {
    root: &'s Value,
    left: Cell<usize>,
}

impl<'s> Reading<'s> {
    fn read(&self, value: Value, schema: &'s Value, depth: usize) -> Value {
        let Some(depth) = depth.checked_sub(1) else { return value };
        let Some(left) = self.left.get().checked_sub(1) else { return value };
        self.left.set(left);
        let Value::Object(keywords) = schema else { return value };
        let mut value = value;
        if let Some(target) = keywords.get("$ref").and_then(|reference| self.target(reference)) {
            value = self.read(value, target, depth);
        }
        for keyword in ["allOf", "anyOf", "oneOf"] {
            let branches = keywords.get(keyword).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            let text_is_fine = keyword != "allOf" && branches.iter().any(|branch| is_of(branch, "string"));
            if value.is_string() && text_is_fine {
                continue;
            }
            value = branches.iter().fold(value, |value, branch| self.read(value, branch, depth));
        }
        let takes = |kind: &str| is_of(schema, kind);
        value = match value {
            Value::String(text) if !takes("string") => of_text(text, schema),
            value => value,
        };
        match value {
            Value::Array(items) => {
                let Some(schema) = keywords.get("items") else { return Value::Array(items) };
                items.into_iter().map(|item| self.read(item, schema, depth)).collect()
            }
            value if takes("array") && !value.is_null() && !(value.is_object() && takes("object")) => {
                let item = match keywords.get("items") {
                    Some(schema) => self.read(value, schema, depth),
                    None => value,
                };
                Value::Array(vec![item])
            }
            Value::Object(mut entries) => {
                let properties = keywords.get("properties").and_then(Value::as_object);
                let others = keywords.get("additionalProperties");
                for (name, entry) in &mut entries {
                    if let Some(schema) = properties.and_then(|properties| properties.get(name)).or(others) {
                        *entry = self.read(entry.take(), schema, depth);
                    }
                }
                Value::Object(entries)
            }
            value => value,
        }
    }

    fn target(&self, reference: &Value) -> Option<&'s Value> {
        let pointer = reference.as_str()?.strip_prefix('#')?;
        self.root.pointer(&percent_encoding::percent_decode_str(pointer).decode_utf8_lossy())
    }
}

fn of_text(text: String, schema: &Value) -> Value {
    let takes = |kind: &str| is_of(schema, kind);
    let trimmed = text.trim();
    match (scalar(trimmed), trimmed) {
        (number @ Value::Number(_), _) if takes("integer") || takes("number") => number,
        (truth @ Value::Bool(_), _) if takes("boolean") => truth,
        (_, "1") if takes("boolean") => true.into(),
        (_, "0") if takes("boolean") => false.into(),
        (_, "" | "null") if takes("null") => Value::Null,
        // An empty element or cell where a list or an object would stand.
        (_, "") if takes("array") => Value::Array(Vec::new()),
        (_, "") if takes("object") => Value::Object(serde_json::Map::new()),
        _ => text.into(),
    }
}

/// Whether the schema's own `type` names this type.
fn is_of(schema: &Value, wanted: &str) -> bool {
    match schema.get("type") {
        Some(Value::String(kind)) => kind == wanted,
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == wanted),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_are_read_as_the_schema_wants() {
        let schema = json!({
            "type": "object",
            "properties": {
                "id": {"type": "integer"},
                "name": {"type": "string"},
                "open": {"type": "boolean"},
                "price": {"type": ["number", "null"]},
                "tags": {"type": "array", "items": {"$ref": "#/$defs/Tag"}},
                "either": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
                "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            },
            "additionalProperties": {"type": "integer"},
            "$defs": {"Tag": {"type": "object", "properties": {"n": {"type": "integer"}}}},
        });
        let value = json!({
            "id": "7", "name": "7", "open": "1", "price": "", "tags": {"n": "1"}, "either": "5", "maybe": "6",
            "other": "8", "x": "seven",
        });
        let read = json!({
            "id": 7, "name": "7", "open": true, "price": null, "tags": [{"n": 1}], "either": "5", "maybe": 6,
            "other": 8, "x": "seven",
        });
        assert_eq!(coerce(value, &schema), read);
    }

    #[test]
    fn a_schema_that_leads_to_itself_ends() {
        for schema in [json!({"$ref": "#"}), json!({"allOf": [{"$ref": "#"}, {"$ref": "#"}]})] {
            assert_eq!(coerce(json!("x"), &schema), json!("x"));
        }
    }
}
