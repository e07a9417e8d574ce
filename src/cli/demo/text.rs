//! The demo's legacy service: it echoes and reverses text, and has never heard of agents.

use std::io;

use serde_json::{Value, json};

use super::http::{Request, Responder};

/// `POST /v1/echo` and `POST /v1/reverse`, both `{"text": "…"}`.
pub(super) fn answer(request: &Request, responder: &mut Responder<'_>) -> io::Result<()> {
    let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let text = body.get("text").and_then(Value::as_str);
    match (request.method.as_str(), request.path.as_str(), text) {
        ("POST", "/v1/echo", Some(text)) => {
            responder.json("200 OK", &json!({"original_text": text, "echoed_text": text}))
        }
        ("POST", "/v1/reverse", Some(text)) => {
            let reversed: String = text.chars().rev().collect();
            responder.json("200 OK", &json!({"original_text": text, "reversed_text": reversed}))
        }
        ("POST", "/v1/echo" | "/v1/reverse", None) => responder.json("400 Bad Request", &json!({"fault": "no text"})),
        _ => responder.json("404 Not Found", &json!({"fault": "no such path"})),
    }
}
