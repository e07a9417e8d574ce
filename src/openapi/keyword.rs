//! The keywords of one schema: what OpenAPI and Swagger mean by them, in the words of JSON Schema 2020-12.

use std::collections::HashSet;
use std::rc::Rc;

use serde_json::{Map, Number, Value, json};

use super::bundle::clipped;
use super::lower::{DEPTH_MAX, Lowering, or_null};
use super::survey::Survey;
use super::text;
use crate::schema::{fits, is_pattern};
use crate::yaml::{Kind, Node};

/// Bytes and levels of an example or a default.
const EXAMPLE_BYTES: usize = 2 << 10;
const EXAMPLE_DEPTH: usize = 12;

/// Bytes of an enumeration.
const ENUM_BYTES: usize = 64 << 10;

/// The types that there are.
const TYPES: [&str; 7] = ["string", "number", "integer", "boolean", "array", "object", "null"];

impl<'d> Lowering<'d> {
    /// What the keywords among `children` ask for.
    pub(super) fn keywords(
        &mut self,
        survey: &Survey<'d>,
        node: Node<'d>,
        children: &[Node<'d>],
        depth: usize,
        from_above: &Rc<HashSet<&'d str>>,
    ) -> Value {
        let mut schema = Map::new();
        let mut nullable = false;
        let composed = children.iter().any(|it| matches!(it.key(), Some("properties" | "allOf")));
        let hidden = if composed {
            let own = self.hidden(survey, node, 0);
            Rc::new(own.union(from_above).copied().collect::<HashSet<_>>())
        } else {
            from_above.clone()
        };
        for &child in children {
            let key = child.key().unwrap_or_default();
            let value = match key {
                "nullable" | "x-nullable" => {
                    nullable |= child.kind() == Kind::Bool(true);
                    None
                }
                "type" => kinds(survey, child, &mut schema),
                "properties" => self.properties(survey, child, depth, &mut schema),
                "required" => required(survey, child, &hidden, &mut schema),
                "allOf" => self.list(survey, child, depth, &hidden),
                "anyOf" | "oneOf" | "prefixItems" => self.list(survey, child, depth, &Rc::default()),
                "items" if child.kind() == Kind::List => {
                    let items = self.list(survey, child, depth, &Rc::default());
                    schema.extend(items.map(|items| ("prefixItems".to_owned(), items)));
                    None
                }
                "items"
                | "additionalProperties"
                | "contains"
                | "not"
                | "if"
                | "then"
                | "else"
                | "propertyNames"
                | "unevaluatedItems"
                | "unevaluatedProperties"
                | "contentSchema" => Some(self.schema(survey, child, depth + 1, &Rc::default())),
                "patternProperties" | "dependentSchemas" => {
                    self.named(survey, child, depth, key == "patternProperties")
                }
                "$defs" | "definitions" => {
                    child.children().for_each(|definition| self.embed(survey, definition));
                    None
                }
                "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties"
                | "minContains" | "maxContains" => count(survey, child),
                "minimum" | "maximum" | "multipleOf" => number(survey, child, key == "multipleOf"),
                "exclusiveMinimum" | "exclusiveMaximum" => exclusive(survey, node, child),
                "pattern" => pattern(survey, child),
                "enum" => enumeration(survey, child),
                "const" => {
                    Some(child.to_json()).filter(|value| fits(value, ENUM_BYTES) && is_shallow(value, EXAMPLE_DEPTH))
                }
                "default" => example(child),
                "example" => example(child).map(|value| json!([value])),
                "examples" if child.kind() == Kind::List => example(child),
                "dependentRequired" => dependent(child),
                "uniqueItems" | "deprecated" | "readOnly" | "writeOnly" => match child.kind() {
                    Kind::Bool(value) => Some(value).filter(|value| *value).map(Value::Bool),
                    _ => None,
                },
                "title" => child.as_text().and_then(text::title).map(Value::String),
                "description" => child.as_text().and_then(text::description).map(Value::String),
                "format" | "contentEncoding" | "contentMediaType" => {
                    child.as_text().filter(|text| text.len() <= 200).map(|text| Value::String(text.to_owned()))
                }
                "$id" | "$anchor" | "$dynamicAnchor" | "$dynamicRef" | "$recursiveRef" | "$recursiveAnchor" | "id"
                    if key.starts_with('$') =>
                {
                    let message = format!("`{key}` is left out: a schema stands for itself here");
                    survey.warn("dynamic_ref", child, message, "use `$ref` to a pointer");
                    None
                }
                "discriminator" => {
                    survey.info(
                        "discriminator",
                        child,
                        "the kinds that there are stand in a description".to_owned(),
                        "nothing is to be done",
                    );
                    None
                }
                _ => None,
            };
            let key = if key == "example" { "examples" } else { key };
            if let Some(value) = value.filter(|_| key != "examples" || !schema.contains_key("examples")) {
                schema.insert(key.to_owned(), value);
            }
        }
        discriminate(node, &mut schema);
        finish(survey, node, schema, nullable)
    }

    fn properties(
        &mut self,
        survey: &Survey<'d>,
        node: Node<'d>,
        depth: usize,
        schema: &mut Map<String, Value>,
    ) -> Option<Value> {
        if node.kind() != Kind::Mapping {
            return bad(survey, node, "`properties` is no mapping");
        }
        let mut properties = Map::new();
        let mut lifted = Vec::new();
        for property in node.children() {
            if self.is_hidden(survey, property) {
                continue;
            }
            let name = property.key().unwrap_or_default().to_owned();
            if property.get("required").is_some_and(|it| it.kind() == Kind::Bool(true)) {
                lifted.push(Value::String(name.clone()));
            }
            // Each level of properties is two of JSON.
            properties.insert(name, self.schema(survey, property, depth + 2, &Rc::default()));
        }
        if !lifted.is_empty() && !schema.contains_key("required") && node.document().root() != node {
            schema.insert("required".to_owned(), lifted.into());
        }
        Some(properties.into())
    }

    fn list(
        &mut self,
        survey: &Survey<'d>,
        node: Node<'d>,
        depth: usize,
        hidden: &Rc<HashSet<&'d str>>,
    ) -> Option<Value> {
        if node.kind() != Kind::List || node.children().next().is_none() {
            return bad(survey, node, "a list of schemas is expected");
        }
        Some(node.children().map(|branch| self.schema(survey, branch, depth + 2, hidden)).collect())
    }

    fn named(&mut self, survey: &Survey<'d>, node: Node<'d>, depth: usize, patterns: bool) -> Option<Value> {
        if node.kind() != Kind::Mapping {
            return bad(survey, node, "a mapping of schemas is expected");
        }
        let mut named = Map::new();
        for child in node.children() {
            let name = child.key().unwrap_or_default();
            if patterns && !is_pattern(name) {
                let message = format!("`{}` is no pattern of ECMA-262", clipped(name));
                survey.warn("bad_pattern", child, message, "correct it; it is left out");
                continue;
            }
            named.insert(name.to_owned(), self.schema(survey, child, depth + 2, &Rc::default()));
        }
        (!named.is_empty()).then(|| named.into())
    }
}

/// What concerns several keywords at once.
fn finish<'d>(survey: &Survey<'d>, node: Node<'d>, mut schema: Map<String, Value>, nullable: bool) -> Value {
    // `exclusiveMinimum: true` says how `minimum` is meant.
    for (limit, exclusive) in [("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")] {
        if schema.get(exclusive) == Some(&Value::Bool(true)) {
            schema.shift_remove(exclusive);
            if let Some(value) = schema.shift_remove(limit) {
                schema.insert(exclusive.to_owned(), value);
            }
        }
    }
    if schema.get("format").is_none_or(|format| format != "binary") {
        // Bytes of a file that is sent as text.
    } else if schema.get("type").is_none() {
        schema.insert("type".to_owned(), "string".into());
    }
    if !nullable {
        return schema.into();
    }
    let composed = ["allOf", "anyOf", "oneOf", "$ref"].iter().any(|keyword| schema.contains_key(*keyword));
    if composed {
        return or_null(schema);
    }
    match schema.get_mut("type") {
        Some(Value::Array(kinds)) if kinds.iter().any(|kind| kind == "null") => {}
        Some(Value::Array(kinds)) => kinds.push("null".into()),
        Some(kind) => *kind = json!([kind.take(), "null"]),
        None => {
            survey.info(
                "bad_keyword",
                node,
                "`nullable` without a `type` says nothing".to_owned(),
                "nothing is to be done",
            );
            return schema.into();
        }
    }
    if let Some(Value::Array(values)) = schema.get_mut("enum")
        && !values.contains(&Value::Null)
    {
        values.push(Value::Null);
    }
    if let Some(value) = schema.shift_remove("const") {
        schema.insert("enum".to_owned(), json!([value, null]));
    }
    schema.into()
}

