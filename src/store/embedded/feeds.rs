//! Feeds in SQL: appending, and keeping to the bounds.

use std::collections::VecDeque;

use rusqlite::{Connection, OptionalExtension as _, Params, Row, params};

use super::batch::Batch;
use super::fault::{Failure, Fault};
use super::pages;
use crate::store::engine::{FeedChange, ItemBody, ItemPlace};
use crate::store::feed::Ticker;
use crate::store::keys::{AgentId, CallerId, FeedId, Hash};
use crate::store::settings::Retention;

/// Feeds that are looked up at once to find the ones to drop.
const IDLE_BATCH: usize = 1024;

/// Items that are looked at one by one before the oldest to keep is searched for.
const STEPS: usize = 4;

/// A row of `feed`.
#[derive(Debug, Clone)]
pub(super) struct Feed {
    pub(super) id: u64,
    pub(super) hash: Hash,
    pub(super) agent: AgentId,
    pub(super) own: bool,
    pub(super) owner: Option<CallerId>,
    pub(super) used_ms: u64,
    ticker: Ticker,
    count: u64,
    weight: u64,
    first: Mark,
}

/// Where a feed stands at one of its items.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Mark {
    timestamp: u64,
    /// Items before it.
    count: u64,
    /// Their weight.
    weight: u64,
    received_ms: u64,
}

macro_rules! select_feed {
    ($which:literal) => {
        concat!(
            "SELECT id, hash, agent, own, owner, used_ms, last, spent, count, weight, first, first_count, ",
            "first_weight, first_ms FROM feed ",
            $which
        )
    };
}

impl Feed {
    /// The feed of this name.
    pub(super) fn find(connection: &Connection, hash: Hash) -> Result<Option<Self>, Fault> {
        Self::select(connection, select_feed!("WHERE hash = ?1"), [hash])
    }

    /// The feed of this row.
    pub(super) fn get(connection: &Connection, id: u64) -> Result<Option<Self>, Fault> {
        Self::select(connection, select_feed!("WHERE id = ?1"), [id])
    }

    /// The next rows after this one.
    pub(super) fn after(connection: &Connection, id: u64, limit: usize) -> Result<Vec<Self>, Fault> {
        let mut statement = connection.prepare_cached(select_feed!("WHERE id > ?1 ORDER BY id LIMIT ?2"))?;
        let rows = statement.query_map(params![id, limit], Self::read)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    fn largest(connection: &Connection, agent: AgentId) -> Result<Option<Self>, Fault> {
        let which = select_feed!("WHERE agent = ?1 ORDER BY weight - first_weight DESC LIMIT 1");
        Self::select(connection, which, [agent.0])
    }

    fn select(connection: &Connection, sql: &str, key: impl Params) -> Result<Option<Self>, Fault> {
        Ok(connection.prepare_cached(sql)?.query_row(key, Self::read).optional()?)
    }

    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            id: row.get(0)?,
            hash: row.get(1)?,
            agent: AgentId(row.get(2)?),
            own: row.get(3)?,
            owner: row.get::<_, Option<Hash>>(4)?.map(CallerId),
            used_ms: row.get(5)?,
            ticker: Ticker { last: row.get(6)?, spent: row.get(7)? },
            count: row.get(8)?,
            weight: row.get(9)?,
            first: Mark {
                timestamp: row.get(10)?,
                count: row.get(11)?,
                weight: row.get(12)?,
                received_ms: row.get(13)?,
            },
        })
    }

    /// Whether no item is kept.
    pub(super) fn is_empty(&self) -> bool {
        self.count == self.first.count
    }

    /// The last timestamp given out; 0 if none yet.
    pub(super) fn last(&self) -> u64 {
        self.ticker.last
    }

    /// The first timestamp that is kept: items below it wait to be removed.
    pub(super) fn first(&self) -> u64 {
        self.first.timestamp
    }

    /// Whether retention wants items dropped.
    pub(super) fn is_over(&self, retention: Retention, now: u64) -> bool {
        !self.is_empty() && !self.keeps(&self.first, retention, now)
    }

    fn bytes(&self) -> u64 {
        self.weight - self.first.weight
    }

    fn keeps(&self, mark: &Mark, retention: Retention, now: u64) -> bool {
        self.count - mark.count <= retention.items
            && self.weight - mark.weight <= retention.bytes
            && mark.received_ms.saturating_add(retention.age.as_millis() as u64) >= now
    }
}

