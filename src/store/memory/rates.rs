//! Rate counters in memory.

use std::collections::{BTreeSet, HashMap};

use crate::store::keys::RateKey;
use crate::store::rate::{Allowance, Bucket, Rate};

#[derive(Default)]
pub(super) struct Rates {
    /// Each with the time when it is full again.
    buckets: HashMap<RateKey, (Bucket, u64)>,
    /// The ones that are nearest to be full first.
    full: BTreeSet<(u64, RateKey)>,
}

impl Rates {
    /// Counts one if the rate allows it, and forgets counters that are full and those beyond the limit.
    pub(super) fn spend(&mut self, key: RateKey, rate: Rate, limit: u64, now: u64) -> Allowance {
        let mut bucket = Bucket::default();
        if let Some((kept, full_ms)) = self.buckets.remove(&key) {
            self.full.remove(&(full_ms, key));
            bucket = kept;
        }
        let allowance = bucket.spend(rate, now);
        let full_ms = bucket.full_ms(rate);
        self.buckets.insert(key, (bucket, full_ms));
        self.full.insert((full_ms, key));
        while let Some(first) = self.full.first().copied()
            && (first.0 <= now || self.buckets.len() as u64 > limit)
        {
            self.full.remove(&first);
            self.buckets.remove(&first.1);
        }
        allowance
    }
}
