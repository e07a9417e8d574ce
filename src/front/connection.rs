//! One connection: take a head, judge it, have Pingora serve the request, again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pingora::apps::{HttpServerApp, ServerApp};
use pingora::protocols::http::ServerSession;
use pingora::server::ShutdownWatch;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite};

use super::downstream::{Deadlines, Downstream, Next};
use super::head::Refused;
use super::way::Redirect;
use crate::restap::ErrorCode;

/// How long a connection may rest between two requests.
const KEEPALIVE: Duration = Duration::from_secs(75);

/// When the process stops, a request that comes this soon afterwards is answered: its caller can't know yet.
pub const LAST_CALL: Duration = Duration::from_millis(500);

/// What serves the connections of a listener.
pub struct Server<A> {
    /// Pingora's proxy, or another application on its sessions.
    pub app: Arc<A>,
    /// Becomes `true` when the process stops: connections end with the request that they are in.
    pub shutdown: ShutdownWatch,
    /// Until a request's head must be complete.
    pub header_timeout: HeaderTimeout,
}

/// A period that may change while connections are open.
#[derive(Debug, Clone)]
pub struct HeaderTimeout(Arc<AtomicU64>);

impl HeaderTimeout {
    /// It holds from now on.
    pub fn new(period: Duration) -> Self {
        Self(Arc::new(AtomicU64::new(period.as_millis() as u64)))
    }

    /// Heads that begin from now on have this long.
    pub fn set(&self, period: Duration) {
        self.0.store(period.as_millis() as u64, Ordering::Relaxed);
    }

    fn get(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Relaxed))
    }
}

impl<A> Clone for Server<A> {
    fn clone(&self) -> Self {
        Self { app: self.app.clone(), shutdown: self.shutdown.clone(), header_timeout: self.header_timeout.clone() }
    }
}

impl<A> Server<A> {
    /// How long a caller may take to say what it wants.
    pub(super) fn header_timeout(&self) -> Duration {
        self.header_timeout.get()
    }
}

impl<A: HttpServerApp + Send + Sync + 'static> Server<A> {
    /// Serves a connection until either side ends it.
    pub(super) async fn serve<S>(&self, mut downstream: Downstream<S>, redirect: Option<Redirect>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + Sync + 'static,
    {
        let mut shutdown = self.shutdown.clone();
        let mut idle = self.header_timeout.get();
        loop {
            let deadlines = Deadlines { idle, head: self.header_timeout.get() };
            let next = tokio::select! {
                biased;
                next = downstream.next_request(deadlines) => next,
                () = stopping(&mut shutdown) => {
                    // What is on its way already is answered.
                    match tokio::time::timeout(LAST_CALL, downstream.next_request(deadlines)).await {
                        Ok(next) => next,
                        Err(_) => return,
                    }
                }
            };
            match next {
                Next::Request if let Some(redirect) = redirect => {
                    let answer = redirected(redirect.location(downstream.head()));
                    return downstream.refuse(&answer).await;
                }
                Next::Http2 if redirect.is_some() => return,
                Next::Request => match self.request(downstream).await {
                    Some(reusable) => downstream = reusable,
                    None => return,
                },
                Next::Http2 => {
                    self.app.process_new(Box::new(downstream), &self.shutdown).await;
                    return;
                }
                Next::Refused(refused) => return downstream.refuse(&refusal(refused)).await,
                Next::TimedOut => return downstream.refuse(&timed_out()).await,
                Next::Closed => return,
            }
            idle = KEEPALIVE;
        }
    }

    async fn request<S>(&self, downstream: Downstream<S>) -> Option<Downstream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + Sync + 'static,
    {
        let session = ServerSession::new_http1(Box::new(downstream));
        let (stream, _) = self.app.process_new_http(session, &self.shutdown).await?.consume();
        stream.into_any().downcast().ok().map(|stream| *stream)
    }
}

async fn stopping(shutdown: &mut ShutdownWatch) {
    // A process that is gone stops too.
    let _ = shutdown.wait_for(|stopping| *stopping).await;
}

fn refusal(refused: Refused) -> Vec<u8> {
    match refused {
        Refused::Bad(message) => answer(ErrorCode::BadRequest, message),
        Refused::Path(message) => answer(ErrorCode::InvalidPath, message),
        Refused::TooLarge(message) => answer(ErrorCode::HeadersTooLarge, message),
    }
}

/// 308 keeps method and body: who follows it sends the same request over TLS.
fn redirected(location: Option<String>) -> Vec<u8> {
    let Some(location) = location else {
        return answer(ErrorCode::BadRequest, "this address leads to https:// alone; send a Host, or ask there");
    };
    format!("HTTP/1.1 308 Permanent Redirect\r\nLocation: {location}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        .into_bytes()
}

/// A caller that does not speak TLS where nothing else is spoken.
pub(super) fn needs_tls() -> Vec<u8> {
    answer(ErrorCode::BadRequest, "this address speaks HTTPS; ask for https:// in place of http://")
}

fn timed_out() -> Vec<u8> {
    answer(ErrorCode::RequestTimeout, "the request's head did not arrive in time; send it again")
}

/// A whole HTTP/1.1 answer for a request that never became one.
fn answer(code: ErrorCode, message: &str) -> Vec<u8> {
    let body = json!({"error": code, "message": message}).to_string();
    let (status, length) = (code.status(), body.len());
    let reason = status.canonical_reason().unwrap_or_default();
    format!(
        "HTTP/1.1 {} {reason}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}",
        status.as_u16(),
    )
    .into_bytes()
}
