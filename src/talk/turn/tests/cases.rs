//! The cases of tests/cases: replies of upstreams as bytes, and what a caller must see of them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderName;
use serde::Deserialize;
use serde_json::Map;

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
    headers: BTreeMap<String, String>,
    #[serde(default)]
    close: Option<String>,
    #[serde(default)]
    delays_ms: Vec<u64>,
    #[serde(default)]
    timers_ms: BTreeMap<String, u64>,
    chunks: Vec<String>,
    expect: Expect,
}

#[derive(Default, Deserialize)]
struct Expect {
    reply: Option<String>,
    http_status: Option<u16>,
    frames: Option<Vec<Value>>,
    error_contains: Option<String>,
    must_not_contain: Option<String>,
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

    fn run(&self, dialect: &Arc<Dialect>, chunks: &[impl AsRef<[u8]>], delivery: Delivery) -> Caller {
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
        caller
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

/// A case that was written by hand.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    id: String,
    dialect: String,
    #[serde(default = "stream")]
    want: String,
    #[serde(default = "event_stream")]
    content_type: String,
    #[serde(default = "ok")]
    status: u16,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    close: Option<String>,
    bytes: Value,
    sees: Sees,
    /// The text of a stream, where it is another.
    streamed: Option<String>,
    finish_reason: Option<String>,
    usage: Option<Value>,
    suggested_actions: Option<Value>,
    saved: Option<Map<String, Value>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Sees {
    Reply(String),
    Failure {
        code: String,
        says: Option<String>,
        after: Option<String>,
        /// The head was out before the failure came.
        #[serde(default)]
        late: bool,
    },
}

fn stream() -> String {
    "stream".to_owned()
}

fn event_stream() -> String {
    "text/event-stream".to_owned()
}

fn ok() -> u16 {
    200
}

impl Written {
    fn all() -> Vec<Self> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/talk-more.yaml");
        serde_yaml::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
    }

    fn case(&self) -> Case {
        let chunks = match &self.bytes {
            Value::Array(chunks) => chunks.clone(),
            one => vec![one.clone()],
        };
        let bytes = |chunk: &Value| match chunk {
            Value::String(text) => text.clone().into_bytes(),
            other => {
                let hex = other["hex"].as_str().unwrap().as_bytes();
                hex.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
            }
        };
        Case {
            id: self.id.clone(),
            dialect: self.dialect.clone(),
            want: self.want.clone(),
            content_type: self.content_type.clone(),
            status: self.status,
            headers: self.headers.clone(),
            close: self.close.clone(),
            delays_ms: Vec::new(),
            timers_ms: BTreeMap::new(),
            chunks: chunks.iter().map(|chunk| STANDARD.encode(bytes(chunk))).collect(),
            expect: Expect::default(),
        }
    }

    fn check(&self, caller: &Caller, delivery: Delivery) {
        let id = format!("{} as {delivery:?}", self.id);
        let frames = caller.frames();
        let said = |frames: &[Value]| -> String {
            let deltas = frames.iter().filter(|frame| frame["event"] == "message.delta");
            deltas.map(|frame| frame["text"].as_str().unwrap()).collect()
        };
        let ends = |expected: &[&str]| {
            let names: Vec<&str> = frames.iter().map(|frame| frame["event"].as_str().unwrap()).collect();
            assert!(names.ends_with(expected) && names.first() == Some(&"message.start"), "{id}: {names:?}");
        };
        let outcome = caller.turn.outcome();
        if let Some(saved) = &self.saved {
            assert_eq!(caller.turn.saved(), saved, "{id}");
        }
        match (&self.sees, delivery) {
            (Sees::Reply(reply), delivery) => {
                let seen = outcome.reply.as_ref().unwrap_or_else(|| panic!("{id}: {:?}", outcome.failure));
                assert_eq!(&seen.reply, reply, "{id}");
                assert_eq!(seen.finish_reason, self.finish_reason, "{id}");
                if self.usage.is_some() {
                    assert_eq!(seen.usage, self.usage, "{id}");
                }
                assert_eq!(seen.suggested_actions, self.suggested_actions, "{id}");
                if delivery == Delivery::Stream {
                    ends(&["message.end", "done"]);
                    assert_eq!(&said(&frames), self.streamed.as_ref().unwrap_or(reply), "{id}");
                    let end = &frames[frames.len() - 2];
                    assert_eq!(end["finish_reason"], json!(self.finish_reason), "{id}");
                    assert_eq!(end["suggested_actions"], json!(self.suggested_actions), "{id}");
                } else {
                    assert!(frames.is_empty(), "{id}");
                }
            }
            (Sees::Failure { code, says, after, late }, delivery) => {
                let failure = outcome.failure.as_ref().unwrap_or_else(|| panic!("{id}: {:?}", outcome.reply));
                assert_eq!(failure.code.as_str(), code, "{id}");
                let says = says.as_deref().unwrap_or_default();
                assert!(failure.message.contains(says), "{id}: {failure}");
                assert!(!failure.message.contains("sk-abc"), "{id}: {failure}");
                let in_stream = delivery == Delivery::Stream && (after.is_some() || *late);
                assert_eq!(matches!(caller.ending, Some(Ending::Refused(_))), !in_stream, "{id}: {failure}");
                if in_stream {
                    ends(&["error", "done"]);
                    assert_eq!(said(&frames), after.as_deref().unwrap_or_default(), "{id}");
                    assert!(!frames.iter().any(|frame| frame["event"] == "message.end"), "{id}");
                }
            }
        }
    }
}

#[test]
fn every_case_reads_as_it_must() {
    let mut wrong = String::new();
    for case in Case::all() {
        let dialect = dialect(&case.dialect);
        for delivery in DELIVERIES {
            let seen = case.run(&dialect, &case.chunks(), delivery).seen();
            if let Err(why) = case.check(&seen, delivery) {
                let _ = writeln!(wrong, "{} as {delivery:?}: {why}", case.id);
            }
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn every_written_case_reads_as_it_must() {
    for written in Written::all() {
        let case = written.case();
        let dialect = dialect(&case.dialect);
        for delivery in DELIVERIES {
            written.check(&case.run(&dialect, &case.chunks(), delivery), delivery);
        }
    }
}

/// Where a body is cut in two: everywhere in a small one, around every line ending in a large one.
fn cuts(body: &[u8]) -> Vec<usize> {
    let all = 0..=body.len();
    if body.len() <= 4096 {
        return all.collect();
    }
    let near_line_end = |at: &usize| {
        body[at.saturating_sub(2)..(at + 2).min(body.len())].iter().any(|byte| matches!(byte, b'\r' | b'\n'))
    };
    all.filter(near_line_end).collect()
}

#[test]
fn no_case_depends_on_where_its_bytes_are_cut() {
    let written: Vec<Case> = Written::all().iter().map(Written::case).collect();
    for case in Case::all().iter().chain(&written).filter(|case| case.delays_ms.is_empty()) {
        let dialect = dialect(&case.dialect);
        let body = case.chunks().concat();
        for delivery in DELIVERIES {
            let whole = case.run(&dialect, &[&body], delivery).seen();
            let bytes: Vec<&[u8]> = body.chunks(1).collect();
            assert_eq!(case.run(&dialect, &bytes, delivery).seen(), whole, "{} byte by byte as {delivery:?}", case.id);
        }
        let whole = case.run(&dialect, &[&body], Delivery::Stream).seen();
        for cut in cuts(&body) {
            let (one, two) = body.split_at(cut);
            assert_eq!(case.run(&dialect, &[one, two], Delivery::Stream).seen(), whole, "{} cut at {cut}", case.id);
        }
    }
}
