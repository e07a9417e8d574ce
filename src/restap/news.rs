//! `NewsDraft` and `NewsItem`: what is written to and read from `/news`, and `Since`, where a reader stands.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::talk::is_token;
use super::{ErrorCode, SessionId};

/// 2^53 − 1, the largest integer that every JSON reader keeps. No feed comes near it, so that a reader who names a
/// later time stands where this one does: behind the end.
const TIMESTAMP_MAX: u64 = (1 << 53) - 1;

/// What a caller posts: an item without its id and time. Unknown keys of the body are dropped.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NewsDraft {
    /// What happened, such as `reply` or `job.completed`; never empty.
    #[serde(rename = "type")]
    pub kind: String,
    /// The text for people and models; empty where there is none.
    #[serde(default)]
    pub message: String,
    /// Who says so. Nobody checks it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The query or item that this answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_reply_to: Option<String>,
    /// The job that this is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_id: Option<String>,
    /// The query that this is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query_id: Option<String>,
    /// Anything else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    /// Which item of another feed this was first, where it was followed from there. Nobody posts it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
}

/// What stands beside the item in a body that posts it.
#[derive(Debug, Clone, Default)]
pub struct Posting {
    /// The body's own session, whose validity the caller judges only when neither header nor query named a session.
    pub session_id: Option<Result<SessionId, InvalidNews>>,
    /// Makes a repeat of the post safe.
    pub dispatch_id: Option<String>,
}

/// Why a body is no news item.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidNews {
    /// The body is not JSON.
    #[error("the body is not valid JSON; send {{\"type\": \"reply\", \"message\": \"…\"}}")]
    NotJson,
    /// The body is no object, or its `type` is missing, empty or no string.
    #[error(
        "the body needs a \"type\" that is a non-empty string, such as {{\"type\": \"reply\", \"message\": \"…\"}}"
    )]
    NoType,
    /// `dispatch_id` is no string of visible ASCII.
    #[error("dispatch_id must be a string of 1 to 255 visible ASCII characters; leave it out if there is none")]
    DispatchId,
    /// A known field has the wrong type.
    #[error("\"{0}\" must be a string; leave it out if there is none")]
    Field(&'static str),
    /// `session_id` is no string, or outside the grammar.
    #[error("session_id must be a string that matches ^[A-Za-z0-9._-]{{16,128}}$")]
    SessionId,
}

impl InvalidNews {
    /// The code that callers see.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::NotJson => ErrorCode::InvalidJson,
            Self::NoType => ErrorCode::MissingType,
            Self::DispatchId | Self::Field(_) => ErrorCode::InvalidField,
            Self::SessionId => ErrorCode::InvalidSessionId,
        }
    }
}

impl NewsDraft {
    /// Reads a body: the item, and what stands beside it.
    pub fn parse(body: &[u8]) -> Result<(Self, Posting), InvalidNews> {
        let body: Value = serde_json::from_slice(body).map_err(|_| InvalidNews::NotJson)?;
        let text = |name: &'static str| match body.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(InvalidNews::Field(name)),
        };
        let kind = text("type").ok().flatten().filter(|kind| !kind.is_empty()).ok_or(InvalidNews::NoType)?;
        let draft = Self {
            kind,
            message: text("message")?.unwrap_or_default(),
            from: text("from")?,
            in_reply_to: text("in_reply_to")?,
            job_id: text("job_id")?,
            query_id: text("query_id")?,
            data: body.get("data").filter(|data| !data.is_null()).cloned(),
            origin: None,
        };
        let session_id = match body.get("session_id") {
            None | Some(Value::Null) => None,
            Some(Value::String(id)) => Some(SessionId::parse(id).map_err(|_| InvalidNews::SessionId)),
            Some(_) => Some(Err(InvalidNews::SessionId)),
        };
        let dispatch_id = match body.get("dispatch_id") {
            None | Some(Value::Null) => None,
            Some(Value::String(id)) if is_token(id) => Some(id.clone()),
            Some(_) => return Err(InvalidNews::DispatchId),
        };
        Ok((draft, Posting { session_id, dispatch_id }))
    }
}

