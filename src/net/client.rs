//! `Client`: the one way out for every request that the gateway itself makes.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::uri::PathAndQuery;
use http::{HeaderMap, Method};
use pingora::ErrorType;
use pingora::connectors::ConnectorOptions;
use pingora::connectors::http::Connector;
use tokio::time::{Instant, timeout};

use super::error::ConnectError;
use super::exchange::Exchange;
use super::peer::{self, connect_error};
use super::tls::{self, Roots};
use super::{Error, Guard, Peer, Resolve, Response, SystemResolver, guard};

/// Connections kept open for the next request, over all services.
const POOLED_MAX: usize = 512;

/// Sends requests over one pool of connections: HTTP/1.0, 1.1 and 2, with and without TLS. Cheap to clone; one a
/// process.
///
/// What an answer holds in memory while its reader is slow: over HTTP/1 the 64 KiB that Pingora reads ahead of a
/// socket, the 64 KiB that it parses, and the part handed out, at most 64 KiB too; over HTTP/2 the stream's window of
/// 128 KiB and the part handed out. Beyond that the service has to wait. A head may have 64 KiB (Pingora reads up to 1
/// MiB of it before it is refused).
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    connector: Arc<Connector>,
    roots: Roots,
    resolver: Arc<dyn Resolve>,
    /// Where this process listens.
    own: OnceLock<Box<[SocketAddr]>>,
}

/// One request. `Host`, `Content-Length` and everything about the connection is set by the client; a `Host` in
/// `headers` stands.
#[derive(Debug, Clone)]
pub struct Request {
    /// Any method but `CONNECT`.
    pub method: Method,
    /// The path and the query as they go onto the wire.
    pub target: PathAndQuery,
    /// Fields about a connection among them (RFC 9110 7.6.1) are left out.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Bytes,
    /// Who removes a `Content-Encoding`.
    pub coding: Coding,
    /// How long to wait.
    pub timeouts: Timeouts,
}

/// Who removes the `Content-Encoding` of an answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Coding {
    /// The body comes as the service encoded it.
    #[default]
    AsSent,
    /// The body comes plain. None is asked for (`Accept-Encoding: identity`), but gzip is understood, as some services
    /// compress whatever they are asked; a part may then have 1 MiB. Another coding is an error when the body is read.
    Decoded,
}

/// How long an answer is waited for; `None` is for ever, or until the caller drops the future.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Timeouts {
    /// From the request's end until the answer's head is complete.
    pub first_byte: Option<Duration>,
    /// Between any two bytes of the body. Time in which the caller does not read does not count.
    pub idle: Option<Duration>,
}

impl Client {
    /// A client that asks the system for addresses.
    pub fn new(roots: Roots) -> Self {
        Self::with_resolver(roots, Arc::new(SystemResolver))
    }

    /// A client with another way to find addresses.
    pub fn with_resolver(roots: Roots, resolver: Arc<dyn Resolve>) -> Self {
        let mut options = ConnectorOptions::new(POOLED_MAX);
        options.ca_file = Some(roots.file().to_owned());
        let connector = Arc::new(Connector::new(Some(options)));
        Self { inner: Arc::new(Inner { connector, roots, resolver, own: OnceLock::new() }) }
    }

    /// Says where this process listens, once: no stranger's URL leads there.
    pub fn listens_at(&self, addresses: Vec<SocketAddr>) {
        // A second saying would come from another process's start, of which there is none.
        let _ = self.inner.own.set(addresses.into());
    }

    pub(super) fn own_listeners(&self) -> &[SocketAddr] {
        self.inner.own.get().map_or(&[], |own| own)
    }

    /// A guard for the URLs of strangers, reading the authorities that it trusts.
    pub fn guard(&self, settings: guard::Settings) -> Result<Guard, tls::Error> {
        Guard::new(self.clone(), settings)
    }

    pub(super) fn roots(&self) -> &Roots {
        &self.inner.roots
    }

    pub(super) fn resolver(&self) -> &Arc<dyn Resolve> {
        &self.inner.resolver
    }

    /// Makes a peer, reading its certificates.
    pub fn peer(&self, settings: &peer::Settings) -> Result<Peer, tls::Error> {
        Peer::new(settings, &self.inner.roots, &self.inner.resolver)
    }

    /// Sends a request and waits for the head of the answer, past interim ones. Dropping the future ends the request at
    /// once.
    ///
    /// A request that found its pooled connection dead, or that the service refused unseen, is sent once more on a new
    /// connection.
    pub async fn send(&self, peer: &Peer, request: Request) -> Result<Response, Error> {
        let mut pool = if peer.is_for_one_request() { Pool::Fresh } else { Pool::Any };
        loop {
            let mut exchange = self.open(peer, pool).await?;
            match exchange.head(peer, &request).await {
                Ok(head) => return Ok(Response::new(exchange, *head, &request)),
                Err(failure) if failure.again && pool == Pool::Any => pool = Pool::Fresh,
                Err(failure) => return Err(failure.error),
            }
        }
    }

    async fn open(&self, peer: &Peer, pool: Pool) -> Result<Exchange, Error> {
        let deadline = Instant::now() + peer.connect;
        let candidates = peer.candidates(deadline).await?;
        let mut left = candidates.len() as u32;
        let mut failure = None;
        for address in candidates {
            let share = deadline.saturating_duration_since(Instant::now()) / left.max(1);
            left = left.saturating_sub(1);
            let cause = match timeout(share, self.open_at(peer, address, pool)).await {
                Ok(Ok(exchange)) => return Ok(exchange),
                Ok(Err(error)) => connect_error(&error, share),
                Err(_) => ConnectError::Timeout(share),
            };
            peer.avoid(address);
            // A failed handshake says more than a closed port at the next address.
            if failure.is_none() || matches!(cause, ConnectError::Tls(_)) {
                failure = Some(Error::Connect { address, cause });
            }
        }
        Err(failure.unwrap_or(Error::Reset))
    }

    async fn open_at(&self, peer: &Peer, address: SocketAddr, pool: Pool) -> pingora::Result<Exchange> {
        let connector = &self.inner.connector;
        if pool == Pool::Any {
            match Exchange::open(connector, peer.at(address)).await {
                // A pooled HTTP/2 connection that takes no more requests.
                Err(error) if *error.etype() == ErrorType::H2Error => {}
                opened => return opened,
            }
        }
        let mut exchange = Exchange::open(connector, peer.unpooled_at(address)).await?;
        if peer.is_for_one_request() {
            exchange.keep_never();
        } else {
            exchange.keep_as(peer.at(address));
        }
        Ok(exchange)
    }
}

/// Which connections a request may use.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pool {
    /// One of the pool, else a new one.
    Any,
    /// A new one.
    Fresh,
}

#[cfg(test)]
mod tests;
