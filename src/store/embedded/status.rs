//! `Status`: what the writer tells the health report.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::batch::Outcome;
use super::fault::Fault;

#[derive(Debug, Default)]
pub(super) struct Status {
    problem: Mutex<Option<String>>,
    bytes: AtomicU64,
    removed: AtomicU64,
    newest: AtomicU64,
}

impl Status {
    /// Takes note of a committed transaction.
    pub(super) fn record(&self, outcome: Outcome) {
        self.bytes.store(outcome.bytes, Ordering::Relaxed);
        self.removed.fetch_add(outcome.removed, Ordering::Relaxed);
        self.record_newest(outcome.newest);
    }

    /// Takes note of a timestamp.
    pub(super) fn record_newest(&self, newest: u64) {
        self.newest.fetch_max(newest, Ordering::Relaxed);
    }

    /// Changes can't be made.
    pub(super) fn fail(&self, fault: &Fault) {
        let problem = fault.advice();
        let mut known = self.lock();
        if known.as_ref() != Some(&problem) {
            tracing::error!("the store can't be written: {problem}");
            *known = Some(problem);
        }
    }

    /// Changes can be made again.
    pub(super) fn recover(&self) {
        if self.lock().take().is_some() {
            tracing::warn!("the store can be written again");
        }
    }

    pub(super) fn has_failed(&self) -> bool {
        self.lock().is_some()
    }

    /// Why changes can't be made.
    pub(super) fn problem(&self) -> Option<String> {
        self.lock().clone()
    }

    /// Bytes of all items.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Items that this process has removed.
    pub(super) fn removed(&self) -> u64 {
        self.removed.load(Ordering::Relaxed)
    }

    /// The highest timestamp seen.
    pub(super) fn newest(&self) -> u64 {
        self.newest.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Option<String>> {
        self.problem.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
