//! The front door: what is not HTTP, what is too large or too slow, and what a connection is good for.

use std::io::Write;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::{Call, Gateway, Upstream, chatting, delta, end, passing};

fn plain() -> Gateway {
    Gateway::start("agent: {name: Front}\n")
}

#[test]
fn a_malformed_head_is_refused_and_its_connection_closed() {
    let gateway = plain();
    for head in [
        "GET / HTTP/1.1\nHost: a\n\n",
        "GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: user@a\r\n\r\n",
        "GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
        "CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.2\r\nHost: a\r\n\r\n",
        "GET /\u{1} HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n folded: b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost : a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nX: \0\r\n\r\n",
        "POST /news HTTP/1.1\r\nHost: a\r\nContent-Length: +3\r\n\r\n",
        "POST /news HTTP/1.1\r\nHost: a\r\nContent-Length: 3, 3\r\n\r\n",
        "POST /news HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\n",
        "POST /news HTTP/1.1\r\nHost: a\r\nContent-Length: 0x3\r\n\r\n",
        "POST /news HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
        "POST /news HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
        "POST /news HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        "POST /news HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\n\r\n",
        "POST /news HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
        "POST /news HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
        "\u{16}\u{3}\u{1}\u{2}\0\u{1}\0\u{1}\u{fc}\u{3}\u{3}\r\n\r\n",
        "hello\r\n\r\n",
    ] {
        let mut connection = gateway.connect();
        // What follows must never be taken for a request of its own.
        connection.send(format!("{head}GET /health HTTP/1.1\r\nHost: a\r\n\r\n"));
        let answer = connection.response(false);
        answer.refused(400, "bad_request");
        assert_eq!(answer.header("connection"), Some("close"), "{head:?}");
        assert!(connection.is_closed(), "{head:?}");
    }
    gateway.get("/health").ok();
}

#[test]
fn a_head_that_is_too_large_is_refused_and_its_connection_closed() {
    let gateway = plain();
    let line = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(9_000));
    let field = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "a".repeat(70_000));
    let fields = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: a\r\n".repeat(200));
    let endless = "GET /".to_owned() + &"a".repeat(20_000);
    for head in [line, field, fields, endless] {
        let mut connection = gateway.connect();
        connection.send(head);
        let answer = connection.response(false);
        answer.refused(431, "headers_too_large");
        assert!(connection.is_closed());
    }
}

#[test]
fn the_largest_head_that_is_allowed_is_served() {
    let gateway = plain();
    gateway.call(&Call::get("/health").header("X-Long", &"a".repeat(60_000))).ok();
    gateway.get(&format!("/health?{}", "a".repeat(8_000))).ok();
}

#[test]
fn a_head_that_never_ends_times_out() {
    let gateway = Gateway::start("limits: {header_timeout: 300ms}\nagent: {name: Front}\n");
    let mut connection = gateway.connect();
    connection.send("GET /health HTTP/1.1\r\nHost: a\r\nX-Slow: ");
    let began = Instant::now();
    connection.response(false).refused(408, "request_timeout");
    assert!(began.elapsed() >= Duration::from_millis(250));
    assert!(connection.is_closed());
}

#[test]
fn a_head_that_trickles_times_out_as_a_whole() {
    let gateway = Gateway::start("limits: {header_timeout: 300ms}\nagent: {name: Front}\n");
    let mut connection = gateway.connect();
    let mut writer = connection.socket.try_clone().unwrap();
    let trickle = std::thread::spawn(move || {
        // One byte at a time; each is on time, all together are not.
        while writer.write_all(b"a").is_ok() {
            std::thread::park_timeout(Duration::from_millis(20));
        }
    });
    connection.send("GET /");
    connection.response(false).refused(408, "request_timeout");
    drop(connection);
    trickle.join().unwrap();
}

#[test]
fn a_connection_that_says_nothing_is_closed_without_a_word() {
    let gateway = Gateway::start("limits: {header_timeout: 200ms}\nagent: {name: Front}\n");
    assert!(gateway.connect().is_closed());
}

