//! What operators see: logs, metrics, readiness.

pub mod settings;

pub use settings::Settings;
