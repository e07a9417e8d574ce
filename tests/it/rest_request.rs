//! The outbound tool at the agent's own listener.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::gateway::{PROGRAM, over_unix};
use crate::support::{Call, Connection, Gateway, PATIENCE, Response, Upstream, run};

const TOKEN: &str = "token-of-the-first-agent";

/// A gateway whose one agent has the tool, with what else `rest` says.
fn gateway(rest: &str) -> (Gateway, SocketAddr) {
    let gateway = Gateway::start(&format!(
        "agent: {{name: A, talk: off, rest: {{listen: 127.0.0.1:0, token: {TOKEN}, tls: {{ca: {}}}, {rest}}}}}\n",
        authority()
    ));
    let address = agent_side(&gateway);
    (gateway, address)
}

/// Any authority: nothing is called over TLS here, and a system may have none.
fn authority() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tls/ca.pem").display().to_string()
}

fn agent_side(gateway: &Gateway) -> SocketAddr {
    let line = gateway.wait_for_line("rest_request is served on http://");
    line.rsplit_once("http://").unwrap().1.trim().parse().unwrap()
}

fn ask(address: SocketAddr, token: &str, call: &Call) -> Response {
    Connection::open(address).call(&call.clone().header("Authorization", &format!("Bearer {token}")))
}

fn call(address: SocketAddr, token: &str, arguments: &Value) -> Value {
    ask(address, token, &Call::post("/rest_request", arguments)).ok()
}

#[test]
fn the_agents_listener_wants_its_token_and_keeps_pages_out() {
    let (gateway, address) = gateway("");
    let schema = Call::get("/rest_request");
    Connection::open(address).call(&schema).refused(401, "unauthorized");
    ask(address, "token-of-another", &schema).refused(401, "unauthorized");
    Connection::open(address).call(&schema.clone().header("Authorization", TOKEN)).refused(401, "unauthorized");
    for (name, value) in
        [("Host", "evil.example"), ("Origin", "https://evil.example"), ("Sec-Fetch-Site", "cross-site")]
    {
        ask(address, TOKEN, &schema.clone().header(name, value)).refused(403, "forbidden");
    }
    for target in ["/", "/talk", "/health", "/rest_request/", "/query/", "/.well-known/restap.json"] {
        ask(address, TOKEN, &Call::get(target)).refused(404, "not_found");
    }
    let refused = ask(address, TOKEN, &Call::new("DELETE", "/rest_request"));
    refused.refused(405, "method_not_allowed");
    assert_eq!(refused.header("allow"), Some("GET, HEAD, POST"));
    ask(address, TOKEN, &Call::new("POST", "/rest_request").body("{}")).refused(415, "unsupported_media_type");
    ask(address, TOKEN, &Call::post("/rest_request", &json!([]))).refused(400, "invalid_json");
    ask(address, TOKEN, &Call::post("/rest_request", &json!({})).header("CDN-Loop", "a, b, c, d, e, f, g, h"))
        .refused(508, "loop_detected");
    // Callers have no way to it.
    gateway
        .call(&Call::post("/rest_request", &json!({})).header("Authorization", &format!("Bearer {TOKEN}")))
        .refused(404, "not_found");
}

#[test]
fn a_model_is_told_what_the_tool_takes() {
    let (_gateway, address) = gateway("");
    let told = ask(address, TOKEN, &Call::get("/rest_request")).ok();
    assert_eq!((&told["type"], &told["function"]["name"]), (&json!("function"), &json!("rest_request")));
    let parameters = &told["function"]["parameters"];
    assert_eq!(parameters["required"], json!(["method", "url"]));
    let keys: Vec<&String> = parameters["properties"].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["method", "url", "headers", "body", "timeout_seconds"]);
}

