//! Turns that are asked twice: a context that overflows, a conversation that its service has forgotten.

use serde_json::{Value, json};

use crate::support::{Call, Gateway, Upstream, chatting, delta, end};

const A: &str = "sess_again_aaaaaaaaaaa";

/// A service whose context holds so many messages.
fn with_context(most: usize) -> Upstream {
    Upstream::start(move |exchange| {
        if exchange.request.json()["messages"].as_array().unwrap().len() > most {
            let error = json!({"error": {"message": "too long", "code": "context_length_exceeded"}});
            exchange.answer("400 Bad Request", "Content-Type: application/json", error.to_string().as_bytes());
        } else {
            exchange.stream(&(delta("ok") + &end("stop")));
        }
    })
}

fn contents(upstream: &Upstream) -> Vec<Value> {
    let messages = upstream.last().json()["messages"].as_array().unwrap().clone();
    messages.into_iter().map(|message| message["content"].clone()).collect()
}

#[test]
fn a_context_that_overflows_is_asked_once_more_with_half_the_window() {
    let upstream = with_context(8);
    let gateway = Gateway::start(&chatting(&upstream.url()));
    for number in 0..4 {
        gateway.call(&Call::talk(&format!("{number}")).session(A)).ok();
    }
    assert_eq!(upstream.requests().len(), 4);
    for streamed in [false, true] {
        let before = upstream.requests().len();
        let call = Call::talk("4").session(A);
        let text = if streamed {
            gateway.call(&call.streamed()).events().text()
        } else {
            gateway.call(&call).ok()["reply"].as_str().unwrap().to_owned()
        };
        assert_eq!((text.as_str(), upstream.requests().len() - before), ("ok", 2));
    }
    let fifth = contents(&upstream);
    assert_eq!(fifth.last(), Some(&json!("4")));
    assert!(fifth.len() % 2 == 1 && fifth.len() <= 8, "whole pairs: {fifth:?}");
}

#[test]
fn a_context_that_overflows_twice_is_an_error_and_changes_nothing() {
    let upstream = with_context(1);
    let gateway = Gateway::start(&chatting(&upstream.url()));
    gateway.call(&Call::talk("one").session(A)).ok();
    gateway.call(&Call::talk("two").session(A)).ok();
    assert_eq!(upstream.requests().len(), 3, "of one pair nothing is left");
    assert_eq!(contents(&upstream), ["two"]);
    gateway.call(&Call::talk("three").session(A)).refused(502, "upstream_error");
    assert_eq!(upstream.requests().len(), 5, "no third attempt");
    gateway.call(&Call::talk("four").session("sess_again_bbbbbbbbbbb")).ok();
}

#[test]
fn an_overflow_without_history_is_not_asked_again() {
    let upstream = with_context(0);
    let gateway = Gateway::start(&chatting(&upstream.url()));
    gateway.talk("hi").refused(502, "upstream_error");
    assert_eq!(upstream.requests().len(), 1);
}

#[test]
fn a_conversation_that_is_gone_is_forgotten_once() {
    let upstream = Upstream::start(|exchange| {
        let body = exchange.request.json();
        match body["session_id"].as_str() {
            Some("conversation-of-theirs-2") => {
                exchange.json(&json!({"reply": "again", "session_id": "conversation-of-theirs-2"}));
            }
            Some(_) => exchange.answer("404 Not Found", "Content-Type: application/json", br#"{"error":"not_found"}"#),
            None if body["message"] == "one" => {
                exchange.json(&json!({"reply": "first", "session_id": "conversation-of-theirs-1"}));
            }
            None => exchange.json(&json!({"reply": "anew", "session_id": "conversation-of-theirs-2"})),
        }
    });
    let gateway =
        Gateway::start(&format!("agent: {{name: T, talk: {{upstream: {}, dialect: restap}}}}\n", upstream.url()));
    let reply = |message: &str| gateway.call(&Call::talk(message).session(A)).ok();
    assert_eq!(reply("one"), json!({"reply": "first", "session_id": A}));
    assert_eq!(reply("two"), json!({"reply": "anew", "session_id": A}));
    assert_eq!(reply("three"), json!({"reply": "again", "session_id": A}));
    assert_eq!(upstream.requests().len(), 4, "one, two twice, three");
}

#[test]
fn a_service_that_knows_no_conversation_at_all_is_asked_twice_at_most() {
    let upstream = Upstream::start(|exchange| match exchange.request.json()["message"].as_str() {
        Some("one") => exchange.json(&json!({"reply": "first", "session_id": "conversation-of-theirs-1"})),
        _ => exchange.answer("404 Not Found", "", b""),
    });
    let gateway =
        Gateway::start(&format!("agent: {{name: T, talk: {{upstream: {}, dialect: restap}}}}\n", upstream.url()));
    gateway.call(&Call::talk("one").session(A)).ok();
    gateway.call(&Call::talk("two").session(A)).refused(502, "upstream_error");
    assert_eq!(upstream.requests().len(), 3);
}
