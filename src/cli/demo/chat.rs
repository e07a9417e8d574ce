//! The demo's chat service: it speaks OpenAI chat completions, whole and streamed, with a few rules for a model.

use std::io;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::http::{Request, Responder};

/// The pace of a streamed reply, slow enough to be seen.
const BETWEEN_WORDS: Duration = Duration::from_millis(40);

/// `POST /v1/chat/completions`.
pub(super) fn answer(request: &Request, responder: &mut Responder<'_>) -> io::Result<()> {
    if (request.method.as_str(), request.path.as_str()) != ("POST", "/v1/chat/completions") {
        return responder.json("404 Not Found", &json!({"error": {"message": "unknown path"}}));
    }
    let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let reply = reply(body.get("messages").and_then(Value::as_array).map_or(&[], Vec::as_slice));
    if body.get("stream").and_then(Value::as_bool) == Some(true) {
        stream(&reply, responder)
    } else {
        let choice = json!({"index": 0, "message": {"role": "assistant", "content": reply}, "finish_reason": "stop"});
        responder.json("200 OK", &json!({"object": "chat.completion", "choices": [choice]}))
    }
}

fn stream(reply: &str, responder: &mut Responder<'_>) -> io::Result<()> {
    responder.open_events()?;
    for word in reply.split_inclusive(' ') {
        chunk(responder, &json!({"content": word}), &Value::Null)?;
        thread::sleep(BETWEEN_WORDS);
    }
    chunk(responder, &json!({}), &json!("stop"))?;
    responder.event("[DONE]")?;
    responder.close_events()
}

fn chunk(responder: &mut Responder<'_>, delta: &Value, finish_reason: &Value) -> io::Result<()> {
    let choice = json!({"index": 0, "delta": delta, "finish_reason": finish_reason});
    responder.event(&json!({"object": "chat.completion.chunk", "choices": [choice]}).to_string())
}

/// What a model would make of the conversation, by rule.
fn reply(messages: &[Value]) -> String {
    let said = |message: &Value| message.get("content").and_then(Value::as_str).unwrap_or_default().to_owned();
    let of = |role: &'static str| messages.iter().filter(move |message| message.get("role") == Some(&json!(role)));
    let question = of("user").next_back().map(said).unwrap_or_default();
    let before = of("user").count().saturating_sub(1);
    if question.to_lowercase().contains("what can you do") {
        return "I can echo text and reverse text. Check the catalog for details.".to_owned();
    }
    match before {
        0 => format!("You said: {question}"),
        1 => format!("You said: {question} (and one thing before)"),
        _ => format!("You said: {question} (and {before} things before)"),
    }
}
