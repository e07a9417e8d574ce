//! `Frames`: the grammar of a streamed reply. Whatever the upstream did, a caller sees start, deltas and hints, then
//! end or error, then done.

use bytes::Bytes;
use serde_json::{Map, Value};

use super::Failure;
use crate::restap::talk::TalkReply;
use crate::restap::{SessionId, TalkEvent};
use crate::sse;

/// Writes the frames of one reply into one buffer.
pub(crate) struct Frames {
    message_id: String,
    session_id: Option<SessionId>,
    started: bool,
    out: Vec<u8>,
}

impl Frames {
    pub(crate) fn new(message_id: String, session_id: Option<SessionId>) -> Self {
        Self { message_id, session_id, started: false, out: Vec::new() }
    }

    /// `message.start`, once.
    pub(crate) fn start(&mut self) {
        if !std::mem::replace(&mut self.started, true) {
            self.put(&TalkEvent::Start { id: self.message_id.clone(), session_id: self.session_id.clone() });
        }
    }

    /// A piece of text.
    pub(crate) fn delta(&mut self, text: String) {
        self.start();
        self.put(&TalkEvent::Delta { id: self.message_id.clone(), text });
    }

    /// A hint that clients may ignore.
    pub(crate) fn hint(&mut self, name: &'static str, fields: Map<String, Value>) {
        self.start();
        self.put(&TalkEvent::Hint { name, fields });
    }

    /// The end of a reply whose deltas were all written.
    pub(crate) fn end(&mut self, reply: &TalkReply) {
        self.start();
        self.put(&TalkEvent::End {
            id: self.message_id.clone(),
            finish_reason: reply.finish_reason.clone(),
            usage: reply.usage.clone(),
            suggested_actions: reply.suggested_actions.clone(),
        });
        self.done();
    }

    /// The end of a reply that failed.
    pub(crate) fn error(&mut self, failure: &Failure) {
        self.start();
        self.put(&TalkEvent::Error { code: failure.code, message: failure.message.clone() });
        self.done();
    }

    /// A comment between two frames.
    pub(crate) fn keep_alive(&mut self) {
        self.out.extend_from_slice(sse::KEEP_ALIVE);
    }

    /// Whether `message.start` was written.
    pub(crate) fn is_started(&self) -> bool {
        self.started
    }

    /// Everything that was written since the last time.
    pub(crate) fn take(&mut self) -> Bytes {
        Bytes::from(std::mem::take(&mut self.out))
    }

    fn done(&mut self) {
        self.put(&TalkEvent::Done { session_id: self.session_id.clone() });
    }

    fn put(&mut self, event: &TalkEvent) {
        // A map with text for keys is always JSON.
        let data = serde_json::to_string(event).unwrap_or_default();
        sse::frame(&mut self.out, event.name(), &data);
    }
}
