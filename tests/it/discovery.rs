//! What an agent publishes: the catalog, the directory, and where they are served.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Call, Gateway, Upstream, chatting};

const CATALOG: &str = "/.well-known/restap.json";

fn weather() -> Gateway {
    Gateway::start(&format!(
        "agent:\n  name: Weather agent\n  description: Weather for any city\n  contact: ops@example.com\n  version: 2.1.0\n  \
         upstream: {}\n  packages: [{{name: SDK, type: npm-package}}]\n  protocols: {{mcp: {{available: true, endpoint: /mcp}}}}\n  \
         capabilities:\n    - {{id: weather.current, title: Current weather, method: GET, endpoint: '/weather/{{city}}', \
         parameters: [{{name: units, location: query, type: string, required: false}}]}}\n    \
         - {{id: weather.report, method: POST, endpoint: /reports, input_schema: {{type: object, required: [text]}}, \
         output_schema: {{type: object}}, content_types: [application/json]}}\n",
        Upstream::unreachable()
    ))
}

fn ids(catalog: &Value) -> Vec<&str> {
    catalog["capabilities"].as_array().unwrap().iter().map(|entry| entry["id"].as_str().unwrap()).collect()
}

#[test]
fn the_catalog_says_what_the_agent_does_while_every_upstream_is_down() {
    let gateway = weather();
    let answer = gateway.get(CATALOG);
    let catalog = answer.ok();
    assert_eq!(catalog["restap_version"], "1.0");
    let agent = json!({"name": "Weather agent", "description": "Weather for any city", "contact": "ops@example.com"});
    assert_eq!(catalog["agent"], agent);
    assert_eq!(ids(&catalog), ["talk", "news", "news_receive", "weather.current", "weather.report"]);
    assert_eq!(catalog["provider"], json!({"name": "Weather agent", "version": "2.1.0"}));
    let endpoints =
        json!({"talk": "/talk", "news": "/news", "news_post": "/news", "catalog": CATALOG, "health": "/health"});
    assert_eq!(catalog["endpoints"], endpoints);
    assert_eq!(catalog["service_type"], "public-agent");
    assert!(catalog.get("public_url").is_none());
    assert_eq!(catalog["packages"][0], json!({"name": "SDK", "type": "npm-package"}));
    assert_eq!(catalog["protocols"]["mcp"], json!({"available": true, "endpoint": "/mcp"}));
    assert_eq!(answer.header("cache-control"), Some("public, max-age=60"));
    assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
}

#[test]
fn every_capability_has_the_fields_that_the_protocol_names() {
    let catalog = weather().get(CATALOG).ok();
    for entry in catalog["capabilities"].as_array().unwrap() {
        for key in ["id", "title", "method", "endpoint"] {
            assert!(entry[key].as_str().is_some_and(|text| !text.is_empty()), "{key}: {entry}");
        }
        assert!(["GET", "POST", "PUT", "DELETE"].contains(&entry["method"].as_str().unwrap()));
    }
    let current = &catalog["capabilities"][3];
    assert_eq!(current["endpoint"], "/weather/{city}");
    let parameters = current["parameters"].as_array().unwrap();
    let city = parameters.iter().find(|parameter| parameter["name"] == "city").unwrap();
    assert_eq!((&city["type"], &city["required"], &city["location"]), (&json!("string"), &json!(true), &json!("path")));
    let report = &catalog["capabilities"][4];
    assert_eq!(report["input_schema"]["required"], json!(["text"]));
    assert_eq!(report["content_types"], json!(["application/json"]));
    assert_eq!(report["output_schema"]["type"], "object");
}

#[test]
fn talk_declares_streaming_and_sessions_as_they_are() {
    let upstream = Upstream::chat("");
    let streams = Gateway::start(&chatting(&upstream.url())).get(CATALOG).ok();
    let talk = &streams["capabilities"][0];
    assert_eq!(talk["output_formats"], json!(["application/json", "text/event-stream"]));
    assert_eq!((&talk["streaming"]["supported"], &talk["streaming"]["transport"]), (&json!(true), &json!("sse")));
    for event in ["message.start", "message.delta", "message.end", "error", "done"] {
        assert!(talk["streaming"]["events"].as_array().unwrap().contains(&json!(event)), "{talk}");
    }
    assert_eq!(talk["sessions"]["supported"], true);

    let file = crate::support::chatting_with(&upstream.url(), "", "streaming: false, history: {turns: 0}");
    let plain = Gateway::start(&file).get(CATALOG).ok();
    let talk = &plain["capabilities"][0];
    assert_eq!(talk["output_formats"], json!(["application/json"]));
    assert_eq!((&talk["streaming"]["supported"], &talk["sessions"]["supported"]), (&json!(false), &json!(false)));
}

