//! `follow_news`: the news of agents elsewhere are read beside the requests, and each item is stored once.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method};
use tokio::task::{AbortHandle, JoinSet};
use tracing::{info, warn};

use super::Gateway;
use super::live::{Agent, Live};
use crate::net::{self, Bounds, Coding, Timeouts};
use crate::remote;
use crate::restap::{HopCount, hop_count};
use crate::store::follow::{Cursor, Followed, Taken};
use crate::store::{FeedId, Store, StoreError};
use crate::upstream::Upstream;

/// Between two looks at news of which nothing new came.
const PAUSE: Duration = Duration::from_secs(2);

/// After a failure: doubled each time.
const PAUSE_MAX: Duration = Duration::from_mins(1);

/// Items that are asked for at a time.
const LIMIT: usize = 100;

/// For one page.
const BOUNDS: Bounds = Bounds { bytes: 8 << 20, time: Duration::from_secs(30) };

/// How soon a reload is noticed.
const LOOK: Duration = Duration::from_secs(1);

/// Whose news an agent reads.
#[derive(Debug, Clone)]
pub(super) struct Source {
    /// What the agent's items are told apart by.
    pub agent: String,
    pub upstream: Arc<Upstream>,
    pub path: String,
}

impl Source {
    fn is_still(&self, other: &Self) -> bool {
        self.agent == other.agent && self.path == other.path && Arc::ptr_eq(&self.upstream, &other.upstream)
    }
}

/// Reads for every agent that follows another, as the configuration in force says.
pub(super) async fn keep(gateway: Arc<Gateway>) {
    let mut running: HashMap<Arc<str>, (Source, AbortHandle)> = HashMap::new();
    let mut readers = JoinSet::new();
    let mut seen: Option<Arc<Live>> = None;
    loop {
        let live = gateway.live.load_full();
        if !seen.as_ref().is_some_and(|seen| Arc::ptr_eq(seen, &live)) {
            let wanted: HashMap<&Arc<str>, &Agent> = live
                .agents
                .iter()
                .filter(|agent| agent.follows.is_some())
                .map(|agent| (&agent.key, &**agent))
                .collect();
            running.retain(|key, (source, reader)| {
                let still = wanted.get(key).and_then(|agent| agent.follows.as_ref());
                let stays = still.is_some_and(|still| still.is_still(source));
                if !stays {
                    reader.abort();
                }
                stays
            });
            for (key, agent) in wanted {
                if let Some(source) = agent.follows.as_ref().filter(|_| !running.contains_key(key)) {
                    let reader = Reader {
                        key: key.clone(),
                        feed: gateway.store.keys().feed(agent.id, None),
                        source: source.clone(),
                        store: gateway.store.clone(),
                    };
                    running.insert(key.clone(), (source.clone(), readers.spawn(reader.read())));
                }
            }
            seen = Some(live);
        }
        // The ends of readers that were told to end.
        while readers.try_join_next().is_some() {}
        tokio::time::sleep(LOOK).await;
    }
}

struct Reader {
    key: Arc<str>,
    feed: FeedId,
    source: Source,
    store: Arc<Store>,
}

