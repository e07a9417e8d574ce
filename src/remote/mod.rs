//! Agents that exist elsewhere, as their own documents tell of them: RESTAP catalogs of every shape that is served, and
//! A2A agent cards. A document is a stranger's: it is read leniently, within bounds, and what it names on another origin
//! than its own is left out and said so.

mod card;
mod catalog;
mod entry;
mod news;
mod path;
mod text;

#[cfg(test)]
mod tests;

use serde_json::{Map, Value};

use crate::net::Url;
use crate::restap::catalog::Parameter;

pub use news::{NewsPage, news};
pub use path::{Base, below};

/// Bytes of a document.
pub const DOCUMENT_BYTES_MAX: usize = 2 << 20;

/// Capabilities that are taken of one agent; what is beyond is left out.
const CAPABILITIES_MAX: usize = 2_000;

/// Notes that are kept of one document.
const NOTES_MAX: usize = 20;

/// Where agents say what they are, under their base URL.
const CATALOG: &str = "/.well-known/restap.json";
const CARDS: [&str; 2] = ["/.well-known/agent-card.json", "/.well-known/agent.json"];

/// What an agent says of itself.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Remote {
    /// Its name.
    pub name: Option<String>,
    /// What it is for.
    pub description: Option<String>,
    /// Whom to ask about it.
    pub contact: Option<String>,
    /// Its version.
    pub version: Option<String>,
    /// How it is talked to; `None` where it can't be.
    pub talk: Option<Talk>,
    /// The path of its news on its origin.
    pub news: Option<String>,
    /// What it can do beside that.
    pub capabilities: Vec<Capability>,
    /// Packages that help clients; each has `name` and `type`.
    pub packages: Vec<Map<String, Value>>,
    /// Related protocols. What is served under the agent's base stands among the capabilities too.
    pub protocols: Map<String, Value>,
    /// What was left out, and why; one sentence each.
    pub notes: Vec<String>,
}

/// How an agent is talked to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Talk {
    /// The built-in dialect.
    pub dialect: &'static str,
    /// The path on its origin.
    pub path: String,
    /// Whether it can stream.
    pub streaming: bool,
}

/// One thing that an agent can do, as a request.
#[derive(Debug, Clone, PartialEq)]
pub struct Capability {
    /// What it is called.
    pub id: String,
    /// For people.
    pub title: Option<String>,
    /// `GET`, `POST`, `PUT` or `DELETE`.
    pub method: http::Method,
    /// Under the agent's base, with `{name}`s.
    pub endpoint: String,
    /// On its origin, with the same `{name}`s.
    pub path: String,
    /// For people and models.
    pub description: Option<String>,
    /// Path, query and header inputs.
    pub parameters: Vec<Parameter>,
    /// JSON Schema of the request's body.
    pub input_schema: Option<Value>,
    /// JSON Schema of the answer's body.
    pub output_schema: Option<Value>,
    /// Media types that it takes.
    pub content_types: Vec<String>,
    /// Media types that it answers in.
    pub output_formats: Vec<String>,
}

/// Why a document says nothing of an agent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// It is too large.
    #[error("the document is larger than {} MiB", DOCUMENT_BYTES_MAX >> 20)]
    TooLarge,
    /// It is no JSON, or nested too deeply.
    #[error("the document is not JSON: {0}")]
    NotJson(String),
    /// It is something else.
    #[error("the document is neither a RESTAP catalog nor an A2A agent card")]
    NeitherNor,
}

impl Base {
    /// Where the documents of this agent may be, the likeliest first. A URL that names a document itself is that one.
    pub fn documents(&self) -> Vec<String> {
        match &self.document {
            Some(document) => vec![document.clone()],
            None => std::iter::once(CATALOG).chain(CARDS).map(|path| format!("{}{path}", self.url)).collect(),
        }
    }
}

/// Reads the document of the agent at this base.
pub fn read(base: &Base, bytes: &[u8]) -> Result<Remote, Unreadable> {
    if bytes.len() > DOCUMENT_BYTES_MAX {
        return Err(Unreadable::TooLarge);
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let document: Value = serde_json::from_slice(bytes).map_err(|error| Unreadable::NotJson(error.to_string()))?;
    let document = document.as_object().ok_or(Unreadable::NeitherNor)?;
    let mut remote = if card::is_one(document) {
        card::read(document, base)
    } else if catalog::is_one(document) {
        catalog::read(document, base)
    } else {
        return Err(Unreadable::NeitherNor);
    };
    if remote.notes.len() > NOTES_MAX {
        let more = remote.notes.len() - NOTES_MAX;
        remote.notes.truncate(NOTES_MAX);
        remote.notes.push(format!("and {more} more are left out"));
    }
    Ok(remote)
}

/// The origin of a URL that is asked, as texts name it.
fn origin(url: &Url) -> String {
    url.origin.to_string()
}
