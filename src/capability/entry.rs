//! `Capability`: one entry of `capabilities:`, compiled.

use http::{HeaderMap, HeaderName, Method};
use serde_json::{Map, Value};

use crate::restap;
use crate::restap::catalog::{Location, Parameter, Style};

use super::body::{self, Received};
use super::coerce::coerce;
use super::jq::Variables;
use super::params::Params;
use super::pattern::{InvalidPattern, Pattern};
use super::receive::Receiver;
use super::rewrite::{Rewrite, Target};
use super::send::Sender;
use super::service::Service;
use super::settings::{Settings, Validate};
use super::style::Form;
use super::template::InvalidTemplate;
use super::validate::{InvalidSchema, Refused, Validation};

/// A capability with its patterns, templates and schemas read.
#[derive(Debug)]
pub struct Capability {
    settings: Settings,
    endpoint: Pattern,
    allow_slash: Box<[bool]>,
    rewrite: Rewrite,
    validation: Validation,
    sender: Sender,
    receiver: Receiver,
    body: Body,
}

/// What a request's body needs on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    /// Its bytes only pass, and are bounded as they do.
    Passing,
    /// It must be seen whole before the service gets any of it.
    Whole,
}

/// Why an entry of `capabilities:` can't be served.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CapabilityError {
    /// `endpoint` is no path template.
    #[error("{0}")]
    Endpoint(InvalidPattern),
    /// `route.path` is no template of the endpoint.
    #[error("{0}")]
    RoutePath(InvalidTemplate),
    /// A value under `route.query`.
    #[error("{problem}")]
    RouteQuery {
        /// The query parameter.
        name: String,
        /// The fault.
        problem: InvalidTemplate,
    },
    /// A value under `route.headers`.
    #[error("{problem}")]
    RouteHeader {
        /// The header.
        name: HeaderName,
        /// The fault.
        problem: InvalidTemplate,
    },
    /// A header under `route.headers` that no route may set.
    #[error("`{0}` belongs to the connection and is set by the gateway")]
    ConnectionHeader(HeaderName),
    /// An entry of `parameters` with location `path` that the endpoint has not.
    #[error("the endpoint has no `{{{name}}}`; a path parameter stands in it as a template")]
    UnknownPathParameter {
        /// Its place in `parameters`.
        number: usize,
        /// Its name.
        name: String,
    },
    /// A schema that can't be compiled.
    #[error("{0}")]
    Schema(InvalidSchema),
    /// Two capabilities answer the same requests.
    #[error(
        "`{other}` answers {method} {endpoint} already: endpoints must differ in more than the names of parameters"
    )]
    SameEndpoint {
        /// The id of the one that came first.
        other: String,
        /// Both have it.
        method: Method,
        /// The endpoint of the first.
        endpoint: String,
    },
    /// Two capabilities have one id.
    #[error("the id `{0}` is taken already")]
    SameId(String),
}

impl Capability {
    /// Compiles an entry, reporting everything that is wrong with it but for its schemas: those are compiled when they
    /// are first needed, or by [`Validation::compile`].
    pub fn new(settings: Settings) -> Result<Self, Vec<CapabilityError>> {
        let endpoint: Pattern =
            settings.endpoint.parse().map_err(|problem| vec![CapabilityError::Endpoint(problem)])?;
        let mut problems = Vec::new();
        for (number, parameter) in settings.parameters.iter().enumerate() {
            if parameter.location == Location::Path && !endpoint.names().iter().any(|name| **name == *parameter.name) {
                problems.push(CapabilityError::UnknownPathParameter { number, name: parameter.name.clone() });
            }
        }
        let rewrite = Rewrite::new(&settings.route, &endpoint, &settings.parameters, &mut problems);
        let Some(rewrite) = rewrite.filter(|_| problems.is_empty()) else { return Err(problems) };
        let (sender, receiver) = (Sender::new(&settings), Receiver::new(&settings));
        let validates = settings.validate_request != Validate::Off && settings.input_schema.is_some();
        let sees_body = validates && !sender.is_raw() || sender.converts();
        let parameters = complete(&settings.parameters, &endpoint);
        let allow_slash = |name: &str| {
            let is_it = |it: &Parameter| it.location == Location::Path && it.allow_slash && it.name == name;
            parameters.iter().any(is_it)
        };
        Ok(Self {
            allow_slash: endpoint.names().iter().map(|name| allow_slash(name)).collect(),
            validation: Validation::new(&settings, &parameters),
            body: if sees_body { Body::Whole } else { Body::Passing },
            settings: Settings { parameters, content_types: Sender::content_types(&settings), ..settings },
            sender,
            receiver,
            endpoint,
            rewrite,
        })
    }

    /// Unique within the agent.
    pub fn id(&self) -> &str {
        &self.settings.id
    }

    /// As written, with a required string for every template that had no parameter.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Its path template.
    pub fn endpoint(&self) -> &Pattern {
        &self.endpoint
    }

