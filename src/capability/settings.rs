//! `Settings`: one entry of `capabilities:`.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use http::HeaderName;

use crate::restap::catalog::{Location, Parameter};
use crate::yaml::{ByteSize, Fields, JsonSchema, Mismatch, Period, Problem, Scalar, Slot, Value as _};

/// Ids of what every agent has anyway.
const RESERVED_IDS: [&str; 3] = ["talk", "news", "news_receive"];

/// Characters of an id.
const ID_MAX: usize = 128;

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
    pub input_schema: Option<Arc<Value>>,
    /// JSON Schema 2020-12 of the response body.
    pub output_schema: Option<Arc<Value>>,
    /// Media types that the endpoint takes.
    pub content_types: Vec<String>,
    /// Media types that it answers in.
    pub output_formats: Vec<String>,
    /// What is asked of the service.
    pub route: Route,
    /// `validate.request`; `Off` where no `input_schema` and no parameter is written.
    pub validate_request: Validate,
    /// Whether each call ends as an item of news.
    pub report: Report,
}

/// `report:` of a capability: which feed says how a call ended, and how much of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Report {
    /// None.
    #[default]
    Off,
    /// That of the caller's session with the result, else the agent's own without it.
    On,
    /// The agent's own with the result too, for everybody to read.
    WithResult,
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
    pub headers: Vec<(HeaderName, String)>,
    /// Headers of the caller that are withheld unless named here.
    pub forward_headers: Vec<HeaderName>,
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

impl Settings {
    /// Reads one entry of `capabilities:`; `upstream` is what the agent names for all that it does.
    pub fn take(slot: Slot<'_, '_>, upstream: Option<&str>) -> Option<Self> {
        slot.section("capability", |fields| {
            let id = fields.required_with("id", "Unique within the agent, such as `weather.current`.", id);
            let title = fields.optional("title", "For people; the id unless written.");
            let method = fields.or_with("method", http::Method::GET, "How callers call it.", method);
            let endpoint =
                fields.required::<String>("endpoint", "The path under the agent's base, such as `/weather/{city}`.");
            let description = fields.optional("description", "For people and models.");
            let parameters = fields.with("parameters", "Path, query and header inputs.", |slot| {
                slot.list(|slot| parameter(slot, endpoint.as_deref().unwrap_or_default()))
            });
            let doc = "JSON Schema 2020-12 of the request body, or {file: path}.";
            let input_schema = fields.optional::<JsonSchema>("input_schema", doc).map(|schema| Arc::new(schema.into()));
            let doc = "JSON Schema 2020-12 of the response body, or {file: path}.";
            let output_schema =
                fields.optional::<JsonSchema>("output_schema", doc).map(|schema| Arc::new(schema.into()));
            let content_types = fields.optional("content_types", "Media types that the endpoint takes.");
            let output_formats = fields.optional("output_formats", "Media types that it answers in.");
            let mut route = Route::to(upstream.unwrap_or_default(), &method, endpoint.as_deref().unwrap_or_default());
            fields.with("route", "What is asked of the service.", |slot| {
                slot.section("route", |fields| {
                    route.read(fields);
                    Some(())
                })
            });
            let inputs = fields.get("input_schema").or(fields.get("parameters")).is_some();
            let validate = fields.with("validate", "What happens to requests that break the schemas.", |slot| {
                slot.section("validate", |fields| Some(Validate::take(fields, inputs)))
            });
            let report = fields.with("report", "Whether the end of each call becomes news.", Report::take);
            if let Some(node) = fields.node().filter(|_| route.upstream.is_empty()) {
                let problem = Problem::error(node, "the capability has no upstream").at_key();
                fields.problem(problem.help("add `route: {upstream: …}` here, or `upstream` to the agent"));
            }

            let id = id?;
            Some(Self {
                title: title.unwrap_or_else(|| id.clone()),
                id,
                method,
                endpoint: endpoint?,
                description,
                parameters: parameters.unwrap_or_default(),
                input_schema,
                output_schema,
                content_types: content_types.unwrap_or_default(),
                output_formats: output_formats.unwrap_or_default(),
                route,
                validate_request: validate.unwrap_or(Validate::by_default(inputs)),
                report: report.unwrap_or_default(),
            })
        })
    }
}

impl Route {
    /// The same request as the caller's.
    pub fn to(upstream: &str, method: &http::Method, path: &str) -> Self {
        Self {
            upstream: upstream.to_owned(),
            method: method.clone(),
            path: path.to_owned(),
            query: Vec::new(),
            headers: Vec::new(),
            forward_headers: Vec::new(),
            body: None,
            response_body: None,
            timeout: None,
        }
    }

    fn read(&mut self, fields: &mut Fields<'_, '_>) {
        let upstream = fields.optional("upstream", "The name or the URL of the service; the agent's unless written.");
        self.upstream = upstream.unwrap_or_else(|| std::mem::take(&mut self.upstream));
        let method = fields.with("method", "The service's method, any; the capability's unless written.", |slot| {
            slot.parsed("a method such as PATCH", None)
        });
        self.method = method.unwrap_or_else(|| self.method.clone());
        let path = fields.optional("path", "The service's path; the endpoint unless written. May hold its {name}s.");
        self.path = path.unwrap_or_else(|| std::mem::take(&mut self.path));
        let doc = "Parameters to add to the query. Values may hold {name}s of the endpoint.";
        let query = fields
            .with("query", doc, |slot| slot.map(|name, slot| Some((name.to_owned(), Scalar::take(slot)?.into()))));
        self.query = query.unwrap_or_default();
        let doc = "Headers to set. Values may hold {name}s of the endpoint.";
        self.headers = fields.with("headers", doc, headers).unwrap_or_default();
        let doc = "Headers of the caller that are withheld unless they are named here, such as authorization.";
        self.forward_headers = fields.optional("forward_headers", doc).unwrap_or_default();
        let doc = "The largest request body; `limits.body` for JSON and no bound for others unless written.";
        self.body = fields.optional::<ByteSize>("body", doc).map(Into::into);
        self.response_body = fields.optional::<ByteSize>("response_body", "The largest response body.").map(Into::into);
        self.timeout = fields.optional::<Period>("timeout", "Over the whole exchange.").map(Into::into);
    }
}

