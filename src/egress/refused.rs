//! `Refused`: why the tool sends nothing, or has nothing to show.

use serde_json::{Value, json};

use super::tool::REDIRECTS_MAX;
use crate::net::{self, ConnectError, InvalidWebUrl, WebUrl};

/// The reasons that the tool's caller can tell apart. None is ever renamed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Code {
    /// An argument is missing, or is none.
    InvalidRequest,
    /// No URL that can be called.
    InvalidUrl,
    /// A header that the tool sets itself.
    ForbiddenHeader,
    /// The request would give away what this process holds in secret.
    CredentialInRequest,
    /// No public address.
    BlockedAddress,
    /// The service can't be reached, or does not speak HTTP.
    NetworkError,
    /// No complete answer in time.
    Timeout,
    /// The request is too large.
    TooLarge,
    /// One redirect too many.
    RedirectLimit,
    /// It would go out unsigned.
    NotSigned,
}

impl Code {
    /// Its name on the wire and in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InvalidRequest => "invalid_request",
            Self::InvalidUrl => "invalid_url",
            Self::ForbiddenHeader => "forbidden_header",
            Self::CredentialInRequest => "credential_in_request",
            Self::BlockedAddress => "blocked_address",
            Self::NetworkError => "network_error",
            Self::Timeout => "timeout",
            Self::TooLarge => "too_large",
            Self::RedirectLimit => "redirect_limit",
            Self::NotSigned => "not_signed",
        }
    }
}

/// A refusal: the code for programs, the sentence for the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The reason.
    pub code: Code,
    /// What to do about it.
    pub message: String,
}

impl Refused {
    pub(super) fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(Code::InvalidRequest, message)
    }

    pub(super) fn late(seconds: u64) -> Self {
        Self::new(Code::Timeout, format!("No complete answer within {seconds} s."))
    }

    pub(super) fn redirects() -> Self {
        Self::new(Code::RedirectLimit, format!("More than {REDIRECTS_MAX} redirects."))
    }

    /// What a failed hop to `url` means.
    pub(super) fn hop(error: &net::Error, url: &WebUrl, seconds: u64) -> Self {
        let failed = |how: &str| Self::new(Code::NetworkError, format!("Could not connect to {}: {how}.", url.host()));
        match error {
            net::Error::Blocked(blocked) => Self::new(Code::BlockedAddress, blocked.to_string()),
            net::Error::Forbidden(_) => {
                Self::new(Code::BlockedAddress, format!("{} is not a public address, so it is not called.", url.host()))
            }
            net::Error::Resolve { .. } => Self::new(Code::NetworkError, format!("{} did not resolve.", url.host())),
            net::Error::Timeout { .. } | net::Error::Connect { cause: ConnectError::Timeout(_), .. } => {
                Self::late(seconds)
            }
            net::Error::Connect { cause: ConnectError::Refused, .. } => failed("the connection was refused"),
            net::Error::Connect { cause: ConnectError::Tls(said), .. } if said.contains("invalid peer certificate") => {
                failed("its TLS certificate was not accepted")
            }
            net::Error::Reset => failed("the connection was reset"),
            _ => failed("the connection failed"),
        }
    }

    /// The tool's answer.
    pub fn to_json(&self) -> Value {
        json!({"ok": false, "error": {"code": self.code.as_str(), "message": self.message}})
    }
}

impl From<InvalidWebUrl> for Refused {
    fn from(error: InvalidWebUrl) -> Self {
        Self::new(Code::InvalidUrl, error.to_string())
    }
}
