//! What the origin says where no agent lives: which agents there are.

use serde::Serialize;
use serde_json::json;

use crate::restap::{CATALOG_PATH, HEALTH_PATH};

use super::Document;

/// An agent of the gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: Option<String>,
    /// Its base: a URL, or where none is configured a path.
    pub base: String,
}

#[derive(Serialize)]
struct Listed<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    base: &'a str,
    catalog: String,
}

/// `GET /` of a gateway whose agents have bases of their own: `{"agents":[{name, description?, base, catalog}]}`.
pub fn directory(agents: &[Entry]) -> Document {
    let listed = agents.iter().map(|agent| Listed {
        name: &agent.name,
        description: agent.description.as_deref(),
        base: &agent.base,
        catalog: agent.base.clone() + CATALOG_PATH,
    });
    Document::json(&json!({"agents": listed.collect::<Vec<_>>()})).compressed()
}

/// `GET /.well-known/api-catalog` (RFC 9727): a link set (RFC 9264) with one entry an agent.
pub fn api_catalog(agents: &[Entry]) -> Document {
    let linked = agents.iter().map(|agent| {
        let link = |path: &str| json!([{"href": agent.base.clone() + path, "type": "application/json"}]);
        json!({"anchor": agent.base, "service-desc": link(CATALOG_PATH), "status": link(HEALTH_PATH)})
    });
    let linkset = json!({"linkset": linked.collect::<Vec<_>>()}).to_string();
    Document::new("application/linkset+json; profile=\"https://www.rfc-editor.org/info/rfc9727\"", linkset.into_bytes())
        .compressed()
}
