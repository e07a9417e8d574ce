//! `Arrival`: what the front door knows of a connection beside its addresses, as every request on it sees it.

use std::sync::Arc;
use std::time::Duration;

use pingora::http::ResponseHeader;
use pingora::protocols::Digest;
use pingora::protocols::raw_connect::ProxyDigest;

/// How a connection came.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Arrival {
    /// By TLS.
    pub tls: bool,
    /// The names of the client's certificate, such as `dns:edge.example.com`; none where none was shown.
    pub names: Vec<Box<str>>,
    /// How long browsers shall come by TLS alone.
    pub hsts: Option<Duration>,
}

impl Arrival {
    /// What Pingora carries to the requests of the connection: of its digests only this one takes data of ours.
    pub(super) fn into_digest(self) -> Option<Arc<ProxyDigest>> {
        let head = ResponseHeader::build(200, None).ok()?;
        Some(Arc::new(ProxyDigest::new(Box::new(head), Some(Box::new(self)))))
    }

    /// How a request's connection came; `None` where nothing is to be said of it.
    pub fn of(digest: Option<&Digest>) -> Option<&Self> {
        digest?.proxy_digest.as_ref()?.user_data.as_ref()?.downcast_ref()
    }
}