#[test]
fn agents_share_a_listener_and_each_reads_its_own_news() {
    let gateway = Gateway::start(&format!(
        "agents:\n  one: {{talk: off, rest: {{listen: 127.0.0.1:0, token: {TOKEN}, tls: {{ca: {ca}}}}}}}\n  two: {{rest: {{listen: 127.0.0.1:0, token: token-of-the-second-agent, tls: {{ca: {ca}}}}}}}\n",
        ca = authority()
    ));
    let address = agent_side(&gateway);
    gateway.post("/agents/two/news", &json!({"type": "note", "message": "for two"})).ok();
    let items = |token: &str| ask(address, token, &Call::get("/news")).ok()["items"].as_array().unwrap().len();
    assert_eq!((items(TOKEN), items("token-of-the-second-agent")), (0, 1));
    ask(address, TOKEN, &Call::post("/news", &json!({"type": "note"}))).ok();
    assert_eq!(items(TOKEN), 1);
    ask(address, "token-of-the-second-agent", &Call::get("/query/unknown-id")).refused(404, "not_found");
    ask(address, TOKEN, &Call::get("/query/unknown-id")).refused(404, "not_found");
}

#[test]
fn callers_have_the_tool_only_where_a_group_of_theirs_names_it() {
    let service = Upstream::fixed("200 OK", "", "");
    let gateway = Gateway::start(&format!(
        "agent:\n  name: A\n  talk: off\n  rest: {{listen: 127.0.0.1:0, token: {TOKEN}, allow_private: [127.0.0.1], tls: {{ca: {}}}}}\n\
         \x20 access: {{api_keys: {{one: key-of-the-first-caller, two: key-of-the-second-caller}}, groups: {{partners: ['api_key:one']}}, tools: {{partners: [rest], everyone: [news]}}}}\n",
        authority()
    ));
    let call = Call::post("/rest_request", &json!({"method": "GET", "url": service.url()}));
    let by = |key: &str| gateway.call(&call.clone().header("Authorization", &format!("Bearer {key}")));
    gateway.call(&call).refused(401, "unauthorized");
    by("key-of-the-second-caller").refused(403, "forbidden");
    by(TOKEN).refused(401, "unauthorized");
    assert_eq!(by("key-of-the-first-caller").ok()["status"], 200);
}

#[test]
fn a_unix_socket_serves_the_agent_too() {
    let directory = Arc::new(TempDir::new().unwrap());
    let gateway = Gateway::start_in(
        directory.clone(),
        &format!(
            "agent: {{name: A, talk: off, rest: {{listen: 'unix:agent.sock', token: {TOKEN}, tls: {{ca: {}}}}}}}\n",
            authority()
        ),
    );
    gateway.wait_for_line("rest_request is served on unix:");
    let (status, body) = over_unix(&directory.path().join("agent.sock"), "/rest_request");
    assert_eq!(status, 401, "{body}");
}

#[test]
fn the_gateways_own_listeners_are_never_called() {
    let (gateway, address) = gateway("allow_private: ['0.0.0.0/0', '::/0']");
    for own in [gateway.address(), address] {
        for host in ["127.0.0.1", "localhost", "0.0.0.0"] {
            let refused =
                call(address, TOKEN, &json!({"method": "GET", "url": format!("http://{host}:{}/", own.port())}));
            assert_eq!(refused["error"]["code"], "blocked_address", "{refused}");
        }
    }
}

