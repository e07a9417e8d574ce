//! A turn of talk without I/O: a request becomes a prompt, an upstream's bytes become legal frames.

pub mod settings;

pub use settings::Settings;
