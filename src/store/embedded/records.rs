//! Records and leases in SQL.

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::batch::Batch;
use super::checksum;
use super::fault::{Failure, Fault};
use crate::store::StoreError;
use crate::store::engine::{ItemPlace, Put, Record, RecordKey};
use crate::store::keys::Hash;
use crate::store::lease::{LEASE_TERM, Lease};

/// Reads a record, also one whose time is over.
pub(super) fn record(connection: &Connection, key: RecordKey, now: u64) -> Result<Option<Record>, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT version, expires_ms, item_feed, item_timestamp, checksum, body FROM record
         WHERE hash = ?1 AND kind = ?2",
    )?;
    let mut rows = statement.query(params![key.hash, key.kind as u8])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let version = row.get(0)?;
    let body = row.get_ref(5)?.as_blob().map_err(rusqlite::Error::from)?;
    if row.get::<_, i64>(4)? != checksum::of_record(key, version, body) {
        return Err(StoreError::Corrupt("a record".into()).into());
    }
    let (feed, timestamp): (Option<Hash>, Option<u64>) = (row.get(2)?, row.get(3)?);
    Ok(Some(Record {
        version,
        body: Bytes::copy_from_slice(body),
        item: feed.zip(timestamp).map(|(feed, timestamp)| ItemPlace { feed, timestamp }),
        expired: row.get::<_, u64>(1)? <= now,
    }))
}

