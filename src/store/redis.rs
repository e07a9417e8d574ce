//! `Redis`: a Redis or Valkey server that several gateways share.
//!
//! Everything is a script, which the server runs alone and whole; the scripts are in `redis/`, and `redis/common.lua` says
//! what is kept under which key. Times are those of the server's clock. What is acknowledged is as durable as the server
//! makes it: on its disk with `appendfsync always`, which answers after the flush and flushes for many at once.

mod line;
mod scripts;
mod settings;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use redis::{Script, Value};
use tokio::task::JoinHandle;

use super::clock::Clock;
use super::engine::{
    Bounds, Change, Committed, Engine, EnginePage, ItemPlace, PageRead, Position, Reader, Record, RecordKey, StoredItem,
};
use super::feed::{Arrivals, BURST};
use super::health::Health;
use super::keys::{CallerId, Hash, Keys, RateKey};
use super::lease::{LEASE_TERM, Lease};
use super::rate::{Allowance, Rate};
use super::settings::{Retention, Server, SharedKey};
use super::shared::{self, CLOSED, Host, PAGE_BYTES_MAX, SWEEP_EVERY, SWEEP_SLICE, SharedKeys, Status, named};
use super::{OpenError, StoreError};

use line::Line;
use scripts::{Answer, Scripts, hash, hex, millis};

pub(super) use line::is_url;

/// Changes that wait for the server, and their bytes; more are refused at once.
const WAITING: u32 = 4096;
const WAITING_BYTES: usize = 64 << 20;

const OVERLOADED: StoreError = StoreError::Unavailable("too much waits for Redis");

/// The engine.
pub struct Redis {
    host: Host,
    shared: Arc<Shared>,
    waiting: shared::Waiting,
    /// What runs until it is closed; `None` then.
    tasks: Mutex<Option<Vec<JoinHandle<()>>>>,
}

/// What all connections know.
struct Shared {
    client: redis::Client,
    keys: SharedKeys,
    bounds: Arc<Bounds>,
    /// Instead of the server's.
    clock: Option<Arc<dyn Clock>>,
    arrivals: Arc<Arrivals>,
    status: Status,
    scripts: Scripts,
    /// For changes and leases, and for reads, so that a large page holds nobody up.
    writing: Line,
    reading: Line,
}

impl Redis {
    /// Connects, or goes on trying if the server is away. An error is what only the operator can change.
    pub(super) fn open(
        server: &Server,
        key: &SharedKey,
        bounds: Arc<Bounds>,
        clock: Option<Arc<dyn Clock>>,
        arrivals: Arc<Arrivals>,
    ) -> Result<(Self, Keys), OpenError> {
        let shared = Arc::new(Shared {
            client: line::client(server)?,
            keys: SharedKeys::read(key)?,
            bounds,
            clock,
            arrivals,
            status: Status::new(),
            scripts: Scripts::default(),
            writing: Line::default(),
            reading: Line::default(),
        });
        let host = Host::start("store-redis").map_err(OpenError::Thread)?;
        let tasks = vec![
            host.spawn(line::keep(shared.clone(), |shared| &shared.writing)),
            host.spawn(line::keep(shared.clone(), |shared| &shared.reading)),
            host.spawn(line::listen(shared.clone())),
            host.spawn(sweep(shared.clone())),
        ];
        shared::first_answer(&host, &shared.status, "redis")?;
        let names = shared.keys.names.clone();
        let waiting = shared::Waiting::new(WAITING, WAITING_BYTES);
        Ok((Self { host, shared, waiting, tasks: Mutex::new(Some(tasks)) }, names))
    }

    fn is_closed(&self) -> bool {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// Does something on the engine's thread, which goes on if the caller leaves.
    async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        if self.is_closed() {
            return Err(CLOSED);
        }
        self.host.run(work).await
    }
}

impl Shared {
    /// What the scripts take as the time: nothing means the server's clock.
    fn given(&self) -> String {
        self.clock.as_ref().map(|clock| clock.unix_ms().to_string()).unwrap_or_default()
    }

    async fn write(&self, script: &Script, arguments: Vec<Vec<u8>>) -> Result<Value, StoreError> {
        self.writing.run(script, arguments).await
    }

    async fn read(&self, script: &Script, arguments: Vec<Vec<u8>>) -> Result<Value, StoreError> {
        self.reading.run(script, arguments).await
    }
}

/// The arguments of a script, from whatever can be shown.
macro_rules! arguments {
    ($($argument:expr),* $(,)?) => {
        vec![$(Vec::<u8>::from($argument)),*]
    };
}

