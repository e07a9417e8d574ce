//! `ErrorCode`: the closed list of names that stand in `{"error": "…"}` and in an SSE `error` frame, and their statuses.

use http::StatusCode;
use serde::{Serialize, Serializer};

macro_rules! error_codes {
    ($(#[doc = $doc:literal] $variant:ident = $status:literal $name:literal,)+) => {
        /// A machine-readable reason. The list is complete: a client may match on it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum ErrorCode { $(#[doc = $doc] $variant,)+ }

        impl ErrorCode {
            /// Every code, in the order of the documentation.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The name on the wire.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// The HTTP status that it is answered with.
            pub const fn status(self) -> StatusCode {
                match self { $(Self::$variant => const { status($status) },)+ }
            }

            /// What it means, in one sentence.
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$variant => $doc.trim_ascii(),)+ }
            }
        }
    };
}

error_codes! {
    /// The body is not JSON.
    InvalidJson = 400 "invalid_json",
    /// A talk without a `message`, or with one that is empty or no string.
    MissingMessage = 400 "missing_message",
    /// A session id outside `^[A-Za-z0-9._-]{16,128}$`, or given twice.
    InvalidSessionId = 400 "invalid_session_id",
    /// News that are kept a session apart, asked for without one.
    MissingSessionId = 400 "missing_session_id",
    /// A news item without a `type`.
    MissingType = 400 "missing_type",
    /// A field of the body or a header has the wrong type or form.
    InvalidField = 400 "invalid_field",
    /// `since` or `since_id` is not what this feed gave out.
    InvalidSince = 400 "invalid_since",
    /// `limit` is outside 1..1000.
    InvalidLimit = 400 "invalid_limit",
    /// The input breaks the capability's schema.
    InvalidInput = 400 "invalid_input",
    /// The path can't be decided safely.
    InvalidPath = 400 "invalid_path",
    /// The request breaks HTTP.
    BadRequest = 400 "bad_request",
    /// No credential, or a bad one.
    Unauthorized = 401 "unauthorized",
    /// The caller may not do this.
    Forbidden = 403 "forbidden",
    /// Nothing is at this path.
    NotFound = 404 "not_found",
    /// The path is known, with other methods.
    MethodNotAllowed = 405 "method_not_allowed",
    /// The caller accepts no form that the agent can answer in.
    NotAcceptable = 406 "not_acceptable",
    /// The request did not arrive in time.
    RequestTimeout = 408 "request_timeout",
    /// Too many turns wait for this session.
    SessionBusy = 409 "session_busy",
    /// The first request with this key still runs.
    RequestInProgress = 409 "request_in_progress",
    /// The body is over the limit.
    PayloadTooLarge = 413 "payload_too_large",
    /// The body's media type is not taken here.
    UnsupportedMediaType = 415 "unsupported_media_type",
    /// The `Host` is none of this gateway's.
    Misdirected = 421 "misdirected",
    /// The key was used with another body.
    IdempotencyKeyReused = 422 "idempotency_key_reused",
    /// The caller is over its rate.
    RateLimited = 429 "rate_limited",
    /// Too many asynchronous talks wait.
    TooManyQueries = 429 "too_many_queries",
    /// A feed can't take items this fast.
    TooManyItems = 429 "too_many_items",
    /// The service behind the gateway limits its callers.
    UpstreamRateLimited = 429 "upstream_rate_limited",
    /// The head or the request line is over the limit.
    HeadersTooLarge = 431 "headers_too_large",
    /// The gateway failed.
    Internal = 500 "internal",
    /// Only plain HTTP is served.
    UpgradeNotSupported = 501 "upgrade_not_supported",
    /// The service behind the gateway failed.
    UpstreamError = 502 "upstream_error",
    /// The service behind the gateway refused the gateway's credential.
    UpstreamAuth = 502 "upstream_auth",
    /// The service behind the gateway can't be reached.
    UpstreamUnreachable = 502 "upstream_unreachable",
    /// The service ended its reply without any text.
    UpstreamNoText = 502 "upstream_no_text",
    /// The service's answer breaks its limits or its schema.
    InvalidOutput = 502 "invalid_output",
    /// The service behind the gateway says that it is unavailable.
    UpstreamUnavailable = 503 "upstream_unavailable",
    /// The store can't be written or read now.
    StoreUnavailable = 503 "store_unavailable",
    /// Too many streams are open.
    TooManyStreams = 503 "too_many_streams",
    /// The gateway is about to stop.
    ShuttingDown = 503 "shutting_down",
    /// The service behind the gateway was too slow.
    UpstreamTimeout = 504 "upstream_timeout",
    /// The request went through too many gateways.
    LoopDetected = 508 "loop_detected",
}

/// A status of the table above.
const fn status(code: u16) -> StatusCode {
    match StatusCode::from_u16(code) {
        Ok(status) => status,
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

impl Serialize for ErrorCode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl std::fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn docs_errors_lists_every_code() {
        let rows: String = ErrorCode::ALL.iter().fold(String::new(), |rows, code| {
            format!("{rows}| {} | `{code}` | {} |\n", code.status().as_u16(), code.meaning())
        });
        let page = format!(
            "# Errors\n\nEverything that goes wrong is answered as JSON: `{{\"error\": \"<code>\", \"message\": \"<what to do>\"}}`. In a\n\
             stream that has begun, the same code and message stand in an `error` frame, and `done` follows. The list is complete.\n\n\
             | status | code | meaning |\n|--:|---|---|\n{rows}"
        );
        expect_test::expect_file!["../../docs/errors.md"].assert_eq(&page);
    }
}
