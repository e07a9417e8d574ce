//! What the tests stand on: the program, a service behind it, a caller before it.

pub(crate) mod client;
pub(crate) mod gateway;
pub(crate) mod secrets;
pub(crate) mod sse;
pub(crate) mod turns;
pub(crate) mod upstream;
pub(crate) mod wait;
pub(crate) mod world;

pub(crate) use client::{Call, Connection, Response};
pub(crate) use gateway::{Finished, Gateway, run};
pub(crate) use sse::Events;
pub(crate) use upstream::{Exchange, Request, Upstream};
pub(crate) use wait::{Gate, PATIENCE, Watched, until};
pub(crate) use world::World;

use std::path::{Path, PathBuf};

use serde_json::Value;

/// A file of `tests/fixtures/tls`.
pub(crate) fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tls").join(name)
}

/// A capability that passes everything to a service, and talk off: the smallest agent before an HTTP service.
pub(crate) fn passing(upstream: &Upstream) -> String {
    format!(
        "agent:\n  name: Test\n  talk: off\n  upstream: {url}\n  capabilities:\n    \
         - {{id: any.get, method: GET, endpoint: '/{{*path}}'}}\n    - {{id: any.post, method: POST, endpoint: '/{{*path}}'}}\n    \
         - {{id: any.put, method: PUT, endpoint: '/{{*path}}'}}\n",
        url = upstream.url()
    )
}

/// One streamed chunk of a chat completion.
pub(crate) fn delta(text: &str) -> String {
    chunk(&serde_json::json!({"content": text}), &Value::Null)
}

/// The chunk that ends a choice, and the sentinel after it.
pub(crate) fn end(finish_reason: &str) -> String {
    chunk(&serde_json::json!({}), &finish_reason.into()) + "data: [DONE]\n\n"
}

/// A chunk of a chat completion.
pub(crate) fn chunk(delta: &Value, finish_reason: &Value) -> String {
    let choice = serde_json::json!({"index": 0, "delta": delta, "finish_reason": finish_reason});
    format!("data: {}\n\n", serde_json::json!({"object": "chat.completion.chunk", "choices": [choice]}))
}

/// An agent whose talk is answered by an OpenAI-like service.
pub(crate) fn chatting(url: &str) -> String {
    chatting_with(url, "", "")
}

/// The same, with more to say of the upstream and of the talk, as `key: value, key: value`.
pub(crate) fn chatting_with(url: &str, upstream: &str, talk: &str) -> String {
    format!(
        "upstreams:\n  llm: {{url: {url}, {upstream}}}\n\
         agent:\n  name: Test\n  talk: {{upstream: llm, dialect: openai-chat, model: m, {talk}}}\n"
    )
}
