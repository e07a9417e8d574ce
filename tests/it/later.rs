//! Talks that are answered later: the 202, `/query/{id}`, and the item of news.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{
    Call, Exchange, Gate, Gateway, Request, Response, Upstream, chatting, chatting_with, delta, end, until,
};

const A: &str = "sess_later_aaaaaaaaaaa";
const B: &str = "sess_later_bbbbbbbbbbb";

/// Answers `held` once the gate is open, fails on `fail`, and says back anything else.
fn answering(exchange: &mut Exchange<'_>, gate: &Gate) {
    let body = exchange.request.json();
    let said = body["messages"].as_array().unwrap().last().unwrap()["content"].as_str().unwrap().to_owned();
    match said.as_str() {
        "fail" => return exchange.answer("500 Oops", "", b""),
        "held" => gate.wait(),
        _ => {}
    }
    exchange.stream(&(delta("re: ") + &delta(&said) + &end("stop")));
}

fn answered_by(more: &str) -> (Gate, Upstream, Gateway) {
    let gate = Gate::default();
    let held = gate.clone();
    let upstream = Upstream::start(move |exchange| answering(exchange, &held));
    let gateway = Gateway::start(&(chatting(&upstream.url()) + more));
    (gate, upstream, gateway)
}

fn later(message: &str) -> Call {
    Call::talk(message).header("Prefer", "respond-async")
}

fn dispatched(message: &str, dispatch_id: &str, query_id: &str) -> Value {
    json!({"message": message, "dispatch_id": dispatch_id, "query_id": query_id})
}

/// The body of a 202.
#[track_caller]
fn accepted(answer: &Response) -> Value {
    assert_eq!(answer.status, 202, "{}", answer.text());
    let applied = answer.header("preference-applied").unwrap();
    assert_eq!(applied.split(", wait=").next(), Some("respond-async"));
    let body = answer.json();
    assert_eq!(body["status"], "processing");
    assert_eq!(uuid::Uuid::parse_str(body["query_id"].as_str().unwrap()).unwrap().get_version_num(), 4);
    body
}

fn id(accepted: &Value) -> &str {
    accepted["query_id"].as_str().unwrap()
}

fn query(gateway: &Gateway, id: &str) -> Value {
    gateway.get(&format!("/query/{id}")).ok()
}

/// The query once it is no longer under way.
fn ended(gateway: &Gateway, id: &str) -> Value {
    until("the query ends", || Some(query(gateway, id)).filter(|query| query["status"] != "processing"))
}

fn items(gateway: &Gateway, session: Option<&str>) -> Vec<Value> {
    let call = Call::get("/news");
    let call = session.map_or(call.clone(), |session| call.session(session));
    gateway.call(&call).ok()["items"].as_array().unwrap().clone()
}

fn keys(value: &Value) -> BTreeSet<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn a_talk_of_a_session_is_accepted_answered_and_told_in_the_sessions_feed() {
    let (gate, _upstream, gateway) = answered_by("");
    let answer = accepted(&gateway.call(&later("held").session(A)));
    assert_eq!(keys(&answer), BTreeSet::from(["query_id", "status", "session_id"]));
    assert_eq!(answer["session_id"], A);
    let id = id(&answer);
    let under_way = json!({"id": id, "query_id": id, "status": "processing", "session_id": A});
    assert_eq!(query(&gateway, id), under_way);
    assert!(items(&gateway, Some(A)).is_empty());
    gate.open();
    let result = json!({"result": "re: held", "sessionId": A});
    let done = json!({"id": id, "query_id": id, "status": "completed", "message": "re: held", "result": result, "session_id": A});
    assert_eq!(ended(&gateway, id), done);
    let [item] = &items(&gateway, Some(A))[..] else { panic!("one item") };
    assert_eq!((&item["type"], &item["message"]), (&json!("query.completed"), &json!("re: held")));
    assert_eq!((&item["query_id"], &item["in_reply_to"]), (&json!(id), &json!(id)));
    assert_eq!(item["data"], json!({"query_id": id, "result": result}));
    assert_eq!(item["session_id"], A);
    assert!(items(&gateway, None).is_empty() && items(&gateway, Some(B)).is_empty());
    // Whoever has the id may read its item, without the session.
    let found = gateway.get(&format!("/news?query_id={id}")).ok();
    assert_eq!(found["items"][0]["data"]["result"], json!({"result": "re: held"}));
    assert!(!found.to_string().contains(A));
}

