//! Documents that a configuration names by URL: fetched beside the requests, and put in force as a reload does.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};
use tracing::{info, warn};

use super::reload::Reload;
use crate::config::{Copy, Documents};
use crate::net::{
    Bounds, Client, Coding, Guard, HttpVersion, Request, Roots, Rules, Timeouts, Url, WebUrl, guard, peer, tls,
};
use crate::openapi::{self, Bundle, Location};

/// Bytes of one document, and how long it may take.
const BOUNDS: Bounds = Bounds { bytes: 32 << 20, time: Duration::from_secs(10) };

/// How long a document and all that it refers to may take.
const ALL: Duration = Duration::from_secs(30);

/// Documents that are fetched at a time.
const AT_ONCE: usize = 8;

/// How long a start waits for documents that nobody has a copy of.
pub const START: Duration = Duration::from_secs(5);

/// Between two attempts: doubled each time.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_mins(1);

/// What a service that can tell its forms apart is asked for.
const FORMS: &str = "application/vnd.oai.openapi, application/json, application/yaml;q=0.9, text/yaml;q=0.9, */*;q=0.5";

/// Fetches documents from where an operator says they are.
#[derive(Clone)]
pub struct Fetcher {
    client: Client,
    guard: Option<Guard>,
}

impl Fetcher {
    /// One that asks an operator's own services alone.
    pub fn new() -> Result<Self, tls::Error> {
        Ok(Self { client: Client::new(Roots::system()?), guard: None })
    }

    /// One that also follows a document's references to the public internet, where its guard lets it.
    pub fn following_strangers() -> Result<Self, tls::Error> {
        let client = Client::new(Roots::system()?);
        let guard = client.guard(guard::Settings::default())?;
        Ok(Self { client, guard: Some(guard) })
    }

    /// A document and those below its folder that it refers to.
    pub async fn copy(&self, url: &str) -> Result<Copy, String> {
        match timeout(ALL, self.parts(url)).await {
            Ok(parts) => parts.map(|parts| Copy::new(url, parts)),
            Err(_) => Err(format!("it and what it refers to take longer than {} s", ALL.as_secs())),
        }
    }

    async fn parts(&self, url: &str) -> Result<Vec<(String, String)>, String> {
        let bytes = self.bytes(url).await?;
        let mut bundle = Bundle::new(Location::Url(url.to_owned()), &bytes).map_err(|problem| problem.to_string())?;
        let mut parts = vec![(url.to_owned(), openapi::decode(&bytes)?)];
        while let Some(wanted) = bundle.wanted() {
            let fetched = match &wanted.location {
                Location::Url(other) if wanted.below => self.bytes(other).await,
                _ => Err("only what is below the document's folder is fetched".to_owned()),
            };
            if let Ok(text) =
                fetched.as_deref().map_err(String::as_str).and_then(|bytes| openapi::decode(bytes).map_err(|_| ""))
            {
                parts.push((wanted.location.to_string(), text));
            }
            bundle.give(wanted.location, fetched);
        }
        Ok(parts)
    }

    /// The bytes of an operator's document.
    pub async fn bytes(&self, url: &str) -> Result<Vec<u8>, String> {
        let parsed: Url = url.parse().map_err(|problem: crate::net::InvalidUrl| problem.to_string())?;
        let settings = peer::Settings {
            origin: parsed.origin.clone(),
            tls: tls::Settings::default(),
            version: HttpVersion::Auto,
            connect: BOUNDS.time,
            write: BOUNDS.time,
            read: BOUNDS.time,
        };
        let peer = self.client.peer(&settings).map_err(|problem| problem.to_string())?;
        let target = format!("{}{}", if parsed.prefix.is_empty() { "/" } else { &parsed.prefix }, parsed.query);
        let headers = [(USER_AGENT, crate::net::USER_AGENT), (ACCEPT, FORMS)];
        let request = Request {
            method: Method::GET,
            target: target.parse().map_err(|_| "the URL can't be asked for".to_owned())?,
            headers: headers
                .into_iter()
                .map(|(name, value)| (name, HeaderValue::from_static(value)))
                .collect::<HeaderMap>(),
            body: Bytes::new(),
            coding: Coding::Decoded,
            timeouts: Timeouts { first_byte: Some(BOUNDS.time), idle: Some(BOUNDS.time) },
        };
        let document = self.client.fetch(&peer, request, BOUNDS).await.map_err(|problem| problem.to_string())?;
        if !document.status.is_success() {
            return Err(format!("the service answers {}", document.status.as_u16()));
        }
        Ok(document.body.to_vec())
    }

