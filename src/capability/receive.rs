//! What callers get of an answer: read as what it is, its errors told apart, mapped, checked.

mod charset;
mod csv;
mod form;
mod html;
mod rules;
mod xml;

use http::header::{self, HeaderMap, HeaderValue};
use http::{HeaderName, StatusCode};
use serde_json::{Value, json};

use super::coerce::coerce;
use super::jq::{Effort, Jq, JqError, Limit, Val, Variables};
use super::media_type::{JSON, MediaType};
use super::settings::{ErrorRule, ReceiveAs, Settings, Validate};
use super::validate::{Output, Violation};

/// What says something of the bytes that came, and not of those that go on.
const OF_BYTES: [HeaderName; 8] = [
    header::ACCEPT_RANGES,
    header::CONTENT_ENCODING,
    header::CONTENT_LENGTH,
    header::CONTENT_RANGE,
    header::ETAG,
    HeaderName::from_static("content-md5"),
    HeaderName::from_static("digest"),
    HeaderName::from_static("repr-digest"),
];

/// How the answers of one capability are read.
#[derive(Debug)]
pub struct Receiver {
    receive_as: Option<ReceiveAs>,
    transform: Option<Jq>,
    rules: Box<[ErrorRule]>,
    output: Output,
    shows_html: bool,
}

/// An answer that came whole, its `Content-Encoding` removed.
#[derive(Debug, Clone, Copy)]
pub struct Came<'a> {
    /// Its status.
    pub status: StatusCode,
    /// Its head.
    pub headers: &'a HeaderMap,
    /// Its body.
    pub body: &'a [u8],
}

/// What goes to the caller.
#[derive(Debug, Clone, PartialEq)]
pub struct Made {
    /// Its status.
    pub status: StatusCode,
    /// Its media type, where it has a body.
    pub media_type: Option<HeaderValue>,
    /// Its body; `None` is that of the service as it came.
    pub body: Option<Vec<u8>>,
    /// What breaks its schema, where that is only to be told.
    pub warned: Vec<Violation>,
}

/// Why an answer can't be given: 502.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Unusable {
    /// It is not what it should be. The sentence shows nothing of it.
    #[error("the service's answer {0}")]
    Broken(String),
    /// It breaks `output_schema`.
    #[error("the service's answer breaks its schema")]
    Output(Vec<Violation>),
    /// The mapping could not be evaluated.
    #[error("{0}")]
    Mapping(JqError),
    /// The schema itself is broken.
    #[error("{0}")]
    Schema(String),
}

/// A body as it was read.
enum Content {
    Nothing,
    /// Whether its own bytes can go on.
    Json(Value, bool),
    Text(String, MediaType),
    Bytes,
}

impl Receiver {
    pub(super) fn new(settings: &Settings) -> Self {
        let html = |listed: &String| matches!(MediaType::of(listed).essence(), "text/html" | "application/xhtml+xml");
        Self {
            receive_as: settings.route.receive_as,
            transform: settings.route.transform.response.clone(),
            rules: settings.route.errors.clone().into(),
            output: Output::new(settings),
            shows_html: settings.output_formats.iter().any(html),
        }
    }

    /// Whether answers must be seen whole.
    pub fn maps(&self) -> bool {
        self.receive_as.is_some_and(|receive_as| receive_as != ReceiveAs::Binary)
            || self.transform.is_some()
            || !self.rules.is_empty()
            || self.output.mode() != Validate::Off
    }

    /// Whether an answer of this kind streams on although others are mapped.
    pub fn passes(&self, status: StatusCode, headers: &HeaderMap) -> bool {
        let media_type = headers.get(header::CONTENT_TYPE).map(MediaType::of_header);
        let auto = matches!(self.receive_as, None | Some(ReceiveAs::Auto)) && self.transform.is_none();
        let enforced = self.output.mode() == Validate::Enforce;
        auto && !enforced && status.is_success() && media_type.is_some_and(|it| it.essence() == "text/event-stream")
    }

