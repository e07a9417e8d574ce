use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Mutex;

use async_trait::async_trait;
use tokio::io::AsyncWriteExt;

use super::super::held::Credential;
use super::super::settings::Sign;
use super::*;
use crate::net::stand_in::{PATIENCE, StandIn, tls_fixture};
use crate::net::{Client, Resolve, Roots, guard};
use crate::signature::{Form, SigningKey};

/// Answers as a case says.
#[derive(Default)]
struct Names {
    known: HashMap<String, Vec<IpAddr>>,
    /// One answer after the other, for whatever name.
    sequence: Mutex<Vec<Vec<IpAddr>>>,
    hangs: bool,
}

#[async_trait]
impl Resolve for Names {
    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        if self.hangs {
            std::future::pending::<()>().await;
        }
        let mut sequence = self.sequence.lock().unwrap();
        let answer = match self.known.get(host.trim_end_matches('.')) {
            Some(answer) => answer.clone(),
            None if sequence.is_empty() => return Err(io::Error::other("no such name")),
            None => sequence.remove(0),
        };
        Ok(answer.into_iter().map(|ip| SocketAddr::new(ip, port)).collect())
    }
}

struct Parts {
    names: Names,
    allow: Vec<String>,
    signing: Signing,
    held: Vec<Credential>,
    ca: Option<PathBuf>,
}

impl Default for Parts {
    fn default() -> Self {
        let signing = Signing::new(Sign::Auto, Form::Untyped, None, &[]);
        Self { names: Names::default(), allow: vec!["127.0.0.1".to_owned()], signing, held: Vec::new(), ca: None }
    }
}

impl Parts {
    fn tool(self) -> Tool {
        let allow_private = self.allow.iter().map(|entry| entry.parse().unwrap()).collect();
        let client = Client::with_resolver(Roots::none(), Arc::new(self.names));
        let guard = client.guard(guard::Settings { allow_private, ca: self.ca }).unwrap();
        Tool::new(guard, self.signing, Arc::new(Held::new(self.held).unwrap()))
    }
}

async fn call(tool: &Tool, arguments: Value) -> Outcome {
    let Value::Object(arguments) = arguments else { panic!("no object") };
    tokio::time::timeout(PATIENCE * 20, tool.call(&arguments, &HopCount::default())).await.expect("it hangs")
}

fn code(outcome: &Outcome) -> &str {
    outcome.result["error"]["code"].as_str().unwrap_or("none")
}

fn strings(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().map(|text| text.as_str().unwrap().to_owned()).collect()
}

/// The arguments of a case.
fn arguments(case: &Value) -> Value {
    let of = case.get("request").unwrap_or(case);
    let mut arguments = json!({"method": "GET"});
    for name in ["method", "url", "headers", "body", "timeout_seconds"] {
        if let Some(value) = of.get(name) {
            arguments[name] = value.clone();
        }
    }
    if let (Some(text), Some(count)) = (arguments["body"]["repeat"].as_str(), arguments["body"]["count"].as_u64()) {
        arguments["body"] = text.repeat(count as usize).into();
    }
    arguments
}

fn parts(case: &Value) -> Parts {
    let ips = |list: &Value| strings(list).iter().map(|ip| ip.parse().unwrap()).collect::<Vec<IpAddr>>();
    let mut known = HashMap::new();
    for (name, answer) in case["dns"].as_object().into_iter().flatten() {
        // Names are asked for as they stand in a URL.
        let name = format!("http://{name}/").parse::<WebUrl>().unwrap().host().to_string();
        known.insert(name, ips(answer));
    }
    let sequence = case["dns_sequence"].as_array().into_iter().flatten().map(ips).collect();
    let held = case["env"].as_object().into_iter().flatten();
    Parts {
        names: Names { known, sequence: Mutex::new(sequence), hangs: case.get("dns_delay_ms").is_some() },
        allow: strings(&case["config"]["allow_private"]),
        held: held.filter_map(|(name, value)| Credential::of_variable(name, value.as_str().unwrap())).collect(),
        ..Parts::default()
    }
}

/// What becomes of a case that no service is needed for: the code, or the addresses that would be connected to.
async fn verdict(case: &Value) -> Result<Vec<String>, String> {
    let tool = parts(case).tool();
    let Value::Object(arguments) = arguments(case) else { panic!("no object") };
    let refused = |refused: Refused| refused.code.as_str().to_owned();
    let request = Request::parse(&arguments).map_err(refused)?;
    tool.held.check(request.texts()).map_err(refused)?;
    let deadline = Instant::now() + Duration::from_secs(request.timeout);
    let admitted = tool.guard.admit(&request.url, deadline).await;
    let admitted = admitted.map_err(|error| refused(Refused::hop(&error, &request.url, request.timeout)))?;
    Ok(admitted.iter().map(|address| address.ip().to_string()).collect())
}

