//! `Checked`: a path, query or header parameter, whose text is read as what its schema wants.

use std::sync::Arc;

use http::HeaderMap;
use serde_json::{Map, Value};

use crate::restap::catalog::{Location, Parameter};

use super::super::query;
use super::schema::Schema;
use super::{Input, InvalidSchema, Part, Violation, invalid};

/// A parameter and its schema.
#[derive(Debug)]
pub(super) struct Checked {
    name: Box<str>,
    location: Location,
    required: bool,
    form: Form,
    /// `None` where any text will do.
    schema: Option<Schema>,
}

/// How often a parameter may stand in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Once.
    Single,
    /// Once with commas, or once for each item.
    List,
    /// Under names of its own, which have no one form in a query: only that it is there is checked.
    Object,
}

impl Checked {
    pub(super) fn new(parameter: &Parameter) -> Self {
        let schema = schema_of(parameter);
        let form = match parameter.kind.as_str() {
            "object" => Form::Object,
            _ if mentions_array(schema.get("type")) => Form::List,
            _ => Form::Single,
        };
        let says_string = schema.len() == 1 && schema.get("type").is_some_and(|kind| kind == "string");
        let any_text = form == Form::Object || schema.is_empty() || says_string;
        Self {
            name: parameter.name.as_str().into(),
            location: parameter.location,
            required: parameter.required,
            form,
            schema: (!any_text).then(|| Schema::new(Arc::new(schema.into()))),
        }
    }

    pub(super) fn compile(&self) -> Result<(), InvalidSchema> {
        let Some(schema) = &self.schema else { return Ok(()) };
        schema.compile().map(drop).map_err(|problem| invalid(Some(&self.name), problem))
    }

    pub(super) fn check(&self, input: &Input<'_>, violations: &mut Vec<Violation>) -> Result<(), InvalidSchema> {
        let texts = self.texts(input);
        let mut refuse = |keyword: &str, message: &str| {
            violations.push(self.violation(keyword.to_owned(), message.to_owned()));
        };
        match (texts.as_slice(), &self.schema) {
            ([], _) if self.required => refuse("required", "must be there"),
            ([_, _, ..], _) if self.form == Form::Single => refuse("maxItems", "must be there once only"),
            ([], _) | (_, None) => {}
            (texts, Some(schema)) => violations.extend(self.broken(schema, texts)?),
        }
        Ok(())
    }

    /// Why no reading of the text fits: what is wrong with the first one, which is the most likely.
    fn broken(&self, schema: &Schema, texts: &[String]) -> Result<Vec<Violation>, InvalidSchema> {
        let mut reasons = Vec::new();
        for reading in self.readings(texts) {
            let found = schema.check(&reading, self.part()).map_err(|problem| invalid(Some(&self.name), problem))?;
            if found.is_empty() {
                return Ok(found);
            }
            if reasons.is_empty() {
                reasons = found;
            }
        }
        Ok(reasons.into_iter().map(|reason| self.violation(reason.keyword, reason.message)).collect())
    }

    /// The values as text, one for each time that the parameter stands in the request.
    fn texts(&self, input: &Input<'_>) -> Vec<String> {
        match self.location {
            Location::Path => input.params.get(&self.name).map(str::to_owned).into_iter().collect(),
            Location::Query => of_query(input.query.unwrap_or_default(), &self.name, self.form),
            Location::Header => of_header(input.headers, &self.name),
        }
    }

    /// What the text may stand for: numbers, booleans and null as JSON writes them, or the text itself; a list as
    /// repeated parameters or with commas.
    fn readings(&self, texts: &[String]) -> Vec<Value> {
        let as_text = |text: &str| Value::String(text.to_owned());
        if self.form != Form::List {
            let text = texts.first().map_or("", String::as_str);
            return [scalar(text), as_text(text)].into();
        }
        let single = match texts {
            [text] => vec![text.split(',').map(str::trim).collect::<Vec<_>>(), vec![text]],
            texts => vec![texts.iter().map(String::as_str).collect()],
        };
        let read = |items: &[&str], read: &dyn Fn(&str) -> Value| items.iter().map(|item| read(item)).collect();
        single.iter().flat_map(|items| [read(items, &scalar), read(items, &as_text)]).collect()
    }

    fn violation(&self, keyword: String, message: String) -> Violation {
        Violation { location: self.part(), path: self.name.to_string(), keyword, message }
    }

    fn part(&self) -> Part {
        match self.location {
            Location::Path => Part::Path,
            Location::Query => Part::Query,
            Location::Header => Part::Header,
        }
    }
}

/// The schema as written, with the parameter's type where it says none.
fn schema_of(parameter: &Parameter) -> Map<String, Value> {
    let mut schema = parameter.schema.as_ref().and_then(Value::as_object).cloned().unwrap_or_default();
    let typed = ["type", "$ref", "allOf", "anyOf", "oneOf", "enum", "const"];
    let json_types = ["string", "integer", "number", "boolean", "array", "null"];
    if !typed.iter().any(|keyword| schema.contains_key(*keyword)) && json_types.contains(&parameter.kind.as_str()) {
        schema.insert("type".to_owned(), parameter.kind.as_str().into());
    }
    schema
}

fn mentions_array(kind: Option<&Value>) -> bool {
    match kind {
        Some(Value::String(kind)) => kind == "array",
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "array"),
        _ => false,
    }
}

/// An object's entries stand under names of their own, as in `filter[color]=red`.
fn of_query(query: &str, name: &str, form: Form) -> Vec<String> {
    let is_it = |pair: &&str| {
        let found = query::name(pair);
        *found == *name || form == Form::Object && found.strip_prefix(name).is_some_and(|rest| rest.starts_with('['))
    };
    query::pairs(query).filter(is_it).map(|pair| query::value(pair).into_owned()).collect()
}

fn of_header(headers: &HeaderMap, name: &str) -> Vec<String> {
    let Ok(name) = name.parse::<http::HeaderName>() else { return Vec::new() };
    let lines: Vec<_> = headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes())).collect();
    // RFC 9110, section 5.3: several lines are one list.
    if lines.is_empty() { Vec::new() } else { vec![lines.join(", ")] }
}

/// A number, boolean or null as JSON writes it; any other text is itself.
fn scalar(text: &str) -> Value {
    match serde_json::from_str(text) {
        // JSON may have space around it, a parameter may not.
        Ok(_) if text.trim().len() < text.len() => text.into(),
        Ok(value @ (Value::Number(_) | Value::Bool(_) | Value::Null)) => value,
        _ => text.into(),
    }
}
