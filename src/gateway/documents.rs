//! Documents that a configuration names by URL: fetched beside the requests, and put in force as a reload does.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tracing::{info, warn};

use super::reload::Reload;
use crate::config::{Copy, Documents, Kind, Named};
use crate::net::{
    Bounds, Client, Coding, Guard, HttpVersion, Request, Roots, Rules, Timeouts, Url, WebUrl, guard, peer, tls,
};
use crate::openapi::{self, Bundle, Location};
use crate::remote::{self, Base};

/// Bytes of one document, and how long it may take.
const BOUNDS: Bounds = Bounds { bytes: 32 << 20, time: Duration::from_secs(10) };

/// The same for what an agent says of itself.
const OF_AN_AGENT: Bounds = Bounds { bytes: remote::DOCUMENT_BYTES_MAX, time: Duration::from_secs(10) };

/// How long a document and all that it refers to may take.
const ALL: Duration = Duration::from_secs(30);

/// Documents that are fetched at a time.
const AT_ONCE: usize = 16;

/// How often agents are asked whether they are still what they were.
const REFRESH: Duration = Duration::from_secs(30);

/// How long a start waits for documents that nobody has a copy of.
pub const START: Duration = Duration::from_secs(5);

/// Between two attempts: doubled each time.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_mins(1);

/// What a service that can tell its forms apart is asked for.
const FORMS: &str = "application/vnd.oai.openapi, application/json, application/yaml;q=0.9, text/yaml;q=0.9, */*;q=0.5";