#[test]
fn a_strong_etag_makes_304_of_what_is_known() {
    let gateway = weather();
    let etag = gateway.get(CATALOG).header("etag").unwrap().to_owned();
    assert!(etag.starts_with('"') && etag.ends_with('"'), "{etag}");
    for value in [etag.clone(), format!("\"other\", {etag}"), format!("W/{etag}"), "*".to_owned()] {
        let answer = gateway.call(&Call::get(CATALOG).header("If-None-Match", &value));
        assert_eq!((answer.status, answer.header("etag")), (304, Some(etag.as_str())), "{value}");
        assert!(answer.body.is_empty());
    }
    assert_eq!(gateway.call(&Call::get(CATALOG).header("If-None-Match", "\"other\"")).status, 200);
    let again = weather();
    assert_eq!(again.get(CATALOG).header("etag").map(str::len), Some(etag.len()));
}

#[test]
fn gzip_is_sent_where_it_is_accepted() {
    let gateway = weather();
    let plain = gateway.get(CATALOG);
    assert_eq!(plain.header("vary"), Some("Accept-Encoding"));
    let packed = gateway.call(&Call::get(CATALOG).header("Accept-Encoding", "br, gzip"));
    assert_eq!(packed.gunzip(), plain.body);
    assert_ne!(packed.header("etag"), plain.header("etag"), "a strong tag is of one coding");
    for refused in ["identity", "gzip;q=0", "br", ""] {
        let answer = gateway.call(&Call::get(CATALOG).header("Accept-Encoding", refused));
        assert_eq!((answer.header("content-encoding"), &answer.body), (None, &plain.body), "{refused:?}");
    }
}

#[test]
fn head_has_the_headers_of_get_and_no_body() {
    let gateway = weather();
    for path in [CATALOG, "/health", "/", "/.well-known/skill.md", "/news"] {
        let (get, head) = (gateway.get(path), gateway.call(&Call::new("HEAD", path)));
        assert_eq!((head.status, head.body.len()), (200, 0), "{path}");
        assert_eq!(head.header("content-type"), get.header("content-type"), "{path}");
        if path != "/health" {
            assert_eq!(head.header("content-length"), get.header("content-length"), "{path}");
        }
    }
}

#[test]
fn a_head_leaves_its_connection_usable() {
    let gateway = weather();
    let mut connection = gateway.connect();
    assert_eq!(connection.call(&Call::new("HEAD", CATALOG)).status, 200);
    connection.call(&Call::get(CATALOG)).ok();
}

#[test]
fn health_answers_for_itself() {
    let gateway = weather();
    let health = gateway.get("/health").ok();
    assert_eq!(
        (&health["status"], &health["agent"], &health["version"]),
        (&json!("ok"), &json!("Weather agent"), &json!("2.1.0"))
    );
    assert!(!health["timestamp"].is_null());
}

#[test]
fn the_base_answers_with_and_without_its_slash() {
    let gateway = Gateway::start("agents: {a: {name: A, talk: off}}\n");
    for path in ["/agents/a", "/agents/a/"] {
        let root = gateway.get(path).ok();
        assert_eq!(root["agent"], "A", "{root}");
        for key in ["catalog", "news"] {
            assert!(root[key].is_string(), "{key}: {root}");
        }
    }
}

#[test]
fn an_unknown_well_known_path_is_never_forwarded() {
    let upstream = Upstream::fixed("200 OK", "", "theirs");
    let gateway = Gateway::start(&crate::support::passing(&upstream));
    for path in
        ["/.well-known/security.txt", "/.well-known/", "/.well-known", "/x/../.well-known/acme", "/%2ewell-known/acme"]
    {
        gateway.get(path).refused(404, "not_found");
    }
    assert!(upstream.requests().is_empty());
    assert_eq!(gateway.get("/well-known").text(), "theirs");
}

#[test]
fn the_skill_and_full_documents_are_published() {
    let gateway = weather();
    let skill = gateway.get("/.well-known/skill.md");
    assert_eq!(skill.status, 200);
    assert!(skill.header("content-type").unwrap().starts_with("text/markdown"));
    assert!(skill.text().starts_with("---\n") && skill.text().contains("weather.current"), "{}", skill.text());
    let document = gateway.get("/.well-known/restap/capabilities/weather.report").ok();
    assert_eq!(document["id"], "weather.report");
    gateway.get("/.well-known/restap/capabilities/nothing").refused(404, "not_found");
}

#[test]
fn many_agents_have_bases_and_the_origin_lists_them() {
    let gateway = Gateway::start(
        "public_url: https://agents.example.com\nagents:\n  billing: {name: Billing}\n  deep: {name: Deep, base_path: /agents/billing/deep}\n",
    );
    let catalog = gateway.get("/agents/billing/.well-known/restap.json").ok();
    assert_eq!(catalog["agent"]["name"], "Billing");
    assert_eq!(catalog["endpoints"]["talk"], "/talk", "endpoints are relative to the base");
    assert_eq!(catalog["public_url"], "https://agents.example.com/agents/billing");
    let deep = gateway.get("/agents/billing/deep/.well-known/restap.json").ok();
    assert_eq!(deep["agent"]["name"], "Deep", "the longest base wins");
    gateway.get("/agents/billingx/.well-known/restap.json").refused(404, "not_found");
    gateway.get("/.well-known/restap.json").refused(404, "not_found");
    gateway.get("/talk").refused(404, "not_found");

    let directory = gateway.get("/").ok();
    assert!(directory.to_string().contains("/agents/billing"), "{directory}");
    let linkset = gateway.get("/.well-known/api-catalog");
    assert_eq!(linkset.status, 200);
    assert!(linkset.header("content-type").unwrap().starts_with("application/linkset+json"));
    let linkset: Value = serde_json::from_slice(&linkset.body).unwrap();
    let first = &linkset["linkset"][0];
    assert_eq!(first["anchor"], "https://agents.example.com/agents/billing");
    let catalog = "https://agents.example.com/agents/billing/.well-known/restap.json";
    assert_eq!(first["service-desc"][0]["href"], catalog);
    assert_eq!(first["status"][0]["href"], "https://agents.example.com/agents/billing/health");
}

