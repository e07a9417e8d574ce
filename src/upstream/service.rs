//! `Upstream`: one service behind the gateway.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, RandomState};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::header::{AUTHORIZATION, HOST, RETRY_AFTER};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use prometheus::IntCounter;
use tokio::runtime::Handle;

use super::budget::Budget;
use super::oauth2::Tokens;
use super::server::{Gauges, Server};
use super::servers::{Affinity, Picked, Servers, Unavailable};
use super::settings::{Cookies, HttpVersion, Redirects, Settings, Timeouts as Set, When};
use super::target::{InvalidTarget, Target};
use super::{Problem, health};
use crate::net::{self, Client, Request, Response, Url, peer};
use crate::telemetry::Metrics;
use crate::yaml::Secret;

/// Until the service takes the next part of a request.
const WRITE: Duration = Duration::from_mins(1);

/// Servers that one request tries to connect to.
pub const CONNECTIONS_MAX: u32 = 3;

/// The pause before a request is sent again, doubling each time.
const BACKOFF: Duration = Duration::from_millis(25);
const BACKOFF_MAX: Duration = Duration::from_millis(250);

/// One service behind the gateway, ready for requests.
pub struct Upstream {
    /// Its key under `upstreams:`, or its URL.
    pub name: String,
    /// Where it is.
    pub url: Url,
    /// The credential for the dialect's own place.
    pub api_key: Option<Secret>,
    /// Whether `Set-Cookie` reaches the caller.
    pub cookies: Cookies,
    /// The version of HTTP that was asked for; Pingora's proxy needs HTTP/1.0 said with each request.
    pub http: HttpVersion,
    settings: Settings,
    headers: Vec<(HeaderName, HeaderValue)>,
    target: Target,
    servers: Arc<Servers>,
    budget: Budget,
    retries: Option<IntCounter>,
    client: Client,
    /// Whether somebody asks its servers how they are.
    watched: AtomicBool,
    tokens: Option<Tokens>,
}

/// What an upstream is used for; it decides how patient the gateway is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A capability.
    Capability,
    /// A talk, which may think for minutes.
    Talk,
}

/// How long to wait for what, all of it decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Until the connection stands, TLS included.
    pub connect: Duration,
    /// From the request's end until the answer's head.
    pub first_byte: Duration,
    /// Between any two bytes of the answer.
    pub idle: Duration,
    /// Between any two decoded events of a talk.
    pub progress: Duration,
    /// Over the whole exchange.
    pub total: Option<Duration>,
}

impl std::fmt::Debug for Upstream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Upstream").field("name", &self.name).field("url", &self.url).finish_non_exhaustive()
    }
}

impl Upstream {
    pub(super) fn new(settings: &Settings, client: &Client, metrics: Option<&Metrics>) -> Result<Self, Problem> {
        let patience = Timeouts::of(&settings.timeout, Kind::Capability);
        let peer = |url: &Url| {
            client.peer(&peer::Settings {
                origin: url.origin.clone(),
                tls: settings.tls.clone(),
                version: settings.http,
                connect: patience.connect,
                write: WRITE,
                read: patience.first_byte.max(patience.idle),
            })
        };
        let only = [super::settings::Server { url: settings.url.clone(), weight: 1 }];
        let listed = if settings.servers.is_empty() { &only[..] } else { &settings.servers };
        let name = &settings.name;
        let servers = listed.iter().map(|server| {
            let gauges = metrics.map(|metrics| {
                let origin = server.url.origin.to_string();
                Gauges { up: metrics.server_up(name, &origin), ejections: metrics.server_ejections(name, &origin) }
            });
            Ok(Server::new(name, server.url.clone(), server.weight, peer(&server.url)?, gauges))
        });
        let servers = servers.collect::<Result<Vec<_>, Problem>>()?;
        let interval = settings.health.as_ref().map(|health| health.interval);
        Ok(Self {
            name: settings.name.clone(),
            url: settings.url.clone(),
            api_key: settings.api_key.clone(),
            cookies: settings.cookies,
            http: settings.http,
            settings: settings.clone(),
            headers: settings.headers.iter().map(|(name, value)| header(name, value)).collect::<Result<_, _>>()?,
            target: Target::new(&settings.url, &settings.query).map_err(|_| Problem::Target)?,
            servers: Arc::new(Servers::new(name, servers, settings.balance, interval)),
            budget: Budget::default(),
            retries: metrics.map(|metrics| metrics.upstream_retries(name)),
            client: client.clone(),
            watched: AtomicBool::new(false),
            tokens: settings.oauth2.as_ref().map(|oauth2| Tokens::new(settings, oauth2, client)).transpose()?,
        })
    }

    /// Whether it is what these settings would make, given which files hold something else than when it was made.
    pub(super) fn is_still(&self, settings: &Settings, changed: &HashSet<PathBuf>) -> bool {
        let tls = &settings.tls;
        let files = [&tls.ca, &tls.cert, &tls.key].into_iter().flatten();
        self.settings == *settings && files.into_iter().all(|file| !changed.contains(file))
    }

