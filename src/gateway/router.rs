//! Which agent a request is for, and which of its routes.

use std::collections::HashMap;
use std::sync::Arc;

use http::{HeaderMap, Method};

use super::handler::query::QUERIES;
use super::live::Agent;
use crate::capability::NormalPath;

/// Finds the agent of a host and a path: the longest base path wins, whole segments count.
#[derive(Debug, Default)]
pub(super) struct Agents {
    /// Those that answer one host alone.
    by_host: HashMap<Box<str>, Bases>,
    anywhere: Bases,
}

#[derive(Debug, Default)]
struct Bases {
    by_path: HashMap<Box<str>, Arc<Agent>>,
    /// Segments of the deepest base path: no path is cut more often than that.
    depth: usize,
}

impl Agents {
    pub(super) fn new(agents: &[Arc<Agent>]) -> Self {
        let mut found = Self::default();
        for agent in agents {
            let bases = match &agent.host {
                Some(host) => found.by_host.entry(host.as_str().into()).or_default(),
                None => &mut found.anywhere,
            };
            bases.depth = bases.depth.max(agent.base_path.matches('/').count());
            bases.by_path.insert(agent.base_path.as_str().into(), agent.clone());
        }
        found
    }

    /// The agent, and what of the path is its own: empty at its base, else with a leading slash.
    pub(super) fn find(&self, host: &str, path: &NormalPath) -> Option<(&Arc<Agent>, NormalPath)> {
        let own = self.by_host.get(host).and_then(|bases| bases.find(path));
        own.or_else(|| self.anywhere.find(path))
    }

    /// Whether some agent answers this host alone.
    pub(super) fn knows_host(&self, host: &str) -> bool {
        self.by_host.contains_key(host)
    }

    pub(super) fn have_hosts(&self) -> bool {
        !self.by_host.is_empty()
    }
}

impl Bases {
    fn find(&self, path: &NormalPath) -> Option<(&Arc<Agent>, NormalPath)> {
        let text = path.as_str();
        let ends = text.match_indices('/').map(|(at, _)| at).skip(1).chain([text.len()]);
        let mut candidates: Vec<usize> = ends.take(self.depth).collect();
        candidates.insert(0, 0);
        candidates.into_iter().rev().find_map(|end| {
            let agent = self.by_path.get(text.get(..end)?)?;
            Some((agent, path.strip_base(&agent.base_path)?))
        })
    }
}

/// What an agent answers at a path. Capabilities are looked up after these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fixed {
    /// `{base}` and `{base}/`.
    Root,
    /// `/.well-known/restap.json`.
    Catalog,
    /// `/.well-known/restap/capabilities/{id}`.
    CapabilityDocument,
    /// `/.well-known/skill.md`.
    Skill,
    /// `/talk`.
    Talk,
    /// `/news`.
    News,
    /// `/query/{id}`.
    Query,
    /// `/health`.
    Health,
    /// `/rest_request`, for callers whom the agent's `access` lets use it.
    RestRequest,
    /// `/.well-known/jwks.json`.
    KeySet,
    /// `/.well-known/http-message-signatures-directory`.
    KeyDirectory,
    /// Something below `/.well-known/` that is none of the above: never forwarded.
    Reserved,
}

/// Where the full documents of capabilities are.
pub(super) const CAPABILITY_DOCUMENTS: &str = "/.well-known/restap/capabilities/";

impl Fixed {
    /// The route of a path that no capability may take; `path` is what [`Agents::find`] left.
    pub(super) fn find(agent: &Agent, path: &str) -> Option<Self> {
        Some(match path {
            "" | "/" => Self::Root,
            crate::restap::CATALOG_PATH => Self::Catalog,
            "/.well-known/skill.md" => Self::Skill,
            "/talk" if agent.talk.is_some() => Self::Talk,
            "/news" if agent.news.is_some() => Self::News,
            "/health" => Self::Health,
            "/rest_request" if agent.tool.is_some() && agent.guard.is_some() => Self::RestRequest,
            crate::signature::KEY_SET_PATH => Self::KeySet,
            crate::signature::DIRECTORY_PATH => Self::KeyDirectory,
            _ if agent.talk.is_some() && path.strip_prefix(QUERIES).is_some_and(|id| !id.is_empty()) => Self::Query,
            _ if path.strip_prefix(CAPABILITY_DOCUMENTS).is_some_and(|id| !id.is_empty()) => Self::CapabilityDocument,
            "/talk" | "/news" | "/query" | "/.well-known" => Self::Reserved,
            _ if path.starts_with("/.well-known/") => Self::Reserved,
            _ => return None,
        })
    }

    /// The methods that it takes, as `Allow` lists them.
    pub(super) fn allow(self) -> &'static str {
        match self {
            Self::Talk => "POST, OPTIONS",
            Self::News | Self::RestRequest => "GET, HEAD, POST, OPTIONS",
            _ => "GET, HEAD, OPTIONS",
        }
    }

    pub(super) fn takes(self, method: &Method) -> bool {
        let allow = self.allow();
        *method != Method::OPTIONS && allow.split(", ").any(|known| known == method.as_str())
    }

    /// Its name in logs and metrics.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::Catalog => "catalog",
            Self::CapabilityDocument => "capability_document",
            Self::Skill => "skill",
            Self::Talk => "talk",
            Self::News => "news",
            Self::Query => "query",
            Self::Health => "health",
            Self::RestRequest => "rest_request",
            Self::KeySet => "key_set",
            Self::KeyDirectory => "key_directory",
            Self::Reserved => "none",
        }
    }

    /// Whether pages of every origin may read it, whatever the agent's `cors` says.
    pub(super) fn is_public(self) -> bool {
        matches!(
            self,
            Self::Root
                | Self::Catalog
                | Self::CapabilityDocument
                | Self::Skill
                | Self::Health
                | Self::KeySet
                | Self::KeyDirectory
        )
    }
}

/// The host that a request names, lower case and without a port; empty where it names none.
pub(super) fn host(headers: &HeaderMap, uri: &http::Uri) -> String {
    let named = uri.authority().map(http::uri::Authority::as_str);
    let named = named.or_else(|| headers.get(http::header::HOST)?.to_str().ok());
    let host = crate::front::host_of(named.unwrap_or_default());
    host.trim_end_matches('.').to_ascii_lowercase()
}
