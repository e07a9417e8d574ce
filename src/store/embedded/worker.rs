//! `Worker`: the thread that writes. It takes what waits, makes it one transaction, and answers after the disk has.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use rusqlite::wal::CheckpointMode;
use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::batch::{Batch, Upkeep};
use super::database::{self, Role};
use super::fault::{Fault, FaultKind};
use super::place::Place;
use super::readers::Readers;
use super::status::Status;
use super::sweep::Sweep;
use super::writer::Job;
use crate::store::StoreError;
use crate::store::clock::Clock;
use crate::store::engine::Bounds;

/// Changes of one transaction, and their bytes.
const BATCH: usize = 256;
const BATCH_BYTES: usize = 1 << 20;

/// How often the writer looks for what is out of date.
const TICK: Duration = Duration::from_secs(1);

/// How long retention may work to make room on a full disk.
const RELIEF: Duration = Duration::from_millis(200);

/// Pages free within the database that are worth a try: a batch of small changes fits.
const ROOM_PAGES: usize = 64;

/// Pages that are given back to the disk in one tick.
const SHRINK_PAGES: usize = 256;

/// After a second fault in a row the disk is left alone for a second, then for twice as long each time up to this.
const PAUSE_MAX: Duration = Duration::from_secs(32);

/// Bytes of log from which it is moved into the database: under load, and when nothing else is done.
const LOG_BYTES: usize = 4 << 20;
const LOG_BYTES_IDLE: usize = 64 << 10;

/// Bytes of log that a changed row makes: a page, since neighbours seldom change together.
const LOG_BYTES_CHANGE: usize = 4096;

/// What the thread has.
pub(super) struct Worker {
    place: Arc<Place>,
    readers: Arc<Readers>,
    bounds: Arc<Bounds>,
    clock: Arc<dyn Clock>,
    status: Arc<Status>,
    /// `None` after a fault, until the database is opened again.
    connection: Option<Connection>,
    /// The file that was opened.
    file: Option<(u64, u64)>,
    upkeep: Upkeep,
    sweep: Sweep,
    /// Faults of the disk in a row.
    faults: u32,
    /// Until when changes are refused without a try, and how.
    paused: Option<(Instant, StoreError)>,
    /// The disk was full and the reserve is not back: changes may use what is free within the database, and leave
    /// what is free on the disk to the log and to retention.
    cramped: bool,
    /// Bytes of log since it was moved, estimated.
    log_bytes: usize,
    log_to_empty: bool,
}

impl Worker {
    pub(super) fn new(
        connection: Connection,
        place: Arc<Place>,
        readers: Arc<Readers>,
        bounds: Arc<Bounds>,
        clock: Arc<dyn Clock>,
        status: Arc<Status>,
    ) -> Self {
        Self {
            file: place.database_file(),
            place,
            readers,
            bounds,
            clock,
            status,
            connection: Some(connection),
            upkeep: Upkeep::default(),
            sweep: Sweep::default(),
            faults: 0,
            paused: None,
            cramped: false,
            log_bytes: 0,
            log_to_empty: false,
        }
    }

    /// Works until nobody can send any more.
    pub(super) fn work(mut self, jobs: &Receiver<Box<dyn Job>>, waiting_bytes: &AtomicUsize) {
        let mut tick = Instant::now() + TICK;
        loop {
            let wait = if self.sweep.is_pending() { Duration::ZERO } else { tick - Instant::now().min(tick) };
            let idle = match jobs.recv_timeout(wait) {
                Ok(first) => {
                    let batch = fill(first, jobs, waiting_bytes);
                    self.settle(batch);
                    false
                }
                Err(RecvTimeoutError::Timeout) => true,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            if idle || Instant::now() >= tick {
                self.keep_up(idle);
                tick = Instant::now() + TICK;
            }
            self.move_log(idle);
        }
    }

    fn settle(&mut self, mut batch: Vec<Box<dyn Job>>) {
        self.log_bytes += batch.iter().map(|job| job.bytes()).sum::<usize>();
        let committed = self.commit(&mut batch);
        for job in batch {
            job.settle(committed.clone());
        }
    }

    fn commit(&mut self, jobs: &mut [Box<dyn Job>]) -> Result<(), StoreError> {
        if let Some((until, error)) = &self.paused
            && Instant::now() < *until
        {
            return Err(error.clone());
        }
        if self.cramped && !self.has_room() {
            return Err(StoreError::Full);
        }
        let durable = jobs.iter().any(|job| job.durable());
        let mut run = |batch: &mut Batch<'_>| {
            jobs.iter_mut().try_for_each(|job| job.run(batch))?;
            // Twice as many as came, so that what waits to be removed becomes less.
            batch.remove(2 * batch.appended).map(drop)
        };
        let mut outcome = self.transact(durable, &mut run);
        if outcome.as_ref().is_err_and(|fault| fault.kind == FaultKind::Full) && !self.cramped && self.relieve() {
            outcome = self.transact(durable, &mut run);
        }
        outcome.map_err(|fault| self.note(&fault))
    }

