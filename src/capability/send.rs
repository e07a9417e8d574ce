//! What the service gets a body as: JSON of callers made a form, a multipart body, XML or text.

mod form;
mod multipart;
mod xml;

use bytes::Bytes;
use http::{HeaderValue, Method};
use serde_json::Value;

use super::jq::{Effort, Jq, JqError, Val, Variables};
use super::media_type::{self, MediaType};
use super::settings::{SendAs, Settings};
use super::style;
use form::Fields;

pub(super) use xml::is_name as is_xml_name;

/// Objects and lists within each other that a body may have.
const DEPTH_MAX: usize = 64;

/// How the bodies of one capability go to its service.
#[derive(Debug)]
pub struct Sender {
    kind: SendAs,
    media_type: HeaderValue,
    /// What the service may get from callers as it is; lower case.
    own: Box<[MediaType]>,
    fields: Fields,
    xml_root: Option<Box<str>>,
    in_query: bool,
    transform: Option<Jq>,
}

/// What goes to the service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sent {
    /// A body and what it is.
    Body(Bytes, HeaderValue),
    /// Pairs of the query, encoded.
    Query(String),
}

/// A value that can't be written so. No value of it stands in the message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Unsendable {
    /// A JSON Pointer into the body.
    pub path: String,
    /// What to do, as in `must be base64`.
    pub message: String,
}

/// Why a request goes to no service.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum NotSent {
    /// Its body can't be written.
    #[error(transparent)]
    Unsendable(#[from] Unsendable),
    /// The mapping could not be evaluated.
    #[error(transparent)]
    Mapping(JqError),
}

impl Sender {
    pub(super) fn new(settings: &Settings) -> Self {
        let route = &settings.route;
        let in_query = route.send_as == SendAs::Form && matches!(route.method, Method::GET | Method::HEAD);
        let listed = |wanted: fn(&MediaType) -> bool| {
            let types = settings.content_types.iter().map(|listed| (listed, MediaType::of(listed)));
            let fitting = types.filter(|(_, media_type)| wanted(media_type)).map(|(listed, _)| listed);
            fitting.into_iter().find_map(|listed| HeaderValue::from_str(listed).ok())
        };
        let media_type = match route.send_as {
            SendAs::Json | SendAs::Raw => listed(MediaType::is_json).unwrap_or(media_type::JSON),
            SendAs::Form => HeaderValue::from_static("application/x-www-form-urlencoded"),
            // The boundary depends on the body.
            SendAs::Multipart => HeaderValue::from_static("multipart/form-data"),
            SendAs::Xml => listed(MediaType::is_xml).unwrap_or(HeaderValue::from_static("application/xml")),
            SendAs::Text => listed(MediaType::is_text).unwrap_or(HeaderValue::from_static("text/plain; charset=utf-8")),
        };
        let own = settings.content_types.iter().map(|listed| MediaType::of(listed));
        let own = own.chain([MediaType::of(media_type.to_str().unwrap_or_default())]);
        // What is mapped must be JSON.
        let mapped = route.transform.request.is_some();
        Self {
            kind: route.send_as,
            own: own.filter(|media_type| !mapped && !media_type.is_json()).collect(),
            media_type,
            fields: Fields::new(&route.encoding, settings.input_schema.as_deref()),
            xml_root: route.xml_root.as_deref().map(Into::into),
            in_query,
            transform: route.transform.request.clone(),
        }
    }

    /// Whether JSON is made something else, so that a body must be read.
    pub fn converts(&self) -> bool {
        self.transform.is_some() || !matches!(self.kind, SendAs::Json | SendAs::Raw)
    }

    /// Whether there is something to send although the caller sent nothing.
    pub fn makes(&self) -> bool {
        self.transform.is_some()
    }

    /// Whether bodies are not looked at.
    pub fn is_raw(&self) -> bool {
        self.kind == SendAs::Raw
    }

    /// Whether a body of this type is what the service takes.
    pub(super) fn takes(&self, media_type: &MediaType) -> bool {
        self.own.iter().any(|own| own.covers(media_type))
    }