impl Batch<'_> {
    /// Whether all records have the versions that are expected of them.
    pub(super) fn check(&self, puts: &[Put]) -> Result<(), Failure> {
        for put in puts {
            let found = self
                .connection
                .prepare_cached("SELECT version, expires_ms FROM record WHERE hash = ?1 AND kind = ?2")?
                .query_row(params![put.key.hash, put.key.kind as u8], |row| Ok((row.get(0)?, row.get(1)?)))
                .optional()?;
            let fits = found.is_none_or(|(version, expires_ms): (u64, u64)| {
                version == put.expect || (put.expect == 0 && expires_ms <= self.now)
            });
            if !fits {
                return Err(StoreError::Conflict.into());
            }
        }
        Ok(())
    }

    /// Writes a record, and drops what its owner has too many of.
    pub(super) fn put(&mut self, put: &Put, item: Option<ItemPlace>) -> Result<(), Fault> {
        let (key, bytes) = (put.key, put.body.len() as u64);
        let old = self
            .connection
            .prepare_cached("SELECT id, version FROM record WHERE hash = ?1 AND kind = ?2")?
            .query_row(params![key.hash, key.kind as u8], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        if let Some((id, _)) = old {
            self.drop_record(id)?;
        }
        let version = old.map_or(put.expect, |(_, version): (u64, u64)| version) + 1;
        let owner: u64 = self
            .connection
            .prepare_cached(
                "INSERT INTO owner(kind, hash, records, bytes) VALUES (?1, ?2, 1, ?3)
                 ON CONFLICT DO UPDATE SET records = records + 1, bytes = bytes + ?3 RETURNING id",
            )?
            .query_row(params![key.kind as u8, put.owner, bytes], |row| row.get(0))?;
        self.connection
            .prepare_cached(
                "INSERT INTO record(kind, hash, owner, version, expires_ms, item_feed, item_timestamp, checksum, body)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            )?
            .execute(params![
                key.kind as u8,
                key.hash,
                owner,
                version,
                expiry(self.now, put.ttl.as_millis()),
                item.map(|item| item.feed),
                item.map(|item| item.timestamp),
                checksum::of_record(key, version, &put.body),
                &put.body[..],
            ])?;
        self.keep_to_cap(put, owner)
    }

    fn keep_to_cap(&mut self, put: &Put, owner: u64) -> Result<(), Fault> {
        let cap = self.bounds.limits.cap(put.key.kind);
        loop {
            let counted = self
                .connection
                .prepare_cached("SELECT records, bytes FROM owner WHERE id = ?1")?
                .query_row([owner], |row| Ok((row.get(0)?, row.get(1)?)))
                .optional()?;
            if counted.is_none_or(|(records, bytes): (u64, u64)| records <= cap.records && bytes <= cap.bytes) {
                return Ok(());
            }
            let oldest = self
                .connection
                .prepare_cached("SELECT id FROM record WHERE owner = ?1 ORDER BY id LIMIT 1")?
                .query_row([owner], |row| row.get(0))?;
            self.drop_record(oldest)?;
        }
    }

    fn drop_record(&self, id: u64) -> Result<(), Fault> {
        let (owner, bytes): (u64, u64) = self
            .connection
            .prepare_cached("DELETE FROM record WHERE id = ?1 RETURNING owner, length(body)")?
            .query_row([id], |row| Ok((row.get(0)?, row.get(1)?)))?;
        self.connection
            .prepare_cached("UPDATE owner SET records = records - 1, bytes = bytes - ?2 WHERE id = ?1")?
            .execute(params![owner, bytes])?;
        self.connection.prepare_cached("DELETE FROM owner WHERE id = ?1 AND records = 0")?.execute([owner])?;
        Ok(())
    }

    /// Drops up to `limit` records and leases whose time is over; returns how many there were.
    pub(super) fn drop_expired(&mut self, limit: usize) -> Result<usize, Fault> {
        let expired = expired_records(self.connection, self.now, limit)?;
        for id in &expired {
            self.drop_record(*id)?;
        }
        let leases = self
            .connection
            .prepare_cached("DELETE FROM lease WHERE key IN (SELECT key FROM lease WHERE until_ms < ?1 LIMIT ?2)")?
            .execute(params![self.now, limit])?;
        Ok(expired.len() + leases)
    }

    /// Takes a lease, or returns the note of who holds it.
    pub(super) fn acquire(&self, lease: Lease, note: Hash) -> Result<Option<Hash>, Fault> {
        let held = self
            .connection
            .prepare_cached("SELECT note FROM lease WHERE key = ?1 AND until_ms > ?2")?
            .query_row(params![lease.key.0, self.now], |row| row.get(0))
            .optional()?;
        if held.is_none() {
            self.connection
                .prepare_cached("INSERT OR REPLACE INTO lease(key, holder, note, until_ms) VALUES (?1, ?2, ?3, ?4)")?
                .execute(params![lease.key.0, lease.holder, note, self.lease_end()])?;
        }
        Ok(held)
    }

    /// Holds on for another term; false if the lease was lost.
    pub(super) fn renew(&self, lease: Lease) -> Result<bool, Fault> {
        let renewed = self
            .connection
            .prepare_cached("UPDATE lease SET until_ms = ?3 WHERE key = ?1 AND holder = ?2")?
            .execute(params![lease.key.0, lease.holder, self.lease_end()])?;
        Ok(renewed > 0)
    }

    /// Lets go of a lease, if it is still held.
    pub(super) fn release(&self, lease: Lease) -> Result<(), Fault> {
        self.connection
            .prepare_cached("DELETE FROM lease WHERE key = ?1 AND holder = ?2")?
            .execute(params![lease.key.0, lease.holder])?;
        Ok(())
    }

    fn lease_end(&self) -> u64 {
        expiry(self.now, LEASE_TERM.as_millis())
    }
}

/// Whether there is anything whose time is over.
pub(super) fn anything_expired(connection: &Connection, now: u64) -> Result<bool, Fault> {
    let lease = connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM lease WHERE until_ms < ?1)")?
        .query_row([now], |row| row.get::<_, bool>(0))?;
    Ok(lease || !expired_records(connection, now, 1)?.is_empty())
}

fn expired_records(connection: &Connection, now: u64, limit: usize) -> Result<Vec<u64>, Fault> {
    let mut statement = connection.prepare_cached("SELECT id FROM record WHERE expires_ms <= ?1 LIMIT ?2")?;
    let ids = statement.query_map(params![now, limit], |row| row.get(0))?;
    Ok(ids.collect::<Result<_, _>>()?)
}

/// SQLite's integers end at 2^63 - 1.
fn expiry(now: u64, ttl: u128) -> u64 {
    u128::from(now).saturating_add(ttl).min(i64::MAX as u128) as u64
}
