//! The process as an operator sees it: how it starts, how it does not, and how it ends.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;
use tempfile::TempDir;

use crate::support::gateway::{PROGRAM, over_unix};
use crate::support::{Call, Finished, Gate, Gateway, PATIENCE, Upstream, chatting, delta, end, passing, run};

const EMBEDDED: &str = "listen: 127.0.0.1:0\nadmin: off\nstore: {embedded: {path: data}}\nagent: {name: Process}\n";

/// Starts that must fail: with code 1 and one problem, told in a sentence.
#[track_caller]
fn refused(finished: &Finished, parts: &[&str]) {
    assert_eq!(finished.code, Some(1), "{finished:?}");
    for part in parts {
        assert!(finished.stderr.contains(part), "{part:?} is not in {}", finished.stderr);
    }
    assert!(!finished.stderr.contains("panicked"), "{}", finished.stderr);
}

/// A stream that waits before its end, and the gate that it waits for.
fn waiting() -> (Upstream, Gate) {
    let gate = Gate::default();
    let held = gate.clone();
    let upstream = Upstream::start(move |exchange| {
        exchange.open_stream();
        exchange.send(delta("first"));
        held.wait();
        exchange.send(delta("last") + &end("stop"));
    });
    (upstream, gate)
}

#[test]
fn sigterm_ends_an_idle_process_at_once_with_zero() {
    for signal in [Signal::TERM, Signal::INT] {
        let mut gateway = Gateway::start("agent: {name: Process}\n");
        let _idle = gateway.connect();
        let mut kept = gateway.connect();
        kept.call(&Call::get("/health")).ok();
        let began = Instant::now();
        gateway.signal(signal);
        assert_eq!(gateway.exited().code(), Some(0));
        assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
        assert!(kept.is_closed());
    }
}

#[test]
fn sigterm_waits_for_an_open_stream() {
    let (upstream, gate) = waiting();
    let mut gateway = Gateway::start(&chatting(&upstream.url()));
    let mut stream = gateway.open(&Call::talk("hi").streamed());
    assert_eq!(stream.next().unwrap().event, "message.start");
    gateway.signal(Signal::TERM);
    gateway.wait_for_line("stopping: open requests have 30 s to end");
    let (ready, body) = gateway.admin("/ready");
    assert_eq!(ready, 503, "{body}");
    // Each worker closes the listener for itself, a moment later.
    let began = Instant::now();
    while std::net::TcpStream::connect(gateway.address()).is_ok() {
        assert!(began.elapsed() < PATIENCE, "new connections are still taken");
    }
    gate.open();
    assert_eq!(stream.rest().names(), ["message.delta", "message.delta", "message.end", "done"]);
    assert_eq!(gateway.exited().code(), Some(0));
}

#[test]
fn sigterm_waits_for_a_passed_call() {
    let gate = Gate::default();
    let held = gate.clone();
    let upstream = Upstream::start(move |exchange| {
        held.wait();
        exchange.answer("200 OK", "", b"late");
    });
    let mut gateway = Gateway::start(&passing(&upstream));
    let mut connection = gateway.connect();
    connection.send(Call::get("/x").bytes());
    upstream.wait_for_requests(1);
    gateway.signal(Signal::TERM);
    gateway.wait_for_line("stopping");
    gate.open();
    assert_eq!(connection.response(false).text(), "late");
    assert_eq!(gateway.exited().code(), Some(0));
}

#[test]
fn a_stream_that_outlives_its_patience_ends_with_error_and_done() {
    let (upstream, _gate) = waiting();
    let mut gateway = Gateway::start(&format!("limits: {{shutdown: 300ms}}\n{}", chatting(&upstream.url())));
    let mut stream = gateway.open(&Call::talk("hi").streamed());
    stream.next().unwrap();
    gateway.signal(Signal::TERM);
    let rest = stream.rest();
    assert_eq!(rest.names(), ["message.delta", "error", "done"]);
    assert_eq!(rest.only("error")["code"], "shutting_down");
    assert_eq!(gateway.exited().code(), Some(0));
}

#[test]
fn a_second_sigterm_does_not_wait_any_longer() {
    let (upstream, _gate) = waiting();
    let mut gateway = Gateway::start(&chatting(&upstream.url()));
    let mut stream = gateway.open(&Call::talk("hi").streamed());
    stream.next().unwrap();
    gateway.signal(Signal::TERM);
    gateway.wait_for_line("stopping");
    gateway.signal(Signal::TERM);
    assert_eq!(stream.rest().names().last_chunk(), Some(&["error", "done"]));
    assert_eq!(gateway.exited().code(), Some(0));
}

