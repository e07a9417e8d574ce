//! Reading a YAML section so that every error says where.

pub mod secret;

pub use secret::Secret;
