//! `Status`: whether the server can be used, as its connections see it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::Problem;
use crate::store::StoreError;
use crate::store::health::Health;

pub(in crate::store) struct Status {
    problem: watch::Sender<Option<Problem>>,
    /// Unsafe settings that were told.
    told: Mutex<Vec<String>>,
}

impl Status {
    pub(in crate::store) fn new() -> Self {
        Self { problem: watch::Sender::new(Some(Problem::Opening)), told: Mutex::default() }
    }

    pub(in crate::store) fn fail(&self, problem: Problem) {
        self.problem.send_replace(Some(problem));
    }

    pub(in crate::store) fn recover(&self) {
        self.problem.send_replace(None);
    }

    /// Why it can't be used.
    pub(in crate::store) fn problem(&self) -> Option<Problem> {
        self.problem.borrow().clone()
    }

    /// Changes of it.
    pub(in crate::store) fn watch(&self) -> watch::Receiver<Option<Problem>> {
        self.problem.subscribe()
    }

    /// Names the settings of the server that break what is promised, each once as long as it holds.
    pub(in crate::store) fn warn(&self, unsafe_settings: Vec<String>) {
        let mut told = self.told();
        for setting in unsafe_settings.iter().filter(|setting| !told.contains(setting)) {
            tracing::warn!("store: {setting}");
        }
        *told = unsafe_settings;
    }

    /// Whether the server's settings are such that nothing acknowledged is lost.
    pub(in crate::store) fn is_safe(&self) -> bool {
        self.told().is_empty()
    }

    /// How the engine is, by what it was asked just now: bytes of all items, milliseconds that the newest timestamp
    /// lies ahead, and feeds. `server` names it to the operator.
    pub(in crate::store) fn health(
        &self,
        (engine, server): (&'static str, &str),
        promise: &'static str,
        facts: &Result<(u64, u64, u64), StoreError>,
    ) -> Health {
        let problem = self.problem().map(|problem| format!("{server}: {problem}"));
        let (bytes, ahead, feeds) = facts.as_ref().copied().unwrap_or_default();
        Health {
            engine,
            promise: if self.is_safe() {
                promise
            } else {
                "an acknowledged item can be lost with the server, whose settings are unsafe"
            },
            readable: facts.is_ok(),
            writable: facts.is_ok() && problem.is_none(),
            problem: problem.or_else(|| facts.as_ref().err().map(ToString::to_string)),
            clock_ahead: Duration::from_millis(ahead),
            feeds,
            bytes,
            removed: None,
        }
    }

    fn told(&self) -> MutexGuard<'_, Vec<String>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
