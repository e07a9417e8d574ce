//! `KeySets`: the keys of agents that sign their requests, fetched from where they say, and kept for a while.
//!
//! The URL comes out of a request, so that it is a stranger's: it is fetched through the guard alone, which calls nothing
//! private, and never more than a few at a time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, StatusCode};
use moka::Expiry;
use moka::future::Cache;
use tokio::sync::Semaphore;

use crate::net::guard::Guard;
use crate::net::{Bounds, Error, Rules, WebUrl};

/// Documents that are kept, also those that could not be had.
const KEPT_MAX: u64 = 10_000;

/// Fetches at a time, of all hosts and of one.
const FETCHES_MAX: usize = 32;
const FETCHES_OF_A_HOST_MAX: usize = 2;

/// How long a document is kept, whatever it says itself.
const KEPT_AT_LEAST: u64 = 300;
const KEPT_AT_MOST: u64 = 86_400;

/// How long a failure is remembered.
const FAILED: Duration = Duration::from_mins(1);

/// The youngest document that is fetched anew because it has no key of the caller's.
const OLD: Duration = Duration::from_mins(1);

/// A stranger's document: no redirect, and no more than a key set has.
const RULES: Rules = Rules {
    bounds: Bounds { bytes: 64 << 10, time: Duration::from_secs(5) },
    redirects: 0,
    accept: "application/http-message-signatures-directory+json, application/jwk-set+json, application/json;q=0.9",
};

/// What a URL led to.
#[derive(Debug, Clone)]
pub struct Fetched {
    /// The document, or a phrase that says why there is none.
    pub document: Result<bytes::Bytes, Arc<str>>,
    /// Its media type, lower case, without parameters.
    pub media_type: Arc<str>,
    at: Instant,
    kept_for: Duration,
}

impl Fetched {
    /// Whether it may be out of date: then it is worth another fetch if something is missing in it.
    pub fn is_old(&self) -> bool {
        self.document.is_ok() && self.at.elapsed() >= OLD
    }

    fn failed(why: impl Into<Arc<str>>) -> Self {
        Self { document: Err(why.into()), media_type: "".into(), at: Instant::now(), kept_for: FAILED }
    }
}

/// Each document ends at a time of its own.
struct Ends;

impl Expiry<Box<str>, Fetched> for Ends {
    fn expire_after_create(&self, _: &Box<str>, fetched: &Fetched, _: Instant) -> Option<Duration> {
        Some(fetched.kept_for)
    }

    fn expire_after_update(
        &self,
        _: &Box<str>,
        fetched: &Fetched,
        _: Instant,
        _: Option<Duration>,
    ) -> Option<Duration> {
        Some(fetched.kept_for)
    }
}

/// All key sets that one trust in authorities leads to.
#[derive(Clone)]
pub struct KeySets {
    guard: Guard,
    kept: Cache<Box<str>, Fetched>,
    fetches: Arc<Semaphore>,
    hosts: Arc<Mutex<HashMap<Box<str>, usize>>>,
}

impl std::fmt::Debug for KeySets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeySets").finish_non_exhaustive()
    }
}

impl KeySets {
    /// Fetches through this guard.
    pub fn new(guard: Guard) -> Self {
        let kept = Cache::builder().max_capacity(KEPT_MAX).expire_after(Ends).build();
        Self { guard, kept, fetches: Arc::new(Semaphore::new(FETCHES_MAX)), hosts: Arc::default() }
    }

    /// The document at a URL, as it is kept or from there. Many who ask at once cause one fetch.
    pub async fn get(&self, url: &str) -> Fetched {
        Box::pin(self.kept.get_with(url.into(), Box::pin(self.fetch(url)))).await
    }

    /// Fetches a document anew that is old; what is younger, or being fetched, stays. A fetch that fails takes nothing away.
    pub async fn renew(&self, url: &str, known: &Fetched) -> Fetched {
        if !known.is_old() {
            return known.clone();
        }
        let fetched = Box::pin(self.fetch(url)).await;
        if fetched.document.is_err() {
            return known.clone();
        }
        self.kept.insert(url.into(), fetched.clone()).await;
        fetched
    }