impl Report {
    fn take(slot: Slot<'_, '_>) -> Option<Self> {
        slot.mapping_or(
            |slot| {
                slot.section("report", |fields| {
                    let doc = "Whether the result also stands in the agent's own feed, which every caller may read.";
                    let result = fields.or("result", false, doc);
                    Some(if result { Self::WithResult } else { Self::On })
                })
            },
            |slot| slot.boolean().map(|on| if on { Self::On } else { Self::Off }),
        )
    }
}

impl Validate {
    const WORDS: [(&str, Self); 3] = [("off", Self::Off), ("warn", Self::Warn), ("enforce", Self::Enforce)];

    fn take(fields: &mut Fields<'_, '_>, inputs: bool) -> Self {
        let doc = "off, warn (a log line) or enforce (400); enforce where there is a schema or a parameter.";
        let request = fields.word("request", &Self::WORDS, Self::Enforce, doc);
        if let Some(node) = fields.get("request").filter(|_| !inputs && request != Self::Off) {
            let problem = Problem::error(node, "there is nothing to validate: no `input_schema` and no `parameters`");
            fields.problem(problem.help("add one of them, or leave `validate` out"));
        }
        request
    }

    fn by_default(inputs: bool) -> Self {
        if inputs { Self::Enforce } else { Self::Off }
    }
}

fn method(slot: Slot<'_, '_>) -> Option<http::Method> {
    let methods = [http::Method::GET, http::Method::POST, http::Method::PUT, http::Method::DELETE];
    let words = methods.each_ref().map(|method| (method.as_str(), method.clone()));
    slot.word_or_hint(&words, |other| {
        let custom: http::Method = other.parse().ok()?;
        Some(format!("an agent has only these four; the service's own method goes into `route: {{method: {custom}}}`"))
    })
}

fn id(slot: Slot<'_, '_>) -> Option<String> {
    slot.value(serde_json::json!({"type": "string"}), |node| {
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-' | b':');
        match node.as_text() {
            Some(id) if RESERVED_IDS.contains(&id) => {
                Err(Mismatch::new(format!("every agent has a capability `{id}` of its own")).help("choose another id"))
            }
            Some(id) if !id.is_empty() && id.len() <= ID_MAX && id.bytes().all(legal) => Ok(id.to_owned()),
            _ => Err(Mismatch::found(node, "an id of up to 128 letters, digits, `.`, `_`, `-` and `:`")),
        }
    })
}

fn parameter(slot: Slot<'_, '_>, endpoint: &str) -> Option<Parameter> {
    slot.section("parameter", |fields| {
        let name = fields.required::<String>("name", "As it stands in the request.");
        let in_path = name.as_deref().is_some_and(|name| {
            endpoint.contains(&format!("{{{name}}}")) || endpoint.contains(&format!("{{*{name}}}"))
        });
        let locations = [("path", Location::Path), ("query", Location::Query), ("header", Location::Header)];
        let doc = "Where it stands: path if the endpoint has it as {name}, else query, unless written.";
        let location = fields.with("location", doc, |slot| slot.word(&locations));
        let location = location.unwrap_or(if in_path { Location::Path } else { Location::Query });
        let kinds = ["string", "number", "integer", "boolean", "array", "object"].map(|kind| (kind, kind));
        let kind = fields.word("type", &kinds, "string", "Its JSON type.");
        let doc = "Whether a call without it is refused; one in the path always is.";
        let required = fields.with("required", doc, bool::take);
        let description = fields.optional("description", "For people and models.");
        let schema = fields
            .optional::<JsonSchema>("schema", "JSON Schema, where it says more than `type`; or {file: path}.")
            .map(Into::into);
        let allow_slash = fields.or("allow_slash", false, "Whether one in the path may hold `/`.");
        if let Some(node) = fields.get("required").filter(|_| location == Location::Path && required == Some(false)) {
            let problem = Problem::error(node, "a parameter in the path is always required");
            fields.problem(problem.help("leave `required` out"));
        }
        if location != Location::Path {
            fields.useless(&["allow_slash"], "only a parameter in the path can hold a slash that is not data");
        }
        Some(Parameter {
            name: name?,
            kind: kind.to_owned(),
            required: required.unwrap_or(location == Location::Path),
            description,
            location,
            schema,
            allow_slash,
        })
    })
}

fn headers(slot: Slot<'_, '_>) -> Option<Vec<(HeaderName, String)>> {
    slot.map(|key, slot| {
        let name = key.parse().ok();
        if name.is_none() {
            slot.problem(|node| Problem::error(node, format!("{key:?} can't be the name of a header")).at_key());
        }
        let (node, report) = (slot.node(), slot.report());
        let Scalar(value) = Scalar::take(slot)?;
        if http::HeaderValue::from_str(&value).is_err() {
            report?.add(Problem::error(node?, "a header can't carry this value"));
        }
        Some((name?, value))
    })
}