    /// What the service is told that is wanted, where its answers are read in one form only.
    pub fn accept(&self) -> Option<HeaderValue> {
        let one_form = self.receive_as.is_some_and(|it| !matches!(it, ReceiveAs::Auto | ReceiveAs::Binary));
        one_form.then(|| HeaderValue::from_static("*/*"))
    }

    /// The compiled schema's problem, if it has one.
    pub fn output(&self) -> &Output {
        &self.output
    }

    /// The headers of a mapped answer: those that speak of the bytes that came are gone.
    pub fn clean(headers: &mut HeaderMap) {
        for name in &OF_BYTES {
            headers.remove(name);
        }
    }

    /// Reads an answer. `variables` are of the request; `effort` bounds the mapping.
    pub fn make(&self, came: &Came<'_>, variables: &Variables, effort: Effort) -> Result<Made, Unusable> {
        let read = self.read(came);
        let failed = came.status.is_client_error() || came.status.is_server_error();
        let content = match read {
            Ok(content) => content,
            // An error page that is not what its head says.
            Err(_) if failed => Content::Bytes,
            Err(problem) => return Err(Unusable::Broken(problem)),
        };
        let json = match &content {
            Content::Json(value, _) => value,
            _ => &Value::Null,
        };
        if let Some(rule) = self.rules.iter().find(|rule| rule.applies(came.status, json)) {
            return Ok(refused(rule.status, rule.code(), &rule.message(json)));
        }
        if failed {
            return Ok(self.failure(came, content));
        }
        if came.status.is_redirection() {
            return Ok(made(came.status, came.headers.get(header::CONTENT_TYPE).cloned(), None));
        }
        self.success(came, content, variables, effort)
    }

    fn success(
        &self,
        came: &Came<'_>,
        content: Content,
        variables: &Variables,
        effort: Effort,
    ) -> Result<Made, Unusable> {
        let checks = self.output.mode() != Validate::Off;

        if let Some(transform) = &self.transform {
            let input = match &content {
                Content::Nothing => Val::Null,
                Content::Json(value, _) => Val::from(value),
                Content::Text(text, _) => Val::text(text),
                Content::Bytes => return Err(Unusable::Broken("is neither JSON nor text".to_owned())),
            };
            let variables = Variables {
                status: came.status.as_u16().into(),
                response_headers: texts(came.headers),
                ..variables.clone()
            };
            let output = transform.run(input, &variables, effort).map_err(Unusable::Mapping)?;
            let body = output.to_json(BODY_MAX).ok_or(Unusable::Mapping(JqError::Limit(Limit::Bytes)))?;
            let warned = if checks { self.check(&Value::from(output))? } else { Vec::new() };
            let status = if came.status == StatusCode::NO_CONTENT { StatusCode::OK } else { came.status };
            return Ok(Made { warned, ..made(status, Some(JSON), Some(body)) });
        }
        match content {
            Content::Json(value, as_it_came) => {
                let warned = if checks { self.check(&value)? } else { Vec::new() };
                let media_type = came.headers.get(header::CONTENT_TYPE).filter(|it| MediaType::of_header(it).is_json());
                let media_type = media_type.filter(|_| as_it_came).cloned().unwrap_or(JSON);
                let body = (!as_it_came).then(|| serde_json::to_vec(&value).unwrap_or_default());
                Ok(Made { warned, ..made(came.status, Some(media_type), body) })
            }
            // A caller that reads JSON would stumble over nothing.
            Content::Nothing if came.status == StatusCode::OK => Ok(made(StatusCode::NO_CONTENT, None, None)),
            Content::Nothing => Ok(made(came.status, None, Some(Vec::new()))),
            _ if self.output.mode() == Validate::Enforce => Err(Unusable::Broken("is not JSON".to_owned())),
            Content::Text(text, media_type) => {
                let media_type = HeaderValue::try_from(format!("{}; charset=utf-8", media_type.essence()));
                let media_type = media_type.unwrap_or(HeaderValue::from_static("text/plain; charset=utf-8"));
                Ok(made(came.status, Some(media_type), Some(text.into_bytes())))
            }
            Content::Bytes => Ok(made(came.status, came.headers.get(header::CONTENT_TYPE).cloned(), None)),
        }
    }