#[test]
fn a_talk_without_a_session_that_prefers_later_is_in_no_feed() {
    let (_gate, _upstream, gateway) = answered_by("");
    let answer = accepted(&gateway.call(&later("hi")));
    let minted = answer["session_id"].as_str().unwrap();
    let done = ended(&gateway, id(&answer));
    assert_eq!((&done["message"], &done["session_id"]), (&json!("re: hi"), &json!(minted)));
    assert!(items(&gateway, None).is_empty() && items(&gateway, Some(minted)).is_empty());
    // The minted session is a conversation like any other.
    assert_eq!(gateway.call(&Call::talk("and?").session(minted)).ok()["session_id"], minted);
}

#[test]
fn a_wait_that_was_applied_is_named_and_the_upstream_stands_in_the_log() {
    let (gate, _upstream, gateway) = answered_by("");
    let held = Call::talk("held").session(A).header("Prefer", "respond-async, wait=1").header("Idempotency-Key", "k");
    for _ in 0..2 {
        let answer = gateway.call(&held);
        assert_eq!((answer.status, answer.header("preference-applied")), (202, Some("respond-async, wait=1")));
    }
    // The repeated one asked nobody; either may be logged first.
    let line = gateway.wait_for_line("upstream=llm");
    assert!(line.contains("POST /talk 202"), "{line}");
    gate.open();
}

#[test]
fn an_answer_that_came_later_reaches_the_next_turn_once() {
    let (_gate, upstream, gateway) = answered_by("");
    let answer = accepted(&gateway.call(&later("first").session(A)));
    ended(&gateway, id(&answer));
    gateway.call(&Call::talk("second").session(A)).ok();
    let asked = upstream.last().json();
    assert_eq!(asked.to_string().matches("re: first").count(), 1, "{asked}");
    // Of a turn that failed nothing else tells.
    let failed = accepted(&gateway.call(&later("fail").session(A)));
    ended(&gateway, id(&failed));
    gateway.call(&Call::talk("third").session(A)).ok();
    let asked = upstream.last().json();
    assert_eq!(asked.to_string().matches("query.failed").count(), 1, "{asked}");
    // What others say of a query is news like any other.
    let item = json!({"type": "query.completed", "query_id": "other", "message": "by somebody else"});
    gateway.call(&Call::post("/news", &item).session(A)).ok();
    gateway.call(&Call::talk("fourth").session(A)).ok();
    assert_eq!(upstream.last().text().matches("by somebody else").count(), 1);
}

#[test]
fn the_dispatch_form_answers_in_the_agents_feed_under_the_callers_id_too() {
    let (_gate, _upstream, gateway) = answered_by("");
    let answer = accepted(&gateway.post("/talk", &dispatched("hi", "d-1", "my-query-1")));
    let id = id(&answer);
    assert_ne!(id, "my-query-1");
    assert_eq!(ended(&gateway, id)["result"]["result"], "re: hi");
    let [item] = &items(&gateway, None)[..] else { panic!("one item") };
    let data = json!({"query_id": id, "caller_query_id": "my-query-1", "result": {"result": "re: hi"}});
    assert_eq!((&item["type"], &item["data"]), (&json!("query.completed"), &data));
    assert!(item.get("session_id").is_none());
    // The caller's own id opens no answer, and names the item where it may be read anyway.
    gateway.get("/query/my-query-1").refused(404, "not_found");
    assert_eq!(gateway.get("/news?query_id=my-query-1").ok()["items"][0]["query_id"], id);
    let call = Call::post("/talk", &dispatched("hi", "d-2", "my-query-2")).session(A);
    ended(&gateway, self::id(&accepted(&gateway.call(&call))));
    assert_eq!(items(&gateway, Some(A))[0]["data"]["caller_query_id"], "my-query-2");
    assert_eq!(gateway.get("/news?query_id=my-query-2").ok()["items"], json!([]), "it stands in the session's feed");
    assert_eq!(items(&gateway, None).len(), 1);
}

