//! Streams that are left at any moment leave nothing behind.

use std::net::Shutdown;
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;

use crate::support::{Call, Connection, Exchange, Gateway, PATIENCE, Upstream, chatting, delta, end, until};

/// How many, unless `RESTAP_ABANDONED_STREAMS` says otherwise.
const STREAMS: u64 = 2_000;

/// Callers at once.
const CALLERS: u64 = 8;

/// What memory may grow by after the first tenth: less than 5 KiB a stream of the whole run.
const GROWTH_MAX: u64 = 10 << 20;

/// Numbers that look random and are the same in every run.
struct Moments(u64);

impl Moments {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// Says something, and goes on until it is left or done.
fn talkative(exchange: &mut Exchange<'_>) {
    exchange.open_stream();
    exchange.connection.socket.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    for _ in 0..12 {
        exchange.send(delta("some words of a reply "));
        if exchange.wait_until_left() {
            return;
        }
    }
    exchange.send(end("stop"));
}

/// Sends a part of a request, or all of it and reads some of the answer, then leaves in one of several ways.
fn abandon(gateway: &Gateway, moments: &mut Moments) {
    let mut connection = gateway.connect();
    let call = Call::talk("hi").streamed().header("Idempotency-Key", &format!("k-{}", moments.below(u64::MAX)));
    let bytes = call.bytes();
    if moments.below(5) == 0 {
        let sent = moments.below(bytes.len() as u64) as usize;
        connection.send(&bytes[..sent]);
    } else {
        connection.send(&bytes);
        if moments.below(4) > 0 && connection.head().status == 200 {
            for _ in 0..moments.below(8) {
                if !matches!(connection.try_chunk(), Ok(Some(_))) {
                    break;
                }
            }
        }
    }
    leave(&connection, moments);
}

fn leave(connection: &Connection, moments: &mut Moments) {
    match moments.below(3) {
        0 => set_socket_linger(&connection.socket, Some(Duration::ZERO)).unwrap(),
        1 => drop(connection.socket.shutdown(Shutdown::Both)),
        _ => {}
    }
}

fn abandon_many(gateway: &Gateway, streams: u64, seed: u64) {
    std::thread::scope(|scope| {
        for caller in 0..CALLERS {
            scope.spawn(move || {
                let mut moments = Moments(seed * 1_000 + caller + 1);
                for _ in 0..streams / CALLERS {
                    abandon(gateway, &mut moments);
                }
            });
        }
    });
}

fn all_is_quiet(gateway: &Gateway, upstream: &Upstream) {
    assert!(upstream.open_falls_to(0, PATIENCE), "connections to the upstream stay open");
    until("no stream is counted", || {
        let (_, metrics) = gateway.admin("/metrics");
        let gauge = metrics.lines().find(|line| line.starts_with("restap_talk_streams{")).map(str::to_owned);
        gauge.is_none_or(|gauge| gauge.ends_with(" 0")).then_some(())
    });
}

#[test]
fn abandoned_streams_leave_no_connection_no_count_and_no_memory() {
    let streams = std::env::var("RESTAP_ABANDONED_STREAMS").map_or(STREAMS, |number| number.parse().unwrap());
    let upstream = Upstream::start(talkative);
    let file = format!("log: {{level: error, access: false}}\n{}", chatting(&upstream.url()));
    let gateway = Gateway::start(&file);
    abandon_many(&gateway, streams / 10, 1);
    all_is_quiet(&gateway, &upstream);
    let before = gateway.memory();
    abandon_many(&gateway, streams - streams / 10, 2);
    all_is_quiet(&gateway, &upstream);
    let grown = gateway.memory().saturating_sub(before);
    assert!(upstream.requests().len() as u64 > streams / 2, "{} requests came", upstream.requests().len());
    assert!(grown < GROWTH_MAX.max(streams * 1024), "{grown} bytes more after {streams} streams");
    assert_eq!(gateway.stream("still there?").events().names().last(), Some(&"done"));
}
