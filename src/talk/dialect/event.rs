//! `Event`: what a reply brings, whatever its dialect.

use serde_json::{Map, Value};

/// Something that a reply brought.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Event {
    /// Text of the reply; never empty.
    Text(String),
    /// A hint of the protocol.
    Hint { name: &'static str, fields: Map<String, Value> },
    /// The end of a frame that was no keep-alive and no failure. Several in a row may be told as one.
    Frame,
}

impl Event {
    /// A hint with those of these fields that have a value.
    pub(crate) fn hint(name: &'static str, fields: impl IntoIterator<Item = (&'static str, Value)>) -> Self {
        let fields = fields.into_iter().filter(|(_, value)| !value.is_null());
        Self::Hint { name, fields: fields.map(|(key, value)| (key.to_owned(), value)).collect() }
    }
}
