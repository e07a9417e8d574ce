//! Which description of an API a document is, and what it is where it is none.

use super::Unreadable;
use super::bundle::{Bundle, clipped};
use crate::yaml::{Kind, Node};

/// Which description of an API it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    Swagger2,
    OpenApi30,
    OpenApi31,
}

/// Whether it is a description of an API that can be read.
pub fn is_description(bundle: &Bundle) -> Result<(), Unreadable> {
    bundle.root().ok_or_else(|| Unreadable("the document is empty".to_owned())).and_then(of).map(drop)
}

/// The version, and whether it is newer than the last that is known.
pub(super) fn of(root: Node<'_>) -> Result<(Version, bool), Unreadable> {
    let written = |key: &str| root.get(key).map(Node::written).map(str::trim);
    let refuse =
        |what: String| Err(Unreadable(format!("{what}; what is read is Swagger 2.0, OpenAPI 3.0 and OpenAPI 3.1")));
    match (written("openapi"), written("swagger")) {
        (Some(version), _) if version.starts_with("3.0") || version == "3" => Ok((Version::OpenApi30, false)),
        (Some(version), _) if version.starts_with("3.1") => Ok((Version::OpenApi31, false)),
        (Some(version), _) if version.starts_with("3.") => Ok((Version::OpenApi31, true)),
        (_, Some(version)) if version == "2" || version.starts_with("2.") => Ok((Version::Swagger2, false)),
        (Some(version), _) => refuse(format!("this is OpenAPI `{}`", clipped(version))),
        (_, Some(version)) => refuse(format!("this is Swagger `{}`", clipped(version))),
        (None, None) => refuse(other_format(root)),
    }
}

/// What a text is that is no OpenAPI.
fn other_format(root: Node<'_>) -> String {
    let has = |key: &str| root.get(key).is_some();
    let what = match root.kind() {
        Kind::Mapping if has("asyncapi") => "an AsyncAPI document",
        Kind::Mapping if has("item") && has("info") => "a Postman collection",
        Kind::Mapping if has("swaggerVersion") => "a Swagger 1 document",
        Kind::Mapping if has("log") => "a HAR archive",
        Kind::Mapping if has("restap_version") => "a RESTAP catalog",
        Kind::Mapping if has("data") && root.get("data").is_some_and(|it| it.get("__schema").is_some()) => {
            "a GraphQL schema"
        }
        Kind::Mapping if has("resources") && has("rootUrl") => "a Google discovery document",
        Kind::Mapping => "no OpenAPI document: it has neither `openapi` nor `swagger`",
        Kind::Null => "an empty document",
        _ => "no OpenAPI document: it is no mapping",
    };
    format!("this is {what}")
}
