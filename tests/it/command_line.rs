//! The command line: what each command prints, and the code that it ends with.

use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::gateway::PROGRAM;
use crate::support::{Finished, Gateway, Upstream, chatting, delta, end, run};

const FINE: &str = "admin: off\nstore: {memory: {}}\nagent: {name: Fine}\n";

fn in_empty(file: Option<&str>, arguments: &[&str]) -> Finished {
    run(TempDir::new().unwrap().path(), file, arguments)
}

#[test]
fn help_and_version_end_with_zero() {
    let help = in_empty(None, &["--help"]);
    assert_eq!(help.code, Some(0));
    for command in ["serve", "check", "catalog", "schema", "demo", "call", "talk", "news", "store"] {
        assert!(help.stdout.contains(command), "{command}: {}", help.stdout);
        let own = in_empty(None, &[command, "--help"]);
        assert_eq!(own.code, Some(0));
        assert!(own.stdout.contains("Example: restap-gateway "), "{command} has no example: {}", own.stdout);
    }
    let version = in_empty(None, &["--version"]);
    assert_eq!((version.code, version.stdout.trim()), (Some(0), concat!("restap-gateway ", env!("CARGO_PKG_VERSION"))));
}

#[test]
fn usage_errors_end_with_two() {
    for arguments in [
        ["--nonsense"].as_slice(),
        &["serve", "--nonsense"],
        &["nonsense"],
        &["talk"],
        &["check", "--format", "xml"],
        &["serve", "--model", "m"],
        &["serve", "-c", "a.yaml", "--upstream", "http://127.0.0.1:1"],
    ] {
        let finished = in_empty(None, arguments);
        assert_eq!(finished.code, Some(2), "{arguments:?}: {finished:?}");
        assert!(finished.stdout.is_empty() && !finished.stderr.is_empty(), "{arguments:?}");
    }
}

#[test]
fn a_pipe_is_read_or_named_and_never_waited_for() {
    let directory = TempDir::new().unwrap();
    let pipe = directory.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let secret = "upstreams: {a: {url: http://127.0.0.1:1, bearer: {file: pipe}}}\n";
    for extra in ["include: [pipe]\n", secret] {
        let finished = run(directory.path(), Some(&format!("{FINE}{extra}")), &["check"]);
        assert_eq!(finished.code, Some(1), "{finished:?}");
        assert!(finished.stderr.contains("pipe"), "{finished:?}");
    }
    let writing = std::thread::spawn({
        let pipe = pipe.clone();
        move || std::fs::write(pipe, FINE).unwrap()
    });
    // Opened before it is read, as a shell does with `<(…)`.
    let piped = std::fs::File::open(&pipe).unwrap();
    let mut command = Command::new(PROGRAM);
    command.args(["check", "-c", "/dev/stdin"]).stdin(piped);
    let checked = command.output().unwrap();
    writing.join().unwrap();
    assert!(checked.status.success(), "{checked:?}");
}

#[test]
fn check_says_fine_or_every_problem_with_its_place() {
    let fine = in_empty(Some(FINE), &["check"]);
    assert_eq!((fine.code, fine.stdout.trim()), (Some(0), "gateway.yaml: fine"), "{fine:?}");

    let wrong = "listen: 127.0.0.1:0\nagnet: {name: Typo}\nlimits: {body: lots}\nagent:\n  name: T\n  talk: {upstream: nowhere}\n";
    let finished = in_empty(Some(wrong), &["check"]);
    assert_eq!(finished.code, Some(1));
    for part in [
        "gateway.yaml:2:",
        "agnet",
        "did you mean `agent`",
        "gateway.yaml:3:",
        "limits.body",
        "gateway.yaml:6:",
        "nowhere",
    ] {
        assert!(finished.stderr.contains(part), "{part}: {}", finished.stderr);
    }
    assert!(!finished.stderr.contains("\u{1b}["), "no colour where nobody looks");
}

#[test]
fn check_has_a_form_for_programs() {
    let finished = in_empty(Some("agnet: {name: T}\n"), &["check", "--format", "json"]);
    assert_eq!(finished.code, Some(1));
    let problems: Value = serde_json::from_str(&finished.stdout).unwrap();
    let typo = problems.as_array().unwrap().iter().find(|problem| problem["message"].to_string().contains("agnet"));
    let typo = typo.unwrap_or_else(|| panic!("{problems}"));
    assert_eq!((&typo["line"], &typo["column"], &typo["severity"]), (&json!(1), &json!(1), &json!("error")));
    for key in ["file", "path", "suggestion"] {
        assert!(typo.get(key).is_some(), "{key}: {typo}");
    }
    let fine = in_empty(Some(FINE), &["check", "--format", "json"]);
    assert_eq!((fine.code, serde_json::from_str::<Value>(&fine.stdout).unwrap()), (Some(0), json!([])));
}

