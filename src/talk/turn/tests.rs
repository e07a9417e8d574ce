//! Turns against the cases of tests/cases/talk.json, and against the clock.

use std::fmt::Write as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderName;
use serde::Deserialize;
use serde_json::{Value, json};

use super::*;

#[derive(Deserialize)]
struct Cases {
    cases: Vec<Case>,
}

/// One reply of an upstream, and what a caller must see of it.
#[derive(Deserialize)]
struct Case {
    id: String,
    dialect: String,
    want: String,
    content_type: String,
    status: u16,
    #[serde(default)]
    headers: std::collections::BTreeMap<String, String>,
    #[serde(default)]
    close: Option<String>,
    #[serde(default)]
    delays_ms: Vec<u64>,
    #[serde(default)]
    timers_ms: std::collections::BTreeMap<String, u64>,
    chunks: Vec<String>,
    expect: Expect,
}

#[derive(Deserialize)]
struct Expect {
    reply: Option<String>,
    http_status: Option<u16>,
    frames: Option<Vec<Value>>,
    error_contains: Option<String>,
    must_not_contain: Option<String>,
    conversation: Option<Value>,
}

/// What a caller saw.
#[derive(Debug, Clone, PartialEq)]
struct Seen {
    /// Frames without ids, deltas in a row joined.
    frames: Vec<Value>,
    refused: Option<(u16, String)>,
    reply: Option<String>,
    conversation: Option<Value>,
}

impl Case {
    fn all() -> Vec<Self> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/talk.json");
        serde_json::from_str::<Cases>(&std::fs::read_to_string(path).unwrap()).unwrap().cases
    }

    fn chunks(&self) -> Vec<Vec<u8>> {
        self.chunks.iter().map(|chunk| STANDARD.decode(chunk).unwrap()).collect()
    }

    fn timers(&self) -> Timers {
        let ms = |name: &str, default| self.timers_ms.get(name).map_or(default, |ms| Duration::from_millis(*ms));
        let default = Timers::default();
        Timers {
            first_byte: ms("first_byte", default.first_byte),
            idle: ms("idle", default.idle),
            progress: ms("progress", default.progress),
            total: None,
        }
    }

    fn run(&self, dialect: &Arc<Dialect>, chunks: &[impl AsRef<[u8]>], delivery: Delivery) -> Seen {
        let mut now = Instant::now();
        let opening = Opening { timers: self.timers(), ..opening(dialect, self.want == "stream", delivery) };
        let mut caller = Caller::new(opening, now);
        let mut headers = HeaderMap::new();
        if !self.content_type.is_empty() {
            headers.insert("content-type", self.content_type.parse().unwrap());
        }
        for (name, value) in &self.headers {
            headers.insert(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        }
        let step = caller.turn.head(StatusCode::from_u16(self.status).unwrap(), &headers, now);
        caller.take(step);
        for (index, chunk) in chunks.iter().enumerate() {
            now = caller.wait_until(now + Duration::from_millis(self.delays_ms.get(index).copied().unwrap_or(0)));
            let step = caller.turn.chunk(chunk.as_ref(), now);
            caller.take(step);
        }
        match self.close.as_deref() {
            None | Some("eof") => {
                let step = caller.turn.end(now);
                caller.take(step);
            }
            Some("reset") => {
                let step = caller.turn.reset(now);
                caller.take(step);
            }
            Some(_) => {
                caller.wait_until(now + Duration::from_hours(1));
            }
        }
        caller.seen()
    }

    fn check(&self, seen: &Seen, delivery: Delivery) -> Result<(), String> {
        let expect = &self.expect;
        if let Some(conversation) = &expect.conversation
            && seen.conversation.as_ref() != Some(conversation)
        {
            return Err(format!("conversation {:?}", seen.conversation));
        }
        let told = seen.refused.as_ref().map(|(_, message)| message.clone()).or_else(|| {
            seen.frames.iter().find(|frame| frame["event"] == "error").map(|frame| frame["message"].to_string())
        });
        if let Some(part) = &expect.error_contains
            && !told.as_ref().is_some_and(|told| told.contains(part))
        {
            return Err(format!("the error is {told:?}, without {part:?}"));
        }
        if let Some(part) = &expect.must_not_contain
            && told.is_some_and(|told| told.contains(part))
        {
            return Err(format!("the error tells {part:?}"));
        }
        let mut frames = joined(expect.frames.clone().unwrap_or_default());
        match (delivery, &seen.refused) {
            (Delivery::Json, refused) => {
                let status = refused.as_ref().map(|(status, _)| *status);
                if (&seen.reply, status) != (&expect.reply, expect.http_status) {
                    return Err(format!("{:?} {refused:?}", seen.reply));
                }
            }
            // Where the first event is the failure there is no stream.
            (Delivery::Stream, Some((status, _))) => {
                let spoke = frames.iter().any(|frame| frame["event"] == "message.delta");
                if expect.http_status != Some(*status) || spoke {
                    return Err(format!("refused with {status}"));
                }
            }
            (Delivery::Stream, None) => {
                let mut shown = seen.frames.clone();
                for frame in shown.iter_mut().chain(&mut frames) {
                    let frame = frame.as_object_mut().unwrap();
                    frame.retain(|key, _| matches!(key.as_str(), "event" | "text" | "name" | "url"));
                }
                if shown != frames {
                    return Err(format!("{shown:?}"));
                }
            }
        }
        Ok(())
    }
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

fn dialect(name: &str) -> Arc<Dialect> {
    Arc::new(Dialect::built_in(name).unwrap())
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
                if let Ending::Stream(bytes) = &ending {
                    self.sent.extend(bytes);
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

const DELIVERIES: [Delivery; 2] = [Delivery::Stream, Delivery::Json];

#[test]
fn every_case_reads_as_it_must() {
    let mut wrong = String::new();
    for case in Case::all() {
        let dialect = dialect(&case.dialect);
        for delivery in DELIVERIES {
            let seen = case.run(&dialect, &case.chunks(), delivery);
            if let Err(why) = case.check(&seen, delivery) {
                let _ = writeln!(wrong, "{} as {delivery:?}: {why}", case.id);
            }
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}
