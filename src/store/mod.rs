//! What outlives a request: feeds, conversations and leases, on one engine.

pub mod settings;

pub use settings::{NewsSettings, Settings};
