//! `Settings`: one entry of `upstreams:`.

use std::path::PathBuf;
use std::time::Duration;

use crate::net::Url;
use crate::yaml::Secret;

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

/// `tls:` of an upstream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tls {
    /// PEM file of the authorities to trust in place of the system's.
    pub ca: Option<PathBuf>,
    /// PEM file of the client certificate chain.
    pub cert: Option<PathBuf>,
    /// PEM file of the client certificate's key.
    pub key: Option<PathBuf>,
    /// The name to verify and to send, where it is not the URL's host.
    pub server_name: Option<String>,
    /// `verify: false`.
    pub insecure: bool,
}

/// `http:` of an upstream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum HttpVersion {
    /// HTTP/2 where TLS negotiates it, else HTTP/1.1.
    #[default]
    Auto,
    /// HTTP/1.0 requests.
    Http10,
    /// HTTP/1.1 only.
    Http11,
    /// HTTP/2 only, without TLS by prior knowledge.
    Http2,
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
