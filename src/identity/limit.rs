//! `Buckets`: how much of a rate each caller has left, in this process, and how many of its requests run.
//!
//! A bucket is one moment: when it will be full again. A request moves that moment on by the time that one token takes,
//! unless that would bring it further ahead than the whole bucket (GCRA, which is a token bucket that is refilled evenly).

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::rate::Rate;

/// Callers that are counted at a time. Above it, those nearest to a full bucket are forgotten, which gives them at most
/// the few tokens that they lacked.
const BUCKETS_MAX: usize = 100_000;

/// What a request took of a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spent {
    /// Whether there was a token for it.
    pub allowed: bool,
    /// Tokens that are left.
    pub remaining: u64,
    /// Until the bucket is full again.
    pub full_in: Duration,
    /// Until there is a token for the next one; nothing where there is one now.
    pub next_in: Duration,
}

/// What is left of rates, by whatever names a rate and a caller.
#[derive(Debug)]
pub struct Buckets<K> {
    full_at: Mutex<HashMap<K, Instant>>,
}

impl<K> Default for Buckets<K> {
    fn default() -> Self {
        Self { full_at: Mutex::default() }
    }
}

impl<K: Hash + Eq> Buckets<K> {
    /// Takes a token, if there is one.
    pub fn take(&self, key: K, rate: Rate, now: Instant) -> Spent {
        let mut all = self.full_at.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= BUCKETS_MAX && !all.contains_key(&key) {
            make_room(&mut all, now);
        }
        let full_at = all.entry(key).or_insert(now);
        let (spent, after) = spend(rate, *full_at, now);
        *full_at = after;
        spent
    }
}

/// What a request at `now` takes of a bucket that is full at `full_at`, and when it is full afterwards.
fn spend(rate: Rate, full_at: Instant, now: Instant) -> (Spent, Instant) {
    let interval = rate.interval();
    let lacking = full_at.saturating_duration_since(now);
    // A reload may have made the bucket smaller than what it lacks.
    let lacking = lacking.min(rate.per);
    let after = lacking + interval;
    let allowed = after <= rate.per;
    let lacking = if allowed { after } else { lacking };
    let remaining = rate.per.saturating_sub(lacking).as_nanos() / interval.as_nanos().max(1);
    let next_in = (lacking + interval).saturating_sub(rate.per);
    let spent = Spent { allowed, remaining: remaining as u64, full_in: lacking, next_in };
    (spent, now + lacking)
}

fn make_room<K: Hash + Eq>(all: &mut HashMap<K, Instant>, now: Instant) {
    all.retain(|_, full_at| *full_at > now);
    if all.len() >= BUCKETS_MAX {
        let mut moments: Vec<Instant> = all.values().copied().collect();
        let middle = moments.len() / 2;
        let (_, middle, _) = moments.select_nth_unstable(middle);
        let middle = *middle;
        all.retain(|_, full_at| *full_at > middle);
    }
    // All of them equally far: there is nobody to prefer.
    if all.len() >= BUCKETS_MAX {
        all.clear();
    }
}

/// Requests of a caller that run.
#[derive(Debug)]
pub struct Running<K> {
    counts: Mutex<HashMap<K, Arc<AtomicU64>>>,
}

impl<K> Default for Running<K> {
    fn default() -> Self {
        Self { counts: Mutex::default() }
    }
}

/// One of them, for as long as it lives.
#[derive(Debug)]
pub struct Count(Arc<AtomicU64>);

impl Drop for Count {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl<K: Hash + Eq> Running<K> {
    /// Counts one more, unless as many as `most` run already.
    pub fn begin(&self, key: K, most: u64) -> Option<Count> {
        let count = {
            let mut all = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
            if all.len() >= BUCKETS_MAX {
                // Whoever has a request that runs holds its counter.
                all.retain(|_, count| Arc::strong_count(count) > 1);
            }
            Count(all.entry(key).or_default().clone())
        };
        // Counted before it is compared, so that two at once are not both the last one.
        (count.0.fetch_add(1, Ordering::AcqRel) < most).then_some(count)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rate(text: &str) -> Rate {
        text.parse().unwrap()
    }

    #[test]
    fn a_bucket_is_used_up_and_refilled_evenly() {
        let buckets = Buckets::default();
        let start = Instant::now();
        let take = |seconds: f64| buckets.take("a", rate("60/m"), start + Duration::from_secs_f64(seconds));
        for left in (0..60).rev() {
            let spent = take(0.0);
            assert_eq!((spent.allowed, spent.remaining), (true, left));
        }
        let over = take(0.0);
        assert_eq!((over.allowed, over.remaining, over.next_in), (false, 0, Duration::from_secs(1)));
        assert_eq!(over.full_in, Duration::from_mins(1));
        assert!(!take(0.9).allowed, "a refused request takes nothing");
        assert!(take(1.0).allowed);
        assert!(!take(1.5).allowed);
        assert_eq!(take(31.0).remaining, 29);
        assert_eq!(take(1000.0).remaining, 59);
    }

    #[test]
    fn callers_do_not_share_a_bucket() {
        let (buckets, now) = (Buckets::default(), Instant::now());
        assert!(buckets.take(1, rate("1/h"), now).allowed);
        assert!(!buckets.take(1, rate("1/h"), now).allowed);
        assert!(buckets.take(2, rate("1/h"), now).allowed);
    }

    #[test]
    fn a_rate_that_a_reload_lowers_holds_at_once() {
        let (buckets, now) = (Buckets::default(), Instant::now());
        for _ in 0..50 {
            buckets.take(1, rate("100/h"), now);
        }
        let spent = buckets.take(1, rate("1/s"), now);
        assert_eq!((spent.allowed, spent.next_in), (false, Duration::from_secs(1)));
    }

    #[test]
    fn callers_without_end_take_bounded_room_and_who_is_over_stays_over() {
        let (buckets, now) = (Buckets::default(), Instant::now());
        for _ in 0..100 {
            buckets.take(u64::MAX, rate("100/h"), now);
        }
        for caller in 0..(BUCKETS_MAX as u64 + 10) {
            assert!(buckets.take(caller, rate("100/h"), now).allowed);
        }
        assert!(buckets.full_at.lock().unwrap().len() <= BUCKETS_MAX);
        assert!(!buckets.take(u64::MAX, rate("100/h"), now).allowed);
    }

    #[test]
    fn as_many_run_as_may() {
        let running = Running::default();
        let first = running.begin("a", 2);
        let second = running.begin("a", 2);
        assert!(first.is_some() && second.is_some() && running.begin("a", 2).is_none());
        assert!(running.begin("b", 2).is_some());
        drop(first);
        assert!(running.begin("a", 2).is_some());
    }

    proptest! {
        /// In any time, no more than the bucket and what was refilled meanwhile.
        #[test]
        fn never_more_than_the_rate(count in 1_u64..50, gaps in prop::collection::vec(0_u64..3_000, 1..200)) {
            let rate = Rate { count, per: Duration::from_secs(10) };
            let (buckets, start) = (Buckets::default(), Instant::now());
            let (mut at, mut allowed) = (start, 0);
            for gap in gaps {
                at += Duration::from_millis(gap);
                allowed += u64::from(buckets.take((), rate, at).allowed);
                let refilled = (at - start).as_nanos() / rate.interval().as_nanos();
                prop_assert!(allowed <= count + refilled as u64 + 1);
            }
        }
    }
}
