//! Feeds in memory: appending, keeping to the bounds, reading.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ops::Bound::{Excluded, Unbounded};

use super::millis;
use crate::store::StoreError;
use crate::store::engine::{
    Bounds, EnginePage, FeedChange, ItemBody, ItemPlace, PageRead, Position, QueryAnswer, StoredItem,
};
use crate::store::feed::Ticker;
use crate::store::keys::{AgentId, CallerId, FeedId, Hash};
use crate::store::settings::Retention;

/// Feeds that a change looks at to find what is out of date.
const SWEEP_STEP: usize = 4;

#[derive(Default)]
pub(super) struct Feeds {
    by_hash: BTreeMap<Hash, Feed>,
    agents: HashMap<AgentId, Agent>,
    /// Session feeds by agent, least recently used first.
    idle: BTreeSet<(AgentId, u64, Hash)>,
    /// Counts uses, so that their order does not depend on the clock.
    uses: u64,
    bytes: u64,
    removed: u64,
    newest: u64,
    swept: Hash,
}

struct Feed {
    id: FeedId,
    owner: Option<CallerId>,
    ticker: Ticker,
    used: u64,
    used_ms: u64,
    bytes: u64,
    items: VecDeque<Item>,
}

struct Item {
    timestamp: u64,
    received_ms: u64,
    body: ItemBody,
}

#[derive(Default)]
struct Agent {
    /// The highest timestamp of any dropped feed.
    floor: u64,
    feeds: u64,
    bytes: u64,
}

impl Feeds {
    /// Feeds, the bytes of all their items, and items that were removed.
    pub(super) fn counts(&self) -> (u64, u64, u64) {
        (self.by_hash.len() as u64, self.bytes, self.removed)
    }

    /// The highest timestamp given out.
    pub(super) fn newest(&self) -> u64 {
        self.newest
    }

    /// Opens a feed and appends to it.
    pub(super) fn change(
        &mut self,
        FeedChange { feed: id, opener, item }: FeedChange,
        bounds: &Bounds,
        now: u64,
    ) -> Result<Option<ItemPlace>, StoreError> {
        self.uses += 1;
        let agent = self.agents.entry(id.agent).or_default();
        let feed = self.by_hash.entry(id.hash).or_insert_with(|| {
            agent.feeds += 1;
            Feed::new(id, opener)
        });
        // Only a feed that is not new can refuse, so nothing is left behind.
        let timestamp = item.as_ref().map(|_| feed.ticker.next(now, agent.floor)).transpose()?;
        if !id.own {
            self.idle.remove(&(id.agent, feed.used, id.hash));
            self.idle.insert((id.agent, self.uses, id.hash));
        }
        (feed.used, feed.used_ms) = (self.uses, now);
        if let (Some(timestamp), Some(body)) = (timestamp, item) {
            feed.bytes += body.weight();
            agent.bytes += body.weight();
            self.bytes += body.weight();
            self.newest = self.newest.max(timestamp);
            feed.items.push_back(Item { timestamp, received_ms: now, body });
        }
        let retention = bounds.retention(id.agent);
        self.trim(id.hash, |feed| feed.items.len() > 1 && feed.exceeds(retention, now));
        self.make_room(id, bounds);
        Ok(timestamp.map(|timestamp| ItemPlace { feed: id.hash, timestamp }))
    }

    /// Reads a page; `answer` says where that of the query stands.
    pub(super) fn page(&self, read: &PageRead, answer: QueryAnswer) -> Result<EnginePage, StoreError> {
        let asked = self.by_hash.get(&read.feed.hash);
        let may_read = |feed: &Feed| read.reader.may_read(feed.owner);
        asked.map_or(Ok(()), may_read)?;
        let home = match answer {
            QueryAnswer::Unknown => asked,
            QueryAnswer::Nowhere => None,
            QueryAnswer::At(place) => self.by_hash.get(&place.feed),
        };
        home.map_or(Ok(()), may_read)?;
        let wanted = |item: &Item| match (answer, read.query) {
            (QueryAnswer::At(place), _) => item.timestamp == place.timestamp,
            (_, Some(query)) => item.body.queries.contains(&query),
            (_, None) => true,
        };
        let (items, more) = home.map(|feed| feed.read(read, wanted)).unwrap_or_default();
        let oldest = asked.and_then(|feed| feed.items.front()).map(|item| item.timestamp);
        Ok(EnginePage { items, more, last: asked.map_or(0, |feed| feed.ticker.last), oldest })
    }

    /// Looks at the next few feeds, round and round.
    pub(super) fn sweep(&mut self, bounds: &Bounds, now: u64) {
        let next = self.by_hash.range((Excluded(self.swept), Unbounded)).take(SWEEP_STEP);
        let next: Vec<_> = next.map(|(hash, feed)| (*hash, feed.id)).collect();
        self.swept = next.last().filter(|_| next.len() == SWEEP_STEP).map_or(Hash::default(), |last| last.0);
        for (hash, id) in next {
            let retention = bounds.retention(id.agent);
            self.trim(hash, |feed| feed.exceeds(retention, now));
            if self.by_hash.get(&hash).is_some_and(|feed| feed.is_idle(retention, now)) {
                self.drop_feed(hash);
            }
        }
    }

