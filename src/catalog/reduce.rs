//! Schemas within budgets: what is published is as much as fits, and never says less than what is accepted.
//!
//! A reduced schema is a weaker one: whatever fits the whole schema fits it too.

mod cut;

use std::io::{self, Write};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::restap::catalog::{Catalog, Parameter};
use crate::restap::{Capability, DETAIL_PATH};

use super::{CATALOG_BYTES_MAX, TooLarge};
use cut::Cut;

/// Bytes that each part of an entry may have.
#[derive(Debug, Clone, Copy)]
struct Budget {
    input: usize,
    output: usize,
    parameters: usize,
    description: usize,
}

/// The budgets of an entry, and those that are tried where the whole catalog would be too large.
const BUDGETS: [Budget; 6] = [
    Budget { input: 16 << 10, output: 4 << 10, parameters: 4 << 10, description: 4 << 10 },
    Budget { input: 8 << 10, output: 2 << 10, parameters: 4 << 10, description: 1 << 10 },
    Budget { input: 4 << 10, output: 1 << 10, parameters: 2 << 10, description: 500 },
    Budget { input: 2 << 10, output: 0, parameters: 1 << 10, description: 300 },
    Budget { input: 512, output: 0, parameters: 512, description: 200 },
    Budget { input: 0, output: 0, parameters: 0, description: 80 },
];

/// How many times its budget a schema may have for it to be worth stripping. What is larger is cut at once, so that
/// time does not grow with it: imported schemas can have megabytes.
const STRIPPED_SHARE_MAX: usize = 4;

/// What stays as it is in the id of a capability that stands in a path.
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Bytes of a parameter's description where the parameters are over their budget.
const SHORT_DESCRIPTION: usize = 80;

/// The depth from which descriptions go first; and the depth at which a schema is cut, tried from here down to 1.
const DESCRIBED_DEPTH: usize = 2;
const CUT_DEPTH: usize = 6;

/// The document, and the ids of the entries that had to be reduced.
pub(super) fn within_budgets(whole: Catalog) -> Result<(Vec<u8>, Vec<String>), TooLarge> {
    let mut catalog = whole;
    let mut bytes = 0;
    for budget in BUDGETS {
        for entry in &mut catalog.capabilities {
            reduce(entry, budget);
        }
        if fits(&catalog, CATALOG_BYTES_MAX) {
            let reduced = catalog.capabilities.iter().filter(|entry| entry.x_truncated);
            let ids = reduced.map(|entry| entry.id.clone()).collect();
            return Ok((serde_json::to_vec(&catalog).unwrap_or_default(), ids));
        }
        bytes = size(&catalog);
    }
    Err(TooLarge { bytes })
}

fn reduce(entry: &mut Capability, budget: Budget) {
    let input = entry.input_schema.as_ref().and_then(|schema| fit(schema, budget.input));
    let output = entry.output_schema.as_ref().and_then(|schema| fit(schema, budget.output));
    let parameters = fit_parameters(&mut entry.parameters, budget.parameters);
    let description = entry.description.as_mut().is_some_and(|text| shorten(text, budget.description));
    if input.is_none() && output.is_none() && !parameters && !description {
        return;
    }
    if input.is_some() {
        entry.input_schema = input;
    }
    if output.is_some() {
        // Nothing is lost that a caller needs in order to call.
        entry.output_schema = output.filter(|_| budget.output > 0);
    }
    entry.x_truncated = true;
    entry.x_detail = Some(format!("{DETAIL_PATH}{}", utf8_percent_encode(&entry.id, UNRESERVED)));
}

/// A weaker schema of at most so many bytes, unless the whole one is within them. What goes first is what a caller
/// misses least.
fn fit(schema: &Value, budget: usize) -> Option<Value> {
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
    let cut = (1..=CUT_DEPTH).rev().find_map(|depth| Cut::new(schema, depth, budget).whole());
    Some(cut.unwrap_or_else(|| outline(schema)))
}

/// The type alone.
fn outline(schema: &Value) -> Value {
    match schema.get("type") {
        Some(kind) => json!({"type": kind}),
        None => json!({}),
    }
}

/// Schemas go first, the largest first, then long descriptions. No parameter is left out.
fn fit_parameters(parameters: &mut [Parameter], budget: usize) -> bool {
    if fits(&parameters, budget) {
        return false;
    }
    let mut by_size: Vec<_> = (0..parameters.len()).collect();
    let size_of =
        |number: &usize| parameters.get(*number).and_then(|parameter| parameter.schema.as_ref()).map_or(0, size);
    by_size.sort_by_key(|number| std::cmp::Reverse(size_of(number)));
    let mut left = size(&parameters);
    for number in by_size {
        let schema = parameters.get_mut(number).and_then(|parameter| parameter.schema.take());
        left -= schema.map_or(0, |schema| size(&schema));
        if left <= budget {
            return true;
        }
    }
    for description in parameters.iter_mut().filter_map(|parameter| parameter.description.as_mut()) {
        shorten(description, SHORT_DESCRIPTION);
    }
    true
}

fn shorten(text: &mut String, bytes: usize) -> bool {
    let shortened = text.len() > bytes;
    if shortened {
        text.truncate(text.floor_char_boundary(bytes.saturating_sub('…'.len_utf8())));
        text.push('…');
    }
    shortened
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

fn size(value: &impl Serialize) -> usize {
    let mut room = Room { left: usize::MAX };
    drop(serde_json::to_writer(&mut room, value));
    usize::MAX - room.left
}

/// Whether a value has at most so many bytes as JSON; stops as soon as it has more.
fn fits(value: &impl Serialize, bytes: usize) -> bool {
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
