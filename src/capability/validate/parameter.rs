//! `Checked`: a path, query or header parameter, whose text is read as what its schema wants.

use http::HeaderMap;
use serde_json::{Map, Value};

use crate::restap::catalog::{Location, Parameter, Style};

use super::super::coerce::{coerce, scalar};
use super::super::query;
use super::super::style::{Form, Holds};
use super::schema::Schema;
use super::{Input, InvalidSchema, Part, Violation, invalid};

/// A parameter and its schema.
#[derive(Debug)]
pub(super) struct Checked {
    name: Box<str>,
    location: Location,
    required: bool,
    form: Form,
    /// Whether the service's own form is known, so that lists and objects are read in one way only.
    styled: bool,
    /// `None` where any text will do.
    schema: Option<Schema>,
}

impl Checked {
    pub(super) fn new(parameter: &Parameter) -> Self {
        let schema = schema_of(parameter);
        let mut form = Form::of(parameter);
        if mentions_array(schema.get("type")) {
            form.holds = Holds::List;
        }
        let says_string = schema.len() == 1 && schema.get("type").is_some_and(|kind| kind == "string");
        let any_text = schema.is_empty() || says_string;
        Self {
            name: parameter.name.as_str().into(),
            location: parameter.location,
            required: parameter.required,
            form,
            styled: parameter.style.is_some() || parameter.explode.is_some(),
            schema: (!any_text).then(|| Schema::new(Value::from(schema).into())),
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
            ([_, _, ..], _) if self.form.holds == Holds::Scalar => refuse("maxItems", "must be there once only"),
            ([], _) | (_, None) => {}
            (texts, Some(schema)) => violations.extend(self.broken(schema, &self.readings(schema, texts, input))?),
        }
        Ok(())
    }

    /// Why no reading of the text fits: what is wrong with the first one, which is the most likely.
    fn broken(&self, schema: &Schema, readings: &[Value]) -> Result<Vec<Violation>, InvalidSchema> {
        let mut reasons = Vec::new();
        for reading in readings {
            let found = schema.check(reading, self.part()).map_err(|problem| invalid(Some(&self.name), problem))?;
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
            Location::Query => of_query(input.query.unwrap_or_default(), &self.name, &self.form),
            Location::Header => of_header(input.headers, &self.name),
            Location::Cookie => query::cookie(input.headers, &self.name).into_iter().collect(),
        }
    }

    /// What the text may stand for: numbers, booleans and null as JSON writes them, or the text itself. A list whose
    /// form is not known is read as repeated parameters and with commas.
    fn readings(&self, schema: &Schema, texts: &[String], input: &Input<'_>) -> Vec<Value> {
        let as_text = |text: &str| Value::String(text.to_owned());
        let formed = || match (self.location, texts) {
            (Location::Query, _) => self.form.of_query(&self.name, input.query.unwrap_or_default()),
            (_, texts) => texts.first().map(|text| self.form.of_text(text)),
        };
        match (self.form.holds, texts) {
            (Holds::Scalar, [text]) if self.form.style != Style::Json => vec![scalar(text), as_text(text)],
            (Holds::List, texts) if !self.styled => {
                let single = match texts {
                    [text] => vec![text.split(',').map(str::trim).collect::<Vec<_>>(), vec![text]],
                    texts => vec![texts.iter().map(String::as_str).collect()],
                };
                let read = |items: &[&str], read: &dyn Fn(&str) -> Value| items.iter().map(|item| read(item)).collect();
                let plain = single.iter().flat_map(|items| [read(items, &scalar), read(items, &as_text)]);
                plain.chain(formed().map(|value| coerce(value, schema.source()))).collect()
            }
            // One that stands in no form that is known is for the service alone.
            (Holds::Object, _) if !self.styled && !formed().is_some_and(|value| value.is_object()) => Vec::new(),
            _ => formed().into_iter().flat_map(|value| [coerce(value.clone(), schema.source()), value]).collect(),
        }
    }

    fn violation(&self, keyword: String, message: String) -> Violation {
        Violation { location: self.part(), path: self.name.to_string(), keyword, message }
    }

    fn part(&self) -> Part {
        match self.location {
            Location::Path => Part::Path,
            Location::Query => Part::Query,
            Location::Header => Part::Header,
            Location::Cookie => Part::Cookie,
        }
    }
}

/// The schema as written, with the parameter's type where it says none.
fn schema_of(parameter: &Parameter) -> Map<String, Value> {
    let mut schema = parameter.schema.as_deref().and_then(Value::as_object).cloned().unwrap_or_default();
    let typed = ["type", "$ref", "allOf", "anyOf", "oneOf", "enum", "const"];
    let json_types = ["string", "integer", "number", "boolean", "array", "object", "null"];
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
fn of_query(query: &str, name: &str, form: &Form) -> Vec<String> {
    let mine = query::pairs(query).filter(|pair| form.owns(name, &query::name(pair)));
    mine.map(|pair| query::value(pair).into_owned()).collect()
}

fn of_header(headers: &HeaderMap, name: &str) -> Vec<String> {
    let Ok(name) = name.parse::<http::HeaderName>() else { return Vec::new() };
    let lines: Vec<_> = headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes())).collect();
    // RFC 9110, section 5.3: several lines are one list.
    if lines.is_empty() { Vec::new() } else { vec![lines.join(", ")] }
}
