//! The only door out: every connection that the gateway itself opens.

pub mod origin;

pub use origin::{Origin, Url};
