use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn base(text: &str) -> Base {
    Base::parse(text).unwrap()
}

fn read_at(url: &str, document: &Value) -> Remote {
    read(&base(url), document.to_string().as_bytes()).unwrap()
}

fn at(document: &Value) -> Remote {
    read_at("http://10.0.0.1:4101", document)
}

fn routes(remote: &Remote) -> Vec<String> {
    remote.capabilities.iter().map(|one| format!("{} {} {}", one.id, one.method, one.endpoint)).collect()
}

fn talk(remote: &Remote) -> (&'static str, &str) {
    let talk = remote.talk.as_ref().unwrap();
    (talk.dialect, &talk.path)
}

#[test]
fn the_catalog_of_the_protocols_text() {
    let remote = at(&json!({
        "restap_version": "1.0",
        "agent": {"name": "Demo", "description": "Echoes", "contact": "a@b", "version": "2"},
        "capabilities": [
            {"id": "talk", "method": "POST", "endpoint": "/talk", "streaming": {"supported": true}},
            {"id": "news", "method": "GET", "endpoint": "/news"},
            {"id": "news_receive", "method": "POST", "endpoint": "/news"},
            {"id": "text.echo", "title": "Echo", "method": "POST", "endpoint": "/text/echo", "input_schema": {"type": "object"}}
        ],
        "packages": [{"name": "skill", "type": "skill", "url": "/.well-known/skill.md"}, {"name": "p", "type": "npm"}, {"name": "q", "type": "zip", "url": "/q.zip"}],
        "protocols": {"mcp": {"available": true, "endpoint": "/mcp"}, "a2a": {"available": false}}
    }));
    assert_eq!(remote.name.as_deref(), Some("Demo"));
    assert_eq!((remote.description.as_deref(), remote.contact.as_deref()), (Some("Echoes"), Some("a@b")));
    assert_eq!(remote.version.as_deref(), Some("2"));
    assert_eq!((talk(&remote), remote.news.as_deref()), (("restap", "/talk"), Some("/news")));
    assert_eq!(
        routes(&remote),
        ["text.echo POST /text/echo", "mcp POST /mcp", "mcp.get GET /mcp", "mcp.delete DELETE /mcp"]
    );
    assert_eq!(remote.packages.len(), 1);
    assert_eq!(remote.protocols.keys().collect::<Vec<_>>(), ["mcp", "a2a"]);
    assert_eq!(remote.notes.len(), 1, "{:?}", remote.notes);
}

#[test]
fn capabilities_that_are_names_find_their_endpoints() {
    let remote = at(&json!({
        "restap_version": "0.1.1-beta",
        "name": "Juno",
        "endpoints": {"talk": "/talk", "news": "/news", "health": "/health", "identity": "/identity"},
        "capabilities": ["talk", "news", "identity", "nowhere"]
    }));
    assert_eq!(remote.name.as_deref(), Some("Juno"));
    assert_eq!(talk(&remote).1, "/talk");
    assert_eq!(routes(&remote), ["identity POST /identity", "identity.get GET /identity"]);
    assert!(remote.notes.iter().any(|note| note.contains("nowhere")), "{:?}", remote.notes);
}

#[test]
fn capabilities_that_are_booleans_and_endpoints_that_are_objects() {
    let remote = read_at(
        "http://10.0.0.1/api/agent-runtime/7",
        &json!({
            "restap": "1.0",
            "name": "Mog",
            "public_url": "https://mogs.example/api/agent-runtime/7",
            "endpoints": {
                "talk": {"method": "POST", "url": "https://mogs.example/api/agent-runtime/7/talk", "input": {"message": "what to say"}},
                "news": {"read": {"method": "GET", "url": "/news"}, "publish": {"method": "POST", "url": "/news"}},
                "images": {"list": {"method": "GET", "url": "/images"}, "draw": {"method": "POST", "url": "/images/draw", "input": {"prompt": "what to draw", "size": "integer"}}}
            },
            "capabilities": {"talk": true, "news": true, "memory": false}
        }),
    );
    assert_eq!(talk(&remote).1, "/api/agent-runtime/7/talk");
    assert_eq!(remote.news.as_deref(), Some("/api/agent-runtime/7/news"));
    assert_eq!(routes(&remote), ["list GET /images", "draw POST /images/draw"]);
    let draw = remote.capabilities.last().unwrap();
    assert_eq!(draw.path, "/api/agent-runtime/7/images/draw");
    assert_eq!(
        draw.input_schema,
        Some(
            json!({"type": "object", "properties": {"prompt": {"description": "what to draw"}, "size": {"type": "integer"}}})
        )
    );
}