/// Why a page could not be read, or stored.
#[derive(Debug, thiserror::Error)]
enum Problem {
    #[error("{0}")]
    Agent(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Reader {
    /// Reads for ever.
    async fn read(self) {
        let (mut pause, mut failing) = (PAUSE, false);
        let mut position = Position::default();
        loop {
            match self.page(&mut position).await {
                Ok(again) => {
                    if std::mem::take(&mut failing) {
                        info!(agent = %self.key, "the news of {} are read again", self.source.agent);
                    }
                    pause = PAUSE;
                    if !again {
                        tokio::time::sleep(PAUSE).await;
                    }
                }
                Err(problem) => {
                    if !std::mem::replace(&mut failing, true) {
                        let agent = &self.source.agent;
                        warn!(agent = %self.key, "the news of {agent} can't be followed: {problem}; they are asked for again");
                    }
                    tokio::time::sleep(pause).await;
                    pause = (2 * pause).min(PAUSE_MAX);
                }
            }
        }
    }

    /// Reads one page, and stores what is new of it; whether there is more already.
    async fn page(&self, position: &mut Position) -> Result<bool, Problem> {
        let followed = Followed { feed: self.feed, agent: &self.source.agent };
        let mut cursor = self.store.cursor(followed).await?;
        // Other servers give several items one time: that of the last item is asked for again, and what is known of it
        // left out. `since=0` would be the newest items.
        let before = position.read.max(cursor.since);
        let since = if position.stuck { before } else { before.saturating_sub(1) }.max(1);
        let page = remote::news(&self.source.agent, &self.ask(since).await?)
            .ok_or_else(|| Problem::Agent("the answer is no page of news".to_owned()))?;
        let (mut new, count) = (0, page.items.len());
        let last = page.items.last().map(|(timestamp, _)| *timestamp).unwrap_or_default();
        for (timestamp, draft) in page.items {
            // What came from this very feed has come back.
            if draft.origin.as_deref().is_some_and(|origin| self.store.is_of(self.feed, origin)) {
                continue;
            }
            match self.take(followed, &mut cursor, &draft, timestamp).await {
                Ok(stored) => new += usize::from(stored),
                Err(StoreError::TooLarge { bytes_max }) => {
                    warn!(agent = %self.key, "an item of {} is left out: {bytes_max} bytes are kept", self.source.agent);
                }
                Err(error) => return Err(error.into()),
            }
        }
        let (full, moved) = (page.more || count >= LIMIT, new > 0 || last > before);
        let again = full && (moved || !position.stuck);
        *position = Position { read: last.max(before), stuck: full && !moved };
        Ok(again)
    }

    /// Stores an item, if it is new.
    async fn take(
        &self,
        followed: Followed<'_>,
        cursor: &mut Cursor,
        draft: &crate::restap::NewsDraft,
        timestamp: u64,
    ) -> Result<bool, StoreError> {
        loop {
            match self.store.take_in(followed, *cursor, draft, timestamp).await? {
                Taken::Stored(next) => {
                    *cursor = next;
                    return Ok(true);
                }
                Taken::Known => return Ok(false),
                Taken::Overtaken => *cursor = self.store.cursor(followed).await?,
            }
        }
    }

    async fn ask(&self, since: u64) -> Result<Bytes, Problem> {
        let Source { upstream, path, .. } = &self.source;
        let target = upstream.target(&format!("{path}?since={since}&limit={LIMIT}"));
        let target = target.map_err(|problem| Problem::Agent(problem.to_string()))?;
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(USER_AGENT, HeaderValue::from_static(net::USER_AGENT));
        headers.insert(hop_count::HEADER, HopCount::default().next());
        if let Some(key) = &upstream.api_key
            && let Ok(mut bearer) = HeaderValue::from_str(&format!("Bearer {}", key.expose()))
        {
            bearer.set_sensitive(true);
            headers.insert(AUTHORIZATION, bearer);
        }
        let timeouts = Timeouts::default();
        let request = net::Request {
            method: Method::GET,
            target,
            headers,
            body: Bytes::new(),
            coding: Coding::Decoded,
            timeouts,
        };
        let document = upstream.fetch(request, BOUNDS).await.map_err(|problem| Problem::Agent(problem.to_string()))?;
        if document.status.is_success() {
            Ok(document.body)
        } else {
            Err(Problem::Agent(format!("they are answered with {}", document.status.as_u16())))
        }
    }
}

/// Where a reader stands that has seen items which it did not store.
#[derive(Default)]
struct Position {
    /// Unix milliseconds of the agent's own.
    read: u64,
    /// Nothing of a full page was new: it may be full of items of one moment, and the reader goes on behind that.
    stuck: bool,
}