    /// One transaction: all that `act` does, or nothing. One that need not be durable is not synced by itself, but
    /// with the next one that is: a flush is most of what a transaction costs.
    fn transact(
        &mut self,
        durable: bool,
        mut act: impl FnMut(&mut Batch<'_>) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        self.with_connection(|worker, connection| {
            connection.execute_batch(synchronous(durable))?;
            let changes = connection.total_changes();
            let transaction = Transaction::new(connection, TransactionBehavior::Immediate)?;
            let now = worker.clock.unix_ms();
            let mut batch = Batch::new(&transaction, &worker.bounds, &mut worker.upkeep, now)?;
            act(&mut batch)?;
            let outcome = batch.finish()?;
            transaction.commit()?;
            worker.log_bytes += LOG_BYTES_CHANGE * (connection.total_changes() - changes) as usize;
            worker.status.record(outcome);
            (worker.faults, worker.paused) = (0, None);
            Ok(())
        })
    }

    /// After a fault of the disk the database is opened again. What the kernel failed to write once it may report as
    /// written the next time, so nothing is added to the old log: it is moved into the database as a whole, and a
    /// new one begins. Nothing is written to a file that is deleted or moved away: it would end with this process.
    fn with_connection<T>(
        &mut self,
        act: impl FnOnce(&mut Self, &mut Connection) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        if self.place.database_file() != self.file {
            return Err(Fault::moved());
        }
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => database::connect(&self.place.database(), Role::Writer)
                .and_then(|connection| begin_log(&connection).map(|()| connection))?,
        };
        let result = act(self, &mut connection);
        self.connection = Some(connection);
        result
    }

    /// Takes note of a fault, and says what callers get.
    fn note(&mut self, fault: &Fault) -> StoreError {
        let error = fault.to_error();
        // What was remembered may come from the transaction that failed.
        (self.upkeep, self.sweep) = Default::default();
        match fault.kind {
            FaultKind::Busy => return error,
            FaultKind::Full => self.cramped = true,
            FaultKind::Damaged | FaultKind::Disk => {
                self.connection = None;
                self.faults += 1;
                if self.faults > 1 {
                    let pause = Duration::from_secs(1 << (self.faults - 2).min(5)).min(PAUSE_MAX);
                    self.paused = Some((Instant::now() + pause, error.clone()));
                }
            }
        }
        self.status.fail(fault);
        error
    }

    /// Makes room on a full disk: with the reserve given up the log fits into the database, and retention has room to
    /// work in. True if changes can be made again.
    fn relieve(&mut self) -> bool {
        self.cramped = true;
        self.place.give_reserve();
        let begun = Instant::now();
        let mut relieved =
            self.with_connection(|_, connection| begin_log(connection)).and_then(|()| self.sweep_slice());
        while relieved.is_ok() && self.sweep.is_pending() && begun.elapsed() < RELIEF {
            relieved = self.sweep_slice();
        }
        self.cramped = !self.place.take_reserve().unwrap_or(false);
        match relieved {
            Ok(()) => !self.cramped || self.has_room(),
            Err(fault) => {
                self.note(&fault);
                false
            }
        }
    }

    /// Whether changes fit into pages that are free within the database.
    fn has_room(&self) -> bool {
        let free = |connection: &Connection| connection.pragma_query_value(None, "freelist_count", |row| row.get(0));
        self.connection
            .as_ref()
            .is_some_and(|connection| free(connection).is_ok_and(|pages: usize| pages >= ROOM_PAGES))
    }

    /// Does a slice of what is always to be done.
    fn keep_up(&mut self, idle: bool) {
        if self.paused.as_ref().is_some_and(|(until, _)| Instant::now() < *until) {
            return;
        }
        let failed = self.status.has_failed();
        let kept = match (failed, self.cramped) {
            (_, true) if !self.relieve() => return,
            (true, _) => self.transact(true, probe),
            _ => Ok(()),
        };
        match kept.and_then(|()| self.sweep_slice()).and_then(|()| self.shrink(idle)) {
            Ok(()) if failed => self.status.recover(),
            Ok(()) => {}
            Err(fault) => drop(self.note(&fault)),
        }
    }

    /// Gives back to the disk what retention has freed, when nobody waits for that.
    fn shrink(&mut self, idle: bool) -> Result<(), Fault> {
        if !idle || self.sweep.is_pending() {
            return Ok(());
        }
        self.with_connection(|_, connection| database::shrink(connection, SHRINK_PAGES))
    }

    fn sweep_slice(&mut self) -> Result<(), Fault> {
        let now = self.clock.unix_ms();
        let due = self.with_connection(|worker, connection| {
            worker.sweep.look(connection, &worker.bounds, &mut worker.upkeep, now)
        })?;
        self.status.record_newest(due.newest);
        if due.is_empty() {
            return Ok(());
        }
        let mut sweep = std::mem::take(&mut self.sweep);
        let swept = self.transact(false, |batch| sweep.clear(batch, &due));
        self.sweep = sweep;
        swept
    }

    /// Has a reader move the log into the database, which holds up neither writing nor reading. A log that is moved
    /// is emptied when nobody uses it, so that there is little to go through when the store is opened next time.
    fn move_log(&mut self, idle: bool) {
        if let Some(fault) = self.readers.log_fault() {
            self.note(&fault);
        }
        if self.log_bytes >= if idle { LOG_BYTES_IDLE } else { LOG_BYTES } {
            if self.readers.move_log() {
                self.log_bytes = 0;
                self.log_to_empty = true;
            }
        } else if idle && self.log_to_empty && self.log_bytes == 0 {
            self.log_to_empty = !self.empty_log();
        }
    }

    fn empty_log(&self) -> bool {
        let Some(connection) = &self.connection else { return true };
        let at_once = connection.busy_timeout(Duration::ZERO);
        let emptied = connection.wal_checkpoint_v2(None::<&str>, CheckpointMode::TRUNCATE);
        let as_before = connection.busy_timeout(database::BUSY_TIMEOUT);
        at_once.is_ok() && emptied.is_ok() && as_before.is_ok()
    }
}

