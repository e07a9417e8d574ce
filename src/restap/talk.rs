//! `TalkRequest` and `TalkReply`: the JSON bodies of `POST /talk`.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::{ErrorCode, SessionId};

/// What a caller says: one message, and the thread that it belongs to, if any.
#[derive(Debug, Clone)]
pub struct TalkRequest {
    /// Not empty; white space alone is a message.
    pub message: String,
    /// The thread to continue. `null` on the wire counts as absent.
    pub session_id: Option<SessionId>,
    /// What clients of RESTAP 0.1.0 send with a talk whose answer may come later.
    pub dispatch: Dispatch,
}

/// `dispatch_id` and `query_id` of a talk; with both of them it is asynchronous.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dispatch {
    /// Makes a repeat of the talk safe.
    pub dispatch_id: Option<String>,
    /// What the caller calls the talk in its own books.
    pub query_id: Option<String>,
}

/// Why a body is no talk request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTalk {
    /// The body is not JSON.
    #[error("the body is not valid JSON; send {{\"message\": \"…\"}}")]
    NotJson,
    /// The body is no object, or its `message` is missing, empty or no string.
    #[error("the body needs a \"message\" that is a non-empty string, such as {{\"message\": \"Hello\"}}")]
    NoMessage,
    /// `session_id` is no string, or outside the grammar.
    #[error("session_id must be a string that matches ^[A-Za-z0-9._-]{{16,128}}$; leave it out to start a new thread")]
    SessionId,
    /// `dispatch_id` or `query_id` is no string of visible ASCII.
    #[error("{0} must be a string of 1 to 255 visible ASCII characters; leave it out if there is none")]
    Dispatch(&'static str),
}

impl InvalidTalk {
    /// The code that callers see.
    pub fn code(self) -> ErrorCode {
        match self {
            Self::NotJson => ErrorCode::InvalidJson,
            Self::NoMessage => ErrorCode::MissingMessage,
            Self::SessionId => ErrorCode::InvalidSessionId,
            Self::Dispatch(_) => ErrorCode::InvalidField,
        }
    }
}

impl TalkRequest {
    /// Reads a body. `header` is the session id of `Restap-Session-Id`, which beats the body's, also an invalid one.
    pub fn parse(body: &[u8], header: Option<SessionId>) -> Result<Self, InvalidTalk> {
        let body: Value = serde_json::from_slice(body).map_err(|_| InvalidTalk::NotJson)?;
        let message = match body.get("message") {
            Some(Value::String(message)) if !message.is_empty() => message.clone(),
            _ => return Err(InvalidTalk::NoMessage),
        };
        let session_id = match (header, body.get("session_id")) {
            (Some(header), _) => Some(header),
            (None, None | Some(Value::Null)) => None,
            (None, Some(Value::String(id))) => Some(SessionId::parse(id).map_err(|_| InvalidTalk::SessionId)?),
            (None, Some(_)) => return Err(InvalidTalk::SessionId),
        };
        let dispatch = Dispatch { dispatch_id: token(&body, "dispatch_id")?, query_id: token(&body, "query_id")? };
        Ok(Self { message, session_id, dispatch })
    }
}

/// An id that a caller chose: 1 to 255 characters of visible ASCII.
pub fn is_token(text: &str) -> bool {
    (1..=255).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

fn token(body: &Value, name: &'static str) -> Result<Option<String>, InvalidTalk> {
    match body.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if is_token(text) => Ok(Some(text.clone())),
        Some(_) => Err(InvalidTalk::Dispatch(name)),
    }
}

/// The complete answer: `{"reply", "session_id"?}` and what the upstream gave in extra.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TalkReply {
    /// All the text of the reply, joined.
    pub reply: String,
    /// Stands exactly when the agent continues turns.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "exposed", deserialize_with = "hidden")]
    pub session_id: Option<SessionId>,
    /// Why the upstream stopped, where it was not the ordinary end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<String>,
    /// Token counts, as the upstream gave them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Value>,
    /// What a RESTAP upstream suggests to do next, passed on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suggested_actions: Option<Value>,
}

/// A session id leaves for the wire only where a type says so.
#[expect(clippy::ref_option, reason = "the signature is serde's")]
fn exposed<S: Serializer>(id: &Option<SessionId>, serializer: S) -> Result<S::Ok, S::Error> {
    id.as_ref().map(SessionId::expose).serialize(serializer)
}

/// The way back, of a reply that was kept.
fn hidden<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<SessionId>, D::Error> {
    let id = Option::<String>::deserialize(deserializer)?;
    id.map(|id| SessionId::parse(&id).map_err(serde::de::Error::custom)).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(body: &str) -> ErrorCode {
        TalkRequest::parse(body.as_bytes(), None).unwrap_err().code()
    }

    #[test]
    fn a_body_that_is_no_talk_names_what_is_wrong() {
        assert_eq!(code("{"), ErrorCode::InvalidJson);
        for body in ["[]", "{}", "\"hi\"", r#"{"message":""}"#, r#"{"message":7}"#, r#"{"message":null}"#] {
            assert_eq!(code(body), ErrorCode::MissingMessage, "{body}");
        }
        for id in ["7", "{}", "\"short\"", "\"aaaaaaaaaaaaaaa \"", "\"\""] {
            assert_eq!(code(&format!(r#"{{"message":"hi","session_id":{id}}}"#)), ErrorCode::InvalidSessionId, "{id}");
        }
    }

    #[test]
    fn white_space_is_a_message_and_a_null_session_is_none() {
        let talk = TalkRequest::parse(br#"{"message":" ","session_id":null,"other":1}"#, None).unwrap();
        assert_eq!((talk.message.as_str(), talk.session_id), (" ", None));
    }

    #[test]
    fn the_header_beats_the_body() {
        let header = SessionId::parse("header-header-header").ok();
        let talk = TalkRequest::parse(br#"{"message":"hi","session_id":"no"}"#, header.clone()).unwrap();
        assert_eq!(talk.session_id, header);
    }
}
