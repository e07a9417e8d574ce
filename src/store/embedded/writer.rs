//! `Writer`: the handle of the one thread that writes, and the changes that wait for it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::STACK_BYTES;
use super::batch::Batch;
use super::fault::{Failure, Fault};
use super::worker::Worker;
use crate::store::StoreError;

/// Changes that wait; more are refused at once.
const QUEUE: usize = 4096;

/// Bytes of all changes that wait.
const QUEUE_BYTES: usize = 64 << 20;

/// How long a caller waits for the disk. What it asked for may still be done.
const DEADLINE: Duration = Duration::from_secs(5);

const CLOSED: StoreError = StoreError::Unavailable("it is closed");
const BUSY: StoreError = StoreError::Unavailable("too much waits to be written");

/// The handle of the thread.
pub(super) struct Writer {
    queue: Mutex<Option<SyncSender<Box<dyn Job>>>>,
    waiting_bytes: Arc<AtomicUsize>,
    /// Ends when the thread has.
    thread: tokio::sync::Mutex<mpsc::Receiver<()>>,
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
        let (queue, jobs) = sync_channel(QUEUE);
        let (alive, thread) = mpsc::channel(1);
        let waiting_bytes = Arc::new(AtomicUsize::new(0));
        let waiting = waiting_bytes.clone();
        std::thread::Builder::new().name("store-writer".into()).stack_size(STACK_BYTES).spawn(move || {
            worker.work(&jobs, &waiting);
            drop(alive);
        })?;
        Ok(Self { queue: Mutex::new(Some(queue)), waiting_bytes, thread: tokio::sync::Mutex::new(thread) })
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
        match tokio::time::timeout(DEADLINE, answer).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(CLOSED),
            Err(_) => Err(StoreError::Unavailable("the disk is too slow")),
        }
    }

    fn submit(&self, job: Box<dyn Job>) -> Result<(), StoreError> {
        let bytes = job.bytes();
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let queue = queue.as_ref().ok_or(CLOSED)?;
        if self.waiting_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes > QUEUE_BYTES {
            self.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
            return Err(BUSY);
        }
        queue.try_send(job).map_err(|refused| {
            self.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
            match refused {
                TrySendError::Full(_) => BUSY,
                TrySendError::Disconnected(_) => CLOSED,
            }
        })
    }

    /// Takes no more changes, and waits for those that were taken.
    pub(super) async fn close(&self) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.thread.lock().await.recv().await;
    }
}
