//! Writing an input as its service wants it.

use std::borrow::Cow;

use serde_json::Value;

use crate::restap::catalog::Style;

use super::super::path::push_value;
use super::{Form, Holds};

/// Objects within objects that are written in brackets.
const DEPTH_MAX: usize = 16;

impl Form {
    /// Appends the pairs of a query or of a form, each `name=value` and encoded.
    pub(in super::super) fn push_pairs(&self, name: &str, value: &Value, pairs: &mut Vec<String>) {
        let mut push = |name: &str, text: &str| pairs.push(self.pair(name, text));
        match (self.style, value) {
            (Style::Json, value) => push(name, &json_text(self.holds, value)),
            (Style::DeepObject, Value::Array(_) | Value::Object(_)) => nested(name, value, DEPTH_MAX, &mut push),
            (_, Value::Array(items)) if self.explode => items.iter().for_each(|item| push(name, &text(item))),
            (_, Value::Object(entries)) if self.is_spread() => {
                entries.iter().for_each(|(key, value)| push(key, &text(value)));
            }
            (_, Value::Array(_) | Value::Object(_)) => {
                // Between items stands a delimiter, which is not encoded; in an item it is.
                let delimiter = match self.style {
                    Style::SpaceDelimited => "%20",
                    Style::PipeDelimited => "|",
                    _ => ",",
                };
                let words: Vec<String> = self.words(value).iter().map(|word| self.encoded(word)).collect();
                pairs.push(format!("{}={}", encode(name), words.join(delimiter)));
            }
            (_, scalar) => push(name, &text(scalar)),
        }
    }

    /// Appends a path's part, encoded.
    pub(in super::super) fn push_path(&self, name: &str, value: &Value, path: &mut String) {
        if self.style == Style::Json {
            return push_value(&json_text(self.holds, value), path);
        }
        let words = || self.words(value).iter().map(|word| self.path_word(word)).collect::<Vec<_>>();
        let is_scalar = !matches!(value, Value::Array(_) | Value::Object(_));
        match self.style {
            Style::Label => {
                path.push('.');
                path.push_str(&words().join(if self.explode { "." } else { "," }));
            }
            Style::Matrix if self.explode && !is_scalar => {
                let name = if value.is_array() { format!("{}=", encode(name)) } else { String::new() };
                path.extend(words().iter().map(|word| format!(";{name}{word}")));
            }
            Style::Matrix => path.extend([";", &encode(name), "=", &words().join(",")]),
            _ => path.push_str(&words().join(",")),
        }
    }

    /// As the value of a header or a cookie, unencoded.
    pub(in super::super) fn to_text(&self, value: &Value) -> String {
        if self.style == Style::Json { json_text(self.holds, value) } else { self.words(value).join(",") }
    }

    /// Items, or keys and values, as texts: `k=v` where they are exploded.
    fn words(&self, value: &Value) -> Vec<String> {
        match value {
            Value::Array(items) => items.iter().map(|item| text(item).into_owned()).collect(),
            Value::Object(entries) if self.explode => {
                entries.iter().map(|(key, value)| format!("{key}={}", text(value))).collect()
            }
            Value::Object(entries) => {
                entries.iter().flat_map(|(key, value)| [key.clone(), text(value).into_owned()]).collect()
            }
            scalar => vec![text(scalar).into_owned()],
        }
    }

    /// The `=` of an exploded object is no data.
    fn path_word(&self, word: &str) -> String {
        match word.split_once('=').filter(|_| self.explode && self.holds == Holds::Object) {
            Some((key, value)) => format!("{}={}", encode(key), encode(value)),
            None => encode(word),
        }
    }

    fn pair(&self, name: &str, text: &str) -> String {
        format!("{}={}", encode_name(name), self.encoded(text))
    }

    fn encoded(&self, text: &str) -> String {
        if !self.allow_reserved {
            return encode(text);
        }
        let mut encoded = String::with_capacity(text.len());
        for character in text.chars() {
            // Not those that would end the value or the query.
            if matches!(
                character,
                ':' | '/' | '?' | '@' | '!' | '$' | '\'' | '(' | ')' | '*' | ',' | ';' | '=' | '[' | ']'
            ) {
                encoded.push(character);
            } else {
                push_value(character.encode_utf8(&mut [0; 4]), &mut encoded);
            }
        }
        encoded
    }
}

/// `name[key]` and `name[0]`, as deep as the value is.
fn nested(name: &str, value: &Value, depth: usize, push: &mut impl FnMut(&str, &str)) {
    let Some(depth) = depth.checked_sub(1) else { return push(name, &text(value)) };
    match value {
        Value::Array(items) => {
            for (number, item) in items.iter().enumerate() {
                nested(&format!("{name}[{number}]"), item, depth, push);
            }
        }
        Value::Object(entries) => {
            for (key, value) in entries {
                nested(&format!("{name}[{key}]"), value, depth, push);
            }
        }
        scalar => push(name, &text(scalar)),
    }
}

/// A scalar as it reads; what is none as JSON.
pub(in super::super) fn text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => Cow::Borrowed(text),
        Value::Null => Cow::Borrowed(""),
        other => Cow::Owned(other.to_string()),
    }
}

/// A text that is to be JSON, where it was read as a text, stays as it came.
fn json_text(holds: Holds, value: &Value) -> String {
    match value {
        Value::String(text) if holds != Holds::Scalar => text.clone(),
        value => value.to_string(),
    }
}

fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    push_value(text, &mut encoded);
    encoded
}

/// Brackets in a name are what its service looks for; most read them encoded too, but not all.
fn encode_name(name: &str) -> String {
    let mut encoded = String::with_capacity(name.len());
    for part in name.split_inclusive(['[', ']']) {
        match part.strip_suffix(['[', ']']) {
            Some(before) => {
                push_value(before, &mut encoded);
                encoded.push(if part.ends_with('[') { '[' } else { ']' });
            }
            None => push_value(part, &mut encoded),
        }
    }
    encoded
}
