//! The import: what a description of an HTTP API (Swagger 2.0, OpenAPI 3.0 and 3.1) says, as operations that an agent can
//! offer. Each operation stands alone: what is wrong with one is in the report and costs no other.

mod body;
mod bundle;
mod closure;
mod credential;
mod entry;
mod filter;
mod id;
mod keyword;
mod location;
mod lower;
mod operation;
mod parameter;
mod path;
pub mod report;
mod response;
mod server;
mod survey;
mod text;
pub mod update;
mod version;
pub mod write;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

pub use bundle::{Bundle, Unreadable, Wanted};
pub use credential::{Credential, Scheme};
pub use entry::entry;
pub use filter::{Filter, InvalidGlob};
pub use location::Location;
pub use report::{Note, Outcome, Report, Severity};
pub use text::decode;
pub use version::is_description;

use crate::restap::catalog::Location as Place;

/// What of a document is taken, and how.
#[derive(Debug, Clone)]
pub struct Options {
    /// Which operations.
    pub filter: Filter,
    /// In front of every endpoint: empty, or `/x` without a trailing slash.
    pub prefix: String,
    /// What the service is called; ids that an agent keeps for itself get it in front.
    pub name: String,
    /// Where the service is, in place of all that the document says.
    pub base_url: Option<String>,
    /// Values for the variables of its servers.
    pub variables: BTreeMap<String, String>,
    /// Where the document came from, where that is a URL: what a server without a host is relative to.
    pub document_url: Option<String>,
    /// Ids that were given to `METHOD path` before.
    pub known_ids: BTreeMap<String, String>,
    /// Whether operations that are deprecated are taken.
    pub deprecated: bool,
    /// Whether PATCH is published as `POST {path}:patch`; it is skipped otherwise.
    pub patch: bool,
    /// Whether parameters that look like credentials are left to callers.
    pub keep_key_parameters: bool,
    /// Bytes of the schema of a request's body; a larger one is made weaker.
    pub input_bytes: usize,
    /// Bytes of the schema of an answer; 0 leaves them out.
    pub output_bytes: usize,
    /// Characters of an id.
    pub id_length: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            filter: Filter::default(),
            prefix: String::new(),
            name: "api".to_owned(),
            base_url: None,
            variables: BTreeMap::new(),
            document_url: None,
            known_ids: BTreeMap::new(),
            deprecated: true,
            patch: true,
            keep_key_parameters: false,
            input_bytes: INPUT_BYTES,
            output_bytes: OUTPUT_BYTES,
            id_length: ID_LENGTH,
        }
    }
}

/// Bytes of the schema of a request unless an import says otherwise: what a catalog shows of one entry.
pub const INPUT_BYTES: usize = 16 << 10;

/// The same of an answer.
pub const OUTPUT_BYTES: usize = 4 << 10;

/// Characters of an id unless an import says otherwise: what clients take as the name of a tool.
pub const ID_LENGTH: usize = 64;

/// What was taken of a document.
#[derive(Debug)]
pub struct Imported {
    /// `info.title`.
    pub title: Option<String>,
    /// `info.description`.
    pub description: Option<String>,
    /// `info.version`.
    pub version: Option<String>,
    /// Who is to be asked about it.
    pub contact: Option<String>,
    /// Services that operations are sent to; [`Operation::service`] is a place in it.
    pub services: Vec<Service>,
    /// Other servers that the document names.
    pub other_servers: Vec<String>,
    /// In the order of the document.
    pub operations: Vec<Operation>,
    /// What became of every operation, and what is odd about the document.
    pub report: Report,
}

/// One base URL with one set of credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    /// Unique among those of the document; a name as `upstreams:` has it.
    pub name: String,
    /// Without a trailing slash; `None` where the document names no host and nobody else did.
    pub url: Option<String>,
    /// What is sent with every request.
    pub credentials: Vec<Credential>,
}