fn kinds<'d>(survey: &Survey<'d>, node: Node<'d>, schema: &mut Map<String, Value>) -> Option<Value> {
    let names: Vec<&str> = match node.kind() {
        Kind::Text(name) => vec![name],
        Kind::Null => vec!["null"],
        Kind::List => node.children().map(|it| it.as_text().unwrap_or("null")).collect(),
        _ => Vec::new(),
    };
    let mut known: Vec<Value> = Vec::new();
    for name in &names {
        let name = match *name {
            "file" => {
                schema.insert("format".to_owned(), "binary".into());
                "string"
            }
            name => name,
        };
        if TYPES.contains(&name) {
            if !known.iter().any(|it| it == name) {
                known.push(name.into());
            }
        } else {
            let message = format!("there is no type `{}`", clipped(name));
            survey.warn("unknown_type", node, message, "correct it; any type is taken here");
            return None;
        }
    }
    match known.len() {
        0 => bad(survey, node, "`type` is neither a name nor a list of names"),
        1 if node.kind() != Kind::List => known.pop(),
        1 => known.pop(),
        _ => Some(known.into()),
    }
}

fn required<'d>(
    survey: &Survey<'d>,
    node: Node<'d>,
    hidden: &HashSet<&str>,
    schema: &mut Map<String, Value>,
) -> Option<Value> {
    if node.kind() != Kind::List {
        // `required: true` of a property is its parent's, and was told there.
        return matches!(node.kind(), Kind::Bool(_))
            .then_some(())
            .map_or_else(|| bad(survey, node, "`required` is no list"), |()| None);
    }
    let mut names: Vec<Value> = match schema.shift_remove("required") {
        Some(Value::Array(lifted)) => lifted,
        _ => Vec::new(),
    };
    for name in node.children().filter_map(Node::as_text).filter(|name| !hidden.contains(name)) {
        if !names.iter().any(|known| known == name) {
            names.push(name.into());
        }
    }
    (!names.is_empty()).then(|| names.into())
}

