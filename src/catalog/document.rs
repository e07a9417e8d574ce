//! `Document`: bytes that are served again and again, and how a request for them is answered.

use std::fmt;
use std::io::Write;
use std::sync::OnceLock;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::{HeaderMap, HeaderValue, header};
use serde::Serialize;

use crate::restap::accept::accepts_gzip;

/// Bytes from which a body is worth compressing.
const COMPRESSED_BYTES_MIN: usize = 256;

/// A body with its media type and its entity tag.
#[derive(Debug)]
pub struct Document {
    media_type: &'static str,
    body: Bytes,
    gzip: OnceLock<Bytes>,
    digest: Box<str>,
}

/// A strong entity tag (RFC 9110, section 8.8.3): of the content, and another one for its compressed form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ETag(Box<str>);

/// What answers a request for a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selected {
    /// The caller has it: 304 with this tag.
    NotModified(ETag),
    /// The whole body: 200.
    Body {
        /// As they are sent.
        bytes: Bytes,
        /// Of this form.
        etag: ETag,
        /// Whether `Content-Encoding: gzip` belongs to it.
        gzip: bool,
    },
}

impl Document {
    /// Takes a body. It is compressed when that is first asked for; [`Self::compressed`] does it now.
    pub fn new(media_type: &'static str, body: Vec<u8>) -> Self {
        let digest = blake3::hash(&body).to_hex();
        let digest = digest.get(..32).unwrap_or_default().into();
        Self { media_type, body: body.into(), gzip: OnceLock::new(), digest }
    }

    /// A JSON document.
    pub fn json(value: &impl Serialize) -> Self {
        // Values of these types have string keys and finite numbers only, so that nothing in them fails to serialise.
        Self::new("application/json", serde_json::to_vec(value).unwrap_or_default())
    }

    /// The same, with its compressed form made.
    pub fn compressed(self) -> Self {
        if self.body.len() >= COMPRESSED_BYTES_MIN {
            self.gzip.get_or_init(|| compress(&self.body));
        }
        self
    }

    /// For `Content-Type`.
    pub fn media_type(&self) -> &'static str {
        self.media_type
    }

    /// The body, uncompressed.
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// Decides by `If-None-Match` and `Accept-Encoding`. Whatever it decides, the answer needs
    /// `Vary: Accept-Encoding`.
    pub fn select(&self, request: &HeaderMap) -> Selected {
        let gzip = self.body.len() >= COMPRESSED_BYTES_MIN && accepts_gzip(request);
        let etag = self.etag(gzip);
        if let Some(etag) = [etag.clone(), self.etag(!gzip)].into_iter().find(|etag| etag.is_known(request)) {
            return Selected::NotModified(etag);
        }
        let bytes = if gzip { self.gzip.get_or_init(|| compress(&self.body)) } else { &self.body };
        Selected::Body { bytes: bytes.clone(), etag, gzip }
    }

    fn etag(&self, gzip: bool) -> ETag {
        ETag(format!("\"{}{}\"", self.digest, if gzip { "-gzip" } else { "" }).into())
    }
}

impl ETag {
    /// With its quotes.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// With its quotes.
    pub fn header_value(&self) -> HeaderValue {
        HeaderValue::from_str(&self.0).unwrap_or(HeaderValue::from_static("\"\""))
    }

    /// Whether `If-None-Match` names it. `W/` makes no difference here (RFC 9110, section 13.1.2).
    fn is_known(&self, request: &HeaderMap) -> bool {
        let values = request.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
        values.into_iter().any(|value| value.trim() == "*" || tags(value).any(|tag| tag == self.as_str()))
    }
}

impl fmt::Display for ETag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The tags of a list with their quotes and without `W/`. A comma may stand within one, so it is quotes that count.
fn tags(list: &str) -> impl Iterator<Item = &str> {
    let mut rest = list;
    std::iter::from_fn(move || {
        let (_, from_quote) = rest.split_at_checked(rest.find('"')?)?;
        let length = from_quote.strip_prefix('"')?.find('"')? + 2;
        let (tag, after) = from_quote.split_at_checked(length)?;
        rest = after;
        Some(tag)
    })
}

fn compress(body: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::with_capacity(body.len() / 4), Compression::default());
    // Nothing fails when the output is memory.
    drop(encoder.write_all(body));
    encoder.finish().unwrap_or_default().into()
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn request(headers: &[(header::HeaderName, &'static str)]) -> HeaderMap {
        headers.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect()
    }

    fn encoded(accept: &'static str) -> bool {
        let document = Document::new("text/plain", vec![b'a'; 1000]);
        matches!(document.select(&request(&[(header::ACCEPT_ENCODING, accept)])), Selected::Body { gzip: true, .. })
    }

    fn unchanged(document: &Document, tags: &str) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(header::IF_NONE_MATCH, HeaderValue::from_str(tags).unwrap());
        matches!(document.select(&headers), Selected::NotModified(_))
    }

    #[test]
    fn gzip_is_given_where_it_is_accepted_and_not_less_than_the_plain_form() {
        for accept in ["gzip", "GZIP", "x-gzip", "deflate, gzip;q=0.5", "*", "br, *;q=0.1", "gzip, identity"] {
            assert!(encoded(accept), "{accept}");
        }
        for accept in ["", "br", "gzip;q=0", "*;q=0", "*, gzip;q=0", "gzip;q=0.5, identity", "gzip;q=2"] {
            assert!(!encoded(accept), "{accept}");
        }
    }

    #[test]
    fn a_small_body_is_never_compressed() {
        let small = Document::new("text/plain", vec![b'a'; 255]).compressed();
        let gzip = request(&[(header::ACCEPT_ENCODING, "gzip")]);
        assert!(matches!(small.select(&gzip), Selected::Body { gzip: false, .. }));
    }

    #[test]
    fn what_is_compressed_is_the_body() {
        let document = Document::new("text/plain", b"all work and no play ".repeat(100)).compressed();
        let gzip = request(&[(header::ACCEPT_ENCODING, "gzip")]);
        let Selected::Body { bytes, .. } = document.select(&gzip) else { panic!("a body") };
        let mut plain = Vec::new();
        flate2::read::GzDecoder::new(&*bytes).read_to_end(&mut plain).unwrap();
        assert_eq!(plain, **document.body());
        assert!(bytes.len() < 100);
    }

    #[test]
    fn each_form_has_a_tag_of_its_own_and_of_the_content_alone() {
        let make = || Document::new("text/plain", vec![b'a'; 1000]);
        assert_eq!(make().etag(true), make().etag(true));
        assert_ne!(make().etag(true), make().etag(false));
        assert_ne!(make().etag(false), Document::new("text/plain", vec![b'b'; 1000]).etag(false));
    }

    #[test]
    fn who_has_it_gets_no_body() {
        let document = Document::new("text/plain", b"hello".to_vec());
        let tag = document.etag(false);
        for known in [
            tag.to_string(),
            format!("W/{tag}"),
            format!("\"a,b\", {tag}"),
            format!("  \"x\",W/\"y\" ,{tag},\"z\""),
            document.etag(true).to_string(),
            "*".to_owned(),
            " * ".to_owned(),
        ] {
            assert!(unchanged(&document, &known), "{known}");
        }
        for unknown in ["", "\"\"", "x", "\"x\"", "\"*\"", "W/", "\"", tag.as_str().trim_matches('"')] {
            assert!(!unchanged(&document, unknown), "{unknown}");
        }
    }
}
