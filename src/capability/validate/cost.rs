//! How much work it is to say where a value breaks a schema.

use serde_json::Value;

/// Schemas within schemas that are followed, references among them.
const DEPTH_MAX: usize = 512;

/// Whether holding every part of `value` against every schema that applies to it takes at most `visits` steps.
///
/// Whether a value fits is found in time that grows with schema and value, since results are kept. A list of what is
/// wrong is not kept: where two branches of a recursive schema lead to the same part of the value, it doubles with
/// every level of nesting, and the caller chooses the levels.
pub(super) fn is_within(schema: &Value, value: &Value, visits: usize) -> bool {
    Walk { root: schema, left: visits }.visit(schema, value, DEPTH_MAX).is_some()
}

struct Walk<'s> {
    root: &'s Value,
    left: usize,
}

impl<'s> Walk<'s> {
    fn visit(&mut self, schema: &'s Value, value: &Value, depth: usize) -> Option<()> {
        self.left = self.left.checked_sub(1)?;
        let depth = depth.checked_sub(1)?;
        let Value::Object(keywords) = schema else { return Some(()) };
        for (keyword, inner) in keywords {
            match keyword.as_str() {
                "$ref" => self.visit(self.target(inner)?, value, depth)?,
                "$dynamicRef" => return None,
                "allOf" | "anyOf" | "oneOf" | "dependentSchemas" => {
                    children(inner).try_for_each(|schema| self.visit(schema, value, depth))?;
                }
                "not" | "if" | "then" | "else" => self.visit(inner, value, depth)?,
                "properties" => {
                    for (name, schema) in inner.as_object().into_iter().flatten() {
                        value.get(name).map_or(Some(()), |value| self.visit(schema, value, depth))?;
                    }
                }
                "patternProperties" => {
                    for schema in children(inner) {
                        children(value).try_for_each(|value| self.visit(schema, value, depth))?;
                    }
                }
                "additionalProperties" | "propertyNames" | "unevaluatedProperties" if value.is_object() => {
                    children(value).try_for_each(|value| self.visit(inner, value, depth))?;
                }
                "items" | "contains" | "unevaluatedItems" if value.is_array() => {
                    children(value).try_for_each(|value| self.visit(inner, value, depth))?;
                }
                "prefixItems" if value.is_array() => {
                    children(inner)
                        .zip(children(value))
                        .try_for_each(|(schema, value)| self.visit(schema, value, depth))?;
                }
                _ => {}
            }
        }
        Some(())
    }

    fn target(&self, reference: &Value) -> Option<&'s Value> {
        let pointer = reference.as_str()?.strip_prefix('#')?;
        self.root.pointer(&percent_encoding::percent_decode_str(pointer).decode_utf8_lossy())
    }
}

/// The items of an array or the values of an object.
fn children(value: &Value) -> impl Iterator<Item = &Value> {
    let items = value.as_array().into_iter().flatten();
    items.chain(value.as_object().into_iter().flat_map(|object| object.values()))
}
