//! A gateway that does what its turn says, and the tests that it runs.

use serde_json::{Value, json};

use super::*;
use crate::talk::Dialect;

mod captures;
mod cases;
mod clock;

const DELIVERIES: [Delivery; 2] = [Delivery::Stream, Delivery::Json];

/// What a caller saw.
#[derive(Debug, Clone, PartialEq)]
struct Seen {
    /// Frames without ids, deltas in a row joined.
    frames: Vec<Value>,
    refused: Option<(u16, String)>,
    reply: Option<String>,
    conversation: Option<Value>,
}

fn opening(dialect: &Arc<Dialect>, streamed: bool, delivery: Delivery) -> Opening {
    Opening {
        dialect: Arc::clone(dialect),
        streamed,
        delivery,
        message_id: "msg_1".to_owned(),
        session_id: None,
        timers: Timers::default(),
        reply_limit: 8 << 20,
        carries: Carries::Nothing,
        saved: Saved::new(),
        credential: None,
    }
}

/// A built-in dialect, or the mapping of one's own.
fn dialect(name: &str) -> Arc<Dialect> {
    let own = || Dialect::compile(&serde_yaml::from_str(name).unwrap()).unwrap();
    Arc::new(Dialect::built_in(name).unwrap_or_else(own))
}

/// A gateway that does what its turn says, and keeps what the caller was sent.
struct Caller {
    turn: Turn,
    sent: Vec<u8>,
    ending: Option<Ending>,
    pending: Option<String>,
    now: Instant,
}

impl Caller {
    fn new(opening: Opening, now: Instant) -> Self {
        Self { turn: Turn::begin(opening, now), sent: Vec::new(), ending: None, pending: None, now }
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Wait => {}
            Step::Write(bytes) => self.sent.extend(bytes),
            Step::Pending(id) => self.pending = Some(id),
            Step::Retry(again) => panic!("{again:?} was not offered"),
            Step::Over(ending) => {
                assert!(self.ending.is_none(), "a turn ends once");
                if let Ending::Stream { rest, end } = &ending {
                    let proves = |line: &str| line == "event: message.end" || line == "event: error";
                    let [rest_text, end_text] = [rest, end].map(|bytes| std::str::from_utf8(bytes).unwrap());
                    assert!(end_text.lines().next().is_some_and(proves), "{end_text}");
                    assert!(!rest_text.lines().any(proves), "{rest_text}");
                    self.sent.extend(rest);
                    self.sent.extend(end);
                }
                self.ending = Some(ending);
            }
        }
    }

    fn wait_until(&mut self, until: Instant) -> Instant {
        while let Some(due) = self.turn.next_deadline().filter(|due| *due <= until) {
            self.now = self.now.max(due);
            let step = self.turn.tick(self.now);
            self.take(step);
        }
        self.now = until;
        until
    }

    /// What was sent, as a client reads it.
    fn frames(&self) -> Vec<Value> {
        let mut decoder = crate::sse::Decoder::new(1 << 24);
        let mut rest = &self.sent[..];
        let mut frames = Vec::new();
        while let Some(frame) = decoder.next(&mut rest).unwrap() {
            let mut data: Value = serde_json::from_str(frame.data.as_deref().unwrap()).unwrap();
            assert_eq!(data["event"], frame.name.as_deref().unwrap());
            data.as_object_mut().unwrap().shift_remove("id");
            frames.push(data);
        }
        assert_eq!(decoder.finish(), None, "a stream ends with a whole frame");
        frames
    }

    fn seen(&self) -> Seen {
        let outcome = self.turn.outcome();
        let ending = self.ending.as_ref().expect("the turn is over");
        let refused = match ending {
            Ending::Refused(failure) => Some((status(failure.code), failure.message.clone())),
            _ => None,
        };
        if let Ending::Reply(reply) = ending {
            assert_eq!(Some(&reply.reply), outcome.reply.as_ref().map(|reply| &reply.reply));
        }
        assert_ne!(outcome.reply.is_some(), outcome.failure.is_some());
        Seen {
            frames: joined(self.frames()),
            refused,
            reply: outcome.reply.as_ref().map(|reply| reply.reply.clone()),
            conversation: self.turn.saved().get("conversation").cloned(),
        }
    }
}

/// The status that the gateway gives a code.
fn status(code: ErrorCode) -> u16 {
    match code {
        ErrorCode::UpstreamRateLimited => 429,
        ErrorCode::UpstreamUnavailable => 503,
        ErrorCode::UpstreamTimeout => 504,
        _ => 502,
    }
}

/// Deltas in a row as one: a gateway may merge and split them.
fn joined(frames: Vec<Value>) -> Vec<Value> {
    let mut joined: Vec<Value> = Vec::new();
    for frame in frames {
        match joined.last_mut() {
            Some(last)
                if ["message.delta", "tool.delta"]
                    .iter()
                    .any(|name| last["event"] == *name && frame["event"] == *name) =>
            {
                last["text"] = format!("{}{}", last["text"].as_str().unwrap(), frame["text"].as_str().unwrap()).into();
            }
            _ => joined.push(frame),
        }
    }
    joined
}
