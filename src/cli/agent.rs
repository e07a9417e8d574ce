//! `Agent`: an agent at a base URL, as the commands that call one see it.

use std::time::Duration;

use http::uri::PathAndQuery;
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};

use super::Fault;
use crate::net::{Client, HttpVersion, Peer, Response, Roots, Url, peer, tls};

/// Until a connection stands, and between two parts of a request.
const CONNECT: Duration = Duration::from_secs(10);
const WRITE: Duration = Duration::from_secs(30);

/// One agent and the way to it.
pub(super) struct Agent {
    url: Url,
    client: Client,
    peer: Peer,
    runtime: Runtime,
}

impl Agent {
    /// The agent at a base URL that a person typed.
    pub(super) fn at(base: &str) -> Result<Self, Fault> {
        let url: Url = base.parse().map_err(|problem| Fault(format!("{base}: {problem}")))?;
        let runtime = Builder::new_current_thread().enable_all().build().map_err(Fault::new)?;
        let roots = if url.origin.tls { Roots::system().map_err(Fault::new)? } else { Roots::none() };
        let client = Client::new(roots);
        let settings = peer::Settings {
            origin: url.origin.clone(),
            tls: tls::Settings::default(),
            version: HttpVersion::Auto,
            connect: CONNECT,
            write: WRITE,
            read: WRITE,
        };
        let peer = client.peer(&settings).map_err(Fault::new)?;
        Ok(Self { url, client, peer, runtime })
    }

    /// A path of the agent.
    pub(super) fn target(&self, path: &str) -> Result<PathAndQuery, Fault> {
        format!("{}{path}", self.url.prefix).parse().map_err(Fault::new)
    }

    /// Runs something that asks the agent.
    pub(super) fn within<T>(&self, ask: impl AsyncFnOnce(&Client, &Peer) -> Result<T, Fault>) -> Result<T, Fault> {
        self.runtime.block_on(ask(&self.client, &self.peer))
    }
}

/// The JSON of an answer that says yes.
pub(super) async fn answer(response: Response, bytes_max: usize) -> Result<Value, Fault> {
    let status = response.status;
    match read(response, bytes_max).await {
        Ok(body) if status.is_success() => Ok(body),
        Ok(body) => Err(Fault(format!("{}: {}", status.as_u16(), printable(&sentence(&body))))),
        Err(fault) if status.is_success() => Err(fault),
        // What stands before an agent and answers in its place does not speak JSON.
        Err(_) => Err(Fault(format!("{}: the answer says no more", status.as_u16()))),
    }
}

/// Reads a JSON answer whole.
async fn read(mut response: Response, bytes_max: usize) -> Result<Value, Fault> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(Fault::new)? {
        body.extend_from_slice(&chunk);
        if body.len() > bytes_max {
            return Err(Fault(format!("the answer is over {bytes_max} bytes")));
        }
    }
    serde_json::from_slice(&body)
        .map_err(|_| Fault::new("the answer is not JSON, so there is no RESTAP agent at this URL"))
}

/// Text of a stranger without what moves a terminal's cursor, line breaks apart, or turns its text around.
pub(super) fn printable(text: &str) -> String {
    let moves = |character: char| character.is_control() && !matches!(character, '\n' | '\t');
    let turns = |character| matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.chars().filter(|character| !moves(*character) && !turns(*character)).collect()
}

/// What an error says to people: agents in the wild put it into one of these.
pub(super) fn sentence(error: &Value) -> String {
    let text = |key: &str| error.get(key).and_then(Value::as_str).map(str::to_owned);
    text("message").or_else(|| text("detail")).or_else(|| text("error")).unwrap_or_else(|| error.to_string())
}