#[test]
fn check_warns_and_still_ends_with_zero() {
    let file = format!("{FINE}upstreams: {{unused: {{url: 'http://127.0.0.1:1'}}}}\n");
    let finished = in_empty(Some(&file), &["check"]);
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert!(finished.stderr.contains("warning") && finished.stderr.contains("unused"), "{}", finished.stderr);
}

#[test]
fn a_secret_is_shown_by_no_command() {
    let file =
        format!("{FINE}upstreams: {{api: {{url: 'http://127.0.0.1:1', api_key: sk-very-secret, nonsense: 1}}}}\n");
    for arguments in [["check"].as_slice(), &["check", "--format", "json"], &["serve"], &["catalog"]] {
        let finished = in_empty(Some(&file), arguments);
        assert_eq!(finished.code, Some(1), "{arguments:?}");
        assert!(!format!("{finished:?}").contains("sk-very-secret"), "{arguments:?}: {finished:?}");
    }
}

#[test]
fn print_writes_the_file_that_options_stand_for() {
    let arguments =
        ["serve", "--upstream", "http://127.0.0.1:9", "--talk", "http://127.0.0.1:8", "--model", "tiny", "--print"];
    let printed = in_empty(None, &arguments);
    assert_eq!(printed.code, Some(0), "{printed:?}");
    let checked = in_empty(Some(&printed.stdout), &["check"]);
    assert_eq!(checked.code, Some(0), "{checked:?}");
    assert!(printed.stdout.contains("tiny") && printed.stdout.contains("http://127.0.0.1:9"));
    assert_eq!(in_empty(Some(FINE), &["serve", "--print"]).code, Some(1));
}

#[test]
fn catalog_prints_what_would_be_served() {
    let gateway = Gateway::start(FINE);
    let printed = in_empty(Some(FINE), &["catalog"]);
    assert_eq!(printed.code, Some(0), "{printed:?}");
    let printed: Value = serde_json::from_str(&printed.stdout).unwrap();
    assert_eq!(printed, gateway.get("/.well-known/restap.json").ok());
    let many = "agents: {a: {name: A}, b: {name: B}}\n";
    let one = in_empty(Some(many), &["catalog", "b"]);
    assert_eq!(serde_json::from_str::<Value>(&one.stdout).unwrap()["agent"]["name"], "B");
    assert_eq!(in_empty(Some(many), &["catalog", "c"]).code, Some(1));
}

#[test]
fn schema_is_a_json_schema() {
    let finished = in_empty(None, &["schema"]);
    assert_eq!(finished.code, Some(0));
    let schema: Value = serde_json::from_str(&finished.stdout).unwrap();
    let schema = jsonschema::validator_for(&schema).unwrap();
    let valid = |file: &str| schema.is_valid(&serde_yaml::from_str(file).unwrap());
    assert!(valid(FINE));
    assert!(valid(include_str!("../../gateway.yaml")));
    assert!(!valid("agnet: {name: Typo}"));
    assert!(!valid("limits: {body: []}"));
}

#[test]
fn talk_prints_the_reply_of_any_agent() {
    let upstream = Upstream::chat(&(delta("Hello ") + &delta("there") + &end("stop")));
    let gateway = Gateway::start(&chatting(&upstream.url()));
    let finished = in_empty(None, &["talk", &gateway.url(), "hi"]);
    assert_eq!((finished.code, finished.stdout.trim()), (Some(0), "Hello there"), "{finished:?}");
}

#[test]
fn talk_ends_with_one_where_the_agent_fails() {
    let upstream = Upstream::fixed("500 Oops", "", "");
    let gateway = Gateway::start(&chatting(&upstream.url()));
    let finished = in_empty(None, &["talk", &gateway.url(), "hi"]);
    assert_eq!(finished.code, Some(1), "{finished:?}");
    assert!(!finished.stderr.is_empty());
    let broken = Upstream::start(|exchange| {
        exchange.open_stream();
        exchange.send(delta("Half"));
    });
    let gateway = Gateway::start(&chatting(&broken.url()));
    let finished = in_empty(None, &["talk", &gateway.url(), "hi"]);
    assert_eq!(finished.code, Some(1), "{finished:?}");
    assert!(finished.stdout.contains("Half"));
    let nobody = in_empty(None, &["talk", &Upstream::unreachable(), "hi"]);
    assert_eq!(nobody.code, Some(1));
}

