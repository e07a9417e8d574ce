//! A turn of talk without I/O: a request becomes a prompt, an upstream's bytes become legal frames.

pub mod settings;

pub mod dialect;
pub mod history;
pub mod news_note;

pub mod failure;
mod frames;
pub mod turn;

pub mod follow;
pub mod guide;

pub use dialect::{Conversation, Dialect, Prompt, Rendered, Saved};
pub use failure::{Again, Failure};
pub use history::{Exchange, History};
pub use settings::Settings;
pub use turn::{Ending, Opening, Step, Turn};
