//! `Postgres`: a PostgreSQL server that several gateways share.
//!
//! What a change does is one function of the database (`schema.sql`), called by one statement that is its own
//! transaction: nothing is ever held open between two messages, so neither a caller that leaves nor a gateway that dies
//! leaves anything behind. Changes that wait are sent together, as one call. Times are those of the server's clock, read
//! after the rows are locked, so that gateways with different clocks agree.

mod commit;
mod line;
mod listen;
mod read;
mod schema;
mod target;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::task::JoinHandle;
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use super::clock::Clock;
use super::engine::{Bounds, Change, Committed, Engine, EnginePage, PageRead, Record, RecordKey};
use super::feed::Arrivals;
use super::health::Health;
use super::keys::{Hash, Keys, RateKey};
use super::lease::{LEASE_TERM, Lease};
use super::rate::{Allowance, Rate};
use super::settings::{Retention, Server, SharedKey};
use super::shared::{CLOSED, Host, Problem, SWEEP_EVERY, SWEEP_SLICE, SharedKeys, Status, named};
use super::{OpenError, StoreError};

use commit::Writers;
use line::Line;
use target::Target;

pub(super) use target::is_url;

/// Connections that carry changes, and those that carry everything else. One more listens.
const WRITERS: usize = 2;
const READERS: usize = 4;

/// How often a transaction that met another one is made again.
const COLLISIONS: usize = 4;

const AWAY: StoreError = StoreError::Unavailable("PostgreSQL can't be reached");

/// The engine.
pub struct Postgres {
    host: Host,
    shared: Arc<Shared>,
    writers: Writers,
    /// What runs until it is closed.
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

/// What all connections know.
struct Shared {
    target: Target,
    keys: SharedKeys,
    bounds: Arc<Bounds>,
    /// Instead of the server's.
    clock: Option<Arc<dyn Clock>>,
    arrivals: Arc<Arrivals>,
    status: Status,
    writing: Vec<Line>,
    reading: Vec<Line>,
    next: AtomicUsize,
}

/// A parameter of a statement and its type: no statement has to be prepared.
type Param<'a> = (&'a (dyn ToSql + Sync), Type);

impl Postgres {
    /// Connects, or goes on trying if the server is away. An error is what only the operator can change.
    pub(super) fn open(
        server: &Server,
        key: &SharedKey,
        bounds: Arc<Bounds>,
        clock: Option<Arc<dyn Clock>>,
        arrivals: Arc<Arrivals>,
    ) -> Result<(Self, Keys), OpenError> {
        let lines = |count| (0..count).map(|_| Line::default()).collect();
        let shared = Arc::new(Shared {
            target: Target::new(server)?,
            keys: SharedKeys::read(key)?,
            bounds,
            clock,
            arrivals,
            status: Status::new(),
            writing: lines(WRITERS),
            reading: lines(READERS),
            next: AtomicUsize::new(0),
        });
        let host = Host::start("store-postgres").map_err(OpenError::Thread)?;
        let mut tasks: Vec<_> =
            (0..WRITERS + READERS).map(|line| host.spawn(line::keep(shared.clone(), line))).collect();
        super::shared::first_answer(&host, &shared.status, "postgres")?;
        tasks.push(host.spawn(listen::listen(shared.clone())));
        tasks.push(host.spawn(sweep(shared.clone())));
        let writers = Writers::start(&host, &shared);
        let names = shared.keys.names.clone();
        Ok((Self { host, shared, writers, tasks: Mutex::new(tasks) }, names))
    }
}

impl Shared {
    fn given(&self) -> Option<i64> {
        self.clock.as_ref().map(|clock| int(clock.unix_ms()))
    }

