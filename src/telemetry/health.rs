//! `Health`: whether this process wants requests.

use std::sync::atomic::{AtomicU8, Ordering};

/// What `/ready` reads.
#[derive(Debug, Default)]
pub struct Health(AtomicU8);

/// Where the process is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Not all listeners are open.
    Starting,
    /// Requests are welcome.
    Serving,
    /// Requests that run are finished, new ones are not welcome.
    Draining,
}

impl Health {
    /// Moves on.
    pub fn set(&self, phase: Phase) {
        self.0.store(phase as u8, Ordering::Release);
    }

    /// Where the process is.
    pub fn phase(&self) -> Phase {
        match self.0.load(Ordering::Acquire) {
            0 => Phase::Starting,
            1 => Phase::Serving,
            _ => Phase::Draining,
        }
    }
}
