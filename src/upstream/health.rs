//! Active health checks: each server is asked how it is, for as long as somebody uses it.

use std::sync::{Arc, Weak};
use std::time::Duration;

use http::{HeaderMap, Method};
use tokio::task::JoinSet;

use super::server::Server;
use super::service::Upstream;
use super::settings::Health;
use crate::net::{Bounds, Request, Timeouts};

/// How long a check may take: its interval, between these.
const PATIENCE_MIN: Duration = Duration::from_secs(1);
const PATIENCE_MAX: Duration = Duration::from_secs(5);

/// Bytes of an answer that are read; what it says is of no matter.
const ANSWER_MAX: usize = 64 << 10;

/// Asks all servers, again and again, until the upstream is gone.
pub(super) async fn watch(upstream: Weak<Upstream>, health: Health) {
    loop {
        {
            let Some(upstream) = upstream.upgrade() else { return };
            let mut checks = JoinSet::new();
            for server in upstream.servers().iter() {
                checks.spawn(check(upstream.clone(), server.clone(), health.clone()));
            }
            while checks.join_next().await.is_some() {}
        }
        tokio::time::sleep(health.interval).await;
    }
}

async fn check(upstream: Arc<Upstream>, server: Arc<Server>, health: Health) {
    let mut headers = HeaderMap::new();
    upstream.set_headers(&mut headers);
    let time = health.interval.clamp(PATIENCE_MIN, PATIENCE_MAX);
    let request = Request {
        method: Method::GET,
        target: health.path,
        headers,
        body: bytes::Bytes::new(),
        coding: crate::net::Coding::AsSent,
        timeouts: Timeouts::default(),
    };
    let fetched = upstream.client().fetch(&server.peer, request, Bounds { bytes: ANSWER_MAX, time }).await;
    server.checked(fetched.is_ok_and(|document| (200..400).contains(&document.status.as_u16())));
}
