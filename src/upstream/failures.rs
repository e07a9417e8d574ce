//! `Failures`: how many requests in a row a service has failed.

use std::sync::atomic::{AtomicU32, Ordering};

/// A count that the next success ends.
#[derive(Debug, Default)]
pub(super) struct Failures(AtomicU32);

impl Failures {
    pub(super) fn in_a_row(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn record(&self, succeeded: bool) {
        if succeeded {
            self.0.store(0, Ordering::Relaxed);
        } else {
            let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| Some(count.saturating_add(1)));
        }
    }
}
