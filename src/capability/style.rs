//! `Form`: how one input is written in a query, a path, a header or a cookie, and what callers may write instead.
//!
//! A caller knows of a parameter that it is a list or an object, and seldom which of OpenAPI's styles its service wants.
//! So that several forms are read: the service's own, repeated parameters, brackets, commas, and JSON as text.

mod read;
mod write;

use serde_json::Value;

use crate::restap::catalog::{Location, Parameter, Style};

pub(super) use write::text;

/// How one input is read and written.
#[derive(Debug, Clone)]
pub(super) struct Form {
    pub(super) style: Style,
    pub(super) explode: bool,
    pub(super) allow_reserved: bool,
    pub(super) holds: Holds,
    /// Whether a comma in an item can only be the end of it: the items are no texts of any kind.
    commas_end_items: bool,
    /// Names under which the properties of an object stand by themselves.
    properties: Box<[Box<str>]>,
}

/// What an input is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holds {
    Scalar,
    List,
    Object,
}

impl Form {
    /// The form of a parameter, OpenAPI's own where it says nothing.
    pub(super) fn of(parameter: &Parameter) -> Self {
        let style = parameter.style.unwrap_or(match parameter.location {
            Location::Query | Location::Cookie => Style::Form,
            Location::Path | Location::Header => Style::Simple,
        });
        let mut form = Self::new(style, parameter.explode, parameter.schema.as_deref());
        form.holds = match parameter.kind.as_str() {
            "object" => Holds::Object,
            "array" => Holds::List,
            _ => form.holds,
        };
        form.allow_reserved = parameter.allow_reserved;
        form
    }

    /// A style for what a schema describes.
    pub(super) fn new(style: Style, explode: Option<bool>, schema: Option<&Value>) -> Self {
        let kind = schema.and_then(|schema| schema.get("type"));
        let mentions = |wanted: &str| match kind {
            Some(Value::String(kind)) => kind == wanted,
            Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == wanted),
            _ => false,
        };
        let holds = match () {
            () if mentions("array") => Holds::List,
            () if mentions("object") => Holds::Object,
            () => Holds::Scalar,
        };
        let items = schema.and_then(|schema| schema.get("items"));
        let properties = schema.and_then(|schema| schema.get("properties")?.as_object());
        Self {
            style,
            explode: explode.unwrap_or(matches!(style, Style::Form | Style::DeepObject)),
            allow_reserved: false,
            holds,
            commas_end_items: items.is_some_and(is_no_text),
            properties: properties.into_iter().flatten().map(|(name, _)| name.as_str().into()).collect(),
        }
    }

    /// The character between two items of a list that callers send in one piece.
    fn delimiter(&self) -> char {
        match self.style {
            Style::SpaceDelimited => ' ',
            Style::PipeDelimited => '|',
            _ => ',',
        }
    }
}

/// Whether a schema takes no text that could hold a comma.
fn is_no_text(items: &Value) -> bool {
    let kind = items.get("type").and_then(Value::as_str);
    matches!(kind, Some("integer" | "number" | "boolean")) || items.get("enum").is_some()
}

#[cfg(test)]
mod tests;
