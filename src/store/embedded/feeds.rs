//! Feeds in SQL: their rows, and appending to them.

use rusqlite::{Connection, OptionalExtension as _, Params, Row, params};

use super::batch::Batch;
use super::checksum;
use super::fault::{Failure, Fault};
use crate::store::engine::{FeedChange, ItemBody, ItemPlace};
use crate::store::feed::Ticker;
use crate::store::keys::{AgentId, CallerId, FeedId, Hash};
use crate::store::settings::Retention;

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
    /// Items that it ever had, and their weight.
    count: u64,
    weight: u64,
    /// Its oldest item that is kept.
    pub(super) oldest: Mark,
}

/// Where a feed stands at one of its items.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Mark {
    pub(super) timestamp: u64,
    /// Items before it.
    pub(super) count: u64,
    /// Their weight.
    pub(super) weight: u64,
    pub(super) received_ms: u64,
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

    pub(super) fn largest(connection: &Connection, agent: AgentId) -> Result<Option<Self>, Fault> {
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
            oldest: Mark {
                timestamp: row.get(10)?,
                count: row.get(11)?,
                weight: row.get(12)?,
                received_ms: row.get(13)?,
            },
        })
    }

    /// Whether no item is kept.
    pub(super) fn is_empty(&self) -> bool {
        self.count == self.oldest.count
    }

    /// The last timestamp given out; 0 if none yet.
    pub(super) fn last(&self) -> u64 {
        self.ticker.last
    }

    /// The first timestamp that is kept: items below it wait to be removed.
    pub(super) fn first(&self) -> u64 {
        self.oldest.timestamp
    }

    /// Keeps nothing any more.
    pub(super) fn empty(&mut self, now: u64) {
        let timestamp = self.ticker.last + 1;
        self.oldest = Mark { timestamp, count: self.count, weight: self.weight, received_ms: now };
    }

    /// Whether retention wants items dropped.
    pub(super) fn is_over(&self, retention: Retention, now: u64) -> bool {
        !self.is_empty() && !self.keeps(&self.oldest, retention, now)
    }

    /// Of all items that are kept.
    pub(super) fn bytes(&self) -> u64 {
        self.weight - self.oldest.weight
    }

    /// Whether retention keeps an item that stands here.
    pub(super) fn keeps(&self, mark: &Mark, retention: Retention, now: u64) -> bool {
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
            oldest: Mark::default(),
        })
    }

    fn append(&mut self, feed: &mut Feed, body: &ItemBody) -> Result<u64, Failure> {
        let floor = self.agent(feed.agent)?.floor;
        let timestamp = feed.ticker.next(self.now, floor)?;
        let mark = Mark { timestamp, count: feed.count, weight: feed.weight, received_ms: self.now };
        self.insert(feed.id, &mark, body)?;
        if feed.is_empty() {
            feed.oldest = mark;
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
                checksum::of_item(feed, mark.timestamp, &body.json),
                &body.json[..],
            ])?;
        for query in &body.queries {
            self.connection
                .prepare_cached("INSERT INTO item_query(feed, query, timestamp) VALUES (?1, ?2, ?3)")?
                .execute(params![feed, query.0, mark.timestamp])?;
        }
        Ok(())
    }

    /// Writes the row back.
    pub(super) fn write(&self, feed: &Feed) -> Result<(), Fault> {
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
                feed.oldest.timestamp,
                feed.oldest.count,
                feed.oldest.weight,
                feed.oldest.received_ms,
            ])?;
        Ok(())
    }
}
