//! What of a service's answer its caller is shown.

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap};
use http::{HeaderValue, Method};
use ring::digest::{SHA256, digest};
use serde_json::{Map, Value, json};

use crate::net::{self, Response};

/// Bytes of an answer that are read.
pub(super) const BODY_MAX: usize = 1 << 20;

/// Characters of its text that are shown.
pub(super) const TEXT_MAX: usize = 100_000;

/// Characters of a header that are shown.
const HEADER_MAX: usize = 1000;

/// Headers that are shown.
const SHOWN: [&str; 10] = [
    "location",
    "retry-after",
    "www-authenticate",
    "link",
    "etag",
    "last-modified",
    "ratelimit-remaining",
    "ratelimit-reset",
    "x-ratelimit-remaining",
    "x-ratelimit-reset",
];

/// Media types of `application/` that are text.
const TEXTUAL: [&str; 9] =
    ["json", "xml", "javascript", "ecmascript", "x-www-form-urlencoded", "yaml", "x-yaml", "graphql", "x-ndjson"];

/// A body, or the beginning of one.
#[derive(Default)]
pub(super) struct Body {
    bytes: Bytes,
    cut: bool,
}

impl Body {
    /// Reads at most [`BODY_MAX`] bytes; whatever follows is not waited for, and its connection ends with the response.
    pub(super) async fn read(response: &mut Response) -> Result<Self, net::Error> {
        let mut bytes = BytesMut::new();
        while let Some(chunk) = response.chunk().await? {
            let room = BODY_MAX - bytes.len();
            bytes.extend_from_slice(chunk.get(..room).unwrap_or(&chunk));
            if chunk.len() > room {
                return Ok(Self { bytes: bytes.freeze(), cut: true });
            }
        }
        Ok(Self { bytes: bytes.freeze(), cut: false })
    }

    /// `content_type`, `headers`, `text` or `sha256`, `bytes`, `truncated`.
    pub(super) fn describe(&self, method: &Method, headers: &HeaderMap, into: &mut Map<String, Value>) {
        let content_type = headers.get(CONTENT_TYPE).map(text_of);
        let content_type = content_type.as_deref();
        into.insert("content_type".into(), json!(content_type));
        into.insert("headers".into(), shown(headers).into());
        let mut cut = self.cut;
        if *method == Method::HEAD || self.is_text(content_type, headers) {
            let text = String::from_utf8_lossy(&self.bytes);
            let end = text.char_indices().nth(TEXT_MAX).map(|(at, _)| at);
            cut |= end.is_some();
            into.insert("text".into(), json!(end.and_then(|end| text.get(..end)).unwrap_or(&text)));
        } else {
            let hash = digest(&SHA256, &self.bytes);
            let hex = hash.as_ref().iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"));
            into.insert("sha256".into(), json!(hex));
        }
        into.insert("bytes".into(), json!(self.bytes.len()));
        into.insert("truncated".into(), json!(cut));
    }

    fn is_text(&self, content_type: Option<&str>, headers: &HeaderMap) -> bool {
        let coded =
            headers.get_all(CONTENT_ENCODING).iter().any(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity"));
        match content_type {
            // It was not asked for, and is not undone.
            _ if coded && !self.bytes.is_empty() => false,
            Some(kind) => is_text_type(kind),
            None => !self.bytes.contains(&0) && self.is_utf8(),
        }
    }

    /// Whether the bytes are UTF-8; a character that was cut in two counts as one.
    fn is_utf8(&self) -> bool {
        match std::str::from_utf8(&self.bytes) {
            Ok(_) => true,
            Err(error) => self.cut && error.error_len().is_none(),
        }
    }
}

fn is_text_type(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match essence.split_once('/') {
        Some(("text", _)) => true,
        Some(("application", kind)) => TEXTUAL.contains(&kind) || kind.ends_with("+json") || kind.ends_with("+xml"),
        _ => false,
    }
}

fn shown(headers: &HeaderMap) -> Map<String, Value> {
    let of = |name: &str| {
        let values: Vec<String> = headers.get_all(name).iter().map(text_of).collect();
        (!values.is_empty()).then(|| values.join(", ").chars().take(HEADER_MAX).collect::<String>())
    };
    SHOWN.iter().filter_map(|name| Some(((*name).to_owned(), json!(of(name)?)))).collect()
}

/// UTF-8 where it is, else Latin-1, which every byte is.
pub(super) fn text_of(value: &HeaderValue) -> String {
    match std::str::from_utf8(value.as_bytes()) {
        Ok(text) => text.to_owned(),
        Err(_) => value.as_bytes().iter().map(|byte| char::from(*byte)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(headers: &[(&'static str, &str)], bytes: impl Into<Bytes>, cut: bool) -> Value {
        let headers: HeaderMap = headers
            .iter()
            .map(|(name, value)| {
                (http::HeaderName::from_static(name), HeaderValue::from_bytes(value.as_bytes()).unwrap())
            })
            .collect();
        let mut into = Map::new();
        Body { bytes: bytes.into(), cut }.describe(&Method::GET, &headers, &mut into);
        into.into()
    }

    #[test]
    fn text_and_binary_are_told_apart_by_type_and_without_one_by_content() {
        for kind in [
            "text/html",
            "TEXT/x; charset=latin1",
            "application/json",
            "application/problem+json",
            "application/atom+xml",
            "application/yaml",
        ] {
            assert!(is_text_type(kind), "{kind}");
        }
        for kind in ["image/svg+xml", "application/octet-stream", "application/pdf", "json", ""] {
            assert!(!is_text_type(kind), "{kind}");
        }
        assert_eq!(described(&[], "h\u{e9}", false)["text"], "h\u{e9}");
        assert!(described(&[], "a\0b", false)["text"].is_null());
        assert!(described(&[], &b"\xff\xfe"[..], false)["sha256"].is_string());
        assert_eq!(described(&[], &b"a\xc3"[..], true)["text"], "a\u{fffd}");
        assert_eq!(described(&[("content-type", "text/plain")], &b"\xff"[..], false)["text"], "\u{fffd}");
        let coded = described(&[("content-type", "text/plain"), ("content-encoding", "gzip")], "x", false);
        assert_eq!(coded["sha256"], "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881");
    }

    #[test]
    fn a_text_is_cut_by_characters() {
        let text = described(&[("content-type", "text/plain")], "\u{e9}".repeat(TEXT_MAX + 1), false);
        assert_eq!(text["text"].as_str().unwrap().chars().count(), TEXT_MAX);
        assert_eq!((&text["truncated"], &text["bytes"]), (&json!(true), &json!(2 * (TEXT_MAX + 1))));
        let whole = described(&[("content-type", "text/plain")], "a".repeat(TEXT_MAX), false);
        assert_eq!(whole["truncated"], false);
    }

    #[test]
    fn a_few_headers_are_shown() {
        let long = "x".repeat(2000);
        let shown = described(&[("link", "<a>"), ("link", "<b>"), ("set-cookie", "a=b"), ("etag", &long)], "", false);
        assert_eq!(shown["headers"], json!({"link": "<a>, <b>", "etag": "x".repeat(HEADER_MAX)}));
        let keys: Vec<&String> = shown.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["content_type", "headers", "text", "bytes", "truncated"]);
    }
}
