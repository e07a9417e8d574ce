//! `Writer`: the handle of the one thread that writes, and the changes that wait for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::oneshot;

use super::batch::Batch;
use super::fault::{Failure, Fault};
use super::queue::{self, CLOSED, OVERLOADED, Queue};
use super::worker::Worker;
use crate::store::StoreError;

/// Changes that wait; more are refused at once.
const QUEUE: usize = 4096;

/// Bytes of all changes that wait.
const QUEUE_BYTES: usize = 64 << 20;

/// The handle of the thread.
pub(super) struct Writer {
    queue: Queue<Box<dyn Job>>,
    waiting_bytes: Arc<AtomicUsize>,
}

/// A change that waits for its transaction.
pub(super) trait Job: Send {
    fn bytes(&self) -> usize;
    /// Whether it must outlive a power loss.
    fn durable(&self) -> bool;
    /// Makes the change. After a fault it is made again, in another transaction.
    fn run(&mut self, batch: &mut Batch<'_>) -> Result<(), Fault>;
    /// Tells the caller.
    fn settle(self: Box<Self>, committed: Result<(), StoreError>);
}

struct Task<T, F> {
    act: F,
    bytes: usize,
    durable: bool,
    result: Option<Result<T, StoreError>>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<T: Send, F> Job for Task<T, F>
where
    F: FnMut(&mut Batch<'_>) -> Result<T, Failure> + Send,
{
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn durable(&self) -> bool {
        self.durable
    }

    fn run(&mut self, batch: &mut Batch<'_>) -> Result<(), Fault> {
        self.result = Some(match (self.act)(batch) {
            Ok(value) => Ok(value),
            Err(Failure::Refused(refusal)) => Err(refusal),
            Err(Failure::Broken(fault)) => return Err(fault),
        });
        Ok(())
    }

    fn settle(self: Box<Self>, committed: Result<(), StoreError>) {
        let Self { result, reply, .. } = *self;
        // A caller that has left does not want to know.
        let _ = reply.send(committed.and_then(|()| result.unwrap_or(Err(CLOSED))));
    }
}

impl Writer {
    /// Starts the thread.
    pub(super) fn start(worker: Worker) -> std::io::Result<Self> {
        let (queue, jobs, alive) = Queue::new(QUEUE);
        let waiting_bytes = Arc::new(AtomicUsize::new(0));
        let waiting = waiting_bytes.clone();
        queue::spawn("store-writer", alive, move || worker.work(&jobs, &waiting))?;
        Ok(Self { queue, waiting_bytes })
    }

    /// Makes a change and waits until the disk has it. Dropping the future does not take the change back.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        bytes: usize,
        durable: bool,
        act: impl FnMut(&mut Batch<'_>) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        self.submit(Box::new(Task { act, bytes, durable, result: None, reply }))?;
        queue::answer(answer).await
    }

    fn submit(&self, job: Box<dyn Job>) -> Result<(), StoreError> {
        let bytes = job.bytes();
        let waiting = self.waiting_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let submitted = if waiting > QUEUE_BYTES { Err(OVERLOADED) } else { self.queue.submit(job) };
        if submitted.is_err() {
            self.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
        submitted
    }

    /// Takes no more changes, and waits for those that were taken.
    pub(super) async fn close(&self) {
        self.queue.close().await;
    }
}
