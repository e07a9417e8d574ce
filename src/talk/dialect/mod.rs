//! An upstream's way of talking, as data: how a prompt becomes its request, and how its reply is read.

use http::{HeaderName, HeaderValue};
use serde_json::{Map, Value};

use super::Exchange;
use crate::yaml::Secret;

/// Values that an upstream gave for the next turn of the same conversation, by slot. Kept by the store, opaque to it.
pub type Saved = Map<String, Value>;

/// How an upstream knows that two turns belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conversation {
    /// It does not; what it is to remember goes with the request as history.
    None,
    /// By a key that the gateway derives from the session.
    Derived,
    /// By a value that it gave with an earlier reply ([`Saved`]).
    Minted,
}

/// Everything that can stand in a request.
#[derive(Debug)]
pub struct Prompt<'a> {
    /// What the caller says now.
    pub message: &'a str,
    /// The operator's system prompt.
    pub system: Option<&'a str>,
    /// News since the last turn (`news_note`). Joins the system prompt, or stands in front of the message.
    pub news: Option<&'a str>,
    /// Earlier exchanges, oldest first, already in their window. Ignored unless [`Dialect::takes_history`].
    pub history: &'a [Exchange],
    /// The model to name.
    pub model: Option<&'a str>,
    /// The operator's `options:`, merged into the body.
    pub options: &'a Map<String, Value>,
    /// Whether to ask for a stream. Ignored unless [`Dialect::streams`].
    pub stream: bool,
    /// A key derived from the session, for upstreams that keep the conversation under a name of the client's choice.
    pub session_key: Option<&'a str>,
    /// The same as a UUID.
    pub session_uuid: Option<&'a str>,
    /// What the upstream gave at the last turn.
    pub saved: &'a Saved,
    /// The upstream's `api_key:`.
    pub credential: Option<&'a Secret>,
    /// A fresh UUID: the request's message ids are counted up from it.
    pub request_id: uuid::Uuid,
    /// The path of the upstream's URL, such as `/v1`; empty where it has none.
    pub url_prefix: &'a str,
}

/// A request as the upstream takes it; the method is `POST`.
#[derive(Debug)]
pub struct Rendered {
    /// What follows the path of the upstream's URL; may be empty where that has one.
    pub path_and_query: String,
    /// `content-type`, `accept`, `accept-encoding: identity` and the dialect's own. Values with a credential are
    /// marked sensitive.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// JSON.
    pub body: bytes::Bytes,
}

/// Why a request can't be rendered. Both are found by `check` for a complete configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unrenderable {
    /// The path needs a value that there is none of.
    #[error("the dialect's path needs a value for {{{{{0}}}}}")]
    Path(&'static str),
    /// A value holds what a header can't carry.
    #[error("the header {0} can't carry its value")]
    Header(HeaderName),
}

/// What is wrong in a dialect that an operator wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// JSON pointer into the mapping.
    pub pointer: String,
    /// What is wrong, and what to write instead.
    pub message: String,
    /// The nearest known name.
    pub suggestion: Option<String>,
}

/// An upstream's way of talking, compiled.
#[derive(Debug)]
pub struct Dialect {
    conversation: Conversation,
}

impl Dialect {
    /// How the upstream knows that two turns belong together.
    pub fn conversation(&self) -> Conversation {
        self.conversation
    }
}