#[tokio::test(start_paused = true)]
async fn every_case_of_requests_that_may_not_leave_ends_as_it_must() {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases/ssrf.json")).unwrap();
    let file: Value = serde_json::from_str(&text).unwrap();
    let (mut wrong, mut tried) = (Vec::new(), 0);
    for case in file["cases"].as_array().unwrap() {
        let expected = &case["expect"];
        let (verdict_is, code) = (expected["verdict"].as_str().unwrap(), expected["code"].as_str().unwrap_or_default());
        let got = match case["kind"].as_str().unwrap() {
            "redirect" => continue,
            "config" => {
                let list = case["config"]["allow_private"].as_array().unwrap();
                let bad =
                    list.iter().any(|entry| entry.as_str().is_none_or(|text| text.parse::<net::Allowed>().is_err()));
                bad.then_some(()).ok_or_else(|| "no error".to_owned()).map(|()| Vec::new())
            }
            _ => verdict(case).await,
        };
        tried += 1;
        let right = match (verdict_is, &got) {
            ("configuration error", got) => got.is_ok(),
            ("refuse", Err(got)) => code.split(" or ").any(|code| code == got),
            ("allow", Ok(addresses)) => {
                let first = addresses.first().map(String::as_str);
                [&expected["effective_address"], &expected["connected_to"]]
                    .iter()
                    .all(|wanted| wanted.is_null() || wanted.as_str() == first)
            }
            ("first allow, second refuse", Ok(_)) => {
                let tool = parts(case).tool();
                let url: WebUrl = case["url"].as_str().unwrap().parse().unwrap();
                let deadline = Instant::now() + PATIENCE;
                tool.guard.admit(&url, deadline).await.is_ok()
                    && matches!(tool.guard.admit(&url, deadline).await, Err(net::Error::Blocked(_)))
            }
            _ => false,
        };
        if !right {
            wrong.push(format!("{}: {got:?} instead of {expected}", case["id"]));
        }
    }
    assert!(wrong.is_empty() && tried > 150, "{tried}\n{}", wrong.join("\n"));
}

#[tokio::test]
async fn every_case_of_redirects_ends_as_it_must() {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases/ssrf.json")).unwrap();
    let file: Value = serde_json::from_str(&text).unwrap();
    let (mut wrong, mut tried) = (Vec::new(), 0);
    for case in file["cases"].as_array().unwrap().iter().filter(|case| case["kind"] == "redirect") {
        tried += 1;
        let service = StandIn::start().await;
        // Where the case says 443 or nothing the service is, and its public addresses are this machine.
        let here = |text: &str| {
            let at = |host: &str| format!("http://{host}:{}", service.address().port());
            let text = text.replace("https://", "http://").replace("http://other.test", &at("other.test"));
            text.replace("http://example.com", &at("example.com"))
        };
        let mut case = case.clone();
        let location = case["server"]["location"].as_str().unwrap().to_owned();
        // Another port of the same host, as another name: a stand-in has one port.
        let location = if location.contains(":8443") { "https://other.test/".to_owned() } else { location };
        let location = here(&location);
        case["url"] = here(case["url"].as_str().unwrap()).into();
        let mut case_parts = parts(&case);
        for answer in case_parts.names.known.values_mut().flatten().filter(|ip| ip.to_string().starts_with("93.")) {
            *answer = "127.0.0.1".parse().unwrap();
        }
        case_parts.names.known.insert("other.test".to_owned(), vec!["127.0.0.1".parse().unwrap()]);
        case_parts.allow = vec![service.address().to_string()];
        let tool = case_parts.tool();
        let status = case["server"]["status"].clone();
        let seen = Mutex::new(Vec::new());
        let serving = async {
            loop {
                let mut caller = service.accept().await;
                let request = caller.request().await.to_ascii_lowercase();
                seen.lock().unwrap().push(request);
                let head = if seen.lock().unwrap().len() == 1 {
                    format!("HTTP/1.1 {status} R\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n")
                } else {
                    "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_owned()
                };
                caller.send(head).await;
            }
        };
        let outcome =
            tokio::select! { outcome = call(&tool, arguments(&case)) => outcome, () = serving => unreachable!() };
        let (expected, result, seen) = (&case["expect"], &outcome.result, seen.into_inner().unwrap());
        let right = match expected["verdict"].as_str().unwrap() {
            "refuse" => code(&outcome) == expected["code"] && seen.len() == 1,
            "answer" => result["status"] == expected["status"] && result["redirects"] == 0 && seen.len() == 1,
            "follow" => {
                let dropped = strings(&expected["dropped_headers"]);
                result["status"] == 200
                    && result["redirects"] == 1
                    && dropped.iter().all(|name| !seen[1].contains(&format!("\r\n{name}: ")))
            }
            _ => false,
        };
        if !right {
            wrong.push(format!("{}: {result} instead of {expected}, {seen:?}", case["id"]));
        }
    }
    assert!(wrong.is_empty() && tried >= 20, "{tried}\n{}", wrong.join("\n"));
}

