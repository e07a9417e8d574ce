//! Reading a YAML section so that every error says where.

pub mod document;
pub mod fields;
pub mod slot;
pub mod value;

pub mod json_schema;
pub mod period;
pub mod secret;
pub mod size;
mod variable;

pub mod file;

pub mod diagnostic;
mod excerpt;
pub mod mismatch;
mod nearest;
pub mod report;

pub use diagnostic::{Colour, Diagnostic, Severity};
pub use document::{Document, Kind, Node};
pub use excerpt::Excerpt;
pub use fields::Fields;
pub use json_schema::JsonSchema;
pub use mismatch::{Mismatch, joined};
pub use nearest::nearest;
pub use period::Period;
pub use report::{Problem, Report};
pub use secret::Secret;
pub use size::ByteSize;
pub use slot::{Slot, Switch};
pub use value::{ReadableFile, Scalar, Value, Written};
