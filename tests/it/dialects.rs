//! Every dialect that is built in, talked to over a real socket as its services answer.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::support::{Call, Exchange, Gateway, Upstream};

/// A whole reply of a service, as tests/cases has it.
struct Scripted {
    dialect: String,
    streamed: bool,
    content_type: String,
    chunks: Vec<Vec<u8>>,
    reply: String,
}

#[derive(Deserialize)]
struct Captured {
    dialect: String,
    want: String,
    content_type: String,
    status: u16,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    close: Option<String>,
    chunks: Vec<String>,
    expect: Value,
}

#[derive(Deserialize)]
struct Written {
    dialect: String,
    want: Option<String>,
    content_type: Option<String>,
    status: Option<u16>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    close: Option<String>,
    bytes: Value,
    sees: Value,
    streamed: Option<String>,
}

fn cases() -> impl Iterator<Item = Scripted> {
    let text =
        |name: &str| fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases").join(name)).unwrap();
    let mut captured: BTreeMap<String, Vec<Captured>> = serde_json::from_str(&text("talk.json")).unwrap();
    let written: Vec<Written> = serde_yaml::from_str(&text("talk-more.yaml")).unwrap();
    let captured = captured.remove("cases").unwrap().into_iter().filter_map(Captured::scripted);
    captured.chain(written.into_iter().filter_map(Written::scripted))
}

impl Captured {
    /// A reply that ends well, by the end of its body.
    fn scripted(self) -> Option<Scripted> {
        let ends = self.close.as_deref().is_none_or(|close| close == "eof");
        let reply = self.expect["reply"].as_str().filter(|reply| !reply.is_empty())?.to_owned();
        (ends && self.status == 200 && self.headers.is_empty()).then(|| Scripted {
            dialect: self.dialect,
            streamed: self.want == "stream",
            content_type: self.content_type,
            chunks: self.chunks.iter().map(|chunk| BASE64_STANDARD.decode(chunk).unwrap()).collect(),
            reply,
        })
    }
}

impl Written {
    fn scripted(self) -> Option<Scripted> {
        let ends = self.close.as_deref().is_none_or(|close| close == "eof") && self.streamed.is_none();
        let reply = self.sees.as_str().filter(|reply| !reply.is_empty())?.to_owned();
        let chunks = match self.bytes {
            Value::Array(chunks) => chunks,
            one => vec![one],
        };
        let chunks: Option<Vec<_>> =
            chunks.iter().map(|chunk| chunk.as_str().map(|text| text.as_bytes().to_vec())).collect();
        (ends && self.status.is_none_or(|status| status == 200) && self.headers.is_empty()).then_some(Scripted {
            dialect: self.dialect,
            streamed: self.want.as_deref() != Some("json"),
            content_type: self.content_type.unwrap_or_else(|| "text/event-stream".into()),
            chunks: chunks?,
            reply,
        })
    }
}

impl Scripted {
    fn answer(&self, exchange: &mut Exchange<'_>) {
        assert_eq!(exchange.request.method, "POST");
        assert_eq!(exchange.request.header("content-type"), Some("application/json"));
        assert!(exchange.request.json().to_string().contains("what they are asked"), "the message is sent");
        let content_type = if self.content_type.is_empty() {
            String::new()
        } else {
            format!("Content-Type: {}\r\n", self.content_type)
        };
        exchange.send(format!("HTTP/1.1 200 OK\r\n{content_type}Connection: close\r\n\r\n"));
        for chunk in &self.chunks {
            exchange.send(chunk);
        }
        exchange.close();
    }
}

#[test]
fn every_built_in_dialect_is_talked_to_as_its_services_answer() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/talk/dialect/builtin");
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let known: Vec<String> = files.map(|file| file.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    // One that is streamed and one that is not, of each.
    let mut scripted: BTreeMap<(String, bool), Scripted> = BTreeMap::new();
    for case in cases().filter(|case| known.contains(&case.dialect)) {
        scripted.entry((case.dialect.clone(), case.streamed)).or_insert(case);
    }
    let mut file = "agents:\n".to_owned();
    let mut agents = Vec::new();
    for (number, (_, case)) in scripted.into_iter().enumerate() {
        let (dialect, reply, streamed) = (case.dialect.clone(), case.reply.clone(), case.streamed);
        let upstream = Upstream::start(move |exchange| case.answer(exchange));
        let model = if takes_model(&dialect) { "model: m, " } else { "" };
        writeln!(
            file,
            "  a{number}: {{name: A, talk: {{upstream: {}, dialect: {dialect}, {model}upstream_streaming: {streamed}}}}}",
            upstream.url()
        )
        .unwrap();
        agents.push((dialect, reply, upstream));
    }
    let missing: Vec<_> = known.iter().filter(|name| !agents.iter().any(|(dialect, ..)| dialect == *name)).collect();
    assert!(missing.is_empty(), "no case of {missing:?}");
    let gateway = Gateway::start(&file);
    for (number, (dialect, reply, _upstream)) in agents.iter().enumerate() {
        let call = Call::post(&format!("/agents/a{number}/talk"), &json!({"message": "what they are asked"}));
        let answer = gateway.call(&call);
        assert_eq!(answer.status, 200, "{dialect}: {}", answer.text());
        assert_eq!(answer.json()["reply"], reply.as_str(), "{dialect}");
        let events = gateway.call(&call.streamed()).events();
        assert_eq!(events.text(), *reply, "{dialect}");
        assert_eq!(events.names().first(), Some(&"message.start"), "{dialect}");
        assert_eq!(events.names().last_chunk(), Some(&["message.end", "done"]), "{dialect}");
    }
}

/// Whether a dialect's own file has a place for a model.
fn takes_model(dialect: &str) -> bool {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("src/talk/dialect/builtin/{dialect}.yaml"));
    fs::read_to_string(file).unwrap().contains("{{model}}")
}