#[test]
fn no_credential_of_the_file_or_of_the_environment_leaves() {
    let service = Upstream::fixed("200 OK", "", "");
    let directory = Arc::new(TempDir::new().unwrap());
    std::fs::write(directory.path().join("secret.txt"), "out-of-a-file\n").unwrap();
    let file = format!(
        "listen: 127.0.0.1:0\nadmin: off\nstore: {{memory: {{}}}}\nupstreams: {{api: {{url: 'http://127.0.0.1:1', bearer: {{file: secret.txt}}}}}}\n\
         agent:\n  name: A\n  upstream: api\n  talk: off\n  capabilities: [{{id: a, method: GET, endpoint: /a}}]\n\
         \x20 rest: {{listen: 127.0.0.1:0, token: {TOKEN}, allow_private: [127.0.0.1], secrets: [listed-secret], tls: {{ca: {}}}}}\n",
        authority()
    );
    std::fs::write(directory.path().join("gateway.yaml"), file).unwrap();
    let mut command = Command::new(PROGRAM);
    command.arg("serve").env("SOME_API_KEY", "sk-of-the-environment");
    let gateway = Gateway::spawn(directory, command);
    let address = agent_side(&gateway);
    let encoded = |text: &str| text.bytes().map(|byte| format!("%{byte:02x}")).collect::<Vec<_>>().concat();
    for (secret, name) in [
        ("sk-of-the-environment", "SOME_API_KEY"),
        ("out-of-a-file", "upstreams.api.bearer"),
        (TOKEN, "agent.rest.token"),
        ("listed-secret", "agent.rest.secrets[0]"),
    ] {
        for arguments in [
            json!({"method": "GET", "url": format!("{}/{}", service.url(), encoded(secret))}),
            json!({"method": "GET", "url": service.url(), "headers": [format!("X-A: {secret}")]}),
            json!({"method": "POST", "url": service.url(), "body": format!("{{\"a\": \"{secret}\"}}")}),
        ] {
            let refused = call(address, TOKEN, &arguments);
            let message = format!(
                "The request contains the value of {name}, a credential this program holds, so it was not sent."
            );
            assert_eq!(refused["error"], json!({"code": "credential_in_request", "message": message}));
        }
    }
    assert_eq!(service.accepted(), 0);
    assert_eq!(call(address, TOKEN, &json!({"method": "GET", "url": service.url()}))["status"], 200);
}

