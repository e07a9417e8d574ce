//! Bytes that only pass: large bodies in flat memory, early answers, connections that went stale.

use std::io::{Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::{Call, Gate, Gateway, Upstream, chatting, delta, end, passing};

/// Bytes of a large body: 256 MiB, or 1 GiB where `RESTAP_TEST_LARGE=1`.
fn large() -> u64 {
    if std::env::var("RESTAP_TEST_LARGE").is_ok_and(|value| value == "1") { 1 << 30 } else { 256 << 20 }
}

/// What the gateway may need for a body of any size.
const FLAT: u64 = 24 << 20;

#[test]
fn a_large_upload_streams_in_flat_memory() {
    let upstream = Upstream::start(|exchange| {
        let length = exchange.request.length;
        exchange.answer("200 OK", "", length.to_string().as_bytes());
    });
    let gateway = Gateway::start(&passing(&upstream));
    gateway.get("/health").ok();
    let before = gateway.memory();
    let mut connection = gateway.connect();
    let head = Call::new("PUT", "/x").header("Content-Type", "application/octet-stream");
    connection.send(head.header("Content-Length", &large().to_string()).bytes());
    let part = vec![7; 1 << 20];
    let mut most = before;
    for _ in 0..large() >> 20 {
        connection.send(&part);
        most = most.max(gateway.memory());
    }
    assert_eq!(connection.response(false).text(), large().to_string());
    assert!(most < before + FLAT, "{before} bytes before, {most} at most");
}

#[test]
fn a_large_chunked_download_streams_in_flat_memory() {
    let upstream = Upstream::start(|exchange| {
        exchange
            .send("HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
        let part = [b"100000\r\n".as_slice(), &vec![7; 1 << 20], b"\r\n"].concat();
        for _ in 0..large() >> 20 {
            exchange.send(&part);
        }
        exchange.send("0\r\n\r\n");
    });
    let gateway = Gateway::start(&passing(&upstream));
    gateway.get("/health").ok();
    let before = gateway.memory();
    let mut connection = gateway.connect();
    connection.send(Call::get("/x").bytes());
    assert_eq!(connection.head().status, 200);
    let (mut received, mut most, mut look) = (0, before, 0);
    while let Some(chunk) = connection.chunk() {
        received += chunk.len() as u64;
        if received > look {
            most = most.max(gateway.memory());
            look = received + (1 << 20);
        }
    }
    assert_eq!(received, large());
    assert!(most < before + FLAT, "{before} bytes before, {most} at most");
}

#[test]
fn an_upload_that_nobody_reads_stops() {
    let gate = Gate::default();
    let held = gate.clone();
    let upstream = Upstream::accept(move |connection| {
        connection.head();
        held.wait();
    });
    let gateway = Gateway::start(&passing(&upstream));
    let mut connection = gateway.connect();
    let head = Call::new("PUT", "/x").header("Content-Type", "application/octet-stream");
    connection.send(head.header("Content-Length", &(1u64 << 30).to_string()).bytes());
    connection.socket.set_write_timeout(Some(Duration::from_millis(700))).unwrap();
    let part = vec![7; 1 << 20];
    let taken = (0..64).take_while(|_| connection.socket.write_all(&part).is_ok()).count();
    gate.open();
    assert!(taken < 64, "{taken} MiB were taken for a service that reads nothing");
}

#[test]
fn an_early_answer_reaches_a_caller_that_is_still_sending() {
    let upstream = Upstream::accept(|connection| {
        connection.head();
        let refusal = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno";
        connection.socket.write_all(refusal).unwrap();
    });
    let gateway = Gateway::start(&passing(&upstream));
    let mut connection = gateway.connect();
    let head = Call::new("PUT", "/x").header("Content-Type", "application/octet-stream");
    connection.send(head.header("Content-Length", "4000000").bytes());
    let mut writer = connection.socket.try_clone().unwrap();
    let sending = std::thread::spawn(move || drop(writer.write_all(&vec![7; 4_000_000])));
    let answer = connection.response(false);
    assert_eq!((answer.status, answer.text()), (403, "no"));
    sending.join().unwrap();
}

#[test]
fn an_event_stream_of_the_service_passes_as_it_comes() {
    let gate = Gate::default();
    let held = gate.clone();
    let upstream = Upstream::start(move |exchange| {
        exchange.open_stream();
        exchange.send("event: theirs\ndata: 1\n\n");
        held.wait();
        exchange.send("data: 2\n\n");
    });
    let gateway = Gateway::start(&passing(&upstream));
    let mut connection = gateway.connect();
    connection.send(Call::get("/events").header("Accept", "text/event-stream").bytes());
    assert_eq!(connection.head().header("content-type"), Some("text/event-stream"));
    assert_eq!(connection.chunk().unwrap(), b"event: theirs\ndata: 1\n\n");
    gate.open();
    assert_eq!(connection.chunk().unwrap(), b"data: 2\n\n");
    assert!(connection.chunk().is_none());
}

#[test]
fn a_caller_that_leaves_ends_a_passed_call() {
    let upstream = Upstream::start(|exchange| {
        exchange.open_stream();
        exchange.send("data: 1\n\n");
        exchange.wait_until_left();
    });
    let gateway = Gateway::start(&passing(&upstream));
    let mut connection = gateway.connect();
    connection.send(Call::get("/events").bytes());
    connection.head();
    connection.chunk();
    drop(connection);
    assert!(upstream.open_falls_to(0, Duration::from_millis(500)));
}

#[test]
fn expect_continue_and_interim_answers_pass() {
    let upstream = Upstream::start(|exchange| {
        assert_eq!(exchange.request.header("expect"), Some("100-continue"));
        exchange.send("HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\nServer: hidden\r\n\r\n");
        let body = exchange.request.body.clone();
        exchange.answer("200 OK", "", &body);
    });
    let gateway = Gateway::start(&passing(&upstream));
    let mut connection = gateway.connect();
    let head = Call::new("PUT", "/x").header("Expect", "100-continue").header("Content-Length", "4");
    connection.send(head.bytes());
    assert_eq!(connection.head().status, 100);
    connection.send("body");
    let hints = connection.head();
    assert_eq!((hints.status, hints.header("server")), (103, None));
    assert!(hints.header("link").is_some());
    assert_eq!(connection.response(false).text(), "body");
}

#[test]
fn a_pooled_connection_that_went_stale_is_replaced_without_a_word() {
    let upstream = Upstream::start(|exchange| {
        exchange.answer("200 OK", "", b"ok");
        // Closed without having said so: the pool still believes in it.
        exchange.close();
    });
    let gateway = Gateway::start(&passing(&upstream));
    let mut connection = gateway.connect();
    for _ in 0..20 {
        assert_eq!(connection.call(&Call::get("/x")).text(), "ok");
    }
    assert_eq!(upstream.requests().len(), 20);
}

#[test]
fn a_talks_connection_that_went_stale_is_replaced_without_a_word() {
    let upstream = Upstream::start(|exchange| {
        exchange.stream(&(delta("ok") + &end("stop")));
        exchange.close();
    });
    let gateway = Gateway::start(&chatting(&upstream.url()));
    let mut connection = gateway.connect();
    for _ in 0..20 {
        assert_eq!(connection.call(&Call::talk("hi")).ok()["reply"], "ok");
    }
    assert_eq!(upstream.requests().len(), 20);
}

#[test]
fn a_connection_that_stays_whole_is_used_again() {
    let upstream = Upstream::fixed("200 OK", "", "ok");
    let gateway = Gateway::start(&passing(&upstream));
    let mut connection = gateway.connect();
    for _ in 0..10 {
        assert_eq!(connection.call(&Call::get("/x")).text(), "ok");
    }
    assert_eq!(upstream.accepted(), 1);
}

#[test]
fn a_post_that_may_have_been_seen_is_not_sent_again() {
    static SEEN: AtomicUsize = AtomicUsize::new(0);
    let upstream = Upstream::start(|exchange| {
        if SEEN.fetch_add(1, Ordering::SeqCst) == 0 {
            exchange.answer("200 OK", "", b"ok");
        } else {
            exchange.reset();
        }
    });
    let gateway = Gateway::start(&passing(&upstream));
    let post = Call::new("POST", "/x").header("Content-Type", "text/plain").body("once");
    assert_eq!(gateway.call(&post).text(), "ok");
    gateway.call(&post).refused(502, "upstream_error");
    assert_eq!(upstream.requests().len(), 2);
}

#[test]
fn an_http_1_0_caller_gets_a_stream_that_ends_with_its_connection() {
    let upstream = Upstream::chat(&(delta("Hi") + &end("stop")));
    let gateway = Gateway::start(&chatting(&upstream.url()));
    let body = "{\"message\": \"hi\"}";
    let mut connection = gateway.connect();
    connection.send(format!(
        "POST /talk HTTP/1.0\r\nAccept: text/event-stream\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ));
    let mut answer = String::new();
    connection.socket.read_to_string(&mut answer).unwrap();
    let (head, events) = answer.split_once("\r\n\r\n").unwrap();
    assert!(!head.to_ascii_lowercase().contains("transfer-encoding"), "{head}");
    assert_eq!(crate::support::Events::parse(events).text(), "Hi");
}
