//! `talk`: a conversation with any RESTAP agent, streamed to the terminal.

use std::io::{BufRead, IsTerminal, Write};
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method};
use serde_json::{Value, json};

use super::agent::{self, Agent, printable, sentence};
use super::{Fault, complain, say};
use crate::net::{Coding, Request, Response, Timeouts};
use crate::restap::SessionId;
use crate::sse::Decoder;

/// How long an agent may think, and how long it may be silent.
const PATIENCE: Duration = Duration::from_mins(5);

/// Bytes of one event, and of a whole JSON answer.
const ANSWER_BYTES_MAX: usize = 8 << 20;

/// Talk to an agent; without MESSAGE a conversation, a line a turn.
///
/// Example: restap-gateway talk http://127.0.0.1:8080 "What can you do?"
#[derive(Debug, Args)]
pub(super) struct Talk {
    /// The agent's base URL.
    base: String,
    /// What to say; without it every line of stdin is a turn.
    message: Option<String>,
}

impl Talk {
    pub(super) fn run(self) -> Result<(), Fault> {
        let agent = Agent::at(&self.base)?;
        let mut conversation = Conversation { agent, session_id: SessionId::mint() };
        match self.message {
            Some(message) => conversation.turn(&message),
            None => conversation.converse(),
        }
    }
}

/// A thread with an agent. The session id is ours from the start, so that a reply that is lost does not lose it.
struct Conversation {
    agent: Agent,
    session_id: SessionId,
}

impl Conversation {
    fn converse(&mut self) -> Result<(), Fault> {
        let stdin = std::io::stdin();
        let prompt = stdin.is_terminal();
        let mut line = String::new();
        loop {
            if prompt {
                say("> ");
            }
            line.clear();
            if stdin.lock().read_line(&mut line).map_err(Fault::new)? == 0 {
                return Ok(());
            }
            let message = line.trim();
            if !message.is_empty() {
                // One turn that fails does not end the conversation, but its exit code is for scripts to see.
                let done = self.turn(message);
                match done {
                    Err(Fault(problem)) if prompt => complain(&problem),
                    done => done?,
                }
            }
        }
    }

    fn turn(&mut self, message: &str) -> Result<(), Fault> {
        let body = json!({"message": message, "session_id": self.session_id.expose()}).to_string();
        let headers = HeaderMap::from_iter([
            (CONTENT_TYPE, HeaderValue::from_static("application/json")),
            (ACCEPT, HeaderValue::from_static("text/event-stream, application/json;q=0.9")),
        ]);
        let request = Request {
            method: Method::POST,
            target: self.agent.target("/talk")?,
            headers,
            body: Bytes::from(body),
            coding: Coding::Decoded,
            timeouts: Timeouts { first_byte: Some(PATIENCE), idle: Some(PATIENCE) },
        };
        let session_id = self.agent.within(async |client, peer| {
            let response = client.send(peer, request).await.map_err(Fault::new)?;
            let media_type = response.headers.get(CONTENT_TYPE).map_or(b"".as_slice(), HeaderValue::as_bytes);
            // What was asked for does not count: the protocol lets an agent answer in either form.
            if media_type.to_ascii_lowercase().starts_with(b"text/event-stream") && response.status.is_success() {
                stream(response).await
            } else {
                whole(response).await
            }
        })?;
        if let Some(session_id) = session_id {
            self.session_id = session_id;
        }
        Ok(())
    }
}

/// Shows a stream as it comes; gives the session that the agent names.
async fn stream(mut response: Response) -> Result<Option<SessionId>, Fault> {
    let mut decoder = Decoder::new(ANSWER_BYTES_MAX);
    let mut shown = Shown::default();
    while let Some(bytes) = response.chunk().await.map_err(Fault::new)? {
        let mut rest = bytes.as_ref();
        while let Some(frame) = decoder.next(&mut rest).map_err(Fault::new)? {
            shown.frame(frame.name.as_deref(), frame.data.as_deref());
        }
        if shown.done {
            break;
        }
    }
    say("\n");
    match shown {
        Shown { failure: Some(failure), .. } => Err(Fault(failure)),
        Shown { done: false, ended: false, .. } => Err(Fault::new("the stream broke off before its end")),
        Shown { session_id, .. } => Ok(session_id),
    }
}

/// What a stream has shown so far.
#[derive(Default)]
struct Shown {
    ended: bool,
    done: bool,
    failure: Option<String>,
    session_id: Option<SessionId>,
}

impl Shown {
    /// Events that are not known are not looked at, as the protocol asks.
    fn frame(&mut self, name: Option<&str>, data: Option<&str>) {
        let data: Value = data.and_then(|data| serde_json::from_str(data).ok()).unwrap_or_default();
        let text = |key: &str| data.get(key).and_then(Value::as_str).unwrap_or_default();
        match name.unwrap_or_else(|| text("event")) {
            "message.delta" => reply(text("text")),
            "message.end" => self.ended = true,
            "status" => hint(text("message")),
            "tool.start" => hint(&format!("uses {}", text("name"))),
            "error" => self.failure = Some(printable(&sentence(&data))),
            "done" => self.done = true,
            _ => {}
        }
        if let Ok(session_id) = SessionId::parse(text("session_id")) {
            self.session_id = Some(session_id);
        }
    }
}

/// Shows text of the agent. A pipe gets it as it is.
fn reply(text: &str) {
    if std::io::stdout().is_terminal() { say(&printable(text)) } else { say(text) }
}

/// A hint is not part of the reply, so it goes where a pipe does not carry it.
fn hint(text: &str) {
    if std::io::stderr().is_terminal() && !text.is_empty() {
        let _ = writeln!(std::io::stderr().lock(), "\u{1b}[2m[{}]\u{1b}[0m", printable(text));
    }
}

async fn whole(response: Response) -> Result<Option<SessionId>, Fault> {
    let body = agent::answer(response, ANSWER_BYTES_MAX).await?;
    match body.get("reply").and_then(Value::as_str) {
        Some(text) => reply(&format!("{text}\n")),
        None => say(&format!("{body}\n")),
    }
    let session_id = body.get("session_id").and_then(Value::as_str);
    Ok(session_id.and_then(|session_id| SessionId::parse(session_id).ok()))
}
