//! `Value`: types that stand as a value in a file, and how they are written.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Map, Value as Json, json};

use super::document::Kind;
use super::file;
use super::mismatch::{Mismatch, parse, text};
use super::report::Problem;
use super::slot::{Slot, text_like};
use super::{ByteSize, Period};

/// A type that stands as a value in a file.
pub trait Value: Sized {
    /// Reads or describes the value of a slot.
    fn take(slot: Slot<'_, '_>) -> Option<Self>;
}

/// How a default is written in a file.
pub trait Written {
    /// The value as JSON Schema's `default` shows it.
    fn written(&self) -> Json;
}

impl Value for bool {
    fn take(slot: Slot<'_, '_>) -> Option<Self> {
        slot.boolean()
    }
}

impl Value for u32 {
    fn take(slot: Slot<'_, '_>) -> Option<Self> {
        slot.integer(0..=Self::MAX)
    }
}

impl Value for String {
    fn take(slot: Slot<'_, '_>) -> Option<Self> {
        slot.text()
    }
}

impl Value for ByteSize {
    fn take(slot: Slot<'_, '_>) -> Option<Self> {
        let schema = json!({"anyOf": [
            {"type": "integer", "minimum": 1},
            text_like(Self::PATTERN),
        ]});
        let expects = "a size such as 512KiB or 1MiB";
        slot.value(schema, |node| match (node.kind(), node.as_whole_number()) {
            (Kind::Text(text), _) => parse(text, expects),
            (_, Some(bytes)) if bytes >= 0 => parse(&bytes.to_string(), expects),
            _ => Err(Mismatch::found(node, expects)),
        })
    }
}

impl Value for Period {
    fn take(slot: Slot<'_, '_>) -> Option<Self> {
        let expects = "a period such as 250ms, 30s or 1h";
        slot.value(text_like(Self::PATTERN), |node| match node.kind() {
            Kind::Integer(number) => Err(Mismatch::found(node, expects).help(format!("say the unit: {number}s"))),
            _ => parse(text(node, expects)?, expects),
        })
    }
}

/// Text, or a number or boolean as it is written: what a version or the value of a header may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scalar(pub String);

impl Value for Scalar {
    fn take(slot: Slot<'_, '_>) -> Option<Self> {
        slot.value(json!({"type": ["string", "number", "boolean"]}), |node| match node.kind() {
            Kind::Text(text) => Ok(Self(text.to_owned())),
            Kind::Bool(_) | Kind::Integer(_) | Kind::Float(_) => Ok(Self(node.written().to_owned())),
            _ => Err(Mismatch::found(node, "text")),
        })
    }
}

impl From<Scalar> for String {
    fn from(scalar: Scalar) -> Self {
        scalar.0
    }
}

/// A path, relative to the file that it stands in.
impl Value for PathBuf {
    fn take(slot: Slot<'_, '_>) -> Option<Self> {
        slot.value(json!({"type": "string", "minLength": 1}), |node| match text(node, "a path")? {
            "" => Err(Mismatch::new("the path is empty")),
            path => Ok(node.document().directory().join(path)),
        })
    }
}

/// The path of a file that can be read, relative to the file that names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadableFile(pub PathBuf);

impl Value for ReadableFile {
    fn take(slot: Slot<'_, '_>) -> Option<Self> {
        let (node, report) = (slot.node(), slot.report());
        let path = PathBuf::take(slot)?;
        report?.file(path.clone());
        if let Err(reason) = file::is_readable(&path) {
            report?.add(Problem::error(node?, reason));
        }
        Some(Self(path))
    }
}

impl From<ReadableFile> for PathBuf {
    fn from(file: ReadableFile) -> Self {
        file.0
    }
}

impl Value for http::HeaderName {
    fn take(slot: Slot<'_, '_>) -> Option<Self> {
        slot.value(json!({"type": "string"}), |node| {
            let name = text(node, "the name of a header")?;
            name.parse().map_err(|_| Mismatch::new(format!("{:?} can't be the name of a header", node.written())))
        })
    }
}

impl Value for Map<String, Json> {
    fn take(slot: Slot<'_, '_>) -> Option<Self> {
        slot.map_of_json()
    }
}

impl<T: Value> Value for Vec<T> {
    fn take(slot: Slot<'_, '_>) -> Option<Self> {
        slot.list(T::take)
    }
}

impl Written for bool {
    fn written(&self) -> Json {
        json!(self)
    }
}

impl Written for u32 {
    fn written(&self) -> Json {
        json!(self)
    }
}

impl Written for u64 {
    fn written(&self) -> Json {
        json!(self)
    }
}

impl Written for String {
    fn written(&self) -> Json {
        json!(self)
    }
}

impl Written for http::Method {
    fn written(&self) -> Json {
        json!(self.as_str())
    }
}

impl Written for ByteSize {
    fn written(&self) -> Json {
        json!(self.to_string())
    }
}

impl Written for Period {
    fn written(&self) -> Json {
        json!(self.to_string())
    }
}

impl From<ByteSize> for u64 {
    fn from(size: ByteSize) -> Self {
        size.0
    }
}

impl From<Period> for Duration {
    fn from(period: Period) -> Self {
        period.0
    }
}
