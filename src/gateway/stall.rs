//! A body over HTTP/2 that stops coming. Pingora bounds the pauses of a streamed body over HTTP/1 alone; here a request
//! over HTTP/2 whose body pauses for longer than `limits.body_timeout` ends: its stream is reset, and its service asked
//! no more.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use http::Method;
use pingora::apps::{HttpServerApp, HttpServerOptions, ReusedHttpStream};
use pingora::protocols::http::ServerSession;
use pingora::protocols::http::v2::server::H2Options;
use pingora::proxy::HttpProxy;
use pingora::server::ShutdownWatch;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::Gateway;
use super::access_log::{self, Outcome};
use super::ctx::RequestCtx;
use super::proxy::Proxy;
use crate::restap::ErrorCode;

tokio::task_local! {
    /// The body that the request of this task streams.
    static BODY: Arc<Body>;
}

/// How long a body may pause, and since when it does.
#[derive(Debug, Default)]
struct Body {
    pause: Mutex<Option<(Duration, Instant)>>,
    changed: Notify,
}

/// Pingora's proxy, with an end to requests whose bodies stop coming.
pub(super) struct Bounded(pub Arc<HttpProxy<Proxy>>);

#[async_trait]
impl HttpServerApp for Bounded {
    async fn process_new_http(
        self: &Arc<Self>,
        session: ServerSession,
        shutdown: &ShutdownWatch,
    ) -> Option<ReusedHttpStream> {
        if !session.is_http2() {
            return self.0.process_new_http(session, shutdown).await;
        }
        let body = Arc::new(Body::default());
        tokio::select! {
            biased;
            reusable = BODY.scope(body.clone(), self.0.process_new_http(session, shutdown)) => reusable,
            () = body.stalled() => None,
        }
    }

    fn h2_options(&self) -> Option<H2Options> {
        self.0.h2_options()
    }

    fn server_options(&self) -> Option<&HttpServerOptions> {
        self.0.server_options()
    }

    async fn http_cleanup(&self) {
        self.0.http_cleanup().await;
    }
}

impl Body {
    fn set(&self, pause: Option<(Duration, Instant)>) {
        *self.pause.lock().unwrap_or_else(PoisonError::into_inner) = pause;
    }

    fn get(&self) -> Option<(Duration, Instant)> {
        *self.pause.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends when the body has paused for too long.
    async fn stalled(&self) {
        loop {
            // A body that goes on is looked at again when its pause would have been over.
            match self.get() {
                None => self.changed.notified().await,
                Some((pause, since)) if since.elapsed() >= pause => return,
                Some((pause, since)) => tokio::time::sleep_until(since + pause).await,
            }
        }
    }
}

/// The rest of this request's body comes from now on, with no pause longer than `pause`.
pub(super) fn begin(pause: Duration) {
    let _ = BODY.try_with(|body| {
        body.set(Some((pause, Instant::now())));
        body.changed.notify_one();
    });
}

/// A part of it came, or its end.
pub(super) fn came(end: bool) {
    let _ = BODY.try_with(|body| {
        if let Some((pause, _)) = body.get() {
            body.set((!end).then(|| (pause, Instant::now())));
        }
    });
}

/// What is to be logged of a request that may end without Pingora's hook for it.
pub(super) struct Unlogged {
    gateway: Arc<Gateway>,
    method: Method,
}

impl Unlogged {
    pub(super) fn new(gateway: &Arc<Gateway>, method: &Method) -> Self {
        Self { gateway: gateway.clone(), method: method.clone() }
    }

    /// Logs it as one whose body did not come.
    pub(super) fn log(self, ctx: &mut RequestCtx) {
        ctx.refused = Some(ErrorCode::RequestTimeout);
        let status = ErrorCode::RequestTimeout.status().as_u16();
        access_log::write(&self.gateway, &Outcome { method: &self.method, status, bytes: 0 }, ctx);
    }
}

impl std::fmt::Debug for Unlogged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Unlogged").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_pause_ends_it_and_a_body_that_goes_on_does_not() {
        let body = Arc::new(Body::default());
        let began = Instant::now();
        let pause = Duration::from_secs(10);
        let streaming = BODY.scope(body.clone(), async {
            tokio::time::sleep(Duration::from_mins(1)).await;
            begin(pause);
            for _ in 0..5 {
                tokio::time::sleep(Duration::from_secs(9)).await;
                came(false);
            }
            std::future::pending::<()>().await;
        });
        tokio::select! {
            () = streaming => {}
            () = body.stalled() => {}
        }
        assert_eq!(began.elapsed(), Duration::from_secs(60 + 45 + 10));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_has_ended_may_be_waited_for_as_long_as_it_takes() {
        let body = Arc::new(Body::default());
        BODY.scope(body.clone(), async {
            begin(Duration::from_secs(1));
            came(true);
        })
        .await;
        assert!(tokio::time::timeout(Duration::from_hours(1), body.stalled()).await.is_err());
    }
}
