//! Signatures with the `webagents` package at the other end: it verifies what we sign, we verify what it signs, and of
//! everything that can be wrong with a signature it says the same.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::{HeaderMap, HeaderName};
use restap_gateway::signature::{
    AgentUrl, Claim, ContentDigest, Form, KeySet, Nonces, Outgoing, Profile, Refused, Request, Scheme, Signer,
    SigningKey,
};
use ring::signature::Ed25519KeyPair;
use serde_json::{Value, json};

use super::component;

const SEEDS: [[u8; 32]; 2] = [[11; 32], [12; 32]];
const HOST: &str = "gw.example";

/// The package, asked line by line.
pub(crate) struct Webagents {
    process: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Webagents {
    pub(crate) fn start() -> Option<Self> {
        let python = component("python/bin/python")?;
        let known = Command::new(&python)
            .args(["-c", "import importlib.util as u, sys; sys.exit(u.find_spec('webagents') is None)"])
            .stderr(Stdio::null())
            .status();
        if !known.is_ok_and(|status| status.success()) {
            eprintln!("skipped: webagents is not installed; .ci/components does that");
            return None;
        }
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/real/signatures.py");
        let mut process =
            Command::new(python).arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (orders, answers) = (process.stdin.take().unwrap(), BufReader::new(process.stdout.take().unwrap()));
        Some(Self { process, orders, answers })
    }

    pub(crate) fn ask(&mut self, order: &Value) -> Value {
        writeln!(self.orders, "{order}").unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        serde_json::from_str(&answer).unwrap_or_else(|_| panic!("{order}: {answer}"))
    }

    /// What it makes of a request.
    fn judges(&mut self, sent: &Sent, now: i64) -> String {
        let keys: Vec<Value> = keys().iter().map(|key| key.public().to_jwk()).collect();
        let fields: Vec<[&str; 2]> = sent.fields.iter().map(|(name, value)| [name.as_str(), value.as_str()]).collect();
        let body = BASE64_STANDARD.encode(sent.body);
        let answer = self.ask(&json!({"verify": {"method": sent.method, "target": sent.target, "fields": fields,
            "body": body, "authority": HOST, "now": now, "keys": keys}}));
        match answer["principal"].as_str() {
            Some(principal) => format!("verified {principal}"),
            None => answer["code"].as_str().unwrap().to_owned(),
        }
    }
}

impl Drop for Webagents {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn keys() -> [SigningKey; 2] {
    SEEDS.map(|seed| SigningKey::from_seed(seed).unwrap())
}

/// A request as it is sent.
#[derive(Clone)]
struct Sent {
    method: &'static str,
    target: String,
    fields: Vec<(String, String)>,
    body: &'static [u8],
}

impl Sent {
    /// What we make of it.
    fn judged(&self, now: i64) -> String {
        let judge = || -> Result<String, Refused> {
            let lines = self.fields.iter();
            let fields: HeaderMap =
                lines.map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap())).collect();
            let host = self.fields.iter().find(|(name, _)| name == "host").map_or("", |(_, host)| host.as_str());
            let request = Request {
                method: self.method,
                scheme: Scheme::Https,
                authority: host,
                target: &self.target,
                fields: &fields,
                has_body: !self.body.is_empty(),
            };
            let claim = Claim::read(&request, Profile::Authenticate, &[HOST.to_owned()], now)?.unwrap();
            let verified = claim.verify(&KeySet::of(keys().map(|key| key.public().clone())))?;
            verified.check_body(self.body)?;
            verified.spend(&mut Nonces::default(), now)?;
            Ok(format!("verified {}", verified.principal))
        };
        judge().unwrap_or_else(|refused| refused.code().as_str().to_owned())
    }
}

pub(crate) fn now() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    i64::try_from(now.as_secs()).unwrap()
}

const REQUESTS: [(&str, &str, &[u8]); 4] = [
    ("GET", "/", b""),
    ("GET", "/agents/a/search?q=a%20b&k=%7e", b""),
    ("POST", "/talk", b"{\"message\":\"hi\"}"),
    ("DELETE", "/things/1?", b""),
];

