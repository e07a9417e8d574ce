//! `restap-gateway news`, before the gateway and before agents that are not ours.

use std::io::{BufRead, BufReader, Lines};
use std::net::TcpListener;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::gateway::{PROGRAM, finish};
use crate::support::{Call, Exchange, Finished, Gateway, Upstream, until};

const A: &str = "sess_aaaaaaaaaaaaaaaa";

/// Of an agent that is no gateway: that it reads the id is no leak.
const AT_AN_AGENT: &str = "sess_of_another_agent";

fn news(arguments: &[&str]) -> Finished {
    let mut command = Command::new(PROGRAM);
    command.arg("news").args(arguments);
    finish(command)
}

/// A command that follows, until it is dropped.
struct Following {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Following {
    fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(PROGRAM);
        command.arg("news").args(arguments).arg("--follow").stdin(Stdio::null());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    fn line(&mut self) -> String {
        self.lines.next().expect("it ended").unwrap()
    }

    fn message(&mut self) -> String {
        let item: Value = serde_json::from_str(&self.line()).unwrap();
        item["message"].as_str().unwrap().to_owned()
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn what_is_posted_is_read_for_people_and_for_programs() {
    let gateway = Gateway::start("agent: {name: News}\n");
    let url = gateway.url();
    let posted = news(&[&url, "--post", "reply", "--message", "Done\nwell", "--data", "{\"n\":1}"]);
    assert_eq!(posted.code, Some(0), "{posted:?}");
    let item = &gateway.get("/news").ok()["items"][0];
    assert_eq!(posted.stdout.trim(), item["id"].as_str().unwrap());
    assert_eq!(
        (&item["type"], &item["message"], &item["data"]),
        (&json!("reply"), &json!("Done\nwell"), &json!({"n": 1}))
    );

    let read = news(&[&url]);
    let (time, rest) = read.stdout.split_once(' ').unwrap();
    assert!(time.ends_with('Z') && time.len() == 24, "{time}");
    assert_eq!(rest, "reply\n  Done\n  well\n  {\"n\":1}\n");
    let read = news(&[&url, "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&read.stdout).unwrap(), *item);
    let answer = news(&[&url, "--post", "note", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&answer.stdout).unwrap()["status"], "received");
    let since = item["timestamp"].to_string();
    let read = news(&[&url, "--since", &since, "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&read.stdout).unwrap()["type"], "note");
}

#[test]
fn a_session_goes_into_the_header_and_nowhere_else() {
    let gateway = Gateway::start("agent: {name: News}\n");
    assert_eq!(news(&[&gateway.url(), "--session", A, "--post", "note", "--message", "mine"]).code, Some(0));
    assert!(news(&[&gateway.url(), "--session", A]).stdout.contains("mine"));
    assert_eq!(news(&[&gateway.url()]).stdout, "");
    assert!(gateway.get("/news").ok()["items"].as_array().unwrap().is_empty());

    let finished = news(&[&gateway.url(), "--session", "short-secret"]);
    assert_eq!(finished.code, Some(2));
    assert!(finished.stderr.contains("{16,128}") && !finished.stderr.contains("short-secret"), "{finished:?}");
}

#[test]
fn a_long_feed_is_read_to_its_end_and_each_item_is_shown_once() {
    let gateway = Gateway::start("agent: {name: News}\n");
    let mut connection = gateway.connect();
    for number in 0..250 {
        connection.call(&Call::post("/news", &json!({"type": "n", "message": number.to_string()}))).ok();
    }
    let read = news(&[&gateway.url(), "--since", "1", "--json"]);
    let said = |read: &Finished| -> Vec<usize> {
        let items = read.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        items.map(|item| item["message"].as_str().unwrap().parse().unwrap()).collect()
    };
    assert_eq!(said(&read), (0..250).collect::<Vec<_>>());
    assert_eq!(said(&news(&[&gateway.url(), "--json"])), (150..250).collect::<Vec<_>>(), "the newest");
}

#[test]
fn a_wrong_command_line_ends_with_two_and_a_failure_with_one() {
    for arguments in [
        &["--message", "m"][..],
        &["--data", "{}"],
        &["--post", "t", "--data", "{"],
        &["--post", "t", "--follow"],
        &["--post", "t", "--since", "1"],
        &["--since", "yesterday"],
    ] {
        let finished = news(&[&["http://127.0.0.1:1"], arguments].concat());
        assert_eq!(finished.code, Some(2), "{arguments:?}: {finished:?}");
    }
    let gateway = Gateway::start("agent: {name: News, news: off}\n");
    let page = Upstream::fixed("200 OK", "Content-Type: text/html", "<p>hello");
    let other = Upstream::fixed("200 OK", "Content-Type: application/json", "{}");
    for url in [gateway.url(), Upstream::unreachable(), page.url(), other.url(), "no url".to_owned()] {
        for arguments in [&[][..], &["--follow"]] {
            let finished = news(&[&[url.as_str()], arguments].concat());
            assert_eq!((finished.code, finished.stdout.as_str()), (Some(1), ""), "{url}: {finished:?}");
            assert!(finished.stderr.starts_with("restap-gateway: "), "{finished:?}");
        }
    }
}

fn page(exchange: &mut Exchange<'_>, items: &[&str], timestamp: u64) {
    let items: Vec<Value> =
        items.iter().map(|id| json!({"id": id, "type": "t", "timestamp": timestamp, "message": id})).collect();
    exchange.json(&json!({"items": items, "timestamp": timestamp}));
}

#[test]
fn following_outlasts_an_agent_that_fails_and_one_that_repeats_itself() {
    let asked = AtomicUsize::new(0);
    let agent = Upstream::start(move |exchange| match asked.fetch_add(1, Ordering::SeqCst) {
        0 => page(exchange, &["a"], 10),
        1 => exchange.reset(),
        2 => exchange.answer("503 Service Unavailable", "Retry-After: 0", b"<p>later"),
        3 => exchange.answer("429 Too Many Requests", "Content-Type: application/json\r\nRetry-After: 0", b"{}"),
        4 => {
            exchange.send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"items\"");
            exchange.close();
        }
        // Its clock went back, and what it shows again has been seen.
        5 => page(exchange, &["a", "b"], 9),
        6 => page(exchange, &["b", "c"], 12),
        _ => exchange.answer("403 Forbidden", "Content-Type: application/json", b"{\"message\":\"no longer yours\"}"),
    });
    let finished = news(&[&agent.url(), "--session", AT_AN_AGENT, "--follow", "--json"]);
    let shown: Vec<Value> = finished.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let shown: Vec<&str> = shown.iter().map(|item| item["id"].as_str().unwrap()).collect();
    assert_eq!((finished.code, shown), (Some(1), vec!["a", "b", "c"]), "{finished:?}");
    assert!(finished.stderr.contains("403: no longer yours") && finished.stderr.contains("answers again"));
    let requests = agent.requests();
    for request in &requests {
        assert_eq!(request.header("restap-session-id"), Some(AT_AN_AGENT));
        assert!(!request.target.contains(AT_AN_AGENT));
    }
    assert_eq!((requests[0].target.as_str(), requests[0].header("prefer")), ("/news", None));
    let later: Vec<&str> = requests[1..].iter().map(|request| request.target.as_str()).collect();
    assert!(later[..5].iter().all(|target| *target == "/news?since=10"), "{later:?}");
    assert!(requests[1..].iter().all(|request| request.header("prefer") == Some("wait=30")));
}

#[test]
fn following_goes_on_when_the_gateway_was_killed_and_is_there_again() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let file = format!("listen: 127.0.0.1:{port}\nstore: {{embedded: {{path: data}}}}\nagent: {{name: News}}\n");
    let directory = Arc::new(TempDir::new().unwrap());
    let mut gateway = Gateway::start_in(directory.clone(), &file);
    let post = |gateway: &Gateway, message: &str| gateway.post("/news", &json!({"type": "t", "message": message})).ok();
    post(&gateway, "before");
    let mut following = Following::start(&[&gateway.url(), "--json"]);
    assert_eq!(following.message(), "before");
    post(&gateway, "while");
    assert_eq!(following.message(), "while");
    gateway.kill();
    drop(gateway);
    let gateway = Gateway::start_in(directory, &file);
    post(&gateway, "after");
    assert_eq!(following.message(), "after");
}

#[test]
fn following_ends_when_nobody_reads_any_more() {
    let gateway = Gateway::start("agent: {name: News}\n");
    let post = || gateway.post("/news", &json!({"type": "t"})).ok();
    post();
    let mut following = Following::start(&[&gateway.url()]);
    assert!(following.line().ends_with(" t"));
    let Following { child, lines } = &mut following;
    let other = Command::new("true").stdout(Stdio::piped()).spawn().unwrap().stdout.unwrap();
    *lines = BufReader::new(other).lines();
    // Processes that other tests are just starting may hold the pipe's end for a moment.
    let ended = until("it ends", || {
        post();
        child.try_wait().unwrap()
    });
    assert!(ended.success());
}
