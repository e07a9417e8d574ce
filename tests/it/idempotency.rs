//! Requests that are sent again: answered once, and given the same answer.

use std::sync::Arc;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{Call, Exchange, Gate, Gateway, Response, Upstream, chatting, delta, end, until};

const A: &str = "sess_idem_aaaaaaaaaaaa";

/// Numbers its answers, fails on the first `fail`, and holds `held` until the gate opens.
fn numbering(gate: Gate) -> Upstream {
    let count = std::sync::atomic::AtomicUsize::new(0);
    Upstream::start(move |exchange: &mut Exchange<'_>| {
        let number = count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        let text = exchange.request.text();
        if text.contains("held") {
            gate.wait();
        }
        if text.contains("fail") && number == 0 {
            return exchange.answer("500 Oops", "", b"");
        }
        if text.contains("leave") && number == 0 {
            exchange.open_stream();
            exchange.send(delta("half"));
            assert!(exchange.wait_until_left());
            return;
        }
        exchange.stream(&(delta("answer ") + &delta(&number.to_string()) + &end("stop")));
    })
}

fn with_key(message: &str, key: &str) -> Call {
    Call::talk(message).header("Idempotency-Key", key)
}

fn reply(answer: &Response) -> Value {
    answer.ok()["reply"].clone()
}

#[test]
fn a_repeat_gets_the_first_answer_in_the_form_it_accepts() {
    let upstream = numbering(Gate::default());
    let gateway = Gateway::start(&chatting(&upstream.url()));
    let first = gateway.call(&with_key("hi", "json first").session(A));
    first.refused(400, "invalid_field");
    let first = gateway.call(&with_key("hi", "json-first").session(A)).ok();
    assert_eq!(gateway.call(&with_key("hi", "json-first").session(A)).ok(), first);
    let streamed = gateway.call(&with_key("hi", "json-first").session(A).streamed()).events();
    assert_eq!(streamed.names(), ["message.start", "message.delta", "message.end", "done"]);
    assert_eq!((streamed.text(), &streamed.only("done")["session_id"]), ("answer 0".to_owned(), &json!(A)));
    assert_eq!(upstream.requests().len(), 1);

    let first = gateway.call(&with_key("hi", "stream-first").session(A).streamed()).events();
    let again = gateway.call(&with_key("hi", "stream-first").session(A).streamed()).events();
    assert_eq!(again.only("message.start"), first.only("message.start"), "the same ids");
    assert_eq!(again.only("done"), first.only("done"));
    assert_eq!((again.names().len(), again.text()), (4, first.text()));
    assert_eq!(gateway.call(&with_key("hi", "stream-first").session(A)).ok()["reply"], "answer 1");
    assert_eq!(upstream.requests().len(), 2);

    let minted = gateway.call(&with_key("hi", "minted")).ok();
    assert!(minted["session_id"].is_string());
    assert_eq!(gateway.call(&with_key("hi", "minted")).ok(), minted);
}

#[test]
fn a_repeat_of_a_turn_is_no_second_turn() {
    let upstream = numbering(Gate::default());
    let gateway = Gateway::start(&chatting(&upstream.url()));
    for _ in 0..3 {
        gateway.call(&with_key("hi", "k").session(A)).ok();
    }
    gateway.call(&Call::talk("next").session(A)).ok();
    assert_eq!(upstream.last().json()["messages"].as_array().unwrap().len(), 3);
}

#[test]
fn while_the_first_runs_a_repeat_is_told_so() {
    let gate = Gate::default();
    let upstream = numbering(gate.clone());
    let gateway = Gateway::start(&chatting(&upstream.url()));
    std::thread::scope(|scope| {
        let first = scope.spawn(|| gateway.call(&with_key("held", "k")));
        upstream.wait_for_requests(1);
        let busy = gateway.call(&with_key("held", "k"));
        busy.refused(409, "request_in_progress");
        assert!(busy.header("retry-after").is_some());
        gateway.call(&with_key("held", "k").streamed()).refused(409, "request_in_progress");
        gate.open();
        assert_eq!(reply(&first.join().unwrap()), "answer 0");
    });
    assert_eq!(reply(&gateway.call(&with_key("held", "k"))), "answer 0");
}

