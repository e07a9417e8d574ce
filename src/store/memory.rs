//! `Memory`: everything in this process, nothing of which outlives it. For trials, tests and agents that may forget.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use super::StoreError;
use super::clock::Clock;
use super::engine::{
    Bounds, Change, Committed, Engine, EnginePage, FeedChange, ItemBody, ItemPlace, PageRead, Position, Put, Record,
    RecordKey, RecordKind, StoredItem,
};
use super::feed::Ticker;
use super::health::Health;
use super::keys::{AgentId, CallerId, FeedId, Hash, LeaseKey};
use super::lease::{LEASE_TERM, Lease};
use super::settings::Retention;

/// Feeds and records that a change looks at to find what is out of date.
const SWEEP_STEP: usize = 4;

/// Leases that may be out of date before they are looked through.
const LEASES_UNSWEPT: usize = 1024;

/// The engine.
pub struct Memory {
    state: Mutex<State>,
    bounds: Arc<Bounds>,
    clock: Arc<dyn Clock>,
}

#[derive(Default)]
struct State {
    closed: bool,
    feeds: BTreeMap<Hash, Feed>,
    agents: HashMap<AgentId, Agent>,
    records: BTreeMap<RecordKey, Kept>,
    owners: HashMap<(RecordKind, Hash), Tally>,
    leases: HashMap<LeaseKey, Held>,
    leases_swept: usize,
    /// Session feeds and records, least recently used first.
    idle_feeds: BTreeSet<(AgentId, u64, Hash)>,
    idle_records: BTreeSet<(RecordKind, Hash, u64, Hash)>,
    /// Counts uses, so that their order does not depend on the clock.
    uses: u64,
    bytes: u64,
    newest: u64,
    feeds_swept: Hash,
    records_swept: Option<RecordKey>,
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

struct Kept {
    owner: Hash,
    version: u64,
    body: Bytes,
    item: Option<ItemPlace>,
    used: u64,
    expires_ms: u64,
}

#[derive(Default)]
struct Tally {
    records: u64,
    bytes: u64,
}

struct Held {
    holder: Hash,
    note: Hash,
    until_ms: u64,
}

impl Memory {
    /// An empty one.
    pub fn new(bounds: Arc<Bounds>, clock: Arc<dyn Clock>) -> Self {
        Self { state: Mutex::default(), bounds, clock }
    }

    fn with<T>(&self, act: impl FnOnce(&mut State, u64) -> Result<T, StoreError>) -> Result<T, StoreError> {
        // A panic in here would be a bug; the state is still the best there is.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.closed {
            return Err(StoreError::Unavailable("it is closed"));
        }
        act(&mut state, self.clock.unix_ms())
    }
}

#[async_trait]
impl Engine for Memory {
    async fn commit(&self, change: Change) -> Result<Committed, StoreError> {
        self.with(|state, now| {
            state.check(&change.puts, now)?;
            let place = change.feed.map(|change| state.change_feed(change, &self.bounds, now)).transpose()?.flatten();
            for put in change.puts {
                state.put(put, place, &self.bounds, now);
            }
            for lease in change.releases {
                state.release(lease);
            }
            state.sweep(&self.bounds, now);
            Ok(Committed { timestamp: place.map(|place| place.timestamp) })
        })
    }

    async fn page(&self, read: PageRead) -> Result<EnginePage, StoreError> {
        self.with(|state, _| state.page(&read))
    }

    async fn record(&self, key: RecordKey) -> Result<Option<Record>, StoreError> {
        self.with(|state, now| {
            Ok(state.records.get(&key).map(|kept| Record {
                version: kept.version,
                body: kept.body.clone(),
                item: kept.item,
                expired: kept.expires_ms <= now,
            }))
        })
    }

    async fn acquire(&self, lease: Lease, note: Hash) -> Result<Option<Hash>, StoreError> {
        self.with(|state, now| Ok(state.acquire(lease, note, now)))
    }

    async fn renew(&self, lease: Lease) -> Result<bool, StoreError> {
        self.with(|state, now| {
            let held = state.leases.get_mut(&lease.key).filter(|held| held.holder == lease.holder);
            Ok(held.map(|held| held.until_ms = now + millis(LEASE_TERM)).is_some())
        })
    }

    async fn release(&self, lease: Lease) -> Result<(), StoreError> {
        self.with(|state, _| {
            state.release(lease);
            Ok(())
        })
    }

    async fn health(&self) -> Health {
        let facts = self.with(|state, now| Ok((state.bytes, state.newest.saturating_sub(now))));
        let (bytes, ahead) = facts.as_ref().copied().unwrap_or_default();
        Health {
            engine: "memory",
            promise: "an acknowledged item is lost when the process ends",
            readable: facts.is_ok(),
            writable: facts.is_ok(),
            problem: facts.err().map(|error| error.to_string()),
            clock_ahead: Duration::from_millis(ahead),
            bytes,
        }
    }