#[test]
fn a_talk_that_fails_later_says_why_in_both_places() {
    let (_gate, _upstream, gateway) = answered_by("");
    let answer = accepted(&gateway.call(&later("fail").session(A)));
    let id = id(&answer);
    let failed = ended(&gateway, id);
    assert_eq!((&failed["status"], &failed["code"]), (&json!("failed"), &json!("upstream_error")));
    assert!(failed["error"].as_str().is_some_and(|error| error.len() > 10), "{failed}");
    assert!(failed.get("result").is_none());
    let [item] = &items(&gateway, Some(A))[..] else { panic!("one item") };
    assert_eq!((&item["type"], &item["message"]), (&json!("query.failed"), &failed["error"]));
    assert_eq!(item["data"], json!({"query_id": id, "error": failed["error"], "code": "upstream_error"}));
}

#[test]
fn a_query_is_known_to_its_agent_alone() {
    let gate = Gate::default();
    let upstream = Upstream::start(move |exchange| answering(exchange, &gate));
    let talk = format!("{{upstream: {}, dialect: openai-chat, model: m}}", upstream.url());
    let gateway = Gateway::start(&format!("agents:\n  a: {{name: A, talk: {talk}}}\n  b: {{name: B, talk: {talk}}}\n"));
    let call = Call::post("/agents/a/talk", &json!({"message": "hi"})).header("Prefer", "respond-async");
    let answer = accepted(&gateway.call(&call));
    gateway.get(&format!("/agents/a/query/{}", id(&answer))).ok();
    gateway.get(&format!("/agents/b/query/{}", id(&answer))).refused(404, "not_found");
    gateway.get("/agents/a/query/").refused(404, "not_found");
    gateway.get("/agents/a/query/no-such-id").refused(404, "not_found");
}

#[test]
fn within_the_wait_that_a_caller_prefers_it_is_answered_at_once() {
    let (gate, _upstream, gateway) = answered_by("");
    let prefers = |message: &str, prefer: &str| gateway.call(&Call::talk(message).session(A).header("Prefer", prefer));
    let body = prefers("quick", "respond-async, wait=20").ok();
    assert_eq!((&body["reply"], &body["session_id"]), (&json!("re: quick"), &json!(A)));
    prefers("fail", "respond-async, wait=20").refused(502, "upstream_error");
    assert!(items(&gateway, Some(A)).is_empty(), "what was answered at once is no news");
    let answer = accepted(&prefers("held", "wait=1, respond-async"));
    assert_eq!(query(&gateway, id(&answer))["status"], "processing");
    gate.open();
    assert_eq!(ended(&gateway, id(&answer))["message"], "re: held");
    assert_eq!(items(&gateway, Some(A)).len(), 1);
    assert_eq!(prefers("plain", "wait=5").ok()["reply"], "re: plain", "a wait alone is no wish for later");
}

#[test]
fn a_caller_who_leaves_within_its_wait_ends_the_talk() {
    let left = Gate::default();
    let was_left = left.clone();
    let upstream = Upstream::start(move |exchange| {
        if exchange.wait_until_left() {
            was_left.open();
        }
    });
    let gateway = Gateway::start(&chatting(&upstream.url()));
    let mut connection = gateway.connect();
    connection.send(Call::talk("hi").header("Prefer", "respond-async, wait=60").bytes());
    upstream.wait_for_requests(1);
    drop(connection);
    left.wait();
}

