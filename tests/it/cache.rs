//! `route.cache`: how often a service is asked, and who gets an answer that was another's.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use crate::support::{Call, Exchange, Gate, Gateway, Response, Upstream, until};

/// Counts what is asked, and answers with the number and these header lines.
fn counting(status: &str, headers: &str) -> Upstream {
    let (status, headers) = (status.to_owned(), headers.to_owned());
    let count = AtomicUsize::new(0);
    Upstream::start(move |exchange: &mut Exchange<'_>| {
        let body = format!("{} {}", exchange.request.target, count.fetch_add(1, Ordering::SeqCst));
        exchange.answer(&status, &headers, body.as_bytes());
    })
}

/// A gateway with two capabilities that keep answers for an hour, and more to say of their route.
fn serving(upstream: &Upstream, route: &str) -> Gateway {
    Gateway::start(&file(upstream, route, ""))
}

fn file(upstream: &Upstream, route: &str, rest: &str) -> String {
    let url = upstream.url();
    format!(
        "limits: {{cache: 1MiB}}\n\
         agent:\n  name: T\n  talk: off\n  upstream: '{url}'\n  capabilities:\n    \
         - {{id: it, endpoint: '/it/{{*path}}', route: {{cache: 1h, {route}}}}}\n    \
         - {{id: other, endpoint: '/it', route: {{cache: 1h, path: /it, {route}}}}}\n{rest}"
    )
}

#[track_caller]
fn text(answer: &Response) -> &str {
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.text()
}

#[test]
fn the_same_request_is_asked_once_and_its_answer_says_its_age() {
    let upstream = counting("200 OK", "Content-Type: text/plain\r\nETag: \"v\"\r\nServer: x");
    let gateway = serving(&upstream, "");
    let first = gateway.get("/it/a?x=1&y=%20");
    assert_eq!((text(&first), first.header("age")), ("/it/a?x=1&y=%20 0", None));
    for _ in 0..3 {
        let again = gateway.call(&Call::get("/it/a?x=1&y=%20").header("User-Agent", "another"));
        assert_eq!(text(&again), "/it/a?x=1&y=%20 0");
        assert!(again.header("age").unwrap().parse::<u64>().unwrap() < 60);
        assert_eq!((again.header("content-type"), again.header("etag")), (Some("text/plain"), Some("\"v\"")));
        assert_eq!(again.header("content-length"), Some("17"));
        assert_ne!(again.header("x-request-id"), first.header("x-request-id"));
        assert_eq!(again.header("server"), None);
    }
    assert_eq!(upstream.requests().len(), 1);
    for other in ["/it/a?y=%20&x=1", "/it/a?x=1", "/it/b?x=1&y=%20", "/it"] {
        gateway.get(other);
    }
    assert_eq!(upstream.requests().len(), 5, "another URL is another question");
    gateway.call(&Call::get("/it").header("Accept-Language", "de"));
    gateway.call(&Call::get("/it").header("X-Tenant", "7"));
    assert_eq!(upstream.requests().len(), 7, "and so is one with another header that the service gets");
    gateway.call(&Call::get("/it").header("Host", "agents.example"));
    assert_eq!(upstream.requests().len(), 8, "the host is told to the service");
}

#[test]
fn what_shows_who_calls_is_asked_for_itself() {
    let upstream = counting("200 OK", "Content-Type: text/plain\r\nCache-Control: public, max-age=60");
    let gateway = serving(&upstream, "forward_headers: [authorization, cookie]");
    let session = "2b0f6e1c-6a3c-4d0e-8f55-0d0a3c1f9b11";
    let mut asked = 0;
    for (name, value) in [
        ("Authorization", "Bearer a-token-of-mine"),
        ("Cookie", "sid=one"),
        ("X-API-Key", "a-key-of-mine"),
        ("Restap-Session-Id", session),
        ("Signature-Input", "sig1=()"),
    ] {
        for _ in 0..2 {
            gateway.call(&Call::get("/it").header(name, value));
            asked += 1;
            assert_eq!(upstream.requests().len(), asked, "{name}");
        }
    }
    gateway.get("/it");
    assert_eq!(upstream.requests().len(), asked + 1, "and nothing of it was kept for others");
    gateway.get("/it");
    assert_eq!(upstream.requests().len(), asked + 1);
    let answer = gateway.call(&Call::get("/it").header("Authorization", "Bearer a-token-of-mine"));
    assert_eq!((answer.header("age"), upstream.requests().len()), (None, asked + 2));
}

