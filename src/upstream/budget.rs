//! `Budget`: how many of an upstream's requests may be repeats, so that a service in trouble is not asked more than ever.

use std::sync::atomic::{AtomicU32, Ordering};

/// What a request earns, and what a repeat costs: one repeat for every five requests.
const EARNED: u32 = 1;
const COST: u32 = 5;

/// Repeats that can be saved up, which is also what an upstream begins with.
const SAVED_MAX: u32 = 10 * COST;

/// Repeats that are left.
#[derive(Debug)]
pub(super) struct Budget(AtomicU32);

impl Default for Budget {
    fn default() -> Self {
        Self(AtomicU32::new(SAVED_MAX))
    }
}

impl Budget {
    /// A request has come.
    pub(super) fn earn(&self) {
        let earned = |saved: u32| (saved < SAVED_MAX).then(|| (saved + EARNED).min(SAVED_MAX));
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, earned);
    }

    /// Pays for a repeat; false where there is nothing left.
    pub(super) fn spend(&self) -> bool {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |saved| saved.checked_sub(COST)).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fifth_of_the_requests_may_be_repeated() {
        let budget = Budget::default();
        let at_once = (0..100).filter(|_| budget.spend()).count();
        assert_eq!(at_once, 10);
        let later = (0..1_000).filter(|_| {
            budget.earn();
            budget.spend()
        });
        assert_eq!(later.count(), 200);
    }
}
