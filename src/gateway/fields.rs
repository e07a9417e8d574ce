//! Single header fields and query parameters, read strictly.

use http::HeaderMap;
use http::header::{CONTENT_TYPE, HeaderName};

use super::error::Refusal;
use crate::restap::talk::is_token;
use crate::restap::{ErrorCode, SESSION_HEADER, SessionId};

/// A header that may stand once.
pub(super) fn single<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h [u8]>, Refusal> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (value, None) => Ok(value.map(http::HeaderValue::as_bytes)),
        _ => Err(Refusal::new(ErrorCode::BadRequest, format!("the header {name} stands more than once; send it once"))),
    }
}

/// The session of `Restap-Session-Id`.
pub(super) fn session_header(headers: &HeaderMap) -> Result<Option<SessionId>, Refusal> {
    let mut values = headers.get_all(SESSION_HEADER).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(id), None) => {
            id.to_str().ok().and_then(|id| SessionId::parse(id).ok()).map(Some).ok_or_else(invalid_session)
        }
        (Some(_), Some(_)) => Err(invalid_session()),
    }
}

/// `Idempotency-Key`: 1 to 255 characters of visible ASCII.
pub(super) fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Refusal> {
    let Some(key) = single(headers, &HeaderName::from_static("idempotency-key"))? else { return Ok(None) };
    let key = std::str::from_utf8(key).ok().filter(|key| is_token(key));
    key.map(|key| Some(key.to_owned())).ok_or_else(|| {
        let message = "Idempotency-Key must be 1 to 255 visible ASCII characters";
        Refusal::new(ErrorCode::InvalidField, message)
    })
}

pub(super) fn invalid_session() -> Refusal {
    let message = "the session id must be sent once and match ^[A-Za-z0-9._-]{16,128}$";
    Refusal::new(ErrorCode::InvalidSessionId, message)
}

/// A body must call itself JSON: a form or plain text is what a foreign web page can send without being asked first.
pub(super) fn require_json(headers: &HeaderMap) -> Result<(), Refusal> {
    let media_type = single(headers, &CONTENT_TYPE)?.unwrap_or_default();
    let essence = media_type.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    if essence.eq_ignore_ascii_case(b"application/json") {
        return Ok(());
    }
    let message = "send the body as JSON and say so; with curl: -H 'Content-Type: application/json'";
    Err(Refusal::new(ErrorCode::UnsupportedMediaType, message))
}

/// The parameters of a query string that a route knows; each may stand once.
#[derive(Debug, Default)]
pub(super) struct Query {
    found: Vec<(&'static str, String)>,
}

impl Query {
    /// Reads `query` (without its `?`), of which only `known` names count.
    pub(super) fn read(query: Option<&str>, known: &[&'static str]) -> Result<Self, Refusal> {
        let mut read = Self::default();
        for pair in query.unwrap_or_default().split('&') {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            // A name that is no text is none of ours.
            let Some(name) = decode(name).ok().and_then(|name| known.iter().find(|known| **known == name)) else {
                continue;
            };
            if read.get(name).is_some() {
                return Err(match *name {
                    "session_id" => invalid_session(),
                    _ => Refusal::new(ErrorCode::BadRequest, format!("the parameter {name} stands more than once")),
                });
            }
            read.found.push((name, decode(value)?));
        }
        Ok(read)
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.found.iter().find(|(found, _)| *found == name).map(|(_, value)| value.as_str())
    }
}

/// A name or value as forms encode it.
fn decode(text: &str) -> Result<String, Refusal> {
    let spaced = text.replace('+', " ");
    match percent_encoding::percent_decode_str(&spaced).decode_utf8() {
        Ok(decoded) => Ok(decoded.into_owned()),
        Err(_) => {
            Err(Refusal::new(ErrorCode::BadRequest, "a query parameter is not valid UTF-8; percent-encode it as UTF-8"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_json_that_calls_itself_json_is_taken() {
        let with = |value: &str| HeaderMap::from_iter([(CONTENT_TYPE, value.parse().unwrap())]);
        for value in ["application/json", "Application/JSON; charset=utf-8"] {
            assert!(require_json(&with(value)).is_ok(), "{value}");
        }
        for value in
            ["", "text/plain", "application/x-www-form-urlencoded", "application/problem+json", "application/jsonp"]
        {
            assert_eq!(require_json(&with(value)).unwrap_err().code, ErrorCode::UnsupportedMediaType, "{value}");
        }
        assert_eq!(require_json(&HeaderMap::new()).unwrap_err().code, ErrorCode::UnsupportedMediaType);
    }

    #[test]
    fn a_repeated_parameter_is_refused_and_unknown_ones_are_not_looked_at() {
        let known = &["since", "session_id"];
        let query = Query::read(Some("since=1%30&x=1&x=2&%ff=1"), known).unwrap();
        assert_eq!((query.get("since"), query.get("x")), (Some("10"), None));
        assert_eq!(Query::read(Some("since=1&since=1"), known).unwrap_err().code, ErrorCode::BadRequest);
        assert_eq!(
            Query::read(Some("session_id=a&session_id=b"), known).unwrap_err().code,
            ErrorCode::InvalidSessionId
        );
        assert_eq!(Query::read(Some("since=%ff"), known).unwrap_err().code, ErrorCode::BadRequest);
    }
}