fn count<'d>(survey: &Survey<'d>, node: Node<'d>) -> Option<Value> {
    match node.as_whole_number() {
        Some(number) if number >= 0 => Some(u64::try_from(number).unwrap_or(u64::MAX).into()),
        _ => bad(survey, node, "a whole number that is not negative is expected"),
    }
}

fn number<'d>(survey: &Survey<'d>, node: Node<'d>, positive: bool) -> Option<Value> {
    let value = match node.kind() {
        Kind::Integer(_) => Some(node.to_json()),
        Kind::Float(number) => Number::from_f64(number).map(Value::Number),
        _ => None,
    };
    let value = value.filter(|value| !positive || value.as_f64().is_some_and(|number| number > 0.0));
    value.or_else(|| bad(survey, node, "a number is expected"))
}

/// True where the limit itself is excluded, else a number.
fn exclusive<'d>(survey: &Survey<'d>, schema: Node<'d>, node: Node<'d>) -> Option<Value> {
    let limit = if node.key() == Some("exclusiveMinimum") { "minimum" } else { "maximum" };
    match node.kind() {
        Kind::Bool(true) if schema.get(limit).is_some() => Some(Value::Bool(true)),
        Kind::Bool(_) => None,
        _ => number(survey, node, false),
    }
}

fn pattern<'d>(survey: &Survey<'d>, node: Node<'d>) -> Option<Value> {
    let Some(pattern) = node.as_text() else { return bad(survey, node, "`pattern` is no text") };
    if is_pattern(pattern) {
        return Some(Value::String(pattern.to_owned()));
    }
    let message = format!("`{}` is no pattern of ECMA-262, or too large", clipped(pattern));
    survey.warn("bad_pattern", node, message, "correct it; it is left out");
    None
}

fn enumeration<'d>(survey: &Survey<'d>, node: Node<'d>) -> Option<Value> {
    if node.kind() != Kind::List || node.children().next().is_none() {
        return bad(survey, node, "`enum` must hold at least one value");
    }
    let mut seen = HashSet::new();
    let values = node.children().map(Node::to_json);
    let values: Vec<Value> = values.filter(|value| seen.insert(value.to_string())).collect();
    let values = Value::Array(values);
    if !fits(&values, ENUM_BYTES) || !is_shallow(&values, EXAMPLE_DEPTH) {
        return bad(survey, node, "`enum` is too large");
    }
    Some(values)
}

fn dependent(node: Node<'_>) -> Option<Value> {
    let entries = node.children().map(|child| {
        let names: Vec<Value> = child.children().filter_map(Node::as_text).map(Value::from).collect();
        (child.key().unwrap_or_default().to_owned(), names.into())
    });
    let entries: Map<String, Value> = entries.collect();
    (!entries.is_empty()).then(|| entries.into())
}

fn example(node: Node<'_>) -> Option<Value> {
    let value = node.to_json();
    (fits(&value, EXAMPLE_BYTES) && is_shallow(&value, EXAMPLE_DEPTH)).then_some(value)
}

fn is_shallow(value: &Value, levels: usize) -> bool {
    match value {
        Value::Array(items) => levels > 0 && items.iter().all(|item| is_shallow(item, levels - 1)),
        Value::Object(entries) => levels > 0 && entries.values().all(|value| is_shallow(value, levels - 1)),
        _ => levels <= DEPTH_MAX,
    }
}

/// Says in words which kinds there are, where only a discriminator does.
fn discriminate(node: Node<'_>, schema: &mut Map<String, Value>) {
    let Some(discriminator) = node.get("discriminator") else { return };
    let Some(property) = discriminator.get("propertyName").and_then(Node::as_text) else { return };
    let kinds: Vec<_> =
        discriminator.get("mapping").into_iter().flat_map(Node::children).filter_map(Node::key).take(50).collect();
    let Some(Value::Object(property)) = schema.get_mut("properties").and_then(|it| it.get_mut(property)) else {
        return;
    };
    if kinds.is_empty() || property.contains_key("enum") || property.contains_key("const") {
        return;
    }
    let before = property.get("description").and_then(Value::as_str).map(|text| format!("{text} ")).unwrap_or_default();
    property.insert("description".to_owned(), format!("{before}One of {}.", kinds.join(", ")).into());
}

fn bad<'d>(survey: &Survey<'d>, node: Node<'d>, message: &str) -> Option<Value> {
    survey.warn("bad_keyword", node, message.to_owned(), "correct the document; the keyword is left out");
    None
}
