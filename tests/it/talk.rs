//! What `/talk` takes and how it answers: bodies, media types, negotiation.

use serde_json::{Value, json};

use crate::support::{Call, Gateway, Response, Upstream, chatting, chatting_with, delta, end};

fn talker() -> (Upstream, Gateway) {
    let upstream = Upstream::chat(&(delta("Hi") + &end("stop")));
    let gateway = Gateway::start(&chatting(&upstream.url()));
    (upstream, gateway)
}

fn content_type(response: &Response) -> &str {
    response.header("content-type").unwrap_or_default()
}

#[test]
fn an_event_stream_is_sent_exactly_where_it_is_asked_for() {
    let (_upstream, gateway) = talker();
    for (accept, streams) in [
        ("text/event-stream", true),
        ("Text/Event-Stream", true),
        ("text/event-stream, application/json", true),
        ("application/json, text/event-stream", true),
        ("text/event-stream;q=0.5, */*", true),
        ("text/event-stream;charset=utf-8", true),
        ("application/json", false),
        ("*/*", false),
        ("text/*", false),
        ("", false),
        ("text/html", false),
        ("text/event-stream;q=0", false),
        ("text/event-stream;q=0, application/json", false),
        ("text/event-stream;q=0.5, application/json;q=0.9", false),
        ("text/event-stream;q=broken", false),
        ("text/event-stream;q=0.1, text/event-stream;q=0.9, application/json;q=0.5", true),
    ] {
        let answer = gateway.call(&Call::talk("hi").header("Accept", accept));
        let expected = if streams { "text/event-stream" } else { "application/json" };
        assert_eq!((answer.status, content_type(&answer)), (200, expected), "{accept:?}");
    }
    assert_eq!(content_type(&gateway.talk("hi")), "application/json", "without any Accept");
}

#[test]
fn an_accept_that_stands_on_several_lines_counts_as_a_whole() {
    let (_upstream, gateway) = talker();
    let call = Call::talk("hi").header("Accept", "application/json;q=0.1").header("Accept", "text/event-stream");
    assert_eq!(content_type(&gateway.call(&call)), "text/event-stream");
}

#[test]
fn while_streaming_is_off_only_a_stream_is_not_acceptable() {
    let upstream = Upstream::chat(&(delta("Hi") + &end("stop")));
    let gateway = Gateway::start(&chatting_with(&upstream.url(), "", "streaming: false"));
    for accept in ["text/event-stream", "text/event-stream, text/html", "text/event-stream, application/json;q=0"] {
        gateway.call(&Call::talk("hi").header("Accept", accept)).refused(406, "not_acceptable");
    }
    assert!(upstream.requests().is_empty(), "what is not acceptable is not asked");
    for accept in ["text/event-stream, application/json", "text/event-stream, */*;q=0.1", "text/html", "*/*"] {
        let answer = gateway.call(&Call::talk("hi").header("Accept", accept));
        assert_eq!((answer.status, content_type(&answer)), (200, "application/json"), "{accept}");
    }
}

#[test]
fn only_json_is_taken_and_the_refusal_shows_how() {
    let (upstream, gateway) = talker();
    let body = r#"{"message": "hi"}"#;
    for media_type in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/vnd.api+json",
    ] {
        let call = Call::new("POST", "/talk").header("Content-Type", media_type).body(body);
        let refused = gateway.call(&call).refused(415, "unsupported_media_type");
        assert!(refused["message"].as_str().unwrap().contains("-H 'Content-Type: application/json'"), "{refused}");
    }
    gateway.call(&Call::new("POST", "/talk").body(body)).refused(415, "unsupported_media_type");
    for media_type in ["application/json; charset=utf-8", "Application/JSON"] {
        gateway.call(&Call::new("POST", "/talk").header("Content-Type", media_type).body(body)).ok();
    }
    assert_eq!(upstream.requests().len(), 2);
}

