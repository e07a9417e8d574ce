//! `Peer`: one service as the network sees it, made once at load and shared by every request.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pingora::protocols::TcpKeepalive;
use pingora::upstreams::peer::{HttpPeer, HttpUpstreamRequestPolicy, PeerOptions};
use pingora::utils::tls::CertKey;
use tokio::time::Instant;

use super::error::ConnectError;
use super::resolve::Addresses;
use super::tls::{self, Credentials};
use super::{Error, Origin, Resolve};

/// A connection that nobody used for this long is closed. Many services close theirs after 5 s and some after 2 s, and
/// a request that meets such a close has to be sent again.
const POOL_IDLE: Duration = Duration::from_secs(4);

/// The same over TLS, where a new connection is dear and services are more patient.
const POOL_IDLE_TLS: Duration = Duration::from_secs(30);

/// Addresses that one request tries.
const ADDRESSES_TRIED: usize = 4;

/// Requests at a time on one HTTP/2 connection.
const H2_STREAMS: usize = 32;

/// Bytes that an HTTP/2 response may hold unread.
const H2_STREAM_WINDOW: u32 = 128 << 10;

/// All streams' windows, so that slow readers never starve the others on their connection.
const H2_CONNECTION_WINDOW: u32 = H2_STREAM_WINDOW * H2_STREAMS as u32;

/// A service that is gone without a word is noticed after 90 s, however long a reply may pause.
const KEEPALIVE: TcpKeepalive = TcpKeepalive {
    idle: Duration::from_mins(1),
    interval: Duration::from_secs(10),
    count: 3,
    #[cfg(target_os = "linux")]
    user_timeout: Duration::ZERO,
};

/// The version of HTTP that a service is spoken to in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum HttpVersion {
    /// HTTP/2 where TLS negotiates it, else HTTP/1.1.
    #[default]
    Auto,
    /// HTTP/1.0 requests.
    Http10,
    /// HTTP/1.1 only.
    Http11,
    /// HTTP/2 only, without TLS by prior knowledge.
    Http2,
}

/// What a peer is made of.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where it is.
    pub origin: Origin,
    /// TLS towards it.
    pub tls: tls::Settings,
    /// How it is spoken to.
    pub version: HttpVersion,
    /// Until a connection stands: the lookup, every address that is tried, and TLS.
    pub connect: Duration,
    /// Until the service takes the next 64 KiB of a request.
    pub write: Duration,
    /// Between two bytes of an answer where Pingora's own proxy reads it; [`Client`](super::Client) leaves this to each
    /// request.
    pub read: Duration,
}

/// One service: where it is, how it is reached, and which of its addresses answer. Connections are pooled by address
/// and by everything that was verified when they were opened, so two peers share some exactly when they would open the
/// same.
pub struct Peer {
    pub(super) origin: Origin,
    pub(super) version: HttpVersion,
    pub(super) connect: Duration,
    pub(super) write: Duration,
    server_name: String,
    group_key: u64,
    options: PeerOptions,
    client_certificate: Option<Arc<CertKey>>,
    read: Duration,
    addresses: Addresses,
    for_one_request: bool,
}

impl Peer {
    pub(super) fn new(
        settings: &Settings,
        roots: &tls::Roots,
        resolver: &Arc<dyn Resolve>,
    ) -> Result<Self, tls::Error> {
        let origin = settings.origin.clone();
        let server_name = settings.tls.server_name.clone().unwrap_or_else(|| origin.host.to_string());
        let credentials =
            if origin.tls { Credentials::read(&settings.tls, &server_name, roots)? } else { Credentials::none() };
        let mut options = options(origin.tls, settings.version);
        options.verify_cert = !settings.tls.insecure;
        options.verify_hostname = !settings.tls.insecure;
        let group_key = group_key(settings, &credentials);
        options.ca = credentials.ca;
        Ok(Self {
            addresses: Addresses::new(&origin.host, origin.port, resolver),
            version: settings.version,
            connect: settings.connect,
            write: settings.write,
            read: settings.read,
            server_name,
            group_key,
            options,
            client_certificate: credentials.client,
            origin,
            for_one_request: false,
        })
    }

    /// A service at addresses that were judged, for one request in HTTP/1.1 that may take until `deadline`.
    pub(super) fn judged(
        origin: Origin,
        addresses: Vec<SocketAddr>,
        credentials: &Credentials,
        deadline: Instant,
    ) -> Result<Self, Error> {
        // No certificate holds the dot at the end of a name, and no handshake names it.
        let server_name = origin.host.strip_suffix('.').unwrap_or(&origin.host).to_owned();
        if origin.tls && !tls::can_be_verified(&server_name) {
            return Err(Error::Resolve { host: origin.host, reason: "no certificate can hold this name".into() });
        }
        let left = deadline.saturating_duration_since(Instant::now());
        let mut options = options(origin.tls, HttpVersion::Http11);
        options.ca.clone_from(&credentials.ca);
        Ok(Self {
            addresses: Addresses::fixed(addresses),
            version: HttpVersion::Http11,
            connect: left,
            write: left,
            read: left,
            server_name,
            group_key: 0,
            options,
            client_certificate: None,
            origin,
            for_one_request: true,
        })
    }

