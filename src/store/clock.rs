//! `Clock`: the wall clock of a store, which tests replace.

use std::time::{SystemTime, UNIX_EPOCH};

/// Tells the time. It may step in either direction; no promise of the store depends on it.
pub trait Clock: Send + Sync + 'static {
    /// Milliseconds since 1970, UTC.
    fn unix_ms(&self) -> u64;
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn unix_ms(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_millis() as u64)
    }
}
