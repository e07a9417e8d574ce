//! Agents that exist: taken in by `from:`, served as ours.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::support::{Call, Exchange, Gateway, Upstream, run, until};

/// What a RESTAP agent of the protocol's text says of itself.
fn catalog(name: &str) -> Value {
    json!({
        "restap_version": "1.0",
        "agent": {"name": name, "description": "An agent that exists.", "version": "7"},
        "capabilities": [
            {"id": "talk", "method": "POST", "endpoint": "/talk"},
            {"id": "news", "method": "GET", "endpoint": "/news"},
            {"id": "text.echo", "title": "Echo", "method": "POST", "endpoint": "/text/echo", "description": "Says it again.",
             "input_schema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}},
            {"id": "files.get", "method": "GET", "endpoint": "/files/{name}"}
        ],
        "packages": [{"name": "kit", "type": "npm"}],
        "protocols": {"mcp": {"available": true, "endpoint": "/mcp"}}
    })
}

fn answer(exchange: &mut Exchange<'_>, prefix: &str, name: &str) {
    let target = exchange.request.target.clone();
    match target.strip_prefix(prefix).unwrap_or("outside") {
        "/.well-known/restap.json" => exchange.json(&catalog(name)),
        "/talk" => exchange.json(&json!({"reply": format!("{name} says hello"), "session_id": "0123456789abcdef"})),
        "/text/echo" => exchange.json(&json!({"echoed_text": "x"})),
        "/files/a%20b" => exchange.json(&json!({"file": true})),
        "/mcp" => exchange.json(&json!({"jsonrpc": "2.0"})),
        _ => exchange.answer("404 Not Found", "Content-Type: application/json", b"{\"error\":\"not_found\"}"),
    }
}

fn agent(prefix: &'static str, name: &'static str) -> Upstream {
    Upstream::start(move |exchange| answer(exchange, prefix, name))
}

fn ids(gateway: &Gateway, base: &str) -> Vec<String> {
    let catalog = gateway.get(&format!("{base}/.well-known/restap.json")).ok();
    catalog["capabilities"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn an_agent_that_exists_is_served_as_it_says_under_our_base() {
    let upstream = agent("/deep/er", "Remote");
    let gateway = Gateway::start(&format!("agents: {{x: {{from: {}/deep/er}}}}", upstream.url()));
    let catalog = gateway.get("/agents/x/.well-known/restap.json").ok();
    assert_eq!(catalog["agent"], json!({"name": "Remote", "description": "An agent that exists."}));
    assert_eq!(catalog["version"], "7");
    assert_eq!(catalog["protocols"]["mcp"], json!({"available": true, "endpoint": "/mcp"}));
    assert!(catalog["packages"].as_array().unwrap().iter().any(|package| package["name"] == "kit"));
    let echo = catalog["capabilities"].as_array().unwrap().iter().find(|one| one["id"] == "text.echo").unwrap();
    assert_eq!((&echo["endpoint"], &echo["title"]), (&json!("/text/echo"), &json!("Echo")));
    assert_eq!(echo["input_schema"]["required"], json!(["text"]));

    assert_eq!(gateway.post("/agents/x/text/echo", &json!({})).ok()["echoed_text"], "x");
    assert_eq!(upstream.last().target, "/deep/er/text/echo");
    assert_eq!(gateway.get("/agents/x/files/a%20b").ok()["file"], true);
    gateway.post("/agents/x/mcp", &json!({})).ok();
    let reply = gateway.call(&Call::post("/agents/x/talk", &json!({"message": "hi"}))).ok();
    assert_eq!(reply["reply"], "Remote says hello");
    assert_eq!(upstream.last().target, "/deep/er/talk");
    assert_eq!(gateway.get("/agents/x/health").ok()["agent"], "Remote");
    let directory = gateway.get("/").ok();
    assert_eq!(directory["agents"][0]["name"], "Remote");
}

#[test]
fn what_the_file_says_wins() {
    let upstream = agent("", "Remote");
    let other = Upstream::start(|exchange| exchange.json(&json!({"other": true})));
    let gateway = Gateway::start(&format!(
        "upstreams: {{u: {{url: '{}', headers: {{X-Key: k}}}}}}\nagent:\n  from: {}\n  upstream: u\n  name: Ours\n  version: 9\n  talk: off\n  \
         capabilities:\n    - {{id: text.echo, method: POST, endpoint: /echo, route: {{upstream: '{}'}}}}\n",
        upstream.url(),
        upstream.url(),
        other.url()
    ));
    let catalog = gateway.get("/.well-known/restap.json").ok();
    assert_eq!((&catalog["agent"]["name"], &catalog["version"]), (&json!("Ours"), &json!("9")));
    assert_eq!(catalog["agent"]["description"], "An agent that exists.");
    assert_eq!(ids(&gateway, ""), ["news", "news_receive", "text.echo", "files.get", "mcp", "mcp.get", "mcp.delete"]);
    gateway.post("/echo", &json!({})).ok();
    assert_eq!(other.requests().len(), 1);
    gateway.get("/files/a%20b").ok();
    assert_eq!(upstream.last().header("x-key"), Some("k"));
    gateway.talk("hi").refused(404, "not_found");
}

#[test]
fn an_a2a_agent_is_talked_to_in_its_own_way() {
    let upstream = Upstream::start(|exchange| match exchange.request.target.as_str() {
        "/.well-known/agent-card.json" => {
            // As many cards do, it names the address that its author sees.
            exchange.json(
                &json!({"name": "Travel", "description": "Plans.", "version": "1.2", "protocolVersion": "0.3.0",
                "url": "http://localhost:1/rpc", "preferredTransport": "JSONRPC", "capabilities": {"streaming": false},
                "skills": [{"id": "r", "name": "Routes", "description": "Finds them."}]}),
            );
        }
        "/rpc" => {
            let method = exchange.request.json()["method"].clone();
            assert_eq!(method, "message/send");
            exchange.json(&json!({"jsonrpc": "2.0", "id": "1", "result": {"kind": "message", "messageId": "m", "role": "agent", "contextId": "c", "parts": [{"kind": "text", "text": "By train."}]}}));
        }
        _ => exchange.answer("404 Not Found", "", b""),
    });
    let gateway = Gateway::start(&format!("agents: {{t: {{from: {}}}}}", upstream.url()));
    let catalog = gateway.get("/agents/t/.well-known/restap.json").ok();
    assert_eq!(catalog["agent"]["description"], "Plans.\n- Routes: Finds them.");
    let reply = gateway.call(&Call::post("/agents/t/talk", &json!({"message": "how?"}))).ok();
    assert_eq!(reply["reply"], "By train.");
    assert!(gateway.logs().contains("same path of"), "{}", gateway.logs());
}

#[test]
fn an_agent_that_is_away_keeps_no_gateway_from_starting_and_its_last_good_copy_counts() {
    let up = Arc::new(AtomicBool::new(false));
    let is_up = up.clone();
    let upstream = Upstream::start(move |exchange| {
        if is_up.load(Ordering::Acquire) {
            answer(exchange, "", "Remote");
        } else {
            exchange.answer("503 Service Unavailable", "", b"");
        }
    });
    let folder = Arc::new(TempDir::new().unwrap());
    let file = format!("store: {{embedded: {{path: data}}}}\nagents: {{x: {{from: {}}}}}", upstream.url());
    let gateway = Gateway::start_in(folder.clone(), &file);
    assert_eq!(ids(&gateway, "/agents/x"), ["news", "news_receive"]);
    let (status, ready) = gateway.admin("/ready");
    assert!(status == 200 && ready.contains(&upstream.url()) && ready.contains("503"), "{ready}");
    up.store(true, Ordering::Release);
    until("the agent is taken in", || ids(&gateway, "/agents/x").contains(&"text.echo".to_owned()).then_some(()));
    until("nothing is missing", || (!gateway.admin("/ready").1.contains("503")).then_some(()));
    drop(gateway);
    up.store(false, Ordering::Release);
    let gateway = Gateway::start_in(folder, &file);
    assert_eq!(gateway.get("/agents/x/.well-known/restap.json").ok()["agent"]["name"], "Remote");
    assert!(ids(&gateway, "/agents/x").contains(&"talk".to_owned()));
    assert!(gateway.admin("/ready").1.contains("503"));
}

#[test]
fn check_warns_of_an_agent_that_is_away_and_of_what_it_leaves_out() {
    let folder = TempDir::new().unwrap();
    let file = "agents: {x: {from: 'http://127.0.0.1:1'}}";
    let done = run(folder.path(), Some(&format!("store: {{memory: {{}}}}\n{file}")), &["check"]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert!(
        done.stderr.contains("could not be read yet") && done.stderr.contains("gateway.yaml:2:20"),
        "{}",
        done.stderr
    );
    let hostile = Upstream::start(|exchange| {
        exchange.json(&json!({"agent": {"name": "H"}, "capabilities": [
            {"id": "talk", "method": "POST", "endpoint": "http://169.254.169.254/talk"},
            {"id": "up", "method": "GET", "endpoint": "/../admin"},
            {"id": "health2", "method": "GET", "endpoint": "/health/x"},
            {"id": "fine", "method": "GET", "endpoint": "/fine"}]}));
    });
    let file = format!("store: {{memory: {{}}}}\nagents: {{x: {{from: {}}}}}", hostile.url());
    let done = run(folder.path(), Some(&file), &["check"]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    for part in ["another origin", "`up`", "`health2`"] {
        assert!(done.stderr.contains(part), "{part}: {}", done.stderr);
    }
}

#[test]
fn nothing_that_a_catalog_names_makes_the_gateway_ask_somebody_else() {
    let other = Upstream::fixed("200 OK", "Content-Type: application/json", "{}");
    let there = other.url();
    let upstream = Upstream::start(move |exchange| {
        match exchange.request.target.as_str() {
        "/.well-known/restap.json" => exchange.json(&json!({
            "agent": {"name": "H", "base_url": there}, "public_url": there,
            "endpoints": {"talk": format!("{there}/talk"), "news": format!("{there}/news")},
            "capabilities": [{"id": "a", "method": "GET", "endpoint": format!("{there}/a"), "input_schema": {"$ref": format!("{there}/schema")}}],
            "protocols": {"mcp": {"endpoint": format!("{there}/mcp")}}})),
        _ => exchange.json(&json!({"reply": "mine", "items": [], "timestamp": 1})),
    }
    });
    let gateway = Gateway::start(&format!("agents: {{x: {{from: {}, follow_news: true}}}}", upstream.url()));
    gateway.get("/agents/x/a").ok();
    let reply = gateway.call(&Call::post("/agents/x/talk", &json!({"message": "hi"}))).ok();
    assert_eq!(reply["reply"], "mine");
    assert_eq!(other.accepted(), 0);
}

#[test]
fn a_credential_that_an_agent_publishes_is_not_published_again() {
    let upstream = Upstream::start(|exchange| {
        let mut said = catalog("Leaky");
        said["agent"]["description"] = json!("call me with very-secret-key-1");
        exchange.json(&said);
    });
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("key"), "very-secret-key-1").unwrap();
    let file = format!(
        "store: {{memory: {{}}}}\nupstreams: {{u: {{url: '{0}', bearer: {{file: key}}}}}}\nagents: {{x: {{from: {0}, upstream: u}}}}",
        upstream.url()
    );
    let done = run(folder.path(), Some(&file), &["check"]);
    assert!(done.stderr.contains("holds the credential of") && !done.stderr.contains("very-secret"), "{}", done.stderr);
    let done = run(folder.path(), None, &["catalog", "x"]);
    assert!(!done.stdout.contains("very-secret"), "{}", done.stdout);
}

#[test]
fn wrong_keys_are_told_at_their_place() {
    let folder = TempDir::new().unwrap();
    for (file, said) in [
        ("agents: {x: {follow_news: true}}", "there is no `from`"),
        ("agents: {x: {from: 'http://127.0.0.1:1', follow_news: true, news: off}}", "news: off"),
        ("agents: {x: {from: 'ftp://h'}}", "http://"),
        ("agents: {x: {from: 'http://u:p@h'}}", "user or password"),
        ("agents: {x: {from: 'http://h/?a=b'}}", "no query"),
        ("agents: {x: {from: 'http://169.254.169.254'}}", "credentials"),
        ("agents: {x: {form: 'http://h'}}", "did you mean `from`?"),
        ("agents: {x: {from: 'http://127.0.0.1:1', talk: {model: m}}}", "`model` does nothing here"),
        ("listen: ':4999'\nagents: {x: {from: 'http://127.0.0.1:4999/agents/x'}}", "taken in from itself"),
        (
            "public_url: https://a.example/in\nagents: {x: {from: 'https://a.example/in/agents/x'}}",
            "taken in from itself",
        ),
        (
            "listen: 127.0.0.1:4999\nagents: {x: {from: 'http://localhost:4999/agents/y'}, y: {from: 'http://127.0.0.1:4999/agents/x'}}",
            "taken in from itself",
        ),
        ("agents: {x: {host: x.example, from: 'https://x.example'}}", "taken in from itself"),
    ] {
        let done = run(folder.path(), Some(file), &["check"]);
        assert!(done.code == Some(1) && done.stderr.contains(said), "{file}: {:?} {}", done.code, done.stderr);
    }
}

/// Messages of an agent's own feed, from the beginning.
fn messages(gateway: &Gateway, base: &str) -> Vec<String> {
    let page = gateway.get(&format!("{base}/news?since=1&limit=1000")).ok();
    page["items"].as_array().unwrap().iter().map(|item| item["message"].as_str().unwrap().to_owned()).collect()
}

/// An agent with these news, of which it shows what is after `since`, as many as are asked for.
fn with_news(items: Arc<Mutex<Vec<Value>>>) -> Upstream {
    Upstream::start(move |exchange| {
        let target = exchange.request.target.clone();
        let Some((_, query)) = target.split_once("/news?") else {
            return answer(exchange, "", "Newsy");
        };
        let of = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name)?.parse::<u64>().ok());
        let (since, limit) = (of("since=").unwrap(), of("limit=").unwrap());
        let items = items.lock().unwrap();
        let after = items.iter().filter(|item| item["timestamp"].as_u64().unwrap() > since);
        let page: Vec<_> = after.take(usize::try_from(limit).unwrap()).collect();
        exchange.json(&json!({"items": page, "timestamp": 99}));
    })
}

#[test]
fn the_news_of_an_agent_that_is_followed_are_stored_once_also_over_a_restart() {
    // More than a page, of which many have one time, and two look alike.
    let item = |id: u64| json!({"id": id, "type": "note", "message": if id < 2 { "same".to_owned() } else { format!("m{id}") }, "timestamp": 1_000 + id.min(120)});
    let items = Arc::new(Mutex::new((0..250).map(item).collect::<Vec<_>>()));
    let upstream = with_news(items.clone());
    let folder = Arc::new(TempDir::new().unwrap());
    let file =
        format!("store: {{embedded: {{path: data}}}}\nagents: {{x: {{from: {}, follow_news: true}}}}", upstream.url());
    let mut gateway = Gateway::start_in(folder.clone(), &file);
    // Of a moment with more items than a page holds, a server without ids for readers shows the first page alone.
    until("what can be read is stored", || (messages(&gateway, "/agents/x").len() >= 220).then_some(()));
    let expected: Vec<String> = (0..220).map(|id| if id < 2 { "same".to_owned() } else { format!("m{id}") }).collect();
    assert_eq!(messages(&gateway, "/agents/x"), expected);
    gateway.kill();
    items
        .lock()
        .unwrap()
        .push(json!({"id": 1_000, "type": "note", "message": "after the restart", "timestamp": 2_000}));
    let gateway = Gateway::start_in(folder, &file);
    until("the new item is stored", || {
        messages(&gateway, "/agents/x").contains(&"after the restart".to_owned()).then_some(())
    });
    assert_eq!(messages(&gateway, "/agents/x").len(), 221);
    let page = gateway.get("/agents/x/news?limit=1").ok();
    assert!(page["items"][0]["origin"].is_string(), "{page}");
}

#[test]
fn two_gateways_that_follow_each_other_tell_each_item_once() {
    // Each follows the other, so that the second one's address is known before the first one starts.
    let place = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let there = place.local_addr().unwrap();
    drop(place);
    let one = Gateway::start(&format!("agent: {{name: One, from: 'http://{there}', follow_news: true, talk: off}}"));
    let two = Gateway::start(&format!(
        "listen: {there}\nagent: {{name: Two, from: {}, follow_news: true, talk: off}}",
        one.url()
    ));
    for round in 0..3 {
        one.post("/news", &json!({"type": "note", "message": format!("one {round}")})).ok();
        two.post("/news", &json!({"type": "note", "message": format!("two {round}")})).ok();
    }
    let all = |gateway: &Gateway| {
        let mut all = messages(gateway, "");
        all.sort();
        all
    };
    let expected = ["one 0", "one 1", "one 2", "two 0", "two 1", "two 2"];
    until("each has all", || (all(&one).len() >= 6 && all(&two).len() >= 6).then_some(()));
    // Another item each way shows that nothing came back meanwhile.
    one.post("/news", &json!({"type": "note", "message": "z one"})).ok();
    two.post("/news", &json!({"type": "note", "message": "z two"})).ok();
    let came = |gateway: &Gateway| all(gateway).iter().filter(|message| message.starts_with('z')).count() == 2;
    until("the last ones came", || (came(&one) && came(&two)).then_some(()));
    for gateway in [&one, &two] {
        let mut expected: Vec<_> = expected.iter().map(|text| (*text).to_owned()).collect();
        expected.extend(["z one".to_owned(), "z two".to_owned()]);
        assert_eq!(all(gateway), expected);
    }
}

#[test]
fn news_that_can_not_be_followed_are_asked_for_again() {
    let up = Arc::new(AtomicBool::new(false));
    let is_up = up.clone();
    let upstream = Upstream::start(move |exchange| {
        match (exchange.request.target.starts_with("/news"), is_up.load(Ordering::Acquire)) {
            (true, false) => exchange.answer("500 Internal Server Error", "Content-Type: text/html", b"<html>"),
            (true, true) => exchange.json(&json!({"items": [{"message": "at last"}]})),
            _ => answer(exchange, "", "Newsy"),
        }
    });
    let gateway = Gateway::start(&format!("agents: {{x: {{from: {}, follow_news: true}}}}", upstream.url()));
    gateway.wait_for_line("can't be followed: they are answered with 500");
    up.store(true, Ordering::Release);
    until("the item is stored", || (messages(&gateway, "/agents/x") == ["at last"]).then_some(()));
    gateway.wait_for_line("are read again");
}
