//! `Validation`: a request held against the parameters and the body's schema of its capability.

mod cost;
mod parameter;
mod schema;

use std::fmt::Write;

use http::HeaderMap;
use serde::Serialize;

use crate::restap::catalog::Parameter;

use super::body::Received;
use super::params::Params;
use super::settings::{Settings, Validate};

use parameter::Checked;
use schema::Schema;

/// The most violations that one answer lists.
pub const VIOLATIONS_MAX: usize = 10;

/// What requests of a capability must fit. Schemas are compiled when they are first needed, since a large catalog has
/// thousands and few of them are asked for.
#[derive(Debug)]
pub struct Validation {
    mode: Validate,
    parameters: Box<[Checked]>,
    body: Option<Schema>,
    body_required: bool,
}

/// What is held against a capability.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    /// Of the path.
    pub params: &'a Params,
    /// Without `?`.
    pub query: Option<&'a str>,
    /// As the caller sent them.
    pub headers: &'a HeaderMap,
    /// The whole body, where the capability must see it; `None` where it only passes.
    pub body: Option<&'a Received>,
}

/// Why a request is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// 400 `invalid_input`, with the violations as `details`.
    #[error("{}", summary(.0))]
    Input(Vec<Violation>),
    /// 400 `invalid_json`.
    #[error("the body is not JSON: {0}")]
    Json(String),
    /// 415 `unsupported_media_type`.
    #[error("the body's media type is not taken here; send Content-Type: {0} (curl: -H 'Content-Type: {0}')")]
    MediaType(String),
    /// The schema itself is broken: 500 `internal`, and a line in the log.
    #[error("{0}")]
    Schema(InvalidSchema),
}

/// One reason why an input is refused. No value of the input stands in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// Which part of the request.
    pub location: Part,
    /// A parameter's name, or a JSON Pointer into the body.
    pub path: String,
    /// The keyword of JSON Schema that is broken.
    pub keyword: String,
    /// What to do, as in `must be an integer`.
    pub message: String,
}

/// A part of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// A `{name}` of the endpoint.
    Path,
    /// A query parameter.
    Query,
    /// A header.
    Header,
    /// A cookie.
    Cookie,
    /// The body.
    Body,
}

/// A schema that can't be compiled: a dangling or remote `$ref`, an unknown type, a pattern that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} can't be compiled: {problem}", .parameter.as_ref().map_or("`input_schema`".to_owned(), |name| format!("the schema of `{name}`")))]
pub struct InvalidSchema {
    /// The parameter whose schema it is; `None` is `input_schema`.
    pub parameter: Option<String>,
    /// What is wrong, and where in the schema.
    pub problem: String,
}

/// What answers of a capability must fit.
#[derive(Debug)]
pub struct Output {
    mode: Validate,
    schema: Option<Schema>,
}

impl Output {
    pub(super) fn new(settings: &Settings) -> Self {
        Self { mode: settings.validate_response, schema: settings.output_schema.clone().map(Schema::new) }
    }

    /// What a violation leads to.
    pub fn mode(&self) -> Validate {
        if self.schema.is_some() { self.mode } else { Validate::Off }
    }

    /// The schema as it is written.
    pub(super) fn schema(&self) -> Option<&serde_json::Value> {
        self.schema.as_ref().map(Schema::source)
    }

    /// What is wrong with an answer; or with the schema.
    pub(super) fn check(&self, value: &serde_json::Value) -> Result<Vec<Violation>, String> {
        let Some(schema) = &self.schema else { return Ok(Vec::new()) };
        schema.check(value, Part::Body).map_err(|problem| format!("`output_schema` can't be compiled: {problem}"))
    }
}

impl Validation {
    pub(super) fn new(settings: &Settings, parameters: &[Parameter]) -> Self {
        Self {
            mode: settings.validate_request,
            parameters: parameters.iter().map(Checked::new).collect(),
            body: settings.input_schema.clone().map(Schema::new),
            body_required: settings.input_required,
        }
    }

    /// What a violation leads to. With [`Validate::Off`] there is nothing to check.
    pub fn mode(&self) -> Validate {
        self.mode
    }

    /// Compiles every schema that is needed now, and says which of them can't be.
    pub fn compile(&self) -> Result<(), Vec<InvalidSchema>> {
        if self.mode == Validate::Off {
            return Ok(());
        }
        let of_parameters = self.parameters.iter().map(Checked::compile);
        let of_body =
            self.body.iter().map(|schema| schema.compile().map(drop).map_err(|problem| invalid(None, problem)));
        let problems: Vec<_> = of_parameters.chain(of_body).filter_map(Result::err).collect();
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }

    /// Holds a request against the capability. Parameters and fields that it does not name pass.
    pub fn check(&self, input: &Input<'_>) -> Result<(), Refused> {
        let mut violations = Vec::new();
        for parameter in &self.parameters {
            parameter.check(input, &mut violations).map_err(Refused::Schema)?;
        }
        match (&self.body, input.body) {
            (Some(_), Some(Received::Nothing)) if self.body_required => violations.push(Violation {
                location: Part::Body,
                path: String::new(),
                keyword: "required".to_owned(),
                message: "must be there, as JSON".to_owned(),
            }),
            (Some(schema), Some(Received::Json(body))) => {
                let found =
                    schema.check(body, Part::Body).map_err(|problem| Refused::Schema(invalid(None, problem)))?;
                violations.extend(found);
            }
            _ => {}
        }
        violations.truncate(VIOLATIONS_MAX);
        if violations.is_empty() { Ok(()) } else { Err(Refused::Input(violations)) }
    }
}

fn invalid(parameter: Option<&str>, problem: &str) -> InvalidSchema {
    InvalidSchema { parameter: parameter.map(str::to_owned), problem: problem.to_owned() }
}

/// The first violation in full and how many more there are.
fn summary(violations: &[Violation]) -> String {
    let Some(first) = violations.first() else { return "the input is refused".to_owned() };
    let mut text = match (first.location, first.path.as_str()) {
        (Part::Body, "") => "the body ".to_owned(),
        (Part::Body, path) => format!("`{path}` in the body "),
        (Part::Path, name) => format!("the path parameter `{name}` "),
        (Part::Query, name) => format!("the query parameter `{name}` "),
        (Part::Header, name) => format!("the header `{name}` "),
        (Part::Cookie, name) => format!("the cookie `{name}` "),
    };
    text.push_str(&first.message);
    match violations.len() {
        0 | 1 => {}
        2 => text.push_str(", and one more problem; see `details`"),
        more => drop(write!(text, ", and {} more problems; see `details`", more - 1)),
    }
    text
}

#[cfg(test)]
mod tests;
