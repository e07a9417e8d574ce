//! What goes when there is too much, or when its time is over; and how it leaves the disk.

use std::collections::VecDeque;

use rusqlite::{Connection, params};

use super::batch::Batch;
use super::fault::Fault;
use super::feeds::{Feed, Mark};
use crate::store::keys::{AgentId, Hash};

/// Feeds that are looked up at once to find the ones to drop.
const IDLE_BATCH: usize = 1024;

/// Items that are looked at one by one before the oldest to keep is searched for.
const STEPS: usize = 4;

impl Batch<'_> {
    /// Moves the feed's old end up to the first item that `keeps` wants, or at most to the newest item. The items
    /// below are gone for every reader at once, and are removed later.
    pub(super) fn advance(&mut self, feed: &mut Feed, keeps: impl Fn(&Feed, &Mark) -> bool) -> Result<(), Fault> {
        let before = feed.oldest;
        for _ in 0..STEPS {
            if feed.oldest.timestamp >= feed.last() || keeps(feed, &feed.oldest) {
                break;
            }
            feed.oldest = self.mark(feed, feed.oldest.timestamp + 1)?;
        }
        if feed.oldest.timestamp < feed.last() && !keeps(feed, &feed.oldest) {
            feed.oldest = self.search(feed, keeps)?;
        }
        if feed.oldest != before {
            let freed = feed.oldest.weight - before.weight;
            self.count(feed.agent, |agent| agent.bytes = agent.bytes.saturating_sub(freed))?;
            self.upkeep.litter(feed.id);
        }
        Ok(())
    }

    /// The first mark that `keeps` wants, by halving: thousands of items cost a few look-ups.
    fn search(&self, feed: &Feed, keeps: impl Fn(&Feed, &Mark) -> bool) -> Result<Mark, Fault> {
        let (mut low, mut high) = (feed.oldest.timestamp, feed.last());
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
    pub(super) fn make_room(&mut self, written: &Feed) -> Result<(), Fault> {
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
        let before = feed.oldest;
        self.advance(&mut feed, |_, mark| mark.weight >= before.weight + over)?;
        self.write(&feed)?;
        Ok(feed.oldest != before)
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
            agent.floor = agent.floor.max(feed.last());
        })
    }

    /// Drops what the feed's retention no longer wants, the newest item too.
    pub(super) fn expire(&mut self, feed: &mut Feed) -> Result<(), Fault> {
        let (retention, now) = (self.bounds.retention(feed.agent), self.now);
        self.advance(feed, |feed, mark| feed.keeps(mark, retention, now))?;
        if feed.is_over(retention, now) {
            let freed = feed.bytes();
            feed.empty(now);
            self.count(feed.agent, |agent| agent.bytes = agent.bytes.saturating_sub(freed))?;
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
        self.removed += removed as u64;
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