#[test]
fn another_body_under_a_key_is_refused_and_strangers_never_meet() {
    let upstream = numbering(Gate::default());
    let gateway = Gateway::start(&chatting(&upstream.url()));
    gateway.call(&with_key("one", "k").session(A)).ok();
    gateway.call(&with_key("two", "k").session(A)).refused(422, "idempotency_key_reused");
    gateway.call(&with_key("two", "k").session(A).streamed()).refused(422, "idempotency_key_reused");
    assert_eq!(upstream.requests().len(), 1);
    // Of callers whom nobody knows, each body has keys of its own; so has each session.
    assert_eq!(reply(&gateway.call(&with_key("one", "k"))), "answer 1");
    assert_eq!(reply(&gateway.call(&with_key("two", "k"))), "answer 2");
    assert_eq!(reply(&gateway.call(&with_key("one", "k").session("sess_idem_bbbbbbbbbbbb"))), "answer 3");
    assert_eq!(reply(&gateway.call(&with_key("one", "k"))), "answer 1");
}

#[test]
fn after_an_error_the_key_is_free_again() {
    let upstream = numbering(Gate::default());
    let gateway = Gateway::start(&chatting(&upstream.url()));
    gateway.call(&with_key("fail", "k").session(A)).refused(502, "upstream_error");
    // The key is let go of right after the answer.
    let again = until("the key is free", || {
        Some(gateway.call(&with_key("fail", "k").session(A))).filter(|answer| answer.status != 409)
    });
    assert_eq!(reply(&again), "answer 1");
    assert_eq!(upstream.requests().len(), 2);
}

#[test]
fn when_its_caller_left_the_key_is_free_again() {
    let upstream = numbering(Gate::default());
    let gateway = Gateway::start(&chatting(&upstream.url()));
    let mut stream = gateway.open(&with_key("leave", "k").streamed());
    stream.next().unwrap();
    drop(stream);
    let again =
        until("the key is free", || Some(gateway.call(&with_key("leave", "k"))).filter(|answer| answer.status != 409));
    assert_eq!(reply(&again), "answer 1");
}

#[test]
fn answers_under_a_key_survive_a_restart_and_a_kill() {
    let upstream = numbering(Gate::default());
    let file = chatting(&upstream.url()) + "store: {embedded: {path: data}}\n";
    let directory = Arc::new(TempDir::new().unwrap());
    let mut gateway = Gateway::start_in(directory.clone(), &file);
    let first = gateway.call(&with_key("hi", "k")).ok();
    let item = json!({"type": "note", "message": "hi"});
    let post = Call::post("/news", &item).header("Idempotency-Key", "n");
    let posted = gateway.call(&post).ok();
    gateway.stop();
    drop(gateway);
    let mut gateway = Gateway::start_in(directory.clone(), &file);
    assert_eq!(gateway.call(&with_key("hi", "k")).ok(), first);
    gateway.kill();
    drop(gateway);
    let gateway = Gateway::start_in(directory, &file);
    assert_eq!(gateway.call(&with_key("hi", "k")).ok(), first);
    assert_eq!(gateway.call(&post).ok(), posted);
    assert_eq!(upstream.requests().len(), 1);
}

#[test]
fn a_dispatch_id_is_a_key_like_the_header() {
    let upstream = numbering(Gate::default());
    let gateway = Gateway::start(&chatting(&upstream.url()));
    let body = json!({"message": "hi", "dispatch_id": "d-1", "session_id": A});
    assert_eq!(reply(&gateway.post("/talk", &body)), "answer 0");
    assert_eq!(reply(&gateway.post("/talk", &body)), "answer 0");
    assert_eq!(gateway.call(&Call::post("/talk", &body).streamed()).events().text(), "answer 0");
    let other = json!({"message": "other", "dispatch_id": "d-1", "session_id": A});
    gateway.post("/talk", &other).refused(422, "idempotency_key_reused");
    let key = Call::post("/talk", &body).header("Idempotency-Key", "another");
    assert_eq!(reply(&gateway.call(&key)), "answer 1", "the header beats the body");
}

