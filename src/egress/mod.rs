//! The outbound tool: `rest_request`, with which an agent calls web APIs and other agents.
//!
//! The model that chooses the URL may be reading what a stranger wrote, so the agent's own requests are held to a
//! stranger's rules: the guard of `net` decides where they may lead, nothing that this process holds in secret leaves
//! with them, and whom they come from can be checked by their signature.

pub mod settings;

pub mod definition;
pub mod tool;

mod answer;
pub mod held;
pub mod refused;
mod request;
mod signing;
mod views;

pub use held::Held;
pub use refused::{Code, Refused};
pub use settings::Settings;
pub use signing::{Signing, Unsigned};
pub use tool::{Audit, Hop, Outcome, Tool};