async fn answered_with(answer: String, arguments: impl FnOnce(&str) -> Value) -> Outcome {
    let service = StandIn::start().await;
    let tool = Parts::default().tool();
    let serving = async {
        let mut held = Vec::new();
        loop {
            let mut caller = service.accept().await;
            caller.request().await;
            caller.send(&answer).await;
            held.push(caller);
        }
    };
    tokio::select! {
        outcome = call(&tool, arguments(&service.url())) => outcome,
        () = serving => unreachable!(),
    }
}

#[tokio::test]
async fn a_result_has_its_keys_in_order() {
    let answer =
        "HTTP/1.1 404 N\r\nContent-Type: text/plain\r\nETag: \"1\"\r\nSet-Cookie: a=b\r\nContent-Length: 4\r\n\r\ngone"
            .to_owned();
    let outcome = answered_with(answer, |url| json!({"method": "get", "url": format!("{url}/x#y")})).await;
    let result = outcome.result.as_object().unwrap();
    let keys: Vec<&str> = result.keys().map(String::as_str).collect();
    assert_eq!(
        keys,
        [
            "ok",
            "status",
            "url",
            "redirects",
            "signed",
            "unsigned_reason",
            "content_type",
            "headers",
            "text",
            "bytes",
            "truncated",
            "elapsed_ms"
        ]
    );
    assert_eq!((&result["ok"], &result["status"], &result["text"]), (&json!(false), &json!(404), &json!("gone")));
    assert_eq!(result["headers"], json!({"etag": "\"1\""}));
    let audit = &outcome.audit;
    assert_eq!((audit.status, audit.hops.len()), (Some(404), 1));
    assert!(audit.hops[0].address.as_deref().unwrap().starts_with("127.0.0.1:"));
}

#[tokio::test]
async fn what_a_service_does_to_a_caller_ends_with_the_right_code() {
    let get = |url: &str| json!({"method": "GET", "url": url, "timeout_seconds": 1});
    for (answer, expected) in [
        (String::new(), "timeout"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf".to_owned(), "timeout"),
        ("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n".to_owned(), "timeout"),
        ("SSH-2.0-x\r\n\r\n".to_owned(), "network_error"),
        (format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(50_000)), "network_error"),
        (format!("HTTP/1.1 200 OK\r\na: {}\r\n\r\n", "b".repeat(70_000)), "network_error"),
        ("HTTP/1.1 101 S\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n".to_owned(), "network_error"),
        (format!("{}HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 103 E\r\n\r\n".repeat(17)), "network_error"),
        ("HTTP/1.1 302 F\r\nLocation: /\r\nContent-Length: 0\r\n\r\n".to_owned(), "redirect_limit"),
    ] {
        let outcome = answered_with(answer.clone(), get).await;
        assert_eq!(code(&outcome), expected, "{} {:?}", outcome.result, answer.get(..40));
    }
}

#[tokio::test]
async fn an_endless_body_is_cut_and_its_connection_closed() {
    let service = StandIn::start().await;
    let tool = Parts::default().tool();
    let serving = async {
        let mut caller = service.accept().await;
        caller.request().await;
        caller.send("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n").await;
        while caller.stream.write_all(&[b'a'; 4096]).await.is_ok() {}
    };
    let (outcome, ()) = tokio::join!(call(&tool, json!({"method": "GET", "url": service.url()})), serving);
    assert_eq!((&outcome.result["bytes"], &outcome.result["truncated"]), (&json!(1 << 20), &json!(true)));
}