    /// Drops items of a feed from its old end.
    fn trim(&mut self, hash: Hash, over: impl Fn(&Feed) -> bool) {
        let Some(feed) = self.by_hash.get_mut(&hash) else { return };
        let before = feed.bytes;
        while over(feed)
            && let Some(item) = feed.items.pop_front()
        {
            feed.bytes -= item.body.weight();
            self.removed += 1;
        }
        let freed = before - feed.bytes;
        self.bytes -= freed;
        if let Some(agent) = self.agents.get_mut(&feed.id.agent) {
            agent.bytes -= freed;
        }
    }

    /// Keeps to the caps after this feed was written.
    fn make_room(&mut self, written: FeedId, bounds: &Bounds) {
        let limits = bounds.limits;
        let of =
            |agents: &HashMap<_, Agent>| agents.get(&written.agent).map_or((0, 0), |agent| (agent.feeds, agent.bytes));
        while of(&self.agents).0 > limits.agent_feeds && self.drop_idle(written.agent, written) {}
        while of(&self.agents).1 > limits.agent_bytes && self.shrink(written.agent, written) {}
        while self.bytes > limits.bytes
            && let Some((&heaviest, _)) = self.agents.iter().max_by_key(|(_, agent)| agent.bytes)
            && self.shrink(heaviest, written)
        {}
    }

    /// Drops an agent's least recently used session feed, or failing that the oldest item of its largest feed;
    /// false if there is nothing to drop.
    fn shrink(&mut self, agent: AgentId, written: FeedId) -> bool {
        if self.drop_idle(agent, written) {
            return true;
        }
        let feeds = self.by_hash.values().filter(|feed| feed.id.agent == agent && feed.items.len() > 1);
        let Some((hash, left)) = feeds.max_by_key(|feed| feed.bytes).map(|feed| (feed.id.hash, feed.items.len()))
        else {
            return false;
        };
        self.trim(hash, |feed| feed.items.len() >= left);
        true
    }

    fn drop_idle(&mut self, agent: AgentId, written: FeedId) -> bool {
        let idle = self.idle.range((agent, 0, Hash::default())..).take_while(|idle| idle.0 == agent);
        let idle = idle.map(|idle| idle.2).find(|hash| *hash != written.hash);
        idle.map(|hash| self.drop_feed(hash)).is_some()
    }

    fn drop_feed(&mut self, hash: Hash) {
        self.trim(hash, |_| true);
        let Some(feed) = self.by_hash.remove(&hash) else { return };
        self.idle.remove(&(feed.id.agent, feed.used, hash));
        if let Some(agent) = self.agents.get_mut(&feed.id.agent) {
            agent.feeds -= 1;
            agent.floor = agent.floor.max(feed.ticker.last);
        }
    }
}

impl Feed {
    fn new(id: FeedId, opener: Option<CallerId>) -> Self {
        let owner = opener.filter(|_| !id.own);
        Self { id, owner, ticker: Ticker::default(), used: 0, used_ms: 0, bytes: 0, items: VecDeque::new() }
    }

    fn exceeds(&self, retention: Retention, now: u64) -> bool {
        let aged = |item: &Item| item.received_ms.saturating_add(millis(retention.age)) < now;
        self.items.len() as u64 > retention.items
            || self.bytes > retention.bytes
            || self.items.front().is_some_and(aged)
    }

    /// Whether nobody would miss it: it keeps nothing and nothing came for as long as items are kept.
    fn is_idle(&self, retention: Retention, now: u64) -> bool {
        !self.id.own && self.items.is_empty() && self.used_ms.saturating_add(millis(retention.age)) < now
    }

    /// Up to `limit` items in ascending order, and whether there are more in the direction read.
    fn read(&self, read: &PageRead, wanted: impl Fn(&Item) -> bool) -> (Vec<StoredItem>, bool) {
        let limit = read.limit as usize;
        let take = |item: &Item| StoredItem {
            place: ItemPlace { feed: self.id.hash, timestamp: item.timestamp },
            json: item.body.json.clone(),
            answer: item.body.answer,
        };
        let mut items: Vec<_> = match read.from {
            Position::After(since) => {
                let start = self.items.partition_point(|item| item.timestamp <= since);
                self.items.range(start..).filter(|item| wanted(item)).take(limit + 1).map(take).collect()
            }
            Position::Newest => self.items.iter().rev().filter(|item| wanted(item)).take(limit + 1).map(take).collect(),
        };
        let more = items.len() > limit;
        items.truncate(limit);
        if read.from == Position::Newest {
            items.reverse();
        }
        (items, more)
    }
}
