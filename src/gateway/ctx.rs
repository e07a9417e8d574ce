//! `RequestCtx`: what travels with one request from hook to hook.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::HeaderValue;
use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, HeaderName,
    STRICT_TRANSPORT_SECURITY, VARY,
};
use pingora::http::ResponseHeader;
use prometheus::IntGauge;

use super::drain::Running;
use super::handler::capability::ProxiedCall;
use super::job::Job;
use super::live::{Agent, Live};
use super::stall::Unlogged;
use super::who::{Slot, Used, Who};
use crate::front::{Arrival, Listen};
use crate::restap::ErrorCode;
use crate::telemetry::Metrics;

/// The header that names a request in answers, logs and upstream.
pub(super) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Headers of an answer that a page of another origin may read.
const EXPOSED: HeaderValue = HeaderValue::from_static(
    "X-Request-Id, Retry-After, ETag, Restap-Job-Id, WWW-Authenticate, RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset",
);

/// One request. It sees one configuration, the one in force when it came.
#[derive(Debug)]
pub(super) struct RequestCtx {
    /// The caller's `X-Request-Id`, or a new one.
    pub id: HeaderValue,
    pub received_at: Instant,
    pub live: Arc<Live>,
    pub agent: Option<Arc<Agent>>,
    /// The route's name for logs and metrics: a fixed word or a capability's id.
    pub route: Arc<str>,
    /// The agent's own listener that the request came in at; `None` where callers are served.
    pub agent_side: Option<Arc<Listen>>,
    /// The address at the other end; `None` on a unix socket.
    pub peer: Option<IpAddr>,
    /// Whether the peer is a proxy of ours, which is believed.
    pub from_trusted_proxy: bool,
    /// The address of the caller, as a trusted proxy gives it or the peer's own.
    pub client: Option<IpAddr>,
    /// The path without its query, in its normal form.
    pub path: Box<str>,
    /// How its connection came.
    pub arrival: Arrival,
    /// Who calls, as far as it is verified.
    pub who: Who,
    /// Its body, where it had to be read to know who calls.
    pub whole: Option<Bytes>,
    /// What the request used up of its caller's rate.
    pub used: Option<Used>,
    /// Seconds that a reader of news who asks too often has to wait.
    pub paced: Option<u64>,
    /// Its place among the requests of its caller that run.
    pub running: Slot,
    /// What `Access-Control-Allow-Origin` says of this answer.
    pub cors: Option<HeaderValue>,
    /// The call that Pingora's hooks carry on.
    pub proxied: Option<ProxiedCall>,
    /// The call's report, until the call is over.
    pub job: Option<Job>,
    /// Why the request failed, for the log.
    pub refused: Option<ErrorCode>,
    /// The service that was asked.
    pub upstream: Option<Arc<str>>,
    /// What `route.cache` came to: a word of a closed list.
    pub cache: Option<&'static str>,
    /// What is to be logged of it if it ends without a word.
    pub unlogged: Option<Unlogged>,
    /// Counted for as long as the request lasts.
    pub counted: Running,
    _in_flight: InFlight,
}

/// Counts a request in a gauge.
#[derive(Debug)]
struct InFlight(IntGauge);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl RequestCtx {
    pub(super) fn new(live: Arc<Live>, running: Running, metrics: &Metrics) -> Self {
        metrics.requests_in_flight.inc();
        Self {
            id: HeaderValue::from_static(""),
            received_at: Instant::now(),
            live,
            agent: None,
            route: Arc::clone(&UNROUTED),
            agent_side: None,
            peer: None,
            from_trusted_proxy: false,
            client: None,
            path: "".into(),
            arrival: Arrival::default(),
            who: Who::default(),
            whole: None,
            used: None,
            paced: None,
            running: None,
            cors: None,
            proxied: None,
            job: None,
            refused: None,
            upstream: None,
            cache: None,
            unlogged: None,
            counted: running,
            _in_flight: InFlight(metrics.requests_in_flight.clone()),
        }
    }

    /// Adds what every answer carries.
    pub(super) fn finish_head(&mut self, head: &mut ResponseHeader) -> pingora::Result<()> {
        head.insert_header(REQUEST_ID, &self.id)?;
        if let Some(job) = &mut self.job {
            job.head(head)?;
        }
        if let Some(period) = self.arrival.hsts {
            head.insert_header(STRICT_TRANSPORT_SECURITY, format!("max-age={}", period.as_secs()))?;
        }
        for (name, value) in self.used.iter().flat_map(Used::headers) {
            head.insert_header(name, value)?;
        }
        if let Some(origin) = &self.cors {
            head.insert_header(ACCESS_CONTROL_ALLOW_ORIGIN, origin)?;
            head.insert_header(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED)?;
            head.remove_header(&ACCESS_CONTROL_ALLOW_CREDENTIALS);
            if origin != "*" {
                head.append_header(VARY, "Origin")?;
            }
        }
        Ok(())
    }

    /// Notes what the caller is about to get of an answer's body, for the call's report; `last` is its end.
    pub(super) fn told(&mut self, bytes: &[u8], last: bool) {
        let Some(job) = &mut self.job else { return };
        if job.body(bytes) || last {
            self.end_job(true);
        }
    }

    /// Ends the call's report, if there is one and it has not ended.
    pub(super) fn end_job(&mut self, whole: bool) {
        if let Some(job) = self.job.take() {
            job.end(whole);
        }
    }

    /// The agent's name in logs and metrics.
    pub(super) fn agent_key(&self) -> &str {
        self.agent.as_ref().map_or("", |agent| &agent.key)
    }
}

impl Drop for RequestCtx {
    fn drop(&mut self) {
        self.end_job(false);
        if let Some(unlogged) = self.unlogged.take() {
            unlogged.log(self);
        }
    }
}

/// The route of a request that no agent answers.
static UNROUTED: std::sync::LazyLock<Arc<str>> = std::sync::LazyLock::new(|| "none".into());
