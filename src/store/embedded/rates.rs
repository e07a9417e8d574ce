//! Rate counters in SQL.

use rusqlite::{Connection, OptionalExtension as _, params};

use super::batch::Batch;
use super::fault::Fault;
use crate::store::keys::RateKey;
use crate::store::rate::{Allowance, Bucket, Rate};

impl Batch<'_> {
    /// Counts one if the rate allows it.
    pub(super) fn spend(&mut self, key: RateKey, rate: Rate) -> Result<Allowance, Fault> {
        let kept = self
            .connection
            .prepare_cached("SELECT used, at_ms FROM rate WHERE key = ?1")?
            .query_row([key.0], |row| Ok(Bucket { used: row.get(0)?, at_ms: row.get(1)? }))
            .optional()?;
        let mut bucket = kept.unwrap_or_default();
        let allowance = bucket.spend(rate, self.now);
        self.connection
            .prepare_cached("INSERT OR REPLACE INTO rate(key, used, at_ms, full_ms) VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![key.0, bucket.used, bucket.at_ms, bucket.full_ms(rate)])?;
        if kept.is_none() {
            self.keep_to_limit()?;
        }
        Ok(allowance)
    }

    /// Forgets the counter that is nearest to be full if there are too many.
    fn keep_to_limit(&mut self) -> Result<(), Fault> {
        let rates = match self.upkeep.rates {
            Some(rates) => rates + 1,
            None => self.connection.query_row("SELECT count(*) FROM rate", [], |row| row.get(0))?,
        };
        let excess = rates.saturating_sub(self.bounds.limits.rates);
        let forgotten = self
            .connection
            .prepare_cached("DELETE FROM rate WHERE key IN (SELECT key FROM rate ORDER BY full_ms LIMIT ?1)")?
            .execute([excess])?;
        self.upkeep.rates = Some(rates - forgotten as u64);
        Ok(())
    }

    /// Forgets up to `limit` counters that are full again; returns how many there were.
    pub(super) fn drop_full(&mut self, limit: usize) -> Result<usize, Fault> {
        // Another process may count too, so they are counted again now and then.
        self.upkeep.rates = None;
        Ok(self
            .connection
            .prepare_cached("DELETE FROM rate WHERE key IN (SELECT key FROM rate WHERE full_ms <= ?1 LIMIT ?2)")?
            .execute(params![self.now, limit])?)
    }
}

/// Whether a counter is full again.
pub(super) fn any_full(connection: &Connection, now: u64) -> Result<bool, Fault> {
    Ok(connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM rate WHERE full_ms <= ?1)")?
        .query_row([now], |row| row.get(0))?)
}
