//! `ErrorCode`: the closed list of names that stand in `{"error": "…"}` and in an SSE `error` frame.

use serde::{Serialize, Serializer};

macro_rules! error_codes {
    ($(#[doc = $doc:literal] $variant:ident = $name:literal,)+) => {
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

            /// What it means, in one sentence.
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$variant => $doc.trim_ascii(),)+ }
            }
        }
    };
}

error_codes! {
    /// The body is not JSON.
    InvalidJson = "invalid_json",
    /// A talk without a `message`, or with one that is empty or no string.
    MissingMessage = "missing_message",
    /// A session id outside `^[A-Za-z0-9._-]{16,128}$`, or given twice.
    InvalidSessionId = "invalid_session_id",
    /// News that are kept a session apart, asked for without one.
    MissingSessionId = "missing_session_id",
    /// A news item without a `type`.
    MissingType = "missing_type",
    /// A field of the body or a header has the wrong type or form.
    InvalidField = "invalid_field",
    /// `since` or `since_id` is not what this feed gave out.
    InvalidSince = "invalid_since",
    /// `limit` is outside 1..1000.
    InvalidLimit = "invalid_limit",
    /// The input breaks the capability's schema.
    InvalidInput = "invalid_input",
    /// The path can't be decided safely.
    InvalidPath = "invalid_path",
    /// The request breaks HTTP.
    BadRequest = "bad_request",
    /// No credential, or a bad one.
    Unauthorized = "unauthorized",
    /// The caller may not do this.
    Forbidden = "forbidden",
    /// Nothing is at this path.
    NotFound = "not_found",
    /// The path is known, with other methods.
    MethodNotAllowed = "method_not_allowed",
    /// The caller accepts no form that the agent can answer in.
    NotAcceptable = "not_acceptable",
    /// The request did not arrive in time.
    RequestTimeout = "request_timeout",
    /// Too many turns wait for this session.
    SessionBusy = "session_busy",
    /// The first request with this key still runs.
    RequestInProgress = "request_in_progress",
    /// The body is over the limit.
    PayloadTooLarge = "payload_too_large",
    /// The body's media type is not taken here.
    UnsupportedMediaType = "unsupported_media_type",
    /// The `Host` is none of this gateway's.
    Misdirected = "misdirected",
    /// The key was used with another body.
    IdempotencyKeyReused = "idempotency_key_reused",
    /// The caller is over its rate.
    RateLimited = "rate_limited",
    /// Too many asynchronous talks wait.
    TooManyQueries = "too_many_queries",
    /// A feed can't take items this fast.
    TooManyItems = "too_many_items",
    /// The service behind the gateway limits its callers.
    UpstreamRateLimited = "upstream_rate_limited",
    /// The head or the request line is over the limit.
    HeadersTooLarge = "headers_too_large",
    /// The gateway failed.
    Internal = "internal",
    /// Only plain HTTP is served.
    UpgradeNotSupported = "upgrade_not_supported",
    /// The service behind the gateway failed.
    UpstreamError = "upstream_error",
    /// The service behind the gateway refused the gateway's credential.
    UpstreamAuth = "upstream_auth",
    /// The service behind the gateway can't be reached.
    UpstreamUnreachable = "upstream_unreachable",
    /// The service ended its reply without any text.
    UpstreamNoText = "upstream_no_text",
    /// The service's answer breaks its limits or its schema.
    InvalidOutput = "invalid_output",
    /// The service behind the gateway says that it is unavailable.
    UpstreamUnavailable = "upstream_unavailable",
    /// The store can't be written or read now.
    StoreUnavailable = "store_unavailable",
    /// Too many streams are open.
    TooManyStreams = "too_many_streams",
    /// The gateway is about to stop.
    ShuttingDown = "shutting_down",
    /// The service behind the gateway was too slow.
    UpstreamTimeout = "upstream_timeout",
    /// The request went through too many gateways.
    LoopDetected = "loop_detected",
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