    async fn fetch(&self, url: &str) -> Fetched {
        let Ok(parsed) = url.parse::<WebUrl>() else { return Fetched::failed("it is no URL that can be called") };
        let Some(_of_host) = OfHost::count(&self.hosts, &parsed.authority()) else {
            return Fetched { kept_for: Duration::from_secs(1), ..Fetched::failed("its host is asked too often") };
        };
        let Ok(_permit) = self.fetches.acquire().await else { return Fetched::failed("the gateway stops") };
        match self.guard.fetch(&parsed, RULES).await {
            Ok(found) if found.document.status == StatusCode::OK => Fetched {
                media_type: media_type(&found.document.headers).into(),
                kept_for: Duration::from_secs(max_age(&found.document.headers)),
                document: Ok(found.document.body),
                at: Instant::now(),
            },
            Ok(found) => Fetched::failed(format!("it answered {}", found.document.status.as_u16())),
            Err(Error::Blocked(_)) => Fetched::failed("its address is not public"),
            Err(Error::Resolve { .. }) => Fetched::failed("its host has no address"),
            Err(Error::TooLarge { .. }) => Fetched::failed("it is larger than 64 KiB"),
            Err(Error::Timeout { .. }) => Fetched::failed("it did not come within 5 s"),
            Err(_) => Fetched::failed("the connection failed"),
        }
    }
}

/// One of the fetches from a host.
struct OfHost {
    hosts: Arc<Mutex<HashMap<Box<str>, usize>>>,
    host: Box<str>,
}

impl OfHost {
    fn count(hosts: &Arc<Mutex<HashMap<Box<str>, usize>>>, host: &str) -> Option<Self> {
        let mut all = hosts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = all.entry(host.into()).or_default();
        if *count >= FETCHES_OF_A_HOST_MAX {
            return None;
        }
        *count += 1;
        Some(Self { hosts: hosts.clone(), host: host.into() })
    }
}

impl Drop for OfHost {
    fn drop(&mut self) {
        let mut all = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = all.get_mut(&self.host) {
            *count -= 1;
            if *count == 0 {
                all.remove(&self.host);
            }
        }
    }
}

fn media_type(headers: &HeaderMap) -> String {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Seconds that a document may be kept.
fn max_age(headers: &HeaderMap) -> u64 {
    let values = headers.get_all(CACHE_CONTROL).iter().filter_map(|value| value.to_str().ok());
    let age = values.flat_map(|value| value.split(',')).find_map(|directive| {
        let (name, age) = directive.trim().split_once('=')?;
        name.eq_ignore_ascii_case("max-age").then(|| age.trim_matches('"').parse().ok())?
    });
    age.unwrap_or(KEPT_AT_LEAST).clamp(KEPT_AT_LEAST, KEPT_AT_MOST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::guard::Settings;
    use crate::net::{Client, Roots};

    #[tokio::test]
    async fn what_is_not_public_is_never_asked_and_remembered() {
        let guard = Client::new(Roots::none()).guard(Settings::default()).unwrap();
        let sets = KeySets::new(guard);
        for (url, why) in [
            ("https://127.0.0.1:1/.well-known/jwks.json", "its address is not public"),
            ("https://169.254.169.254/.well-known/jwks.json", "its address is not public"),
            ("https://[::1]/.well-known/jwks.json", "its address is not public"),
            ("ftp://a.example/", "it is no URL that can be called"),
        ] {
            let fetched = sets.get(url).await;
            assert_eq!(fetched.document.as_deref().unwrap_err().as_ref(), why, "{url}");
            assert!(sets.kept.contains_key(url));
            assert!(!fetched.is_old());
        }
    }

    #[test]
    fn two_fetches_of_a_host_run_at_a_time() {
        let hosts = Arc::default();
        let first = OfHost::count(&hosts, "a");
        let second = OfHost::count(&hosts, "a");
        assert!(first.is_some() && second.is_some() && OfHost::count(&hosts, "a").is_none());
        assert!(OfHost::count(&hosts, "b").is_some());
        drop(first);
        assert!(OfHost::count(&hosts, "a").is_some());
        drop(second);
        assert!(hosts.lock().unwrap().is_empty());
    }

    #[test]
    fn a_document_says_within_bounds_how_long_it_is_kept() {
        let age = |value: &str| max_age(&HeaderMap::from_iter([(CACHE_CONTROL, value.parse().unwrap())]));
        for (value, expected) in [
            ("public, max-age=3600", 3600),
            ("max-age=1", KEPT_AT_LEAST),
            ("Max-Age=\"600\"", 600),
            ("max-age=99999999", KEPT_AT_MOST),
            ("no-store", KEPT_AT_LEAST),
            ("max-age=x", KEPT_AT_LEAST),
        ] {
            assert_eq!(age(value), expected, "{value}");
        }
        assert_eq!(max_age(&HeaderMap::new()), KEPT_AT_LEAST);
    }
}
