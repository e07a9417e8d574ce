//! `Failure`: why a turn has no reply, for programs and for people.

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
