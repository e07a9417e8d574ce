//! The gateway and real software: llama.cpp, llmock, aimock, the A2A SDK, webagents, Prism and httpbin. `.ci/components` installs
//! them; where they are not found, these tests say so and pass.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::print_stderr,
    dead_code,
    unused_imports,
    reason = "a test that meets what it does not expect fails, and the support serves the other tests too"
)]

#[path = "it/support/mod.rs"]
mod support;

#[path = "real/calls.rs"]
mod calls;

#[path = "real/signatures.rs"]
mod signatures;

#[path = "real/import.rs"]
mod import;

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::{Call, Connection, Events, Gateway};

/// How long real software may take to start.
const START: Duration = Duration::from_mins(1);

/// For services that want a model named.
const MODEL: &str = ", model: m";

/// What the tiny model answers, whatever it is asked.
const ANSWER: &str = "Hello from a tiny real llama.cpp model €!";

/// A program that is not ours, ended with this value.
struct Real {
    process: Child,
    port: u16,
}

impl Real {
    fn start(mut command: Command, port: u16) -> Self {
        let process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let mut real = Self { process, port };
        let began = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(began.elapsed() < START, "the program did not start");
            assert!(real.process.try_wait().unwrap().is_none(), "the program ended");
            std::thread::yield_now();
        }
        real
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    fn post(&self, path: &str, body: &Value) {
        let mut connection = Connection::open(([127, 0, 0, 1], self.port).into());
        let response = connection.call(&Call::post(path, body));
        assert!(response.status < 300, "{}", response.text());
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn component(path: &str) -> Option<PathBuf> {
    let found = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/components").join(path);
    if !found.exists() {
        eprintln!("skipped: {path} is not installed; .ci/components does that");
    }
    found.exists().then_some(found)
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn llama() -> Option<Real> {
    let (python, model, port) = (component("python/bin/python")?, component("tiny.gguf")?, free_port());
    let mut command = Command::new(python);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real/llama.py");
    command.arg(script).arg(model).arg(port.to_string());
    let llama = Real::start(command, port);
    // It listens before it has loaded its model.
    let loading = || Connection::open(([127, 0, 0, 1], port).into()).call(&Call::get("/health")).status != 200;
    let began = Instant::now();
    while loading() {
        assert!(began.elapsed() < START, "the model did not load");
    }
    Some(llama)
}

fn llmock() -> Option<Real> {
    let (llmock, port) = (component("python/bin/llmock")?, free_port());
    let mut command = Command::new(llmock);
    command.args(["serve", "-p", &port.to_string(), "--response-style", "hello", "--tool-mode", "off"]);
    Some(Real::start(command, port))
}

fn aimock(folder: &Path) -> Option<Real> {
    let (cli, port) = (component("node_modules/@copilotkit/aimock/dist/cli.js")?, free_port());
    let fixtures = folder.join("fixtures.json");
    let fixture =
        json!({"match": {"userMessage": "hello"}, "response": {"content": "Hello from aimock, in several pieces."}});
    std::fs::write(&fixtures, json!({"fixtures": [fixture]}).to_string()).unwrap();
    let mut command = Command::new("node");
    command.arg(cli).args(["-p", &port.to_string(), "-f"]).arg(fixtures);
    Some(Real::start(command, port))
}

fn a2a() -> Option<Real> {
    let (python, port) = (component("python/bin/python")?, free_port());
    let mut command = Command::new(python);
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real/a2a_agent.py")).arg(port.to_string());
    Some(Real::start(command, port))
}

/// An agent before real software; `upstream` and `talk` hold more of these sections, as `, key: value`.
fn agent(url: &str, dialect: &str, (upstream, talk): (&str, &str)) -> Gateway {
    Gateway::start(&format!(
        "upstreams:\n  real: {{url: {url}, api_key: none{upstream}}}\n\
         agent:\n  name: Real\n  talk: {{upstream: real, dialect: {dialect}{talk}}}\n"
    ))
}

#[test]
fn llama_cpp_answers_in_json_and_token_by_token() {
    let Some(llama) = llama() else { return };
    for dialect in ["openai-chat", "openai-responses-stateless", "anthropic"] {
        let gateway = agent(&llama.url(), dialect, ("", MODEL));
        let whole = gateway.talk("Who are you?").ok();
        assert_eq!(whole["reply"].as_str().unwrap().trim(), ANSWER, "{dialect}");
        let streamed = gateway.stream("Who are you?").events();
        assert_eq!(streamed.text().trim(), ANSWER, "{dialect}");
        let deltas = streamed.names().iter().filter(|name| **name == "message.delta").count();
        assert!(deltas > 5, "{dialect}: {deltas} deltas are no stream");
        assert_eq!(streamed.names().last(), Some(&"done"), "{dialect}");
    }
}

#[test]
fn a_conversation_with_llama_cpp_goes_on_in_its_session() {
    let Some(llama) = llama() else { return };
    let gateway =
        agent(&llama.url(), "openai-chat", ("", ", model: m, options: {stream_options: {include_usage: true}}"));
    let first = gateway.talk("One").ok();
    let session = first["session_id"].as_str().unwrap();
    let second = gateway.call(&Call::talk("Two").session(session)).ok();
    assert_eq!(second["session_id"], first["session_id"]);
    assert!(second["usage"]["prompt_tokens"].as_u64() > first["usage"]["prompt_tokens"].as_u64(), "{second}");
}

#[test]
fn every_fault_of_llmock_is_told_to_the_caller() {
    let Some(llmock) = llmock() else { return };
    for (dialect, root) in [("openai-chat", ""), ("openai-responses", ""), ("anthropic", "/anthropic")] {
        let url = llmock.url() + root;
        let gateway = agent(&url, dialect, (", timeout: {idle: 300ms}", MODEL));
        let plain = gateway.stream("hello").events();
        assert_eq!(plain.names().last(), Some(&"done"), "{dialect}");
        assert!(!plain.text().is_empty(), "{dialect}");
        for fault in ["disconnect", "truncate", "malformed", "stall"] {
            let kind = if dialect == "openai-chat" { 3 } else { 5 };
            let behavior = json!({"type": "stream_fault", "kind": fault, "after_chunks": kind, "stall_seconds": 2.0});
            llmock.post("/_llmock/scenario", &json!({"behaviors": [behavior]}));
            let events = gateway.stream("hello").events();
            let names = events.names();
            assert_eq!(names[names.len() - 2..], ["error", "done"], "{dialect} {fault}: {names:?}");
            assert!(!names.contains(&"message.end"), "{dialect} {fault}: {names:?}");
        }
        for (status, expected, code) in [
            (429, 429, "upstream_rate_limited"),
            (503, 503, "upstream_unavailable"),
            (401, 502, "upstream_auth"),
            (500, 502, "upstream_error"),
        ] {
            llmock.post("/_llmock/scenario", &json!({"behaviors": [{"type": "fail", "status": status}]}));
            gateway.talk("hello").refused(expected, code);
        }
    }
}

#[test]
fn aimock_answers_in_every_dialect_that_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let Some(aimock) = aimock(folder.path()) else { return };
    for dialect in
        ["openai-chat", "openai-responses", "anthropic", "gemini", "ollama-chat", "ollama-generate", "cohere-v2"]
    {
        let gateway = agent(&aimock.url(), dialect, ("", MODEL));
        let whole = gateway.talk("hello").ok();
        assert_eq!(whole["reply"], "Hello from aimock, in several pieces.", "{dialect}");
        let streamed: Events = gateway.stream("hello").events();
        assert_eq!(streamed.text(), "Hello from aimock, in several pieces.", "{dialect}");
        assert_eq!(streamed.names().last(), Some(&"done"), "{dialect}");
    }
}

#[test]
fn an_agent_on_the_a2a_sdk_answers_asks_back_and_fails() {
    let Some(a2a) = a2a() else { return };
    for dialect in ["a2a-1.0", "a2a-0.3"] {
        let gateway = agent(&a2a.url(), dialect, ("", ""));
        assert_eq!(gateway.talk("hello").ok()["reply"], "Hello naïve 👋 world.", "{dialect}");
        let streamed = gateway.stream("hello").events();
        assert_eq!(streamed.text(), "Hello naïve 👋 world.", "{dialect}");
        assert_eq!(streamed.names().last(), Some(&"done"), "{dialect}");
        let asked = gateway.talk("ask me").ok();
        assert_eq!(asked["reply"], "Which city?", "{dialect}");
        let again = gateway.call(&Call::talk("hello").session(asked["session_id"].as_str().unwrap())).ok();
        assert_eq!(again["reply"], "Hello naïve 👋 world.", "{dialect}");
        let failed = gateway.stream("fail").events();
        assert_eq!(failed.names()[failed.names().len() - 2..], ["error", "done"], "{dialect}");
    }
}