    /// An error of the service: its JSON as it is, and a sentence in place of a page for people.
    fn failure(&self, came: &Came<'_>, content: Content) -> Made {
        let own = came.headers.get(header::CONTENT_TYPE).cloned();
        match content {
            Content::Json(_, true) => made(came.status, own.or(Some(JSON)), None),
            Content::Json(value, false) => {
                let body = serde_json::to_vec(&value).unwrap_or_default();
                made(came.status, Some(JSON), Some(body))
            }
            Content::Text(text, media_type) if self.shows_html && media_type.essence() == "text/html" => {
                let media_type = Some(HeaderValue::from_static("text/html; charset=utf-8"));
                made(came.status, media_type, Some(text.into_bytes()))
            }
            Content::Text(text, media_type) => {
                let said = html::gist(&text, media_type.essence() == "text/html");
                refused(came.status, code_of(came.status), &sentence(came.status, &said))
            }
            Content::Nothing | Content::Bytes => refused(came.status, code_of(came.status), &sentence(came.status, "")),
        }
    }

    fn check(&self, value: &Value) -> Result<Vec<Violation>, Unusable> {
        match self.output.check(value) {
            Ok(violations) if violations.is_empty() || self.output.mode() == Validate::Warn => Ok(violations),
            Ok(violations) => Err(Unusable::Output(violations)),
            Err(problem) => Err(Unusable::Schema(problem)),
        }
    }

    fn read(&self, came: &Came<'_>) -> Result<Content, String> {
        if came.body.is_empty() || came.status == StatusCode::NO_CONTENT {
            return Ok(Content::Nothing);
        }
        let media_type = came.headers.get(header::CONTENT_TYPE).map(MediaType::of_header);
        let media_type = media_type.unwrap_or_else(|| MediaType::of(""));
        let failed = came.status.as_u16() >= 400;
        let receive_as = match self.receive_as.unwrap_or(ReceiveAs::Auto) {
            // What a service says of an error is seldom in the form of its other answers.
            _ if failed && !media_type.essence().is_empty() => of_type(&media_type),
            ReceiveAs::Auto => of_type(&media_type),
            named => named,
        };
        if receive_as == ReceiveAs::Binary {
            return Ok(Content::Bytes);
        }
        let is_utf8 = |text: &str| text.as_bytes() == came.body;
        let text = charset::decode(came.body, media_type.charset(), receive_as == ReceiveAs::Xml);
        let blank = text.trim().is_empty();
        let coerced = |value: Value| match self.output.schema() {
            Some(schema) if self.transform.is_none() => coerce(value, schema),
            _ => value,
        };
        match receive_as {
            ReceiveAs::Json if blank => Ok(Content::Nothing),
            ReceiveAs::Json => match json(&text) {
                Some((value, whole)) => Ok(Content::Json(value, whole && is_utf8(&text))),
                None => Err("is not JSON".to_owned()),
            },
            ReceiveAs::Xml => Ok(Content::Json(coerced(xml::parse(&text)?), false)),
            ReceiveAs::Csv => Ok(Content::Json(coerced(csv::parse(&text)?), false)),
            ReceiveAs::Form => Ok(Content::Json(coerced(form::parse(&text)), false)),
            ReceiveAs::Text => {
                let media_type = if media_type.is_text() { media_type } else { MediaType::of("text/plain") };
                Ok(Content::Text(text.into_owned(), media_type))
            }
            // No type: JSON if it reads as such.
            ReceiveAs::Auto => match json(&text) {
                Some((value, whole)) => Ok(Content::Json(value, whole && is_utf8(&text))),
                None => Ok(Content::Bytes),
            },
            ReceiveAs::Binary => Ok(Content::Bytes),
        }
    }
}