#[test]
fn endpoints_that_are_a_list_an_old_provider_and_ids_of_others() {
    let remote = at(&json!({
        "provider": {"name": "Old", "version": 3},
        "endpoints": [{"path": "/talk", "method": "POST"}, {"path": "/news", "method": "GET"}, {"path": "/files/{name}", "method": "GET"}],
        "capabilities": [{"id": "news-write", "method": "POST", "endpoint": "/news"}, {"id": "news-read", "method": "GET", "endpoint": "/news"}],
        "packages": {"skills": "https://elsewhere.example/skill", "sdk": {"url": "https://elsewhere.example/sdk"}}
    }));
    assert_eq!((remote.name.as_deref(), remote.version.as_deref()), (Some("Old"), Some("3")));
    assert_eq!((talk(&remote).1, remote.news.as_deref()), ("/talk", Some("/news")));
    assert_eq!(routes(&remote), ["files._name GET /files/{name}"]);
    assert_eq!(remote.packages.len(), 2);
}

#[test]
fn a_catalog_that_says_nothing_of_itself_is_talked_to_where_the_text_has_it() {
    let remote = at(&json!({"agent": {"name": "Bare"}}));
    assert_eq!((talk(&remote), remote.news.as_deref()), (("restap", "/talk"), Some("/news")));
    assert_eq!(at(&json!({"agent": {}, "capabilities": []})).talk, None);
}