#[test]
fn webagents_verifies_what_we_sign() {
    let Some(mut webagents) = Webagents::start() else { return };
    let agent: AgentUrl = "https://caller.example/agents/scout".parse().unwrap();
    for (method, target, body) in REQUESTS {
        for (form, principal) in [
            (Form::Untyped, "https://caller.example/agents/scout"),
            (Form::Typed, "https://caller.example/agents/scout"),
            (Form::Legacy, "https://caller.example"),
        ] {
            for held in [&keys()[..1], &keys()[..]] {
                let signer = Signer::new(agent.clone(), held).unwrap();
                let outgoing = Outgoing { method, authority: HOST, target, body, covered: &[] };
                let mut random = 0;
                let mut nonce = |bytes: &mut [u8]| {
                    random += 1;
                    bytes.fill(random);
                };
                let added = signer.sign(&outgoing, form, now(), &mut nonce).unwrap();
                let mut fields = vec![("host".to_owned(), HOST.to_owned())];
                fields.extend(added.into_iter().map(|(name, value)| (name.to_owned(), value)));
                let sent = Sent { method, target: target.to_owned(), fields, body };
                let expected = format!("verified {principal}");
                assert_eq!(webagents.judges(&sent, now()), expected, "{method} {target} {form:?}");
                assert_eq!(sent.judged(now()), expected);
            }
        }
    }
}

#[test]
fn we_verify_what_webagents_signs() {
    let Some(mut webagents) = Webagents::start() else { return };
    let hex = |seed: &[u8; 32]| seed.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat();
    for (method, target, body) in REQUESTS {
        for form in ["dictionary-typed", "dictionary-untyped", "legacy-string"] {
            for held in [&SEEDS[..1], &SEEDS[..]] {
                let seeds: Vec<String> = held.iter().map(hex).collect();
                let added = webagents.ask(&json!({"sign": {"method": method, "url": format!("https://{HOST}{target}"),
                    "body": BASE64_STANDARD.encode(body), "form": form, "seeds": seeds,
                    "agent": "https://caller.example/agents/scout"}}));
                let added = added.as_object().unwrap().iter();
                let mut fields = vec![("host".to_owned(), HOST.to_owned())];
                fields.extend(added.map(|(name, value)| (name.to_lowercase(), value.as_str().unwrap().to_owned())));
                let sent = Sent { method, target: target.to_owned(), fields, body };
                let judged = sent.judged(now());
                assert!(judged.starts_with("verified https://caller.example"), "{method} {target} {form}: {judged}");
            }
        }
    }
}

const NOW: i64 = 1_790_000_000;

/// The parts of a signed request, each of which can be wrong.
#[derive(Clone)]
struct Forge {
    sent: Sent,
    components: Vec<(String, String)>,
    parameters: Vec<(String, String)>,
}

impl Forge {
    fn good() -> Self {
        let pairs = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let keyid = format!("\"{}\"", keys()[0].thumbprint());
        Self {
            sent: Sent {
                method: "GET",
                target: "/cap/x?a=1".to_owned(),
                fields: pairs(&[
                    ("host", HOST),
                    ("signature-agent", "sig1=\"https://c.example/.well-known/jwks.json\""),
                ]),
                body: b"",
            },
            components: pairs(&[
                ("\"@method\"", "GET"),
                ("\"@authority\"", HOST),
                ("\"@path\"", "/cap/x"),
                ("\"@query\"", "?a=1"),
                ("\"signature-agent\";key=\"sig1\"", "\"https://c.example/.well-known/jwks.json\""),
            ]),
            parameters: pairs(&[
                ("created", &NOW.to_string()),
                ("expires", &(NOW + 60).to_string()),
                ("keyid", &keyid),
                ("alg", "\"ed25519\""),
                ("nonce", "\"n\""),
                ("tag", "\"web-bot-auth\""),
            ]),
        }
    }

    fn set(mut self, parameter: &str, value: &str) -> Self {
        self.parameters.iter_mut().filter(|(name, _)| name == parameter).for_each(|(_, old)| value.clone_into(old));
        self
    }

