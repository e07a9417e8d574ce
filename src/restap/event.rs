//! `TalkEvent`: the frames of a streamed reply, from `message.start` to `done`.

use serde_json::{Map, Value, json};

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

    /// The payload of the `data:` line.
    pub fn to_json(&self) -> Value {
        let mut object = Map::new();
        let mut put = |key: &str, value: Value| {
            if !value.is_null() {
                object.insert(key.to_owned(), value);
            }
        };
        let session = |id: &Option<SessionId>| json!(id.as_ref().map(SessionId::expose));
        put("event", self.name().into());
        match self {
            Self::Start { id, session_id } => {
                put("id", json!(id));
                put("session_id", session(session_id));
            }
            Self::Delta { id, text } => {
                put("id", json!(id));
                put("text", json!(text));
            }
            Self::End { id, finish_reason, usage, suggested_actions } => {
                put("id", json!(id));
                put("finish_reason", json!(finish_reason));
                put("usage", json!(usage));
                put("suggested_actions", json!(suggested_actions));
            }
            Self::Error { code, message } => {
                put("message", json!(message));
                put("code", json!(code));
            }
            Self::Done { session_id } => put("session_id", session(session_id)),
            Self::Hint { fields, .. } => object.extend(fields.clone()),
        }
        Value::Object(object)
    }
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
        let lines: Vec<String> = events.iter().map(|event| event.to_json().to_string()).collect();
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
