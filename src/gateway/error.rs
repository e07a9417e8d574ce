//! `Refusal`: what a caller is told when a request fails. Every error of every room becomes one here.

use std::borrow::Cow;

use http::{HeaderName, HeaderValue};
use serde_json::{Map, Value, json};

use crate::net;
use crate::restap::news::InvalidNews;
use crate::restap::talk::InvalidTalk;
use crate::restap::{CATALOG_PATH, ErrorCode};
use crate::store::StoreError;
use crate::talk::Failure;

/// Why a request fails, as its caller is told.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Refusal {
    /// The reason for programs.
    pub code: ErrorCode,
    /// The reason for people and models: a sentence that says what to do.
    pub message: Cow<'static, str>,
    /// Seconds after which a repeat makes sense.
    pub retry_after: Option<u64>,
    /// The methods that the path knows.
    pub allow: Option<String>,
    /// How to prove who one is.
    pub challenges: Vec<(HeaderName, HeaderValue)>,
    /// What breaks a schema, value by value.
    pub details: Option<Box<Value>>,
    /// A reader of news finds no items where it looks for them.
    pub no_items: bool,
}

impl Refusal {
    pub(crate) fn new(code: ErrorCode, message: impl Into<Cow<'static, str>>) -> Self {
        let message = message.into();
        Self { code, message, retry_after: None, allow: None, challenges: Vec::new(), details: None, no_items: false }
    }

    pub(crate) fn retry_after(self, seconds: u64) -> Self {
        Self { retry_after: Some(seconds), ..self }
    }

    /// Nothing is at a path under an agent's base.
    pub(crate) fn not_found(base: &str) -> Self {
        let message = format!("nothing is at this path; the agent's catalog is at {base}{CATALOG_PATH}");
        Self::new(ErrorCode::NotFound, message)
    }

    pub(crate) fn method_not_allowed(allow: String) -> Self {
        let message = format!("this path does not take that method; it takes {allow}");
        Self { allow: Some(allow), ..Self::new(ErrorCode::MethodNotAllowed, message) }
    }

    pub(crate) fn internal() -> Self {
        Self::new(
            ErrorCode::Internal,
            "the gateway failed; try again, and tell its operator the X-Request-Id if it stays",
        )
    }

    pub(crate) fn shutting_down() -> Self {
        Self::new(ErrorCode::ShuttingDown, "the gateway is about to stop; try again in a moment").retry_after(1)
    }

    /// The JSON body.
    pub(crate) fn body(&self) -> Value {
        let mut body =
            Map::from_iter([("error".to_owned(), json!(self.code)), ("message".to_owned(), json!(self.message))]);
        if let Some(details) = &self.details {
            body.insert("details".to_owned(), Value::clone(details));
        }
        if self.no_items {
            body.insert("items".to_owned(), json!([]));
        }
        Value::Object(body)
    }
}

impl From<InvalidTalk> for Refusal {
    fn from(error: InvalidTalk) -> Self {
        Self::new(error.code(), error.to_string())
    }
}

impl From<InvalidNews> for Refusal {
    fn from(error: InvalidNews) -> Self {
        Self::new(error.code(), error.to_string())
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        let refusal = Self::new(error.code(), store_sentence(&error));
        match error.code() {
            ErrorCode::StoreUnavailable | ErrorCode::SessionBusy => refusal.retry_after(2),
            ErrorCode::TooManyItems => refusal.retry_after(1),
            _ => refusal,
        }
    }
}

/// What the store's own words would tell an operator is put here for a caller.
fn store_sentence(error: &StoreError) -> Cow<'static, str> {
    match error {
        StoreError::InvalidSince => {
            "since_id is not the id of a news item of this agent; leave it out to read the newest".into()
        }
        StoreError::TooLarge { bytes_max } => {
            format!("the item is larger than the {bytes_max} bytes that a feed keeps; send less").into()
        }
        StoreError::TooFast => "this feed takes at most 1000 items a second; wait a moment".into(),
        StoreError::NotOwner => "this feed belongs to another caller; use a session of your own".into(),
        StoreError::KeyReused => "this Idempotency-Key was used with another body; use a new one".into(),
        StoreError::Conflict => "another turn of this session has just ended; try again".into(),
        StoreError::Full | StoreError::Unavailable(_) | StoreError::Corrupt(_) => {
            "the store can't be used now; whether the item was kept is unknown, try again with the same Idempotency-Key"
                .into()
        }
    }
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        let retry_after = failure.retry_after.map(|after| after.as_secs().max(1));
        Self { retry_after, ..Self::new(failure.code, failure.message) }
    }
}

/// What a caller of a capability, or of talk, is told of a service that failed; the log has the rest.
impl From<&net::Error> for Refusal {
    fn from(error: &net::Error) -> Self {
        match error {
            net::Error::Timeout { .. } | net::Error::Connect { cause: net::ConnectError::Timeout(_), .. } => Self::new(
                ErrorCode::UpstreamTimeout,
                "the service behind this agent did not answer in time; try again later",
            ),
            net::Error::Credentials(_) => Self::new(
                ErrorCode::UpstreamAuth,
                "the service behind this agent refuses the gateway's credential; tell the agent's operator",
            ),
            net::Error::Resolve { .. }
            | net::Error::Connect { .. }
            | net::Error::Forbidden(_)
            | net::Error::Blocked(_) => Self::new(
                ErrorCode::UpstreamUnreachable,
                "the service behind this agent can't be reached; try again later",
            ),
            net::Error::Unavailable { retry_after } => {
                let message = "the service behind this agent has failed too often to be asked now; try again later";
                let seconds = retry_after.as_secs_f64().ceil() as u64;
                Self::new(ErrorCode::UpstreamUnavailable, message).retry_after(seconds.max(1))
            }
            _ => Self::new(ErrorCode::UpstreamError, "the service behind this agent failed; try again later"),
        }
    }
}