#[test]
fn the_log_and_the_metrics_say_where_a_call_led_and_nothing_of_what_it_held() {
    let service = Upstream::fixed("200 OK", "X-Answer: of-the-service", "of the body");
    let (gateway, address) = gateway("allow_private: [127.0.0.1], sign: never");
    let arguments = json!({"method": "POST", "url": format!("{}/of-the-path?of-the-query", service.url()),
        "headers": ["X-A: of-the-header"], "body": "of-the-body"});
    assert_eq!(
        call(address, TOKEN, &arguments)["unsigned_reason"],
        "signing is turned off for this tool (sign: never)."
    );
    let line = gateway.wait_for_line("hops=");
    for part in [
        "agent=\"agent\"",
        &service.url(),
        &format!("({})", service.url().trim_start_matches("http://")),
        "status=200",
        "sign: never",
    ] {
        assert!(line.contains(part), "{part}: {line}");
    }
    assert!(!gateway.logs().contains("of-the-"), "{}", gateway.logs());
    let (_, metrics) = gateway.admin("/metrics");
    assert!(
        metrics.contains(r#"restap_rest_requests_total{agent="agent",outcome="2xx",signed="false"} 1"#),
        "{metrics}"
    );
}

#[test]
fn a_caller_that_leaves_ends_its_request() {
    let (left, told) = std::sync::mpsc::channel();
    let left = std::sync::Mutex::new(left);
    let service = Upstream::start(move |exchange| {
        exchange.wait_until_left();
        left.lock().unwrap().send(()).unwrap();
    });
    let (_gateway, address) = gateway("allow_private: [127.0.0.1]");
    let mut connection = Connection::open(address);
    let arguments = json!({"method": "GET", "url": service.url()});
    let call = Call::post("/rest_request", &arguments).header("Authorization", &format!("Bearer {TOKEN}"));
    connection.send(call.bytes());
    service.wait_for_requests(1);
    drop(connection);
    told.recv_timeout(PATIENCE).unwrap();
}

#[test]
fn a_section_that_can_not_work_says_why() {
    let directory = TempDir::new().unwrap();
    for (rest, said) in [
        ("{}", "`token` is missing"),
        ("{token: abcdefgh, listen: ':8081'}", "whoever reaches this address could call others in the agent's name"),
        ("{token: abcdefgh, listen: 127.0.0.1:8080}", "callers are served at 127.0.0.1:8080 already"),
        ("{token: abcdefgh, allow_private: [localhost]}", "an address such as 127.0.0.1, 10.0.0.0/8 or [::1]:8080"),
        ("{token: abcdefgh, allow_private: [10.0.0.1/8]}", "the block that holds this address begins at 10.0.0.0/8"),
        ("{token: abcdefgh, allow_private: [5]}", "an address such as"),
        ("{token: abcdefgh, secrets: [short]}", "fewer than 8 characters"),
        ("{token: abcdefgh, sign: never, signing_keys: keys}", "`sign: never` signs nothing"),
        ("{token: abcdefgh, sign: maybe}", "auto"),
        ("{token: abcdefgh, alow_private: []}", "did you mean `allow_private`?"),
    ] {
        let checked =
            run(directory.path(), Some(&format!("agent: {{name: A, talk: off, rest: {rest}}}\n")), &["check"]);
        let printed = checked.stdout + &checked.stderr;
        assert!(checked.code == Some(1) && printed.contains(said), "{rest}: {printed}");
    }
    let shared = "agents: {a: {talk: off, rest: {token: the-same-one}}, b: {talk: off, rest: {token: the-same-one}}}\n";
    let checked = run(directory.path(), Some(shared), &["check"]);
    assert!(checked.code == Some(1) && (checked.stdout + &checked.stderr).contains("which agent calls"));
    for (rest, said) in [
        ("{token: abcdefgh, sign: always}", "nothing can be signed as this agent"),
        ("{token: abcdefgh, allow_private: [169.254.0.0/16]}", "are never called, whatever this list says"),
    ] {
        let checked =
            run(directory.path(), Some(&format!("agent: {{name: A, talk: off, rest: {rest}}}\n")), &["check"]);
        let printed = checked.stdout + &checked.stderr;
        assert!(checked.code == Some(0) && printed.contains(said), "{rest}: {printed}");
    }
}

#[test]
fn an_upstream_may_not_be_where_clouds_keep_their_credentials() {
    let directory = TempDir::new().unwrap();
    for upstream in
        ["http://169.254.169.254/latest", "http://2852039166", "'http://[fd00:ec2::254]'", "http://0xa9fea9fe:80"]
    {
        let uses = "talk: off, capabilities: [{id: a, method: GET, endpoint: /a}]";
        for file in [
            format!("agent: {{name: A, upstream: {upstream}, {uses}}}\n"),
            format!("upstreams: {{api: {{url: {upstream}}}}}\nagent: {{name: A, upstream: api, {uses}}}\n"),
            format!(
                "upstreams: {{api: {{servers: [{{url: 'http://127.0.0.1:1'}}, {{url: {upstream}}}]}}}}\nagent: {{name: A, upstream: api, {uses}}}\n"
            ),
        ] {
            let checked = run(directory.path(), Some(&file), &["check"]);
            let printed = checked.stdout + &checked.stderr;
            assert!(checked.code == Some(1) && printed.contains("and is never called"), "{file}: {printed}");
        }
    }
}

/// Requests that other implementations of the tool are held to as well, with the results that they must have.
#[test]
fn the_scenarios_of_the_tool_end_as_they_do_elsewhere() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/cases/signature/webagents/scenarios.json");
    let Ok(text) = std::fs::read_to_string(path) else {
        eprintln!("skipped: the scenarios are not here");
        return;
    };
    let file: Value = serde_json::from_str(&text).unwrap();
    let service = Upstream::start(|exchange| {
        let request = exchange.request.clone();
        let body = String::from_utf8(request.body.clone()).unwrap();
        let (path, kind) = (request.target.split('?').next().unwrap(), "Content-Type: application/json");
        match path {
            "/json" if request.method == "HEAD" => exchange.send(format!("HTTP/1.1 200 OK\r\n{kind}\r\n\r\n")),
            "/json" => exchange.answer("200 OK", kind, br#"{"hello":"world","n":1}"#),
            "/text" => exchange.answer("404 Not Found", "Content-Type: text/plain; charset=utf-8", b"not here"),
            "/bin" => exchange.answer("200 OK", "Content-Type: application/octet-stream", &(0..=255).collect::<Vec<u8>>()),
            "/r1" => exchange.answer("302 Found", "Content-Type: text/plain; charset=utf-8\r\nLocation: /r2", b""),
            "/r2" => exchange.answer("301 Moved", "Location: /json", b""),
            "/loop" => exchange.answer("302 Found", "Location: /loop", b""),
            "/to-private" => exchange.answer("302 Found", "Location: http://10.0.0.1/", b""),
            "/echo" => {
                let signed = request.header("signature-input").is_some();
                let told = json!({"method": request.method, "content_type": request.header("content-type"),
                    "content_length": request.header("content-length"), "body": body, "signed": signed});
                exchange.answer("200 OK", kind, told.to_string().as_bytes());
            }
            "/headers" => exchange.answer(
                "200 OK",
                "Content-Type: text/plain; charset=utf-8\r\nLink: <https://example.com/next>; rel=\"next\"\r\nETag: \"v1\"\r\nX-RateLimit-Remaining: 41\r\nSet-Cookie: a=b",
                b"ok",
            ),
            "/big" => exchange.answer("200 OK", "Content-Type: text/plain; charset=utf-8", &vec![b'a'; 2 << 20]),
            _ => {
                exchange.wait_until_left();
            }
        }
    });
    let port = service.url().rsplit_once(':').unwrap().1.to_owned();
    let scenarios = file["scenarios"].as_array().unwrap();
    let mut rest = Vec::new();
    let mut yaml = "listen: 127.0.0.1:0\nadmin: off\nstore: {memory: {}}\nagents:\n".to_owned();
    let mut command = Command::new(PROGRAM);
    for (number, scenario) in scenarios.iter().enumerate() {
        let mut config = scenario.get("config").cloned().unwrap_or_else(|| json!({"allow_private": ["127.0.0.1"]}));
        config["listen"] = "127.0.0.1:0".into();
        config["token"] = format!("token-of-scenario-{number}").into();
        config["tls"] = json!({"ca": authority()});
        yaml = format!("{yaml}  s{number}: {{talk: off, rest: {config}}}\n");
        rest.push(format!("token-of-scenario-{number}"));
        for (name, value) in scenario["env"].as_object().into_iter().flatten() {
            command.env(name, value.as_str().unwrap());
        }
    }
    let directory = Arc::new(TempDir::new().unwrap());
    std::fs::write(directory.path().join("gateway.yaml"), yaml).unwrap();
    let gateway = Gateway::spawn(directory, {
        command.arg("serve");
        command
    });
    let address = agent_side(&gateway);
    let ours = "this agent has no public address. Set public_url to its https address to sign as that agent.";
    let mut wrong = Vec::new();
    for (scenario, token) in scenarios.iter().zip(&rest) {
        let theirs = scenarios.iter().find_map(|scenario| scenario["expect"]["unsigned_reason"].as_str()).unwrap();
        let text = scenario.to_string().replace(theirs, ours).replace("PORT", &port);
        let scenario: Value = serde_json::from_str(&text).unwrap();
        let mut expected = scenario["expect"].clone();
        if let (Some(text), Some(count)) = (expected["text"]["repeat"].as_str(), expected["text"]["count"].as_u64()) {
            expected["text"] = text.repeat(usize::try_from(count).unwrap()).into();
        }
        let mut result = call(address, token, &scenario["args"]);
        result.as_object_mut().unwrap().remove("elapsed_ms");
        if result != expected {
            wrong.push(format!("{}: {result:.300} instead of {expected:.300}", scenario["name"]));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
