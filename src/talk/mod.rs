//! A turn of talk without I/O: a request becomes a prompt, an upstream's bytes become legal frames.

pub mod dialect;
pub mod failure;
mod frames;
pub mod guide;
pub mod history;
pub mod news_note;
pub mod settings;
pub mod turn;

pub use dialect::{Dialect, Prompt, Rendered};
pub use failure::Failure;
pub use history::Exchange;
pub use settings::Settings;
pub use turn::{Ending, Opening, Step, Turn};
