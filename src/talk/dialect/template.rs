//! `Template`: JSON with `{{names}}` in it, cut up once.

use serde_json::{Map, Value};

use super::problem::{Problems, join, nearest};

/// What can stand between `{{` and `}}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Name {
    Message,
    Messages,
    System,
    Model,
    Stream,
    SessionKey,
    SessionUuid,
    Uuid,
    Credential,
    /// `saved.slot`.
    Saved(Box<str>),
    /// In an item of the history only.
    Role,
    /// In an item of the history only.
    Text,
}

/// Where a template stands, which decides the names that it may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// A path or a header.
    Line,
    /// The body.
    Body,
    /// One item of the history.
    Item,
}

/// JSON in which names stand for values.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Template {
    Literal(Value),
    /// A string that is one name: a value of any type.
    Name(Name),
    /// A string with names in it.
    Line(Line),
    Object(Box<[(String, Template)]>),
    Array(Box<[Template]>),
    /// `{$if: stream, then: …, else: …}`.
    IfStream(Box<[Template; 2]>),
}

/// Text with names in it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Line(Box<[Part]>);

#[derive(Debug, Clone, PartialEq)]
enum Part {
    Text(Box<str>),
    Name(Name),
}

/// Gives the value of a name; `None` where there is none.
pub(crate) type Values<'a> = dyn FnMut(&Name) -> Option<Value> + 'a;

/// The names that are one word, as they are written.
const NAMES: &[(&str, Name)] = &[
    ("message", Name::Message),
    ("messages", Name::Messages),
    ("system", Name::System),
    ("model", Name::Model),
    ("stream", Name::Stream),
    ("session_key", Name::SessionKey),
    ("session_uuid", Name::SessionUuid),
    ("uuid", Name::Uuid),
    ("credential", Name::Credential),
    ("role", Name::Role),
    ("text", Name::Text),
];

impl Name {
    /// The name that is written so, if it means something there.
    fn parse(text: &str, place: Use) -> Option<Self> {
        let (listed, name) = match text.strip_prefix("saved.").filter(|slot| !slot.is_empty()) {
            Some(slot) => ("saved.conversation", Self::Saved(slot.into())),
            None => NAMES.iter().find(|(known, _)| *known == text).map(|(known, name)| (*known, name.clone()))?,
        };
        place.names().contains(&listed).then_some(name)
    }
}

impl Use {
    fn names(self) -> &'static [&'static str] {
        match self {
            Self::Line => &["model", "session_key", "session_uuid", "uuid", "credential", "saved.conversation"],
            Self::Body => &[
                "message",
                "messages",
                "system",
                "model",
                "stream",
                "session_key",
                "session_uuid",
                "uuid",
                "credential",
                "saved.conversation",
            ],
            Self::Item => &["role", "text", "uuid"],
        }
    }
}

impl Template {
    pub(crate) fn compile(value: &Value, at: &str, place: Use, problems: &mut Problems) -> Self {
        match value {
            Value::String(text) => {
                let line = Line::compile(text, at, place, problems);
                match &*line.0 {
                    [Part::Name(name)] => Self::Name(name.clone()),
                    [] | [Part::Text(_)] => Self::Literal(value.clone()),
                    _ => Self::Line(line),
                }
            }
            Value::Object(map) if map.contains_key("$if") => Self::compile_if(map, at, place, problems),
            Value::Object(map) if !map.is_empty() => Self::Object(
                map.iter()
                    .map(|(key, value)| (key.clone(), Self::compile(value, &join(at, key), place, problems)))
                    .collect(),
            ),
            Value::Array(items) if !items.is_empty() => Self::Array(
                items
                    .iter()
                    .enumerate()
                    .map(|(index, item)| Self::compile(item, &format!("{at}/{index}"), place, problems))
                    .collect(),
            ),
            other => Self::Literal(other.clone()),
        }
    }

    fn compile_if(map: &Map<String, Value>, at: &str, place: Use, problems: &mut Problems) -> Self {
        problems.known_keys(map, at, &["$if", "then", "else"]);
        if map.get("$if").and_then(Value::as_str) != Some("stream") {
            problems.add(format!("{at}/$if"), "`$if` knows one condition: stream", Some("stream"));
        }
        let mut branch = |key: &str| match map.get(key) {
            Some(value) => Self::compile(value, &format!("{at}/{key}"), place, problems),
            None => Self::Literal(Value::Null),
        };
        Self::IfStream(Box::new([branch("then"), branch("else")]))
    }

    /// The value, or `None` where a name has none. A key or an element without a value is dropped, and so is an
    /// object or an array that lost all it had.
    pub(crate) fn render(&self, values: &mut Values<'_>) -> Option<Value> {
        match self {
            Self::Literal(value) => Some(value.clone()),
            Self::Name(name) => values(name),
            Self::Line(line) => line.render(values, str::to_owned).ok().map(Value::String),
            Self::Object(entries) => {
                let mut map = Map::with_capacity(entries.len());
                for (key, template) in entries {
                    if let Some(value) = template.render(values) {
                        map.insert(key.clone(), value);
                    }
                }
                (!map.is_empty()).then_some(Value::Object(map))
            }
            Self::Array(items) => {
                let items: Vec<Value> = items.iter().filter_map(|item| item.render(values)).collect();
                (!items.is_empty()).then_some(Value::Array(items))
            }
            Self::IfStream(branches) => {
                let [then, otherwise] = &**branches;
                let stream = values(&Name::Stream).is_some_and(|stream| stream == Value::Bool(true));
                if stream { then } else { otherwise }.render(values)
            }
        }
    }

    /// Visits every name.
    pub(crate) fn names(&self, visit: &mut dyn FnMut(&Name)) {
        match self {
            Self::Literal(_) => {}
            Self::Name(name) => visit(name),
            Self::Line(line) => line.names(visit),
            Self::Object(entries) => entries.iter().for_each(|(_, template)| template.names(visit)),
            Self::Array(items) => items.iter().for_each(|template| template.names(visit)),
            Self::IfStream(branches) => {
                visit(&Name::Stream);
                branches.iter().for_each(|template| template.names(visit));
            }
        }
    }
}

impl Line {
    pub(crate) fn compile(text: &str, at: &str, place: Use, problems: &mut Problems) -> Self {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("{{") {
            let Some((name, after)) = after.split_once("}}") else {
                problems.add(at, "`{{` without `}}`", None);
                break;
            };
            if !before.is_empty() {
                parts.push(Part::Text(before.into()));
            }
            match Name::parse(name.trim(), place) {
                Some(name) => parts.push(Part::Name(name)),
                None => problems.add(
                    at,
                    format!("`{{{{{name}}}}}` stands for nothing here; known are {}", place.names().join(", ")),
                    nearest(name, place.names()),
                ),
            }
            rest = after;
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.into()));
        }
        Self(parts.into())
    }

    /// The text, its values changed by `encode`; the first name that has no value, if any.
    pub(crate) fn render(&self, values: &mut Values<'_>, encode: impl Fn(&str) -> String) -> Result<String, &Name> {
        let mut line = String::new();
        for part in &self.0 {
            match part {
                Part::Text(text) => line.push_str(text),
                Part::Name(name) => match values(name).ok_or(name)? {
                    Value::String(text) => line.push_str(&encode(&text)),
                    other => line.push_str(&encode(&other.to_string())),
                },
            }
        }
        Ok(line)
    }

    pub(crate) fn names(&self, visit: &mut dyn FnMut(&Name)) {
        for part in &self.0 {
            if let Part::Name(name) = part {
                visit(name);
            }
        }
    }
}
