//! What news cost: durable appends, reads and empty polls, of the gateway and of its store alone, beside redis-server
//! with `appendfsync always` where it is installed, and a bare loop of `fdatasync`.
//!
//! `cargo bench --bench store` measures for some minutes; `-- --smoke` only sees that everything runs. The runs are
//! interleaved and repeated, and what is printed is the median of each: a machine that is busy is busy for all of them.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::string_slice,
    reason = "a bench that can't run ends with a panic"
)]

mod contestants;
mod load;
#[path = "../../tests/servers.rs"]
mod servers;

use std::time::{Duration, Instant};

use contestants::{Disk, Gateway, Redis, Store};
use load::{Measured, Task};
use servers::Server;

/// Who is asked to do one thing, and how.
type Contest<'a> = (&'static str, Option<Task<'a>>);

fn main() {
    let smoke = std::env::args().any(|argument| argument == "--smoke");
    let (rounds, period) = if smoke { (1, Duration::from_millis(200)) } else { (8, Duration::from_secs(2)) };
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
        for round in 0..rounds {
            // Another one begins each time: a disk may be slower for who comes later.
            for turn in 0..contestants.len() {
                let place = (round + turn) % contestants.len();
                let task = contestants[place].1.as_ref();
                results[place].extend(task.map(|task| load::run(task, threads, load::FEEDS, period)));
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
    shared(rounds, period);
    much(if smoke { (1_000, 10) } else { (1_000_000, 10_000) }, period);
}

/// One gateway and several, on one server that they share; all of them on this machine.
fn shared(rounds: usize, period: Duration) {
    let durable = ["--appendonly", "yes", "--appendfsync", "always"];
    for server in [Server::postgres(&[]), Server::redis(&durable)].into_iter().flatten() {
        for count in [1, 3] {
            println!("\n{count} gateways on {}, 64 callers over 1,000 feeds", server.scheme());
            let gateways: Vec<Gateway> = (0..count).map(|_| Gateway::on(&server)).collect();
            let all = |task: fn(&Gateway) -> Task<'_>| contestants::together(gateways.iter().map(task).collect());
            for (name, all) in [
                ("durable appends", all(Gateway::appends)),
                ("newest 20", all(Gateway::reads)),
                ("empty polls", all(Gateway::polls)),
            ] {
                let results: Vec<Measured> = (0..rounds).map(|_| load::run(&all, 64, load::FEEDS, period)).collect();
                println!("  {name:<16} {}", Measured::median(&results).unwrap());
            }
        }
    }
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
