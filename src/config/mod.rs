//! The file as a whole. A `Config` that exists is valid.

pub mod settings;

pub use settings::Config;
