//! `Memory`: everything in this process, nothing of which outlives it. For trials, tests and agents that may forget.

mod feeds;
mod rates;
mod records;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;

use super::StoreError;
use super::clock::Clock;
use super::engine::{Bounds, Change, Committed, Engine, EnginePage, PageRead, QueryAnswer, Record, RecordKey};
use super::health::Health;
use super::keys::{Hash, RateKey};
use super::lease::Lease;
use super::rate::{Allowance, Rate};
use feeds::Feeds;
use rates::Rates;
use records::{Leases, Records};

/// The engine.
pub struct Memory {
    /// `None` once it is closed.
    kept: Mutex<Option<Kept>>,
    bounds: Arc<Bounds>,
    clock: Arc<dyn Clock>,
}

#[derive(Default)]
struct Kept {
    feeds: Feeds,
    records: Records,
    leases: Leases,
    rates: Rates,
}

impl Memory {
    /// An empty one.
    pub fn new(bounds: Arc<Bounds>, clock: Arc<dyn Clock>) -> Self {
        Self { kept: Mutex::new(Some(Kept::default())), bounds, clock }
    }

    fn with<T>(&self, act: impl FnOnce(&mut Kept, u64) -> Result<T, StoreError>) -> Result<T, StoreError> {
        // After a panic in here the state is still the best there is.
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = kept.as_mut().ok_or(StoreError::Unavailable("it is closed"))?;
        act(kept, self.clock.unix_ms())
    }
}

#[async_trait]
impl Engine for Memory {
    async fn commit(&self, change: Change) -> Result<Committed, StoreError> {
        self.with(|kept, now| {
            kept.records.check(&change.puts, now)?;
            let item = change.feed.map(|change| kept.feeds.change(change, &self.bounds, now)).transpose()?.flatten();
            for put in change.puts {
                kept.records.put(put, item, &self.bounds.limits, now);
            }
            for lease in change.releases {
                kept.leases.release(lease);
            }
            kept.feeds.sweep(&self.bounds, now);
            kept.records.sweep(now);
            Ok(Committed { timestamp: item.map(|item| item.timestamp) })
        })
    }

    async fn page(&self, read: PageRead) -> Result<EnginePage, StoreError> {
        self.with(|kept, _| {
            let answer = |query| kept.records.answer(query, read.feed.agent);
            kept.feeds.page(&read, read.query.map_or(QueryAnswer::Unknown, answer))
        })
    }

    async fn record(&self, key: RecordKey) -> Result<Option<Record>, StoreError> {
        self.with(|kept, now| Ok(kept.records.get(key, now)))
    }

    async fn acquire(&self, lease: Lease, note: Hash) -> Result<Option<Hash>, StoreError> {
        self.with(|kept, now| Ok(kept.leases.acquire(lease, note, now)))
    }

    async fn renew(&self, lease: Lease) -> Result<bool, StoreError> {
        self.with(|kept, now| Ok(kept.leases.renew(lease, now)))
    }

    async fn release(&self, lease: Lease) -> Result<(), StoreError> {
        self.with(|kept, _| {
            kept.leases.release(lease);
            Ok(())
        })
    }

    async fn spend(&self, key: RateKey, rate: Rate) -> Result<Allowance, StoreError> {
        self.with(|kept, now| Ok(kept.rates.spend(key, rate, self.bounds.limits.rates, now)))
    }

    async fn health(&self) -> Health {
        let facts = self.with(|kept, now| Ok((kept.feeds.counts(), kept.feeds.newest().saturating_sub(now))));
        let ((feeds, bytes, removed), ahead) = facts.as_ref().copied().unwrap_or_default();
        Health {
            engine: "memory",
            promise: "an acknowledged item is lost when the process ends",
            readable: facts.is_ok(),
            writable: facts.is_ok(),
            problem: facts.err().map(|error| error.to_string()),
            clock_ahead: Duration::from_millis(ahead),
            feeds,
            bytes,
            removed: Some(removed),
        }
    }

    async fn close(&self) {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

fn millis(duration: Duration) -> u64 {
    duration.as_millis() as u64
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

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
