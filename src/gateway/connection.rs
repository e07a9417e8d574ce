//! One connection: take a head, judge it, have Pingora serve the request, again.

use std::sync::Arc;
use std::time::Duration;

use pingora::apps::{HttpServerApp, ServerApp};
use pingora::protocols::IO;
use pingora::protocols::http::ServerSession;
use pingora::proxy::HttpProxy;
use pingora::server::ShutdownWatch;
use tokio::io::{AsyncRead, AsyncWrite};

use super::downstream::{Deadlines, Downstream, Next};
use super::error::{Refusal, status};
use super::head::Refused;
use super::proxy::Door;
use crate::restap::ErrorCode;

/// How long a connection may rest between two requests.
pub(super) const KEEPALIVE: Duration = Duration::from_secs(75);

/// What serves every connection of a listener.
#[derive(Clone)]
pub(super) struct Server {
    pub proxy: Arc<HttpProxy<Door>>,
    pub shutdown: ShutdownWatch,
    pub header_timeout: Duration,
}

impl Server {
    /// Serves a connection until either side ends it.
    pub(super) async fn serve<S>(&self, mut downstream: Downstream<S>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + Sync + 'static,
    {
        let mut shutdown = self.shutdown.clone();
        let mut deadlines = Deadlines { idle: self.header_timeout, head: self.header_timeout };
        loop {
            let next = tokio::select! {
                biased;
                next = downstream.next_request(deadlines) => next,
                _ = shutdown.wait_for(|stopping| *stopping) => return,
            };
            match next {
                Next::Request => match self.request(downstream).await {
                    Some(reusable) => downstream = reusable,
                    None => return,
                },
                Next::Http2 => {
                    self.proxy.process_new(Box::new(downstream), &self.shutdown).await;
                    return;
                }
                Next::Refused(refused) => return downstream.refuse(&answer(&refusal(refused))).await,
                Next::TimedOut => return downstream.refuse(&answer(&timed_out())).await,
                Next::Closed => return,
            }
            deadlines.idle = KEEPALIVE;
        }
    }

    async fn request<S>(&self, downstream: Downstream<S>) -> Option<Downstream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + Sync + 'static,
    {
        let session = ServerSession::new_http1(Box::new(downstream));
        let (stream, _) = self.proxy.process_new_http(session, &self.shutdown).await?.consume();
        stream.into_any().downcast().ok().map(|stream| *stream)
    }
}

fn refusal(refused: Refused) -> Refusal {
    match refused {
        Refused::Bad(message) => Refusal::new(ErrorCode::BadRequest, message),
        Refused::TooLarge(message) => Refusal::new(ErrorCode::HeadersTooLarge, message),
    }
}

fn timed_out() -> Refusal {
    Refusal::new(ErrorCode::RequestTimeout, "the request's head did not arrive in time; send it again")
}

/// A whole HTTP/1.1 answer for a request that never became one.
fn answer(refusal: &Refusal) -> Vec<u8> {
    let body = refusal.body().to_string();
    let status = status(refusal.code);
    format!(
        "HTTP/1.1 {} {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        status.as_u16(),
        status.canonical_reason().unwrap_or_default(),
        body.len()
    )
    .into_bytes()
}