    fn without(mut self, parameter: &str) -> Self {
        self.parameters.retain(|(name, _)| name != parameter);
        self
    }

    fn component(mut self, identifier: &str, value: &str) -> Self {
        self.components.push((identifier.to_owned(), value.to_owned()));
        self
    }

    fn uncovered(mut self, identifier: &str) -> Self {
        self.components.retain(|(name, _)| !name.starts_with(identifier));
        self
    }

    fn field(mut self, name: &str, value: &str) -> Self {
        self.sent.fields.push((name.to_owned(), value.to_owned()));
        self
    }

    fn agent(mut self, field: &str, identifier: &str, value: &str) -> Self {
        self.sent.fields.retain(|(name, _)| name != "signature-agent");
        self.field("signature-agent", field).uncovered("\"signature-agent\"").component(identifier, value)
    }

    fn host(mut self, host: &str) -> Self {
        host.clone_into(&mut self.sent.fields[0].1);
        self
    }

    fn signed(self) -> Sent {
        self.signed_with(|text| text, |text| text)
    }

    fn signed_with(self, input: impl Fn(String) -> String, signature: impl Fn(String) -> String) -> Sent {
        let Self { mut sent, components, parameters } = self;
        let names: Vec<&str> = components.iter().map(|(name, _)| name.as_str()).collect();
        let parameters: Vec<String> = parameters.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let member = format!("({});{}", names.join(" "), parameters.join(";"));
        let mut lines: Vec<String> = components.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        lines.push(format!("\"@signature-params\": {member}"));
        let base = lines.join("\n");
        let bytes = Ed25519KeyPair::from_seed_unchecked(&SEEDS[0]).unwrap().sign(base.as_bytes());
        let bytes = BASE64_STANDARD.encode(bytes);
        sent.fields.push(("signature-input".to_owned(), input(format!("sig1={member}"))));
        sent.fields.push(("signature".to_owned(), signature(format!("sig1=:{bytes}:"))));
        sent
    }
}

