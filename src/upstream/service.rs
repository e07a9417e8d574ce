//! `Upstream`: one service behind the gateway.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Duration;

use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::Problem;
use super::failures::Failures;
use super::settings::{Cookies, HttpVersion, Settings, Timeouts as Set};
use super::target::{InvalidTarget, Target};
use crate::net::{self, Client, Peer, Request, Response, Url, peer};
use crate::yaml::Secret;

/// Until the service takes the next part of a request.
const WRITE: Duration = Duration::from_mins(1);

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
    peer: Peer,
    failures: Failures,
    client: Client,
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
    pub(super) fn new(settings: &Settings, client: &Client) -> Result<Self, Problem> {
        let patience = Timeouts::of(&settings.timeout, Kind::Capability);
        let peer = client.peer(&peer::Settings {
            origin: settings.url.origin.clone(),
            tls: settings.tls.clone(),
            version: settings.http,
            connect: patience.connect,
            write: WRITE,
            read: patience.first_byte.max(patience.idle),
        })?;
        Ok(Self {
            name: settings.name.clone(),
            url: settings.url.clone(),
            api_key: settings.api_key.clone(),
            cookies: settings.cookies,
            http: settings.http,
            settings: settings.clone(),
            headers: settings.headers.iter().map(|(name, value)| header(name, value)).collect::<Result<_, _>>()?,
            target: Target::new(&settings.url, &settings.query).map_err(|_| Problem::Target)?,
            peer,
            failures: Failures::default(),
            client: client.clone(),
        })
    }

    /// Whether it is what these settings would make, given which files hold something else than when it was made.
    pub(super) fn is_still(&self, settings: &Settings, changed: &HashSet<PathBuf>) -> bool {
        let tls = &settings.tls;
        let files = [&tls.ca, &tls.cert, &tls.key].into_iter().flatten();
        self.settings == *settings && files.into_iter().all(|file| !changed.contains(file))
    }

    /// Where its connections go; for Pingora's proxy, which opens its own.
    pub fn peer(&self) -> &Peer {
        &self.peer
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

    /// Sends a request as it is and waits for the head of the answer.
    pub async fn send(&self, request: Request) -> Result<Response, net::Error> {
        let answer = self.client.send(&self.peer, request).await;
        self.record(answer.as_ref().is_ok_and(|response| !response.status.is_server_error()));
        answer
    }

    /// Reads a small document whole.
    pub async fn fetch(&self, request: Request, bounds: net::Bounds) -> Result<net::Document, net::Error> {
        self.client.fetch(&self.peer, request, bounds).await
    }

    /// Tells how a request went that Pingora's proxy sent, or that failed after its head.
    pub fn record(&self, succeeded: bool) {
        self.failures.record(succeeded);
    }

    /// How many requests in a row have failed: no connection, no answer, a broken one, or a status of 500 and above.
    pub fn failures_in_a_row(&self) -> u32 {
        self.failures.in_a_row()
    }
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