/// Numbers are written in decimal.
fn number<T: ToString + Copy>(number: T) -> Vec<u8> {
    number.to_string().into_bytes()
}

#[async_trait]
impl Engine for Redis {
    async fn commit(&self, change: Change) -> Result<Committed, StoreError> {
        named(change.feed.iter().map(|change| change.feed.hash).chain(change.puts.iter().map(|put| put.key.hash)))?;
        let shared = self.shared.clone();
        let arguments = commit(&shared, &change);
        let place = self.waiting.take(arguments.iter().map(Vec::len).sum()).ok_or(OVERLOADED)?;
        let asked = async move {
            let answer = Answer::list(shared.write(&shared.scripts.commit, arguments).await?)?;
            drop(place);
            match answer.number(0)? {
                0 => Ok(Committed { timestamp: answer.some_number(1)? }),
                1 => Err(StoreError::Conflict),
                _ => Err(StoreError::TooFast),
            }
        };
        self.run(asked).await
    }

    async fn page(&self, read: PageRead) -> Result<EnginePage, StoreError> {
        named([read.feed.hash])?;
        let shared = self.shared.clone();
        self.run(async move { page(&shared, &read).await }).await
    }

    async fn record(&self, key: RecordKey) -> Result<Option<Record>, StoreError> {
        named([key.hash])?;
        let shared = self.shared.clone();
        let asked = async move {
            let name = format!("{}:{}", key.kind as u8, hex(key.hash));
            let arguments = arguments![shared.given(), name];
            let answer = Answer::list(shared.read(&shared.scripts.record, arguments).await?)?;
            if answer.is_empty() {
                return Ok(None);
            }
            let item = match answer.some_number(3)? {
                Some(timestamp) => Some(ItemPlace { feed: hash(answer.bytes(2)?)?, timestamp }),
                None => None,
            };
            let (version, expired) = (answer.number(0)?, answer.number(4)? == 1);
            Ok(Some(Record { version, body: answer.bytes(1)?.to_vec().into(), item, expired }))
        };
        self.run(asked).await
    }

    async fn acquire(&self, lease: Lease, note: Hash) -> Result<Option<Hash>, StoreError> {
        named([lease.key.0])?;
        let shared = self.shared.clone();
        let asked = async move {
            let term = number(LEASE_TERM.as_millis());
            let arguments = arguments![shared.given(), hex(lease.key.0), hex(lease.holder), hex(note), term];
            match shared.write(&shared.scripts.acquire, arguments).await? {
                Value::Nil => Ok(None),
                Value::BulkString(note) => hash(&note).map(Some),
                _ => Err(scripts::unreadable()),
            }
        };
        self.run(asked).await
    }

    async fn renew(&self, lease: Lease) -> Result<bool, StoreError> {
        let shared = self.shared.clone();
        let asked = async move {
            let term = number(LEASE_TERM.as_millis());
            let arguments = arguments![shared.given(), hex(lease.key.0), hex(lease.holder), term];
            Ok(shared.write(&shared.scripts.renew, arguments).await? == Value::Int(1))
        };
        self.run(asked).await
    }

    async fn release(&self, lease: Lease) -> Result<(), StoreError> {
        let shared = self.shared.clone();
        let arguments = arguments![hex(lease.key.0), hex(lease.holder)];
        self.run(async move { shared.write(&shared.scripts.release, arguments).await.map(drop) }).await
    }

    async fn spend(&self, key: RateKey, rate: Rate) -> Result<Allowance, StoreError> {
        named([key.0])?;
        let shared = self.shared.clone();
        let asked = async move {
            let (count, period) = (number(rate.count()), number(rate.period_ms()));
            let keep = number(shared.bounds.limits.rates);
            let arguments = arguments![shared.given(), hex(key.0), count, period, keep];
            let answer = Answer::list(shared.write(&shared.scripts.spend, arguments).await?)?;
            Ok(rate.allowance(answer.number(0)? == 1, answer.number(1)?))
        };
        self.run(asked).await
    }

    async fn health(&self) -> Health {
        let shared = self.shared.clone();
        let asked = self.host.spawn(async move { line::facts(&shared).await });
        let facts = match tokio::time::timeout(Duration::from_secs(1), asked).await {
            Ok(facts) if !self.is_closed() => facts.unwrap_or(Err(CLOSED)),
            Ok(_) => Err(CLOSED),
            Err(_) => Err(StoreError::Unavailable("Redis is too slow")),
        };
        let promise =
            "an acknowledged item survives a killed server and its power loss; a fail-over can lose the newest ones";
        self.shared.status.health(("redis", "Redis"), promise, &facts)
    }

