//! Conversations in one store: of two gateways at once, and of one that was killed.

use std::sync::Arc;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{Call, Gateway, Upstream, chatting, delta, end, turns, until};

const A: &str = "sess_store_aaaaaaaaaaa";

fn file(upstream: &Upstream) -> String {
    format!("admin: off\nstore: {{embedded: {{path: data}}}}\n{}", chatting(&upstream.url()))
}

fn said(upstream: &Upstream) -> Vec<Value> {
    let messages = upstream.last().json()["messages"].as_array().unwrap().clone();
    messages.into_iter().map(|message| message["content"].clone()).collect()
}

#[test]
fn turns_of_one_session_never_interleave_over_two_gateways() {
    turns::never_interleave(A, |upstream| {
        let directory = Arc::new(TempDir::new().unwrap());
        [0, 1].map(|_| Gateway::start_in(directory.clone(), &file(upstream)))
    });
}

#[test]
fn what_one_gateway_accepts_another_one_answers() {
    let upstream = Upstream::chat(&(delta("ok") + &end("stop")));
    let directory = Arc::new(TempDir::new().unwrap());
    let [one, other] = [0, 1].map(|_| Gateway::start_in(directory.clone(), &file(&upstream)));
    let body = json!({"message": "hi", "dispatch_id": "d", "query_id": "q"});
    let accepted = one.post("/talk", &body);
    assert_eq!(accepted.status, 202);
    let again = other.post("/talk", &body);
    assert_eq!((again.status, again.json()), (202, accepted.json()));
    let target = format!("/query/{}", accepted.json()["query_id"].as_str().unwrap());
    let done = until("it is answered", || Some(other.get(&target).ok()).filter(|q| q["status"] == "completed"));
    assert_eq!(done["message"], "ok");
    assert_eq!(other.get("/news").ok()["items"].as_array().unwrap().len(), 1);
    assert_eq!(upstream.requests().len(), 1);
}

#[test]
fn a_conversation_survives_a_kill() {
    let upstream = Upstream::chat(&(delta("ok") + &end("stop")));
    let directory = Arc::new(TempDir::new().unwrap());
    let mut gateway = Gateway::start_in(directory.clone(), &file(&upstream));
    gateway.call(&Call::talk("one").session(A)).ok();
    gateway.call(&Call::talk("two").session(A).streamed()).events();
    gateway.kill();
    drop(gateway);
    let gateway = Gateway::start_in(directory, &file(&upstream));
    gateway.call(&Call::talk("three").session(A)).ok();
    assert_eq!(said(&upstream), ["one", "ok", "two", "ok", "three"]);
}

#[test]
fn a_turn_that_a_kill_cut_off_leaves_no_trace() {
    let upstream = Upstream::start(|exchange| {
        if exchange.request.text().contains("held") {
            exchange.open_stream();
            exchange.send(delta("half"));
            exchange.wait_until_left();
        } else {
            exchange.stream(&(delta("ok") + &end("stop")));
        }
    });
    let directory = Arc::new(TempDir::new().unwrap());
    let mut gateway = Gateway::start_in(directory.clone(), &file(&upstream));
    let mut stream = gateway.open(&Call::talk("held").session(A).streamed());
    stream.next().unwrap();
    gateway.kill();
    drop(gateway);
    let gateway = Gateway::start_in(directory, &file(&upstream));
    // The lease of the dead turn ends within the time that the next one waits, or just after it.
    let answer = until("the session is free", || {
        Some(gateway.call(&Call::talk("next").session(A))).filter(|answer| answer.status != 409)
    });
    answer.ok();
    assert_eq!(said(&upstream), ["next"]);
}
