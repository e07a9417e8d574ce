//! Callers that leave or read slowly: the upstream ends with them, and memory stays bounded.

use std::io::{ErrorKind, Write};
use std::sync::Arc;
use std::time::Duration;

use crate::support::{Call, Exchange, Gate, Gateway, PATIENCE, Upstream, Watched, chatting, chatting_with, delta};

/// How soon an upstream must be let go of.
const SOON: Duration = Duration::from_millis(250);

/// More than kernel buffers hold on both sides of the gateway.
const FLOOD: u64 = 64 << 20;

/// Sends text until the gateway takes no more for a while, and tells how much it took.
fn flood(exchange: &mut Exchange<'_>, taken: &Watched<u64>) {
    exchange.open_stream();
    let frame = delta(&"x".repeat(8 << 10));
    exchange.connection.socket.set_write_timeout(Some(Duration::from_millis(700))).unwrap();
    let mut sent = 0;
    let error = loop {
        match exchange.connection.socket.write(frame.as_bytes()) {
            Ok(count) => sent += count as u64,
            Err(error) => break error,
        }
        if sent > FLOOD {
            break ErrorKind::WriteZero.into();
        }
    };
    if error.kind() == ErrorKind::WouldBlock {
        taken.change(|taken| *taken = sent);
        exchange.wait_until_left();
    } else {
        taken.change(|taken| *taken = u64::MAX);
    }
}

/// A service that begins an answer and then says nothing until its caller leaves.
fn half_an_answer() -> Upstream {
    Upstream::start(|exchange| {
        exchange.open_stream();
        exchange.send(delta("Half"));
        exchange.wait_until_left();
    })
}

#[test]
fn a_caller_that_leaves_in_mid_stream_ends_the_upstream() {
    let upstream = half_an_answer();
    let gateway = Gateway::start(&chatting(&upstream.url()));
    let mut stream = gateway.open(&Call::talk("hi").streamed());
    stream.next().unwrap();
    drop(stream);
    assert!(upstream.open_falls_to(0, SOON));
}

#[test]
fn a_caller_that_leaves_before_the_first_token_ends_the_upstream() {
    for streamed in [true, false] {
        let upstream = Upstream::start(|exchange| {
            exchange.wait_until_left();
        });
        let gateway = Gateway::start(&chatting(&upstream.url()));
        let mut connection = gateway.connect();
        let call = Call::talk("hi");
        connection.send(if streamed { call.streamed() } else { call }.bytes());
        upstream.wait_for_requests(1);
        drop(connection);
        assert!(upstream.open_falls_to(0, SOON), "streamed: {streamed}");
    }
}

#[test]
fn a_caller_that_resets_ends_the_upstream() {
    let upstream = half_an_answer();
    let gateway = Gateway::start(&chatting(&upstream.url()));
    let mut stream = gateway.open(&Call::talk("hi").streamed());
    stream.next().unwrap();
    rustix::net::sockopt::set_socket_linger(&stream.connection.socket, Some(Duration::ZERO)).unwrap();
    drop(stream);
    assert!(upstream.open_falls_to(0, SOON));
}

#[test]
fn an_upstream_that_never_pauses_hides_neither_its_caller_nor_the_clock() {
    let blank = "\n".repeat(64 << 10);
    let upstream = Upstream::start(move |exchange| {
        exchange.open_stream();
        exchange.connection.socket.set_write_timeout(Some(PATIENCE)).unwrap();
        while exchange.connection.socket.write_all(blank.as_bytes()).is_ok() {}
    });
    let gateway = Gateway::start(&chatting_with(&upstream.url(), "timeout: {progress: 1s}", ""));
    let mut connection = gateway.connect();
    connection.send(Call::talk("hi").bytes());
    upstream.wait_for_requests(1);
    drop(connection);
    assert!(upstream.open_falls_to(0, SOON));
    gateway.talk("hi").refused(504, "upstream_timeout");
    assert!(upstream.open_falls_to(0, SOON));
}

#[test]
fn a_caller_that_leaves_the_queue_gives_up_its_place() {
    let gate = Gate::default();
    let held = gate.clone();
    let upstream = Upstream::start(move |exchange| {
        held.wait();
        exchange.stream(&(delta("ok") + &crate::support::end("stop")));
    });
    let gateway = Gateway::start(&chatting(&upstream.url()));
    let turn = |message: &str| Call::talk(message).session("sess_0123456789abcdef");
    let mut first = gateway.connect();
    first.send(turn("first").bytes());
    upstream.wait_for_requests(1);
    for _ in 0..12 {
        let mut waiting = gateway.connect();
        waiting.send(turn("waiting").bytes());
        // Some are told that the session is busy; the others wait, and leave.
        drop(waiting);
    }
    gateway.wait_for_lines(" POST /talk ", 12);
    gate.open();
    assert_eq!(first.response(false).status, 200);
    gateway.call(&turn("last")).ok();
}

#[test]
fn a_caller_that_reads_nothing_stops_its_upstream() {
    let taken = Arc::new(Watched::<u64>::default());
    let told = taken.clone();
    let upstream = Upstream::start(move |exchange| flood(exchange, &told));
    let gateway = Gateway::start(&chatting(&upstream.url()));
    gateway.get("/health").ok();
    let before = gateway.memory();
    let _stalled = gateway.open(&Call::talk("hi").streamed());
    let taken = taken.wait(PATIENCE, |taken| (*taken > 0).then_some(*taken)).expect("the flood never stopped");
    assert!(taken < FLOOD / 2, "{taken} bytes were taken for a caller that reads nothing");
    assert!(gateway.memory() < before + (8 << 20), "{} before, {} now", before, gateway.memory());
}

#[test]
fn a_thousand_slow_readers_stay_within_bounds() {
    const READERS: usize = 1_000;
    let full = Arc::new(Watched::<usize>::default());
    let told = full.clone();
    let upstream = Upstream::start(move |exchange| {
        exchange.open_stream();
        for _ in 0..8 {
            exchange.send(delta(&"x".repeat(8 << 10)));
        }
        told.change(|full| *full += 1);
        exchange.wait_until_left();
    });
    let gateway = Gateway::start(&chatting(&upstream.url()));
    gateway.get("/health").ok();
    let before = gateway.memory();
    let mut readers: Vec<_> = (0..READERS)
        .map(|_| {
            let mut connection = gateway.connect();
            connection.send(Call::talk("hi").streamed().bytes());
            connection
        })
        .collect();
    full.wait(PATIENCE, |full| (*full >= READERS).then_some(())).expect("not every stream came up");
    for reader in &mut readers {
        assert_eq!(reader.head().status, 200);
    }
    gateway.call(&Call::talk("one more").streamed()).refused(503, "too_many_streams");
    let each = gateway.memory().saturating_sub(before) / READERS as u64;
    // Three buffers of 64 KiB on the way, and the reply so far, which the session remembers.
    assert!(each < 400 << 10, "{} KiB a slow reader", each >> 10);
    drop(readers);
    assert!(upstream.open_falls_to(0, PATIENCE));
    gateway.get("/health").ok();
}
