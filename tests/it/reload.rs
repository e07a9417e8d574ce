//! A configuration that changes while the gateway runs.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::gateway::PROGRAM;
use crate::support::{Call, Gate, Gateway, Upstream, chatting, delta, end, passing, run};

/// An agent at the origin with this description.
fn described(description: &str) -> String {
    format!("agent: {{name: Reload, description: {description}}}\n")
}

fn description(gateway: &Gateway) -> Value {
    gateway.get("/.well-known/restap.json").ok()["agent"]["description"].clone()
}

/// How often a configuration was put in force, or refused.
#[track_caller]
fn wait_for(gateway: &Gateway, what: &str, count: usize) {
    gateway.wait_for_lines(what, count);
}

const IN_FORCE: &str = "the new configuration is in force";
const REFUSED: &str = "the new configuration is refused";

/// Replaces a file as careful editors and configuration management do.
fn replace(path: &Path, text: &str) {
    let new = path.with_extension("new");
    std::fs::write(&new, text).unwrap();
    std::fs::rename(&new, path).unwrap();
}

#[test]
fn a_changed_file_is_in_force_without_a_word() {
    let gateway = Gateway::start(&described("one"));
    gateway.write(&described("two"));
    wait_for(&gateway, IN_FORCE, 1);
    assert_eq!(description(&gateway), "two");
    let path = gateway.directory().path().join("gateway.yaml");
    let renamed = std::fs::read_to_string(&path).unwrap().replace("two", "three");
    replace(&path, &renamed);
    wait_for(&gateway, IN_FORCE, 2);
    assert_eq!(description(&gateway), "three");
}

#[test]
fn a_link_that_is_set_to_another_file_is_a_change() {
    // As volumes of container orchestrators do it: the file is a link into a link to a directory.
    let directory = Arc::new(TempDir::new().unwrap());
    let at = |name: &str| directory.path().join(name);
    for (name, text) in [("first", "one"), ("second", "two")] {
        std::fs::create_dir(at(name)).unwrap();
        let text = format!("listen: 127.0.0.1:0\nadmin: off\nstore: {{memory: {{}}}}\n{}", described(text));
        std::fs::write(at(name).join("gateway.yaml"), text).unwrap();
    }
    symlink("first", at("..data")).unwrap();
    symlink("..data/gateway.yaml", at("gateway.yaml")).unwrap();
    let mut command = Command::new(PROGRAM);
    command.arg("serve");
    let gateway = Gateway::spawn(directory.clone(), command);
    assert_eq!(description(&gateway), "one");
    symlink("second", at("..new")).unwrap();
    std::fs::rename(at("..new"), at("..data")).unwrap();
    wait_for(&gateway, IN_FORCE, 1);
    assert_eq!(description(&gateway), "two");
}

#[test]
fn included_files_and_secrets_belong_to_the_file() {
    let upstream = Upstream::fixed("200 OK", "", "x");
    let directory = Arc::new(TempDir::new().unwrap());
    let at = |name: &str| directory.path().join(name);
    std::fs::create_dir(at("agents")).unwrap();
    std::fs::write(at("key"), "first-credential\n").unwrap();
    let file = format!(
        "include: [agents/*.yaml]\nupstreams: {{api: {{url: '{}', bearer: {{file: key}}}}}}\n\
         agents: {{one: {{upstream: api, capabilities: [{{id: a, method: GET, endpoint: /a}}]}}}}\n",
        upstream.url()
    );
    let gateway = Gateway::start_in(directory.clone(), &file);
    gateway.get("/agents/one/a").text();
    assert_eq!(upstream.last().header("authorization"), Some("Bearer first-credential"));
    std::fs::write(at("key"), "second-credential\n").unwrap();
    wait_for(&gateway, IN_FORCE, 1);
    gateway.get("/agents/one/a").text();
    assert_eq!(upstream.last().header("authorization"), Some("Bearer second-credential"));
    gateway.get("/agents/two/health").refused(404, "not_found");
    std::fs::write(at("agents/two.yaml"), "agents: {two: {name: Two}}\n").unwrap();
    wait_for(&gateway, IN_FORCE, 2);
    gateway.get("/agents/two/health").ok();
    std::fs::remove_file(at("agents/two.yaml")).unwrap();
    wait_for(&gateway, IN_FORCE, 3);
    gateway.get("/agents/two/health").refused(404, "not_found");
    for secret in ["first-credential", "second-credential"] {
        assert!(!gateway.logs().contains(secret));
    }
}