#[test]
fn a_caller_who_is_streamed_to_is_answered_now() {
    let (_gate, _upstream, gateway) = answered_by("");
    let events = gateway.call(&later("hi").streamed()).events();
    assert_eq!(events.text(), "re: hi");
    let both = Call::post("/talk", &dispatched("hi", "d", "q")).streamed();
    assert_eq!(gateway.call(&both).events().text(), "re: hi");
    assert!(items(&gateway, None).is_empty());
}

#[test]
fn above_what_may_run_and_wait_a_talk_is_refused_until_one_is_done() {
    let gate = Gate::default();
    let held = gate.clone();
    let upstream = Upstream::start(move |exchange| answering(exchange, &held));
    let file = chatting_with(&upstream.url(), "", "async: {running: 1, waiting: 1}");
    let gateway = Gateway::start(&file);
    let first = accepted(&gateway.call(&later("held")));
    upstream.wait_for_requests(1);
    let second = accepted(&gateway.call(&later("hi")));
    let refused = gateway.call(&later("hi"));
    refused.refused(429, "too_many_queries");
    assert!(refused.header("retry-after").is_some());
    assert_eq!(gateway.talk("now").ok()["reply"], "re: now", "who waits for its answer is not counted");
    assert_eq!(query(&gateway, id(&second))["status"], "processing");
    assert_eq!(upstream.requests().len(), 2, "the second one waits");
    gate.open();
    for query in [&first, &second] {
        assert_eq!(ended(&gateway, id(query))["status"], "completed");
    }
    until("there is room again", || (gateway.call(&later("hi")).status == 202).then_some(()));
}

#[test]
fn a_query_whose_gateway_was_killed_has_failed_for_whoever_finds_it() {
    let upstream = Upstream::start(|exchange| {
        exchange.wait_until_left();
    });
    let file = chatting(&upstream.url()) + "store: {embedded: {path: data}}\n";
    let directory = Arc::new(TempDir::new().unwrap());
    let mut gateway = Gateway::start_in(directory.clone(), &file);
    let first = accepted(&gateway.post("/talk", &dispatched("hi", "d-1", "q-1")));
    let second = accepted(&gateway.call(&later("hi").session(A)));
    upstream.wait_for_requests(2);
    gateway.kill();
    drop(gateway);
    let gateway = Gateway::start_in(directory, &file);
    assert_eq!(query(&gateway, id(&first))["status"], "processing", "another gateway may still run it");
    let failed = ended(&gateway, id(&first));
    assert_eq!((&failed["status"], &failed["code"]), (&json!("failed"), &json!("shutting_down")));
    assert_eq!(query(&gateway, id(&first)), failed);
    let [item] = &items(&gateway, None)[..] else { panic!("one item") };
    assert_eq!((&item["type"], &item["query_id"]), (&json!("query.failed"), &first["query_id"]));
    // A reader of news finds it too.
    let target = format!("/news?query_id={}", id(&second));
    let item = until("the item comes", || gateway.get(&target).ok()["items"].get(0).cloned());
    assert_eq!(item["type"], "query.failed");
    assert_eq!(items(&gateway, Some(A)).len(), 1);
}

#[test]
fn a_stop_fails_what_it_cuts_and_keeps_that() {
    let upstream = Upstream::start(|exchange| {
        exchange.wait_until_left();
    });
    let file = chatting(&upstream.url()) + "limits: {shutdown: 1s}\nstore: {embedded: {path: data}}\n";
    let directory = Arc::new(TempDir::new().unwrap());
    let mut gateway = Gateway::start_in(directory.clone(), &file);
    let answer = accepted(&gateway.post("/talk", &dispatched("hi", "d-1", "q-1")));
    upstream.wait_for_requests(1);
    assert!(gateway.stop().0.success());
    drop(gateway);
    let gateway = Gateway::start_in(directory, &file);
    assert_eq!(query(&gateway, id(&answer))["code"], "shutting_down");
}

