//! `Turn`: one message and its reply, as a state machine that the gateway drives.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, StatusCode};

use super::Failure;
use super::dialect::{Dialect, Saved};
use crate::restap::talk::TalkReply;
use crate::restap::{Delivery, SessionId};
use crate::yaml::Secret;

/// The longest wait for the first event before the head goes out without one.
pub const HEAD_WITHIN: Duration = Duration::from_secs(10);
/// The longest silence between two writes of an open stream.
pub const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(15);
/// How long the upstream may still add usage or a sentinel after the end of its reply.
pub const GRACE: Duration = Duration::from_secs(1);

/// What a turn knows before its request is sent.
#[derive(Debug)]
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
    /// Bytes of text of one reply, and of a JSON body that is read whole.
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
    /// From the request's end until the answer's first byte.
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

/// What the gateway does after an input.
#[derive(Debug)]
pub enum Step {
    /// Nothing; go on reading.
    Wait,
    /// Send these bytes (in front of the first ones the head, 200 `text/event-stream`); go on reading.
    Write(Bytes),
    /// Drop the exchange, render the request again without what [`Again`] names, call [`Turn::again`], and send it.
    Retry(Again),
    /// A RESTAP upstream will answer under this query id. Follow it, then call [`Turn::answer`] or [`Turn::fail`];
    /// [`Turn::tick`] goes on meanwhile.
    Pending(String),
    /// The turn is over; drop the exchange.
    Over(Ending),
}

/// What a second attempt leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    /// Half of the history: the upstream's context overflowed.
    WithHalfTheHistory,
    /// The saved values: the upstream does not know them any more.
    WithoutSaved,
}

/// How a turn reaches its caller at the end.
#[derive(Debug)]
pub enum Ending {
    /// The last bytes of a stream (with the head in front, if nothing was sent yet); then close the body.
    Stream(Bytes),
    /// 200 and this body.
    Reply(TalkReply),
    /// Nothing was sent: an HTTP status.
    Refused(Failure),
}

/// How a turn went, for the history, the log and the metrics.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// The whole text of a reply with a proven end. Only this may enter the history.
    pub reply: Option<String>,
    /// Why there is none, in a stream too.
    pub failure: Option<Failure>,
    /// Pieces of text.
    pub deltas: u64,
    /// From the turn's begin to its first piece of text.
    pub first_delta: Option<Duration>,
}

/// One message and its reply.
#[derive(Debug)]
pub struct Turn {
    opening: Opening,
    began: Instant,
    outcome: Outcome,
}

impl Turn {
    /// Begins when the request is about to be sent.
    pub fn begin(opening: Opening, now: Instant) -> Self {
        Self { opening, began: now, outcome: Outcome::default() }
    }

    /// The upstream's head.
    pub fn head(&mut self, status: StatusCode, headers: &HeaderMap, now: Instant) -> Step {
        let _ = (status, headers, now);
        Step::Wait
    }

    /// Bytes of the upstream's body, cut anywhere.
    pub fn chunk(&mut self, bytes: &[u8], now: Instant) -> Step {
        let _ = (bytes, now);
        Step::Wait
    }

    /// The upstream's body ended as HTTP wants it.
    pub fn end(&mut self, now: Instant) -> Step {
        let _ = now;
        Step::Wait
    }

    /// The upstream's body broke off.
    pub fn reset(&mut self, now: Instant) -> Step {
        let _ = now;
        Step::Wait
    }

    /// Something else went wrong: no connection ([`Failure::unreachable`]), a shutdown, a followed query that failed.
    pub fn fail(&mut self, failure: Failure, now: Instant) -> Step {
        let _ = (failure, now);
        Step::Wait
    }

    /// The whole text of a reply with a proven end that did not come as bytes: the guide's, or a followed query's.
    pub fn answer(&mut self, text: &str, now: Instant) -> Step {
        let _ = (text, now);
        Step::Wait
    }

    /// The request is about to be sent again ([`Step::Retry`]).
    pub fn again(&mut self, now: Instant) {
        self.began = now;
    }

    /// When [`Turn::tick`] is due at the latest; `None` once the turn is over.
    pub fn next_deadline(&self) -> Option<Instant> {
        Some(self.began + self.opening.timers.first_byte)
    }

    /// The time is `now`. May come at any time, also too early.
    pub fn tick(&mut self, now: Instant) -> Step {
        let _ = now;
        Step::Wait
    }

    /// How it went; complete once the turn is over.
    pub fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    /// What the next turn of this conversation gives to the upstream. Store it after a proven end.
    pub fn saved(&self) -> &Saved {
        &self.opening.saved
    }
}