impl Batch<'_> {
    /// Opens a feed and appends to it.
    pub(super) fn change_feed(&mut self, change: &FeedChange) -> Result<Option<ItemPlace>, Failure> {
        let FeedChange { feed: id, opener, item } = change;
        let mut feed = match Feed::find(self.connection, id.hash)? {
            Some(feed) => feed,
            None => self.open(*id, *opener)?,
        };
        feed.used_ms = self.now;
        let timestamp = item.as_ref().map(|item| self.append(&mut feed, item)).transpose()?;
        self.write(&feed)?;
        self.make_room(&feed)?;
        Ok(timestamp.map(|timestamp| ItemPlace { feed: id.hash, timestamp }))
    }

    fn open(&mut self, id: FeedId, opener: Option<CallerId>) -> Result<Feed, Fault> {
        let owner = opener.filter(|_| !id.own);
        self.count(id.agent, |agent| agent.feeds += 1)?;
        let row: u64 = self
            .connection
            .prepare_cached(
                "INSERT INTO feed(hash, agent, own, owner, used_ms) VALUES (?1, ?2, ?3, ?4, ?5) RETURNING id",
            )?
            .query_row(params![id.hash, id.agent.0, id.own, owner.map(|owner| owner.0), self.now], |row| row.get(0))?;
        Ok(Feed {
            id: row,
            hash: id.hash,
            agent: id.agent,
            own: id.own,
            owner,
            used_ms: self.now,
            ticker: Ticker::default(),
            count: 0,
            weight: 0,
            first: Mark::default(),
        })
    }

    fn append(&mut self, feed: &mut Feed, body: &ItemBody) -> Result<u64, Failure> {
        let floor = self.agent(feed.agent)?.floor;
        let timestamp = feed.ticker.next(self.now, floor)?;
        let mark = Mark { timestamp, count: feed.count, weight: feed.weight, received_ms: self.now };
        self.insert(feed.id, &mark, body)?;
        if feed.is_empty() {
            feed.first = mark;
        }
        feed.count += 1;
        feed.weight += body.weight();
        self.count(feed.agent, |agent| agent.bytes += body.weight())?;
        self.appended += 1;
        self.newest = self.newest.max(timestamp);
        let (retention, now) = (self.bounds.retention(feed.agent), self.now);
        self.advance(feed, |feed, mark| feed.keeps(mark, retention, now))?;
        Ok(timestamp)
    }

    fn insert(&self, feed: u64, mark: &Mark, body: &ItemBody) -> Result<(), Fault> {
        let queries: Vec<u8> = body.queries.iter().flat_map(|query| query.0).collect();
        self.connection
            .prepare_cached(
                "INSERT INTO item(feed, timestamp, received_ms, count, weight, answer, queries, checksum, json)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            )?
            .execute(params![
                feed,
                mark.timestamp,
                mark.received_ms,
                mark.count,
                mark.weight,
                body.answer,
                Some(queries).filter(|queries| !queries.is_empty()),
                pages::checksum(feed, mark.timestamp, &body.json),
                &body.json[..],
            ])?;
        for query in &body.queries {
            self.connection
                .prepare_cached("INSERT INTO item_query(feed, query, timestamp) VALUES (?1, ?2, ?3)")?
                .execute(params![feed, query.0, mark.timestamp])?;
        }
        Ok(())
    }

    fn write(&self, feed: &Feed) -> Result<(), Fault> {
        self.connection
            .prepare_cached(
                "UPDATE feed SET used_ms = ?2, last = ?3, spent = ?4, count = ?5, weight = ?6,
                 first = ?7, first_count = ?8, first_weight = ?9, first_ms = ?10 WHERE id = ?1",
            )?
            .execute(params![
                feed.id,
                feed.used_ms,
                feed.ticker.last,
                feed.ticker.spent,
                feed.count,
                feed.weight,
                feed.first.timestamp,
                feed.first.count,
                feed.first.weight,
                feed.first.received_ms,
            ])?;
        Ok(())
    }

    /// Moves the feed's old end up to the first item that `keeps` wants, or at most to the newest item. The items
    /// below are gone for every reader at once, and are removed later.
    fn advance(&mut self, feed: &mut Feed, keeps: impl Fn(&Feed, &Mark) -> bool) -> Result<(), Fault> {
        let before = feed.first;
        for _ in 0..STEPS {
            if feed.first.timestamp >= feed.ticker.last || keeps(feed, &feed.first) {
                break;
            }
            feed.first = self.mark(feed, feed.first.timestamp + 1)?;
        }
        if feed.first.timestamp < feed.ticker.last && !keeps(feed, &feed.first) {
            feed.first = self.search(feed, keeps)?;
        }
        if feed.first != before {
            let freed = feed.first.weight - before.weight;
            self.count(feed.agent, |agent| agent.bytes = agent.bytes.saturating_sub(freed))?;
            self.upkeep.litter(feed.id);
        }
        Ok(())
    }

    /// The first mark that `keeps` wants, by halving: thousands of items cost a few look-ups.
    fn search(&self, feed: &Feed, keeps: impl Fn(&Feed, &Mark) -> bool) -> Result<Mark, Fault> {
        let (mut low, mut high) = (feed.first.timestamp, feed.ticker.last);
        let mut found = self.mark(feed, high)?;
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            let mark = self.mark(feed, middle)?;
            if mark.timestamp >= high || keeps(feed, &mark) {
                (found, high) = (mark, middle);
            } else {
                low = mark.timestamp;
            }
        }
        Ok(found)
    }

    /// The oldest item at or after this time.
    fn mark(&self, feed: &Feed, from: u64) -> Result<Mark, Fault> {
        let mark = self
            .connection
            .prepare_cached(
                "SELECT timestamp, count, weight, received_ms FROM item
                 WHERE feed = ?1 AND timestamp >= ?2 ORDER BY timestamp LIMIT 1",
            )?
            .query_row(params![feed.id, from], |row| {
                Ok(Mark { timestamp: row.get(0)?, count: row.get(1)?, weight: row.get(2)?, received_ms: row.get(3)? })
            })?;
        Ok(mark)
    }

    /// Keeps to the caps after this feed was written.
    fn make_room(&mut self, written: &Feed) -> Result<(), Fault> {
        let limits = self.bounds.limits;
        while self.agent(written.agent)?.feeds > limits.agent_feeds && self.drop_idle(written.agent, written.id)? {}
        loop {
            let over = self.agent(written.agent)?.bytes.saturating_sub(limits.agent_bytes);
            if over == 0 || !self.shrink(written.agent, written.id, over)? {
                break;
            }
        }
        while self.bytes > limits.bytes {
            let over = self.bytes - limits.bytes;
            let Some(heaviest) = self.heaviest()? else { break };
            if !self.shrink(heaviest, written.id, over)? {
                break;
            }
        }
        Ok(())
    }

    /// Drops an agent's least recently used session feed, or failing that the oldest items of its largest feed;
    /// false if there is nothing to drop.
    fn shrink(&mut self, agent: AgentId, written: u64, over: u64) -> Result<bool, Fault> {
        if self.drop_idle(agent, written)? {
            return Ok(true);
        }
        let Some(mut feed) = Feed::largest(self.connection, agent)? else { return Ok(false) };
        let before = feed.first;
        self.advance(&mut feed, |_, mark| mark.weight >= before.weight + over)?;
        self.write(&feed)?;
        Ok(feed.first != before)
    }

    fn drop_idle(&mut self, agent: AgentId, written: u64) -> Result<bool, Fault> {
        for refill in [false, true] {
            if refill {
                let idle = self.idle(agent)?;
                self.upkeep.idle.insert(agent, idle);
            }
            while let Some((id, used_ms)) = self.upkeep.idle.get_mut(&agent).and_then(VecDeque::pop_front) {
                // One that was used since then is no longer among the least recently used.
                if id != written
                    && let Some(feed) = Feed::get(self.connection, id)?
                    && feed.used_ms == used_ms
                {
                    self.drop_feed(&feed)?;
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    fn idle(&self, agent: AgentId) -> Result<VecDeque<(u64, u64)>, Fault> {
        let mut statement = self.connection.prepare_cached(
            "SELECT id, used_ms FROM feed WHERE agent = ?1 AND NOT own ORDER BY used_ms, id LIMIT ?2",
        )?;
        let rows = statement.query_map(params![agent.0, IDLE_BATCH], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Drops a feed; its items are removed later.
    pub(super) fn drop_feed(&mut self, feed: &Feed) -> Result<(), Fault> {
        self.connection.prepare_cached("DELETE FROM feed WHERE id = ?1")?.execute([feed.id])?;
        self.connection.prepare_cached("INSERT INTO dropped(feed) VALUES (?1)")?.execute([feed.id])?;
        self.upkeep.litter(feed.id);
        self.count(feed.agent, |agent| {
            agent.feeds = agent.feeds.saturating_sub(1);
            agent.bytes = agent.bytes.saturating_sub(feed.bytes());
            agent.floor = agent.floor.max(feed.ticker.last);
        })
    }

    /// Drops what the feed's retention no longer wants, the newest item too.
    pub(super) fn expire(&mut self, feed: &mut Feed) -> Result<(), Fault> {
        let (retention, now) = (self.bounds.retention(feed.agent), self.now);
        self.advance(feed, |feed, mark| feed.keeps(mark, retention, now))?;
        if feed.is_over(retention, now) {
            let freed = feed.bytes();
            self.count(feed.agent, |agent| agent.bytes = agent.bytes.saturating_sub(freed))?;
            let timestamp = feed.ticker.last + 1;
            feed.first = Mark { timestamp, count: feed.count, weight: feed.weight, received_ms: now };
            self.upkeep.litter(feed.id);
        }
        self.write(feed)
    }

    /// Removes up to `limit` items that nobody sees any more; returns how many there were.
    pub(super) fn remove(&mut self, limit: usize) -> Result<usize, Fault> {
        let mut removed = 0;
        while removed < limit
            && let Some(&id) = self.upkeep.litter.front()
        {
            let feed = Feed::get(self.connection, id)?;
            let below = feed.as_ref().map_or(i64::MAX as u64, Feed::first);
            removed += remove_items(self.connection, id, below, limit - removed)?;
            if removed < limit {
                if feed.is_none() {
                    self.connection.prepare_cached("DELETE FROM dropped WHERE feed = ?1")?.execute([id])?;
                }
                self.upkeep.clean(id);
            }
        }
        Ok(removed)
    }
}

fn remove_items(connection: &Connection, feed: u64, below: u64, limit: usize) -> Result<usize, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT id, timestamp, queries FROM item WHERE feed = ?1 AND timestamp < ?2 ORDER BY timestamp LIMIT ?3",
    )?;
    let rows = statement.query_map(params![feed, below, limit], |row| {
        Ok((row.get::<_, u64>(0)?, row.get::<_, u64>(1)?, row.get::<_, Option<Vec<u8>>>(2)?))
    })?;
    let rows = rows.collect::<Result<Vec<_>, _>>()?;
    for (id, timestamp, queries) in &rows {
        for query in queries.iter().flat_map(|queries| queries.chunks(size_of::<Hash>())) {
            connection
                .prepare_cached("DELETE FROM item_query WHERE feed = ?1 AND query = ?2 AND timestamp = ?3")?
                .execute(params![feed, query, timestamp])?;
        }
        connection.prepare_cached("DELETE FROM item WHERE id = ?1")?.execute([id])?;
    }
    Ok(rows.len())
}

/// Whether a feed has items that nobody sees any more.
pub(super) fn has_litter(connection: &Connection, feed: &Feed) -> Result<bool, Fault> {
    Ok(connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM item WHERE feed = ?1 AND timestamp < ?2)")?
        .query_row(params![feed.id, feed.first()], |row| row.get(0))?)
}

/// Feeds that are gone and whose items are still there.
pub(super) fn dropped(connection: &Connection, limit: usize) -> Result<Vec<u64>, Fault> {
    let mut statement = connection.prepare_cached("SELECT feed FROM dropped LIMIT ?1")?;
    let ids = statement.query_map([limit], |row| row.get(0))?;
    Ok(ids.collect::<Result<_, _>>()?)
}
