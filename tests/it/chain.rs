//! A RESTAP agent as the upstream of another one: two gateways, one conversation.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use serde_json::json;

use crate::support::{Call, Connection, Gate, Gateway, Upstream, chatting, delta, end};

fn before(inner: &Gateway) -> Gateway {
    Gateway::start(&format!("agent: {{name: Outer, talk: {{upstream: {}, dialect: restap}}}}\n", inner.url()))
}

#[test]
fn a_reply_streams_through_two_gateways_as_it_is_made() {
    let gate = Gate::default();
    let held = gate.clone();
    let upstream = Upstream::start(move |exchange| {
        exchange.open_stream();
        exchange.send(delta("one "));
        held.wait();
        exchange.send(delta("two") + &end("stop"));
    });
    let inner = Gateway::start(&chatting(&upstream.url()));
    let outer = before(&inner);
    let mut stream = outer.open(&Call::talk("hi").streamed());
    assert_eq!(stream.next().unwrap().event, "message.start");
    assert_eq!(stream.next().unwrap().text(), "one ");
    gate.open();
    let rest = stream.rest();
    assert_eq!((rest.names(), rest.text()), (vec!["message.delta", "message.end", "done"], "two".to_owned()));
    assert_eq!(outer.talk("hi").ok()["reply"], "one two");
}

#[test]
fn a_conversation_continues_through_two_gateways_under_ids_of_its_own() {
    let upstream = Upstream::chat(&(delta("ok") + &end("stop")));
    let inner = Gateway::start(&chatting(&upstream.url()));
    let outer = before(&inner);
    let session = outer.talk("one").ok()["session_id"].as_str().unwrap().to_owned();
    outer.post("/talk", &json!({"message": "two", "session_id": session})).ok();
    let said = upstream.last().json()["messages"].clone();
    assert_eq!(said.as_array().unwrap().len(), 3, "{said}");
    outer.talk("another thread").ok();
    assert_eq!(upstream.last().json()["messages"].as_array().unwrap().len(), 1);
    assert!(!inner.logs().contains(&session));
    // The outer caller's id names nothing at the inner agent.
    inner.post("/talk", &json!({"message": "three", "session_id": session})).ok();
    assert_eq!(upstream.last().json()["messages"].as_array().unwrap().len(), 1);
}

#[test]
fn a_failure_keeps_its_status_through_two_gateways() {
    for (status, ours, code) in [
        ("429 Too Many Requests", 429, "upstream_rate_limited"),
        ("503 Service Unavailable", 503, "upstream_unavailable"),
        ("401 Unauthorized", 502, "upstream_error"),
    ] {
        let upstream = Upstream::fixed(status, "Retry-After: 9", "");
        let inner = Gateway::start(&chatting(&upstream.url()));
        let outer = before(&inner);
        outer.stream("hi").refused(ours, code);
        let answer = outer.talk("hi");
        answer.refused(ours, code);
        if ours != 502 {
            assert_eq!(answer.header("retry-after"), Some("9"));
        }
    }
}

#[test]
fn a_broken_reply_is_error_and_done_through_two_gateways() {
    let upstream = Upstream::start(|exchange| {
        exchange.open_stream();
        exchange.send(delta("Half"));
    });
    let inner = Gateway::start(&chatting(&upstream.url()));
    let outer = before(&inner);
    assert_eq!(outer.stream("hi").events().names(), ["message.start", "message.delta", "error", "done"]);
    outer.talk("hi").refused(502, "upstream_error");
}

#[test]
fn an_agent_that_asks_itself_is_a_loop_and_not_an_outage() {
    // Its own address has to stand in its file.
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    drop(socket);
    let gateway = Gateway::start(&format!(
        "listen: {address}\nagent: {{name: Ouroboros, talk: {{upstream: 'http://{address}', dialect: restap}}}}\n"
    ));
    let answer = gateway.talk("hi");
    assert!(answer.status == 508 || answer.status == 502, "{}", answer.text());
    assert!(gateway.logs().contains("error=loop_detected"), "{}", gateway.logs());
}

#[test]
fn the_eighth_hop_of_a_talk_is_refused() {
    let upstream = Upstream::chat(&(delta("ok") + &end("stop")));
    let gateway = Gateway::start(&chatting(&upstream.url()));
    let through = |hops: usize| Call::talk("hi").header("CDN-Loop", &vec!["some-cdn; v=1"; hops].join(", "));
    gateway.call(&through(8)).refused(508, "loop_detected");
    gateway.call(&through(8).streamed()).refused(508, "loop_detected");
    gateway.call(&through(8).header("Prefer", "respond-async")).refused(508, "loop_detected");
    assert!(upstream.requests().is_empty());
    gateway.call(&through(7)).ok();
    assert_eq!(upstream.request().header("cdn-loop").unwrap().split(", ").count(), 8);
    assert_eq!(upstream.request().header("cdn-loop").unwrap().split(", ").last(), Some("restap-gateway"));
}

#[test]
fn a_circle_of_two_gateways_ends() {
    // A bridge whose other end is only known once the second gateway serves closes the circle.
    let first: Arc<OnceLock<SocketAddr>> = Arc::default();
    let there = first.clone();
    let bridge = Upstream::start(move |exchange| {
        let request = exchange.request.clone();
        let mut call = Call::new(&request.method, &request.target).body(request.body);
        for (name, value) in &request.headers {
            call = call.header(name, value);
        }
        let answer = Connection::open(*there.get().unwrap()).call(&call);
        exchange.answer(&format!("{} Answer", answer.status), "Content-Type: application/json", &answer.body);
    });
    let restap = |url: &str| format!("agent: {{name: Circle, talk: {{upstream: '{url}', dialect: restap}}}}\n");
    let behind = Gateway::start(&restap(&bridge.url()));
    let front = Gateway::start(&restap(&behind.url()));
    first.set(front.address()).unwrap();
    for call in [Call::talk("hi"), Call::talk("hi").header("Prefer", "respond-async, wait=20")] {
        let answer = front.call(&call);
        assert!(answer.status == 508 || answer.status == 502, "{}", answer.text());
    }
    front.wait_for_line("error=loop_detected");
    assert_eq!(bridge.requests().len(), 8, "each circle has eight hops, four of them over the bridge");
}
