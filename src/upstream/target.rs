//! `Target`: how a request's own path and query become the service's.

use std::fmt::Write;

use http::uri::PathAndQuery;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::net::Url;
use crate::yaml::Secret;

/// The unreserved characters of RFC 3986 2.3 stay as they are.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The path in front of every request's, and the query that is added to every request's. It may hold secrets.
pub(super) struct Target {
    prefix: Box<str>,
    /// Without its `?`; empty if there is none.
    query: String,
}

/// A path or query that can't be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the path or query can't be sent")]
pub struct InvalidTarget;

impl Target {
    pub(super) fn new(url: &Url, query: &[(String, Secret)]) -> Result<Self, InvalidTarget> {
        let mut added = url.query.trim_start_matches('?').to_owned();
        for (name, value) in query {
            let separator = if added.is_empty() { "" } else { "&" };
            let name = utf8_percent_encode(name, ENCODED);
            let value = utf8_percent_encode(value.expose(), ENCODED);
            // Writing to a string never fails.
            let _ = write!(added, "{separator}{name}={value}");
        }
        let target = Self { prefix: url.prefix.clone(), query: added };
        target.of("/")?;
        Ok(target)
    }

    /// The service's target for a request's own: `/current?city=Oslo` under `http://host/v1?key=k` is
    /// `/v1/current?city=Oslo&key=k`. An own path that is empty means the URL's as it was written.
    pub(super) fn of(&self, own: &str) -> Result<PathAndQuery, InvalidTarget> {
        let (path, query) = own.split_once('?').map_or((own, None), |(path, query)| (path, Some(query)));
        let queries: Vec<&str> =
            query.into_iter().chain([self.query.as_str()]).filter(|part| !part.is_empty()).collect();
        let mut target = format!("{}{path}", self.prefix);
        if target.is_empty() {
            target.push('/');
        }
        if !queries.is_empty() || query.is_some() {
            target.push('?');
            target.push_str(&queries.join("&"));
        }
        if !target.starts_with('/') {
            return Err(InvalidTarget);
        }
        PathAndQuery::try_from(target).map_err(|_| InvalidTarget)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(url: &str, query: &[(&str, &str)], own: &str) -> String {
        let query: Vec<_> = query.iter().map(|(name, value)| ((*name).to_owned(), Secret::new(*value))).collect();
        Target::new(&url.parse().unwrap(), &query).unwrap().of(own).unwrap().to_string()
    }

    #[test]
    fn a_path_stands_under_the_urls_and_queries_are_joined() {
        assert_eq!(of("http://h", &[], "/a/b"), "/a/b");
        assert_eq!(of("http://h/v1", &[], "/a?x=1"), "/v1/a?x=1");
        assert_eq!(of("http://h/v1/", &[], "/a/"), "/v1/a/");
        assert_eq!(of("http://h/v1?k=v", &[], "/a?x=1"), "/v1/a?x=1&k=v");
        assert_eq!(of("http://h", &[("key", "a b&c"), ("é", "")], "/a"), "/a?key=a%20b%26c&%C3%A9=");
        assert_eq!(of("http://h/v1", &[], ""), "/v1");
        assert_eq!(of("http://h", &[], ""), "/");
        assert_eq!(of("http://h", &[], "/a?"), "/a?");
    }

    #[test]
    fn what_was_encoded_stays_byte_for_byte() {
        assert_eq!(of("http://h", &[], "/a%2Fb/%C3%A9?q=%20+&q="), "/a%2Fb/%C3%A9?q=%20+&q=");
    }

    #[test]
    fn what_no_request_line_can_carry_is_refused() {
        let target = Target::new(&"http://h".parse().unwrap(), &[]).unwrap();
        for own in ["a", "/a b", "/a\r\nX: y", "/a\0"] {
            assert!(target.of(own).is_err(), "{own:?}");
        }
    }
}