    /// Runs a statement on one of the connections that read.
    async fn ask(&self, statement: &str, params: &[Param<'_>]) -> Result<Vec<Row>, StoreError> {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        let connected = |at: usize| self.reading.get((turn + at) % READERS).filter(|line| line.client().is_some());
        let line = (0..READERS).find_map(connected).ok_or(AWAY)?;
        line.ask(statement, params).await
    }

    /// Runs a statement that changes things on a writer's connection, failing that on another writer's. Transactions that
    /// met another one are made again.
    async fn write(&self, writer: usize, statement: &str, params: &[Param<'_>]) -> Result<Vec<Row>, StoreError> {
        let connected = |at: usize| self.writing.get((writer + at) % WRITERS).filter(|line| line.client().is_some());
        let line = (0..WRITERS).find_map(connected).ok_or(AWAY)?;
        for _ in 0..COLLISIONS {
            match line.ask(statement, params).await {
                Err(line::BUSY) => {}
                done => return done,
            }
        }
        Err(line::BUSY)
    }

    /// Whether there is a connection of either kind.
    fn is_connected(&self) -> bool {
        [&self.writing, &self.reading].into_iter().all(|lines| lines.iter().any(|line| line.client().is_some()))
    }

    /// Takes note of a new connection.
    fn connected(&self) {
        if self.is_connected() {
            self.status.recover();
        }
    }

    /// Takes note of a connection that was lost or could not be made.
    fn lost(&self, problem: Problem) {
        if !self.is_connected() {
            self.status.fail(problem);
        }
    }

    fn line(&self, number: usize) -> Option<&Line> {
        self.writing.iter().chain(&self.reading).nth(number)
    }
}

#[async_trait]
impl Engine for Postgres {
    async fn commit(&self, change: Change) -> Result<Committed, StoreError> {
        named(change.feed.iter().map(|change| change.feed.hash).chain(change.puts.iter().map(|put| put.key.hash)))?;
        self.writers.commit(change).await
    }

    async fn page(&self, read: PageRead) -> Result<EnginePage, StoreError> {
        named([read.feed.hash])?;
        let shared = self.shared.clone();
        self.host.run(async move { read::page(&shared, &read).await }).await
    }

    async fn record(&self, key: RecordKey) -> Result<Option<Record>, StoreError> {
        named([key.hash])?;
        let shared = self.shared.clone();
        self.host.run(async move { read::record(&shared, key).await }).await
    }

    async fn acquire(&self, lease: Lease, note: Hash) -> Result<Option<Hash>, StoreError> {
        named([lease.key.0])?;
        let shared = self.shared.clone();
        let asked = async move {
            let (given, term) = (shared.given(), LEASE_TERM.as_millis() as i64);
            let params: [Param<'_>; 5] = [
                (&given, Type::INT8),
                (&lease.key.0.as_slice(), Type::BYTEA),
                (&lease.holder.as_slice(), Type::BYTEA),
                (&note.as_slice(), Type::BYTEA),
                (&term, Type::INT8),
            ];
            let rows = shared.ask("SELECT restap.acquire($1, $2, $3, $4, $5)", &params).await?;
            let held: Option<&[u8]> = value(&rows)?;
            held.map(hash).transpose()
        };
        self.host.run(asked).await
    }

    async fn renew(&self, lease: Lease) -> Result<bool, StoreError> {
        let shared = self.shared.clone();
        let asked = async move {
            let (given, term) = (shared.given(), LEASE_TERM.as_millis() as i64);
            let params: [Param<'_>; 4] = [
                (&given, Type::INT8),
                (&lease.key.0.as_slice(), Type::BYTEA),
                (&lease.holder.as_slice(), Type::BYTEA),
                (&term, Type::INT8),
            ];
            value(&shared.ask("SELECT restap.renew($1, $2, $3, $4)", &params).await?)
        };
        self.host.run(asked).await
    }

    async fn release(&self, lease: Lease) -> Result<(), StoreError> {
        let shared = self.shared.clone();
        let asked = async move {
            let params: [Param<'_>; 2] =
                [(&lease.key.0.as_slice(), Type::BYTEA), (&lease.holder.as_slice(), Type::BYTEA)];
            shared.ask("SELECT restap.release($1, $2)", &params).await.map(drop)
        };
        self.host.run(asked).await
    }

    async fn spend(&self, key: RateKey, rate: Rate) -> Result<Allowance, StoreError> {
        named([key.0])?;
        let shared = self.shared.clone();
        let asked = async move {
            let (given, keep) = (shared.given(), int(shared.bounds.limits.rates));
            let (count, period) = (int(rate.count()), int(rate.period_ms()));
            let params: [Param<'_>; 5] = [
                (&given, Type::INT8),
                (&key.0.as_slice(), Type::BYTEA),
                (&count, Type::INT8),
                (&period, Type::INT8),
                (&keep, Type::INT8),
            ];
            let rows = shared.ask("SELECT allowed, now_used FROM restap.spend($1, $2, $3, $4, $5)", &params).await?;
            let row = rows.first().ok_or_else(unreadable)?;
            Ok(rate.allowance(column(row, 0)?, column::<i64>(row, 1)? as u64))
        };
        self.host.run(asked).await
    }

    async fn health(&self) -> Health {
        let shared = self.shared.clone();
        let asked = self.host.spawn(async move { read::facts(&shared).await });
        let facts = match tokio::time::timeout(Duration::from_secs(1), asked).await {
            Ok(facts) => facts.unwrap_or(Err(CLOSED)),
            Err(_) => Err(StoreError::Unavailable("PostgreSQL is too slow")),
        };
        let promise = "an acknowledged item survives a killed server and its power loss, and a fail-over where \
             synchronous_standby_names is set";
        self.shared.status.health(("postgres", "PostgreSQL"), promise, &facts)
    }

    async fn close(&self) {
        self.writers.close().await;
        let tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        tasks.iter().for_each(JoinHandle::abort);
        self.host.stop();
    }
}

/// Removes what is out of date, now and then.
async fn sweep(shared: Arc<Shared>) {
    loop {
        tokio::time::sleep(SWEEP_EVERY).await;
        while let Ok(done) = sweep_slice(&shared).await
            && done > 0
        {
            // Others come first.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

async fn sweep_slice(shared: &Shared) -> Result<i64, StoreError> {
    let ages = shared.bounds.ages();
    let agents: Vec<&[u8]> = ages.iter().map(|(agent, _)| agent.0.as_slice()).collect();
    let ages: Vec<i64> = ages.iter().map(|(_, age)| millis(*age)).collect();
    let (given, default, slice) = (shared.given(), millis(Retention::default().age), SWEEP_SLICE);
    let params: [Param<'_>; 5] = [
        (&given, Type::INT8),
        (&agents, Type::BYTEA_ARRAY),
        (&ages, Type::INT8_ARRAY),
        (&default, Type::INT8),
        (&slice, Type::INT4),
    ];
    value(&shared.ask("SELECT restap.sweep($1, $2, $3, $4, $5)", &params).await?)
}

/// Half of what an integer holds leaves room for a sum.
fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX).min(i64::MAX / 2)
}

/// PostgreSQL's integers end at 2^63 - 1.
fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn value<'a, T: tokio_postgres::types::FromSql<'a>>(rows: &'a [Row]) -> Result<T, StoreError> {
    column(rows.first().ok_or_else(unreadable)?, 0)
}

fn column<'a, T: tokio_postgres::types::FromSql<'a>>(row: &'a Row, index: usize) -> Result<T, StoreError> {
    row.try_get(index).map_err(|_| unreadable())
}

fn hash(bytes: &[u8]) -> Result<Hash, StoreError> {
    bytes.try_into().map_err(|_| unreadable())
}

fn unreadable() -> StoreError {
    StoreError::Corrupt("what PostgreSQL answers".into())
}

#[cfg(test)]
mod tests;
