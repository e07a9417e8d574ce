//! Group commit: changes that wait are sent together, so that one flush of the server's disk serves many.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_postgres::types::Type;

use super::listen::{self, News};
use super::{Param, Shared, WRITERS, column, int, millis, unreadable};
use crate::store::StoreError;
use crate::store::engine::{Change, Committed, Limits};
use crate::store::feed::{self, BURST};
use crate::store::shared::{CLOSED, DEADLINE, Host};

/// Changes of one call, and their bytes.
const BATCH: usize = 256;
const BATCH_BYTES: usize = 1 << 20;

/// Changes that wait, and their bytes; more are refused at once.
const QUEUE: usize = 4096;
const QUEUE_BYTES: usize = 64 << 20;

const OVERLOADED: StoreError = StoreError::Unavailable("too much waits for PostgreSQL");

/// Those who send.
pub(super) struct Writers {
    /// `None` once it is closed.
    queue: Mutex<Option<mpsc::Sender<Job>>>,
    waiting_bytes: Arc<AtomicUsize>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
    telling: JoinHandle<()>,
}

struct Job {
    change: Change,
    bytes: usize,
    reply: oneshot::Sender<Result<Committed, StoreError>>,
}

impl Writers {
    pub(super) fn start(host: &Host, shared: &Arc<Shared>) -> Self {
        let (sender, jobs) = mpsc::channel(QUEUE);
        let (jobs, waiting_bytes, news) =
            (Arc::new(tokio::sync::Mutex::new(jobs)), Arc::<AtomicUsize>::default(), Arc::<News>::default());
        let writer = |number| {
            let (shared, jobs, waiting, news) = (shared.clone(), jobs.clone(), waiting_bytes.clone(), news.clone());
            host.spawn(async move {
                while let Some(batch) = next(&jobs, &waiting).await {
                    write(&shared, number, &news, batch).await;
                }
            })
        };
        let tasks = Mutex::new((0..WRITERS).map(writer).collect());
        let telling = host.spawn(listen::tell(shared.clone(), news));
        Self { queue: Mutex::new(Some(sender)), waiting_bytes, tasks, telling }
    }

    /// Makes a change and waits for it. Dropping the future does not take the change back.
    pub(super) async fn commit(&self, change: Change) -> Result<Committed, StoreError> {
        let item = change.feed.as_ref().and_then(|change| change.item.as_ref()).map_or(0, |item| item.json.len());
        let bytes = item + change.puts.iter().map(|put| put.body.len()).sum::<usize>();
        let (reply, answer) = oneshot::channel();
        self.submit(Job { change, bytes, reply })?;
        match tokio::time::timeout(DEADLINE, answer).await {
            Ok(answer) => answer.unwrap_or(Err(CLOSED)),
            Err(_) => Err(StoreError::Unavailable("PostgreSQL is too slow")),
        }
    }

    fn submit(&self, job: Job) -> Result<(), StoreError> {
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let queue = queue.as_ref().ok_or(CLOSED)?;
        let bytes = job.bytes;
        let waiting = self.waiting_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let sent = if waiting > QUEUE_BYTES { Err(OVERLOADED) } else { queue.try_send(job).map_err(|_| OVERLOADED) };
        if sent.is_err() {
            self.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
        sent
    }

    /// Takes no more, and waits for what was taken.
    pub(super) async fn close(&self) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).take();
        let tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        for task in tasks {
            let _ = tokio::time::timeout(DEADLINE, task).await;
        }
        self.telling.abort();
    }
}

/// What waits, as much as one call takes.
async fn next(jobs: &tokio::sync::Mutex<mpsc::Receiver<Job>>, waiting: &AtomicUsize) -> Option<Vec<Job>> {
    let mut jobs = jobs.lock().await;
    let first = jobs.recv().await?;
    let mut bytes = first.bytes;
    let mut batch = vec![first];
    while batch.len() < BATCH
        && bytes < BATCH_BYTES
        && let Ok(job) = jobs.try_recv()
    {
        bytes += job.bytes;
        batch.push(job);
    }
    waiting.fetch_sub(bytes, Ordering::Relaxed);
    Some(batch)
}

async fn write(shared: &Shared, writer: usize, news: &News, batch: Vec<Job>) {
    let changes: Vec<&Change> = batch.iter().map(|job| &job.change).collect();
    let outcomes = call(shared, writer, &changes).await;
    let appended = changes.iter().filter_map(|change| change.feed.as_ref()).filter(|change| change.item.is_some());
    let marks = appended.fold(0, |marks, change| marks | 1 << feed::mark(change.feed.hash));
    for (index, job) in batch.into_iter().enumerate() {
        let outcome = match &outcomes {
            Ok(outcomes) => outcomes.get(index).cloned().unwrap_or_else(|| Err(unreadable())),
            Err(error) => Err(error.clone()),
        };
        // A caller that has left does not want to know.
        let _ = job.reply.send(outcome);
    }
    if outcomes.is_ok() {
        news.tell(marks);
    }
}

type Outcome = Result<Committed, StoreError>;

/// The arrays of `restap.commit`, one entry a change, a record or a lease.
#[derive(Default)]
struct Arrays<'a> {
    agent: Vec<Option<&'a [u8]>>,
    feed: Vec<Option<&'a [u8]>>,
    own: Vec<bool>,
    owner: Vec<Option<&'a [u8]>>,
    json: Vec<Option<&'a [u8]>>,
    weight: Vec<i64>,
    queries: Vec<Option<Vec<u8>>>,
    answer: Vec<bool>,
    items: Vec<i64>,
    bytes: Vec<i64>,
    age: Vec<i64>,
    put_change: Vec<i32>,
    put_kind: Vec<i16>,
    put_hash: Vec<&'a [u8]>,
    put_owner: Vec<&'a [u8]>,
    put_expect: Vec<i64>,
    put_body: Vec<&'a [u8]>,
    put_ttl: Vec<i64>,
    put_records: Vec<i64>,
    put_bytes: Vec<i64>,
    lease_change: Vec<i32>,
    lease_key: Vec<&'a [u8]>,
    lease_holder: Vec<&'a [u8]>,
}

