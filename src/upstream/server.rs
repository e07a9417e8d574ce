//! `Server`: one of an upstream's servers, and how it has been doing.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::HeaderValue;
use prometheus::{IntCounter, IntGauge};
use tokio::time::Instant;
use tracing::{info, warn};

use crate::net::{Peer, Url};

/// Failures in a row after which a server is left out.
const FAILURES_MAX: u32 = 5;

/// How long it is left out: at first, and at most, doubling each time that it fails again.
const LEFT_OUT_MIN: Duration = Duration::from_secs(10);
const LEFT_OUT_MAX: Duration = Duration::from_mins(5);

/// Checks in a row that change what is thought of a server.
const CHECKS: u32 = 2;

/// A server that is back gets its whole share only after this long, and this part of it at once: its caches are cold,
/// and everybody has waited for it.
const SLOW_START: Duration = Duration::from_secs(10);
const SLOW_START_SHARE: f64 = 0.1;

/// One server.
pub(super) struct Server {
    pub(super) url: Url,
    pub(super) peer: Peer,
    pub(super) authority: HeaderValue,
    weight: u32,
    upstream: Arc<str>,
    in_flight: AtomicUsize,
    state: Mutex<State>,
    gauges: Option<Gauges>,
}

/// What is published of a server.
pub(super) struct Gauges {
    pub(super) up: IntGauge,
    pub(super) ejections: IntCounter,
}

#[derive(Debug, Default)]
struct State {
    failures: u32,
    /// Left out until then; afterwards one request at a time tries whether it is back.
    ejected: Option<Instant>,
    ejections: u32,
    trial: bool,
    back_since: Option<Instant>,
    /// What the checks say: `None` before the first.
    healthy: Option<bool>,
    /// Checks in a row that say the opposite.
    opposite: u32,
}

/// How a server stands for the next request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Standing {
    /// It takes this share of the requests, against the others'.
    Takes(f64),
    /// It has failed too often. Asked nevertheless where there is no other.
    LeftOut,
    /// Its health check says that it is down.
    Down,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Server {
    pub(super) fn new(upstream: &str, url: Url, weight: u32, peer: Peer, gauges: Option<Gauges>) -> Self {
        if let Some(gauges) = &gauges {
            gauges.up.set(1);
        }
        Self {
            authority: HeaderValue::try_from(url.origin.authority()).unwrap_or(HeaderValue::from_static("localhost")),
            url,
            peer,
            weight,
            upstream: upstream.into(),
            in_flight: AtomicUsize::new(0),
            state: Mutex::default(),
            gauges,
        }
    }

    pub(super) fn standing(&self, now: Instant) -> Standing {
        let state = self.state();
        if state.healthy == Some(false) {
            return Standing::Down;
        }
        match state.ejected {
            Some(until) if now < until || state.trial => Standing::LeftOut,
            _ => Standing::Takes(f64::from(self.weight) * state.share(now)),
        }
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Gives it a request. Where it was left out, the request is the one that tries it.
    pub(super) fn begin(self: &Arc<Self>) -> Place {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        let mut state = self.state();
        let trial = state.ejected.is_some() && !state.trial;
        state.trial |= trial;
        drop(state);
        Place { server: self.clone(), trial }
    }

    /// A request has come back. `others`: whether somebody else could take its requests.
    pub(super) fn record(&self, succeeded: bool, others: bool) {
        let mut state = self.state();
        if succeeded {
            state.failures = 0;
            if state.ejected.take().is_some() {
                state.back(self);
            }
            return;
        }
        state.failures = state.failures.saturating_add(1);
        let again = state.ejected.is_some();
        if others && (again || state.failures >= FAILURES_MAX) {
            let wait = LEFT_OUT_MAX.min(LEFT_OUT_MIN * 2_u32.saturating_pow(state.ejections.min(10)));
            state.ejected = Some(Instant::now() + wait);
            state.ejections = state.ejections.saturating_add(1);
            let (failures, seconds) = (state.failures, wait.as_secs());
            warn!("upstream {}: {} is left out for {seconds} s: {failures} failures in a row", self.upstream, self.url);
            if let Some(gauges) = &self.gauges {
                gauges.up.set(0);
                gauges.ejections.inc();
            }
        }
    }

    /// A health check has come back.
    pub(super) fn checked(&self, well: bool) {
        let mut state = self.state();
        let before = state.healthy;
        if before == Some(well) {
            state.opposite = 0;
            return;
        }
        state.opposite += 1;
        // The first check decides at once: nothing else is known.
        if before.is_some() && state.opposite < CHECKS {
            return;
        }
        state.opposite = 0;
        state.healthy = Some(well);
        match (before, well) {
            (_, false) => {
                warn!("upstream {}: {} is down: its health check fails", self.upstream, self.url);
                if let Some(gauges) = &self.gauges {
                    gauges.up.set(0);
                }
            }
            (Some(_), true) => {
                state.ejected = None;
                state.back(self);
            }
            (None, true) => {}
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn share(&self, now: Instant) -> f64 {
        let Some(back) = self.back_since else { return 1.0 };
        let since = now.saturating_duration_since(back).as_secs_f64();
        (since / SLOW_START.as_secs_f64()).clamp(SLOW_START_SHARE, 1.0)
    }

    fn back(&mut self, server: &Server) {
        // One that fails again soon has not been well for long enough to be forgiven.
        let now = Instant::now();
        if self.back_since.is_some_and(|back| now.saturating_duration_since(back) > LEFT_OUT_MAX) {
            self.ejections = 0;
        }
        self.failures = 0;
        self.back_since = Some(now);
        info!("upstream {}: {} is back", server.upstream, server.url);
        if let Some(gauges) = &server.gauges {
            gauges.up.set(1);
        }
    }
}

/// A request's place at a server, which it holds until its answer has ended.
pub(super) struct Place {
    pub(super) server: Arc<Server>,
    trial: bool,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.server.in_flight.fetch_sub(1, Ordering::Relaxed);
        if self.trial {
            self.server.state().trial = false;
        }
    }
}
