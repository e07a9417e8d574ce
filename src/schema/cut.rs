//! `Cut`: a schema without references, cut off at a depth.

use serde_json::{Map, Value};

use super::{Definitions, Holds, Place, fits, holds};

/// Bytes of a schema without others in it that stays whole where it is cut.
const LEAF_BYTES_MAX: usize = 128;

/// Keywords that the whole schema may need and a cut one can't have: where a part of a schema is weaker, the `not`, the
/// condition, the upper bound or the leftover that is made of it is stronger.
const UNSAFE: [&str; 7] = ["not", "if", "then", "else", "maxContains", "unevaluatedItems", "unevaluatedProperties"];

/// Keywords of the places that references lead to.
const TARGETS: [&str; 8] =
    ["$anchor", "$defs", "$dynamicAnchor", "$dynamicRef", "$id", "$recursiveAnchor", "$recursiveRef", "definitions"];

/// What may stand beside a `$ref` without asking anything.
const ANNOTATIONS: [&str; 7] = ["default", "deprecated", "description", "examples", "readOnly", "title", "writeOnly"];

/// Writes a schema with its references replaced by what they lead to, down to a depth. There, only type and name stay.
/// Gives up as soon as the result is over its budget, so that no reference that stands twice at every level makes it
/// run long.
pub(super) struct Cut<'s, 'f> {
    root: &'s Value,
    definition: Definitions<'s, 'f>,
    depth: usize,
    left: usize,
}

impl<'s, 'f> Cut<'s, 'f> {
    pub(super) fn new(root: &'s Value, definition: Definitions<'s, 'f>, depth: usize, budget: usize) -> Self {
        Self { root, definition, depth, left: budget }
    }

    /// The cut schema, if it is within the budget.
    pub(super) fn whole(mut self) -> Option<Value> {
        let budget = self.left;
        self.schema(self.root, Place::ROOT).filter(|cut| fits(cut, budget))
    }

    fn schema(&mut self, schema: &Value, place: Place) -> Option<Value> {
        self.spend(2)?;
        let Value::Object(map) = schema else { return Some(schema.clone()) };
        if let Some(Value::String(reference)) = map.get("$ref") {
            return self.reference(reference, map, place);
        }
        let is_leaf = map.iter().all(|(keyword, value)| holds(keyword, value) == Holds::Nothing);
        if place.depth >= self.depth && !(is_leaf && fits(schema, LEAF_BYTES_MAX)) {
            return self.stub(map, None);
        }
        let mut cut = Map::new();
        for (keyword, value) in map {
            let keyword = keyword.as_str();
            if UNSAFE.contains(&keyword) || TARGETS.contains(&keyword) || is_missed_least(keyword, value, place) {
                continue;
            }
            // Branches that have become weaker may overlap, so it is no longer exactly one that fits.
            let key = match keyword {
                "oneOf" if map.contains_key("anyOf") => continue,
                "oneOf" => "anyOf",
                other => other,
            };
            self.spend(key.len() + 4)?;
            let value = self.value(keyword, value, place.within(keyword))?;
            cut.insert(key.to_owned(), value);
        }
        Some(cut.into())
    }

    fn value(&mut self, keyword: &str, value: &Value, place: Place) -> Option<Value> {
        match (holds(keyword, value), value) {
            (Holds::Schema, schema) => self.schema(schema, place),
            (Holds::List, Value::Array(schemas)) => schemas.iter().map(|schema| self.schema(schema, place)).collect(),
            (Holds::Named, Value::Object(schemas)) => {
                let mut named = Map::new();
                for (name, schema) in schemas {
                    self.spend(name.len() + 4)?;
                    named.insert(name.clone(), self.schema(schema, place)?);
                }
                Some(named.into())
            }
            _ => fits(value, self.left).then(|| value.clone()),
        }
    }

    fn reference(&mut self, reference: &str, beside: &Map<String, Value>, place: Place) -> Option<Value> {
        let pointer = reference.strip_prefix('#');
        let target = pointer.and_then(|pointer| {
            let pointer = percent_encoding::percent_decode_str(pointer).decode_utf8_lossy();
            let elsewhere = || (self.definition)(pointer.strip_prefix("/$defs/")?);
            self.root.pointer(&pointer).or_else(elsewhere)
        });
        let name = pointer.and_then(|pointer| pointer.rsplit('/').next()).filter(|name| !name.is_empty());
        let empty = Value::Object(Map::new());
        let target = target.unwrap_or(&empty);
        if place.depth >= self.depth {
            return self.stub(target.as_object().unwrap_or(&Map::new()), name);
        }
        let inner = self.schema(target, place.within("$ref"))?;
        let (annotations, demands): (Map<_, _>, Map<_, _>) = beside
            .iter()
            .filter(|(keyword, value)| *keyword != "$ref" && !is_missed_least(keyword, value, place))
            .map(|(keyword, value)| (keyword.clone(), value.clone()))
            .partition(|(keyword, _)| ANNOTATIONS.contains(&keyword.as_str()));
        let inner = if demands.is_empty() {
            inner
        } else {
            let beside = self.schema(&demands.into(), place.within("allOf"))?;
            Value::Object(Map::from_iter([("allOf".to_owned(), Value::Array(vec![inner, beside]))]))
        };
        Some(match inner {
            Value::Object(mut inner) => {
                inner.extend(annotations);
                inner.into()
            }
            other => other,
        })
    }

    /// The type, and the name that a reader can look up in the whole schema.
    fn stub(&mut self, schema: &Map<String, Value>, name: Option<&str>) -> Option<Value> {
        let mut stub = Map::new();
        if let Some(kind) = schema.get("type") {
            stub.insert("type".to_owned(), kind.clone());
        }
        if let Some(name) = name.or_else(|| schema.get("title")?.as_str()) {
            stub.insert("title".to_owned(), name.into());
        }
        self.spend(name.map_or(0, str::len))?;
        Some(stub.into())
    }

    fn spend(&mut self, bytes: usize) -> Option<()> {
        self.left = self.left.checked_sub(bytes)?;
        Some(())
    }
}

/// What is stripped from a schema before it is cut.
fn is_missed_least(keyword: &str, value: &Value, place: Place) -> bool {
    match keyword {
        "example" | "examples" => true,
        "title" => value.is_string(),
        "description" => !place.is_described(),
        _ => false,
    }
}
