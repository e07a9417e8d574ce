//! `Queue`: how callers hand work to the threads of the engine, and wait for the answer.

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use crate::store::StoreError;

/// Stack of a thread; SQLite needs a fraction of it.
const STACK_BYTES: usize = 512 << 10;

/// How long a caller waits. What it asked for may still be done.
const DEADLINE: Duration = Duration::from_secs(5);

pub(super) const CLOSED: StoreError = StoreError::Unavailable("it is closed");
pub(super) const OVERLOADED: StoreError = StoreError::Unavailable("too much waits for the disk");

/// Work that waits, with a bound above which more is refused at once.
pub(super) struct Queue<T> {
    /// `None` once it is closed.
    sender: Mutex<Option<SyncSender<T>>>,
    /// Ends when the last thread has.
    threads: tokio::sync::Mutex<mpsc::Receiver<()>>,
}

/// Held by a thread as long as it works.
#[derive(Clone)]
pub(super) struct Alive {
    _sender: mpsc::Sender<()>,
}

impl<T> Queue<T> {
    /// A queue of so many, the end that threads take from, and what each of them holds.
    pub(super) fn new(bound: usize) -> (Self, Receiver<T>, Alive) {
        let (sender, receiver) = sync_channel(bound);
        let (alive, threads) = mpsc::channel(1);
        let queue = Self { sender: Mutex::new(Some(sender)), threads: tokio::sync::Mutex::new(threads) };
        (queue, receiver, Alive { _sender: alive })
    }

    /// Adds work; it will be done even if nobody waits for it.
    pub(super) fn submit(&self, work: T) -> Result<(), StoreError> {
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
        sender.as_ref().ok_or(CLOSED)?.try_send(work).map_err(|refused| match refused {
            TrySendError::Full(_) => OVERLOADED,
            TrySendError::Disconnected(_) => CLOSED,
        })
    }

    /// Takes no more work, and waits until all that was taken is done.
    pub(super) async fn close(&self) {
        self.sender.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.threads.lock().await.recv().await;
    }
}

/// Waits for the answer to work that was submitted.
pub(super) async fn answer<T>(answer: oneshot::Receiver<Result<T, StoreError>>) -> Result<T, StoreError> {
    match tokio::time::timeout(DEADLINE, answer).await {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => Err(CLOSED),
        Err(_) => Err(StoreError::Unavailable("the disk is too slow")),
    }
}

/// Starts a thread that works until its queue is closed and empty.
pub(super) fn spawn(name: &str, alive: Alive, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let thread = std::thread::Builder::new().name(name.into()).stack_size(STACK_BYTES);
    thread.spawn(move || {
        work();
        drop(alive);
    })?;
    Ok(())
}