#[test]
fn a_port_in_use_is_one_clear_message() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let directory = TempDir::new().unwrap();
    let file = EMBEDDED.replace("127.0.0.1:0", &address);
    let finished = run(directory.path(), Some(&file), &["serve"]);
    refused(&finished, &[&address, "in use"]);
    assert_eq!(finished.stderr.lines().count(), 1, "{}", finished.stderr);
}

#[test]
fn an_admin_address_that_was_asked_for_must_be_free() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let directory = TempDir::new().unwrap();
    let file = EMBEDDED.replace("admin: off", &format!("admin: {{listen: '{address}'}}"));
    refused(&run(directory.path(), Some(&file), &["serve"]), &[&address.to_string(), "in use"]);
}

#[test]
fn a_data_directory_that_is_none_is_one_clear_message() {
    let directory = TempDir::new().unwrap();
    std::fs::write(directory.path().join("data"), "a file").unwrap();
    refused(&run(directory.path(), Some(EMBEDDED), &["serve"]), &["data"]);
}

#[test]
fn a_data_directory_that_can_not_be_written_is_one_clear_message() {
    let directory = TempDir::new().unwrap();
    let data = directory.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "ro", "tmpfs"]).arg(&data).output();
    if !mounted.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: a read-only file system can only be mounted by root");
        return;
    }
    let finished = run(directory.path(), Some(EMBEDDED), &["serve"]);
    Command::new("umount").arg("-l").arg(&data).output().unwrap();
    refused(&finished, &["data"]);
}

#[test]
fn two_processes_share_a_store_and_a_third_is_refused_by_name() {
    let directory = Arc::new(TempDir::new().unwrap());
    let first = Gateway::start_in(directory.clone(), &EMBEDDED.replace("admin: off", "admin: false"));
    let second = Gateway::start_in(directory.clone(), EMBEDDED);
    first.post("/news", &json!({"type": "t", "message": "shared"})).ok();
    assert_eq!(second.get("/news").ok()["items"][0]["message"], "shared");
    let third = run(directory.path(), None, &["serve"]);
    refused(&third, &["restap-gateway"]);
    let names_one = [first.pid(), second.pid()].iter().any(|pid| third.stderr.contains(&pid.to_string()));
    assert!(names_one, "{}", third.stderr);
}

#[test]
fn a_store_of_another_key_is_refused() {
    let directory = Arc::new(TempDir::new().unwrap());
    let mut first = Gateway::start_in(directory.clone(), EMBEDDED);
    first.stop();
    let other = EMBEDDED.replace("path: data}", "path: data}, key: 'AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA='");
    refused(&run(directory.path(), Some(&other), &["serve"]), &["key"]);
}

#[test]
fn a_missing_variable_is_told_with_its_place() {
    let directory = TempDir::new().unwrap();
    let file = format!("{EMBEDDED}upstreams:\n  api: {{url: http://127.0.0.1:1, api_key: \"${{IT_MISSING}}\"}}\n");
    let finished = run(directory.path(), Some(&file), &["serve"]);
    refused(&finished, &["gateway.yaml:6:", "IT_MISSING"]);
}

#[test]
fn a_missing_file_is_one_clear_message() {
    let directory = TempDir::new().unwrap();
    refused(&run(directory.path(), None, &["serve"]), &["gateway.yaml"]);
    refused(&run(directory.path(), None, &["serve", "-c", "nowhere.yaml"]), &["nowhere.yaml"]);
}

#[test]
fn a_unix_socket_is_a_listener_and_is_cleaned_up() {
    let directory = Arc::new(TempDir::new().unwrap());
    let socket = directory.path().join("gateway.sock");
    let file = EMBEDDED.replace("listen: 127.0.0.1:0", "listen: ['127.0.0.1:0', 'unix:gateway.sock']");
    let mut gateway = Gateway::start_in(directory.clone(), &file);
    let (status, body) = over_unix(&socket, "/health");
    assert_eq!(status, 200, "{body}");
    gateway.wait_for_line(" unix GET /health ");
    gateway.kill();
    assert!(socket.exists(), "a killed process leaves its file");
    let mut again = Gateway::start_in(directory, &file);
    assert_eq!(over_unix(&socket, "/health").0, 200);
    again.stop();
    assert!(!socket.exists());
}