/// Bytes of a mapped answer.
const BODY_MAX: usize = 32 << 20;

/// How an answer of this type is read where nothing is said.
fn of_type(media_type: &MediaType) -> ReceiveAs {
    match media_type.essence() {
        "" => ReceiveAs::Auto,
        "text/csv" | "application/csv" | "text/tab-separated-values" => ReceiveAs::Csv,
        "application/x-www-form-urlencoded" => ReceiveAs::Form,
        "application/xhtml+xml" => ReceiveAs::Text,
        "image/svg+xml" => ReceiveAs::Binary,
        _ if media_type.is_json() => ReceiveAs::Json,
        _ if media_type.is_xml() => ReceiveAs::Xml,
        _ if media_type.is_text() => ReceiveAs::Text,
        _ => ReceiveAs::Binary,
    }
}

/// JSON, and whether it is all of the text: some services put a guard or a function call around it.
fn json(text: &str) -> Option<(Value, bool)> {
    if let Ok(value) = serde_json::from_str(text) {
        return Some((value, true));
    }
    let text = text.trim();
    let guarded = [")]}',", ")]}'", "while(1);", "for(;;);"].iter().find_map(|guard| text.strip_prefix(guard));
    let called = || {
        let (name, rest) = text.trim_start_matches("/**/").split_once('(')?;
        let legal = |character: char| character.is_ascii_alphanumeric() || matches!(character, '_' | '.' | '$');
        let inner = rest.trim_end_matches(';').trim_end().strip_suffix(')')?;
        name.trim().chars().all(legal).then_some(inner)
    };
    let inner = guarded.or_else(called)?;
    serde_json::from_str(inner).ok().map(|value| (value, false))
}

/// A form or a query as an object of texts.
pub(super) fn form(text: &str) -> Value {
    form::parse(text)
}

/// Headers as an object of texts; several of one name are one list.
pub(super) fn texts(headers: &HeaderMap) -> Value {
    let text = |name: &HeaderName| {
        let lines: Vec<_> = headers.get_all(name).iter().filter_map(|line| line.to_str().ok()).collect();
        (name.as_str().to_owned(), Value::from(lines.join(", ")))
    };
    Value::Object(headers.keys().map(text).collect())
}

fn made(status: StatusCode, media_type: Option<HeaderValue>, body: Option<Vec<u8>>) -> Made {
    Made { status, media_type, body, warned: Vec::new() }
}

/// An error in the form that all of them have.
fn refused(status: StatusCode, code: &str, message: &str) -> Made {
    let body = json!({"error": code, "message": message}).to_string();
    made(status, Some(JSON), Some(body.into_bytes()))
}

/// The name that fits a status of a service.
pub(super) fn code_of(status: StatusCode) -> &'static str {
    match status.as_u16() {
        401 => "unauthorized",
        403 => "forbidden",
        404 | 410 => "not_found",
        405 => "method_not_allowed",
        406 => "not_acceptable",
        408 => "request_timeout",
        413 => "payload_too_large",
        415 => "unsupported_media_type",
        429 => "upstream_rate_limited",
        400..=499 => "invalid_input",
        503 => "upstream_unavailable",
        504 => "upstream_timeout",
        _ => "upstream_error",
    }
}

/// What a service said of a request, in a sentence. Of its own failures nothing is told.
fn sentence(status: StatusCode, said: &str) -> String {
    let reason = status.canonical_reason().unwrap_or("an error");
    let answered = format!("the service behind this agent answered {} {reason}", status.as_u16());
    if status.is_server_error() || said.is_empty() || said.contains(reason) {
        answered
    } else {
        format!("{answered}: {said}")
    }
}

#[cfg(test)]
mod tests;
