//! The clients that exist, each with the requests that it sends: docs/conformance.md says what they find.

use serde_json::{Value, json};

use super::support::{Call, Gateway, Upstream, chatting, delta, end};

/// What the reference server answers, as far as its suites look at it.
fn reference() -> Upstream {
    Upstream::start(|exchange| {
        let path = exchange.request.target.split('?').next().unwrap_or_default().to_owned();
        let body: Value = serde_json::from_slice(&exchange.request.body).unwrap_or_default();
        let text = body["text"].as_str().map(str::to_owned);
        let missing = json!({"error": "Missing 'text' field"}).to_string();
        match (path.as_str(), text) {
            ("/.well-known/restap.json", _) => exchange.json(&json!({
                "restap_version": "1.0",
                "agent": {"name": "Simple RESTAP Demo Agent", "description": "Echoes and reverses text"},
                "capabilities": [
                    {"id": "talk", "title": "Talk", "method": "POST", "endpoint": "/talk", "output_formats": ["application/json", "text/event-stream"], "streaming": {"supported": true, "transport": "sse"}},
                    {"id": "news", "title": "News", "method": "GET", "endpoint": "/news"},
                    {"id": "news_receive", "title": "News", "method": "POST", "endpoint": "/news"},
                    {"id": "text.echo", "title": "Echo", "method": "POST", "endpoint": "/text/echo", "input_schema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}},
                    {"id": "text.reverse", "title": "Reverse", "method": "POST", "endpoint": "/text/reverse", "input_schema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}}
                ],
                "packages": [],
                "protocols": {"mcp": {"available": false}, "a2a": {"available": false}}
            })),
            ("/talk", _) => {
                let reply = format!("Hello! You said {}", body["message"].as_str().unwrap_or_default());
                if exchange.request.header("accept").is_some_and(|accept| accept.contains("event-stream")) {
                    let events = [
                        ("message.start", json!({"event": "message.start", "id": "m", "session_id": "0123456789abcdef"})),
                        ("message.delta", json!({"event": "message.delta", "id": "m", "text": reply})),
                        ("message.end", json!({"event": "message.end", "id": "m", "suggested_actions": []})),
                        ("done", json!({"event": "done", "session_id": "0123456789abcdef"})),
                    ];
                    let frames: Vec<String> =
                        events.iter().map(|(event, data)| format!("event: {event}\ndata: {data}\n\n")).collect();
                    exchange.stream(&frames.concat());
                } else {
                    exchange.json(&json!({"reply": reply, "session_id": "0123456789abcdef", "suggested_actions": []}));
                }
            }
            ("/text/echo", Some(text)) => exchange.json(&json!({"original_text": text, "echoed_text": text})),
            ("/text/reverse", Some(text)) => {
                let reversed: String = text.chars().rev().collect();
                exchange.json(&json!({"original_text": text, "reversed_text": reversed}));
            }
            ("/text/echo" | "/text/reverse", None) => {
                exchange.answer("400 Bad Request", "Content-Type: application/json", missing.as_bytes());
            }
            _ => exchange.answer("404 Not Found", "Content-Type: text/html", b"<html>Cannot GET</html>"),
        }
    })
}

fn before_the_reference() -> (Upstream, Gateway) {
    let reference = reference();
    let gateway = Gateway::start(&format!("agent: {{from: {}}}", reference.url()));
    (reference, gateway)
}

/// As all calls of Node's fetch.
fn fetched(call: Call) -> Call {
    call.header("Accept", "*/*").header("User-Agent", "node-fetch").header("Accept-Encoding", "gzip, deflate, br")
}

fn is_truthy(value: &Value) -> bool {
    !matches!(value, Value::Null | Value::Bool(false))
}

#[test]
fn the_shell_suite_of_the_reference_passes_before_its_server() {
    let (_reference, gateway) = before_the_reference();
    gateway.get("/health").json();
    let catalog = gateway.get("/.well-known/restap.json").json();
    assert!(["restap_version", "agent", "provider", "capabilities"].iter().all(|key| is_truthy(&catalog[*key])));
    let endpoint = |id: &str| {
        let all = catalog["capabilities"].as_array().unwrap();
        all.iter().find(|one| one["id"] == id).map(|one| one["endpoint"].as_str().unwrap().to_owned())
    };
    assert_eq!(endpoint("text.echo").as_deref(), Some("/text/echo"));
    assert_eq!(endpoint("text.reverse").as_deref(), Some("/text/reverse"));
    for message in ["Hello!", "What can you do?", "Tell me about echo"] {
        gateway.post("/talk", &json!({"message": message})).json();
    }
    assert!(is_truthy(&gateway.post("/talk", &json!({})).json()["error"]));
    assert_eq!(gateway.post("/text/echo", &json!({"text": "abc"})).json()["echoed_text"], "abc");
    assert_eq!(gateway.post("/text/reverse", &json!({"text": "abc"})).json()["reversed_text"], "cba");
    for path in ["/text/echo", "/text/reverse"] {
        assert!(is_truthy(&gateway.post(path, &json!({})).json()["error"]));
    }
    for path in ["/news", "/news?since=0"] {
        assert!(gateway.get(path).json()["items"].is_array());
    }
    let reply = json!({"type": "reply", "from": "tester", "in_reply_to": "query_1", "message": "done"});
    gateway.post("/news", &reply).json();
    assert!(is_truthy(&gateway.post("/news", &json!({"from": "tester"})).json()["error"]));
    assert!(!gateway.get("/news").json()["items"].as_array().unwrap().is_empty());
    std::thread::scope(|scope| {
        for _ in 0..10 {
            scope.spawn(|| gateway.post("/text/echo", &json!({"text": "abc"})).ok());
        }
    });
}

#[test]
fn the_test_suite_of_the_reference_finds_what_it_asserts() {
    let (_reference, gateway) = before_the_reference();
    let catalog = gateway.get("/.well-known/restap.json").ok();
    assert_eq!(
        (&catalog["restap_version"], &catalog["agent"]["name"]),
        (&json!("1.0"), &json!("Simple RESTAP Demo Agent"))
    );
    assert_eq!(catalog["protocols"], json!({"mcp": {"available": false}, "a2a": {"available": false}}));
    let talk = catalog["capabilities"].as_array().unwrap().iter().find(|one| one["id"] == "talk").unwrap();
    assert_eq!(talk["output_formats"], json!(["application/json", "text/event-stream"]));
    assert_eq!(talk["streaming"]["transport"], "sse");
    let reply = gateway.talk("Hello").ok();
    assert!(reply["reply"].as_str().unwrap().contains("Hello") && reply["suggested_actions"].is_array());
    let broken = gateway.post("/text/echo", &json!({}));
    assert_eq!((broken.status, broken.json()["error"].clone()), (400, json!("Missing 'text' field")));
    gateway.post("/talk", &json!({"message": "m", "session_id": "too-short"})).refused(400, "invalid_session_id");
    let kept = gateway.post("/news", &json!({"type": "note"})).ok();
    assert!(kept["status"] == "received" && kept["news_id"].is_string());
    let stream = gateway.stream("Hello");
    assert!(
        stream.text().contains("event: message.start\ndata: {\"event\":\"message.start\",\"id\":"),
        "{}",
        stream.text()
    );
    let events = stream.events();
    let ends = events.frames.iter().filter(|frame| matches!(frame.event.as_str(), "message.start" | "done"));
    assert!(ends.count() == 2 && stream.text().matches("session_id").count() == 2, "{}", stream.text());
    // These two are other than there.
    assert_eq!(gateway.get("/health").ok()["status"], "ok");
    gateway.post("/talk", &json!({})).refused(400, "missing_message");
}

#[test]
fn the_stream_example_assembles_the_reply() {
    let upstream = Upstream::chat(&(delta("Hel") + &delta("lo") + &end("stop")));
    let gateway = Gateway::start(&chatting(&upstream.url()));
    let call = Call::post("/talk", &json!({"message": "hi"})).header("Accept", "text/event-stream, application/json");
    let response = gateway.call(&call.header("Accept-Encoding", "gzip, deflate"));
    assert!(response.header("content-type").unwrap().contains("text/event-stream"));
    // It splits at `\n\n`, and reads to the end of the body.
    assert!(!response.text().contains('\r'));
    let mut reply = String::new();
    for frame in response.text().split("\n\n") {
        let line = |name: &str| frame.lines().find_map(|line| line.strip_prefix(name));
        let data: Value = line("data: ").map(|data| serde_json::from_str(data).unwrap()).unwrap_or_default();
        if line("event: ") == Some("message.delta") {
            reply += data["text"].as_str().unwrap();
        }
    }
    assert_eq!(reply, "Hello");
}

#[test]
fn the_plugin_client_reads_json_everywhere() {
    let (_reference, gateway) = before_the_reference();
    for call in [
        Call::get("/.well-known/restap.json"),
        Call::post("/talk", &json!({"message": "hi"})),
        Call::post("/text/echo", &json!({"text": "a"})),
        Call::post("/text/reverse", &json!({})),
        Call::get("/news"),
        Call::get("/nowhere"),
        Call::new("DELETE", "/talk"),
        Call::post("/talk", &json!(1)),
    ] {
        let response = gateway.call(&fetched(call));
        let body = if response.header("content-encoding") == Some("gzip") {
            response.gunzip()
        } else {
            response.text().into()
        };
        let _: Value = serde_json::from_slice(&body).unwrap();
    }
}

#[test]
fn shell_scripts_talk_and_poll() {
    let (_reference, gateway) = before_the_reference();
    let talk = json!({"message": "hi", "from": "script", "reply_endpoint": "http://127.0.0.1:1/news"});
    assert!(gateway.post("/talk", &talk).ok()["reply"].is_string());
    gateway.post("/news", &json!({"type": "reply", "message": "late", "data": {"in_reply_to": "q"}})).ok();
    let page = gateway.get("/news?since=1").ok();
    assert_eq!(page["items"][0]["data"]["in_reply_to"], "q");
}

#[test]
fn the_command_line_client_talks_polls_and_shows_the_agent() {
    let (_reference, gateway) = before_the_reference();
    let catalog = gateway.call(&Call::get("/.well-known/restap.json").header("Accept", "application/json")).ok();
    assert_eq!(catalog["provider"]["name"], "Simple RESTAP Demo Agent");
    assert!(!catalog["capabilities"].as_array().unwrap().is_empty());
    assert!(
        gateway.call(&fetched(Call::post("/talk", &json!({"message": "hi", "from": "cli"})))).ok()["reply"].is_string()
    );
    // Its next `since` is the page's own timestamp, and an item that comes right after a poll is in the next one.
    let mut since = 0;
    let mut seen = Vec::new();
    for round in 0..5 {
        let page = gateway.get(&format!("/news?since={since}")).ok();
        since = page["timestamp"].as_u64().unwrap();
        seen.extend(page["items"].as_array().unwrap().iter().map(|item| item["message"].as_str().unwrap().to_owned()));
        gateway.post("/news", &json!({"type": "note", "message": round.to_string()})).ok();
    }
    assert_eq!(seen, ["0", "1", "2", "3"]);
}

#[test]
fn the_heartbeat_probe_passes_while_the_service_is_down() {
    let gateway = Gateway::start(&chatting(&Upstream::unreachable()));
    let health = gateway.call(&Call::get("/health").header("Accept", "application/json"));
    assert_eq!(health.status, 200);
    assert_eq!(health.ok()["status"], "ok");
    let catalog = gateway.call(&Call::get("/.well-known/restap.json").header("Accept", "application/json")).ok();
    assert_eq!(catalog["service_type"], "public-agent");
}

#[test]
fn a_public_agent_can_be_added_and_chatted_with() {
    let upstream = Upstream::chat(&(delta("Hello") + &end("stop")));
    let gateway = Gateway::start(&format!("public_url: https://agent.example\n{}", chatting(&upstream.url())));
    let as_public = |call: Call| fetched(call).header("Host", "agent.example");
    let catalog = gateway.call(&as_public(Call::get("/.well-known/restap.json")).header("Accept-Encoding", "identity"));
    let catalog: Value = match catalog.header("content-encoding") {
        Some("gzip") => serde_json::from_slice(&catalog.gunzip()).unwrap(),
        _ => catalog.ok(),
    };
    assert_eq!(catalog["service_type"], "public-agent");
    assert!(catalog["version"].as_str().is_some_and(|version| !version.is_empty()));
    assert_eq!(
        (&catalog["endpoints"]["talk"], &catalog["public_url"]),
        (&json!("/talk"), &json!("https://agent.example"))
    );
    let first = gateway.call(&as_public(Call::post("/talk", &json!({"message": "one"})))).ok();
    let session = first["session_id"].as_str().unwrap();
    let second = gateway.call(&as_public(Call::post("/talk", &json!({"message": "two", "session_id": session})))).ok();
    assert_eq!((&second["session_id"], &second["reply"]), (&first["session_id"], &json!("Hello")));
}

#[test]
fn the_library_polls_news_and_replies_to_a_query() {
    let (_reference, gateway) = before_the_reference();
    let reply = json!({"query_id": "query_9", "message": "the answer", "from": "agent", "type": "response"});
    assert_eq!(gateway.call(&fetched(Call::post("/news", &reply))).status, 200);
    gateway.post("/news", &json!({"type": "note", "message": "something else"})).ok();
    let page = gateway.get("/news?since=0&limit=50&query_id=query_9").ok();
    let items = page["items"].as_array().unwrap();
    assert_eq!(items.len(), 1);
    assert_eq!((&items[0]["type"], &items[0]["message"]), (&json!("response"), &json!("the answer")));
}

#[test]
fn the_manager_probes_talks_and_reads_news() {
    let (reference, gateway) = before_the_reference();
    let probe = gateway.call(&fetched(Call::post("/talk", &json!({"message": "reply with OK", "from": "probe"})))).ok();
    assert!(probe["reply"].is_string() && probe.get("query_id").is_none());
    let talk = json!({"message": "hi", "from": "manager", "context": {"a": 1}, "history": []});
    let reply = gateway.call(&fetched(Call::post("/talk", &talk))).ok();
    assert!(reply["reply"].is_string() && reply.get("query_id").is_none());
    // What the agent may refuse is not sent on.
    let sent = reference.last().json();
    assert!(sent.as_object().unwrap().keys().all(|key| matches!(key.as_str(), "message" | "session_id")), "{sent}");
    let news = json!({"type": "message", "message": "m", "from": "manager", "data": {"a": 1}, "trigger": true});
    assert_eq!(gateway.call(&fetched(Call::post("/news", &news))).status, 200);
    for number in 0..60 {
        gateway.post("/news", &json!({"type": "note", "message": number.to_string()})).ok();
    }
    let page = gateway.get("/news?since=0&limit=50").ok();
    let items = page["items"].as_array().unwrap();
    assert_eq!((items.len(), &items[49]["message"]), (50, &json!("59")));
}

#[test]
fn an_ask_that_wants_a_query_gets_one_only_where_it_says_so() {
    let (_reference, gateway) = before_the_reference();
    let ask = json!({"message": "hi", "from": "remote"});
    let plain = gateway.post("/talk", &ask);
    assert_eq!(plain.status, 200);
    assert!(plain.ok().get("query_id").is_none());
    let later = gateway.call(&Call::post("/talk", &ask).header("Prefer", "respond-async"));
    assert_eq!(later.status, 202);
    let id = later.json()["query_id"].as_str().unwrap().to_owned();
    let done = super::support::until("the query is done", || {
        let query = gateway.get(&format!("/query/{id}")).ok();
        (query["status"] == "completed").then_some(query)
    });
    assert!(done["message"].as_str().unwrap().contains("hi"));
}

#[test]
fn a_dispatch_that_is_repeated_asks_the_service_once() {
    let (reference, gateway) = before_the_reference();
    let body = json!({"message": "[dispatch_id: d1]\n[query_id: q1]\n\nwork", "from": "scheduler", "dispatch_id": "d1", "query_id": "q1"});
    let first = gateway.post("/talk", &body);
    assert_eq!(first.status, 202);
    let id = first.json()["query_id"].clone();
    assert!(id.as_str().is_some_and(|id| !id.is_empty()));
    let item = super::support::until("the answer is news", || {
        let page = gateway.get("/news?since=0&limit=50").ok();
        page["items"].as_array().unwrap().iter().find(|item| item["type"] == "query.completed").cloned()
    });
    assert_eq!(item["data"]["caller_query_id"], "q1");
    assert!(item["data"]["result"]["result"].is_string());
    for _ in 0..3 {
        assert_eq!(gateway.post("/talk", &body).json()["query_id"], id);
    }
    assert_eq!(reference.requests().iter().filter(|request| request.target == "/talk").count(), 1);
}

#[test]
fn a_reply_endpoint_is_never_called() {
    let (_reference, gateway) = before_the_reference();
    let waiting = Upstream::fixed("200 OK", "", "");
    let body = json!({"message": "hi", "from": "test-manager", "query_id": "query_1", "reply_endpoint": format!("{}/news", waiting.url())});
    assert!(gateway.post("/talk", &body).ok()["reply"].is_string());
    assert_eq!(waiting.accepted(), 0);
}
