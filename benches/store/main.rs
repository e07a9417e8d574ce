//! What news cost: durable appends, reads and empty polls, of the gateway and of its store alone, beside redis-server
//! with `appendfsync always` where it is installed, and a bare loop of `fdatasync`.
//!
//! `cargo bench --bench store` measures for some minutes; `-- --smoke` only sees that everything runs. The runs are
//! interleaved and repeated, and what is printed is the median of each: a machine that is busy is busy for all of them.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::string_slice,
    reason = "a bench that can't run ends with a panic"
)]

mod contestants;
mod load;

use std::time::{Duration, Instant};

use contestants::{Disk, Gateway, Redis, Store};
use load::{Measured, Task};

/// Who is asked to do one thing, and how.
type Contest<'a> = (&'static str, Option<Task<'a>>);

fn main() {
    let smoke = std::env::args().any(|argument| argument == "--smoke");
    let (rounds, period) = if smoke { (1, Duration::from_millis(200)) } else { (5, Duration::from_secs(3)) };
    let (gateway, store, redis, disk) = (Gateway::start(), Store::open(), Redis::start(), Disk::open());
    println!("rounds: {rounds} of {} ms each, interleaved; medians", period.as_millis());
    let redis = redis.as_ref();
    let contests: [(&str, usize, Vec<Contest<'_>>); 5] = [
        (
            "durable appends, 1 writer",
            1,
            vec![
                ("gateway", Some(gateway.appends())),
                ("store", Some(store.appends())),
                ("redis", redis.map(Redis::appends)),
                ("fdatasync", Some(disk.appends())),
            ],
        ),
        (
            "durable appends, 64 writers over 1,000 feeds",
            64,
            vec![
                ("gateway", Some(gateway.appends())),
                ("store", Some(store.appends())),
                ("redis", redis.map(Redis::appends)),
            ],
        ),
        (
            "newest 20 of a feed, 1 reader",
            1,
            vec![
                ("gateway", Some(gateway.reads())),
                ("store", Some(store.reads())),
                ("redis", redis.map(Redis::reads)),
            ],
        ),
        (
            "newest 20 of a feed, 64 readers",
            64,
            vec![
                ("gateway", Some(gateway.reads())),
                ("store", Some(store.reads())),
                ("redis", redis.map(Redis::reads)),
            ],
        ),
        (
            "empty polls, 64 readers",
            64,
            vec![
                ("gateway", Some(gateway.polls())),
                ("store", Some(store.polls())),
                ("redis", redis.map(Redis::polls)),
                ("static answer", Some(gateway.statics())),
            ],
        ),
    ];
    for (name, threads, contestants) in contests {
        let mut results: Vec<Vec<Measured>> = contestants.iter().map(|_| Vec::new()).collect();
        for _ in 0..rounds {
            for ((_, task), results) in contestants.iter().zip(&mut results) {
                results.extend(task.as_ref().map(|task| load::run(task, threads, load::FEEDS, period)));
            }
        }
        println!("\n{name}");
        for ((contestant, _), results) in contestants.iter().zip(results) {
            match Measured::median(&results) {
                Some(measured) => println!("  {contestant:<14} {measured}"),
                None => println!("  {contestant:<14} not installed"),
            }
        }
    }
    much(if smoke { (1_000, 10) } else { (1_000_000, 10_000) }, period);
}

/// A gateway that starts on a store with so many items in so many feeds.
fn much((items, feeds): (usize, usize), period: Duration) {
    println!("\na store of {items} items in {feeds} feeds");
    let directory = Store::with(feeds).fill(items);
    let began = Instant::now();
    let gateway = Gateway::over(directory, feeds);
    println!("  starts in {:.0} ms", began.elapsed().as_secs_f64() * 1e3);
    for readers in [1, 64] {
        let measured = load::run(&gateway.reads(), readers, feeds, period);
        println!("  newest 20 of a feed, {readers:>2} readers {measured}");
    }
    println!("  resident: {:.0} MiB", gateway.resident());
}