    /// The media types that callers may send, those of the settings first.
    pub(super) fn content_types(settings: &Settings) -> Vec<String> {
        let mut types = settings.content_types.clone();
        let converted = match settings.route.send_as {
            SendAs::Json | SendAs::Raw => return types,
            SendAs::Form => "application/x-www-form-urlencoded",
            SendAs::Multipart => "multipart/form-data",
            SendAs::Xml => "application/xml",
            SendAs::Text => "text/plain",
        };
        let json = || "application/json".to_owned();
        if types.is_empty() {
            return vec![json(), converted.to_owned()];
        }
        if !types.iter().any(|listed| MediaType::of(listed).is_json()) {
            types.insert(0, json());
        }
        types
    }

    /// The media type that JSON goes to the service under, where callers say another one of JSON.
    pub(super) fn json_type(&self) -> Option<&HeaderValue> {
        (self.kind == SendAs::Json).then_some(&self.media_type)
    }

    /// What the service gets for JSON, or for null where there is none.
    pub fn send(&self, value: &Value, variables: &Variables, effort: Effort) -> Result<Sent, NotSent> {
        match &self.transform {
            None => Ok(self.encode(value)?),
            Some(transform) => {
                let mapped = transform.run(Val::from(value), variables, effort).map_err(NotSent::Mapping)?;
                Ok(self.encode(&Value::from(mapped))?)
            }
        }
    }

    pub(super) fn encode(&self, value: &Value) -> Result<Sent, Unsendable> {
        if depth_exceeds(value, DEPTH_MAX) && self.kind != SendAs::Json {
            return Err(Unsendable::root(format!("may have at most {DEPTH_MAX} levels")));
        }
        let body = match self.kind {
            SendAs::Json | SendAs::Raw => serde_json::to_vec(value).unwrap_or_default(),
            SendAs::Form => {
                let pairs = self.fields.form(value)?;
                if self.in_query {
                    return Ok(Sent::Query(pairs));
                }
                pairs.into_bytes()
            }
            SendAs::Multipart => {
                let (body, media_type) = multipart::write(&self.fields, value)?;
                return Ok(Sent::Body(body.into(), media_type));
            }
            SendAs::Xml => xml::write(value, self.xml_root.as_deref())?.into_bytes(),
            SendAs::Text => style::text(value).into_owned().into_bytes(),
        };
        Ok(Sent::Body(body.into(), self.media_type.clone()))
    }
}

impl Unsendable {
    fn root(message: impl Into<String>) -> Self {
        Self { path: String::new(), message: message.into() }
    }

    fn at(path: &str, message: impl Into<String>) -> Self {
        Self { path: format!("/{}", path.replace('~', "~0").replace('/', "~1")), message: message.into() }
    }
}

/// Whether objects and lists stand deeper within each other than this.
fn depth_exceeds(value: &Value, most: usize) -> bool {
    let Some(below) = most.checked_sub(1) else { return value.is_array() || value.is_object() };
    match value {
        Value::Array(items) => items.iter().any(|item| depth_exceeds(item, below)),
        Value::Object(entries) => entries.values().any(|value| depth_exceeds(value, below)),
        _ => false,
    }
}

/// The schema of a field, references followed.
fn field_schema<'s>(schema: Option<&'s Value>, name: &str) -> Option<&'s Value> {
    let root = schema?;
    let mut found = resolve(root, root)?.get("properties")?.get(name)?;
    for _ in 0..8 {
        match found.get("$ref") {
            Some(_) => found = resolve(root, found)?,
            None => break,
        }
    }
    Some(found)
}

fn resolve<'s>(root: &'s Value, schema: &'s Value) -> Option<&'s Value> {
    match schema.get("$ref").and_then(Value::as_str) {
        Some(reference) => {
            let pointer = reference.strip_prefix('#')?;
            root.pointer(&percent_encoding::percent_decode_str(pointer).decode_utf8_lossy())
        }
        None => Some(schema),
    }
}

#[cfg(test)]
mod tests;
