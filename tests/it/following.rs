//! A RESTAP agent behind the gateway that answers later: followed until its answer is there.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::support::{Call, Exchange, Gateway, Request, Upstream};

/// What the agent calls the query; nobody else may read it.
const THEIRS: &str = "their-own-query-77";

/// What the agent calls the conversation.
const CONVERSATION: &str = "their-conversation-77";

const A: &str = "sess_follow_aaaaaaaaaa";

/// An agent that takes every talk as a query, and answers questions about it.
fn agent(about: impl Fn(&mut Exchange<'_>, usize) + Send + Sync + 'static) -> Upstream {
    let looks = AtomicUsize::new(0);
    Upstream::start(move |exchange| {
        if exchange.request.method == "POST" {
            let body = json!({"query_id": THEIRS, "status": "processing", "session_id": CONVERSATION}).to_string();
            exchange.answer("202 Accepted", "Content-Type: application/json", body.as_bytes());
        } else {
            assert_eq!(exchange.request.header("authorization"), Some("Bearer sk-follow-1"));
            assert_eq!(exchange.request.header("cdn-loop"), Some("restap-gateway"));
            about(exchange, looks.fetch_add(1, Ordering::SeqCst));
        }
    })
}

fn before(upstream: &Upstream, talk: &str) -> Gateway {
    Gateway::start(&format!(
        "upstreams:\n  inner: {{url: {}, api_key: sk-follow-1, timeout: {{progress: 4s}}}}\n\
         agent: {{name: Outer, talk: {{upstream: inner, dialect: restap, {talk}}}}}\n",
        upstream.url()
    ))
}

fn nothing(exchange: &mut Exchange<'_>) {
    exchange.answer("404 Not Found", "Content-Type: application/json", br#"{"error":"not_found"}"#);
}

/// Holds an answer, and everything that was printed, to not naming the agent's query.
fn unnamed(gateway: &Gateway, answer: &str) {
    for text in [answer, &gateway.logs()] {
        assert!(!text.contains(THEIRS) && !text.contains(CONVERSATION), "{text}");
    }
}

#[test]
fn its_query_is_asked_until_it_has_completed() {
    let upstream = agent(|exchange, looks| {
        let target = exchange.request.target.clone();
        match looks {
            _ if !target.starts_with("/query/") => exchange.json(&json!({"items": [], "timestamp": 1})),
            0..4 => exchange.json(&json!({"id": THEIRS, "query_id": THEIRS, "status": "processing"})),
            _ => exchange.json(&json!({"query_id": THEIRS, "status": "completed", "message": "no",
                "result": {"result": "at last", "sessionId": CONVERSATION}})),
        }
    });
    let gateway = before(&upstream, "");
    let answer = gateway.call(&Call::talk("hi").session(A));
    assert_eq!(answer.ok(), json!({"reply": "at last", "session_id": A}));
    unnamed(&gateway, answer.text());
    let asked = upstream.requests();
    assert_eq!(asked[1].target, "/query/their%2Down%2Dquery%2D77");
    assert!(asked.len() >= 4, "{asked:?}");

    let answer = gateway.call(&Call::talk("hi").session(A).streamed());
    let events = answer.events();
    assert_eq!(events.names(), ["message.start", "message.delta", "message.end", "done"]);
    assert_eq!(events.text(), "at last");
    unnamed(&gateway, answer.text());
    // The conversation is the agent's, and goes on.
    let talks: Vec<Value> =
        upstream.requests().iter().filter(|request| request.method == "POST").map(Request::json).collect();
    assert_eq!(talks[1]["session_id"], CONVERSATION);
}

#[test]
fn an_agent_without_queries_is_followed_through_its_news() {
    for item in [
        json!({"type": "query.completed", "query_id": THEIRS, "data": {"result": {"result": "by news"}}}),
        json!({"type": "query.completed", "data": {"query_id": THEIRS, "result": "by news"}, "message": "no"}),
        json!({"type": "reply", "in_reply_to": THEIRS, "message": "by news"}),
    ] {
        let upstream = agent(move |exchange, _| {
            if !exchange.request.target.starts_with("/news?") {
                return nothing(exchange);
            }
            let other = json!({"type": "reply", "in_reply_to": "another", "message": "not this"});
            exchange.json(&json!({"items": [other, item], "timestamp": 5}));
        });
        let gateway = before(&upstream, "");
        let answer = gateway.talk("hi");
        assert_eq!(answer.ok()["reply"], "by news");
        unnamed(&gateway, answer.text());
    }
}

#[test]
fn an_answer_in_the_feed_of_its_session_is_found_there() {
    let upstream = agent(|exchange, _| match exchange.request.header("restap-session-id") {
        Some(CONVERSATION) => {
            exchange.json(&json!({"items": [{"type": "reply", "in_reply_to": THEIRS, "message": "in the session"}]}));
        }
        _ => nothing(exchange),
    });
    let gateway = before(&upstream, "");
    assert_eq!(gateway.talk("hi").ok()["reply"], "in the session");
}

#[test]
fn a_query_that_fails_is_an_error_that_does_not_name_it() {
    let upstream = agent(|exchange, _| {
        exchange.json(&json!({"status": "failed", "error": format!("{THEIRS} has no model")}));
    });
    let gateway = before(&upstream, "");
    let answer = gateway.talk("hi");
    let refused = answer.refused(502, "upstream_error");
    assert!(refused["message"].as_str().unwrap().contains("has no model"), "{refused}");
    unnamed(&gateway, answer.text());
    let answer = gateway.stream("hi");
    unnamed(&gateway, answer.text());
    assert_eq!(answer.status, 502, "nothing was said before");
}

#[test]
fn what_never_comes_ends_with_the_progress_timer() {
    let upstream = agent(|exchange, _| nothing(exchange));
    let gateway = before(&upstream, "");
    let answer = gateway.talk("hi");
    answer.refused(504, "upstream_timeout");
    unnamed(&gateway, answer.text());
    let asked = upstream.requests().len();
    assert!((5..40).contains(&asked), "{asked} requests in four seconds");
}

#[test]
fn an_agent_at_a_path_is_followed_there() {
    let upstream = agent(|exchange, _| match exchange.request.target.as_str() {
        "/agents/x/query/their%2Down%2Dquery%2D77" => exchange.json(&json!({"status": "completed", "result": "here"})),
        _ => nothing(exchange),
    });
    assert_eq!(before(&upstream, "path: /agents/x/talk").talk("hi").ok()["reply"], "here");
}

#[test]
fn a_caller_who_leaves_ends_the_following() {
    let upstream = agent(|exchange, _| nothing(exchange));
    let gateway = before(&upstream, "");
    let mut connection = gateway.connect();
    connection.send(Call::talk("hi").bytes());
    upstream.wait_for_requests(3);
    drop(connection);
    gateway.wait_for_line("POST /talk 499");
    let asked = upstream.requests().len();
    // Another talk takes longer than the next look would have come.
    gateway.talk("another").refused(504, "upstream_timeout");
    let others = upstream.requests().len() - asked;
    assert!((5..40).contains(&others), "{others}");
}
