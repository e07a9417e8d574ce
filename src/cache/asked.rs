//! `Asked`: a question to a service, and the key that its answer is kept under.

use http::Method;
use http::header::{self, HeaderMap, HeaderName};

use super::freshness::{directives, tokens};

/// Headers that no answer is taken to depend on, unless its `Vary` names them: how the request came and what its parts are
/// called in logs, what caches are told, and names of programs.
const UNKEYED: [&str; 30] = [
    "b3",
    "baggage",
    "cache-control",
    "cdn-loop",
    "cf-connecting-ip",
    "cf-ray",
    "content-length",
    "date",
    "dnt",
    "forwarded",
    "if-modified-since",
    "if-none-match",
    "origin",
    "pragma",
    "priority",
    "purpose",
    "referer",
    "traceparent",
    "tracestate",
    "true-client-ip",
    "upgrade-insecure-requests",
    "user-agent",
    "via",
    "x-amzn-trace-id",
    "x-client-ip",
    "x-cloud-trace-context",
    "x-correlation-id",
    "x-forwarded-for",
    "x-real-ip",
    "x-request-id",
];

/// Headers of which there are more than one can list.
const UNKEYED_PREFIXES: [&str; 2] = ["sec-", "x-b3-"];

/// A digest: what was asked may be secret.
pub(super) type Key = [u8; 32];

/// A question to a service.
#[derive(Debug)]
pub struct Asked {
    key: Key,
    headers: HeaderMap,
    wish: Wish,
}

/// What the asker wants of a cache (RFC 9111, section 5.2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// Whatever is kept.
    Any,
    /// `no-cache` or `max-age=0`: the service's answer of now.
    Anew,
    /// `no-store`: an answer that is not kept.
    Nothing,
}

impl Wish {
    /// What a request says.
    pub fn of(headers: &HeaderMap) -> Self {
        let mut wish = Self::Any;
        for (name, value) in directives(headers) {
            match (name.as_str(), value) {
                ("no-store", _) => return Self::Nothing,
                ("no-cache", _) | ("max-age", Some("0")) => wish = Self::Anew,
                _ => {}
            }
        }
        let pragma = headers.get(header::PRAGMA).is_some_and(|value| value.as_bytes() == b"no-cache");
        if pragma && !headers.contains_key(header::CACHE_CONTROL) { Self::Anew } else { wish }
    }
}

impl Asked {
    /// `place` is what else tells questions apart: who offers it, and the whole URL. `headers` are those that the service
    /// gets.
    pub fn new(place: &[&[u8]], method: &Method, headers: &HeaderMap, wish: Wish) -> Self {
        let mut keyed: Vec<_> = headers.iter().filter(|(name, _)| is_keyed(name)).collect();
        // Lines of one name keep their order, which means something.
        keyed.sort_by_key(|(name, _)| name.as_str());
        let lines = keyed.into_iter().flat_map(|(name, value)| [name.as_str().as_bytes(), value.as_bytes()]);
        let parts = place.iter().copied().chain([method.as_str().as_bytes()]).chain(lines);
        Self { key: digest(parts), headers: headers.clone(), wish }
    }

    pub(super) fn wish(&self) -> Wish {
        self.wish
    }

    pub(super) fn key(&self) -> Key {
        self.key
    }

    /// Headers that an answer varies by and a key does not tell apart, in one order and each once.
    pub(super) fn varying(answer: &HeaderMap) -> Vec<HeaderName> {
        let mut names: Vec<HeaderName> =
            tokens(answer, &header::VARY).filter_map(|name| name.parse().ok()).filter(|name| !is_keyed(name)).collect();
        names.sort_by(|one, other| one.as_str().cmp(other.as_str()));
        names.dedup();
        names
    }

    /// The key that tells these headers apart too.
    pub(super) fn key_with(&self, names: &[HeaderName]) -> Key {
        if names.is_empty() {
            return self.key;
        }
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.key);
        for name in names {
            hasher.update(name.as_str().as_bytes());
            for value in self.headers.get_all(name) {
                hasher.update(&[1]);
                hasher.update(&(value.len() as u64).to_le_bytes());
                hasher.update(value.as_bytes());
            }
            hasher.update(&[0]);
        }
        hasher.finalize().into()
    }
}

/// A digest of parts; where one ends and the next begins counts.
pub fn digest<'p>(parts: impl IntoIterator<Item = &'p [u8]>) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hasher.finalize().into()
}

fn is_keyed(name: &HeaderName) -> bool {
    let name = name.as_str();
    !UNKEYED.contains(&name) && !UNKEYED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}
