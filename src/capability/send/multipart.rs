//! `multipart/form-data` (RFC 7578).

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use http::HeaderValue;
use serde_json::Value;

use super::super::settings::Encoding;
use super::super::style::{self, Form};
use super::Unsendable;
use super::form::{Fields, object};
use crate::restap::catalog::Style;

/// Padding is what callers leave out.
const LENIENT: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT);

/// One part.
struct Part {
    name: String,
    filename: Option<String>,
    media_type: Option<String>,
    body: Vec<u8>,
}

/// The body and its `Content-Type`.
pub(super) fn write(fields: &Fields, value: &Value) -> Result<(Vec<u8>, HeaderValue), Unsendable> {
    let mut parts = Vec::new();
    for (name, value) in object(value)? {
        let field = fields.get(name);
        let by_default = Encoding::default();
        let encoding = field.map_or(&by_default, |field| &field.encoding);
        match (value, field.and_then(|field| field.form.as_ref())) {
            (Value::Null, _) => {}
            (value, Some(form)) if form.style != Style::Json => styled(form, name, value, encoding, &mut parts),
            (Value::Array(items), None) if encoding.binary || items.iter().all(is_plain) => {
                for item in items {
                    parts.push(part(name, item, encoding)?);
                }
            }
            (value, _) => parts.push(part(name, value, encoding)?),
        }
    }
    Ok(joined(&parts))
}

fn is_plain(value: &Value) -> bool {
    !value.is_array() && !value.is_object()
}

/// Pairs of a style are parts, decoded.
fn styled(form: &Form, name: &str, value: &Value, encoding: &Encoding, parts: &mut Vec<Part>) {
    let mut pairs = Vec::new();
    form.push_pairs(name, value, &mut pairs);
    for pair in &pairs {
        parts.push(Part {
            name: super::super::query::name(pair).into_owned(),
            filename: None,
            media_type: encoding.content_type.clone(),
            body: super::super::query::value(pair).into_owned().into_bytes(),
        });
    }
}

fn part(name: &str, value: &Value, encoding: &Encoding) -> Result<Part, Unsendable> {
    if encoding.binary {
        return file(name, value, encoding);
    }
    let json = !is_plain(value) || encoding.style == Some(Style::Json);
    let body = if json { value.to_string() } else { style::text(value).into_owned() };
    let media_type = encoding.content_type.clone().or_else(|| json.then(|| "application/json".to_owned()));
    Ok(Part { name: name.to_owned(), filename: encoding.filename.clone(), media_type, body: body.into_bytes() })
}

/// Bytes: base64 or a `data:` URL, or an object that also says the file's name and its media type.
fn file(name: &str, value: &Value, encoding: &Encoding) -> Result<Part, Unsendable> {
    let text = |key: &str| value.get(key).and_then(Value::as_str);
    let data = value.as_str().or_else(|| text("data"));
    let data = data.ok_or_else(|| {
        Unsendable::at(
            name,
            "must be the file's bytes in base64, or {\"data\": base64, \"filename\", \"content_type\"}",
        )
    })?;
    let (of_url, data) = match data.strip_prefix("data:").and_then(|url| url.split_once(',')) {
        Some((head, data)) => (head.strip_suffix(";base64"), data),
        None => (None, data),
    };
    let digits: String = data.split_ascii_whitespace().collect();
    let engine = if digits.contains(['-', '_']) { &URL_SAFE } else { &STANDARD };
    let body = engine.decode(digits).map_err(|_| Unsendable::at(name, "must be base64, and is not"))?;
    let media_type = text("content_type").or(of_url.filter(|media_type| !media_type.is_empty()));
    let media_type = media_type.or(encoding.content_type.as_deref()).unwrap_or("application/octet-stream");
    if media_type.bytes().any(|byte| !(b' '..=b'~').contains(&byte)) {
        return Err(Unsendable::at(name, "has a `content_type` that is no media type"));
    }
    Ok(Part {
        name: name.to_owned(),
        filename: Some(text("filename").or(encoding.filename.as_deref()).unwrap_or(name).to_owned()),
        media_type: Some(media_type.to_owned()),
        body,
    })
}

/// The boundary is a digest of all that stands between, which can't hold it.
fn joined(parts: &[Part]) -> (Vec<u8>, HeaderValue) {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(&part.body);
    }
    let boundary = format!("restap-{}", hasher.finalize().to_hex().get(..40).unwrap_or_default());
    let length: usize = parts.iter().map(|part| part.body.len() + 256).sum();
    let mut body = Vec::with_capacity(length);
    for part in parts {
        body.extend_from_slice(format!("--{boundary}\r\n").as_bytes());
        body.extend_from_slice(format!("Content-Disposition: form-data; name=\"{}\"", quoted(&part.name)).as_bytes());
        if let Some(filename) = &part.filename {
            body.extend_from_slice(format!("; filename=\"{}\"", quoted(filename)).as_bytes());
        }
        if let Some(media_type) = &part.media_type {
            body.extend_from_slice(format!("\r\nContent-Type: {media_type}").as_bytes());
        }
        body.extend_from_slice(b"\r\n\r\n");
        body.extend_from_slice(&part.body);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    let media_type = HeaderValue::try_from(format!("multipart/form-data; boundary={boundary}"));
    (body, media_type.unwrap_or(HeaderValue::from_static("multipart/form-data")))
}

/// As browsers write names: what would end the header or its quotes is percent-encoded.
fn quoted(text: &str) -> String {
    text.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A").replace('\0', "%00")
}