    /// The bytes of a document that another one names: from a public address alone.
    pub async fn stranger(&self, url: &str) -> Result<Vec<u8>, String> {
        let Some(guard) = &self.guard else {
            return Err("it is elsewhere; --allow-remote follows references".to_owned());
        };
        let url: WebUrl = url.parse().map_err(|problem| format!("{problem}"))?;
        let rules = Rules { bounds: BOUNDS, redirects: 0, accept: FORMS };
        let found = guard.fetch(&url, rules).await.map_err(|problem| problem.to_string())?;
        if !found.document.status.is_success() {
            return Err(format!("the service answers {}", found.document.status.as_u16()));
        }
        Ok(found.document.body.to_vec())
    }
}

/// Fetches every document that is named, once, for so long at most. Whether any copy is another than before.
pub async fn fetch_named(documents: &Documents, patience: Duration) -> bool {
    attempt(documents, &documents.named().into_iter().collect(), Some(Instant::now() + patience)).await.1
}

/// Fetches these; gives those that were not to be had, and whether a copy has changed.
async fn attempt(documents: &Documents, urls: &BTreeSet<String>, until: Option<Instant>) -> (BTreeSet<String>, bool) {
    if urls.is_empty() {
        return (BTreeSet::new(), false);
    }
    let fetcher = match Fetcher::new() {
        Ok(fetcher) => fetcher,
        Err(problem) => {
            let told = urls.iter().filter(|url| documents.fail(url, &problem.to_string())).count();
            if told > 0 {
                warn!("no document can be fetched: {problem}");
            }
            return (urls.clone(), false);
        }
    };
    let (mut left, mut failed, mut changed) = (urls.iter(), BTreeSet::new(), false);
    let mut running = JoinSet::new();
    loop {
        while running.len() < AT_ONCE
            && let Some(url) = left.next()
        {
            let (fetcher, url) = (fetcher.clone(), url.clone());
            running.spawn(async move {
                let copy = match until {
                    None => fetcher.copy(&url).await,
                    Some(until) => timeout_at(until, fetcher.copy(&url))
                        .await
                        .unwrap_or_else(|_| Err("it takes too long".to_owned())),
                };
                (url, copy)
            });
        }
        let Some(done) = running.join_next().await else { return (failed, changed) };
        let Ok((url, copy)) = done else { continue };
        // What is no description of an API takes the place of none that is.
        let copy = copy.and_then(|copy| {
            let bundle = copy.bundle().map_err(|problem| problem.to_string())?;
            openapi::is_description(&bundle).map_err(|problem| problem.to_string())?;
            Ok(copy)
        });
        match copy {
            Ok(copy) => {
                let (other, unkept) = documents.put(&url, copy);
                changed |= other;
                if let Some(problem) = unkept {
                    warn!("{problem}");
                }
            }
            Err(problem) => {
                if documents.fail(&url, &problem) {
                    warn!(
                        "the description at {url} can't be read: {problem}; what was read last stays, and it is asked for again"
                    );
                }
                failed.insert(url);
            }
        }
    }
}

/// Keeps asking for what could not be fetched, and asks for all of it anew after every reload.
pub(super) async fn keep(reload: Reload, documents: Documents) {
    let mut due: BTreeSet<String> = documents.problems().into_iter().map(|(url, _)| url).collect();
    let mut pause = PAUSE;
    loop {
        if due.is_empty() {
            documents.reloaded().await;
            due = documents.named().into_iter().collect();
            pause = PAUSE;
        } else {
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = documents.reloaded() => {
                    due = documents.named().into_iter().collect();
                    pause = PAUSE;
                }
            }
            pause = (2 * pause).min(PAUSE_MAX);
        }
        let (failed, changed) = attempt(&documents, &due, None).await;
        if changed {
            info!("a description of an API has changed: reading the configuration again");
            let _ = reload.again().await;
        }
        due = failed;
    }
}
