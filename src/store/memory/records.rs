//! Records and leases in memory.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound::{Excluded, Unbounded};

use bytes::Bytes;

use super::millis;
use crate::store::StoreError;
use crate::store::engine::{ItemPlace, Limits, Put, QueryAnswer, Record, RecordKey, RecordKind};
use crate::store::keys::{AgentId, Hash, LeaseKey, QueryKey};
use crate::store::lease::{LEASE_TERM, Lease};

/// Records that a change looks at to find what is out of date.
const SWEEP_STEP: usize = 4;

/// Leases that may be out of date before they are looked through.
const LEASES_UNSWEPT: usize = 1024;

#[derive(Default)]
pub(super) struct Records {
    by_key: BTreeMap<RecordKey, Kept>,
    owners: HashMap<(RecordKind, Hash), Tally>,
    /// By kind and owner, least recently put first.
    idle: BTreeSet<(RecordKind, Hash, u64, Hash)>,
    /// Counts puts, so that their order does not depend on the clock.
    puts: u64,
    swept: Option<RecordKey>,
}

struct Kept {
    owner: Hash,
    version: u64,
    body: Bytes,
    item: Option<ItemPlace>,
    put: u64,
    expires_ms: u64,
}

#[derive(Default)]
struct Tally {
    records: u64,
    bytes: u64,
}

impl Records {
    pub(super) fn get(&self, key: RecordKey, now: u64) -> Option<Record> {
        self.by_key.get(&key).map(|kept| Record {
            version: kept.version,
            body: kept.body.clone(),
            item: kept.item,
            expired: kept.expires_ms <= now,
        })
    }

    /// Where the answer of an agent's query stands.
    pub(super) fn answer(&self, query: QueryKey, agent: AgentId) -> QueryAnswer {
        let started = self.by_key.get(&RecordKey { kind: RecordKind::Query, hash: query.0 });
        match started.filter(|started| started.owner == agent.0) {
            None => QueryAnswer::Unknown,
            Some(started) => started.item.map_or(QueryAnswer::Nowhere, QueryAnswer::At),
        }
    }

    /// Whether all records have the versions that are expected of them.
    pub(super) fn check(&self, puts: &[Put], now: u64) -> Result<(), StoreError> {
        let fits = |put: &Put| match self.by_key.get(&put.key) {
            Some(kept) => put.expect == kept.version || (put.expect == 0 && kept.expires_ms <= now),
            None => true,
        };
        if puts.iter().all(fits) { Ok(()) } else { Err(StoreError::Conflict) }
    }

    /// Writes a record, and drops what its owner has too many of.
    pub(super) fn put(&mut self, put: Put, item: Option<ItemPlace>, limits: &Limits, now: u64) {
        let version = self.by_key.get(&put.key).map_or(put.expect, |kept| kept.version) + 1;
        self.remove(put.key);
        self.puts += 1;
        let of = (put.key.kind, put.owner);
        let tally = self.owners.entry(of).or_default();
        tally.records += 1;
        tally.bytes += put.body.len() as u64;
        self.idle.insert((of.0, of.1, self.puts, put.key.hash));
        let expires_ms = now.saturating_add(millis(put.ttl));
        let kept = Kept { owner: put.owner, version, body: put.body, item, put: self.puts, expires_ms };
        self.by_key.insert(put.key, kept);
        let cap = limits.cap(of.0);
        while self.owners.get(&of).is_some_and(|tally| tally.records > cap.records || tally.bytes > cap.bytes)
            && let Some(idle) = self.idle.range((of.0, of.1, 0, Hash::default())..).next().copied()
        {
            self.remove(RecordKey { kind: idle.0, hash: idle.3 });
        }
    }

    /// Looks at the next few records, round and round.
    pub(super) fn sweep(&mut self, now: u64) {
        let next = self.by_key.range((self.swept.map_or(Unbounded, Excluded), Unbounded)).take(SWEEP_STEP);
        let next: Vec<_> = next.map(|(key, kept)| (*key, kept.expires_ms <= now)).collect();
        self.swept = next.last().filter(|_| next.len() == SWEEP_STEP).map(|last| last.0);
        for (key, _) in next.into_iter().filter(|(_, expired)| *expired) {
            self.remove(key);
        }
    }

    fn remove(&mut self, key: RecordKey) {
        let Some(kept) = self.by_key.remove(&key) else { return };
        let of = (key.kind, kept.owner);
        self.idle.remove(&(of.0, of.1, kept.put, key.hash));
        if let Some(tally) = self.owners.get_mut(&of) {
            tally.records -= 1;
            tally.bytes -= kept.body.len() as u64;
            if tally.records == 0 {
                self.owners.remove(&of);
            }
        }
    }
}

#[derive(Default)]
pub(super) struct Leases {
    leases: HashMap<LeaseKey, Held>,
    /// How many were left when they were last looked through.
    swept: usize,
}

struct Held {
    holder: Hash,
    note: Hash,
    until_ms: u64,
}

impl Leases {
    /// Takes a lease, or returns the note of who holds it.
    pub(super) fn acquire(&mut self, lease: Lease, note: Hash, now: u64) -> Option<Hash> {
        if let Some(held) = self.leases.get(&lease.key).filter(|held| held.until_ms > now) {
            return Some(held.note);
        }
        if self.leases.len() > 2 * self.swept + LEASES_UNSWEPT {
            self.leases.retain(|_, held| held.until_ms > now);
            self.swept = self.leases.len();
        }
        self.leases.insert(lease.key, Held { holder: lease.holder, note, until_ms: now + millis(LEASE_TERM) });
        None
    }

    /// Holds on for another term; false if the lease was lost.
    pub(super) fn renew(&mut self, lease: Lease, now: u64) -> bool {
        let held = self.leases.get_mut(&lease.key).filter(|held| held.holder == lease.holder);
        held.map(|held| held.until_ms = now + millis(LEASE_TERM)).is_some()
    }

    /// Lets go of a lease, if it is still held.
    pub(super) fn release(&mut self, lease: Lease) {
        if self.leases.get(&lease.key).is_some_and(|held| held.holder == lease.holder) {
            self.leases.remove(&lease.key);
        }
    }
}
