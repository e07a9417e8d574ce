//! `Refusal`: what a caller is told when a request fails. Every error of every room becomes one here.

use std::borrow::Cow;

use serde_json::{Value, json};

use crate::restap::ErrorCode;
use crate::restap::news::InvalidNews;
use crate::restap::talk::InvalidTalk;

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
    /// What breaks a schema, value by value.
    pub details: Option<Value>,
}

impl Refusal {
    pub(crate) fn new(code: ErrorCode, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into(), retry_after: None, allow: None, details: None }
    }

    pub(crate) fn retry_after(self, seconds: u64) -> Self {
        Self { retry_after: Some(seconds), ..self }
    }

    pub(crate) fn not_found() -> Self {
        Self::new(ErrorCode::NotFound, "nothing is at this path; the agent's catalog is at /.well-known/restap.json")
    }

    pub(crate) fn method_not_allowed(allow: String) -> Self {
        let message = format!("this path does not take that method; it takes {allow}");
        Self { allow: Some(allow), ..Self::new(ErrorCode::MethodNotAllowed, message) }
    }

    pub(crate) fn internal() -> Self {
        Self::new(ErrorCode::Internal, "the gateway failed; try again, and tell its operator the X-Request-Id if it stays")
    }

    pub(crate) fn shutting_down() -> Self {
        Self::new(ErrorCode::ShuttingDown, "the gateway is about to stop; try again in a moment").retry_after(1)
    }

    /// The JSON body.
    pub(crate) fn body(&self) -> Value {
        let mut body = json!({"error": self.code, "message": self.message});
        if let (Some(details), Some(object)) = (&self.details, body.as_object_mut()) {
            object.insert("details".into(), details.clone());
        }
        body
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