#[test]
fn a_talk_that_is_answered_later_is_accepted_once() {
    let upstream = numbering(Gate::default());
    let gateway = Gateway::start(&chatting(&upstream.url()));
    let body = json!({"message": "hi", "dispatch_id": "d-1", "query_id": "q-1"});
    let first = gateway.post("/talk", &body);
    let again = gateway.post("/talk", &body);
    assert_eq!((first.status, again.status), (202, 202));
    assert_eq!(first.json(), again.json());
    assert_eq!(again.header("preference-applied"), Some("respond-async"));
    let target = format!("/query/{}", first.json()["query_id"].as_str().unwrap());
    until("it is answered", || (gateway.get(&target).ok()["status"] == "completed").then_some(()));
    assert_eq!(gateway.post("/talk", &body).json(), first.json());
    assert_eq!(upstream.requests().len(), 1);
    assert_eq!(gateway.get("/news").ok()["items"].as_array().unwrap().len(), 1);
}

#[test]
fn a_dispatch_whose_sender_leaves_at_once_is_accepted_all_the_same() {
    let upstream = numbering(Gate::default());
    let gateway = Gateway::start(&chatting(&upstream.url()));
    for number in 0..20 {
        let body = json!({"message": format!("hi {number}"), "dispatch_id": "d", "query_id": "q"});
        let call = Call::post("/talk", &body);
        let mut connection = gateway.connect();
        connection.send(call.bytes());
        drop(connection);
        let again = until("a repeat is told", || Some(gateway.call(&call)).filter(|answer| answer.status != 409));
        assert_eq!(again.status, 202);
    }
    until("all are answered", || {
        (gateway.get("/news?limit=100").ok()["items"].as_array().unwrap().len() == 20).then_some(())
    });
    assert_eq!(upstream.requests().len(), 20, "none was asked twice");
}

#[test]
fn a_malformed_key_is_an_invalid_field() {
    let upstream = numbering(Gate::default());
    let gateway = Gateway::start(&chatting(&upstream.url()));
    let item = json!({"type": "note"});
    for key in ["", "two words", "tab\there", "ümlaut", &"k".repeat(256)] {
        gateway.call(&with_key("hi", key)).refused(400, "invalid_field");
        gateway.call(&Call::post("/news", &item).header("Idempotency-Key", key)).refused(400, "invalid_field");
    }
    for id in [json!(7), json!(""), json!("two words"), json!({}), json!("k".repeat(256))] {
        gateway.post("/talk", &json!({"message": "hi", "dispatch_id": id})).refused(400, "invalid_field");
        gateway.post("/talk", &json!({"message": "hi", "query_id": id})).refused(400, "invalid_field");
        gateway.post("/news", &json!({"type": "note", "dispatch_id": id})).refused(400, "invalid_field");
    }
    gateway.call(&with_key("hi", "a").header("Idempotency-Key", "a")).refused(400, "bad_request");
    assert!(upstream.requests().is_empty());
    gateway.call(&with_key("hi", &"k".repeat(255))).ok();
    gateway.post("/talk", &json!({"message": "hi", "dispatch_id": null, "query_id": null})).ok();
}

#[test]
fn a_post_of_news_is_stored_once_under_its_key() {
    let gateway = Gateway::start("agent: {name: News}\n");
    let item = json!({"type": "note", "message": "once"});
    let dispatched = json!({"type": "note", "message": "twice", "dispatch_id": "d-1"});
    for call in [Call::post("/news", &item).header("Idempotency-Key", "k"), Call::post("/news", &dispatched)] {
        let first = gateway.call(&call).ok();
        assert_eq!(gateway.call(&call).ok(), first);
        let scoped = gateway.call(&call.clone().session(A)).ok();
        assert_ne!(scoped["news_id"], first["news_id"], "a session has keys of its own");
        assert_eq!(gateway.call(&call.session(A)).ok(), scoped);
    }
    let other = json!({"type": "note", "message": "other", "dispatch_id": "d-1"});
    let with_key = |item: &Value| Call::post("/news", item).header("Idempotency-Key", "k").session(A);
    gateway.call(&with_key(&other)).refused(422, "idempotency_key_reused");
    gateway.call(&Call::post("/news", &other).session(A)).refused(422, "idempotency_key_reused");
    let own = gateway.get("/news").ok();
    assert_eq!(own["items"].as_array().unwrap().len(), 2, "{own}");
    assert!(!own.to_string().contains("dispatch_id"));
    // The same key on another operation is another key.
    gateway.call(&Call::talk("hi").header("Idempotency-Key", "k").session(A)).ok();
}
