//! `Rate`: how often something may happen, counted together by all gateways that share the store.

use std::time::Duration;

use super::keys::RateKey;
use super::{Store, StoreError};

/// Counts of a period, at most.
pub const RATE_COUNT_MAX: u32 = 1_000_000;

/// The longest period.
pub const RATE_PERIOD_MAX: Duration = Duration::from_hours(24);

/// So many at once, refilled evenly over a period: a token bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    count: u64,
    period_ms: u64,
}

/// Whether one more may happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    /// It may, and is counted.
    pub allowed: bool,
    /// How many more may happen now.
    pub remaining: u64,
    /// How long until the next one may; zero if it may now.
    pub again: Duration,
}

impl Rate {
    /// From 1 to [`RATE_COUNT_MAX`] in 1 ms to [`RATE_PERIOD_MAX`]; what lies beyond counts as the nearest of these.
    pub fn new(count: u32, period: Duration) -> Self {
        let period_ms = period.clamp(Duration::from_millis(1), RATE_PERIOD_MAX).as_millis() as u64;
        Self { count: u64::from(count.clamp(1, RATE_COUNT_MAX)), period_ms }
    }

    /// So many.
    pub fn count(self) -> u64 {
        self.count
    }

    /// In so many milliseconds.
    pub(super) fn period_ms(self) -> u64 {
        self.period_ms
    }

    /// What a bucket holds: below 2^53, so that engines that count in floating point are exact.
    fn capacity(self) -> u64 {
        self.count * self.period_ms
    }

    /// What is left of a bucket of which so much is used.
    pub(super) fn allowance(self, allowed: bool, used: u64) -> Allowance {
        let missing = (used + self.period_ms).saturating_sub(self.capacity());
        Allowance {
            allowed,
            remaining: self.capacity().saturating_sub(used) / self.period_ms,
            again: Duration::from_millis(missing.div_ceil(self.count)),
        }
    }
}

/// A counter. In whole numbers: one use takes as much as the period has milliseconds, and every millisecond gives back
/// as much as the rate has counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Bucket {
    pub(super) used: u64,
    pub(super) at_ms: u64,
}

impl Bucket {
    /// Takes one if there is one. A clock that steps back gives nothing back until it goes on from there.
    pub(super) fn spend(&mut self, rate: Rate, now: u64) -> Allowance {
        let back = now.saturating_sub(self.at_ms).saturating_mul(rate.count);
        // The rate may be another one than before: what is used is then never more than all of it.
        let used = self.used.min(rate.capacity()).saturating_sub(back);
        let allowed = used + rate.period_ms <= rate.capacity();
        *self = Self { used: if allowed { used + rate.period_ms } else { used }, at_ms: now };
        rate.allowance(allowed, self.used)
    }

    /// When nothing of it is used any more: forgotten then, it is the same as ever.
    pub(super) fn full_ms(self, rate: Rate) -> u64 {
        self.at_ms.saturating_add(self.used.div_ceil(rate.count))
    }
}

impl Store {
    /// Counts one, if it may happen. Counters are no news: they may be lost with the engine, and beyond
    /// [`Limits::rates`](super::engine::Limits::rates) the ones that are nearest to be full are forgotten.
    pub async fn spend(&self, key: RateKey, rate: Rate) -> Result<Allowance, StoreError> {
        self.engine.spend(key, rate).await
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn never_more_than_a_burst_and_what_came_back_since(
            (count, period) in (1..50_u32, 1..5_000_u64),
            steps in prop::collection::vec(0..500_u64, 1..300),
        ) {
            let rate = Rate::new(count, Duration::from_millis(period));
            let (mut bucket, mut now, mut taken) = (Bucket::default(), 1_000_000, 0);
            let begun = now;
            for step in steps {
                now += step;
                let told = bucket.spend(rate, now);
                taken += u64::from(told.allowed);
                prop_assert!(taken * period <= u64::from(count) * period + (now - begun) * u64::from(count));
                prop_assert_eq!(told.again.is_zero(), told.remaining > 0);
                if !told.allowed {
                    let again = told.again.as_millis() as u64;
                    prop_assert!(!bucket.clone().spend(rate, now + again - 1).allowed);
                    prop_assert!(bucket.clone().spend(rate, now + again).allowed);
                }
            }
            let full = bucket.full_ms(rate);
            prop_assert_eq!(bucket.spend(rate, full).remaining, u64::from(count) - 1);
        }
    }

    #[test]
    fn a_smaller_rate_holds_nobody_for_longer_than_its_period() {
        let mut bucket = Bucket::default();
        for _ in 0..1_000 {
            bucket.spend(Rate::new(1_000, Duration::from_hours(1)), 0);
        }
        let told = bucket.spend(Rate::new(2, Duration::from_mins(1)), 0);
        assert_eq!(told, Allowance { allowed: false, remaining: 0, again: Duration::from_secs(30) });
    }
}