#[test]
fn a_verified_caller_is_asked_for_itself() {
    let upstream = counting("200 OK", "");
    let access = "  access:\n    api_keys: {ci: a-long-key-of-the-tests}\n    groups: {team: ['api_key:ci']}\n    \
                  tools: {team: ['**'], everyone: ['**']}\n    default: everyone\n";
    let gateway = Gateway::start(&file(&upstream, "", access));
    let own = Call::get("/it").header("Authorization", "Bearer a-long-key-of-the-tests");
    gateway.call(&own);
    gateway.call(&own);
    assert_eq!(upstream.requests().len(), 2);
    assert_eq!(gateway.get("/it").text(), "/it 2");
    assert_eq!(gateway.get("/it").text(), "/it 2");
    assert_eq!(gateway.call(&own).text(), "/it 3");
}

#[test]
fn what_the_service_does_not_want_kept_is_not_kept() {
    for (status, headers, kept) in [
        ("200 OK", "Cache-Control: no-store", false),
        ("200 OK", "Cache-Control: private, max-age=60", false),
        ("200 OK", "Cache-Control: no-cache", false),
        ("200 OK", "Cache-Control: max-age=0", false),
        ("200 OK", "Set-Cookie: a=b", false),
        ("200 OK", "Vary: *", false),
        ("200 OK", "Content-Type: text/event-stream", false),
        ("203 Non-Authoritative Information", "", true),
        ("301 Moved Permanently", "Location: /it/there", true),
        ("302 Found", "Location: /it/there", false),
        ("404 Not Found", "", true),
        ("201 Created", "", false),
        ("400 Bad Request", "", false),
        ("429 Too Many Requests", "", false),
        ("500 Internal Server Error", "", false),
        ("503 Service Unavailable", "", false),
    ] {
        let upstream = counting(status, headers);
        let gateway = serving(&upstream, "");
        let (first, second) = (gateway.get("/it/x"), gateway.get("/it/x"));
        assert_eq!(upstream.requests().len(), if kept { 1 } else { 2 }, "{status} {headers}");
        assert_eq!((first.status, first.header("location")), (second.status, second.header("location")));
        assert_eq!(first.body == second.body, kept, "{status} {headers}");
    }
}

#[test]
fn an_answer_that_varies_is_kept_by_what_it_varies_by() {
    let upstream = counting("200 OK", "Vary: Accept, User-Agent");
    let gateway = serving(&upstream, "");
    let agent = |name: &str| gateway.call(&Call::get("/it").header("User-Agent", name)).text().to_owned();
    assert_eq!([agent("a"), agent("b"), agent("a"), agent("b")], ["/it 0", "/it 1", "/it 0", "/it 1"]);
}

#[test]
fn an_answer_ends_with_the_period_or_before_if_the_service_says_so() {
    for (route, headers) in [("cache: 1s", ""), ("cache: 1h", "Cache-Control: max-age=1")] {
        let upstream = counting("200 OK", headers);
        let gateway = Gateway::start(&file(&upstream, "", "").replace("cache: 1h", route));
        assert_eq!(gateway.get("/it").text(), "/it 0");
        let later = until("the answer ends", || {
            let text = gateway.get("/it").text().to_owned();
            (text != "/it 0").then_some(text)
        });
        assert_eq!(later, "/it 1", "{route} {headers}");
    }
}

#[test]
fn a_caller_may_want_the_answer_of_now() {
    let upstream = counting("200 OK", "");
    let gateway = serving(&upstream, "");
    let want = |value: &str| gateway.call(&Call::get("/it").header("Cache-Control", value)).text().to_owned();
    assert_eq!(gateway.get("/it").text(), "/it 0");
    assert_eq!(want("no-cache"), "/it 1");
    assert_eq!(gateway.get("/it").text(), "/it 1", "which is then the one that is kept");
    assert_eq!(want("no-store"), "/it 2");
    assert_eq!((want("max-age=60"), want("max-age=0")), ("/it 1".to_owned(), "/it 3".to_owned()));
}

#[test]
fn who_has_the_answer_is_told_so_out_of_the_cache() {
    let upstream =
        counting("200 OK", "ETag: \"v1\"\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Type: text/plain");
    let gateway = serving(&upstream, "");
    let with = |name: &str, value: &str| gateway.call(&Call::get("/it").header(name, value));
    for (name, value) in [("If-None-Match", "W/\"v1\""), ("If-Modified-Since", "Sun, 06 Nov 1994 08:49:37 GMT")] {
        let answer = with(name, value);
        assert_eq!((answer.status, answer.header("etag")), (304, Some("\"v1\"")), "{name}");
        assert_eq!((answer.header("content-type"), answer.body.len()), (None, 0));
    }
    assert_eq!(text(&with("If-None-Match", "\"v2\"")), "/it 0");
    assert_eq!(upstream.requests().len(), 1);
    assert_eq!(upstream.request().header("if-none-match"), None, "the whole answer was asked for");
    with("Range", "bytes=0-1");
    with("If-Match", "\"v1\"");
    assert_eq!(upstream.requests().len(), 3, "what asks for a part is the service's to answer");
    let uncached = counting("200 OK", "ETag: \"v1\"\r\nCache-Control: no-store");
    let gateway = serving(&uncached, "");
    for _ in 0..2 {
        assert_eq!(gateway.call(&Call::get("/it").header("If-None-Match", "\"v1\"")).status, 304);
    }
}