#[tokio::test]
async fn nobody_there_is_said_and_nothing_is_repeated() {
    let tool = Parts::default().tool();
    let port = StandIn::start().await.address().port();
    let outcome = call(&tool, json!({"method": "GET", "url": format!("http://127.0.0.1:{port}/")})).await;
    assert_eq!(outcome.result["error"]["message"], "Could not connect to 127.0.0.1: the connection was refused.");
    let service = StandIn::start().await;
    let serving = async {
        let mut caller = service.accept().await;
        caller.request().await;
        caller.reset();
        assert!(service.is_left_alone().await, "the request came again");
    };
    let (outcome, ()) = tokio::join!(call(&tool, json!({"method": "GET", "url": service.url()})), serving);
    assert_eq!(code(&outcome), "network_error");
    let outcome = call(&tool, json!({"method": "GET", "url": "http://nowhere.test/"})).await;
    assert_eq!(outcome.result["error"]["message"], "nowhere.test did not resolve.");
}

#[tokio::test]
async fn sign_always_never_sends_an_unsigned_byte() {
    let service = StandIn::start().await;
    let keys = [SigningKey::from_seed([1; 32]).unwrap()];
    for (public, keys, reason) in [
        (
            None,
            &keys[..],
            "this agent has no public address. Set public_url to its https address to sign as that agent.",
        ),
        (
            Some("https://localhost/a"),
            &keys[..],
            "this agent has no public address. Set public_url to its https address to sign as that agent.",
        ),
        (
            Some("http://a.example"),
            &keys[..],
            "this agent's address is not https, so a signature naming it could not be checked.",
        ),
        (
            Some("https://a.example"),
            &[],
            "this agent has no signing key yet. Serving it with restap-gateway serve creates one.",
        ),
        (Some("https://a.example"), &keys[..], "requests to plain http addresses are not signed."),
    ] {
        let signing = Signing::new(Sign::Always, Form::Untyped, public, keys);
        let tool = Parts { signing, ..Parts::default() }.tool();
        let outcome = call(&tool, json!({"method": "GET", "url": service.url()})).await;
        let message =
            format!("This request would go out unsigned ({reason}), and this tool is set to sign every request.");
        assert_eq!(outcome.result, json!({"ok": false, "error": {"code": "not_signed", "message": message}}));
    }
    assert!(service.is_left_alone().await);
}

#[test]
fn a_hop_is_signed_as_it_is_sent() {
    let keys = [SigningKey::from_seed([1; 32]).unwrap(), SigningKey::from_seed([2; 32]).unwrap()];
    let signing = Signing::new(Sign::Auto, Form::Untyped, Some("https://a.example/agents/a"), &keys);
    let arguments = json!({"method": "POST", "url": "https://B.example:443/x/../y?q#f", "body": "{}"});
    let request = Request::parse(arguments.as_object().unwrap()).unwrap();
    let signed = signing.sign(&request).unwrap();
    assert_eq!(signed.agent, "https://a.example/agents/a");
    let wire = request.hop(&HopCount::default().next(), signed.fields).unwrap();
    assert_eq!((wire.target.as_str(), &wire.headers["host"]), ("/y?q", &"b.example".parse().unwrap()));
    let input = wire.headers["signature-input"].to_str().unwrap();
    assert!(input.starts_with("sig1=(\"@method\" \"@authority\" \"@path\" \"@query\" \"content-digest\""), "{input}");
    assert!(input.contains("sig2=("), "{input}");
    assert_eq!(
        wire.headers["signature-agent"],
        "sig1=\"https://a.example/agents/a/.well-known/jwks.json\", sig2=\"https://a.example/agents/a/.well-known/jwks.json\""
    );
}

/// A tool of a signing agent that trusts the services of tests, and calls them by the names of their certificate.
fn signing_tool(sign: Sign, trusts: bool) -> Tool {
    let keys = [SigningKey::from_seed([1; 32]).unwrap()];
    let this_machine = vec!["127.0.0.1".parse().unwrap()];
    let known = ["service.test", "other.test"].map(|name| (name.to_owned(), this_machine.clone()));
    Parts {
        names: Names { known: known.into(), ..Names::default() },
        signing: Signing::new(sign, Form::Untyped, Some("https://a.example"), &keys),
        ca: Some(tls_fixture(if trusts { "ca.pem" } else { "client.pem" })),
        ..Parts::default()
    }
    .tool()
}

