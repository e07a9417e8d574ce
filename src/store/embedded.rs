//! `Embedded`: SQLite in a directory of ours. What it acknowledges is on the disk.
//!
//! One thread writes: it takes all changes that wait, makes them one transaction and answers when the disk has it, so
//! that a flush serves many. A few threads read, each in a snapshot of its own, beside the writer. The database is in
//! WAL mode with `synchronous = FULL`; leases and rate counters alone are not flushed, since a power loss ends what
//! they hold apart.
//! Two processes may have the store open, each with such threads: SQLite puts their transactions in one order.

mod batch;
mod checksum;
mod database;
mod fault;
mod feeds;
mod inspect;
mod pages;
mod place;
mod queue;
mod rates;
mod readers;
mod records;
mod retention;
mod status;
mod sweep;
mod worker;
mod writer;

use std::fs::File;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::Connection;

use super::clock::Clock;
use super::engine::{Bounds, Change, Committed, Engine, EnginePage, PageRead, Record, RecordKey};
use super::health::Health;
use super::keys::{Hash, Keys, RateKey};
use super::lease::Lease;
use super::rate::{Allowance, Rate};
use super::{OpenError, StoreError};
use crate::yaml::Secret;
pub use inspect::{InspectError, backup, check};
pub use place::{DATABASE, KEY};

use batch::Outcome;
use database::{Role, Unusable};
use place::Place;
use readers::Readers;
use status::Status;
use worker::Worker;
use writer::Writer;

/// The engine.
pub struct Embedded {
    writer: Writer,
    readers: Arc<Readers>,
    status: Arc<Status>,
    clock: Arc<dyn Clock>,
    /// Held until the last thread that needs it has ended.
    place: Mutex<Option<Arc<Place>>>,
}

/// A directory that was taken, before its database is opened.
#[derive(Debug)]
pub struct Taken {
    place: Place,
    keys: Keys,
    /// Until it is opened or given up nobody else opens it.
    _lock: File,
}

impl Taken {
    /// Takes a directory: made if it is not there, refused where a store can't be safe, or if two processes have it.
    /// `key` is the one of gateway.yaml; without it the one beside the data counts, which a new store gets now.
    pub fn take(path: &Path, key: Option<&Secret>) -> Result<Self, OpenError> {
        let place = Place::take(path)?;
        let lock = place.lock()?;
        Ok(Self { keys: place.keys(key)?, place, _lock: lock })
    }

    /// The store's key.
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Opens the database, which was made with the same key or is made now.
    pub fn open(self, bounds: Arc<Bounds>, clock: Arc<dyn Clock>) -> Result<Embedded, OpenError> {
        let connection = self.connect()?;
        self.start(connection, bounds, clock)
    }

    fn connect(&self) -> Result<Connection, OpenError> {
        let path = self.place.prepare_database()?;
        let connect = || {
            let mut connection = database::connect(&path, Role::Writer)?;
            database::migrate(&mut connection, &self.keys)?;
            Ok(connection)
        };
        let mut connected = connect();
        if connected.as_ref().is_err_and(Unusable::for_want_of_room) {
            // A store on a full disk can still be read.
            self.place.give_reserve();
            connected = connect();
        }
        connected.map_err(|source: Unusable| OpenError::Database { problem: source.to_string(), path: path.clone() })
    }

    fn start(self, connection: Connection, bounds: Arc<Bounds>, clock: Arc<dyn Clock>) -> Result<Embedded, OpenError> {
        let path = self.place.database();
        let refused = |source| OpenError::directory(&path, source);
        self.place.take_reserve().map_err(refused)?;
        let (place, status) = (Arc::new(self.place), Arc::<Status>::default());
        let bytes = database::item_bytes(&connection).unwrap_or_default();
        status.record(Outcome { bytes, newest: 0, removed: 0 });
        let readers = Arc::new(Readers::start(&path).map_err(refused)?);
        let worker = Worker::new(connection, place.clone(), readers.clone(), bounds, clock.clone(), status.clone());
        let writer = Writer::start(worker).map_err(refused)?;
        Ok(Embedded { writer, readers, status, clock, place: Mutex::new(Some(place)) })
    }
}

#[async_trait]
impl Engine for Embedded {
    async fn commit(&self, change: Change) -> Result<Committed, StoreError> {
        let item = change.feed.as_ref().and_then(|change| change.item.as_ref()).map_or(0, |item| item.json.len());
        let bytes = item + change.puts.iter().map(|put| put.body.len()).sum::<usize>();
        self.writer.write(bytes, true, move |batch| batch.apply(&change)).await
    }

    async fn page(&self, read: PageRead) -> Result<EnginePage, StoreError> {
        self.readers.read(move |connection| pages::page(connection, &read)).await
    }

    async fn record(&self, key: RecordKey) -> Result<Option<Record>, StoreError> {
        let now = self.clock.unix_ms();
        self.readers.read(move |connection| records::record(connection, key, now)).await
    }

    async fn acquire(&self, lease: Lease, note: Hash) -> Result<Option<Hash>, StoreError> {
        self.writer.write(0, false, move |batch| Ok(batch.acquire(lease, note)?)).await
    }

    async fn renew(&self, lease: Lease) -> Result<bool, StoreError> {
        self.writer.write(0, false, move |batch| Ok(batch.renew(lease)?)).await
    }

    async fn release(&self, lease: Lease) -> Result<(), StoreError> {
        self.writer.write(0, false, move |batch| Ok(batch.release(lease)?)).await
    }

    async fn spend(&self, key: RateKey, rate: Rate) -> Result<Allowance, StoreError> {
        self.writer.write(0, false, move |batch| Ok(batch.spend(key, rate)?)).await
    }

    async fn health(&self) -> Health {
        let readable = self.readers.read(|connection| Ok(database::feeds(connection)?)).await;
        let problem = self.status.problem();
        Health {
            engine: "embedded",
            promise: "an acknowledged item survives a killed process and a power loss",
            writable: readable.is_ok() && problem.is_none(),
            problem: problem.or_else(|| readable.as_ref().err().map(ToString::to_string)),
            readable: readable.is_ok(),
            clock_ahead: Duration::from_millis(self.status.newest().saturating_sub(self.clock.unix_ms())),
            feeds: readable.unwrap_or_default(),
            bytes: self.status.bytes(),
            removed: Some(self.status.removed()),
        }
    }

    async fn close(&self) {
        // The last connection to close leaves a database without a log.
        self.readers.close().await;
        self.writer.close().await;
        self.place.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

#[cfg(test)]
mod tests;
