//! `Service`: what every request to one upstream carries, whichever capability it is for.

use std::fmt;

use http::{HeaderName, HeaderValue};

use crate::net::Url;
use crate::net::origin::Origin;
use crate::yaml::Secret;

use super::path::push_value;
use super::query;

/// An upstream as requests to it need it. Its `Debug` shows no value of a header or a query parameter.
pub struct Service {
    origin: Origin,
    authority: HeaderValue,
    prefix: Box<str>,
    query: Box<[Added]>,
    headers: Box<[(HeaderName, HeaderValue)]>,
    cookies: CookiePolicy,
}

/// Whether `Set-Cookie` reaches callers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CookiePolicy {
    /// It is dropped.
    #[default]
    Drop,
    /// It passes.
    Pass,
}

/// A header's value that HTTP can't carry; the value is a secret and not shown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidService {
    /// A control character, most likely a line feed at a file's end.
    #[error("the value of `{0}` holds a character that a header can't carry, such as a line feed")]
    Header(HeaderName),
    /// Set by the gateway itself, for the connection.
    #[error("`{0}` belongs to the connection and is set by the gateway")]
    ConnectionHeader(HeaderName),
    /// The host that HTTP can't name.
    #[error("the upstream's host can't stand in a Host header")]
    Host,
}

/// A query parameter that is added to every request.
pub(super) struct Added {
    pub(super) name: Box<str>,
    /// `name=value`, encoded.
    pub(super) pair: Secret,
}

impl Service {
    /// Takes an upstream's URL, its `headers:` and `query:` with unencoded values, and its `cookies:`.
    pub fn new(
        url: &Url,
        headers: &[(HeaderName, Secret)],
        query: &[(String, Secret)],
        cookies: CookiePolicy,
    ) -> Result<Self, InvalidService> {
        let of_url = query::pairs(url.query.strip_prefix('?').unwrap_or_default())
            .map(|pair| Added { name: query::name(pair).into(), pair: Secret::new(pair) });
        let of_settings = query.iter().map(|(name, value)| {
            let mut pair = String::new();
            push_value(name, &mut pair);
            pair.push('=');
            push_value(value.expose(), &mut pair);
            Added { name: name.as_str().into(), pair: Secret::new(pair) }
        });
        Ok(Self {
            origin: url.origin.clone(),
            authority: HeaderValue::try_from(url.origin.authority()).map_err(|_| InvalidService::Host)?,
            prefix: url.prefix.clone(),
            query: of_url.chain(of_settings).collect(),
            headers: headers.iter().map(secret_header).collect::<Result<_, _>>()?,
            cookies,
        })
    }

    /// Whether `Set-Cookie` reaches callers.
    pub fn cookies(&self) -> CookiePolicy {
        self.cookies
    }

    pub(super) fn origin(&self) -> &Origin {
        &self.origin
    }

    /// As its `Host` header has it.
    pub(super) fn authority(&self) -> &HeaderValue {
        &self.authority
    }

    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    pub(super) fn query(&self) -> &[Added] {
        &self.query
    }

    pub(super) fn headers(&self) -> &[(HeaderName, HeaderValue)] {
        &self.headers
    }
}

fn secret_header((name, value): &(HeaderName, Secret)) -> Result<(HeaderName, HeaderValue), InvalidService> {
    if super::headers::is_framing(name) {
        return Err(InvalidService::ConnectionHeader(name.clone()));
    }
    let mut value = HeaderValue::from_str(value.expose()).map_err(|_| InvalidService::Header(name.clone()))?;
    value.set_sensitive(true);
    Ok((name.clone(), value))
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").field("origin", &self.origin).field("prefix", &self.prefix).finish_non_exhaustive()
    }
}
