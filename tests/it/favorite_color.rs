//! The example of the protocol text: a fact that is delivered as news is known to the next talk, and answers nothing.

use serde_json::{Value, json};

use crate::support::{Call, Exchange, Gateway, Upstream, chatting, chatting_with, delta, end};

const A: &str = "sess_color_aaaaaaaaaaa";

/// A model that knows what stands in its context under the guard.
fn model(exchange: &mut Exchange<'_>) {
    let body = exchange.request.json();
    let contents = body["messages"].as_array().unwrap().iter().map(|message| message["content"].as_str().unwrap());
    let facts: Vec<Value> = contents
        .filter(|content| content.contains("Do NOT reply"))
        .flat_map(str::lines)
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let told = facts.iter().find_map(|fact| fact["message"].as_str());
    exchange.stream(&(delta(told.unwrap_or("I do not know.")) + &end("stop")));
}

fn fact() -> Value {
    json!({"type": "reply", "from": "agent-b", "in_reply_to": "favorite-color-1", "message": "blue"})
}

#[test]
fn a_fact_of_the_session_answers_its_next_talk() {
    let upstream = Upstream::start(model);
    let gateway = Gateway::start(&chatting(&upstream.url()));
    assert_eq!(gateway.call(&Call::post("/news", &fact()).session(A)).ok()["status"], "received");
    assert!(upstream.requests().is_empty(), "news are stored, and nobody is asked");
    let reply = gateway.call(&Call::talk("tell me my favorite color").session(A)).ok();
    assert_eq!((&reply["reply"], &reply["session_id"]), (&json!("blue"), &json!(A)));
    let items = gateway.call(&Call::get("/news").session(A)).ok()["items"].as_array().unwrap().len();
    assert_eq!(items, 1, "nothing answers a news item");
    // Another session has been told nothing.
    let other = gateway.call(&Call::talk("tell me my favorite color").session("sess_color_bbbbbbbbbbb")).ok();
    assert_eq!(other["reply"], "I do not know.");
}

#[test]
fn a_fact_of_the_agent_answers_a_talk_without_a_session() {
    let upstream = Upstream::start(model);
    let gateway = Gateway::start(&chatting_with(&upstream.url(), "", "news: {from: agent}"));
    gateway.post("/news", &fact()).ok();
    assert!(upstream.requests().is_empty());
    for _ in 0..2 {
        assert_eq!(
            gateway.talk("tell me my favorite color").ok()["reply"],
            "blue",
            "each is a conversation of its own"
        );
    }
    assert_eq!(gateway.stream("tell me my favorite color").events().text(), "blue");
}
