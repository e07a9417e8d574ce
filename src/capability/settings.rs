//! `Settings`: one entry of `capabilities:`.

mod mapping;
mod parameter;
mod route;

use std::sync::Arc;

use serde_json::Value;

use crate::restap::catalog::Parameter;
use crate::yaml::{Fields, JsonSchema, Mismatch, Problem, Slot};

pub use mapping::{Condition, ErrorRule, Message, ReceiveAs, Transform};
pub use route::{Encoding, Route, SendAs};

/// Ids of what every agent has anyway.
const RESERVED_IDS: [&str; 3] = ["talk", "news", "news_receive"];

/// Characters of an id.
const ID_MAX: usize = 128;

/// A capability as the operator wrote it.
#[derive(Debug, Clone, PartialEq)]
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
    /// Whether a call without a body is refused, where there is an `input_schema`.
    pub input_required: bool,
    /// Media types that the endpoint takes.
    pub content_types: Vec<String>,
    /// Media types that it answers in.
    pub output_formats: Vec<String>,
    /// What is asked of the service.
    pub route: Route,
    /// `validate.request`; `Off` where no `input_schema` and no parameter is written.
    pub validate_request: Validate,
    /// `validate.response`.
    pub validate_response: Validate,
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
    /// One that asks the service the same as it is asked, of which nothing else is written.
    pub fn new(id: &str, method: http::Method, endpoint: &str, upstream: &str) -> Self {
        Self {
            id: id.to_owned(),
            title: id.to_owned(),
            endpoint: endpoint.to_owned(),
            description: None,
            parameters: Vec::new(),
            input_schema: None,
            output_schema: None,
            input_required: needs_body(&method),
            content_types: Vec::new(),
            output_formats: Vec::new(),
            route: Route::to(upstream, &method, endpoint),
            validate_request: Validate::Off,
            validate_response: Validate::Off,
            report: Report::Off,
            method,
        }
    }

    /// Reads one entry of `capabilities:`; `upstream` is what the agent names for all that it does.
    pub fn take(slot: Slot<'_, '_>, upstream: Option<&str>) -> Option<Self> {
        slot.section("capability", |fields| Self::read(fields, upstream, Extent::Whole))
    }

    /// Reads keys that are to take the place of others in an entry which is known only later.
    pub fn take_part(slot: Slot<'_, '_>) {
        slot.section("capability_part", |fields| Self::read(fields, None, Extent::Part));
    }

    fn read(fields: &mut Fields<'_, '_>, upstream: Option<&str>, extent: Extent) -> Option<Self> {
        {
            let doc = "Unique within the agent, such as `weather.current`.";
            let id = match extent {
                Extent::Whole => fields.required_with("id", doc, id),
                Extent::Part => fields.with("id", doc, id),
            };
            let title = fields.optional("title", "For people; the id unless written.");
            let method = fields.or_with("method", http::Method::GET, "How callers call it.", method);
            let doc = "The path under the agent's base, such as `/weather/{city}`.";
            let endpoint = match extent {
                Extent::Whole => fields.required::<String>("endpoint", doc),
                Extent::Part => fields.optional::<String>("endpoint", doc),
            };
            let description = fields.optional("description", "For people and models.");
            let parameters = fields.with("parameters", "Path, query and header inputs.", |slot| {
                slot.list(|slot| parameter::take(slot, endpoint.as_deref().unwrap_or_default()))
            });
            let doc = "JSON Schema 2020-12 of the request body, or {file: path}.";
            let input_schema = fields.optional::<JsonSchema>("input_schema", doc).map(shared);
            let doc = "JSON Schema 2020-12 of the response body, or {file: path}.";
            let output_schema = fields.optional::<JsonSchema>("output_schema", doc).map(shared);
            let doc = "Whether a call without a body is refused; true with an `input_schema`, but for GET and DELETE.";
            let input_required = fields.optional("input_required", doc);
            if extent == Extent::Whole && input_schema.is_none() && fields.get("input_schema").is_none() {
                fields.useless(&["input_required"], "there is no `input_schema`");
            }
            let content_types = fields.optional("content_types", "Media types that the endpoint takes.");
            let output_formats = fields.optional("output_formats", "Media types that it answers in.");
            let mut route = Route::to(upstream.unwrap_or_default(), &method, endpoint.as_deref().unwrap_or_default());
            fields.with("route", "What is asked of the service.", |slot| {
                slot.section("route", |fields| {
                    route.read(fields);
                    let read_only = matches!(method, http::Method::GET | http::Method::HEAD);
                    if extent == Extent::Whole && !read_only && route.method != method {
                        fields.useless(&["cache"], "callers don't call this capability with GET");
                    }
                    Some(())
                })
            });
            let inputs = extent == Extent::Part || fields.get("input_schema").or(fields.get("parameters")).is_some();
            let outputs = extent == Extent::Part || fields.get("output_schema").is_some();
            let validate =
                fields.with("validate", "What happens to requests and answers that break the schemas.", |slot| {
                    slot.section("validate", |fields| Some(Validate::take(fields, inputs, outputs)))
                });
            let report = fields.with("report", "Whether the end of each call becomes news.", Report::take);
            if let Some(node) = fields.node().filter(|_| extent == Extent::Whole && route.upstream.is_empty()) {
                let problem = Problem::error(node, "the capability has no upstream").at_key();
                fields.problem(problem.help("add `route: {upstream: …}` here, or `upstream` to the agent"));
            }

            let id = id?;
            Some(Self {
                title: title.unwrap_or_else(|| id.clone()),
                id,
                input_required: input_required.unwrap_or(needs_body(&method)),
                method,
                endpoint: endpoint?,
                description,
                parameters: parameters.unwrap_or_default(),
                input_schema,
                output_schema,
                content_types: content_types.unwrap_or_default(),
                output_formats: output_formats.unwrap_or_default(),
                route,
                validate_request: validate.map_or(Validate::by_default(inputs), |(request, _)| request),
                validate_response: validate.map_or(Validate::Off, |(_, response)| response),
                report: report.unwrap_or_default(),
            })
        }
    }
}

/// How much of an entry stands in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    Whole,
    /// Some of its keys.
    Part,
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

    fn take(fields: &mut Fields<'_, '_>, inputs: bool, outputs: bool) -> (Self, Self) {
        let doc = "off, warn (a log line) or enforce (400); enforce where there is a schema or a parameter.";
        let request = fields.word("request", &Self::WORDS, Self::Enforce, doc);
        if let Some(node) = fields.get("request").filter(|_| !inputs && request != Self::Off) {
            let problem = Problem::error(node, "there is nothing to validate: no `input_schema` and no `parameters`");
            fields.problem(problem.help("add one of them, or leave `validate` out"));
        }
        let request = if fields.get("request").is_some() { request } else { Self::by_default(inputs) };
        let doc = "off, warn (a log line) or enforce (502) where an answer breaks `output_schema`.";
        let response = fields.word("response", &Self::WORDS, Self::Off, doc);
        if let Some(node) = fields.get("response").filter(|_| !outputs && response != Self::Off) {
            let problem = Problem::error(node, "there is nothing to validate: no `output_schema`");
            fields.problem(problem.help("add it, or leave `response` out"));
        }
        (request, response)
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

fn shared(schema: JsonSchema) -> Arc<Value> {
    Arc::new(schema.0)
}

fn needs_body(method: &http::Method) -> bool {
    !matches!(*method, http::Method::GET | http::Method::DELETE)
}