#[test]
fn head_has_its_own_answers() {
    let upstream = counting("200 OK", "Content-Type: text/plain");
    let gateway = serving(&upstream, "");
    assert_eq!(gateway.get("/it").text(), "/it 0");
    let head = Call::new("HEAD", "/it");
    let (first, second) = (gateway.call(&head), gateway.call(&head));
    assert_eq!((first.status, first.header("content-length"), first.header("age")), (200, Some("5"), None));
    assert_eq!((second.status, second.header("content-length"), second.body.len()), (200, Some("5"), 0));
    assert!(second.header("age").is_some());
    assert_eq!(gateway.get("/it").text(), "/it 0");
    assert_eq!(upstream.requests().len(), 2);
}

/// A service whose answers wait for a gate.
fn gated(answer: impl Fn(&mut Exchange<'_>, usize) + Send + Sync + 'static) -> (Upstream, Gate) {
    let gate = Gate::default();
    let (door, count) = (gate.clone(), AtomicUsize::new(0));
    let upstream = Upstream::start(move |exchange: &mut Exchange<'_>| {
        let number = count.fetch_add(1, Ordering::SeqCst);
        door.wait();
        answer(exchange, number);
    });
    (upstream, gate)
}

/// So many callers at once, all of whom the gateway answers by now or will.
fn crowd(gateway: &Arc<Gateway>, callers: usize) -> Vec<std::thread::JoinHandle<Response>> {
    let callers = (0..callers).map(|_| {
        let mut connection = gateway.connect();
        connection.send(Call::get("/it").bytes());
        std::thread::spawn(move || connection.response(false))
    });
    callers.collect()
}

fn waiting(gateway: &Gateway, callers: usize) {
    let line = format!("restap_requests_in_flight {callers}");
    until("all of them are asking", || gateway.admin("/metrics").1.lines().any(|it| it == line).then_some(()));
}

#[test]
fn requests_for_one_thing_become_one_request_to_the_service() {
    let (upstream, gate) = gated(|exchange, number| exchange.json(&json!({"number": number})));
    let gateway = Arc::new(serving(&upstream, ""));
    let crowd = crowd(&gateway, 12);
    waiting(&gateway, 12);
    gate.open();
    for caller in crowd {
        assert_eq!(caller.join().unwrap().ok(), json!({"number": 0}));
    }
    assert_eq!(upstream.requests().len(), 1);
    // A request is counted once its answer is out, which its caller may read before.
    let counted = until("all are counted", || {
        let metrics = gateway.admin("/metrics").1;
        let of = |outcome: &str| {
            let start =
                format!("restap_cache_requests_total{{agent=\"agent\",outcome=\"{outcome}\",route=\"other\"}} ");
            let count = metrics.lines().find_map(|line| line.strip_prefix(&start));
            count.map_or(0, |count| count.parse::<usize>().unwrap())
        };
        let counted = (of("miss"), of("collapsed") + of("hit"));
        (counted.0 + counted.1 == 12).then_some(counted)
    });
    assert_eq!(counted, (1, 11));
}

#[test]
fn a_caller_that_leaves_strands_nobody() {
    let (upstream, gate) = gated(|exchange, _| exchange.json(&json!("here")));
    let gateway = Arc::new(serving(&upstream, ""));
    let mut leader = gateway.connect();
    leader.send(Call::get("/it").bytes());
    upstream.wait_for_requests(1);
    let crowd = crowd(&gateway, 4);
    waiting(&gateway, 5);
    drop(leader);
    upstream.wait_for_requests(2);
    gate.open();
    for caller in crowd {
        assert_eq!(caller.join().unwrap().ok(), json!("here"));
    }
    assert_eq!(upstream.requests().len(), 2);
}

#[test]
fn a_failure_reaches_all_who_wait_and_is_not_kept() {
    let (upstream, gate) = gated(|exchange, number| match number {
        0 => exchange.reset(),
        _ => exchange.json(&json!("well")),
    });
    let gateway = Arc::new(serving(&upstream, ""));
    let crowd = crowd(&gateway, 4);
    waiting(&gateway, 4);
    gate.open();
    let answers: Vec<_> = crowd.into_iter().map(|caller| caller.join().unwrap()).collect();
    let (failed, well): (Vec<_>, Vec<_>) = answers.into_iter().partition(|answer| answer.status == 502);
    assert!(!failed.is_empty());
    for answer in failed {
        answer.refused(502, "upstream_error");
    }
    // Who came late has asked anew.
    for answer in well {
        assert_eq!(answer.ok(), json!("well"));
    }
    assert_eq!(gateway.get("/it").ok(), json!("well"));
}

