//! `Val`: JSON whose making and copying is counted.

use std::fmt;
use std::rc::Rc;

use indexmap::IndexMap;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use serde_json::Value;

use super::meter::{self, Limit};

/// Lists and objects within each other.
const DEPTH_MAX: u16 = 512;

/// Bytes that an entry takes beside its own.
const ENTRY_BYTES: usize = 64;

/// An object's entries, in the order in which they came.
pub(super) type Entries = IndexMap<Rc<str>, Val>;

/// A value of a mapping.
#[derive(Debug, Default)]
pub enum Val {
    /// `null`.
    #[default]
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// Any other number.
    Float(f64),
    /// Text.
    Text(Rc<str>),
    /// A list, and how deep it is.
    List(Rc<Vec<Val>>, u16),
    /// An object, and how deep it is.
    Object(Rc<Entries>, u16),
}

impl Clone for Val {
    fn clone(&self) -> Self {
        meter::step();
        match self {
            Self::Null => Self::Null,
            Self::Bool(truth) => Self::Bool(*truth),
            Self::Int(number) => Self::Int(*number),
            Self::Float(number) => Self::Float(*number),
            Self::Text(text) => Self::Text(Rc::clone(text)),
            Self::List(items, depth) => Self::List(Rc::clone(items), *depth),
            Self::Object(entries, depth) => Self::Object(Rc::clone(entries), *depth),
        }
    }
}

impl Val {
    /// Text, counted.
    pub fn text(text: &str) -> Self {
        meter::bytes(text.len());
        Self::Text(text.into())
    }

    /// A list, counted.
    pub(super) fn list(items: Vec<Self>) -> Self {
        meter::bytes(items.len() * size_of::<Self>());
        let depth = deeper(items.iter());
        Self::List(Rc::new(items), depth)
    }

    /// An object, counted.
    pub(super) fn object(entries: Entries) -> Self {
        meter::bytes(entries.len() * ENTRY_BYTES);
        let depth = deeper(entries.values());
        Self::Object(Rc::new(entries), depth)
    }

    /// How deep it is: 0 for what holds nothing.
    pub(super) fn depth(&self) -> u16 {
        match self {
            Self::List(_, depth) | Self::Object(_, depth) => *depth,
            _ => 0,
        }
    }

    /// As JSON, of at most so many bytes.
    pub fn to_json(&self, most: usize) -> Option<Vec<u8>> {
        let mut room = Room { bytes: Vec::new(), most };
        serde_json::to_writer(&mut room, self).ok().map(|()| room.bytes)
    }
}

/// One more than the deepest of these.
pub(super) fn deeper<'v>(values: impl Iterator<Item = &'v Val>) -> u16 {
    let depth = values.map(Val::depth).max().unwrap_or(0) + 1;
    if depth > DEPTH_MAX { meter::end(Limit::Depth) } else { depth }
}

impl From<&Value> for Val {
    fn from(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(truth) => Self::Bool(*truth),
            Value::Number(number) => {
                number.as_i64().map_or_else(|| Self::Float(number.as_f64().unwrap_or_default()), Self::Int)
            }
            Value::String(text) => Self::text(text),
            Value::Array(items) => Self::list(items.iter().map(Self::from).collect()),
            Value::Object(entries) => {
                Self::object(entries.iter().map(|(key, value)| (key.as_str().into(), Self::from(value))).collect())
            }
        }
    }
}

impl From<Val> for Value {
    fn from(value: Val) -> Self {
        serde_json::to_value(&value).unwrap_or_default()
    }
}

/// As JSON; a number that JSON has not is what jq writes for it.
impl fmt::Display for Val {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.counted_json()))
    }
}

impl Val {
    /// As JSON, counted as it is written.
    pub(super) fn counted_json(&self) -> Vec<u8> {
        struct Counted(Vec<u8>);
        impl std::io::Write for Counted {
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                meter::bytes(bytes.len());
                self.0.extend_from_slice(bytes);
                Ok(bytes.len())
            }

            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let mut counted = Counted(Vec::new());
        // Nothing fails where the output is memory.
        drop(serde_json::to_writer(&mut counted, self));
        counted.0
    }
}

struct Room {
    bytes: Vec<u8>,
    most: usize,
}

impl std::io::Write for Room {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.bytes.len() + bytes.len() > self.most {
            return Err(std::io::ErrorKind::StorageFull.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The largest number in place of an infinite one, as jq has it.
pub(super) fn finite(number: f64) -> Option<f64> {
    if number.is_nan() { None } else { Some(number.clamp(f64::MIN, f64::MAX)) }
}

impl Serialize for Val {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(truth) => serializer.serialize_bool(*truth),
            Self::Int(number) => serializer.serialize_i64(*number),
            Self::Float(number) => match finite(*number) {
                None => serializer.serialize_unit(),
                // 1e15 is written as a whole number, as people expect of `2 * 0.5`.
                Some(number) if number.fract() == 0.0 && number.abs() < 1e15 => serializer.serialize_i64(number as i64),
                Some(number) => serializer.serialize_f64(number),
            },
            Self::Text(text) => serializer.serialize_str(text),
            Self::List(items, _) => {
                let mut list = serializer.serialize_seq(Some(items.len()))?;
                items.iter().try_for_each(|item| list.serialize_element(item))?;
                list.end()
            }
            Self::Object(entries, _) => {
                let mut object = serializer.serialize_map(Some(entries.len()))?;
                entries.iter().try_for_each(|(key, value)| object.serialize_entry(&**key, value))?;
                object.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Val {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reading)
    }
}

struct Reading;

impl<'de> Visitor<'de> for Reading {
    type Value = Val;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Val, E> {
        Ok(Val::Null)
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Val, E> {
        Ok(Val::Bool(truth))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Val, E> {
        Ok(Val::Int(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Val, E> {
        Ok(i64::try_from(number).map_or(Val::Float(number as f64), Val::Int))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Val, E> {
        Ok(Val::Float(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Val, E> {
        Ok(Val::Text(text.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Val, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        let depth = list.iter().map(Val::depth).max().unwrap_or(0) + 1;
        // The parser has an end of nesting below ours.
        if depth > DEPTH_MAX { Err(A::Error::custom("too deep")) } else { Ok(Val::List(Rc::new(list), depth)) }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Val, A::Error> {
        let mut object = Entries::new();
        while let Some((key, value)) = entries.next_entry::<Box<str>, Val>()? {
            object.insert(key.into(), value);
        }
        let depth = object.values().map(Val::depth).max().unwrap_or(0) + 1;
        if depth > DEPTH_MAX { Err(A::Error::custom("too deep")) } else { Ok(Val::Object(Rc::new(object), depth)) }
    }
}
