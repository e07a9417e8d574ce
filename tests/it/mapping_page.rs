//! docs/mapping.md is run: what it says of a call is what the service gets, and what it says of an answer what the caller
//! gets.

use std::sync::{Arc, Mutex};

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use crate::support::{Call, Exchange, Gateway, Upstream};

fn page() -> String {
    std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/mapping.md")).unwrap()
}

/// A service that answers with the status and body that it was last told.
fn scripted() -> (Upstream, Arc<Mutex<(String, String)>>) {
    let script = Arc::new(Mutex::new(("200".to_owned(), "ok".to_owned())));
    let told = script.clone();
    let upstream = Upstream::start(move |exchange: &mut Exchange<'_>| {
        let (status, body) = told.lock().unwrap().clone();
        let media_type = match body.as_bytes().first() {
            Some(b'<') => "application/xml",
            Some(b'{' | b'[') => "application/json",
            _ => "text/plain",
        };
        exchange.answer(&format!("{status} X"), &format!("Content-Type: {media_type}"), body.as_bytes());
    });
    (upstream, script)
}

/// The blocks of a language, and the line that each begins at.
fn blocks<'p>(page: &'p str, language: &str) -> Vec<(usize, &'p str)> {
    let fence = format!("```{language}\n");
    let mut found = Vec::new();
    for (at, _) in page.match_indices(&fence) {
        let rest = &page[at + fence.len()..];
        let line = page[..at].lines().count() + 1;
        found.push((line, &rest[..rest.find("```").unwrap()]));
    }
    found
}

/// `METHOD /path body`, the body only where there is one.
fn parts(text: &str) -> (&str, &str, &str) {
    let (first, rest) = text.split_once(' ').unwrap();
    let (second, body) = rest.split_once(' ').unwrap_or((rest, ""));
    (first, second, body)
}

/// JSON where it is that, else text.
fn content(body: &[u8]) -> Value {
    serde_json::from_slice(body).unwrap_or_else(|_| String::from_utf8_lossy(body).into_owned().into())
}

#[test]
fn every_call_that_the_page_shows_is_what_happens() {
    let page = page();
    let files = blocks(&page, "yaml");
    let mut calls = 0;
    for (line, text) in blocks(&page, "text") {
        let (_, file) = files.iter().rev().find(|(at, _)| *at < line).expect("a file stands above its calls");
        let (upstream, script) = scripted();
        let gateway = Gateway::start(&file.replace("http://127.0.0.1:9000", &upstream.url()));
        for exchange in text.split("\n\n") {
            let said = |name: &str| {
                let mut lines = exchange.lines();
                lines.find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim()))
            };
            let (method, target, body) = parts(said("caller").expect("a call has a caller"));
            if let Some(answer) = said("answers") {
                let (status, body) = answer.split_once(' ').unwrap();
                *script.lock().unwrap() = (status.to_owned(), body.replace("\\n", "\n"));
            }
            let call = match body {
                "" => Call::new(method, target),
                body => Call::new(method, target).header("Content-Type", "application/json").body(body),
            };
            let before = upstream.requests().len();
            let got = gateway.call(&call);
            let (status, body) = said("gets").unwrap().split_once(' ').unwrap();
            assert_eq!(got.status.to_string(), status, "docs/mapping.md, the calls at line {line}: {exchange}");
            assert_eq!(content(&got.body), content(body.as_bytes()), "docs/mapping.md, line {line}: {exchange}");
            let asked: Vec<_> = upstream.requests().split_off(before);
            assert_eq!(asked.len(), usize::from(said("service").is_some()), "{exchange}");
            if let (Some(request), Some(expected)) = (asked.first(), said("service")) {
                let (method, target, body) = parts(expected);
                assert_eq!((request.method.as_str(), request.target.as_str()), (method, target), "{exchange}");
                assert_eq!(content(&request.body), content(body.as_bytes()), "{exchange}");
            }
            calls += 1;
        }
    }
    assert!(calls >= 9, "only {calls} calls were found");
}

/// What the page says of one place and style, as `(explode, expected)`.
fn cell(text: &str) -> Vec<(bool, String)> {
    let plain = text.replace("\\|", "|");
    let mut forms = plain.split(", exploded ").map(|form| form.trim().trim_matches('`').to_owned());
    let first = forms.next().map(|form| (false, form));
    first.into_iter().chain(forms.next().map(|form| (true, form))).collect()
}

#[test]
fn every_style_that_the_page_shows_is_what_the_service_gets() {
    let page = page();
    let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let mut rows = 0;
    for row in page.lines().filter(|line| line.starts_with("| ") && line.contains("`style: ")) {
        let row = row.replace("\\|", "\u{1}");
        let cells: Vec<String> = row.split('|').map(|cell| cell.trim().replace('\u{1}', "|")).collect();
        let (place, style) = cells[1].split_once(", ").unwrap();
        let style = style.trim_matches('`');
        for (kind, sent, plain, shown) in
            [("array", r#"["a","b"]"#, "a,b", &cells[2]), ("object", r#"{"k":"v"}"#, "k,v", &cells[3])]
        {
            for (explode, expected) in cell(shown) {
                let explode = if explode { ", explode: true" } else { "" };
                let endpoint = if place == "path" { "/it/{x}" } else { "/it" };
                let (upstream, _) = scripted();
                let gateway = Gateway::start(&format!(
                    "agent: {{name: T, talk: off, upstream: '{}', capabilities: [{{id: it, endpoint: '{endpoint}', \
                     parameters: [{{name: x, location: {place}, type: {kind}, {style}{explode}}}]}}]}}\n",
                    upstream.url()
                ));
                let call = match place {
                    "query" => Call::get(&format!("/it?x={}", encoded(sent))),
                    "path" => Call::get(&format!("/it/{plain}")),
                    _ => Call::get("/it").header("x", sent),
                };
                let got = gateway.call(&call);
                assert_eq!(got.status, 200, "{row}: {}", got.text());
                let request = upstream.request();
                let value = match place {
                    "query" => request.target.strip_prefix("/it?"),
                    "path" => request.target.strip_prefix("/it/"),
                    _ => request.header("x"),
                };
                assert_eq!(value, Some(expected.as_str()), "{row}{explode}");
                rows += 1;
            }
        }
    }
    assert!(rows >= 24, "only {rows} forms were found");
}
