//! How often callers may ask: buckets of their own, what answers say of them, and pollers that ask too often.

use serde_json::json;

use crate::support::{Call, Gate, Gateway, Response, Upstream, passing};

const ONE: &str = "first-caller-0123456789";
const TWO: &str = "second-caller-0123456789";

fn limited(upstream: &Upstream, rate: &str) -> String {
    format!(
        "{}  access:\n    api_keys: {{one: {ONE}, two: {TWO}}}\n    groups: {{known: [\"api_key:*\"]}}\n    rate: {rate}\n",
        passing(upstream)
    )
}

fn by(key: &str, call: Call) -> Call {
    call.header("X-API-Key", key)
}

fn number(answer: &Response, header: &str) -> u64 {
    answer.header(header).unwrap_or_else(|| panic!("{header} is missing")).parse().unwrap()
}

#[test]
fn over_its_rate_a_caller_is_told_when_to_come_back() {
    let upstream = Upstream::fixed("200 OK", "", "ok");
    let gateway = Gateway::start(&limited(&upstream, "{known: 3/h, everyone: 2/h}"));
    for left in (0..3).rev() {
        let answer = gateway.call(&by(ONE, Call::get("/x")));
        assert_eq!(
            (answer.status, number(&answer, "ratelimit-limit"), number(&answer, "ratelimit-remaining")),
            (200, 3, left)
        );
        assert_eq!(answer.header("ratelimit-policy"), Some("3;w=3600"));
        assert!((1200 * (2 - left)..=1200 * (3 - left)).contains(&number(&answer, "ratelimit-reset")));
        assert_eq!(answer.header("retry-after"), None);
    }
    let over = gateway.call(&by(ONE, Call::get("/x")));
    over.refused(429, "rate_limited");
    assert!((1..=1200).contains(&number(&over, "retry-after")));
    assert_eq!(number(&over, "ratelimit-remaining"), 0);
    // Nobody else has less for it, and all who are nobody share one bucket.
    assert_eq!(gateway.call(&by(TWO, Call::get("/x"))).status, 200);
    for status in [200, 200, 429] {
        assert_eq!(gateway.get("/x").status, status);
    }
    assert_eq!(upstream.requests().len(), 6);
    // What is open to all counts for nothing.
    for path in ["/health", "/.well-known/restap.json"] {
        let answer = gateway.call(&by(ONE, Call::get(path)));
        assert_eq!((answer.status, answer.header("ratelimit-limit")), (200, None));
    }
}

#[test]
fn a_bucket_is_refilled_evenly() {
    let upstream = Upstream::fixed("200 OK", "", "ok");
    let gateway = Gateway::start(&limited(&upstream, "{everyone: 5/s}"));
    let mut refused = 0;
    let began = std::time::Instant::now();
    let mut served = 0;
    while served < 15 {
        match gateway.get("/x").status {
            200 => served += 1,
            429 => refused += 1,
            other => panic!("{other}"),
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    // Five at once, then one in 200 ms.
    assert!(began.elapsed() >= std::time::Duration::from_millis(1_900), "{:?}", began.elapsed());
    assert!(refused > 0);
}

#[test]
fn a_reader_of_news_that_asks_too_often_finds_nothing_new_and_is_told_to_wait() {
    let upstream = Upstream::fixed("200 OK", "", "ok");
    let gateway = Gateway::start(&limited(&upstream, "{everyone: 2/h, known: 100/h}"));
    gateway.call(&by(ONE, Call::post("/news", &json!({"type": "note"})))).ok();
    for _ in 0..2 {
        assert_eq!(gateway.get("/news").ok()["items"].as_array().unwrap().len(), 1);
    }
    for (target, timestamp) in
        [("/news", 0), ("/news?since=0", 0), ("/news?since=17", 17), ("/news?since=17&limit=5", 17)]
    {
        let answer = gateway.get(target);
        assert!(number(&answer, "retry-after") >= 1);
        let page = answer.ok();
        assert_eq!((&page["items"], &page["timestamp"]), (&json!([]), &json!(timestamp)), "{target}");
    }
    // Its mistakes are still told, and its posts are refused.
    gateway.get("/news?since=x").refused(400, "invalid_since");
    gateway.post("/news", &json!({"type": "note"})).refused(429, "rate_limited");
}

#[test]
fn a_capability_may_have_a_rate_of_its_own() {
    let upstream = Upstream::fixed("200 OK", "", "ok");
    let gateway = Gateway::start(&limited(&upstream, "{everyone: {rate: 10/h, tools: {any.get: 1/h}}}"));
    assert_eq!(gateway.get("/x").status, 200);
    let over = gateway.get("/x");
    assert!(over.refused(429, "rate_limited")["message"].as_str().unwrap().contains("any.get"));
    assert_eq!(number(&over, "ratelimit-limit"), 1);
    let post = gateway.post("/x", &json!({}));
    assert_eq!((post.status, number(&post, "ratelimit-limit"), number(&post, "ratelimit-remaining")), (200, 10, 7));
}

#[test]
fn as_many_requests_of_a_caller_run_as_may() {
    let (gate, waiting) = (Gate::default(), Gate::default());
    let (inside, arrived) = (gate.clone(), waiting.clone());
    let upstream = Upstream::start(move |exchange| {
        if exchange.request.target == "/slow" {
            arrived.open();
            inside.wait();
        }
        exchange.answer("200 OK", "", b"ok");
    });
    let gateway = Gateway::start(&limited(&upstream, "{everyone: {running: 1}, known: {running: 1}}"));
    let mut slow = gateway.connect();
    slow.send(Call::get("/slow").bytes());
    waiting.wait();
    let over = gateway.get("/x");
    over.refused(429, "rate_limited");
    assert_eq!(over.header("retry-after"), Some("1"));
    assert_eq!(gateway.call(&by(ONE, Call::get("/x"))).status, 200);
    gate.open();
    assert_eq!(slow.response(false).status, 200);
    crate::support::until("the place is free", || (gateway.get("/x").status == 200).then_some(()));
}
