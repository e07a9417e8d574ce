//! `Opening`: what a turn knows before its request is sent.

use std::sync::Arc;
use std::time::Duration;

use crate::restap::{Delivery, SessionId};
use crate::talk::{Dialect, Saved};
use crate::yaml::Secret;

/// What a turn knows before its request is sent.
pub struct Opening {
    /// How the upstream talks.
    pub dialect: Arc<Dialect>,
    /// Whether the upstream was asked to stream.
    pub streamed: bool,
    /// What the caller gets.
    pub delivery: Delivery,
    /// The id of the reply's message, one for all its frames.
    pub message_id: String,
    /// Echoed exactly when the agent continues turns; else `None`.
    pub session_id: Option<SessionId>,
    /// When the upstream is too slow.
    pub timers: Timers,
    /// Bytes of text of one reply, and of a body that is read whole.
    pub reply_limit: usize,
    /// What the request carries that a second attempt may leave out.
    pub carries: Carries,
    /// What the upstream gave at the last turn.
    pub saved: Saved,
    /// Hidden where an upstream repeats it in an error.
    pub credential: Option<Secret>,
}

/// When an upstream is too slow.
#[derive(Debug, Clone, Copy)]
pub struct Timers {
    /// From the request until the answer's first byte, its head among them.
    pub first_byte: Duration,
    /// Between any two bytes.
    pub idle: Duration,
    /// Between any two events; keep-alives do not count.
    pub progress: Duration,
    /// Over the whole turn; off unless set.
    pub total: Option<Duration>,
}

impl Default for Timers {
    fn default() -> Self {
        Self {
            first_byte: Duration::from_mins(5),
            idle: Duration::from_mins(2),
            progress: Duration::from_mins(5),
            total: None,
        }
    }
}

/// What a request carries from earlier turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carries {
    /// Nothing that could be left out.
    Nothing,
    /// Pairs of history.
    History,
    /// Values that the upstream gave.
    Saved,
}