#[test]
fn sighup_reads_the_file_again() {
    let gateway = Gateway::start(&described("one"));
    gateway.signal(Signal::HUP);
    wait_for(&gateway, "the configuration says what is in force already", 1);
    gateway.write(&described("two"));
    gateway.signal(Signal::HUP);
    wait_for(&gateway, IN_FORCE, 1);
    assert_eq!(description(&gateway), "two");
}

#[test]
fn a_reload_says_what_it_changes_before_it_does() {
    let gateway = Gateway::start(&described("one"));
    let (status, body) = gateway.reload(&described("two"));
    assert_eq!((status, &body["changes"]), (200, &json!(["~ agent agent: description"])), "{body}");
    assert_eq!(body["status"], "reloaded");
    assert_eq!(description(&gateway), "two");
    let logs = gateway.logs();
    let diff = logs.find("reload: ~ agent agent: description").unwrap();
    assert!(diff < logs.find(IN_FORCE).unwrap(), "{logs}");
    let (status, body) = gateway.reload(&described("two"));
    assert_eq!((status, body), (200, json!({"status": "unchanged", "changes": [], "warnings": []})));
    assert_eq!(gateway.admin("/reload").0, 405);
}

#[test]
fn a_bad_file_changes_nothing_and_says_why() {
    let gateway = Gateway::start(&described("one"));
    let (status, problems) = gateway.reload("agent: {name: Reload, descripton: two, upstream: wether}\n");
    assert_eq!(status, 400, "{problems}");
    let checked = run(gateway.directory().path(), None, &["check", "--format", "json"]);
    assert_eq!(checked.code, Some(1));
    let mut expected: Value = serde_json::from_str(&checked.stdout).unwrap();
    // The gateway was started with a path, and calls the file by it.
    for problem in expected.as_array_mut().unwrap() {
        problem["file"] = gateway.directory().path().join("gateway.yaml").display().to_string().into();
    }
    assert_eq!(problems, expected);
    assert_eq!(description(&gateway), "one");
    let (ready, detail) = gateway.admin("/ready");
    let detail: Value = serde_json::from_str(&detail).unwrap();
    assert_eq!((ready, &detail["ready"]), (200, &json!(true)));
    let told = detail["configuration"]["refused"]["problems"].to_string();
    assert!(told.contains("descripton"), "{detail}");
    gateway.wait_for_line(REFUSED);
    gateway.wait_for_line("did you mean `description`?");
    let metrics = gateway.admin("/metrics").1;
    assert!(metrics.contains("restap_config_last_reload_successful 0"), "{metrics}");
    assert!(metrics.contains(r#"restap_config_reloads_total{outcome="refused"}"#), "{metrics}");

    let (status, _) = gateway.reload(&described("three"));
    assert_eq!((status, description(&gateway)), (200, json!("three")));
    let detail: Value = serde_json::from_str(&gateway.admin("/ready").1).unwrap();
    assert_eq!(detail["configuration"]["refused"], Value::Null);
    assert!(gateway.admin("/metrics").1.contains("restap_config_last_reload_successful 1"));
}

#[test]
fn a_broken_file_is_read_again_when_whatever_was_missing_is_there() {
    let gateway = Gateway::start(&described("one"));
    let (status, _) = gateway.reload(&format!("include: [more.yaml]\n{}", described("two")));
    assert_eq!(status, 400);
    std::fs::write(gateway.directory().path().join("more.yaml"), "agents: {more: {name: More}}\n").unwrap();
    wait_for(&gateway, IN_FORCE, 1);
    gateway.get("/agents/more/health").ok();
    assert_eq!(description(&gateway), "two");
}

#[test]
fn what_needs_another_process_is_refused_whole() {
    let gateway = Gateway::start(&described("one"));
    for (changed, key) in [
        ("listen: 127.0.0.1:1\n", "listen"),
        ("admin: {listen: \"unix:other.sock\"}\n", "admin.listen"),
        ("admin: off\n", "admin"),
        ("store: {memory: {}, key: MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=}\n", "store"),
        ("store: {embedded: {path: data}}\n", "store"),
        ("limits: {connections: 17}\n", "limits.connections"),
    ] {
        let (status, problems) = gateway.reload(&format!("{changed}{}", described("two")));
        assert_eq!(status, 400, "{changed}{problems}");
        let problem = &problems[0];
        assert_eq!((problems.as_array().unwrap().len(), &problem["path"]), (1, &json!(key)), "{problems}");
        assert!(problem["message"].as_str().unwrap().contains(&format!("`{key}`")), "{problem}");
        assert!(problem["suggestion"].as_str().unwrap().contains("upgrade"), "{problem}");
        assert!(problem["line"].as_u64() > Some(0));
        assert_eq!(description(&gateway), "one");
    }
}

#[test]
fn everything_else_is_reloaded() {
    let gateway = Gateway::start(&described("one"));
    let before = gateway.get("/health").ok();
    assert_eq!(before["status"], "ok");
    let body = json!({"message": "x".repeat(2000)});
    gateway.post("/talk", &body).ok();
    let (status, answer) =
        gateway.reload(&format!("log: {{format: json}}\nlimits: {{body: 1KiB}}\n{}", described("two")));
    assert_eq!(status, 200, "{answer}");
    gateway.post("/talk", &body).refused(413, "payload_too_large");
    gateway.wait_for_line(r#""path":"/talk""#);
    gateway.reload(&format!("log: {{access: false, level: error}}\n{}", described("two")));
    gateway.get("/.well-known/skill.md");
    gateway.reload(&described("two"));
    gateway.get("/health").ok();
    gateway.wait_for_line("GET /health 200");
    assert!(!gateway.logs().contains("skill.md"), "{}", gateway.logs());
}

#[test]
fn options_of_the_command_line_hold_after_a_reload() {
    let directory = Arc::new(TempDir::new().unwrap());
    let path = directory.path().join("gateway.yaml");
    let file = |text: &str| format!("listen: 127.0.0.1:1\nadmin: off\nstore: {{memory: {{}}}}\n{}", described(text));
    std::fs::write(&path, file("one")).unwrap();
    let mut command = Command::new(PROGRAM);
    command.args(["serve", "--listen", "127.0.0.1:0"]);
    let gateway = Gateway::spawn(directory, command);
    replace(&path, &file("two"));
    wait_for(&gateway, IN_FORCE, 1);
    assert_eq!(description(&gateway), "two");
}

#[test]
fn what_runs_ends_on_what_it_began_with() {
    let gate = Gate::default();
    let held = gate.clone();
    let upstream = Upstream::start(move |exchange| {
        if exchange.request.method == "GET" {
            held.wait();
            return exchange.answer("200 OK", "", b"late");
        }
        exchange.open_stream();
        exchange.send(delta("first"));
        held.wait();
        exchange.send(delta("last") + &end("stop"));
    });
    let gateway = Gateway::start(&chatting(&upstream.url()));
    let mut stream = gateway.open(&Call::talk("hi").streamed());
    assert_eq!(stream.next().unwrap().event, "message.start");
    assert_eq!(gateway.reload(&passing(&upstream)).0, 200);
    let mut passed = gateway.connect();
    passed.send(Call::get("/x").bytes());
    upstream.wait_for_requests(2);
    assert_eq!(gateway.reload(&described("two")).0, 200);
    gateway.get("/x").refused(404, "not_found");
    gate.open();
    assert_eq!(stream.rest().names(), ["message.delta", "message.delta", "message.end", "done"]);
    assert_eq!(passed.response(false).text(), "late");
}

#[test]
fn connections_to_a_service_outlive_a_reload() {
    let upstream = Upstream::fixed("200 OK", "", "x");
    let gateway = Gateway::start(&passing(&upstream));
    let mut kept = gateway.connect();
    kept.call(&Call::get("/x"));
    let file = passing(&upstream);
    assert_eq!(gateway.reload(&format!("public_url: http://127.0.0.1\n{file}")).0, 200);
    kept.call(&Call::get("/x"));
    assert_eq!((upstream.requests().len(), upstream.accepted()), (2, 1));
}

#[test]
fn feeds_conversations_and_counters_go_on() {
    let gateway = Gateway::start(&described("one"));
    gateway.post("/news", &json!({"type": "note", "message": "kept"})).ok();
    assert_eq!(gateway.reload(&described("two")).0, 200);
    assert_eq!(gateway.get("/news").ok()["items"][0]["message"], "kept");
    assert!(gateway.admin("/metrics").1.contains(r#"restap_news_appends_total{agent="agent",outcome="stored"} 1"#));
}