#[test]
fn a_body_that_is_too_slow_times_out() {
    let gateway = Gateway::start("limits: {body_timeout: 300ms}\nagent: {name: Front}\n");
    let mut connection = gateway.connect();
    let call = Call::new("POST", "/news").header("Content-Type", "application/json").header("Content-Length", "100");
    connection.send(call.bytes());
    connection.send("{\"type\": ");
    connection.response(false).refused(408, "request_timeout");
}

#[test]
fn a_passed_body_that_pauses_too_long_times_out() {
    let upstream = Upstream::fixed("200 OK", "", "ok");
    let gateway = Gateway::start(&format!("limits: {{body_timeout: 300ms}}\n{}", passing(&upstream)));
    let mut connection = gateway.connect();
    let call = Call::new("PUT", "/x").header("Content-Type", "text/plain").header("Content-Length", "100");
    connection.send(call.bytes());
    connection.send("half");
    connection.response(false).refused(408, "request_timeout");
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let upstream = Upstream::start(|exchange| {
        let target = exchange.request.target.clone();
        exchange.answer("200 OK", "", target.as_bytes());
    });
    let gateway = Gateway::start(&passing(&upstream));
    let mut connection = gateway.connect();
    let news = Call::post("/news", &json!({"type": "t"}));
    let calls = [
        Call::get("/1"),
        Call::get("/health"),
        news,
        Call::get("/2"),
        Call::get("/.well-known/restap.json"),
        Call::get("/3"),
    ];
    connection.send(calls.iter().flat_map(Call::bytes).collect::<Vec<u8>>());
    assert_eq!(connection.response(false).text(), "/1");
    assert_eq!(connection.response(false).ok()["status"], "ok");
    assert_eq!(connection.response(false).ok()["status"], "received");
    assert_eq!(connection.response(false).text(), "/2");
    connection.response(false).ok();
    assert_eq!(connection.response(false).text(), "/3");
}

#[test]
fn a_connection_serves_one_request_after_another_also_after_errors() {
    let gateway = plain();
    let mut connection = gateway.connect();
    for _ in 0..3 {
        connection.call(&Call::get("/health")).ok();
        connection.call(&Call::get("/nothing")).refused(404, "not_found");
        connection.call(&Call::post("/news", &json!([]))).refused(400, "missing_type");
        connection.call(&Call::post("/nothing", &json!({"unread": "body"}))).refused(404, "not_found");
        connection.call(&Call::new("OPTIONS", "/news"));
    }
}

#[test]
fn a_stream_leaves_its_connection_usable() {
    let upstream = Upstream::chat(&(delta("Hi") + &end("stop")));
    let gateway = Gateway::start(&chatting(&upstream.url()));
    let mut connection = gateway.connect();
    for _ in 0..3 {
        assert_eq!(connection.call(&Call::talk("hi").streamed()).events().text(), "Hi");
    }
}

#[test]
fn a_caller_that_has_said_all_still_gets_its_answer() {
    let upstream = Upstream::fixed("200 OK", "", "ok");
    let gateway = Gateway::start(&passing(&upstream));
    for call in [Call::get("/health"), Call::post("/news", &json!({"type": "t"}))] {
        let mut connection = gateway.connect();
        connection.send(call.bytes());
        connection.socket.shutdown(std::net::Shutdown::Write).unwrap();
        connection.response(false).ok();
    }
}

#[test]
fn an_answer_of_some_length_is_packed_where_that_is_accepted() {
    let gateway = plain();
    for number in 0..10 {
        gateway.post("/news", &json!({"type": "t", "message": format!("item {number}")})).ok();
    }
    let plain = gateway.get("/news");
    let packed = gateway.call(&Call::get("/news").header("Accept-Encoding", "gzip"));
    assert_eq!((packed.gunzip(), packed.header("vary")), (plain.body.clone(), Some("Accept-Encoding")));
    assert_eq!((plain.header("content-encoding"), plain.header("vary")), (None, Some("Accept-Encoding")));
    let short = gateway.call(&Call::get("/health").header("Accept-Encoding", "gzip"));
    assert_eq!(short.header("content-encoding"), None);
}

#[test]
fn a_slash_or_another_case_at_the_end_is_another_path() {
    let gateway = plain();
    for path in
        ["/talk/", "/news/", "/health/", "/Talk", "/NEWS", "/.well-known/restap.json/", "/.well-known/RESTAP.json"]
    {
        gateway.get(path).refused(404, "not_found");
    }
}

