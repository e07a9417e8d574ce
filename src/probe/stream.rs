//! The rules of a streamed answer, frame by frame.

use serde_json::Value;

use super::offers::{Offers, text};
use super::report::{Report, Verdict};
use super::rule::{
    STREAM_DECLARED, STREAM_DELTA, STREAM_DONE, STREAM_END, STREAM_ERROR, STREAM_EVENT, STREAM_FRAMES,
    STREAM_NEGOTIATED, STREAM_SESSION, STREAM_START,
};
use super::seen::{Answer, Flaw, Reply, Seen, short};
use crate::sse::Decoder;

/// Bytes of one frame.
const FRAME_BYTES_MAX: usize = 1 << 20;

/// Frames that are looked at.
const FRAMES_MAX: usize = 100_000;

pub(super) fn judge(seen: &Seen, offers: &Offers, report: &mut Report) {
    let answer = match &seen.talk.streamed {
        Reply::NotAsked(_) => return,
        Reply::Failed(why) => return report.note(&STREAM_NEGOTIATED, Verdict::Broken(why.clone())),
        Reply::Came(answer) => answer,
    };
    if let Some(why) = answer.withheld() {
        return report.rest("stream", Verdict::Skipped(why));
    }
    if answer.is_success() && answer.says_stream() {
        let unlisted = (offers.streaming == Some(false)).then(|| "the catalog says that it does not stream".to_owned());
        report.hold(&STREAM_NEGOTIATED, unlisted);
        return frames(answer, offers, report);
    }
    let why = match (answer.status, offers.streaming) {
        (406, Some(true)) => Some("406, although the catalog says that it streams".to_owned()),
        (406, _) => None,
        (200..300, _) => Some(format!("the answer is `{}` instead", short(&answer.content_type))),
        _ => Some(answer.told()),
    };
    if why.is_none() {
        report.rest("stream", Verdict::NotOffered("it does not stream".to_owned()));
    }
    report.hold(&STREAM_NEGOTIATED, why);
}

/// The session that a stream names in its first frame.
pub(super) fn session(reply: &Reply) -> Option<Value> {
    let answer = reply.answer().filter(|answer| answer.is_success() && answer.says_stream())?;
    let (frames, _) = read(&answer.body);
    let start = frames.into_iter().find(|frame| frame.name == "message.start")?;
    start.data?.get("session_id").filter(|it| !it.is_null()).cloned()
}

/// One frame.
struct Frame {
    name: String,
    data: Option<Value>,
}

/// The frames of a body, and whether it goes on with what is none.
fn read(body: &[u8]) -> (Vec<Frame>, Option<String>) {
    let mut decoder = Decoder::new(FRAME_BYTES_MAX);
    let (mut frames, mut rest) = (Vec::new(), body);
    while frames.len() < FRAMES_MAX {
        match decoder.next(&mut rest) {
            Ok(Some(frame)) => frames.push(Frame {
                name: frame.name.unwrap_or_default().into_owned(),
                data: frame.data.and_then(|data| serde_json::from_str(&data).ok()).filter(Value::is_object),
            }),
            Ok(None) => {
                return (frames, decoder.finish().map(|_| "the last frame is not ended by a blank line".into()));
            }
            Err(problem) => return (frames, Some(problem.to_string())),
        }
    }
    (frames, Some(format!("there are more than {FRAMES_MAX} frames")))
}

/// Where a stream is.
#[derive(Default)]
struct Course {
    /// The id of the message that has begun and not ended.
    open: Option<Value>,
    messages: usize,
    deltas: usize,
    failed: bool,
    done: usize,
    start: Option<String>,
    delta: Option<String>,
    end: Option<String>,
    error: Option<String>,
    after: Option<String>,
    member: Option<String>,
}