#[test]
fn a_host_that_is_not_ours_is_misdirected_once_one_is_configured() {
    let gateway = Gateway::start("public_url: https://agents.example.com\nagent: {name: A}\n");
    for host in [
        "agents.example.com",
        "AGENTS.example.com:8443",
        "localhost",
        "localhost:99",
        "127.0.0.1",
        "[::1]:80",
        "10.1.2.3",
    ] {
        gateway.call(&Call::get("/health").header("Host", host)).ok();
    }
    for host in ["evil.example", "agents.example.com.evil.example", "x.agents.example.com", "localhost.evil.example"] {
        gateway.call(&Call::get("/health").header("Host", host)).refused(421, "misdirected");
        gateway.call(&Call::get(CATALOG).header("Host", host)).refused(421, "misdirected");
    }
    Gateway::start("agent: {name: A}\n").call(&Call::get("/health").header("Host", "any.example")).ok();
}

#[test]
fn an_agent_with_a_host_answers_that_host_alone() {
    let gateway =
        Gateway::start("agents:\n  support: {name: Support, host: support.example.com}\n  billing: {name: Billing}\n");
    let named = |host: &str, path: &str| gateway.call(&Call::get(path).header("Host", host));
    assert_eq!(named("support.example.com", CATALOG).ok()["agent"]["name"], "Support");
    assert_eq!(named("support.example.com:8443", CATALOG).ok()["agent"]["name"], "Support");
    named("127.0.0.1", CATALOG).refused(404, "not_found");
    assert_eq!(named("127.0.0.1", "/agents/billing/health").ok()["agent"], "Billing");
}

#[test]
fn preflights_are_answered_for_every_path() {
    let gateway = Gateway::start("agent: {name: A, cors: {origins: ['https://app.example']}}\n");
    let preflight = |path: &str, origin: &str| {
        gateway.call(
            &Call::new("OPTIONS", path)
                .header("Origin", origin)
                .header("Access-Control-Request-Method", "POST")
                .header("Access-Control-Request-Headers", "content-type, restap-session-id"),
        )
    };
    let answer = preflight("/talk", "https://app.example");
    assert_eq!((answer.status, answer.header("allow")), (204, Some("POST, OPTIONS")));
    assert_eq!(answer.header("access-control-allow-origin"), Some("https://app.example"));
    assert_eq!(answer.header("access-control-allow-methods"), Some("POST, OPTIONS"));
    assert_eq!(answer.header("access-control-allow-headers"), Some("content-type, restap-session-id"));
    assert_eq!(preflight("/talk", "https://evil.example").header("access-control-allow-origin"), None);
    preflight("/nowhere", "https://app.example").refused(404, "not_found");
}

#[test]
fn cors_follows_the_listener_where_nothing_is_said() {
    // On loopback no other page may talk, but everyone may read the catalog.
    let gateway = Gateway::start("agent: {name: A}\n");
    let origin = |path: &str| gateway.call(&Call::get(path).header("Origin", "https://app.example"));
    assert_eq!(origin("/news").header("access-control-allow-origin"), None);
    assert_eq!(origin(CATALOG).header("access-control-allow-origin"), Some("*"));
    assert_eq!(origin("/health").header("access-control-allow-origin"), Some("*"));
}

#[test]
fn unknown_paths_and_methods_are_told_apart() {
    let gateway = weather();
    gateway.get("/nothing").refused(404, "not_found");
    let answer = gateway.post(CATALOG, &json!({}));
    answer.refused(405, "method_not_allowed");
    assert_eq!(answer.header("allow"), Some("GET, HEAD, OPTIONS"));
    let answer = gateway.call(&Call::new("DELETE", "/weather/paris"));
    answer.refused(405, "method_not_allowed");
    assert_eq!(answer.header("allow"), Some("GET, HEAD, OPTIONS"));
}

#[test]
fn discovery_does_not_wait_for_a_stalled_upstream() {
    let upstream = Upstream::start(|exchange| {
        exchange.wait_until_left();
    });
    let gateway = Gateway::start(&chatting(&upstream.url()));
    let mut stalled = gateway.connect();
    stalled.send(Call::talk("hi").bytes());
    upstream.wait_for_requests(1);
    let mut connection = gateway.connect();
    connection.patience(Duration::from_secs(5));
    connection.call(&Call::get(CATALOG)).ok();
}
