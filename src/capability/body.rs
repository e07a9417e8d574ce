//! `Received`: what a request's body is, once it has been read whole.

use http::{HeaderMap, header};
use serde_json::Value;

use super::json;
use super::media_type::MediaType;
use super::send::Sender;
use super::validate::Refused;

/// A request's body.
#[derive(Debug, Clone, PartialEq)]
pub enum Received {
    /// There is none.
    Nothing,
    /// JSON.
    Json(Value),
    /// Another form that the capability takes as it is.
    Other,
}

/// Reads a body by what its head says of it. Without a `Content-Type` it is JSON.
///
/// One in another form than JSON passes where the capability lists the form: there is nothing to hold it against.
pub(super) fn read(
    content_types: &[String],
    sender: &Sender,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<Received, Refused> {
    if body.is_empty() {
        return Ok(Received::Nothing);
    }
    if let Some(content_type) = headers.get(header::CONTENT_TYPE) {
        let media_type = MediaType::of_header(content_type);
        let listed = || {
            content_types
                .iter()
                .map(|listed| MediaType::of(listed))
                .any(|listed| listed.covers(&media_type) || listed.is_json() && media_type.is_json())
        };
        match media_type.is_json() {
            true if content_types.is_empty() || listed() => {}
            false if !content_types.is_empty() && listed() || sender.converts() && sender.takes(&media_type) => {
                return Ok(Received::Other);
            }
            _ => {
                let first = content_types.first().map_or("application/json", String::as_str);
                return Err(Refused::MediaType(first.to_owned()));
            }
        }
    }
    let plain = |coding: &header::HeaderValue| coding.as_bytes().eq_ignore_ascii_case(b"identity");
    if !headers.get_all(header::CONTENT_ENCODING).iter().all(plain) {
        return Err(Refused::Json("it is compressed; send it without Content-Encoding".to_owned()));
    }
    json::parse(body).map(Received::Json).map_err(|error| Refused::Json(error.to_string()))
}