    /// Whether its connections are neither taken from the pool nor given to it.
    pub(super) fn is_for_one_request(&self) -> bool {
        self.for_one_request
    }

    /// Scheme, host and port.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The peer for Pingora's own proxy, at the address whose turn it is, with its timers set. Looks the name up at
    /// first and when its answer is old, within the connect timer.
    pub async fn http_peer(&self) -> Result<Box<HttpPeer>, Error> {
        let deadline = Instant::now() + self.connect;
        let candidates = self.candidates(deadline).await?;
        let address = candidates.first().copied().ok_or_else(|| self.unresolved("the name has no address"))?;
        let mut peer = self.at(address);
        peer.options.connection_timeout = Some(self.connect);
        peer.options.total_connection_timeout = Some(self.connect);
        peer.options.write_timeout = Some(self.write);
        peer.options.read_timeout = Some(self.read);
        Ok(Box::new(peer))
    }

    /// Tells that nothing answered at `address`: it is tried last for half a minute. Once that is so of all addresses,
    /// the name is looked up again before the next request.
    pub fn avoid(&self, address: SocketAddr) {
        self.addresses.avoid(address);
    }

    /// Where to try, in this order: at most [`ADDRESSES_TRIED`], at least one.
    pub(super) async fn candidates(&self, deadline: Instant) -> Result<Vec<SocketAddr>, Error> {
        let mut candidates = tokio::time::timeout_at(deadline, self.addresses.candidates())
            .await
            .map_err(|_| self.unresolved("no answer in time"))??;
        candidates.truncate(ADDRESSES_TRIED);
        Ok(candidates)
    }

    /// The peer at one of its addresses, without timers.
    pub(super) fn at(&self, address: SocketAddr) -> HttpPeer {
        let mut peer = HttpPeer::new(address, self.origin.tls, self.server_name.clone());
        peer.options = self.options.clone();
        peer.group_key = self.group_key;
        peer.client_cert_key.clone_from(&self.client_certificate);
        peer
    }

    /// The same, for a connection that no request has used.
    pub(super) fn unpooled_at(&self, address: SocketAddr) -> HttpPeer {
        static ORDINAL: AtomicU64 = AtomicU64::new(1);
        let mut peer = self.at(address);
        peer.group_key = peer.group_key.wrapping_add(ORDINAL.fetch_add(1, Ordering::Relaxed));
        peer
    }

    fn unresolved(&self, reason: &str) -> Error {
        Error::Resolve { host: self.origin.host.clone(), reason: reason.into() }
    }
}

fn options(tls: bool, version: HttpVersion) -> PeerOptions {
    let mut options = PeerOptions::new();
    options.idle_timeout = Some(if tls { POOL_IDLE_TLS } else { POOL_IDLE });
    options.tcp_keepalive = Some(KEEPALIVE);
    options.http_upstream_request_policy = HttpUpstreamRequestPolicy::deny_upgrades();
    options.max_h2_streams = H2_STREAMS;
    options.h2_stream_window_size = Some(H2_STREAM_WINDOW);
    options.h2_connection_window_size = Some(H2_CONNECTION_WINDOW);
    match version {
        HttpVersion::Auto if tls => options.set_http_version(2, 1),
        HttpVersion::Http2 => options.set_http_version(2, 2),
        HttpVersion::Auto | HttpVersion::Http10 | HttpVersion::Http11 => options.set_http_version(1, 1),
    }
    options
}

/// Pingora's pool knows connections by address and server name, but not by the authorities that were trusted nor by the
/// version that was offered. The key is the same after a reload that changed nothing, so connections outlive it.
fn group_key(settings: &Settings, credentials: &Credentials) -> u64 {
    let mut hasher = DefaultHasher::new();
    settings.origin.hash(&mut hasher);
    settings.version.hash(&mut hasher);
    settings.tls.server_name.hash(&mut hasher);
    settings.tls.insecure.hash(&mut hasher);
    if let Some(authorities) = &credentials.ca {
        for authority in authorities.iter() {
            authority.borrow_raw_cert().hash(&mut hasher);
        }
    }
    if let Some(client) = &credentials.client {
        client.leaf().borrow_raw_cert().hash(&mut hasher);
    }
    hasher.finish()
}

/// What a failed connect means.
pub fn connect_error(error: &pingora::Error, within: Duration) -> ConnectError {
    use pingora::ErrorType as Kind;
    match error.etype() {
        Kind::ConnectRefused => ConnectError::Refused,
        Kind::ConnectTimedout | Kind::TLSHandshakeTimedout => ConnectError::Timeout(within),
        Kind::TLSHandshakeFailure | Kind::InvalidCert => ConnectError::Tls(
            error.context.as_ref().map_or("the TLS handshake failed", |context| context.as_str()).into(),
        ),
        _ => ConnectError::Unreachable,
    }
}
