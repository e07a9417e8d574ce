//! The services that do the work: where they are and how they are spoken to.

pub mod settings;

pub use settings::Settings;
