//! `Refusal`: what a caller is told when a request fails, and THE table: error code → status.

use std::borrow::Cow;

use http::StatusCode;
use serde_json::{Value, json};

use crate::restap::ErrorCode;
use crate::restap::news::InvalidNews;
use crate::restap::talk::InvalidTalk;

/// The status of each code. Every error that a caller sees becomes HTTP here.
pub(crate) const fn status(code: ErrorCode) -> StatusCode {
    use ErrorCode as E;
    match code {
        E::InvalidJson
        | E::MissingMessage
        | E::InvalidSessionId
        | E::MissingSessionId
        | E::MissingType
        | E::InvalidField
        | E::InvalidSince
        | E::InvalidLimit
        | E::InvalidInput
        | E::InvalidPath
        | E::BadRequest => StatusCode::BAD_REQUEST,
        E::Unauthorized => StatusCode::UNAUTHORIZED,
        E::Forbidden => StatusCode::FORBIDDEN,
        E::NotFound => StatusCode::NOT_FOUND,
        E::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
        E::NotAcceptable => StatusCode::NOT_ACCEPTABLE,
        E::RequestTimeout => StatusCode::REQUEST_TIMEOUT,
        E::SessionBusy | E::RequestInProgress => StatusCode::CONFLICT,
        E::PayloadTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        E::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        E::Misdirected => StatusCode::MISDIRECTED_REQUEST,
        E::IdempotencyKeyReused => StatusCode::UNPROCESSABLE_ENTITY,
        E::RateLimited | E::TooManyQueries | E::TooManyItems | E::UpstreamRateLimited => StatusCode::TOO_MANY_REQUESTS,
        E::HeadersTooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
        E::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        E::UpgradeNotSupported => StatusCode::NOT_IMPLEMENTED,
        E::UpstreamError | E::UpstreamAuth | E::UpstreamUnreachable | E::UpstreamNoText | E::InvalidOutput => {
            StatusCode::BAD_GATEWAY
        }
        E::UpstreamUnavailable | E::StoreUnavailable | E::TooManyStreams | E::ShuttingDown => {
            StatusCode::SERVICE_UNAVAILABLE
        }
        E::UpstreamTimeout => StatusCode::GATEWAY_TIMEOUT,
        E::LoopDetected => StatusCode::LOOP_DETECTED,
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn docs_errors_lists_every_code() {
        let rows: String = ErrorCode::ALL.iter().fold(String::new(), |rows, code| {
            format!("{rows}| {} | `{code}` | {} |\n", status(*code).as_u16(), code.meaning())
        });
        let page = format!(
            "# Errors\n\nEverything that goes wrong is answered as JSON: `{{\"error\": \"<code>\", \"message\": \"<what to do>\"}}`. In a\n\
             stream that has begun, the same code and message stand in an `error` frame, and `done` follows. The list is complete.\n\n\
             | status | code | meaning |\n|--:|---|---|\n{rows}"
        );
        expect_test::expect_file!["../../docs/errors.md"].assert_eq(&page);
    }
}
