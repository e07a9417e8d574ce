//! JSON Schemas as data: which keywords hold others, and how one is made weaker so that it fits into a budget.

mod cut;

use std::io::{self, Write};

use serde::Serialize;
use serde_json::{Map, Value, json};

use cut::Cut;

/// How many times its budget a schema may have for it to be worth stripping. What is larger is cut at once, so that
/// time does not grow with it: imported schemas can have megabytes.
const STRIPPED_SHARE_MAX: usize = 4;

/// The depth from which descriptions go first; and the depth at which a schema is cut, tried from here down to 1.
const DESCRIBED_DEPTH: usize = 2;
const CUT_DEPTH: usize = 6;

/// A weaker schema of at most so many bytes, unless the whole one is within them. What goes first is what a caller
/// misses least.
pub fn fit(schema: &Value, budget: usize) -> Option<Value> {
    if fits(schema, budget) {
        return None;
    }
    let strips: [Edit; 4] = [
        |schema, _| schema.retain(|keyword, _| !matches!(keyword.as_str(), "example" | "examples")),
        |schema, _| schema.retain(|keyword, value| keyword != "title" || !value.is_string()),
        |schema, place| {
            if !place.is_described() && !place.definition {
                schema.shift_remove("description");
            }
        },
        |schema, place| {
            if !place.is_described() {
                schema.shift_remove("description");
            }
        },
    ];
    if fits(schema, STRIPPED_SHARE_MAX * budget) {
        let mut reduced = schema.clone();
        for strip in strips {
            visit(&mut reduced, Place::ROOT, strip);
            if fits(&reduced, budget) {
                return Some(reduced);
            }
        }
    }
    Some(cut(schema, budget, &|_| None))
}

/// A schema without references that is cut off where it would be over its budget; at last its type alone. `definition`
/// knows what `#/$defs/NAME` leads to where the schema itself does not.
pub fn cut<'s>(schema: &'s Value, budget: usize, definition: Definitions<'s, '_>) -> Value {
    let cut = (1..=CUT_DEPTH).rev().find_map(|depth| Cut::new(schema, definition, depth, budget).whole());
    cut.unwrap_or_else(|| outline(schema))
}

/// Bytes of a compiled pattern, and of one that is looked at.
const PATTERN_BYTES_MAX: usize = 1 << 20;
const PATTERN_LENGTH_MAX: usize = 8 << 10;

/// Whether a text can be the value of `pattern`: what is none keeps its whole schema from being used.
pub fn is_pattern(text: &str) -> bool {
    let schema = json!({"pattern": text});
    let options = || jsonschema::options().with_draft(jsonschema::Draft::Draft202012);
    let linear = jsonschema::PatternOptions::regex().size_limit(PATTERN_BYTES_MAX);
    let stepping = jsonschema::PatternOptions::fancy_regex().size_limit(PATTERN_BYTES_MAX);
    text.len() <= PATTERN_LENGTH_MAX
        && (options().with_pattern_options(linear).build(&schema).is_ok()
            || options().with_pattern_options(stepping).build(&schema).is_ok())
}

/// Where a value breaks a schema, at most so many places: a JSON pointer and a sentence without the value. An error says
/// why the schema can't be used.
pub fn violations(schema: &Value, value: &Value, most: usize) -> Result<Vec<String>, String> {
    let built = jsonschema::options().with_draft(jsonschema::Draft::Draft202012).build(schema);
    let validator = built.map_err(|error| error.to_string())?;
    let errors = validator.iter_errors(value).take(most);
    Ok(errors.map(|error| format!("at `{}` {}", error.instance_path().as_str(), error.masked())).collect())
}

/// What a name under `$defs` leads to.
pub type Definitions<'s, 'f> = &'f dyn Fn(&str) -> Option<&'s Value>;

/// The type alone.
fn outline(schema: &Value) -> Value {
    match schema.get("type") {
        Some(kind) => json!({"type": kind}),
        None => json!({}),
    }
}

/// Where a schema stands within another.
#[derive(Debug, Clone, Copy)]
struct Place {
    depth: usize,
    /// Within `$defs`.
    definition: bool,
}

impl Place {
    const ROOT: Self = Self { depth: 0, definition: false };

    fn within(self, keyword: &str) -> Self {
        let definition = self.definition || matches!(keyword, "$defs" | "definitions" | "$ref");
        Self { depth: self.depth + 1, definition }
    }

    /// Whether a description there is worth its bytes.
    fn is_described(self) -> bool {
        self.depth <= DESCRIBED_DEPTH && !self.definition
    }
}

/// A change to one schema.
type Edit = fn(&mut Map<String, Value>, Place);

/// What the value of a keyword holds (JSON Schema 2020-12, Core, section 10).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holds {
    Schema,
    List,
    Named,
    Nothing,
}

fn holds(keyword: &str, value: &Value) -> Holds {
    match (keyword, value) {
        ("allOf" | "anyOf" | "oneOf" | "prefixItems" | "items", Value::Array(_)) => Holds::List,
        (
            "items"
            | "additionalItems"
            | "additionalProperties"
            | "contains"
            | "contentSchema"
            | "else"
            | "if"
            | "not"
            | "propertyNames"
            | "then"
            | "unevaluatedItems"
            | "unevaluatedProperties",
            Value::Object(_) | Value::Bool(_),
        ) => Holds::Schema,
        (
            "$defs" | "definitions" | "dependencies" | "dependentSchemas" | "patternProperties" | "properties",
            Value::Object(_),
        ) => Holds::Named,
        _ => Holds::Nothing,
    }
}

/// Edits a schema and every schema within it.
fn visit(schema: &mut Value, place: Place, edit: Edit) {
    let Value::Object(schema) = schema else { return };
    edit(schema, place);
    for (keyword, value) in schema {
        let inner = place.within(keyword);
        match (holds(keyword, value), value) {
            (Holds::Schema, value) => visit(value, inner, edit),
            (Holds::List, Value::Array(schemas)) => schemas.iter_mut().for_each(|schema| visit(schema, inner, edit)),
            (Holds::Named, Value::Object(schemas)) => {
                schemas.values_mut().for_each(|schema| visit(schema, inner, edit));
            }
            _ => {}
        }
    }
}

/// Bytes of a value as JSON.
pub fn size(value: &impl Serialize) -> usize {
    let mut room = Room { left: usize::MAX };
    drop(serde_json::to_writer(&mut room, value));
    usize::MAX - room.left
}

/// Whether a value has at most so many bytes as JSON; stops as soon as it has more.
pub fn fits(value: &impl Serialize, bytes: usize) -> bool {
    serde_json::to_writer(Room { left: bytes }, value).is_ok()
}

struct Room {
    left: usize,
}

impl Write for Room {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.left = self.left.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
