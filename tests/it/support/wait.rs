//! Waiting for something to happen instead of sleeping until it should have.

use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// How long anything may take before a test fails. Far above what is needed: it only ends a test that hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A value that tests change and wait on.
#[derive(Debug, Default)]
pub(crate) struct Watched<T> {
    value: Mutex<T>,
    changed: Condvar,
}

impl<T> Watched<T> {
    pub(crate) fn change(&self, change: impl FnOnce(&mut T)) {
        change(&mut self.value.lock().unwrap());
        self.changed.notify_all();
    }

    pub(crate) fn read<R>(&self, read: impl FnOnce(&T) -> R) -> R {
        read(&self.value.lock().unwrap())
    }

    /// Waits until `found` gives something, `None` if that takes longer than `most`.
    pub(crate) fn wait<R>(&self, most: Duration, mut found: impl FnMut(&T) -> Option<R>) -> Option<R> {
        let deadline = Instant::now() + most;
        let mut value = self.value.lock().unwrap();
        loop {
            if let Some(result) = found(&value) {
                return Some(result);
            }
            let left = deadline.checked_duration_since(Instant::now())?;
            value = self.changed.wait_timeout(value, left).unwrap().0;
        }
    }
}

/// Asks again and again, for what nothing tells of by itself.
#[track_caller]
pub(crate) fn until<R>(what: &str, mut found: impl FnMut() -> Option<R>) -> R {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(result) = found() {
            return result;
        }
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A door that a test opens for a service that waits before it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Gate(Arc<Watched<bool>>);

impl Gate {
    pub(crate) fn open(&self) {
        self.0.change(|open| *open = true);
    }

    pub(crate) fn wait(&self) {
        self.0.wait(PATIENCE, |open| open.then_some(())).expect("the gate was never opened");
    }
}