#[test]
fn a_card_of_a2a_is_a_talk_in_its_version() {
    let old = json!({"name": "Travel", "description": "Plans", "url": "http://10.0.0.1:4101/a2a", "version": "1", "protocolVersion": "0.3.0",
        "preferredTransport": "JSONRPC", "capabilities": {"streaming": true},
        "skills": [{"id": "route", "name": "Route planner", "description": "Finds routes"}]});
    let remote = at(&old);
    assert_eq!(talk(&remote), ("a2a-0.3", "/a2a"));
    assert_eq!(remote.description.as_deref(), Some("Plans\n- Route planner: Finds routes"));
    assert!(remote.notes.is_empty() && remote.talk.unwrap().streaming);
    let new = json!({"name": "New", "version": "1", "skills": [], "supportedInterfaces": [
        {"url": "http://10.0.0.1:4101/grpc", "protocolBinding": "GRPC", "protocolVersion": "1.0"},
        {"url": "http://localhost:4101/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}]});
    let remote = at(&new);
    assert_eq!(talk(&remote), ("a2a-1.0", "/rpc"));
    assert!(remote.notes[0].contains("same path"), "{:?}", remote.notes);
    let other = json!({"name": "G", "url": "http://10.0.0.1:4101/", "preferredTransport": "GRPC", "protocolVersion": "0.3.0", "skills": []});
    let remote = at(&other);
    assert!(remote.talk.is_none() && remote.notes[0].contains("JSONRPC"));
}

#[test]
fn where_an_agent_is_told_of_is_known_from_its_url() {
    let of = |text: &str| base(text).documents();
    assert_eq!(
        of("http://h/a/"),
        [
            "http://h/a/.well-known/restap.json",
            "http://h/a/.well-known/agent-card.json",
            "http://h/a/.well-known/agent.json"
        ]
    );
    assert_eq!(of("http://h/a/.well-known/restap.json"), ["http://h/a/.well-known/restap.json"]);
    assert_eq!(base("http://h/a/.well-known/agent-card.json").url.to_string(), "http://h/a");
    assert_eq!(base("http://h/cards/a.json").url.to_string(), "http://h");
    assert!(Base::parse("http://h/?a=b").is_err() && Base::parse("http://u:p@h/").is_err());
}

#[test]
fn what_leads_elsewhere_is_left_out_and_said_so() {
    for endpoint in [
        "http://169.254.169.254/latest",
        "https://10.0.0.1:4101/other-scheme",
        "http://10.0.0.1:4102/other-port",
        "//evil.example/x",
        "http://u:p@10.0.0.1:4101/x",
        "/../admin",
        "/a/%2e%2e/b",
        "/a/.%2E/b",
        "/a%2fb",
        "/a\\b",
        "/a?b=c",
        "/a#b",
        "/a//b",
        "javascript:alert(1)",
        "/a b",
        "/a\r\nX: y",
        "http://",
        "ftp://10.0.0.1:4101/x",
    ] {
        let remote =
            at(&json!({"agent": {"name": "n"}, "capabilities": [{"id": "x", "method": "GET", "endpoint": endpoint}]}));
        assert!(remote.capabilities.is_empty(), "{endpoint}");
        assert_eq!(remote.notes.len(), 1, "{endpoint}: {:?}", remote.notes);
        let remote = at(&json!({"agent": {"name": "n"}, "endpoints": {"talk": endpoint}}));
        assert!(remote.talk.is_none() && remote.notes.len() == 1, "{endpoint}: {:?}", remote.notes);
    }
    let long = format!("/{}", "a".repeat(5_000));
    assert!(at(&json!({"capabilities": [{"id": "x", "endpoint": long}]})).capabilities.is_empty());
}

#[test]
fn what_is_no_document_of_an_agent_says_so() {
    let of = |text: &str| read(&base("http://h"), text.as_bytes()).unwrap_err().to_string();
    assert!(of("<html>").contains("not JSON"));
    assert!(of("[]").contains("neither") && of("{\"hello\":1}").contains("neither"));
    assert!(of(&("[".repeat(100_000) + &"]".repeat(100_000))).contains("not JSON"));
    let deep = format!("{{\"agent\":{}{}}}", "{\"a\":".repeat(50_000), "}".repeat(50_000));
    assert!(of(&deep).contains("not JSON"));
    assert!(of(&" ".repeat(DOCUMENT_BYTES_MAX + 1)).contains("larger than"));
}

#[test]
fn a_huge_list_is_cut_and_said_so() {
    let list: Vec<_> =
        (0..5_000).map(|n| json!({"id": format!("c{n}"), "method": "GET", "endpoint": format!("/c/{n}")})).collect();
    let remote = at(&json!({"agent": {"name": "n"}, "capabilities": list}));
    assert_eq!(remote.capabilities.len(), CAPABILITIES_MAX);
    assert!(remote.notes[0].contains("5000"));
    let bad: Vec<_> = (0..500).map(|n| json!({"id": format!("c{n}"), "endpoint": "//x/"})).collect();
    assert_eq!(at(&json!({"capabilities": bad})).notes.len(), NOTES_MAX + 1);
    let text = "x".repeat(100_000);
    let remote = at(&json!({"agent": {"name": text, "description": format!("a\u{1b}[31m{text}")}}));
    assert!(remote.name.unwrap().chars().count() <= 200 && !remote.description.unwrap().contains('\u{1b}'));
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[ -~]{0,12}".prop_map(Value::from),
        prop::sample::select(vec!["/talk", "/a/{b}", "http://h/x", "..", "talk", "POST", "JSONRPC", "0.3"])
            .prop_map(Value::from),
    ];
    let key = prop::sample::select(vec![
        "agent",
        "name",
        "capabilities",
        "endpoints",
        "id",
        "endpoint",
        "method",
        "url",
        "skills",
        "supportedInterfaces",
        "packages",
        "protocols",
        "provider",
        "parameters",
        "input_schema",
        "mcp",
        "type",
        "talk",
        "read",
        "version",
    ]);
    leaf.prop_recursive(5, 60, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((key.clone(), inner), 0..8).prop_map(|pairs| pairs
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value))
                .collect::<Map<_, _>>()
                .into()),
        ]
    })
}

proptest! {
    #[test]
    fn whatever_a_document_says_is_read_and_stays_on_the_origin(document in values(), bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = read(&base("http://h/p"), &bytes);
        if let Ok(remote) = read(&base("http://h/p"), document.to_string().as_bytes()) {
            for one in &remote.capabilities {
                prop_assert!(one.path.starts_with('/') && !one.path.contains("//") && !one.path.contains("/.."));
                prop_assert!(!one.id.is_empty() && one.endpoint.starts_with('/') || one.endpoint.is_empty());
            }
        }
    }
}