#[test]
fn talk_understands_what_any_server_may_send() {
    let agent = Upstream::start(|exchange| {
        let accept = exchange.request.header("accept").unwrap_or_default().to_owned();
        assert!(accept.contains("text/event-stream"), "{accept}");
        exchange.open_stream();
        exchange.send(concat!(
            ": a comment\n\n",
            "event: message.start\ndata: {\"event\":\"message.start\",\"id\":\"m\"}\n\n",
            "event: tool.start\ndata: {\"event\":\"tool.start\",\"name\":\"search\"}\n\n",
            "event: mood\ndata: {\"event\":\"mood\",\"unheard\":[\"of\"]}\n\n",
            "event: message.delta\ndata: {\"event\":\"message.delta\",\"id\":\"m\",\"text\":\"still fine\"}\n\n",
            "event: message.end\ndata: {\"event\":\"message.end\",\"id\":\"m\"}\n\n",
            "event: done\ndata: {\"event\":\"done\"}\n\n",
        ));
    });
    let finished = in_empty(None, &["talk", &agent.url(), "hi"]);
    assert_eq!((finished.code, finished.stdout.trim()), (Some(0), "still fine"), "{finished:?}");
}

#[test]
fn talk_takes_a_whole_reply_where_an_agent_does_not_stream() {
    let agent = Upstream::start(|exchange| exchange.json(&json!({"reply": "all at once"})));
    let finished = in_empty(None, &["talk", &agent.url(), "hi"]);
    assert_eq!((finished.code, finished.stdout.trim()), (Some(0), "all at once"), "{finished:?}");
    let sent = agent.last();
    let session = sent.json()["session_id"].as_str().unwrap().to_owned();
    assert_eq!(uuid::Uuid::parse_str(&session).unwrap().get_version_num(), 4);
    assert!(!sent.target.contains(&session), "a session never stands in a URL");
}

#[test]
fn a_package_without_a_name_or_a_type_is_a_problem() {
    for package in ["{name: SDK}", "{type: npm-package}", "{name: '', type: npm-package}"] {
        let file = format!("agent: {{name: T, packages: [{package}]}}\n");
        let finished = in_empty(Some(&file), &["check"]);
        assert_eq!(finished.code, Some(1), "{package}: {finished:?}");
        assert!(finished.stderr.contains("packages"), "{}", finished.stderr);
    }
}

#[test]
fn call_fills_a_request_by_the_catalog_and_tells_what_is_wrong() {
    let upstream =
        Upstream::start(|exchange| exchange.answer("200 OK", "Content-Type: application/json", b"{\"ok\":true}"));
    let gateway = Gateway::start(&format!(
        "agent: {{name: T, talk: off, upstream: '{}', capabilities: [{{id: notes.put, method: PUT, endpoint: '/notes/{{id}}', \
         parameters: [{{name: id, location: path, type: integer}}, {{name: tags, type: array, style: pipeDelimited}}, {{name: X-Who, location: header}}], \
         input_schema: {{type: object, properties: {{text: {{type: string}}}}, required: [text]}}}}]}}\n",
        upstream.url()
    ));
    let call =
        |input: &str, more: &[&str]| in_empty(None, &[&["call", &gateway.url(), "notes.put", input], more].concat());
    let done = call(r#"{"id": 7, "tags": ["a", "b"], "X-Who": "me", "text": "hi"}"#, &[]);
    assert_eq!((done.code, done.stdout.trim()), (Some(0), "{\"ok\":true}"), "{done:?}");
    let request = upstream.last();
    assert_eq!((request.method.as_str(), request.target.as_str()), ("PUT", "/notes/7?tags=a|b"));
    assert_eq!((request.header("x-who"), request.json()), (Some("me"), json!({"text": "hi"})));
    let lines = call(r#"{"id": 7, "text": "hi"}"#, &["--json"]);
    assert_eq!(serde_json::from_str::<Value>(&lines.stdout).unwrap(), json!({"status": 200, "body": {"ok": true}}));
    let refused = call(r#"{"id": 7, "text": 1}"#, &[]);
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.stderr.contains("400 invalid_input") && refused.stderr.contains("body /text: must be a string"),
        "{refused:?}"
    );
    let missing = call("{}", &[]);
    assert!(missing.code == Some(1) && missing.stderr.contains("`id` is missing"), "{missing:?}");
    let unknown = in_empty(None, &["call", &gateway.url(), "notes.pt"]);
    assert!(unknown.code == Some(1) && unknown.stderr.contains("did you mean `notes.put`?"), "{unknown:?}");
    assert_eq!(in_empty(None, &["call", &gateway.url(), "notes.put", "{"]).code, Some(2));
}