#[test]
fn every_broken_body_has_its_code_for_both_kinds_of_caller() {
    let (upstream, gateway) = talker();
    for (body, code) in [
        ("", "invalid_json"),
        ("{", "invalid_json"),
        ("{\"message\": \"hi\"} trailing", "invalid_json"),
        ("{\"message\": \"\u{0}\"}", "invalid_json"),
        ("[]", "missing_message"),
        ("\"hi\"", "missing_message"),
        ("null", "missing_message"),
        ("{}", "missing_message"),
        ("{\"message\": null}", "missing_message"),
        ("{\"message\": \"\"}", "missing_message"),
        ("{\"message\": 3}", "missing_message"),
        ("{\"message\": [\"hi\"]}", "missing_message"),
        ("{\"message\": \"hi\", \"session_id\": 7}", "invalid_session_id"),
        ("{\"message\": \"hi\", \"session_id\": \"short\"}", "invalid_session_id"),
    ] {
        let call = Call::new("POST", "/talk").header("Content-Type", "application/json").body(body);
        let json = gateway.call(&call).refused(400, code);
        assert_eq!(gateway.call(&call.streamed()).refused(400, code), json, "{body}");
    }
    let call = Call::new("POST", "/talk").header("Content-Type", "application/json").body(*b"{\"message\": \"\xff\"}");
    gateway.call(&call).refused(400, "invalid_json");
    assert!(upstream.requests().is_empty());
}

#[test]
fn deeply_nested_json_is_refused_without_harm() {
    let (_upstream, gateway) = talker();
    let deep = "[".repeat(200_000);
    let call = Call::new("POST", "/talk").header("Content-Type", "application/json").body(deep);
    gateway.call(&call).refused(400, "invalid_json");
    gateway.talk("still there?").ok();
}

#[test]
fn white_space_is_a_message_and_unknown_keys_go_nowhere() {
    let (upstream, gateway) = talker();
    gateway.post("/talk", &json!({"message": " \n", "model": "gpt-9", "temperature": 2, "stream": false})).ok();
    let sent = upstream.request().json();
    assert_eq!(sent["messages"].as_array().unwrap().last().unwrap()["content"], " \n");
    assert_eq!((&sent["model"], sent.get("temperature")), (&json!("m"), None));
}

#[test]
fn a_message_reaches_the_upstream_byte_for_byte() {
    let (upstream, gateway) = talker();
    let message = "quotes \" back\\slash \u{1F600} {{system}} ${HOME} \u{2028} \u{7f} <|im_start|>";
    gateway.talk(message).ok();
    assert_eq!(upstream.request().json()["messages"].as_array().unwrap().last().unwrap()["content"], message);
}

#[test]
fn a_body_over_the_limit_is_refused_before_and_while_it_is_read() {
    let upstream = Upstream::chat(&(delta("Hi") + &end("stop")));
    let gateway = Gateway::start(&format!("limits: {{body: 10KiB}}\n{}", chatting(&upstream.url())));
    let long = json!({"message": "x".repeat(20_000)});
    gateway.post("/talk", &long).refused(413, "payload_too_large");
    let text = long.to_string();
    let chunked = Call::new("POST", "/talk")
        .header("Content-Type", "application/json")
        .header("Transfer-Encoding", "chunked")
        .body(format!("{:x}\r\n{text}\r\n0\r\n\r\n", text.len()));
    gateway.call(&chunked).refused(413, "payload_too_large");
    assert!(upstream.requests().is_empty());
    gateway.talk("short").ok();
}

#[test]
fn an_oversized_upload_is_refused_without_waiting_for_it() {
    let (_upstream, gateway) = talker();
    let mut connection = gateway.connect();
    let head =
        Call::new("POST", "/talk").header("Content-Type", "application/json").header("Content-Length", "999999999");
    connection.send(head.bytes());
    connection.response(false).refused(413, "payload_too_large");
}

