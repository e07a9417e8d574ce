//! What a stateless upstream is reminded of: whole exchanges, in a window.

use serde::{Deserialize, Serialize};

/// One message of a user and the proven reply to it. They are stored and dropped as a pair.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exchange {
    /// What the user said.
    pub user: String,
    /// The whole text of the reply.
    pub assistant: String,
}
/// tmp
pub fn window(all: &[Exchange], _: usize, _: usize) -> &[Exchange] {
    all
}
/// tmp
pub fn half(all: &[Exchange]) -> &[Exchange] {
    &all[all.len() / 2..]
}