/// Faults of every kind, each with its name.
fn faults() -> Vec<(String, Sent)> {
    let good = Forge::good;
    let mut all: Vec<(String, Sent)> = vec![("none".to_owned(), good().signed())];
    let mut add = |name: &str, sent: Sent| all.push((name.to_owned(), sent));
    for parameter in ["created", "expires", "keyid", "alg", "nonce", "tag"] {
        add(&format!("no {parameter}"), good().without(parameter).signed());
        for value in ["1", "-1", "?1", "token", "\"\"", "\"x\"", ":AAAA:", "1.5", "@1", "%\"x\"", "\"x", "\"\\x\"", ""]
        {
            add(&format!("{parameter} {value}"), good().set(parameter, value).signed());
        }
    }
    for (created, expires) in
        [(60, 120), (61, 120), (-120, -60), (-120, -61), (0, 0), (0, -1), (0, 3600), (0, 3601), (-3600, 0), (-9999, 99)]
    {
        let at = |seconds: i64| (NOW + seconds).to_string();
        let sent = good().set("created", &at(created)).set("expires", &at(expires)).signed();
        add(&format!("from {created} to {expires}"), sent);
    }
    for name in ["\"@method\"", "\"@authority\"", "\"@path\"", "\"@query\"", "\"signature-agent\""] {
        add(&format!("{name} not covered"), good().uncovered(name).signed());
    }
    for (identifier, value) in [
        ("\"@method\"", "GET"),
        ("\"@scheme\"", "https"),
        ("\"@scheme\"", "http"),
        ("\"@target-uri\"", "https://gw.example/cap/x?a=1"),
        ("\"@request-target\"", "/cap/x?a=1"),
        ("\"@query-param\";name=\"a\"", "1"),
        ("\"@status\"", "200"),
        ("\"@unknown\"", "x"),
        ("\"@method\";req", "GET"),
        ("\"@method\";key=\"a\"", "GET"),
        ("\"host\"", HOST),
        ("\"host\";sf", HOST),
        ("\"host\";bs", HOST),
        ("\"host\";tr", HOST),
        ("\"host\";key=\"a\"", HOST),
        ("\"host\";other", HOST),
        ("\"Host\"", HOST),
        ("\"absent\"", ""),
        ("token", "x"),
        ("1", "x"),
        ("\"signature-agent\"", "x"),
        ("\"signature-agent\";key=\"sig1\"", "x"),
        ("\"content-digest\"", "x"),
    ] {
        add(&format!("{identifier} covered"), good().component(identifier, value).signed());
    }
    for (name, lines, identifier, value) in [
        ("two lines", &["a", "b"][..], "\"x\"", "a, b"),
        ("an empty line", &[""], "\"x\"", ""),
        ("spaces", &["  a b  "], "\"x\"", "a b"),
        ("a member", &["a=1;p, b=2"], "\"x\";key=\"a\"", "1;p"),
        ("a list", &["a=(1  2);p"], "\"x\";key=\"a\"", "(1 2);p"),
        ("a bare member", &["a, b"], "\"x\";key=\"b\"", "?1"),
        ("no member", &["a=1"], "\"x\";key=\"b\"", "1"),
        ("a member twice", &["a=1, a=2"], "\"x\";key=\"a\"", "2"),
        ("no dictionary", &["("], "\"x\";key=\"a\"", "1"),
    ] {
        let forge = lines.iter().fold(good(), |forge, line| forge.field("x", line));
        add(name, forge.component(identifier, value).signed());
    }
    for host in
        ["GW.example", "gw.example:443", "gw.example:80", "gw.example:8443", "other.example", "gw.example:", "a b"]
    {
        add(&format!("host {host}"), good().host(host).signed());
    }
    for (value, name) in [
        ("\"https://c.example\"", "an origin"),
        ("\"https://c.example/\"", "an origin with a slash"),
        ("\"https://c.example:8443\"", "a port"),
        ("\"https://c.example:443\"", "the default port"),
        ("\"https://C.example\"", "capitals"),
        ("\"https://C.example/.well-known/jwks.json\"", "capitals of a key set"),
        ("\"https://c.example/a/.well-known/jwks.json\"", "below"),
        ("\"https://c.example/a%2fb/.well-known/jwks.json\"", "an encoded slash"),
        ("\"https://c.example/a b/.well-known/jwks.json\"", "a space"),
        ("\"https://c.example//.well-known/jwks.json\"", "an empty segment"),
        ("\"https://c.example/./.well-known/jwks.json\"", "a dot"),
        ("\"https://c.example/%2e/.well-known/jwks.json\"", "an encoded dot"),
        ("\"https://c.example/.well-known/http-message-signatures-directory\"", "the directory itself"),
        ("\"https://c.example/.well-known/agent.json\"", "a card"),
        ("\"https://c.example/keys\"", "any path"),
        ("\"https://c.example/.well-known/jwks.json?a\"", "a query"),
        ("\"https://c.example/.well-known/jwks.json#a\"", "a fragment"),
        ("\"https://u@c.example/.well-known/jwks.json\"", "a user"),
        ("\"http://c.example/.well-known/jwks.json\"", "no TLS"),
        ("\"c.example\"", "no scheme"),
        ("\"https://\"", "no host"),
        ("\"\"", "nothing"),
        ("\"https://c.example/.well-known/jwks.json\";type=jwks_uri", "typed"),
        ("\"https://c.example\";type=directory", "a typed directory"),
        ("\"https://c.example/.well-known/jwks.json\";type=directory", "the wrong type"),
        ("\"https://c.example\";type=jwks_uri", "the other wrong type"),
        ("\"https://c.example/.well-known/agent.json\";type=cimd", "a typed card"),
        ("\"https://c.example\";type=\"directory\"", "a quoted type"),
        ("\"https://c.example\";type=other", "another type"),
        ("\"https://c.example\";x=1", "another parameter"),
        ("token", "a token"),
        ("1", "a number"),
        (":AAAA:", "bytes"),
        ("(\"https://c.example\")", "a list"),
    ] {
        add(name, good().agent(&format!("sig1={value}"), "\"signature-agent\";key=\"sig1\"", value).signed());
    }
    let lone = "\"https://c.example\"";
    add("a lone string", good().agent(lone, "\"signature-agent\"", lone).signed());
    add("a lone string by key", good().agent(lone, "\"signature-agent\";key=\"sig1\"", lone).signed());
    let path = "\"https://c.example/a\"";
    add("a lone string with a path", good().agent(path, "\"signature-agent\"", path).signed());
    let members = "a=\"https://c.example\", b=\"https://d.example\"";
    add("one of two", good().agent(members, "\"signature-agent\";key=\"b\"", "\"https://d.example\"").signed());
    add("both of two", good().agent(members, "\"signature-agent\"", members).signed());
    for field in ["", "\"x", "a=1, a=2", "\"a\";b", "\"a\", \"b\"", "(", "\u{7f}"] {
        if field != "\u{7f}" {
            add(&format!("Signature-Agent {field}"), good().agent(field, "\"signature-agent\"", field).signed());
        }
    }
    let posting = |digest: &str| {
        let mut forge = good().field("content-digest", digest).component("\"content-digest\"", digest);
        (forge.sent.method, forge.sent.body) = ("POST", b"{}");
        "POST".clone_into(&mut forge.components[0].1);
        forge
    };
    let digest = ContentDigest::field_of(b"{}");
    add("a body", posting(&digest).signed());
    add("a body not covered", posting(&digest).uncovered("\"content-digest\"").signed());
    for wrong in ["sha-256=:AAAA:", "md5=:AAAA:", "sha-256=x", "sha-256", "", "("] {
        add(&format!("digest {wrong}"), posting(wrong).signed());
        add(&format!("digest beside {wrong}"), posting(&format!("{digest}, {wrong}")).signed());
    }
    let same = |text: String| text;
    add("no list", good().signed_with(|_| "sig1=1".into(), same));
    add("two labels", good().signed_with(|text| format!("{text}, {}", text.replacen("sig1", "sig2", 1)), same));
    add("a label twice", good().signed_with(|text| format!("{text}, {text}"), same));
    add("unclosed", good().signed_with(|text| text.replacen(')', "", 1), same));
    add("white space", good().signed_with(|text| text.replacen("=(", "=(  ", 1).replace(';', "; "), same));
    add("a comma at the end", good().signed_with(|text| text + ",", same));
    add("a parameter twice", good().signed_with(|text| text + ";nonce=\"m\"", same));
    add("an unsigned parameter", good().signed_with(|text| text + ";x", same));
    add("too long", good().signed_with(|text| format!("{text};x=\"{}\"", "x".repeat(8192)), same));
    add("empty", good().signed_with(|_| String::new(), same));
    add("another label", good().signed_with(same, |text| text.replacen("sig1", "sig2", 1)));
    add("one too many", good().signed_with(same, |text| text + ", sig2=:AAAA:"));
    add("a string", good().signed_with(same, |_| "sig1=\"AAAA\"".into()));
    add("no padding", good().signed_with(same, |text| text.replace("==:", ":")));
    add("63 bytes", good().signed_with(same, |_| format!("sig1=:{}:", "AAAA".repeat(21))));
    add("other bytes", good().signed_with(same, |_| format!("sig1=:{}AA==:", "AAAA".repeat(21))));
    add("stray bits", good().signed_with(same, |_| format!("sig1=:{}AB==:", "AAAA".repeat(21))));
    add("no bytes", good().signed_with(same, |_| "sig1=::".into()));
    all
}

#[test]
fn of_every_fault_webagents_says_what_we_say() {
    let Some(mut webagents) = Webagents::start() else { return };
    let mut different = Vec::new();
    let faults = faults();
    assert!(faults.len() > 150);
    for (name, sent) in faults {
        let (ours, theirs) = (sent.judged(NOW), webagents.judges(&sent, NOW));
        if ours != theirs {
            different.push(format!("{name}: we say {ours}, they say {theirs}"));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}