    /// The server that a request goes to that Pingora's proxy sends; `tried` are those that it could not connect to.
    pub fn pick(&self, affinity: Option<Affinity>, tried: &[usize]) -> Result<Picked, Unavailable> {
        if tried.is_empty() {
            self.budget.earn();
        }
        self.servers.pick(affinity, tried)
    }

    /// Whether it has more servers than one, which each want a `Host` of their own.
    pub fn is_balanced(&self) -> bool {
        self.servers.len() > 1
    }

    /// Whether a request with this method may have to be sent again after it has reached a server, so that whoever sends
    /// it must be able to.
    pub fn repeats(&self, method: &Method) -> bool {
        let after_sending = |when: &When| *when != When::Connect;
        self.settings.retry.as_ref().is_some_and(|retry| retry.when.iter().any(after_sending)) && is_safe(method)
    }

    /// How long this kind of use waits.
    pub fn timeouts(&self, kind: Kind) -> Timeouts {
        Timeouts::of(&self.settings.timeout, kind)
    }

    /// The target on the service for a path and query of ours: the URL's path in front, its query and `query:` behind.
    pub fn target(&self, path_and_query: &str) -> Result<PathAndQuery, InvalidTarget> {
        self.target.of(path_and_query)
    }

    /// Sets what `headers:` says, in place of whatever stands there.
    pub fn set_headers(&self, headers: &mut HeaderMap) {
        for (name, _) in &self.headers {
            headers.remove(name);
        }
        for (name, value) in &self.headers {
            headers.append(name, value.clone());
        }
    }

    /// The fields that [`Self::set_headers`] sets, for who sets them elsewhere. Their values are marked sensitive.
    pub fn headers(&self) -> &[(HeaderName, HeaderValue)] {
        &self.headers
    }

    /// Sends a request as it is and waits for the head of the answer. Where a server can't be reached another one is
    /// asked, and what `retry:` allows is sent again.
    pub async fn send(&self, request: Request) -> Result<Response, net::Error> {
        self.send_from(request, None, &Seat::default()).await
    }

    /// The same for whoever belongs to a server, and wants to tell later how the server did. Where a token is needed it
    /// is added, and asked for anew once if the service does not take it.
    pub async fn send_from(
        &self,
        mut request: Request,
        affinity: Option<Affinity>,
        seat: &Seat,
    ) -> Result<Response, net::Error> {
        let Some(tokens) = &self.tokens else { return self.ask(request, affinity, seat).await };
        let token = tokens.authorization(&self.client, None).await?;
        request.headers.insert(AUTHORIZATION, token.clone());
        let answer = self.ask(request.clone(), affinity, seat).await?;
        if answer.status != StatusCode::UNAUTHORIZED {
            return Ok(answer);
        }
        answer.release().await;
        request.headers.insert(AUTHORIZATION, tokens.authorization(&self.client, Some(&token)).await?);
        self.ask(request, affinity, seat).await
    }

    async fn ask(&self, request: Request, affinity: Option<Affinity>, seat: &Seat) -> Result<Response, net::Error> {
        self.budget.earn();
        let mut tried = Vec::new();
        loop {
            let picked = self.servers.pick(affinity, &tried).map_err(unavailable)?;
            seat.take(&picked);
            tried.push(picked.index());
            let outcome = self.client.send(picked.peer(), self.addressed(request.clone(), &picked)).await;
            let status = outcome.as_ref().ok().map(|response| response.status);
            picked.record(status.is_some_and(|status| !is_failure(status)));
            if outcome.is_err() {
                seat.leave();
            }
            let pause = self.pause_before_next(&request.method, &outcome, &tried);
            let Some(pause) = pause else {
                return outcome.map(|mut response| {
                    response.accompany(Box::new(picked));
                    response
                });
            };
            drop(outcome);
            drop(picked);
            tokio::time::sleep(pause).await;
        }
    }

    /// The same; redirects of GET and HEAD are followed where the settings say so. One that leaves the origin is the
    /// answer.
    pub async fn send_following(
        &self,
        mut request: Request,
        affinity: Option<Affinity>,
        seat: &Seat,
    ) -> Result<Response, net::Error> {
        let follows =
            self.settings.redirects == Redirects::Follow && matches!(request.method, Method::GET | Method::HEAD);
        for _ in 0..=net::REDIRECTS_MAX {
            let answer = self.send_from(request.clone(), affinity, seat).await?;
            let leads = || net::redirect(&self.url.origin, &request.target, answer.status, &answer.headers);
            let Some(target) = follows.then(leads).and_then(Result::unwrap_or_default) else { return Ok(answer) };
            answer.release().await;
            request.target = target;
        }
        Err(net::Error::Redirect("too often"))
    }

    /// Whether Pingora's proxy can send its requests: nothing has to be asked for or followed meanwhile.
    pub fn passes(&self) -> bool {
        self.tokens.is_none() && self.settings.redirects == Redirects::Pass
    }

