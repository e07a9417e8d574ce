//! Capabilities: which one a request names, and what the service behind it is asked.

pub mod settings;

pub use settings::{Route, Settings};