    /// Whether a request's body passes or must be seen whole; the same for every request.
    pub fn body(&self) -> Body {
        self.body
    }

    /// What a request is held against.
    pub fn validation(&self) -> &Validation {
        &self.validation
    }

    /// Reads a body that must be seen.
    pub fn receive(&self, headers: &HeaderMap, body: &[u8]) -> Result<Received, Refused> {
        body::read(&self.settings.content_types, &self.sender, headers, body)
    }

    /// What the service gets bodies as.
    pub fn sender(&self) -> &Sender {
        &self.sender
    }

    /// Whether a program of the operator looks at requests or answers.
    pub fn maps(&self) -> bool {
        self.settings.route.transform != super::settings::Transform::default()
    }

    /// Whether its mapping of answers looks at the caller's headers.
    pub fn looks_at_headers(&self) -> bool {
        let program = self.settings.route.transform.response.as_ref();
        program.is_some_and(|program| program.text().contains("$headers"))
    }

    /// What callers get of answers.
    pub fn receiver(&self) -> &Receiver {
        &self.receiver
    }

    /// What a mapping knows of a request. Inputs are what their types say.
    pub fn variables(&self, params: &Params, query: Option<&str>, headers: &HeaderMap) -> Variables {
        let parameter = |name: &str, location| {
            self.settings.parameters.iter().find(|it| it.location == location && it.name == name)
        };
        let typed = |value: Value, parameter: Option<&Parameter>| match parameter {
            Some(parameter) => {
                let of_kind =
                    Value::Object([("type".to_owned(), parameter.kind.as_str().into())].into_iter().collect());
                coerce(
                    value,
                    parameter.schema.as_deref().filter(|schema| schema.get("type").is_some()).unwrap_or(&of_kind),
                )
            }
            None => value,
        };
        let path = params.iter().map(|(name, text)| {
            let parameter = parameter(name, Location::Path);
            let value = parameter.map_or_else(|| text.into(), |parameter| Form::of(parameter).of_text(text));
            (name.to_owned(), typed(value, parameter))
        });
        let query = query.unwrap_or_default();
        let mut queried = Map::new();
        for parameter in self.settings.parameters.iter().filter(|it| it.location == Location::Query) {
            if let Some(value) = Form::of(parameter).of_query(&parameter.name, query) {
                queried.insert(parameter.name.clone(), typed(value, Some(parameter)));
            }
        }
        if let Value::Object(others) = super::receive::form(query) {
            for (name, value) in others {
                queried.entry(name).or_insert(value);
            }
        }
        let headers = super::headers::forwarded(&self.settings, headers);
        Variables {
            path: Value::Object(path.collect()),
            query: Value::Object(queried),
            headers: super::receive::texts(&headers),
            ..Variables::default()
        }
    }

    /// What the service is asked. `method` and `query` (without `?`) are the caller's.
    pub fn target(&self, service: &Service, params: &Params, method: &Method, query: Option<&str>) -> Target {
        self.rewrite.target(service, params, method, query)
    }

    /// Its entry in the catalog, with the whole schemas.
    pub fn published(&self) -> restap::Capability {
        let mut settings = self.settings.clone();
        settings.parameters.iter_mut().for_each(without_default_style);
        restap::Capability {
            id: settings.id,
            title: settings.title,
            method: settings.method.to_string(),
            endpoint: settings.endpoint,
            description: settings.description,
            parameters: settings.parameters,
            input_schema: settings.input_schema,
            output_schema: settings.output_schema,
            content_types: settings.content_types,
            output_formats: settings.output_formats,
            ..restap::Capability::default()
        }
    }

    pub(super) fn allow_slash(&self) -> &[bool] {
        &self.allow_slash
    }

    pub(super) fn rewrite(&self) -> &Rewrite {
        &self.rewrite
    }
}

/// Leaves out what OpenAPI's defaults say, and what only the service sees: a path is called with plain values.
fn without_default_style(parameter: &mut Parameter) {
    let by_default = match parameter.location {
        Location::Query | Location::Cookie => Style::Form,
        Location::Path | Location::Header => Style::Simple,
    };
    let in_path = parameter.location == Location::Path && parameter.style != Some(Style::Json);
    let style = parameter.style.unwrap_or(by_default);
    let explodes = matches!(style, Style::Form | Style::DeepObject);
    parameter.explode = parameter.explode.filter(|explode| *explode != explodes && !in_path);
    parameter.style = parameter.style.filter(|style| *style != by_default && !in_path);
}

/// The parameters as written, path parameters required, and a required string for every template without an entry.
fn complete(written: &[Parameter], endpoint: &Pattern) -> Vec<Parameter> {
    let mut parameters = written.to_vec();
    for parameter in &mut parameters {
        parameter.required |= parameter.location == Location::Path;
    }
    for name in endpoint.names() {
        let is_it = |parameter: &Parameter| parameter.location == Location::Path && *parameter.name == **name;
        if !parameters.iter().any(is_it) {
            parameters.push(Parameter::new(name, Location::Path, "string"));
        }
    }
    parameters
}
