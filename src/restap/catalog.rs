//! The discovery document as plain types (RESTAP, "The Catalog Document").

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// `/.well-known/restap.json`. What is not of the protocol's text is there for the clients in the wild.
#[derive(Debug, Clone, Serialize)]
pub struct Catalog {
    /// Always [`super::RESTAP_VERSION`].
    pub restap_version: &'static str,
    /// Who this is.
    pub agent: Card,
    /// The same as the first texts of the protocol had it.
    pub provider: Provider,
    /// Where the fixed endpoints are.
    pub endpoints: Endpoints,
    /// Always `public-agent`.
    pub service_type: &'static str,
    /// The agent's name.
    pub name: String,
    /// The agent's version.
    pub version: String,
    /// The agent's base URL, where it is configured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub public_url: Option<String>,
    /// What it can do: talk, news, news_receive, then the configured ones.
    pub capabilities: Vec<Capability>,
    /// Packages that help clients; each has at least `name` and `type`.
    pub packages: Vec<Map<String, Value>>,
    /// Related protocols and whether they are served.
    pub protocols: Map<String, Value>,
}

/// `provider` in the catalog.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Provider {
    /// The agent's name.
    pub name: String,
    /// The agent's version.
    pub version: String,
}

/// `endpoints` in the catalog: paths relative to the agent's base URL; one that is not served is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Endpoints {
    /// `POST`: talk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub talk: Option<&'static str>,
    /// `GET`: read news.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub news: Option<&'static str>,
    /// `POST`: write news.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub news_post: Option<&'static str>,
    /// `GET`: this document.
    pub catalog: &'static str,
    /// `GET`: health.
    pub health: &'static str,
}

/// `agent` in the catalog.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Card {
    /// The agent's name.
    pub name: String,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whom to ask about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contact: Option<String>,
}

/// One capability as it is published. Keys that are not set are left out.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Capability {
    /// Unique within the agent.
    pub id: String,
    /// For people.
    pub title: String,
    /// `GET`, `POST`, `PUT` or `DELETE`.
    pub method: String,
    /// Relative to the agent's base URL; path parameters stay as `{name}`.
    pub endpoint: String,
    /// For people and models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Path, query and header inputs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<Parameter>,
    /// JSON Schema of the request body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_schema: Option<Arc<Value>>,
    /// JSON Schema of the response body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Arc<Value>>,
    /// Media types that the endpoint takes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub content_types: Vec<String>,
    /// Media types that it answers in.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub output_formats: Vec<String>,
    /// Talk: whether it streams.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub streaming: Option<Value>,
    /// Talk and news: whether sessions are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sessions: Option<Value>,
    /// Whether a schema or a description here is weaker or shorter than the whole one at `x_detail`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub x_truncated: bool,
    /// Where the whole entry is, relative to the agent's base URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub x_detail: Option<String>,
}

/// Where an input stands in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Location {
    /// A `{name}` of the endpoint.
    Path,
    /// A query parameter.
    Query,
    /// A header.
    Header,
    /// A cookie of the `Cookie` header.
    Cookie,
}

/// How a list or an object is written as text (OpenAPI 3.1, "Style Values"). Where nothing is said it is `form` in a
/// query and a cookie, `simple` in a path and a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Style {
    /// `tags=a&tags=b`, and without `explode` `tags=a,b`.
    Form,
    /// `tags=a%20b`.
    SpaceDelimited,
    /// `tags=a|b`.
    PipeDelimited,
    /// `filter[color]=red`, also nested.
    DeepObject,
    /// `a,b`.
    Simple,
    /// `.a.b` in a path.
    Label,
    /// `;tags=a,b` in a path.
    Matrix,
    /// JSON as text, which OpenAPI says with `content`.
    Json,
}

/// One path, query or header input.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Parameter {
    /// As it stands in the request.
    pub name: String,
    /// Its JSON type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether a call without it is refused.
    pub required: bool,
    /// For people and models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Where it goes.
    pub location: Location,
    /// JSON Schema, where it says more than `type`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<Arc<Value>>,
    /// How a list or an object is written. Where it is set, the gateway takes other forms too and writes this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub style: Option<Style>,
    /// Whether each item or property stands by itself; `None` is as OpenAPI has it: with `form` and `deepObject`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explode: Option<bool>,
    /// A query parameter whose reserved characters are not percent-encoded towards the service.
    #[serde(skip)]
    pub allow_reserved: bool,
    /// A path parameter that may hold `/`.
    #[serde(skip)]
    pub allow_slash: bool,
}

impl Parameter {
    /// An optional one of this JSON type.
    pub fn new(name: &str, location: Location, kind: &str) -> Self {
        Self {
            name: name.to_owned(),
            kind: kind.to_owned(),
            required: location == Location::Path,
            description: None,
            location,
            schema: None,
            style: None,
            explode: None,
            allow_reserved: false,
            allow_slash: false,
        }
    }
}
