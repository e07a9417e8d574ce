//! The catalog: what an agent's settings say, as the documents that clients find it by. Made once, served as bytes.

mod directory;
mod discovery;
mod document;
mod reduce;
mod skill;

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::restap::catalog::Card;
use crate::restap::{CATALOG_PATH, Capability, NEWS_PATH, TALK_PATH};

pub use directory::{Entry, api_catalog, directory};
pub use document::{Document, ETag, Selected};

/// The version of an agent that names none.
pub const VERSION_DEFAULT: &str = "1.0.0";

/// Bytes of a catalog.
pub const CATALOG_BYTES_MAX: usize = 4 << 20;

/// What an agent is and does.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// Name, description, contact.
    pub card: Card,
    /// [`VERSION_DEFAULT`] where it names none.
    pub version: Option<String>,
    /// The agent's base URL without a trailing slash, where `public_url` is configured.
    pub public_url: Option<String>,
    /// `None` is `talk: off`.
    pub talk: Option<Talk>,
    /// `None` is `news: off`.
    pub news: Option<News>,
    /// The configured capabilities with their whole schemas, in the order of the file.
    pub capabilities: Vec<Capability>,
    /// As configured; each has `name` and `type`.
    pub packages: Vec<Map<String, Value>>,
    /// As configured.
    pub protocols: Map<String, Value>,
}

/// What the agent's talk really does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Talk {
    /// Whether it streams to callers.
    pub streaming: bool,
    /// Whether turns are continued.
    pub sessions: bool,
    /// Events beyond the five required ones that it may emit, such as `status`.
    pub optional_events: Vec<String>,
}

/// How the agent's news are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct News {
    /// Whether a feed belongs to a session.
    pub sessions: NewsSessions,
    /// Whether they may be read.
    pub reads: bool,
    /// Whether they may be posted.
    pub posts: bool,
}

/// `news.sessions`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewsSessions {
    /// A request without a session is refused.
    Required,
    /// A session has a feed of its own.
    Optional,
    /// There is one feed.
    Ignored,
}

/// An agent's documents.
#[derive(Debug)]
pub struct Published {
    /// `GET {base}/.well-known/restap.json`.
    pub catalog: Document,
    /// `GET {base}/.well-known/skill.md`.
    pub skill: Document,
    /// `GET {base}` and `GET {base}/`.
    pub root: Document,
    /// Ids of the capabilities whose entry in the catalog is weaker than the whole one.
    pub reduced: Vec<String>,
    entries: BTreeMap<String, Capability>,
}

/// No reduction brings the catalog under [`CATALOG_BYTES_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the catalog has {bytes} bytes with its schemas left out, and may have {CATALOG_BYTES_MAX}: serve fewer \
     capabilities, with `include`, `exclude` or `tags` of their import, or split them among agents"
)]
pub struct TooLarge {
    /// Of the smallest catalog that could be made.
    pub bytes: usize,
}

impl Published {
    /// Makes all documents.
    pub fn new(facts: Facts) -> Result<Self, TooLarge> {
        let skill = skill::text(&facts);
        let root = Document::json(&Root::new(&facts));
        let whole = discovery::catalog(facts);
        let entries = whole.capabilities.iter().map(|entry| (entry.id.clone(), entry.clone())).collect();
        let (bytes, reduced) = reduce::within_budgets(whole)?;
        Ok(Self {
            catalog: Document::new("application/json", bytes).compressed(),
            skill: Document::new("text/markdown; charset=utf-8", skill.into_bytes()).compressed(),
            root,
            reduced,
            entries,
        })
    }

    /// `GET {base}/.well-known/restap/capabilities/{id}`: the whole entry, made when it is asked for.
    pub fn capability(&self, id: &str) -> Option<Document> {
        self.entries.get(id).map(Document::json)
    }
}

/// Where to go from the base, for whoever was given nothing else. Paths are relative to it.
#[derive(Serialize)]
struct Root<'a> {
    agent: &'a str,
    catalog: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    talk: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    news: Option<&'static str>,
}

impl<'a> Root<'a> {
    fn new(facts: &'a Facts) -> Self {
        Self {
            agent: &facts.card.name,
            catalog: CATALOG_PATH,
            talk: facts.talk.as_ref().map(|_| TALK_PATH),
            news: facts.news.map(|_| NEWS_PATH),
        }
    }
}

#[cfg(test)]
mod tests;
