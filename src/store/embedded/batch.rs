//! `Batch`: the changes of one transaction, and what they know together.

use std::collections::{HashMap, HashSet, VecDeque};

use rusqlite::{Connection, OptionalExtension as _, params};

use super::database;
use super::fault::{Failure, Fault};
use crate::store::engine::{Bounds, Change, Committed};
use crate::store::keys::AgentId;

/// Changes inside one open transaction. Every change checks first and writes then, so one that is refused leaves
/// nothing behind; a [`Fault`] ends the transaction and all changes with it.
pub(super) struct Batch<'a> {
    pub(super) connection: &'a Connection,
    pub(super) bounds: &'a Bounds,
    pub(super) upkeep: &'a mut Upkeep,
    pub(super) now: u64,
    /// The rows of agents that were touched, written back at the end.
    agents: HashMap<AgentId, Agent>,
    /// Bytes of all items.
    pub(super) bytes: u64,
    /// Items appended.
    pub(super) appended: usize,
    /// Items removed.
    pub(super) removed: u64,
    /// The highest timestamp given out.
    pub(super) newest: u64,
}

/// A row of `agent`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Agent {
    pub(super) floor: u64,
    pub(super) feeds: u64,
    pub(super) bytes: u64,
}

/// What the writer remembers between transactions. None of it is needed: after a fault it starts empty.
#[derive(Default)]
pub(super) struct Upkeep {
    /// Session feeds of an agent in the order of their last use, and when that was: the next ones to drop. A feed
    /// that is not among them was used later than all of them.
    pub(super) idle: HashMap<AgentId, VecDeque<(u64, u64)>>,
    /// Feeds with items that wait to be removed.
    pub(super) litter: VecDeque<u64>,
    littered: HashSet<u64>,
    /// Rate counters.
    pub(super) rates: Option<u64>,
}

impl Upkeep {
    /// Notes a feed whose items may be removed.
    pub(super) fn litter(&mut self, feed: u64) {
        if self.littered.insert(feed) {
            self.litter.push_back(feed);
        }
    }

    /// Notes that the feed in front has no such items any more.
    pub(super) fn clean(&mut self, feed: u64) {
        self.litter.pop_front();
        self.littered.remove(&feed);
    }
}

impl<'a> Batch<'a> {
    /// Begins after the transaction has begun, so that `now` is later than that of every transaction before.
    pub(super) fn new(
        connection: &'a Connection,
        bounds: &'a Bounds,
        upkeep: &'a mut Upkeep,
        now: u64,
    ) -> Result<Self, Fault> {
        let bytes = database::item_bytes(connection)?;
        Ok(Self { connection, bounds, upkeep, now, agents: HashMap::new(), bytes, appended: 0, removed: 0, newest: 0 })
    }

    /// Makes one change, or refuses it.
    pub(super) fn apply(&mut self, change: &Change) -> Result<Committed, Failure> {
        self.check(&change.puts)?;
        let place = change.feed.as_ref().map(|change| self.change_feed(change)).transpose()?.flatten();
        for put in &change.puts {
            self.put(put, place)?;
        }
        for lease in &change.releases {
            self.release(*lease)?;
        }
        Ok(Committed { timestamp: place.map(|place| place.timestamp) })
    }

    /// Writes back what was counted. The transaction can be committed then.
    pub(super) fn finish(mut self) -> Result<Outcome, Fault> {
        for (id, agent) in std::mem::take(&mut self.agents) {
            self.connection
                .prepare_cached(
                    "INSERT INTO agent(hash, floor, feeds, bytes) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO UPDATE
                     SET floor = excluded.floor, feeds = excluded.feeds, bytes = excluded.bytes",
                )?
                .execute(params![id.0, agent.floor, agent.feeds, agent.bytes])?;
        }
        Ok(Outcome { bytes: self.bytes, newest: self.newest, removed: self.removed })
    }

    /// The row of an agent.
    pub(super) fn agent(&mut self, id: AgentId) -> Result<Agent, Fault> {
        if let Some(agent) = self.agents.get(&id) {
            return Ok(*agent);
        }
        let agent = self
            .connection
            .prepare_cached("SELECT floor, feeds, bytes FROM agent WHERE hash = ?1")?
            .query_row([id.0], |row| Ok(Agent { floor: row.get(0)?, feeds: row.get(1)?, bytes: row.get(2)? }))
            .optional()?
            .unwrap_or_default();
        self.agents.insert(id, agent);
        Ok(agent)
    }

    /// Changes the row of an agent.
    pub(super) fn count(&mut self, id: AgentId, change: impl FnOnce(&mut Agent)) -> Result<(), Fault> {
        let before = self.agent(id)?;
        let mut agent = before;
        change(&mut agent);
        self.agents.insert(id, agent);
        self.bytes = (self.bytes + agent.bytes).saturating_sub(before.bytes);
        Ok(())
    }

    /// The agent with the most bytes.
    pub(super) fn heaviest(&mut self) -> Result<Option<AgentId>, Fault> {
        let mut statement = self.connection.prepare_cached("SELECT hash FROM agent")?;
        let ids = statement.query_map([], |row| Ok(AgentId(row.get(0)?)))?.collect::<Result<Vec<_>, _>>()?;
        for id in ids {
            self.agent(id)?;
        }
        Ok(self.agents.iter().max_by_key(|(_, agent)| agent.bytes).map(|(id, _)| *id))
    }
}

/// What a transaction led to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Outcome {
    pub(super) bytes: u64,
    pub(super) newest: u64,
    pub(super) removed: u64,
}