#[test]
fn an_answer_for_one_alone_sends_the_others_to_the_service() {
    let (upstream, gate) =
        gated(|exchange, number| exchange.answer("200 OK", "Cache-Control: private", number.to_string().as_bytes()));
    let gateway = Arc::new(serving(&upstream, ""));
    let crowd = crowd(&gateway, 4);
    waiting(&gateway, 4);
    gate.open();
    let mut bodies: Vec<_> = crowd.into_iter().map(|caller| caller.join().unwrap().text().to_owned()).collect();
    bodies.sort();
    assert_eq!(bodies, ["0", "1", "2", "3"]);
}

#[test]
fn a_body_too_large_to_keep_passes_whole() {
    for chunked in [false, true] {
        let body: Vec<u8> = (0..200_000_u32).flat_map(|number| (number as u8).to_le_bytes()).collect();
        let sent = body.clone();
        let upstream = Upstream::start(move |exchange: &mut Exchange<'_>| {
            if chunked {
                exchange.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
                for part in sent.chunks(50_000) {
                    exchange.send(format!("{:x}\r\n", part.len()));
                    exchange.send(part);
                    exchange.send("\r\n");
                }
                exchange.send("0\r\n\r\n");
            } else {
                exchange.answer("200 OK", "", &sent);
            }
        });
        let gateway = serving(&upstream, "");
        for _ in 0..2 {
            assert!(gateway.get("/it").body == body);
        }
        assert_eq!(upstream.requests().len(), 2);
    }
}

#[test]
fn a_chunked_body_is_kept_and_sent_with_its_length() {
    let upstream = Upstream::start(|exchange: &mut Exchange<'_>| {
        exchange.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
    });
    let gateway = serving(&upstream, "");
    for _ in 0..2 {
        let answer = gateway.get("/it");
        assert_eq!((answer.text(), answer.header("content-length")), ("abcde", Some("5")));
    }
    assert_eq!(upstream.requests().len(), 1);
}

#[test]
fn a_body_that_breaks_off_is_neither_kept_nor_told_as_whole() {
    let count = AtomicUsize::new(0);
    let upstream = Upstream::start(move |exchange: &mut Exchange<'_>| {
        if count.fetch_add(1, Ordering::SeqCst) == 0 {
            exchange.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
            exchange.close();
        } else {
            exchange.answer("200 OK", "", b"whole");
        }
    });
    let gateway = serving(&upstream, "");
    gateway.get("/it").refused(502, "upstream_error");
    assert_eq!(gateway.get("/it").text(), "whole");
}

#[test]
fn what_a_mapping_made_is_kept_unless_it_made_an_error() {
    let count = AtomicUsize::new(0);
    let upstream = Upstream::start(move |exchange: &mut Exchange<'_>| {
        let number = count.fetch_add(1, Ordering::SeqCst);
        exchange.json(&json!({"ok": number > 0, "number": number}));
    });
    let gateway = serving(
        &upstream,
        "transform: {response: '{number, language: $headers[\"accept-language\"], agent: $headers[\"user-agent\"]}'}, \
         errors: [{when: {pointer: /ok, equals: false}, status: 404}]",
    );
    gateway.get("/it").refused(404, "not_found");
    let kept = gateway.get("/it").ok();
    assert_eq!(kept["number"], 1, "{kept}");
    assert_eq!(gateway.get("/it").ok(), kept);
    let seen = upstream.requests().len();
    let other = gateway.call(&Call::get("/it").header("User-Agent", "b")).ok();
    assert_eq!((other["agent"].as_str(), upstream.requests().len()), (Some("b"), seen + 1), "the mapping looks at it");
}

#[test]
fn a_changed_entry_of_the_file_begins_anew() {
    let upstream = counting("200 OK", "Content-Type: text/plain");
    let gateway = serving(&upstream, "");
    assert_eq!(gateway.get("/it").text(), "/it 0");
    assert_eq!(gateway.reload(&file(&upstream, "", "  version: 2.0.0\n")).0, 200);
    assert_eq!(gateway.get("/it").text(), "/it 0", "what it says of the capability is the same");
    assert_eq!(gateway.reload(&file(&upstream, "query: {a: '1'}", "")).0, 200);
    assert_eq!(gateway.get("/it").text(), "/it?a=1 1");
}

#[test]
fn a_request_that_was_answered_out_of_the_cache_is_logged_as_such() {
    let upstream = counting("200 OK", "");
    let gateway = serving(&upstream, "");
    for _ in 0..2 {
        gateway.get("/it");
    }
    gateway.call(&Call::get("/it").header("Cookie", "a=b"));
    for outcome in ["cache=miss", "cache=hit", "cache=bypass"] {
        gateway.wait_for_line(outcome);
    }
}
