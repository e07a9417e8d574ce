//! `Entry`: one capability or endpoint of a catalog, however it is written.

use std::sync::Arc;

use http::Method;
use serde_json::{Map, Value, json};

use super::Capability;
use super::text::{self, NAME_MAX};
use crate::restap::catalog::{Location, Parameter};

/// Parameters that are taken of one capability.
const PARAMETERS_MAX: usize = 100;

/// Characters of an id.
const ID_MAX: usize = 100;

/// Names of what every agent has anyway.
const TALK: [&str; 1] = ["talk"];
const NEWS: [&str; 11] = [
    "news",
    "news_receive",
    "news_post",
    "news_read",
    "news_write",
    "get_news",
    "news_get",
    "post_news",
    "read_news",
    "receive_news",
    "news_publish",
];
const OWN: [&str; 14] = [
    "catalog",
    "discovery",
    "well_known",
    "restap",
    "health",
    "healthz",
    "query",
    "skill",
    "skill_md",
    "agent_card",
    "base",
    "self",
    "sse",
    "streaming",
];

/// JSON Schema keywords by one of which a schema is known.
const KEYWORDS: [&str; 12] = [
    "type",
    "properties",
    "$ref",
    "allOf",
    "anyOf",
    "oneOf",
    "enum",
    "const",
    "items",
    "additionalProperties",
    "$schema",
    "required",
];

/// What an entry stands for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Talk,
    News,
    /// Something that every agent here answers itself.
    Own,
    Capability,
}

#[derive(Debug, Default)]
pub(super) struct Entry<'v> {
    name: Option<&'v str>,
    pub(super) endpoint: Option<&'v str>,
    method: Option<&'v str>,
    written: Option<&'v Map<String, Value>>,
}

impl<'v> Entry<'v> {
    /// One that is written as an object; `name` is its key where it has one.
    pub(super) fn of(name: Option<&'v str>, entry: &'v Map<String, Value>) -> Self {
        Self {
            name: text::first(entry, &["id"]).or(name).or_else(|| text::first(entry, &["name", "title"])),
            endpoint: text::first(entry, &["endpoint", "path", "url", "href"]),
            method: text::first(entry, &["method", "http_method", "verb"]),
            written: Some(entry),
        }
    }

    /// One of which only the name is written; its endpoint may stand among the endpoints.
    pub(super) fn named(name: &'v str, endpoints: Option<&'v Value>) -> Self {
        let found = endpoints.and_then(Value::as_object).and_then(|all| all.get(name));
        match found.and_then(|found| Self::of_endpoint(name, found).into_iter().next()) {
            Some(entry) => entry,
            None => Self { name: Some(name), ..Self::default() },
        }
    }

    /// A value of `endpoints`: a text, an object, or objects in an object, such as `{read: {…}, publish: {…}}`.
    pub(super) fn of_endpoint(name: &'v str, value: &'v Value) -> Vec<Self> {
        match value {
            Value::String(endpoint) => {
                vec![Self { name: Some(name), endpoint: Some(endpoint), ..Self::default() }]
            }
            Value::Object(entry) => {
                let whole = Self { name: Some(name), ..Self::of(Some(name), entry) };
                let is_of_agent = whole.kind() != Kind::Capability;
                let inner = entry.iter().filter_map(|(inner, value)| Some((inner, value.as_object()?)));
                let inner: Vec<_> = inner
                    .filter(|(_, value)| {
                        whole.endpoint.is_none() && text::first(value, &["endpoint", "path", "url"]).is_some()
                    })
                    // What is read and published at the agent's news are its news.
                    .map(|(inner, value)| Self::of(Some(if is_of_agent { name } else { inner }), value))
                    .collect();
                if inner.is_empty() { vec![whole] } else { inner }
            }
            _ => Vec::new(),
        }
    }

    pub(super) fn kind(&self) -> Kind {
        let plain = |text: &str| text.to_ascii_lowercase().replace(['-', '.', ' '], "_");
        let name = self.name.map(plain);
        let is = |names: &[&str]| name.as_deref().is_some_and(|name| names.contains(&name));
        // One without a name is what its path says.
        let ends = |end: &str| {
            let path = self.endpoint.unwrap_or_default().trim_end_matches('/');
            self.name.is_none() && path.ends_with(end)
        };
        if is(&TALK) || ends("/talk") {
            Kind::Talk
        } else if is(&NEWS) || ends("/news") {
            Kind::News
        } else if is(&OWN) || ends("/health") || self.endpoint.is_some_and(|path| path.contains("/.well-known/")) {
            Kind::Own
        } else {
            Kind::Capability
        }
    }

    /// A legal id, made of the name or of the path.
    pub(super) fn id(&self) -> Option<String> {
        self.name.and_then(Self::legal_id).or_else(|| Self::legal_id(&self.endpoint?.replace('/', ".")))
    }

