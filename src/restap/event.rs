//! `TalkEvent`: the frames of a streamed reply, from `message.start` to `done`.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::{ErrorCode, SessionId};

/// One frame of a `/talk` stream (RESTAP, "SSE event vocabulary for /talk").
#[derive(Debug, Clone, PartialEq)]
pub enum TalkEvent {
    /// Begins the assistant's message.
    Start {
        /// The message's id, one for all its frames.
        id: String,
        /// Stands exactly when the agent continues turns.
        session_id: Option<SessionId>,
    },
    /// A piece of text to append.
    Delta {
        /// The message's id.
        id: String,
        /// The piece; empty once, where a reply has no text at all.
        text: String,
    },
    /// The message is complete.
    End {
        /// The message's id.
        id: String,
        /// Why the upstream stopped, where it was not the ordinary end.
        finish_reason: Option<String>,
        /// Token counts, as the upstream gave them.
        usage: Option<Value>,
        /// What a RESTAP upstream suggests to do next, passed on.
        suggested_actions: Option<Value>,
    },
    /// The reply failed; only `done` follows.
    Error {
        /// The reason for programs.
        code: ErrorCode,
        /// The reason for people.
        message: String,
    },
    /// The stream is finished.
    Done {
        /// Stands exactly when the agent continues turns.
        session_id: Option<SessionId>,
    },
    /// `status`, `tool.start`, `tool.delta`, `tool.end` or `artifact`: hints that a client may ignore.
    Hint {
        /// The event's name.
        name: &'static str,
        /// Its payload, without `event`.
        fields: Map<String, Value>,
    },
}

impl TalkEvent {
    /// The name on the `event:` line, repeated inside the JSON.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Start { .. } => "message.start",
            Self::Delta { .. } => "message.delta",
            Self::End { .. } => "message.end",
            Self::Error { .. } => "error",
            Self::Done { .. } => "done",
            Self::Hint { name, .. } => name,
        }
    }
}

/// The payload of the `data:` line.
impl Serialize for TalkEvent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("event", self.name())?;
        match self {
            Self::Start { id, session_id } => {
                map.serialize_entry("id", id)?;
                put(&mut map, "session_id", session_id.as_ref().map(SessionId::expose))?;
            }
            Self::Delta { id, text } => {
                map.serialize_entry("id", id)?;
                map.serialize_entry("text", text)?;
            }
            Self::End { id, finish_reason, usage, suggested_actions } => {
                map.serialize_entry("id", id)?;
                put(&mut map, "finish_reason", finish_reason.as_ref())?;
                put(&mut map, "usage", usage.as_ref())?;
                put(&mut map, "suggested_actions", suggested_actions.as_ref())?;
            }
            Self::Error { code, message } => {
                map.serialize_entry("message", message)?;
                map.serialize_entry("code", code)?;
            }
            Self::Done { session_id } => put(&mut map, "session_id", session_id.as_ref().map(SessionId::expose))?,
            Self::Hint { fields, .. } => {
                for (key, value) in fields {
                    map.serialize_entry(key, value)?;
                }
            }
        }
        map.end()
    }
}

/// A key that is left out where it has no value.
fn put<M: SerializeMap>(map: &mut M, key: &str, value: Option<impl Serialize>) -> Result<(), M::Error> {
    value.map_or(Ok(()), |value| map.serialize_entry(key, &value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_read_as_in_the_protocol_text() {
        let id = "msg_42".to_owned();
        let session_id = SessionId::parse("sess_7-0123456789abcdef").ok();
        let events = [
            TalkEvent::Start { id: id.clone(), session_id: session_id.clone() },
            TalkEvent::Delta { id: id.clone(), text: "Hello ".into() },
            TalkEvent::End { id, finish_reason: None, usage: None, suggested_actions: None },
            TalkEvent::Done { session_id },
        ];
        let lines: Vec<String> = events.iter().map(|event| serde_json::to_string(event).unwrap()).collect();
        assert_eq!(
            lines,
            [
                r#"{"event":"message.start","id":"msg_42","session_id":"sess_7-0123456789abcdef"}"#,
                r#"{"event":"message.delta","id":"msg_42","text":"Hello "}"#,
                r#"{"event":"message.end","id":"msg_42"}"#,
                r#"{"event":"done","session_id":"sess_7-0123456789abcdef"}"#,
            ]
        );
    }
}