/// One operation, as an entry of `capabilities:` needs it.
#[derive(Debug, Clone)]
pub struct Operation {
    /// Unique within the document.
    pub id: String,
    /// For people.
    pub title: String,
    /// For people and models.
    pub description: Option<String>,
    /// `GET`, `POST`, `PUT` or `DELETE`.
    pub method: &'static str,
    /// A path template under the agent's base, the prefix in front.
    pub endpoint: String,
    /// Path, query and header inputs.
    pub parameters: Vec<Parameter>,
    /// The request's body.
    pub body: Option<Body>,
    /// JSON Schema 2020-12 of the answer.
    pub output_schema: Option<Arc<Value>>,
    /// Media types of the answers.
    pub output_formats: Vec<String>,
    /// The service's method.
    pub route_method: String,
    /// The service's path template.
    pub route_path: String,
    /// Parameters that are always sent.
    pub route_query: Vec<(String, String)>,
    /// Place in [`Imported::services`].
    pub service: usize,
    /// The document says not to use it.
    pub deprecated: bool,
    /// What the document calls it.
    pub source: Source,
}

/// Where an operation comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// `GET /pet/{petId}`: method and path as in the document.
    pub name: String,
    /// `operationId`.
    pub operation_id: Option<String>,
}

/// One path, query or header input.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameter {
    /// As it stands in the request.
    pub name: String,
    /// Where it goes.
    pub location: Place,
    /// Its JSON type.
    pub kind: &'static str,
    /// Whether a call without it is refused.
    pub required: bool,
    /// For people and models.
    pub description: Option<String>,
    /// JSON Schema, where it says more than the type.
    pub schema: Option<Value>,
    /// How its value is written, where that is not how one of its kind is written anyway.
    pub form: Form,
}

/// How a value that is no single text is written into a parameter (OpenAPI 3.1, "Style Values").
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Form {
    /// `form`, `simple`, `spaceDelimited`, `pipeDelimited`, `deepObject`, `label`, `matrix`, or `json` for JSON as text.
    pub style: Option<&'static str>,
    /// Whether each item stands for itself; `None` is the style's own.
    pub explode: Option<bool>,
}

/// The body of a request.
#[derive(Debug, Clone, PartialEq)]
pub struct Body {
    /// JSON Schema 2020-12, where there is one.
    pub schema: Option<Arc<Value>>,
    /// What callers may send, the preferred first.
    pub content_types: Vec<String>,
    /// What becomes of JSON on its way to the service.
    pub send_as: SendAs,
    /// How single fields of a form are written, where that is not as repeated keys.
    pub encoding: Vec<(String, Form)>,
    /// Whether a call without it is refused.
    pub required: bool,
}

/// What a service takes a body as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendAs {
    /// As it comes.
    AsIs,
    /// `application/x-www-form-urlencoded`.
    Form,
    /// `multipart/form-data`.
    Multipart,
}

/// What a document's service may be called: its title in a word, else its file.
pub fn name_of(bundle: &Bundle) -> String {
    let title = bundle.root().and_then(|root| root.get("info")?.get("title")?.as_text());
    let stem = bundle.location().map(Location::stem);
    let text = title.filter(|title| title.bytes().any(|byte| byte.is_ascii_alphabetic())).map(str::to_owned).or(stem);
    let mut name = id::slug(&text.unwrap_or_default());
    name.truncate(name.floor_char_boundary(NAME_MAX));
    let name = name.trim_matches('_');
    if is_name(name) { name.to_owned() } else { "api".to_owned() }
}

/// Whether an upstream can be called so.
pub fn is_name(name: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    !name.is_empty() && name.bytes().all(legal) && name.starts_with(|first: char| first.is_ascii_alphanumeric())
}

/// Characters of a service's name.
const NAME_MAX: usize = 32;

/// Takes a document apart. Only what is no description of an API at all is an error.
pub fn import(bundle: &Bundle, options: &Options) -> Result<Imported, Unreadable> {
    survey::on_a_large_stack(|| survey::import(bundle, options))
}

#[cfg(test)]
mod tests;
