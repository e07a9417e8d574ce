//! `Error`: why an exchange with a service failed.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::web_url::shown;

/// Why an exchange with a service failed. What it says is fit for the log and holds no header, no body and no
/// credential; it names addresses, so callers are not shown it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The host's name leads to no address.
    #[error("`{host}` can't be resolved: {reason}")]
    Resolve {
        /// The name that was asked for.
        host: Box<str>,
        /// What the resolver said.
        reason: Box<str>,
    },
    /// The host is, or resolves to, an address where a cloud hands out its machines' credentials.
    #[error("{0} is a metadata address, which is never connected to")]
    Forbidden(IpAddr),
    /// A stranger's URL leads where strangers may not send us.
    #[error(transparent)]
    Blocked(#[from] Blocked),
    /// There is no connection; nothing of the request was sent.
    #[error("no connection to {address}: {cause}")]
    Connect {
        /// Where it was tried.
        address: SocketAddr,
        /// What went wrong there.
        cause: ConnectError,
    },
    /// None of the service's servers is asked now: they have all failed lately.
    #[error("no server is asked for another {} s: all have failed lately", retry_after.as_secs_f64().ceil())]
    Unavailable {
        /// When it is worth another try.
        retry_after: Duration,
    },
    /// The service tore the connection or the stream down.
    #[error("the service broke the connection off")]
    Reset,
    /// The connection was closed before the answer's end, or before an answer began.
    #[error("the service closed the connection before the end of its answer")]
    Truncated,
    /// What the service sent is no HTTP, or breaks a limit of ours.
    #[error("the service broke HTTP: {0}")]
    Protocol(&'static str),
    /// A timer ran out.
    #[error("{timer} did not come within {}", seconds(*.after))]
    Timeout {
        /// Which one.
        timer: Timer,
        /// How long it was.
        after: Duration,
    },
    /// The body of a document that is read whole is larger than its reader takes.
    #[error("the answer is larger than {limit} bytes")]
    TooLarge {
        /// In bytes.
        limit: usize,
    },
    /// The service does not take a credential of ours.
    #[error("the service does not take our credential: {0}")]
    Credentials(&'static str),
    /// A redirect that leaves the origin, leads nowhere, or is one too many.
    #[error("the service redirects {0}")]
    Redirect(&'static str),
}

/// An address that a stranger may not send us to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocked {
    /// The name that leads there; `None` where the URL itself says the address.
    pub name: Option<Box<str>>,
    /// The address.
    pub address: IpAddr,
    /// Whether it would be allowed, were it not where we listen ourselves.
    pub own: bool,
}

impl std::error::Error for Blocked {}

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = shown(self.address);
        let what = if self.own { "is where this gateway itself listens" } else { "is not a public address" };
        match &self.name {
            Some(name) => write!(f, "{name} resolves to {address}, which {what}, so it is not called."),
            None => write!(f, "{address} {what}, so it is not called."),
        }
    }
}

/// Why there is no connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// Nothing listens there.
    #[error("connection refused")]
    Refused,
    /// No way leads there.
    #[error("the address can't be reached")]
    Unreachable,
    /// The TLS handshake failed: the certificate, the version, or no TLS at all.
    #[error("{0}")]
    Tls(Box<str>),
    /// Connecting, the lookup of the name and the TLS handshake among it, took too long.
    #[error("no connection within {}", seconds(*.0))]
    Timeout(Duration),
}

/// What was waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Timer {
    /// The service takes the request's bytes.
    #[error("room for the request")]
    Write,
    /// The head of the answer.
    #[error("the head of the answer")]
    FirstByte,
    /// The next byte of the answer.
    #[error("the next byte of the answer")]
    Idle,
    /// The whole answer.
    #[error("the end of the answer")]
    Total,
}

impl Error {
    /// Whether the service can't have seen anything of the request, so that sending it again is always safe.
    pub fn is_unsent(&self) -> bool {
        matches!(self, Self::Resolve { .. } | Self::Forbidden(_) | Self::Blocked(_) | Self::Connect { .. })
    }
}

fn seconds(after: Duration) -> String {
    format!("{} s", after.as_secs_f64())
}
