//! `Step`: what the gateway does after an input, and how a turn went in the end.

use std::time::Duration;

use bytes::Bytes;

use crate::restap::talk::TalkReply;
use crate::talk::{Again, Failure};

/// What the gateway does after an input.
pub enum Step {
    /// Nothing; go on reading.
    Wait,
    /// Send these bytes (in front of the first ones the head, 200 `text/event-stream`); go on reading.
    Write(Bytes),
    /// Drop the exchange, render the request without what [`Again`] names, call [`super::Turn::again`], and send it.
    Retry(Again),
    /// A RESTAP upstream will answer under this query id, which is as it gave it: to be encoded in a path, and never
    /// told to the caller. Follow it ([`crate::talk::follow`]), then call [`super::Turn::answer`] or [`super::Turn::fail`];
    /// [`super::Turn::tick`] goes on meanwhile.
    Pending(String),
    /// The turn is over; drop the exchange.
    Over(Ending),
}

/// How a turn reaches its caller at the end.
pub enum Ending {
    /// The last bytes of a stream (with the head in front, if nothing was sent yet); then close the body.
    Stream {
        /// What came before the end and was not written yet. It proves nothing, so it need not wait.
        rest: Bytes,
        /// The end or the error, and done.
        end: Bytes,
    },
    /// 200 and this body.
    Reply(TalkReply),
    /// Nothing was sent: an HTTP status.
    Refused(Failure),
}

/// How a turn went, for the history, the log and the metrics.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// The reply, once its end is proven. Only this may enter the history.
    pub reply: Option<TalkReply>,
    /// Why there is none, in a stream too.
    pub failure: Option<Failure>,
    /// Pieces of text.
    pub deltas: u64,
    /// From the turn's begin to its first piece of text.
    pub first_delta: Option<Duration>,
}
