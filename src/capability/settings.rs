//! `Settings`: one entry of `capabilities:`.

use std::time::Duration;

use serde_json::Value;

use crate::restap::catalog::Parameter;

/// A capability as the operator wrote it.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Unique within the agent; never `talk`, `news` or `news_receive`.
    pub id: String,
    /// The id where none is written.
    pub title: String,
    /// `GET`, `POST`, `PUT` or `DELETE`.
    pub method: http::Method,
    /// A path template relative to the agent's base, such as `/weather/{city}`.
    pub endpoint: String,
    /// For people and models.
    pub description: Option<String>,
    /// As written; templates without an entry are added as required strings.
    pub parameters: Vec<Parameter>,
    /// JSON Schema 2020-12 of the request body.
    pub input_schema: Option<Value>,
    /// JSON Schema 2020-12 of the response body.
    pub output_schema: Option<Value>,
    /// Media types that the endpoint takes.
    pub content_types: Vec<String>,
    /// Media types that it answers in.
    pub output_formats: Vec<String>,
    /// What is asked of the service.
    pub route: Route,
    /// `validate.request`; `Off` where no `input_schema` and no parameter is written.
    pub validate_request: Validate,
}

/// `route:` of a capability.
#[derive(Debug, Clone)]
pub struct Route {
    /// The name of an upstream.
    pub upstream: String,
    /// The service's method; any.
    pub method: http::Method,
    /// The service's path template, under the upstream's own path.
    pub path: String,
    /// Query parameters to add; values may hold `{name}` of the endpoint.
    pub query: Vec<(String, String)>,
    /// Headers to set; values may hold `{name}` of the endpoint.
    pub headers: Vec<(http::HeaderName, String)>,
    /// Headers of the caller that are withheld unless named here.
    pub forward_headers: Vec<http::HeaderName>,
    /// The largest request body in bytes; `None` is unbounded streaming, but `limits.body` for JSON.
    pub body: Option<u64>,
    /// The largest response body in bytes, where it is bounded.
    pub response_body: Option<u64>,
    /// Over the whole exchange.
    pub timeout: Option<Duration>,
}

/// What a body or parameter that breaks its schema leads to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Validate {
    /// Nothing; it is not looked at.
    #[default]
    Off,
    /// A log line.
    Warn,
    /// 400 `invalid_input`.
    Enforce,
}
