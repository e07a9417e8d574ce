//! `Status`: whether the server can be used, as its connections see it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::Problem;

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

    fn told(&self) -> MutexGuard<'_, Vec<String>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
