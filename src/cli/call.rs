//! `call`: runs a capability of any RESTAP agent, found in its catalog.

use std::io::{IsTerminal, Write as _};
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use http::header::ACCEPT;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use serde_json::{Value, json};

use super::agent::{Agent, printable, sentence};
use super::{Fault, say};
use crate::capability::flat;
use crate::net::{Coding, Request, Timeouts};
use crate::restap::CATALOG_PATH;
use crate::yaml::nearest;

/// How long a capability may take, and how long it may be silent.
const PATIENCE: Duration = Duration::from_mins(5);

/// Bytes of a catalog, and of an answer.
const BYTES_MAX: usize = 64 << 20;

/// Capabilities that a wrong name is answered with.
const LISTED_MAX: usize = 20;

/// Run a capability of an agent: one flat JSON object fills its path, query, headers and body.
///
/// Example: restap-gateway call http://127.0.0.1:8080 text.echo '{"text": "hi"}'
#[derive(Debug, Args)]
pub(super) struct Call {
    /// The agent's base URL.
    base: String,
    /// The capability's id, as the catalog has it.
    capability: String,
    /// The inputs by name; `path.x`, `query.x`, `header.x` and `body.x` where a name is not enough, `body` for all of it.
    #[arg(value_parser = input)]
    input: Option<Value>,
    /// Print status and body as one line of JSON.
    #[arg(long)]
    json: bool,
}

fn input(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|problem| format!("it is not JSON: {problem}"))
}

impl Call {
    pub(super) fn run(self) -> Result<(), Fault> {
        let agent = Agent::at(&self.base)?;
        let entry = self.entry(&agent)?;
        let input = self.input.clone().unwrap_or_else(|| json!({}));
        let filled = flat::fill(&entry, &input).map_err(Fault)?;
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, */*;q=0.8"));
        filled.headers.into_iter().for_each(|(name, value)| drop(headers.insert(name, value)));
        let (status, body) = ask(&agent, filled.method, &filled.target, headers, filled.body.into())?;
        self.tell(status, &body)
    }

    /// The capability's entry, the whole one where the catalog has it shortened.
    fn entry(&self, agent: &Agent) -> Result<Value, Fault> {
        let get = |path: &str| {
            let (status, body) = ask(agent, Method::GET, path, HeaderMap::new(), Bytes::new())?;
            let document = serde_json::from_slice::<Value>(&body).ok().filter(|_| status.is_success());
            document.ok_or_else(|| Fault(format!("there is no RESTAP catalog at {}{path}", self.base)))
        };
        let catalog = get(CATALOG_PATH)?;
        let entries = catalog.get("capabilities").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let id = |entry: &Value| entry.get("id").and_then(Value::as_str).map(str::to_owned);
        let Some(entry) = entries.iter().find(|entry| id(entry).as_deref() == Some(&*self.capability)) else {
            let known: Vec<String> = entries.iter().filter_map(id).map(|id| printable(&id)).collect();
            let near = nearest(&self.capability, known.iter().map(String::as_str));
            let hint = match near {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("it has {}", known.iter().take(LISTED_MAX).cloned().collect::<Vec<_>>().join(", ")),
            };
            return Err(Fault(format!("the agent has no capability `{}`; {hint}", self.capability)));
        };
        match entry.get("x_detail").and_then(Value::as_str).filter(|path| path.starts_with('/')) {
            Some(path) => get(path),
            None => Ok(entry.clone()),
        }
    }

    fn tell(&self, status: StatusCode, body: &[u8]) -> Result<(), Fault> {
        let value = serde_json::from_slice::<Value>(body).ok();
        let failed = !status.is_success() && !status.is_redirection();
        if self.json {
            let shown = value.unwrap_or_else(|| match body {
                [] => Value::Null,
                body => String::from_utf8_lossy(body).into(),
            });
            say(&format!("{}\n", json!({"status": status.as_u16(), "body": shown})));
            return if failed { Err(Fault(String::new())) } else { Ok(()) };
        }
        if failed {
            let said = value.as_ref().map(sentence).unwrap_or_default();
            let code = value.as_ref().and_then(|value| value.get("error")?.as_str()).map(|code| format!(" {code}"));
            let mut told = format!("{}{}: {}", status.as_u16(), printable(&code.unwrap_or_default()), printable(&said));
            for detail in value.as_ref().and_then(|it| it.get("details")?.as_array()).into_iter().flatten() {
                let text = |key: &str| printable(detail.get(key).and_then(Value::as_str).unwrap_or_default());
                told.extend(["\n  ", &text("location"), " ", &text("path"), ": ", &text("message")]);
            }
            return Err(Fault(told));
        }
        match value {
            Some(value) if std::io::stdout().is_terminal() => {
                say(&format!("{}\n", serde_json::to_string_pretty(&value).unwrap_or_default()));
            }
            Some(_) => say(&format!("{}\n", String::from_utf8_lossy(body).trim_end())),
            None => {
                let mut out = std::io::stdout().lock();
                let _ = out.write_all(body).and_then(|()| out.flush());
            }
        }
        Ok(())
    }
}

/// Asks and reads the whole answer.
fn ask(
    agent: &Agent,
    method: Method,
    path: &str,
    headers: HeaderMap,
    body: Bytes,
) -> Result<(StatusCode, Vec<u8>), Fault> {
    let request = Request {
        method,
        target: agent.target(path)?,
        headers,
        body,
        coding: Coding::Decoded,
        timeouts: Timeouts { first_byte: Some(PATIENCE), idle: Some(PATIENCE) },
    };
    agent.within(async |client, peer| {
        let mut response = client.send(peer, request).await.map_err(Fault::new)?;
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(Fault::new)? {
            body.extend_from_slice(&chunk);
            if body.len() > BYTES_MAX {
                return Err(Fault(format!("the answer is over {BYTES_MAX} bytes")));
            }
        }
        Ok((response.status, body))
    })
}
