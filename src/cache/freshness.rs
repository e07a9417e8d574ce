//! Whether an answer may be kept and for how long, and whether a caller has it already.

use std::time::{Duration, SystemTime};

use chrono::DateTime;
use http::StatusCode;
use http::header::{self, HeaderMap, HeaderName};

/// How long an answer is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fresh {
    /// How old it was when it came.
    pub age: Duration,
    /// For how long from now on.
    pub lifetime: Duration,
}

impl Fresh {
    /// An answer of now to a request without credentials: kept for `period` at most, and `None` where it may not be kept.
    /// What the service itself says of caches makes it less, never more.
    pub fn of(status: StatusCode, headers: &HeaderMap, period: Duration, now: SystemTime) -> Option<Self> {
        let kept = [
            StatusCode::OK,
            StatusCode::NON_AUTHORITATIVE_INFORMATION,
            StatusCode::MOVED_PERMANENTLY,
            StatusCode::NOT_FOUND,
        ];
        let varies_by_all = tokens(headers, &header::VARY).any(|name| name == "*");
        if !kept.contains(&status) || headers.contains_key(header::SET_COOKIE) || varies_by_all {
            return None;
        }
        let (mut own, mut shared) = (None, None);
        for (name, value) in directives(headers) {
            let seconds = || value.and_then(|value| value.parse().ok()).unwrap_or(0_u64);
            match name.as_str() {
                "no-store" | "no-cache" | "private" => return None,
                // Repeated, the least counts; what can't be read is over (RFC 9111, section 4.2.1).
                "max-age" => own = Some(own.map_or_else(seconds, |other: u64| other.min(seconds()))),
                "s-maxage" => shared = Some(shared.map_or_else(seconds, |other: u64| other.min(seconds()))),
                _ => {}
            }
        }
        if headers.get(header::PRAGMA).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"no-cache"))
            && !headers.contains_key(header::CACHE_CONTROL)
        {
            return None;
        }
        let age = headers.get(header::AGE).and_then(|value| value.to_str().ok()?.trim().parse().ok());
        let age = Duration::from_secs(age.unwrap_or_default());
        let said = match shared.or(own) {
            Some(seconds) => Some(Duration::from_secs(seconds).saturating_sub(age)),
            None => expires(headers, now),
        };
        let lifetime = said.map_or(period, |said| said.min(period));
        (!lifetime.is_zero()).then_some(Self { age, lifetime })
    }
}

/// What `Expires` leaves, by the service's own clock where it tells the time. A date that can't be read is over.
fn expires(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let expires = headers.get(header::EXPIRES)?;
    let date = |name| date(headers, name);
    let Some(expires) = expires.to_str().ok().and_then(|_| date(&header::EXPIRES)) else { return Some(Duration::ZERO) };
    let now = date(&header::DATE).unwrap_or(now);
    Some(expires.duration_since(now).unwrap_or_default())
}

/// Whether the caller has this answer already (RFC 9110, section 13.1).
pub fn is_unchanged(request: &HeaderMap, status: StatusCode, answer: &HeaderMap) -> bool {
    if status != StatusCode::OK {
        return false;
    }
    if request.contains_key(header::IF_NONE_MATCH) {
        let own = answer.get(header::ETAG).and_then(|tag| tag.to_str().ok()).map(opaque);
        let mut lists = request.get_all(header::IF_NONE_MATCH).iter().filter_map(|list| list.to_str().ok());
        return own.is_some_and(|own| lists.any(|list| list.trim() == "*" || tags(list).any(|tag| tag == own)));
    }
    match (date(request, &header::IF_MODIFIED_SINCE), date(answer, &header::LAST_MODIFIED)) {
        (Some(since), Some(modified)) => modified <= since,
        _ => false,
    }
}

/// The entity tags of a list, without `W/`; a comma may stand in one.
fn tags(list: &str) -> impl Iterator<Item = &str> {
    list.split('"').skip(1).step_by(2)
}

fn opaque(tag: &str) -> &str {
    tag.trim().trim_start_matches("W/").trim_matches('"')
}

fn date(headers: &HeaderMap, name: &HeaderName) -> Option<SystemTime> {
    let text = headers.get(name)?.to_str().ok()?;
    DateTime::parse_from_rfc2822(text.trim()).ok().map(SystemTime::from)
}

/// The directives of all `Cache-Control` lines, names in lower case. A comma within quotes cuts too: what is behind it
/// may forbid something, and never allows it.
pub(super) fn directives(headers: &HeaderMap) -> impl Iterator<Item = (String, Option<&str>)> {
    let lines = headers.get_all(header::CACHE_CONTROL).iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).map(|directive| match directive.split_once('=') {
        Some((name, value)) => (name.trim().to_ascii_lowercase(), Some(value.trim().trim_matches('"'))),
        None => (directive.trim().to_ascii_lowercase(), None),
    })
}

/// The members of all lines of a list.
pub(super) fn tokens<'h>(headers: &'h HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'h str> {
    let lines = headers.get_all(name).iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).map(str::trim).filter(|member| !member.is_empty())
}