    async fn close(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        *state = State { closed: true, ..State::default() };
    }
}

impl State {
    fn check(&self, puts: &[Put], now: u64) -> Result<(), StoreError> {
        let fits = |put: &Put| match self.records.get(&put.key) {
            Some(kept) => put.expect == kept.version || (put.expect == 0 && kept.expires_ms <= now),
            None => true,
        };
        if puts.iter().all(fits) { Ok(()) } else { Err(StoreError::Conflict) }
    }

    fn change_feed(
        &mut self,
        FeedChange { feed: id, opener, item }: FeedChange,
        bounds: &Bounds,
        now: u64,
    ) -> Result<Option<ItemPlace>, StoreError> {
        self.uses += 1;
        let agent = self.agents.entry(id.agent).or_default();
        let feed = self.feeds.entry(id.hash).or_insert_with(|| {
            agent.feeds += 1;
            Feed {
                id,
                owner: opener.filter(|_| !id.own),
                ticker: Ticker::default(),
                used: 0,
                used_ms: now,
                bytes: 0,
                items: VecDeque::new(),
            }
        });
        let timestamp = item.as_ref().map(|_| feed.ticker.next(now, agent.floor)).transpose()?;
        if !id.own {
            self.idle_feeds.remove(&(id.agent, feed.used, id.hash));
            self.idle_feeds.insert((id.agent, self.uses, id.hash));
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

    /// Drops items of a feed from its old end.
    fn trim(&mut self, hash: Hash, over: impl Fn(&Feed) -> bool) {
        let Some(feed) = self.feeds.get_mut(&hash) else { return };
        let mut freed = 0;
        while over(feed)
            && let Some(item) = feed.items.pop_front()
        {
            feed.bytes -= item.body.weight();
            freed += item.body.weight();
        }
        self.bytes -= freed;
        if let Some(agent) = self.agents.get_mut(&feed.id.agent) {
            agent.bytes -= freed;
        }
    }

    /// Keeps to the caps after this feed was written.
    fn make_room(&mut self, written: FeedId, bounds: &Bounds) {
        let limits = bounds.limits;
        let counted =
            |state: &Self| state.agents.get(&written.agent).map_or((0, 0), |agent| (agent.feeds, agent.bytes));
        while counted(self).0 > limits.agent_feeds && self.drop_idle(written.agent, written) {}
        while counted(self).1 > limits.agent_bytes && self.shrink(written.agent, written) {}
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
        let feeds = self.feeds.values().filter(|feed| feed.id.agent == agent && feed.items.len() > 1);
        let Some((hash, left)) = feeds.max_by_key(|feed| feed.bytes).map(|feed| (feed.id.hash, feed.items.len()))
        else {
            return false;
        };
        self.trim(hash, |feed| feed.items.len() >= left);
        true
    }

    fn drop_idle(&mut self, agent: AgentId, written: FeedId) -> bool {
        let idle = self.idle_feeds.range((agent, 0, Hash::default())..).take_while(|idle| idle.0 == agent);
        let idle = idle.map(|idle| idle.2).find(|hash| *hash != written.hash);
        idle.map(|hash| self.drop_feed(hash)).is_some()
    }

    fn drop_feed(&mut self, hash: Hash) {
        self.trim(hash, |_| true);
        let Some(feed) = self.feeds.remove(&hash) else { return };
        self.idle_feeds.remove(&(feed.id.agent, feed.used, hash));
        if let Some(agent) = self.agents.get_mut(&feed.id.agent) {
            agent.feeds -= 1;
            agent.floor = agent.floor.max(feed.ticker.last);
        }
    }

    fn page(&self, read: &PageRead) -> Result<EnginePage, StoreError> {
        let asked = self.feeds.get(&read.feed.hash);
        asked.map_or(Ok(()), |feed| read.reader.may_read(feed.owner))?;
        let started = read.query.and_then(|query| {
            let record = self.records.get(&RecordKey { kind: RecordKind::Query, hash: query.0 });
            record.filter(|record| record.owner == read.feed.agent.0)
        });
        let (items, more) = match (started, asked, read.query) {
            (Some(started), _, _) => match started.item.and_then(|at| Some((at, self.feeds.get(&at.feed)?))) {
                Some((at, home)) => {
                    read.reader.may_read(home.owner)?;
                    home.items(read, |item| item.timestamp == at.timestamp)
                }
                None => Default::default(),
            },
            (None, Some(feed), Some(query)) => feed.items(read, |item| item.body.queries.contains(&query)),
            (None, Some(feed), None) => feed.items(read, |_| true),
            (None, None, _) => Default::default(),
        };
        let oldest = asked.and_then(|feed| feed.items.front()).map(|item| item.timestamp);
        Ok(EnginePage { items, more, last: asked.map_or(0, |feed| feed.ticker.last), oldest })
    }

    fn put(&mut self, put: Put, item: Option<ItemPlace>, bounds: &Bounds, now: u64) {
        let version = self.records.get(&put.key).map_or(put.expect, |kept| kept.version) + 1;
        self.drop_record(put.key);
        self.uses += 1;
        let bytes = put.body.len() as u64;
        let tally = self.owners.entry((put.key.kind, put.owner)).or_default();
        tally.records += 1;
        tally.bytes += bytes;
        self.idle_records.insert((put.key.kind, put.owner, self.uses, put.key.hash));
        let expires_ms = now.saturating_add(millis(put.ttl));
        let kept = Kept { owner: put.owner, version, body: put.body, item, used: self.uses, expires_ms };
        self.records.insert(put.key, kept);
        let cap = bounds.limits.cap(put.key.kind);
        let of = (put.key.kind, put.owner);
        while self.owners.get(&of).is_some_and(|tally| tally.records > cap.records || tally.bytes > cap.bytes)
            && let Some(idle) = self.idle_records.range((of.0, of.1, 0, Hash::default())..).next().copied()
        {
            self.drop_record(RecordKey { kind: idle.0, hash: idle.3 });
        }
    }

    fn drop_record(&mut self, key: RecordKey) {
        let Some(kept) = self.records.remove(&key) else { return };
        self.idle_records.remove(&(key.kind, kept.owner, kept.used, key.hash));
        if let Some(tally) = self.owners.get_mut(&(key.kind, kept.owner)) {
            tally.records -= 1;
            tally.bytes -= kept.body.len() as u64;
            if tally.records == 0 {
                self.owners.remove(&(key.kind, kept.owner));
            }
        }
    }

    fn acquire(&mut self, lease: Lease, note: Hash, now: u64) -> Option<Hash> {
        if let Some(held) = self.leases.get(&lease.key).filter(|held| held.until_ms > now) {
            return Some(held.note);
        }
        if self.leases.len() > 2 * self.leases_swept + LEASES_UNSWEPT {
            self.leases.retain(|_, held| held.until_ms > now);
            self.leases_swept = self.leases.len();
        }
        self.leases.insert(lease.key, Held { holder: lease.holder, note, until_ms: now + millis(LEASE_TERM) });
        None
    }

    fn release(&mut self, lease: Lease) {
        if self.leases.get(&lease.key).is_some_and(|held| held.holder == lease.holder) {
            self.leases.remove(&lease.key);
        }
    }

    /// Looks at the next few feeds and records, round and round.
    fn sweep(&mut self, bounds: &Bounds, now: u64) {
        let next = |after| self.feeds.range((Excluded(after), Unbounded)).take(SWEEP_STEP);
        let feeds: Vec<_> = next(self.feeds_swept).map(|(hash, feed)| (*hash, feed.id, feed.used_ms)).collect();
        self.feeds_swept = feeds.last().filter(|_| feeds.len() == SWEEP_STEP).map_or(Hash::default(), |last| last.0);
        for (hash, id, used_ms) in feeds {
            let retention = bounds.retention(id.agent);
            self.trim(hash, |feed| feed.exceeds(retention, now));
            let idle = used_ms.saturating_add(millis(retention.age)) < now;
            if idle && !id.own && self.feeds.get(&hash).is_some_and(|feed| feed.items.is_empty()) {
                self.drop_feed(hash);
            }
        }
        let after = self.records_swept.map_or(Unbounded, Excluded);
        let records: Vec<_> = self.records.range((after, Unbounded)).take(SWEEP_STEP).collect();
        self.records_swept = records.last().filter(|_| records.len() == SWEEP_STEP).map(|(key, _)| **key);
        let expired: Vec<_> =
            { records }.into_iter().filter(|(_, kept)| kept.expires_ms <= now).map(|(key, _)| *key).collect();
        for key in expired {
            self.drop_record(key);
        }
    }
}

impl Feed {
    fn exceeds(&self, retention: Retention, now: u64) -> bool {
        let aged = |item: &Item| item.received_ms.saturating_add(millis(retention.age)) < now;
        self.items.len() as u64 > retention.items
            || self.bytes > retention.bytes
            || self.items.front().is_some_and(aged)
    }

    /// Up to `limit` items in ascending order, and whether there are more in the direction read.
    fn items(&self, read: &PageRead, wanted: impl Fn(&Item) -> bool) -> (Vec<StoredItem>, bool) {
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

fn millis(duration: Duration) -> u64 {
    duration.as_millis() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::contract::{self, Bench, TestClock};

    fn bench() -> Bench {
        let clock = TestClock::new();
        let opened = Mutex::<Option<Arc<crate::store::Store>>>::default();
        let time = clock.clone();
        let open = move |limits| {
            let make = || {
                let bounds = Arc::new(Bounds::new(limits, HashMap::new()));
                contract::store(Memory::new(bounds.clone(), time.clone()), bounds)
            };
            opened.lock().unwrap().get_or_insert_with(make).clone()
        };
        Bench { clock, open: Box::new(open), durable: false }
    }

    contract::hold!(bench);
}
