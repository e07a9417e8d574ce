//! Requests made to be read in two ways: the right status or a closed connection, and no request that was not sent.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::support::{Call, Gateway, Upstream, passing};

/// What would be the second request, were the first one read otherwise.
const HIDDEN: &str = "GET /hidden HTTP/1.1\r\nHost: a\r\nX-Smuggled: yes\r\n\r\n";

/// Sends bytes and reads until the connection ends or rests.
fn told(gateway: &Gateway, bytes: &[u8]) -> String {
    let mut socket = TcpStream::connect(gateway.address()).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(700))).unwrap();
    socket.write_all(bytes).unwrap();
    let mut answer = Vec::new();
    let mut part = [0; 4096];
    while let Ok(count @ 1..) = socket.read(&mut part) {
        answer.extend_from_slice(&part[..count]);
    }
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn no_request_reaches_the_service_that_was_not_sent() {
    let upstream = Upstream::fixed("200 OK", "", "ok");
    let gateway =
        Gateway::start(&format!("limits: {{header_timeout: 400ms, body_timeout: 400ms}}\n{}", passing(&upstream)));
    let length = HIDDEN.len();
    let chunked = |coding: &str| format!("POST /x HTTP/1.1\r\nHost: a\r\n{coding}\r\n\r\n0\r\n\r\n{HIDDEN}");
    let both = |first: &str, second: &str| {
        format!("POST /x HTTP/1.1\r\nHost: a\r\n{first}\r\n{second}\r\n\r\n0\r\n\r\n{HIDDEN}")
    };
    let te = "Transfer-Encoding: chunked";
    let mut corpus: Vec<String> = vec![
        both(&format!("Content-Length: {}", length + 5), te),
        both(te, &format!("Content-Length: {}", length + 5)),
        both("Content-Length: 5", "Content-Length: 6"),
        both("Content-Length: 5", "Content-Length: 5"),
        both(te, "Transfer-Encoding: identity"),
        both(te, te),
        both("Transfer-Encoding: identity", te),
    ];
    for coding in [
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding: chunked, identity",
        "Transfer-Encoding: gzip, chunked",
        "Transfer-Encoding: chunked;q=1",
        "Transfer-Encoding: \"chunked\"",
        "Transfer-Encoding: chunked, chunked",
        "Transfer-Encoding:\u{b}chunked",
        "Transfer-Encoding: chun\tked",
        "Transfer-Encoding : chunked",
        " Transfer-Encoding: chunked",
        "X: y\r\n Transfer-Encoding: chunked",
        "X: y\nTransfer-Encoding: chunked",
        "X: y\rTransfer-Encoding: chunked",
        "Transfer\u{0}-Encoding: chunked",
        "Transfer-Encoding\r\n: chunked",
        "Content-Length: 0x5",
        "Content-Length: +5",
        "Content-Length: -5",
        "Content-Length: 5,5",
        "Content-Length: 5 5",
        "Content-Length: ",
        "Content-Length: 5\r\n 0",
        "Content-Length: 99999999999999999999999",
        "Content-Length: 5.0",
        "Content_Length: 5\r\nContent-Length: x",
    ] {
        corpus.push(chunked(coding));
    }
    // Chunks that two readers could cut differently.
    for body in [
        "5;x\n\r\nhello\r\n0\r\n\r\n",
        "5 \nhello\r\n0\r\n\r\n",
        "0x5\r\nhello\r\n0\r\n\r\n",
        "+5\r\nhello\r\n0\r\n\r\n",
        "-1\r\nhello\r\n0\r\n\r\n",
        "5\rhello\r\n0\r\n\r\n",
        "5\r\nhelloX\r\n0\r\n\r\n",
        "5\r\nhello0\r\n\r\n",
        "fffffffffffffffff\r\nhello\r\n0\r\n\r\n",
        "\r\nhello\r\n0\r\n\r\n",
    ] {
        corpus.push(format!("POST /x HTTP/1.1\r\nHost: a\r\n{te}\r\n\r\n{body}{HIDDEN}"));
    }
    // Targets, hosts and versions.
    for head in [
        "GET http://a/x HTTP/1.1\r\nHost: b\r\n\r\n",
        "GET //evil.example/x HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        "GET /x HTTP/1.1\r\nHost: a b\r\n\r\n",
        "GET /x HTTP/1.1\r\nHost: a\r\n\tb\r\n\r\n",
        "GET /x\tHTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /x HTTP/1.1 \r\nHost: a\r\n\r\n",
        "GET /x HTTP/01.1\r\nHost: a\r\n\r\n",
        "GET /x HTTP/2.0\r\nHost: a\r\n\r\n",
        "GET /x\r\n\r\n",
        "CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /x HTTP/1.1\r\n\r\n",
        "GET /x HTTP/1.1\r\nHost: a\r\n: empty\r\n\r\n",
        "GET /x HTTP/1.1\r\nHost: a\r\nX\u{7f}: y\r\n\r\n",
        "GET /x HTTP/1.1\r\nHost: a\r\nX: \u{1}\r\n\r\n",
    ] {
        corpus.push(format!("{head}{HIDDEN}"));
    }
    for (number, request) in corpus.iter().enumerate() {
        let answer = told(&gateway, request.as_bytes());
        let first = answer.lines().next().unwrap_or_default().to_owned();
        let fine = first.is_empty() || first.starts_with("HTTP/1.1 400") || first.starts_with("HTTP/1.1 408");
        assert!(fine, "{number}: {request:?} was answered {answer:?}");
        assert!(
            upstream.requests().iter().all(|seen| seen.target != "/hidden"),
            "{number}: {request:?} let a request through"
        );
    }
    for path in ["/x%0d%0aHost:%20b", "/x%00", "/x/%2e%2e%2f..%2f", "/..%5cx", "/%2e%2e/%2e%2e/x"] {
        gateway.get(path).refused(400, "invalid_path");
    }
    gateway.get("/health").ok();
}

