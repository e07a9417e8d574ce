//! `Readers`: a few threads that read, each with its own connection, so that no read ever holds up the runtime.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
use rusqlite::wal::CheckpointMode;
use tokio::sync::oneshot;

use super::database::{self, Role};
use super::fault::{Failure, Fault, FaultKind};
use super::queue::{self, Queue};
use crate::store::StoreError;

/// Threads: one reads while another one moves the log.
const THREADS: usize = 2;

/// Reads that wait; more are refused at once.
const QUEUE: usize = 4096;

/// The handle of the threads.
pub(super) struct Readers {
    queue: Queue<Read>,
    log: Arc<Log>,
}

type Read = Box<dyn FnOnce(&mut Reader) + Send>;

/// How far moving the log is.
#[derive(Default)]
struct Log {
    moving: AtomicBool,
    fault: Mutex<Option<Fault>>,
}

impl Readers {
    /// Starts the threads. Each opens its connection when it is first needed.
    pub(super) fn start(path: &Path) -> std::io::Result<Self> {
        let (queue, reads, alive) = Queue::new(QUEUE);
        let reads = Arc::new(Mutex::new(reads));
        for _ in 0..THREADS {
            let (reads, mut reader) =
                (reads.clone(), Reader { path: path.to_owned(), connection: None, failed: false });
            queue::spawn("store-reader", alive.clone(), move || {
                while let Some(read) = next(&reads) {
                    read(&mut reader);
                }
            })?;
        }
        Ok(Self { queue, log: Arc::default() })
    }

    /// Reads in one snapshot.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        act: impl FnOnce(&Connection) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        self.queue.submit(Box::new(move |reader| {
            // Nobody waits for it any more.
            if !reply.is_closed() {
                let _ = reply.send(reader.read(act).map_err(Failure::into_error));
            }
        }))?;
        queue::answer(answer).await
    }

    /// Has the log moved into the database as far as nobody reads it; false if that can't be begun now.
    pub(super) fn move_log(&self) -> bool {
        if self.log.moving.swap(true, Ordering::Acquire) {
            return false;
        }
        let log = self.log.clone();
        let begun = self.queue.submit(Box::new(move |reader| {
            let fault = reader.move_log().err().filter(|fault| fault.kind != FaultKind::Busy);
            *log.fault.lock().unwrap_or_else(PoisonError::into_inner) = fault;
            log.moving.store(false, Ordering::Release);
        }));
        if begun.is_err() {
            self.log.moving.store(false, Ordering::Release);
        }
        begun.is_ok()
    }

    /// Why the log could not be moved, told once.
    pub(super) fn log_fault(&self) -> Option<Fault> {
        self.log.fault.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Takes no more reads, and waits for those that were taken.
    pub(super) async fn close(&self) {
        self.queue.close().await;
    }
}

/// Only the thread whose turn it is waits for the queue itself.
fn next(reads: &Mutex<Receiver<Read>>) -> Option<Read> {
    reads.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}

/// What a thread has.
struct Reader {
    path: PathBuf,
    connection: Option<Connection>,
    failed: bool,
}

impl Reader {
    fn read<T>(&mut self, act: impl FnOnce(&Connection) -> Result<T, Failure>) -> Result<T, Failure> {
        let transaction = self.connection()?.unchecked_transaction()?;
        let result = act(&transaction);
        drop(transaction);
        match &result {
            Err(Failure::Broken(fault)) if fault.kind != FaultKind::Busy => {
                self.connection = None;
                // Said once: whoever polls would say it again and again.
                if !std::mem::replace(&mut self.failed, true) {
                    tracing::error!("the store can't be read: {fault}");
                }
            }
            _ => self.failed = false,
        }
        result
    }

    fn move_log(&mut self) -> Result<(), Fault> {
        self.connection()?.wal_checkpoint_v2(None::<&str>, CheckpointMode::PASSIVE)?;
        Ok(())
    }

    fn connection(&mut self) -> Result<&Connection, Fault> {
        match self.connection.take() {
            Some(connection) => Ok(self.connection.insert(connection)),
            None => Ok(self.connection.insert(database::connect(&self.path, Role::Reader)?)),
        }
    }
}