#[test]
fn a_single_valued_header_that_stands_twice_is_refused() {
    let (_upstream, gateway) = talker();
    gateway.call(&Call::talk("hi").header("Content-Type", "application/json")).refused(400, "bad_request");
}

#[test]
fn other_methods_are_told_what_talk_takes() {
    let (_upstream, gateway) = talker();
    for method in ["GET", "PUT", "DELETE", "HEAD"] {
        let answer = gateway.call(&Call::new(method, "/talk"));
        // The answer to a HEAD has no body to read.
        assert_eq!((answer.status, answer.header("allow")), (405, Some("POST, OPTIONS")), "{method}");
    }
}

#[test]
fn talk_off_is_no_path_and_no_capability() {
    let gateway = Gateway::start("agent: {name: Quiet, talk: off}\n");
    gateway.talk("hi").refused(404, "not_found");
    let catalog = gateway.get("/.well-known/restap.json").ok();
    let ids: Vec<&Value> = catalog["capabilities"].as_array().unwrap().iter().map(|entry| &entry["id"]).collect();
    assert_eq!(ids, ["news", "news_receive"]);
}

#[test]
fn without_a_model_the_guide_answers_from_the_catalog() {
    let upstream = Upstream::fixed("200 OK", "", "");
    let gateway = Gateway::start(&format!(
        "agent:\n  name: Weather\n  description: Knows the weather\n  upstream: {}\n  capabilities:\n    \
         - {{id: weather.current, method: GET, endpoint: '/weather/{{city}}', title: Current weather}}\n",
        upstream.url()
    ));
    let body = gateway.talk("what is the weather?").ok();
    let reply = body["reply"].as_str().unwrap();
    for part in ["weather.current", "GET", "/weather/{city}", "/.well-known/restap.json"] {
        assert!(reply.contains(part), "{part}: {reply}");
    }
    assert!(body.get("session_id").is_none());
    let events = gateway.stream("what is the weather?").events();
    assert_eq!(events.text(), reply);
    assert_eq!(events.names().first(), Some(&"message.start"));
    assert_eq!(events.names().last_chunk(), Some(&["message.end", "done"]));
    assert!(upstream.requests().is_empty());
}

#[test]
fn the_model_gets_what_the_file_says() {
    let upstream = Upstream::chat(&(delta("Hi") + &end("stop")));
    let talk = "system: Be brief., options: {temperature: 0.5}";
    let gateway = Gateway::start(&chatting_with(&upstream.url(), "api_key: sk-test-1, headers: {X-Team: blue}", talk));
    gateway.talk("hi").ok();
    let request = upstream.request();
    assert_eq!(request.target, "/v1/chat/completions");
    assert_eq!(request.header("authorization"), Some("Bearer sk-test-1"));
    assert_eq!(request.header("x-team"), Some("blue"));
    let body = request.json();
    assert_eq!(
        body["messages"],
        json!([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}])
    );
    assert_eq!((&body["temperature"], &body["model"]), (&json!(0.5), &json!("m")));
    assert!(!gateway.logs().contains("sk-test-1"));
}

#[test]
fn a_request_id_is_taken_or_made_and_stands_everywhere() {
    let (upstream, gateway) = talker();
    let answer = gateway.call(&Call::talk("hi").header("X-Request-Id", "order-77"));
    assert_eq!(answer.header("x-request-id"), Some("order-77"));
    assert_eq!(upstream.last().header("x-request-id"), Some("order-77"));
    gateway.wait_for_line("id=order-77");
    let made = gateway.talk("hi");
    let id = made.header("x-request-id").unwrap();
    assert_eq!(id.len(), 36);
    assert_eq!(upstream.last().header("x-request-id"), Some(id));
    let strange = gateway.call(&Call::talk("hi").header("X-Request-Id", "two words"));
    assert_ne!(strange.header("x-request-id"), Some("two words"));
}