#[test]
fn upgrades_and_nominations_change_nothing_of_what_is_sent_on() {
    let upstream = Upstream::fixed("200 OK", "", "ok");
    let gateway = Gateway::start(&passing(&upstream));
    for upgrade in ["websocket", "h2c, websocket", "TLS/1.2", "x"] {
        let call = Call::get("/x").header("Connection", "Upgrade").header("Upgrade", upgrade);
        gateway.call(&call).refused(501, "upgrade_not_supported");
    }
    let h2c = Call::get("/x")
        .header("Connection", "Upgrade, HTTP2-Settings")
        .header("Upgrade", "h2c")
        .header("HTTP2-Settings", "AAMAAABkAAQAAP__");
    assert_eq!(gateway.call(&h2c).status, 200);
    let seen = upstream.last();
    assert!(seen.header("upgrade").is_none() && seen.header("http2-settings").is_none());
    // What frames a body can't be nominated away.
    let call = Call::new("PUT", "/x").header("Connection", "content-length, x-request-id").body("hello");
    assert_eq!(gateway.call(&call).status, 200);
    assert_eq!(
        (upstream.last().body.as_slice(), upstream.last().header("host").is_some()),
        (b"hello".as_slice(), true)
    );
}

#[test]
fn heads_without_end_are_cut_off() {
    let upstream = Upstream::fixed("200 OK", "", "ok");
    let gateway = Gateway::start(&passing(&upstream));
    let fields = "X: y\r\n".repeat(20_000);
    let long = format!("X: {}\r\n", "y".repeat(100_000));
    for head in [fields, long] {
        let answer = told(&gateway, format!("GET /x HTTP/1.1\r\nHost: a\r\n{head}").as_bytes());
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer:?}");
    }
    assert!(upstream.requests().is_empty());
}

#[test]
fn three_thousand_slow_callers_do_not_stop_a_fast_one() {
    let upstream = Upstream::fixed("200 OK", "", "ok");
    let gateway =
        Gateway::start(&format!("limits: {{header_timeout: 30s, body_timeout: 30s}}\n{}", passing(&upstream)));
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let count = limit.map_or(3_000, |limit| usize::try_from(limit).unwrap_or(3_000).saturating_sub(200).min(3_000));
    if count < 3_000 {
        eprintln!("only {count} slow callers: this system lets a process open {limit:?} files");
    }
    let beginnings = [
        "GET /x HTTP/1.1\r\nHost: a\r\nX: ",
        "POST /x HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
        "G",
    ];
    let slow: Vec<TcpStream> = (0..count)
        .map(|number| {
            let mut socket = TcpStream::connect(gateway.address()).unwrap();
            socket.write_all(beginnings[number % beginnings.len()].as_bytes()).unwrap();
            socket
        })
        .collect();
    let began = Instant::now();
    for _ in 0..20 {
        assert_eq!(gateway.get("/x").status, 200);
    }
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    assert_eq!(upstream.requests().len(), 20);
    drop(slow);
}
