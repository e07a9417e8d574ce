//! `Failure`: why a turn has no reply, for programs and for people; and what a second attempt could leave out.

use std::time::Duration;

use crate::restap::ErrorCode;

/// A turn that failed. Before the caller's head is out it is an HTTP status, after it an SSE `error` frame.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct Failure {
    /// The reason for programs.
    pub code: ErrorCode,
    /// The reason for people. Never what an upstream says about a refused credential.
    pub message: String,
    /// When to come back: always there with `upstream_rate_limited` and `upstream_unavailable`.
    pub retry_after: Option<Duration>,
}

impl Failure {
    /// A failure without a `Retry-After`.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), retry_after: None }
    }

    /// No connection to the upstream could be made.
    pub fn unreachable() -> Self {
        Self::new(ErrorCode::UpstreamUnreachable, "the service behind this agent can't be reached; try again later")
    }
}

/// What a second attempt at a turn leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    /// Half of the history: the upstream's context overflowed.
    WithHalfTheHistory,
    /// The saved values: the upstream does not know them any more.
    WithoutSaved,
}

/// What services say when a prompt is larger than their context, in lower case.
const OVERFLOWS: &[&str] = &[
    "context_length_exceeded",
    "exceed_context_size_error",
    "maximum context length",
    "available context size",
    "context window",
    "context length",
    "prompt is too long",
    "input is too long",
    "too many input tokens",
    "exceeds the maximum number of tokens",
];

/// What services say about a conversation that they do not keep any more, in lower case.
const FORGOTTEN: &[&str] = &["previous_response_not_found", "conversation not exists", "task not found"];

impl Again {
    /// What an upstream's error says about this, if anything.
    pub(crate) fn told(error: &str) -> Option<Self> {
        let error = error.to_ascii_lowercase();
        let says = |sentences: &[&str]| sentences.iter().any(|sentence| error.contains(sentence));
        if says(OVERFLOWS) { Some(Self::WithHalfTheHistory) } else { says(FORGOTTEN).then_some(Self::WithoutSaved) }
    }
}