impl<'a> Arrays<'a> {
    fn of(shared: &Shared, changes: &[&'a Change]) -> Self {
        let mut arrays = Self::default();
        // Leases are let go of in one order by everybody.
        let mut leases = BTreeMap::new();
        for (number, change) in (1..).zip(changes) {
            arrays.push_feed(shared, change);
            for put in &change.puts {
                let cap = shared.bounds.limits.cap(put.key.kind);
                arrays.put_change.push(number);
                arrays.put_kind.push(put.key.kind as i16);
                arrays.put_hash.push(&put.key.hash);
                arrays.put_owner.push(&put.owner);
                arrays.put_expect.push(int(put.expect));
                arrays.put_body.push(&put.body);
                arrays.put_ttl.push(millis(put.ttl));
                arrays.put_records.push(int(cap.records));
                arrays.put_bytes.push(int(cap.bytes));
            }
            for lease in &change.releases {
                leases.insert((&lease.key.0, number), &lease.holder);
            }
        }
        for ((key, number), holder) in leases {
            arrays.lease_change.push(number);
            arrays.lease_key.push(key);
            arrays.lease_holder.push(holder);
        }
        arrays
    }

    fn push_feed(&mut self, shared: &Shared, change: &'a Change) {
        let feed = change.feed.as_ref();
        let item = feed.and_then(|change| change.item.as_ref());
        let retention = feed.map(|change| shared.bounds.retention(change.feed.agent)).unwrap_or_default();
        self.agent.push(feed.map(|change| change.feed.agent.0.as_slice()));
        self.feed.push(feed.map(|change| change.feed.hash.as_slice()));
        self.own.push(feed.is_some_and(|change| change.feed.own));
        self.owner.push(feed.and_then(|change| change.opener.as_ref()).map(|opener| opener.0.as_slice()));
        self.json.push(item.map(|item| &item.json[..]));
        self.weight.push(item.map_or(0, |item| int(item.weight())));
        self.queries.push(item.map(|item| item.queries.iter().flat_map(|query| query.0).collect()));
        self.answer.push(item.is_some_and(|item| item.answer));
        self.items.push(int(retention.items));
        self.bytes.push(int(retention.bytes));
        self.age.push(millis(retention.age));
    }
}

/// Makes the changes in one transaction; each is refused for itself.
async fn call(shared: &Shared, writer: usize, changes: &[&Change]) -> Result<Vec<Outcome>, StoreError> {
    let arrays = Arrays::of(shared, changes);
    let Limits { bytes, agent_bytes, agent_feeds, .. } = shared.bounds.limits;
    let (given, count, burst) = (shared.given(), i32::try_from(changes.len()).unwrap_or(i32::MAX), int(BURST));
    let limits = (i64::try_from(bytes).ok(), int(agent_bytes), int(agent_feeds));
    let params: [Param<'_>; 29] = [
        (&given, Type::INT8),
        (&count, Type::INT4),
        (&burst, Type::INT8),
        (&limits.0, Type::INT8),
        (&limits.1, Type::INT8),
        (&limits.2, Type::INT8),
        (&arrays.agent, Type::BYTEA_ARRAY),
        (&arrays.feed, Type::BYTEA_ARRAY),
        (&arrays.own, Type::BOOL_ARRAY),
        (&arrays.owner, Type::BYTEA_ARRAY),
        (&arrays.json, Type::BYTEA_ARRAY),
        (&arrays.weight, Type::INT8_ARRAY),
        (&arrays.queries, Type::BYTEA_ARRAY),
        (&arrays.answer, Type::BOOL_ARRAY),
        (&arrays.items, Type::INT8_ARRAY),
        (&arrays.bytes, Type::INT8_ARRAY),
        (&arrays.age, Type::INT8_ARRAY),
        (&arrays.put_change, Type::INT4_ARRAY),
        (&arrays.put_kind, Type::INT2_ARRAY),
        (&arrays.put_hash, Type::BYTEA_ARRAY),
        (&arrays.put_owner, Type::BYTEA_ARRAY),
        (&arrays.put_expect, Type::INT8_ARRAY),
        (&arrays.put_body, Type::BYTEA_ARRAY),
        (&arrays.put_ttl, Type::INT8_ARRAY),
        (&arrays.put_records, Type::INT8_ARRAY),
        (&arrays.put_bytes, Type::INT8_ARRAY),
        (&arrays.lease_change, Type::INT4_ARRAY),
        (&arrays.lease_key, Type::BYTEA_ARRAY),
        (&arrays.lease_holder, Type::BYTEA_ARRAY),
    ];
    let statement =
        "SELECT change, outcome, ts FROM restap.commit($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13,
        $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29)";
    let rows = shared.write(writer, statement, &params).await?;
    let mut outcomes = Vec::with_capacity(changes.len());
    for row in &rows {
        outcomes.push(match column::<i32>(row, 1)? {
            0 => Ok(Committed { timestamp: column::<Option<i64>>(row, 2)?.map(|ts| ts as u64) }),
            1 => Err(StoreError::Conflict),
            _ => Err(StoreError::TooFast),
        });
    }
    Ok(outcomes)
}