    async fn close(&self) {
        let Some(tasks) = self.tasks.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
        self.waiting.drain().await;
        tasks.iter().for_each(JoinHandle::abort);
        self.host.stop();
    }
}

/// The arguments of `commit.lua`.
fn commit(shared: &Shared, change: &Change) -> Vec<Vec<u8>> {
    let limits = shared.bounds.limits;
    let feed = change.feed.as_ref();
    let item = feed.and_then(|change| change.item.as_ref());
    let retention = feed.map(|change| shared.bounds.retention(change.feed.agent)).unwrap_or_default();
    let flag = |set: bool| if set { "1" } else { "0" };
    let bytes = if limits.bytes == u64::MAX { Vec::new() } else { number(limits.bytes) };
    let queries: String = item.iter().flat_map(|item| &item.queries).map(|query| hex(query.0)).collect();
    let mut arguments = arguments![
        shared.given(),
        number(BURST),
        bytes,
        number(limits.agent_bytes),
        number(limits.agent_feeds),
        feed.map(|change| hex(change.feed.agent.0)).unwrap_or_default(),
        feed.map(|change| hex(change.feed.hash)).unwrap_or_default(),
        flag(feed.is_some_and(|change| change.feed.own)),
        feed.and_then(|change| change.opener).map(|opener| hex(opener.0)).unwrap_or_default(),
        flag(item.is_some()),
        item.map(|item| item.json.to_vec()).unwrap_or_default(),
        number(item.map_or(0, super::engine::ItemBody::weight)),
        queries,
        flag(item.is_some_and(|item| item.answer)),
        number(retention.items),
        number(retention.bytes),
        number(millis(retention.age)),
        number(change.puts.len()),
    ];
    for put in &change.puts {
        let cap = limits.cap(put.key.kind);
        arguments.extend(arguments![
            number(put.key.kind as u8),
            hex(put.key.hash),
            hex(put.owner),
            number(put.expect),
            put.body.to_vec(),
            number(millis(put.ttl)),
            number(cap.records),
            number(cap.bytes),
        ]);
    }
    for lease in &change.releases {
        arguments.extend(arguments![hex(lease.key.0), hex(lease.holder)]);
    }
    arguments
}

async fn page(shared: &Shared, read: &PageRead) -> Result<EnginePage, StoreError> {
    let (anybody, caller) = match read.reader {
        Reader::Agent => ("1", None),
        Reader::Caller(caller) => ("0", caller),
    };
    let (since, newest) = match read.from {
        // The scripts count in floating point.
        Position::After(since) => (since.min(1 << 53), "0"),
        Position::Newest => (0, "1"),
    };
    let arguments = arguments![
        hex(read.feed.hash),
        hex(read.feed.agent.0),
        anybody,
        caller.map(|CallerId(caller)| hex(caller)).unwrap_or_default(),
        number(since),
        newest,
        number(read.limit),
        read.query.map(|query| hex(query.0)).unwrap_or_default(),
        number(PAGE_BYTES_MAX),
    ];
    let answer = Answer::list(shared.read(&shared.scripts.page, arguments).await?)?;
    if answer.number(0)? == 1 {
        return Err(StoreError::NotOwner);
    }
    let mut page = EnginePage {
        items: Vec::new(),
        more: answer.number(1)? == 1,
        last: answer.number(2)?,
        oldest: answer.some_number(3)?,
    };
    for at in (5..answer.len()).step_by(3) {
        let place = ItemPlace { feed: hash(answer.bytes(4)?)?, timestamp: answer.number(at)? };
        let json = answer.bytes(at + 2)?.to_vec().into();
        page.items.push(StoredItem { place, answer: answer.number(at + 1)? == 1, json });
    }
    if newest == "1" {
        page.items.reverse();
    }
    Ok(page)
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

async fn sweep_slice(shared: &Shared) -> Result<u64, StoreError> {
    let mut arguments = arguments![shared.given(), number(SWEEP_SLICE), number(millis(Retention::default().age))];
    for (agent, age) in shared.bounds.ages() {
        arguments.extend(arguments![hex(agent.0), number(millis(age))]);
    }
    match shared.write(&shared.scripts.sweep, arguments).await? {
        Value::Int(done) => Ok(done.unsigned_abs()),
        _ => Err(scripts::unreadable()),
    }
}

#[cfg(test)]
mod tests;