/// An agent's documents are JSON.
const JSON: &str = "application/json";

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

    /// A document as a configuration names it, if it is of use.
    pub async fn named(&self, named: &Named) -> Result<Copy, String> {
        match named.kind {
            Kind::Agent => match timeout(ALL, self.agent(&named.url)).await {
                Ok(copy) => copy,
                Err(_) => Err(format!("it takes longer than {} s", ALL.as_secs())),
            },
            Kind::Description => {
                let copy = self.copy(&named.url).await?;
                let bundle = copy.bundle().map_err(|problem| problem.to_string())?;
                openapi::is_description(&bundle).map_err(|problem| problem.to_string())?;
                Ok(copy)
            }
        }
    }

    /// What an agent says of itself: the first of the places where such documents are that has one.
    async fn agent(&self, url: &str) -> Result<Copy, String> {
        let base = Base::parse(url).map_err(|problem| problem.to_string())?;
        let mut first = None;
        for document in base.documents() {
            let problem = match self.get(&document, JSON, OF_AN_AGENT).await {
                Err(Unfetched::Away(problem)) => return Err(first.unwrap_or(problem)),
                Err(Unfetched::Refused(status)) => format!("{document} is answered with {status}"),
                Ok(bytes) => match remote::read(&base, &bytes) {
                    Ok(_) => {
                        let text = String::from_utf8_lossy(&bytes).into_owned();
                        return Ok(Copy::new(url, vec![(document, text)]));
                    }
                    Err(problem) => format!("{document}: {problem}"),
                },
            };
            first.get_or_insert(problem);
        }
        Err(first.unwrap_or_default())
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
        self.get(url, FORMS, BOUNDS).await.map_err(|problem| match problem {
            Unfetched::Away(problem) => problem,
            Unfetched::Refused(status) => format!("the service answers {status}"),
        })
    }

    async fn get(&self, url: &str, accept: &'static str, bounds: Bounds) -> Result<Vec<u8>, Unfetched> {
        let away = |problem: String| Unfetched::Away(problem);
        let parsed: Url = url.parse().map_err(|problem: crate::net::InvalidUrl| away(problem.to_string()))?;
        let settings = peer::Settings {
            origin: parsed.origin.clone(),
            tls: tls::Settings::default(),
            version: HttpVersion::Auto,
            connect: bounds.time,
            write: bounds.time,
            read: bounds.time,
        };
        let peer = self.client.peer(&settings).map_err(|problem| away(problem.to_string()))?;
        let target = format!("{}{}", if parsed.prefix.is_empty() { "/" } else { &parsed.prefix }, parsed.query);
        let headers = [(USER_AGENT, crate::net::USER_AGENT), (ACCEPT, accept)];
        let request = Request {
            method: Method::GET,
            target: target.parse().map_err(|_| away("the URL can't be asked for".to_owned()))?,
            headers: headers
                .into_iter()
                .map(|(name, value)| (name, HeaderValue::from_static(value)))
                .collect::<HeaderMap>(),
            body: Bytes::new(),
            coding: Coding::Decoded,
            timeouts: Timeouts { first_byte: Some(bounds.time), idle: Some(bounds.time) },
        };
        let document = self.client.fetch(&peer, request, bounds).await.map_err(|problem| away(problem.to_string()))?;
        if !document.status.is_success() {
            return Err(Unfetched::Refused(document.status.as_u16()));
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

/// Why there is no document.
enum Unfetched {
    /// The service, or nothing of use comes from it.
    Away(String),
    /// It answers with this status.
    Refused(u16),
}

/// Fetches every document that is named, once, for so long at most. Whether there is anything new to be read or told.
pub async fn fetch_named(documents: &Documents, patience: Duration) -> bool {
    let (failed, changed) = attempt(documents, &documents.named(), Some(Instant::now() + patience)).await;
    changed || !failed.is_empty()
}

/// Fetches these; gives those that were not to be had, and whether a copy has changed.
async fn attempt(documents: &Documents, wanted: &BTreeSet<Named>, until: Option<Instant>) -> (BTreeSet<Named>, bool) {
    if wanted.is_empty() {
        return (BTreeSet::new(), false);
    }
    let fetcher = match Fetcher::new() {
        Ok(fetcher) => fetcher,
        Err(problem) => {
            let told = wanted.iter().filter(|named| documents.fail(named, &problem.to_string())).count();
            if told > 0 {
                warn!("no document can be fetched: {problem}");
            }
            return (wanted.clone(), false);
        }
    };
    let (mut left, mut failed, mut changed) = (wanted.iter(), BTreeSet::new(), false);
    let mut running = JoinSet::new();
    loop {
        while running.len() < AT_ONCE
            && let Some(named) = left.next()
        {
            let (fetcher, named) = (fetcher.clone(), named.clone());
            running.spawn(async move {
                let copy = match until {
                    None => fetcher.named(&named).await,
                    Some(until) => timeout_at(until, fetcher.named(&named))
                        .await
                        .unwrap_or_else(|_| Err("it takes too long".to_owned())),
                };
                (named, copy)
            });
        }
        let Some(done) = running.join_next().await else { return (failed, changed) };
        let Ok((named, copy)) = done else { continue };
        match copy {
            Ok(copy) => {
                let (other, unkept) = documents.put(&named, copy);
                changed |= other;
                if let Some(problem) = unkept {
                    warn!("{problem}");
                }
            }
            Err(problem) => {
                if documents.fail(&named, &problem) {
                    warn!("{named} can't be read: {problem}; what was read last stays, and it is asked for again");
                }
                failed.insert(named);
            }
        }
    }
}

/// Keeps asking for what could not be fetched, for all of it anew after every reload, and for agents now and then.
pub(super) async fn keep(reload: Reload, documents: Documents) {
    let mut failed: BTreeSet<Named> = documents.problems().into_iter().map(|(named, _)| named).collect();
    let (mut pause, mut again) = (PAUSE, Instant::now() + PAUSE);
    let mut refresh = Instant::now() + REFRESH;
    loop {
        let agents = || documents.named().into_iter().filter(|named| named.kind == Kind::Agent);
        let is_due = |at: Instant, any: bool| async move {
            if any { sleep_until(at).await } else { std::future::pending().await }
        };
        let due: BTreeSet<Named> = tokio::select! {
            () = documents.reloaded() => {
                (pause, again, refresh) = (PAUSE, Instant::now(), Instant::now() + REFRESH);
                documents.named()
            }
            () = is_due(again, !failed.is_empty()) => failed.clone(),
            () = is_due(refresh, agents().next().is_some()) => {
                refresh = Instant::now() + REFRESH;
                agents().filter(|named| !failed.contains(named)).collect()
            }
        };
        let (missing, changed) = attempt(&documents, &due, None).await;
        if changed {
            info!("what the configuration names elsewhere has changed: reading the configuration again");
            let _ = reload.again().await;
        }
        let (named, new) = (documents.named(), missing.iter().any(|it| !failed.contains(it)));
        failed.retain(|it| named.contains(it) && !due.contains(it));
        failed.extend(missing);
        if failed.is_empty() || new {
            pause = PAUSE;
        }
        if new || Instant::now() >= again {
            again = Instant::now() + pause;
            pause = (2 * pause).min(PAUSE_MAX);
        }
    }
}
