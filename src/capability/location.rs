//! `Return`: the way back, from an address of the service to one of ours.

use http::HeaderValue;

use crate::net::Url;

use super::entry::Capability;
use super::path::NormalPath;
use super::query;
use super::rewrite::Target;
use super::service::{Added, Service};
use super::table::Table;

/// What a service's answer is seen against.
#[derive(Debug, Clone, Copy)]
pub struct Return<'a> {
    /// The agent's capabilities.
    pub table: &'a Table,
    /// The one that was asked.
    pub capability: &'a Capability,
    /// Where.
    pub service: &'a Service,
    /// What.
    pub target: &'a Target,
    /// What callers put before an endpoint: the base path, or a URL that ends in it.
    pub base: &'a str,
}

impl Return<'_> {
    /// A `Location` on the service's origin as an address of ours, `None` where it is to stay as it is.
    ///
    /// Where a route of the same upstream leads there, it is that route's endpoint with the parameters found, else
    /// the same path under our base. Query parameters that we added ourselves are taken out again.
    pub(super) fn location(&self, value: &HeaderValue) -> Option<HeaderValue> {
        let text = value.to_str().ok()?;
        let (text, fragment) = split_before(text, '#');
        let (text, query) = split_before(text, '?');
        let path: NormalPath = self.path_on_origin(text)?.parse().ok()?;
        let path = path.strip_base(self.service.prefix())?;
        let upstream = &self.capability.settings().route.upstream;
        let endpoint = self.table.endpoint_of(upstream, &path).unwrap_or_else(|| path.as_str().to_owned());
        let query = self.without_added(query);
        HeaderValue::try_from(format!("{}{endpoint}{query}{fragment}", self.base)).ok()
    }

    /// Resolves a reference without query and fragment (RFC 3986, section 5.2), if it stays on the service's origin.
    fn path_on_origin(&self, reference: &str) -> Option<String> {
        let scheme = if self.service.origin().tls { "https" } else { "http" };
        let absolute = match reference.strip_prefix("//") {
            Some(rest) => Some((scheme, rest)),
            None => reference.split_once("://").filter(|(scheme, _)| !scheme.contains('/')),
        };
        if let Some((scheme, rest)) = absolute {
            let (authority, path) = split_before(rest, '/');
            let url: Url = format!("{scheme}://{authority}").parse().ok()?;
            return (url.origin == *self.service.origin()).then(|| if path.is_empty() { "/" } else { path }.to_owned());
        }
        let has_scheme = reference.split('/').next().is_some_and(|first| first.contains(':'));
        match reference {
            _ if has_scheme => None,
            "" => Some(self.target.path().to_owned()),
            _ if reference.starts_with('/') => Some(reference.to_owned()),
            _ => {
                let (directory, _) = self.target.path().rsplit_once('/')?;
                Some(format!("{directory}/{reference}"))
            }
        }
    }

    fn without_added(&self, query: &str) -> String {
        let Some(query) = query.strip_prefix('?') else { return String::new() };
        let added = |pair: &str| {
            let is_it = |added: &Added| {
                *added.name == *query::name(pair) && query::value(added.pair.expose()) == query::value(pair)
            };
            self.service.query().iter().any(is_it)
        };
        let kept: Vec<_> = query.split('&').filter(|pair| !added(pair)).collect();
        if kept.is_empty() { String::new() } else { format!("?{}", kept.join("&")) }
    }
}

/// Splits a text before the first `mark`; the second part is empty where there is none.
fn split_before(text: &str, mark: char) -> (&str, &str) {
    text.split_at(text.find(mark).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests;