#[test]
fn the_admin_listener_tells_how_it_is() {
    let upstream = Upstream::chat(&(delta("Hi") + &end("stop")));
    let gateway = Gateway::start(&chatting(&upstream.url()));
    gateway.talk("hi").ok();
    gateway.talk("").refused(400, "missing_message");
    // A request is counted before its line is written.
    gateway.wait_for_lines(" route=talk ", 2);
    assert_eq!(gateway.admin("/live").0, 200);
    let (ready, body) = gateway.admin("/ready");
    assert_eq!(ready, 200, "{body}");
    let (status, metrics) = gateway.admin("/metrics");
    assert_eq!(status, 200);
    let lines: Vec<&str> = metrics.lines().filter(|line| line.contains("route=\"talk\"")).collect();
    assert!(
        lines.iter().any(|line| line.contains("200")) && lines.iter().any(|line| line.contains("400")),
        "{metrics}"
    );
    assert_eq!(gateway.admin("/nothing").0, 404);
    gateway.get("/metrics").refused(404, "not_found");
}

#[test]
fn admin_on_loopback_keeps_other_sites_out() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let _gateway = Gateway::start(&format!("admin: {{listen: '{address}'}}\nagent: {{name: Process}}\n"));
    let ask = |call: Call| crate::support::Connection::open(address).call(&call);
    assert_eq!(ask(Call::get("/ready")).status, 200);
    ask(Call::get("/ready").header("Host", "evil.example")).refused(403, "forbidden");
    ask(Call::get("/metrics").header("Origin", "https://evil.example")).refused(403, "forbidden");
    ask(Call::get("/metrics").header("Sec-Fetch-Site", "cross-site")).refused(403, "forbidden");
    ask(Call::new("POST", "/ready")).refused(405, "method_not_allowed");
}

#[test]
fn access_lines_are_text_or_json_and_never_show_a_query() {
    let text = Gateway::start("agent: {name: Process}\n");
    text.get("/health?token=abc123").ok();
    let line = text.wait_for_line(" GET /health ");
    assert!(line.contains(" 200 ") && !line.contains("abc123"), "{line}");

    let json = Gateway::start("log: {format: json}\nagent: {name: Process}\n");
    json.get("/health").ok();
    let line: serde_json::Value = serde_json::from_str(&json.wait_for_line("\"path\":\"/health\"")).unwrap();
    assert_eq!((&line["method"], &line["status"], &line["route"]), (&json!("GET"), &json!(200), &json!("health")));

    let quiet = Gateway::start("log: {access: false}\nagent: {name: Process}\n");
    quiet.get("/health").ok();
    quiet.get("/news?since=x").refused(400, "invalid_since");
    assert_eq!(quiet.logs().lines().count(), 1, "{}", quiet.logs());
}

#[test]
fn the_data_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let gateway = Gateway::start(EMBEDDED);
    gateway.post("/news", &json!({"type": "t"})).ok();
    let data = gateway.directory().path().join("data");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&data), 0o700);
    for entry in std::fs::read_dir(&data).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
}

#[test]
fn serve_needs_no_file_where_options_say_enough() {
    let upstream = Upstream::start(|exchange| match exchange.request.method.as_str() {
        "POST" if exchange.request.target.ends_with("/chat/completions") => {
            exchange.stream(&(delta("Hi") + &end("stop")));
        }
        _ => {
            let target = exchange.request.target.clone();
            exchange.answer("200 OK", "", target.as_bytes());
        }
    });
    let directory = Arc::new(TempDir::new().unwrap());
    let mut command = Command::new(PROGRAM);
    let url = upstream.url();
    command.args(["serve", "--listen", "127.0.0.1:0", "--upstream", &url, "--talk", &url, "--model", "tiny"]);
    let gateway = Gateway::spawn(directory, command);
    assert_eq!(gateway.get("/any/path?x=1").text(), "/any/path?x=1");
    assert_eq!(gateway.talk("hi").ok()["reply"], "Hi");
    assert_eq!(upstream.last().json()["model"], "tiny");
}

#[test]
fn calls_and_bodies_that_outlive_their_patience_do_not_hold_up_the_end() {
    let upstream = Upstream::start(|exchange| {
        exchange.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
        exchange.wait_until_left();
    });
    let mut gateway = Gateway::start(&format!("limits: {{shutdown: 200ms}}\n{}", passing(&upstream)));
    let mut passed = gateway.connect();
    passed.send(Call::get("/x").bytes());
    assert_eq!(passed.head().status, 200);
    assert_eq!(passed.chunk().unwrap(), b"hello");
    let mut half_a_body = gateway.connect();
    let post = Call::new("POST", "/news").header("Content-Type", "application/json").header("Content-Length", "9");
    half_a_body.send(post.bytes());
    let mut half_a_head = gateway.connect();
    half_a_head.send("GET / HTTP/1.1\r\nHost: a");
    gateway.signal(Signal::TERM);
    let began = Instant::now();
    assert_eq!(gateway.exited().code(), Some(0));
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert!(passed.try_chunk().is_err(), "half an answer must not look whole");
}