#[test]
fn where_news_ignore_sessions_an_answer_of_one_is_in_no_feed() {
    let (_gate, _upstream, gateway) = answered_by("  news: {sessions: ignored}\n");
    let answer = accepted(&gateway.call(&later("hi").session(A)));
    assert_eq!(ended(&gateway, id(&answer))["message"], "re: hi");
    assert!(items(&gateway, None).is_empty());
    ended(&gateway, id(&accepted(&gateway.post("/talk", &dispatched("hi", "d", "q")))));
    assert_eq!(items(&gateway, None).len(), 1, "one without a session is in the agent's own");
}

#[test]
fn where_news_require_a_session_its_answer_is_there() {
    let (_gate, _upstream, gateway) = answered_by("  news: {sessions: required}\n");
    let answer = accepted(&gateway.call(&later("hi").session(A)));
    ended(&gateway, id(&answer));
    assert_eq!(items(&gateway, Some(A))[0]["query_id"], answer["query_id"]);
    gateway.get("/news").refused(400, "missing_session_id");
}

#[test]
fn without_news_or_memory_a_query_still_has_its_answer() {
    let (_gate, upstream, gateway) = answered_by("  news: off\n");
    let answer = accepted(&gateway.call(&later("hi").session(A)));
    assert_eq!(ended(&gateway, id(&answer))["message"], "re: hi");
    let forgetful = Gateway::start(&chatting_with(&upstream.url(), "", "history: {turns: 0}"));
    let answer = accepted(&forgetful.call(&later("hi").session(A)));
    assert_eq!(keys(&answer), BTreeSet::from(["query_id", "status"]), "an ignored id is not echoed");
    let done = ended(&forgetful, id(&answer));
    assert_eq!(done["result"], json!({"result": "re: hi"}));
    let guide = Gateway::start("agent: {name: Guide}\n");
    let answer = accepted(&guide.call(&later("hi")));
    assert!(ended(&guide, id(&answer))["message"].as_str().unwrap().contains("Guide"));
}

#[test]
fn queries_of_one_session_run_one_after_the_other_and_keep_nobody_else_waiting() {
    let gate = Gate::default();
    let held = gate.clone();
    let upstream = Upstream::start(move |exchange| answering(exchange, &held));
    let file = chatting_with(&upstream.url(), "", "async: {running: 2, waiting: 30}");
    let gateway = Gateway::start(&file);
    let first = accepted(&gateway.call(&later("held").session(A)));
    upstream.wait_for_requests(1);
    let more: Vec<Value> = (0..8).map(|n| accepted(&gateway.call(&later(&format!("{n}")).session(A)))).collect();
    let other = accepted(&gateway.call(&later("meanwhile").session(B)));
    assert_eq!(ended(&gateway, id(&other))["status"], "completed");
    assert_eq!(query(&gateway, id(&more[0]))["status"], "processing");
    gate.open();
    for query in std::iter::once(&first).chain(&more) {
        assert_eq!(ended(&gateway, id(query))["status"], "completed");
    }
    // What was said before, news apart, grows by one exchange a turn.
    let said = |request: &Request| {
        let messages = request.json()["messages"].as_array().unwrap().clone();
        messages.iter().filter(|message| message["role"] != "system").count()
    };
    let requests = upstream.requests();
    let lengths: Vec<usize> =
        requests.iter().filter(|request| !request.text().contains("meanwhile")).map(said).collect();
    assert_eq!(lengths, [1, 3, 5, 7, 9, 11, 13, 15, 17]);
    assert_eq!(items(&gateway, Some(A)).len(), 9);
}

#[test]
fn queries_of_many_callers_all_end() {
    let (_gate, _upstream, gateway) = answered_by("");
    let answers: Vec<Value> = (0..40).map(|n| accepted(&gateway.call(&later(&format!("number {n}"))))).collect();
    for (number, answer) in answers.iter().enumerate() {
        assert_eq!(ended(&gateway, id(answer))["message"], format!("re: number {number}"));
    }
}