    /// A text as an id, with `_` for what an id can't hold.
    pub(super) fn legal_id(text: &str) -> Option<String> {
        let legal = |character: char| match character {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '.' | '_' | '-' | ':' => character,
            _ => '_',
        };
        let id: String = text.trim().chars().take(ID_MAX).map(legal).collect();
        let id = id.trim_matches(['.', '_']);
        (!id.is_empty()).then(|| id.to_owned())
    }

    /// How it is called, both ways where nothing says so; `None` where in no way that an agent knows.
    pub(super) fn methods(&self) -> Option<Vec<Method>> {
        let has = |key: &str| self.written.is_some_and(|entry| entry.contains_key(key));
        match self.method.map(|method| method.trim().to_ascii_uppercase()).as_deref() {
            Some("GET") => Some(vec![Method::GET]),
            Some("POST") => Some(vec![Method::POST]),
            Some("PUT") => Some(vec![Method::PUT]),
            Some("DELETE") => Some(vec![Method::DELETE]),
            Some(_) => None,
            None if has("input_schema") || has("input") => Some(vec![Method::POST]),
            None => Some(vec![Method::POST, Method::GET]),
        }
    }

    /// Whether a talk streams, where it says so.
    pub(super) fn streams(&self) -> Option<bool> {
        let entry = self.written?;
        match entry.get("streaming") {
            Some(Value::Bool(streams)) => Some(*streams),
            Some(Value::Object(how)) => Some(how.get("supported").and_then(Value::as_bool).unwrap_or(true)),
            _ => {
                let formats = text::media_types(entry.get("output_formats"));
                (!formats.is_empty()).then(|| formats.iter().any(|format| format == "text/event-stream"))
            }
        }
    }

    pub(super) fn capability(&self, id: String, method: Method, endpoint: &str, path: &str) -> Capability {
        let nothing = Map::new();
        let entry = self.written.unwrap_or(&nothing);
        let schema = |keys: &[&str]| keys.iter().find_map(|key| schema(entry.get(*key)?));
        Capability {
            id,
            title: text::line(entry, &["title", "name"]),
            method,
            endpoint: endpoint.to_owned(),
            path: path.to_owned(),
            description: text::prose(entry, &["description", "summary"]),
            parameters: parameters(entry.get("parameters"), endpoint),
            input_schema: schema(&["input_schema", "inputSchema", "input"]),
            output_schema: schema(&["output_schema", "outputSchema", "output"]),
            content_types: text::media_types(entry.get("content_types")),
            output_formats: text::media_types(entry.get("output_formats")),
        }
    }
}

/// A JSON Schema, or prose by property made one.
fn schema(value: &Value) -> Option<Value> {
    let object = value.as_object().filter(|object| !object.is_empty())?;
    let known = |(key, value): (&String, &Value)| match key.as_str() {
        // A property may be called `type` too, and then says in prose what it is.
        "type" => value.as_array().is_some() || value.as_str().is_some_and(is_type),
        key => KEYWORDS.contains(&key) && !value.is_string() || key == "$ref",
    };
    if object.iter().any(known) {
        return Some(value.clone());
    }
    let property = |(name, value): (&String, &Value)| {
        let described = match value {
            Value::String(text) if is_type(text) => json!({"type": text}),
            Value::String(text) => json!({"description": text::shown(text, NAME_MAX, false)}),
            Value::Object(_) => schema(value).unwrap_or_else(|| json!({})),
            _ => json!({}),
        };
        (name.clone(), described)
    };
    let properties: Map<String, Value> = object.iter().take(PARAMETERS_MAX).map(property).collect();
    Some(json!({"type": "object", "properties": properties}))
}

fn is_type(text: &str) -> bool {
    matches!(text, "object" | "array" | "string" | "number" | "integer" | "boolean" | "null")
}

fn parameters(value: Option<&Value>, endpoint: &str) -> Vec<Parameter> {
    let list = value.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_object);
    let mut found: Vec<Parameter> = Vec::new();
    for entry in list.take(PARAMETERS_MAX) {
        let Some(name) = text::line(entry, &["name"]) else { continue };
        let location = match text::first(entry, &["location", "in"]) {
            Some("path") => Location::Path,
            Some("header") => Location::Header,
            None if endpoint.contains(&format!("{{{name}}}")) => Location::Path,
            Some("query") | None => Location::Query,
            Some(_) => continue,
        };
        let names_nothing = location == Location::Path && !endpoint.contains(&format!("{{{name}}}"));
        let no_header = location == Location::Header && name.parse::<http::HeaderName>().is_err();
        let known = found.iter().any(|known| known.name == name && known.location == location);
        if names_nothing || no_header || known {
            continue;
        }
        let kind = text::first(entry, &["type"]).filter(|kind| is_type(kind)).unwrap_or("string");
        let required = entry.get("required").and_then(Value::as_bool).unwrap_or(false);
        found.push(Parameter {
            required: required || location == Location::Path,
            description: text::prose(entry, &["description"]),
            schema: entry.get("schema").and_then(schema).map(Arc::new),
            ..Parameter::new(&name, location, kind)
        });
    }
    found
}
