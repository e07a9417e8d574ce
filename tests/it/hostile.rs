//! Upstreams that misbehave: floods, bombs, endless heads and lines. Memory stays bounded and callers get an error.

use std::io::Write;
use std::sync::mpsc;

use serde_json::json;

use crate::support::{Exchange, Gateway, Upstream, chatting, chunk, delta, end, passing};

/// What a hostile answer may cost.
const BOUND: u64 = 48 << 20;

/// Has both kinds of caller talk to this upstream, and gives what became of it and the memory that it took.
fn talked(limits: &str, answer: impl Fn(&mut Exchange<'_>) + Send + Sync + 'static) -> (Vec<(u16, String)>, u64) {
    let upstream = Upstream::start(answer);
    let gateway = Gateway::start(&format!("{limits}{}", chatting(&upstream.url())));
    gateway.get("/health").ok();
    let before = gateway.memory();
    let told: Vec<_> = [gateway.talk("hi"), gateway.stream("hi")]
        .iter()
        .map(|answer| match answer.header("content-type") {
            Some("text/event-stream") => (answer.status, answer.events().names().last_chunk::<2>().unwrap().join(" ")),
            _ => (answer.status, answer.json()["error"].as_str().unwrap_or_default().to_owned()),
        })
        .collect();
    gateway.get("/health").ok();
    (told, gateway.memory().saturating_sub(before))
}

#[track_caller]
fn failed((told, memory): (Vec<(u16, String)>, u64)) {
    assert_eq!(told[0], (502, "upstream_error".into()));
    assert!([(502, "upstream_error"), (200, "error done")].contains(&(told[1].0, &told[1].1)), "{told:?}");
    assert!(memory < BOUND, "{} MiB", memory >> 20);
}

#[test]
fn a_line_that_never_ends_is_an_error() {
    failed(talked("", |exchange| {
        exchange.open_stream();
        exchange.send("data: ");
        for _ in 0..64 {
            exchange.send(vec![b'x'; 1 << 20]);
        }
    }));
}

#[test]
fn a_head_that_never_ends_is_an_error() {
    failed(talked("", |exchange| {
        exchange.close();
        exchange.send("HTTP/1.1 200 OK\r\n");
        for _ in 0..64 {
            exchange.send(format!("X-Long: {}\r\n", "x".repeat(1 << 20)));
        }
    }));
}

#[test]
fn a_reply_over_the_limit_is_an_error() {
    let answered = talked("limits: {response: 100KiB}\n", |exchange| {
        exchange.open_stream();
        for _ in 0..40 {
            exchange.send(delta(&"x".repeat(8 << 10)));
        }
        exchange.send(end("stop"));
    });
    failed(answered);
}

#[test]
fn a_gzip_bomb_is_an_error() {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(b"data: ").unwrap();
    for _ in 0..256 {
        encoder.write_all(&vec![b'x'; 1 << 20]).unwrap();
    }
    let bomb = encoder.finish().unwrap();
    failed(talked("", move |exchange| {
        exchange.answer("200 OK", "Content-Type: text/event-stream\r\nContent-Encoding: gzip", &bomb);
    }));
}

#[test]
fn an_error_page_of_any_size_is_an_error() {
    failed(talked("", |exchange| {
        exchange.close();
        exchange.send("HTTP/1.1 500 Oops\r\nContent-Type: text/html\r\n\r\n");
        for _ in 0..64 {
            exchange.send(vec![b'x'; 1 << 20]);
        }
    }));
}

#[test]
fn a_million_empty_events_end_in_an_error_or_a_reply_and_in_bounded_memory() {
    let (told, memory) = talked("", |exchange| {
        exchange.open_stream();
        let empty = chunk(&json!({"content": ""}), &json!(null)).repeat(100);
        for _ in 0..200 {
            exchange.send(&empty);
        }
        exchange.send(delta("Hi") + &end("stop"));
    });
    assert_eq!(told, [(200, String::new()), (200, "message.end done".into())]);
    assert!(memory < BOUND);
}

#[test]
fn interim_answers_without_end_are_an_error() {
    failed(talked("", |exchange| {
        exchange.close();
        for _ in 0..20_000 {
            exchange.send("HTTP/1.1 102 Processing\r\n\r\n");
        }
    }));
}

#[test]
fn bytes_after_an_answer_are_no_second_answer() {
    let (sent, all_sent) = mpsc::channel();
    let upstream = Upstream::start(move |exchange| {
        let target = exchange.request.target.clone();
        exchange.answer("200 OK", "", target.as_bytes());
        exchange.send("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\npoisoned");
        sent.send(()).unwrap();
    });
    let gateway = Gateway::start(&passing(&upstream));
    for number in 0..50 {
        let target = format!("/{number}");
        let answer = if number % 2 == 0 { gateway.get(&target) } else { gateway.post(&target, &json!({})) };
        // A connection that said more than it was asked is not used again.
        assert_eq!((answer.status, answer.text()), (200, target.as_str()));
        // Bytes that come when the next request has gone out can't be told from its answer.
        all_sent.recv().unwrap();
    }
}

#[test]
fn an_answer_with_two_framings_is_not_passed_on() {
    for head in [
        "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        "Transfer-Encoding: gzip, chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        "Content-Length: -5\r\n\r\nhello",
    ] {
        let answer = format!("HTTP/1.1 200 OK\r\n{head}");
        let upstream = Upstream::start(move |exchange| {
            exchange.send(&answer);
            exchange.close();
        });
        let gateway = Gateway::start(&passing(&upstream));
        let mut connection = gateway.connect();
        connection.send(crate::support::Call::get("/x").bytes());
        let ours = connection.head();
        let framing = |name: &&(String, String)| {
            ["content-length", "transfer-encoding"].iter().any(|known| name.0.eq_ignore_ascii_case(known))
        };
        assert!(ours.headers.iter().filter(framing).count() <= 1, "{head:?}: {ours:?}");
    }
}
