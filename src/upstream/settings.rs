//! `Settings`: one entry of `upstreams:`.

use std::time::Duration;

use crate::net::Url;
use crate::yaml::Secret;

pub use crate::net::HttpVersion;
pub use crate::net::tls::Settings as Tls;

/// A service behind the gateway.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The key under `upstreams:`, or the URL itself where it was written in place of a name.
    pub name: String,
    /// Where it is; the path goes in front of every request's own.
    pub url: Url,
    /// Set on every request, in place of the caller's.
    pub headers: Vec<(http::HeaderName, Secret)>,
    /// Added to every request's query; names and values are not yet encoded.
    pub query: Vec<(String, Secret)>,
    /// The credential for the dialect's own place (`api_key:`).
    pub api_key: Option<Secret>,
    /// What was set; the kind of use (capability or talk) fills in the rest.
    pub timeout: Timeouts,
    /// TLS towards the service.
    pub tls: Tls,
    /// The version of HTTP.
    pub http: HttpVersion,
    /// Whether `Set-Cookie` reaches the caller.
    pub cookies: Cookies,
}

/// `timeout:`; `None` is the default of the kind of use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Timeouts {
    /// Until the connection stands, TLS included.
    pub connect: Option<Duration>,
    /// From the request's end until the answer's first byte.
    pub first_byte: Option<Duration>,
    /// Between any two bytes of the answer.
    pub idle: Option<Duration>,
    /// Between any two decoded events of a talk; keep-alives do not count.
    pub progress: Option<Duration>,
    /// Over the whole exchange; off unless set.
    pub total: Option<Duration>,
}

/// `cookies:` of an upstream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Cookies {
    /// `Set-Cookie` is dropped.
    #[default]
    Drop,
    /// `Set-Cookie` reaches the caller.
    Pass,
}