fn frames(answer: &Answer, offers: &Offers, report: &mut Report) {
    let (frames, unreadable) = read(&answer.body);
    let nameless = || frames.iter().any(|frame| frame.name.is_empty()).then(|| "a frame has no event line".to_owned());
    let dataless = || {
        let frame = frames.iter().find(|frame| frame.data.is_none())?;
        Some(format!("the data of `{}` is no JSON object", short(&frame.name)))
    };
    report.hold(&STREAM_FRAMES, unreadable.or_else(nameless).or_else(dataless));
    let mut course = Course::default();
    for frame in &frames {
        course.take(frame);
    }
    course.finish(answer.flaw.as_ref(), report);
    match &offers.events {
        Some(events) => {
            let unlisted = frames.iter().find(|frame| !frame.name.is_empty() && !events.contains(&frame.name));
            report.hold(&STREAM_DECLARED, unlisted.map(|frame| format!("`{}` is not listed", short(&frame.name))));
        }
        None => report.note(&STREAM_DECLARED, Verdict::NotOffered("the catalog lists no events".to_owned())),
    }
    let of = |name: &str| frames.iter().rev().find(|frame| frame.name == name).and_then(|frame| frame.data.as_ref());
    let session = |name: &str| of(name).and_then(|data| data.get("session_id")).filter(|it| !it.is_null());
    if of("message.start").is_none() {
        return;
    }
    match (session("message.start"), session("done")) {
        (None, None) if offers.sessions == Some(true) => {
            report.note(&STREAM_SESSION, Verdict::Broken("it stands on neither".to_owned()));
        }
        (None, None) => report.note(&STREAM_SESSION, Verdict::NotOffered("no session is minted".to_owned())),
        (Some(start), Some(done)) => {
            report.hold(&STREAM_SESSION, (start != done).then(|| "the two differ".to_owned()));
        }
        (Some(_), None) => report.note(&STREAM_SESSION, Verdict::Broken("it is missing on done".to_owned())),
        (None, Some(_)) => report.note(&STREAM_SESSION, Verdict::Broken("it is missing on message.start".to_owned())),
    }
}

impl Course {
    fn take(&mut self, frame: &Frame) {
        let empty = Value::Null;
        let data = frame.data.as_ref().unwrap_or(&empty);
        let id = data.get("id").filter(|it| !it.is_null()).cloned();
        if self.done > 0 {
            self.after.get_or_insert_with(|| format!("`{}` follows it", short(&frame.name)));
        }
        if data.get("event").is_some_and(|it| it.as_str() != Some(&frame.name)) {
            self.member.get_or_insert_with(|| format!("a frame `{}` says another name inside", short(&frame.name)));
        }
        match frame.name.as_str() {
            "message.start" => {
                self.messages += 1;
                if self.open.is_some() {
                    self.start.get_or_insert_with(|| "a message begins before the last has ended".to_owned());
                }
                if !id.as_ref().is_some_and(Value::is_string) {
                    self.start.get_or_insert_with(|| "it has no id".to_owned());
                }
                self.open = Some(id.unwrap_or_default());
            }
            "message.delta" => {
                self.deltas += 1;
                let problem = match &self.open {
                    None if self.messages == 0 => {
                        self.start.get_or_insert_with(|| "text comes before message.start".to_owned());
                        None
                    }
                    None => Some("text comes after message.end"),
                    Some(open) if id.as_ref() != Some(open) => Some("its id is not that of message.start"),
                    Some(_) if !data.get("text").is_some_and(Value::is_string) => Some("it has no text"),
                    Some(_) => None,
                };
                if let Some(problem) = problem {
                    self.delta.get_or_insert_with(|| problem.to_owned());
                }
            }
            "message.end" => {
                let problem = match self.open.take() {
                    // That none has begun is told once.
                    None if self.messages == 0 => None,
                    None => Some("it comes without a message that has begun"),
                    Some(open) if id.as_ref() != Some(&open) => Some("its id is not that of message.start"),
                    Some(_) => None,
                };
                if let Some(problem) = problem {
                    self.end.get_or_insert_with(|| problem.to_owned());
                }
            }
            "error" => {
                self.failed = true;
                self.open = None;
                if text(data, "message").is_empty() {
                    self.error.get_or_insert_with(|| "it has no text `message`".to_owned());
                }
            }
            "done" => self.done += 1,
            _ => {}
        }
    }

    fn finish(self, flaw: Option<&Flaw>, report: &mut Report) {
        let absent = |what: &str, is: bool| is.then(|| format!("no {what} came"));
        let failed = Verdict::Skipped("the agent failed before its end".to_owned());
        report.hold(&STREAM_START, self.start.or_else(|| absent("message.start", self.messages == 0 && !self.failed)));
        if self.failed {
            report.hold(&STREAM_ERROR, self.error);
        } else {
            report.note(&STREAM_ERROR, Verdict::Skipped("no error came".to_owned()));
        }
        match self.delta.or_else(|| absent("message.delta", self.deltas == 0)) {
            Some(_) if self.failed => report.note(&STREAM_DELTA, failed.clone()),
            found => report.hold(&STREAM_DELTA, found),
        }
        match self.end.or_else(|| absent("message.end", self.open.is_some())) {
            None if self.failed => report.note(&STREAM_END, failed),
            found => report.hold(&STREAM_END, found),
        }
        let done = match self.done {
            0 => Some(flaw.map_or_else(|| "no done came".to_owned(), |flaw| format!("no done came: {flaw}"))),
            1 => self.after,
            more => Some(format!("it came {more} times")),
        };
        report.hold(&STREAM_DONE, done);
        report.hold(&STREAM_EVENT, self.member);
    }
}
