//! Reading a YAML section so that every error says where.

pub mod diagnostic;
pub mod secret;

pub use diagnostic::{Colour, Diagnostic, Severity};
pub use secret::Secret;