fn fill(first: Box<dyn Job>, jobs: &Receiver<Box<dyn Job>>, waiting_bytes: &AtomicUsize) -> Vec<Box<dyn Job>> {
    let mut bytes = first.bytes();
    let mut batch = vec![first];
    while batch.len() < BATCH
        && bytes < BATCH_BYTES
        && let Ok(job) = jobs.try_recv()
    {
        bytes += job.bytes();
        batch.push(job);
    }
    waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
    batch
}

/// Whether a transaction is synced by itself.
fn synchronous(durable: bool) -> &'static str {
    const NORMAL: &str = "PRAGMA synchronous = NORMAL";
    #[cfg(test)]
    if super::tests::syncs_nothing() {
        return NORMAL;
    }
    if durable { "PRAGMA synchronous = FULL" } else { NORMAL }
}

/// Moves the log into the database as a whole, so that a new one begins.
fn begin_log(connection: &Connection) -> Result<(), Fault> {
    connection.wal_checkpoint_v2(None::<&str>, CheckpointMode::RESTART)?;
    Ok(())
}

/// Writes as much as a change may need, to learn whether that is possible again.
fn probe(batch: &mut Batch<'_>) -> Result<(), Fault> {
    batch.connection.execute("INSERT OR REPLACE INTO meta(name, value) VALUES ('probe', randomblob(65536))", [])?;
    batch.connection.execute("DELETE FROM meta WHERE name = 'probe'", [])?;
    Ok(())
}
