//! Rate counters.

use std::time::Duration;

use super::{Bench, limits};
use crate::store::engine::Limits;
use crate::store::{Allowance, Rate, RateKey, Store};

const MINUTE: Duration = Duration::from_mins(1);

fn key(store: &Store, caller: &str) -> RateKey {
    store.keys().rate(store.a(), "everyone", Some(store.keys().caller(caller)))
}

fn allowed(remaining: u64) -> Allowance {
    Allowance { allowed: true, remaining, again: Duration::ZERO }
}

fn last(again: u64) -> Allowance {
    Allowance { allowed: true, remaining: 0, again: Duration::from_millis(again) }
}

fn refused(again: u64) -> Allowance {
    Allowance { allowed: false, remaining: 0, again: Duration::from_millis(again) }
}

pub(crate) async fn a_rate_takes_so_many_at_once_and_gives_them_back_evenly(bench: Bench) {
    let store = bench.store();
    let (rate, caller) = (Rate::new(3, MINUTE), key(&store, "a"));
    for expected in [allowed(2), allowed(1), last(20_000), refused(20_000)] {
        assert_eq!(store.spend(caller, rate).await, Ok(expected));
    }
    bench.clock.forward(Duration::from_millis(19_999));
    assert_eq!(store.spend(caller, rate).await, Ok(refused(1)));
    bench.clock.forward(Duration::from_millis(1));
    assert_eq!(store.spend(caller, rate).await, Ok(last(20_000)));
    bench.clock.forward(Duration::from_hours(1));
    assert_eq!(store.spend(caller, rate).await, Ok(allowed(2)), "no more than a burst comes back");
    // A rate that does not divide its period gives back neither more nor less.
    let (rate, caller) = (Rate::new(7, Duration::from_secs(1)), key(&store, "b"));
    let mut taken = 0;
    for _ in 0..10_000 {
        taken += u32::from(store.spend(caller, rate).await.unwrap().allowed);
        bench.clock.forward(Duration::from_millis(3));
    }
    assert_eq!(taken, 7 + 30 * 7 - 1);
}

pub(crate) async fn a_rate_is_counted_by_all_who_share_the_store(bench: Bench) {
    let (one, two) = (bench.store(), bench.store());
    let rate = Rate::new(4, MINUTE);
    assert_eq!(one.spend(key(&one, "a"), rate).await, Ok(allowed(3)));
    assert_eq!(two.spend(key(&two, "a"), rate).await, Ok(allowed(2)));
    assert_eq!(two.spend(key(&two, "b"), rate).await, Ok(allowed(3)));
    let mut spending = tokio::task::JoinSet::new();
    for index in 0..20 {
        let store = if index % 2 == 0 { one.clone() } else { two.clone() };
        spending.spawn(async move { store.spend(key(&store, "c"), rate).await.unwrap().allowed });
    }
    let taken = spending.join_all().await.into_iter().filter(|allowed| *allowed).count();
    assert_eq!(taken, 4);
}

pub(crate) async fn a_clock_that_steps_back_locks_nobody_out(bench: Bench) {
    let store = bench.store();
    let (rate, caller) = (Rate::new(1, Duration::from_secs(1)), key(&store, "a"));
    assert_eq!(store.spend(caller, rate).await, Ok(last(1_000)));
    bench.clock.back(Duration::from_hours(1));
    assert_eq!(store.spend(caller, rate).await, Ok(refused(1_000)));
    bench.clock.forward(Duration::from_secs(1));
    assert_eq!(store.spend(caller, rate).await, Ok(last(1_000)));
}

pub(crate) async fn counters_are_bounded_and_those_in_use_stay(bench: Bench) {
    let store = (bench.open)(Limits { rates: 4, ..limits() });
    let rate = Rate::new(2, MINUTE);
    for _ in 0..3 {
        store.spend(key(&store, "busy"), rate).await.unwrap();
    }
    for other in 0..50 {
        store.spend(key(&store, &other.to_string()), rate).await.unwrap();
    }
    assert_eq!(store.spend(key(&store, "busy"), rate).await, Ok(refused(30_000)));
    let mut forgotten = 0;
    for other in 0..50 {
        let again = store.spend(key(&store, &other.to_string()), rate).await.unwrap();
        forgotten += usize::from(again == allowed(1));
    }
    assert!(forgotten >= 46, "{forgotten}");
}