#[test]
fn connection_close_is_kept_to() {
    let gateway = plain();
    let mut connection = gateway.connect();
    connection.call(&Call::get("/health").header("Connection", "close")).ok();
    assert!(connection.is_closed());
    let mut old = gateway.connect();
    old.send("GET /health HTTP/1.0\r\n\r\n");
    assert_eq!(old.response(false).status, 200);
    assert!(old.is_closed());
}

#[test]
fn above_the_cap_a_connection_waits_until_another_ends() {
    let gateway = Gateway::start("limits: {connections: 2}\nagent: {name: Front}\n");
    let mut first = gateway.connect();
    let mut second = gateway.connect();
    first.call(&Call::get("/health")).ok();
    second.call(&Call::get("/health")).ok();
    let mut third = gateway.connect();
    third.send(Call::get("/health").bytes());
    assert!(third.is_silent(Duration::from_millis(300)), "a third connection was served");
    drop(first);
    third.response(false).ok();
}

#[test]
fn expect_continue_is_answered_before_the_body_is_sent() {
    let gateway = plain();
    let mut connection = gateway.connect();
    let body = "{\"type\": \"t\"}";
    let head = Call::new("POST", "/news")
        .header("Content-Type", "application/json")
        .header("Expect", "100-continue")
        .header("Content-Length", &body.len().to_string());
    connection.send(head.bytes());
    assert_eq!(connection.head().status, 100);
    connection.send(body);
    connection.response(false).ok();
    connection.call(&Call::get("/health")).ok();
}

#[test]
fn what_is_refused_anyway_is_refused_instead_of_continued() {
    let gateway = plain();
    let mut connection = gateway.connect();
    let head = Call::new("POST", "/news")
        .header("Content-Type", "text/plain")
        .header("Expect", "100-continue")
        .header("Content-Length", "10");
    connection.send(head.bytes());
    connection.response(false).refused(415, "unsupported_media_type");
    assert!(connection.is_closed(), "whether the body still comes is unknown");
}

#[test]
fn a_body_that_breaks_its_chunks_is_refused() {
    let gateway = plain();
    for body in ["xyz\r\n", "-1\r\n", "5\r\nhello0\r\n\r\n", "5\nhello\r\n0\r\n\r\n", "ffffffffffffffffff\r\n"] {
        let call = Call::new("POST", "/news")
            .header("Content-Type", "application/json")
            .header("Transfer-Encoding", "chunked");
        let mut connection = gateway.connect();
        connection.send(call.body(body).bytes());
        connection.response(false).refused(400, "bad_request");
        assert!(connection.is_closed(), "{body:?}");
    }
}

#[test]
fn a_chunked_body_with_extensions_and_trailers_is_read() {
    let gateway = plain();
    let mut connection = gateway.connect();
    let body = "8;ext=\"1\"\r\n{\"type\":\r\n5\r\n \"t\"}\r\n0\r\nX-Trailer: 1\r\n\r\n";
    let call =
        Call::new("POST", "/news").header("Content-Type", "application/json").header("Transfer-Encoding", "chunked");
    connection.send(call.body(body).bytes());
    connection.response(false).ok();
    connection.call(&Call::get("/health")).ok();
}

#[test]
fn a_half_sent_body_ends_nothing_but_its_own_request() {
    let upstream = Upstream::fixed("200 OK", "", "ok");
    let gateway = Gateway::start(&passing(&upstream));
    for path in ["/news", "/x"] {
        let mut connection = gateway.connect();
        let call = Call::new("POST", path).header("Content-Type", "text/plain").header("Content-Length", "100");
        connection.send(call.bytes());
        connection.send("half");
        drop(connection);
    }
    gateway.get("/health").ok();
    assert!(upstream.open_falls_to(0, Duration::from_secs(5)), "a half request must not be kept open");
}

#[test]
fn random_bytes_never_end_the_process() {
    let gateway = plain();
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    for round in 0..60 {
        let bytes: Vec<u8> = (0..200 + round * 10)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                (state >> 32) as u8
            })
            .collect();
        let mut connection = gateway.connect();
        let _ = connection.socket.write_all(&bytes);
        let _ = connection.socket.write_all(b"\r\n\r\n");
    }
    gateway.get("/health").ok();
}