#[tokio::test]
async fn each_hop_is_signed_for_itself_and_none_over_plain_http() {
    let (service, plain) = (StandIn::start().await, StandIn::start().await);
    let (port, plain_port) = (service.address().port(), plain.address().port());
    let target = |request: &str| request.split(' ').nth(1).unwrap().to_owned();
    let serving = async {
        let mut requests = Vec::new();
        for location in ["/two".to_owned(), format!("http://127.0.0.1:{plain_port}/three")] {
            let mut caller = service.accept_tls(&[b"http/1.1"], false).await.unwrap();
            requests.push(caller.request().await);
            caller.send(format!("HTTP/1.1 302 F\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n")).await;
        }
        let mut caller = plain.accept().await;
        requests.push(caller.request().await);
        caller.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
        requests
    };
    let tool = signing_tool(Sign::Auto, true);
    let arguments = json!({"method": "GET", "url": format!("https://service.test:{port}/one")});
    let (outcome, requests) = tokio::join!(call(&tool, arguments), serving);
    assert_eq!((&outcome.result["signed"], &outcome.result["redirects"]), (&json!(false), &json!(2)));
    assert_eq!(outcome.result["unsigned_reason"], "requests to plain http addresses are not signed.");
    let field = |request: &str, name: &str| {
        let line = request.lines().find(|line| line.to_ascii_lowercase().starts_with(&format!("{name}: ")));
        line.map(|line| line.split_once(": ").unwrap().1.to_owned())
    };
    let signatures: Vec<_> = requests.iter().map(|request| field(request, "signature")).collect();
    assert!(signatures[0].is_some() && signatures[1].is_some() && signatures[0] != signatures[1]);
    assert_eq!(signatures[2], None);
    assert_eq!(requests.iter().map(|request| target(request)).collect::<Vec<_>>(), ["/one", "/two", "/three"]);
    assert_eq!(outcome.audit.hops.len(), 3);
}

#[tokio::test]
async fn sign_always_does_not_follow_where_it_could_not_sign() {
    let (service, plain) = (StandIn::start().await, StandIn::start().await);
    let serving = async {
        let mut caller = service.accept_tls(&[b"http/1.1"], false).await.unwrap();
        assert!(caller.request().await.to_ascii_lowercase().contains("\r\nsignature-input: sig1="));
        caller.send(format!("HTTP/1.1 302 F\r\nLocation: {}/\r\nContent-Length: 0\r\n\r\n", plain.url())).await;
    };
    let arguments = json!({"method": "GET", "url": format!("https://service.test:{}/", service.address().port())});
    let tool = signing_tool(Sign::Always, true);
    let (outcome, ()) = tokio::join!(call(&tool, arguments), serving);
    assert_eq!(code(&outcome), "not_signed");
    assert!(plain.is_left_alone().await);
}

#[tokio::test]
async fn failures_of_tls_have_their_code_within_the_deadline() {
    for (name, trusts, message) in [
        ("service.test", false, "Could not connect to service.test: its TLS certificate was not accepted."),
        ("other.test", true, "Could not connect to other.test: its TLS certificate was not accepted."),
    ] {
        let service = StandIn::start().await;
        let arguments = json!({"method": "GET", "url": format!("https://{name}:{}/", service.address().port())});
        let tool = signing_tool(Sign::Never, trusts);
        let (outcome, _) = tokio::join!(call(&tool, arguments), service.accept_tls(&[b"http/1.1"], false));
        assert_eq!(outcome.result["error"]["message"], message);
    }
    for (answer, expected) in [("HTTP/1.1 400 Bad Request\r\n\r\n", "network_error"), ("", "timeout")] {
        let service = StandIn::start().await;
        let url = format!("https://service.test:{}/", service.address().port());
        let tool = signing_tool(Sign::Never, true);
        let serving = async {
            let mut caller = service.accept().await;
            caller.send(answer).await;
            caller.gone().await;
        };
        let (outcome, ()) =
            tokio::join!(call(&tool, json!({"method": "GET", "url": url, "timeout_seconds": 1})), serving);
        assert_eq!(code(&outcome), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_lookup_that_hangs_counts_against_the_deadline() {
    let tool = Parts { names: Names { hangs: true, ..Names::default() }, ..Parts::default() }.tool();
    let began = Instant::now();
    let outcome = call(&tool, json!({"method": "GET", "url": "http://slow.test/", "timeout_seconds": 2})).await;
    assert_eq!(outcome.result["error"]["message"], "No complete answer within 2 s.");
    assert!(began.elapsed() < Duration::from_secs(3));
}