    /// Reads a small document whole.
    pub async fn fetch(&self, request: Request, bounds: net::Bounds) -> Result<net::Document, net::Error> {
        let picked = self.servers.pick(None, &[]).map_err(unavailable)?;
        let fetched = self.client.fetch(picked.peer(), self.addressed(request, &picked), bounds).await;
        picked.record(fetched.as_ref().is_ok_and(|document| !is_failure(document.status)));
        fetched
    }

    /// Tells of an answer that began well and did not end so: no byte or no event came in time.
    pub fn blame(&self, seat: &Seat) {
        if let Some(server) = seat.server() {
            self.servers.record(&server, false);
        }
    }

    /// How long to wait until the request is sent again; `None` where this is its answer.
    fn pause_before_next(
        &self,
        method: &Method,
        outcome: &Result<Response, net::Error>,
        tried: &[usize],
    ) -> Option<Duration> {
        let attempts = tried.len() as u32;
        let unsent = outcome.as_ref().is_err_and(net::Error::is_unsent);
        if unsent && attempts < CONNECTIONS_MAX && self.servers.has_other_than(tried) {
            return Some(Duration::ZERO);
        }
        let retry = self.settings.retry.as_ref().filter(|retry| attempts < retry.attempts)?;
        let cause = match outcome {
            Err(_) if unsent => When::Connect,
            Err(net::Error::Timeout { timer: net::Timer::FirstByte, .. }) => When::Timeout,
            Ok(response) if asks_for_patience(&response.headers) => return None,
            Ok(response) => When::Status(response.status.as_u16()),
            Err(_) => return None,
        };
        if !retry.when.contains(&cause) || !(unsent || is_safe(method)) || !self.budget.spend() {
            return None;
        }
        if let Some(retries) = &self.retries {
            retries.inc();
        }
        Some(backoff(attempts))
    }

    /// The request with the `Host` of the server that it goes to.
    fn addressed(&self, mut request: Request, picked: &Picked) -> Request {
        if self.is_balanced() && request.headers.contains_key(HOST) {
            request.headers.insert(HOST, picked.authority().clone());
        }
        request
    }

    /// Asks each server how it is, for as long as somebody has the upstream.
    pub(super) fn watch(self: &Arc<Self>, runtime: &Handle) {
        if let Some(health) = &self.settings.health
            && !self.watched.swap(true, Ordering::AcqRel)
        {
            runtime.spawn(health::watch(Arc::downgrade(self), health.clone()));
        }
    }

    pub(super) fn servers(&self) -> &Servers {
        &self.servers
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }
}

/// Which server has answered, for who learns later that it did not do so to the end.
#[derive(Debug, Default)]
pub struct Seat(Mutex<Option<Arc<Server>>>);

impl Seat {
    fn take(&self, picked: &Picked) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(picked.server().clone());
    }

    fn leave(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn server(&self) -> Option<Arc<Server>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Whether a status says that the service itself is not there: what an application answers, an error of its own among
/// it, says nothing against its server.
pub fn is_failure(status: StatusCode) -> bool {
    matches!(status.as_u16(), 502..=504)
}

/// Methods that do the same when they are done twice (RFC 9110 9.2.2).
fn is_safe(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS | Method::TRACE | Method::PUT | Method::DELETE)
}

/// Whether a service wants more patience than a retry has.
fn asks_for_patience(headers: &HeaderMap) -> bool {
    let after = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok());
    after.is_some_and(|after| after.trim().parse::<u64>().map_or(true, |seconds| seconds > 1))
}

/// Longer each time, and never the same for all, so that requests that failed together do not come back together.
fn backoff(attempts: u32) -> Duration {
    let most = BACKOFF.saturating_mul(2_u32.saturating_pow(attempts.saturating_sub(1))).min(BACKOFF_MAX);
    let random = RandomState::new().hash_one(attempts) % 1_000;
    most / 2 + most.mul_f64(random as f64 / 2_000.0)
}

fn unavailable(unavailable: Unavailable) -> net::Error {
    net::Error::Unavailable { retry_after: unavailable.retry_after }
}

impl Timeouts {
    fn of(set: &Set, kind: Kind) -> Self {
        let (first_byte, idle, progress) = match kind {
            Kind::Capability => (Duration::from_mins(1), Duration::from_mins(1), Duration::from_mins(1)),
            Kind::Talk => (Duration::from_mins(5), Duration::from_mins(2), Duration::from_mins(5)),
        };
        Self {
            connect: set.connect.unwrap_or(Duration::from_secs(5)),
            first_byte: set.first_byte.unwrap_or(first_byte),
            idle: set.idle.unwrap_or(idle),
            progress: set.progress.unwrap_or(progress),
            total: set.total,
        }
    }
}

impl From<Timeouts> for net::Timeouts {
    fn from(timeouts: Timeouts) -> Self {
        Self { first_byte: Some(timeouts.first_byte), idle: Some(timeouts.idle) }
    }
}

fn header(name: &HeaderName, value: &Secret) -> Result<(HeaderName, HeaderValue), Problem> {
    let mut value = HeaderValue::from_str(value.expose()).map_err(|_| Problem::Header(name.clone()))?;
    value.set_sensitive(true);
    Ok((name.clone(), value))
}