/// An item as it is stored and read.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NewsItem {
    /// The item's `news_id`: opaque, and in the order of the feed.
    pub id: String,
    /// Unix milliseconds, strictly increasing within a feed, the same for ever.
    pub timestamp: u64,
    /// What was posted.
    #[serde(flatten)]
    pub draft: NewsDraft,
}

/// Where a reader stands in a feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Since {
    /// Nowhere: the newest items are wanted.
    Newest,
    /// After this timestamp, exclusive, at least 1.
    Time(u64),
    /// After this item, exclusive.
    Item(String),
}

impl Since {
    /// Reads `since` (unix ms) and `since_id`; an empty one counts as absent, `since_id` beats `since`.
    pub fn parse(since: Option<&str>, since_id: Option<&str>) -> Result<Self, ErrorCode> {
        if let Some(id) = since_id.filter(|id| !id.is_empty()) {
            return Ok(Self::Item(id.to_owned()));
        }
        match since.filter(|since| !since.is_empty()) {
            None => Ok(Self::Newest),
            Some(text) if text.bytes().all(|byte| byte.is_ascii_digit()) => match text.parse::<u64>() {
                Ok(0) => Ok(Self::Newest),
                Ok(time) => Ok(Self::Time(TIMESTAMP_MAX.min(time))),
                // All that digits can be beside a number of 64 bits is a larger one.
                Err(_) => Ok(Self::Time(TIMESTAMP_MAX)),
            },
            Some(_) => Err(ErrorCode::InvalidSince),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_that_is_no_item_names_what_is_wrong() {
        let code = |body: &str| NewsDraft::parse(body.as_bytes()).unwrap_err().code();
        assert_eq!(code("nope"), ErrorCode::InvalidJson);
        for body in ["[]", "{}", "1", r#"{"type":""}"#, r#"{"type":1}"#, r#"{"type":null}"#] {
            assert_eq!(code(body), ErrorCode::MissingType, "{body}");
        }
        for field in ["from", "in_reply_to", "message", "job_id", "query_id"] {
            assert_eq!(code(&format!(r#"{{"type":"t","{field}":1}}"#)), ErrorCode::InvalidField, "{field}");
        }
        for id in ["7", "\"\"", "\"two words\""] {
            assert_eq!(code(&format!(r#"{{"type":"t","dispatch_id":{id}}}"#)), ErrorCode::InvalidField, "{id}");
        }
    }

    #[test]
    fn null_counts_as_absent_and_unknown_keys_are_dropped() {
        let body = br#"{"type":"reply","from":null,"data":null,"trigger":true,"session_id":null}"#;
        let (draft, posting) = NewsDraft::parse(body).unwrap();
        assert_eq!(draft, NewsDraft { kind: "reply".into(), ..NewsDraft::default() });
        assert!(posting.session_id.is_none() && posting.dispatch_id.is_none());
    }

    #[test]
    fn since_is_milliseconds_and_since_id_beats_it() {
        assert_eq!(Since::parse(None, None), Ok(Since::Newest));
        assert_eq!(Since::parse(Some(""), Some("")), Ok(Since::Newest));
        assert_eq!(Since::parse(Some("0"), None), Ok(Since::Newest));
        assert_eq!(Since::parse(Some("17"), None), Ok(Since::Time(17)));
        assert_eq!(Since::parse(Some("nonsense"), Some("x")), Ok(Since::Item("x".into())));
        for late in ["9007199254740992", "18446744073709551615", "99999999999999999999"] {
            assert_eq!(Since::parse(Some(late), None), Ok(Since::Time(TIMESTAMP_MAX)), "{late}");
        }
        for bad in ["-1", "1.5", "abc", " 1", "+1", "1e3"] {
            assert_eq!(Since::parse(Some(bad), None), Err(ErrorCode::InvalidSince), "{bad}");
        }
    }
}
