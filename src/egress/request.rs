//! `Request`: what the tool's caller asks for, judged argument by argument. The first that is wrong is told.

use bytes::Bytes;
use http::Method;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use super::refused::{Code, Refused};
use crate::net::{self, WebUrl};
use crate::restap::hop_count;

/// The methods, as they are listed.
pub(super) const METHODS: [Method; 7] =
    [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::OPTIONS];

/// Bytes of a body that is sent.
pub(super) const BODY_MAX: usize = 1 << 20;

/// Headers of a request, and the bytes of all together: more than servers take.
const HEADERS_MAX: usize = 50;
const HEADER_BYTES_MAX: usize = 64 << 10;

/// Seconds for the whole exchange.
pub(super) const TIMEOUT_DEFAULT: u64 = 30;
pub(super) const TIMEOUT_MAX: u64 = 60;

/// Headers that the tool sets itself: about the message's frame, about who has signed it, about paying, and about loops.
/// Those that begin with `proxy-` are its own too.
const OWN: [&str; 18] = [
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "upgrade",
    "te",
    "trailer",
    "accept-encoding",
    "signature",
    "signature-input",
    "signature-agent",
    "content-digest",
    "x-payment-token",
    "x-payment",
    "payment-authorization",
    "robutler-terms-accepted",
    "cdn-loop",
];

/// Headers that another origin may see after a redirect.
const HARMLESS: [HeaderName; 3] = [ACCEPT, http::header::ACCEPT_LANGUAGE, USER_AGENT];

const ACCEPTED: HeaderValue = HeaderValue::from_static("application/json, text/plain;q=0.9, */*;q=0.8");

/// One request that may be sent, as far as its arguments tell.
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) method: Method,
    pub(super) url: WebUrl,
    pub(super) headers: HeaderMap,
    /// Empty where there is none.
    pub(super) body: Bytes,
    /// Seconds.
    pub(super) timeout: u64,
    /// Every text of it as it was written, for the search for credentials.
    written: Vec<String>,
}

impl Request {
    pub(super) fn parse(arguments: &Map<String, Value>) -> Result<Self, Refused> {
        let given = |name: &str| arguments.get(name).filter(|value| !value.is_null());
        let method = method(given("method"))?;
        let timeout = timeout(given("timeout_seconds"))?;
        let body = match given("body") {
            None => "",
            Some(Value::String(body)) => body.as_str(),
            Some(_) => return Err(Refused::invalid("body must be a string.")),
        };
        if !body.is_empty() && matches!(method, Method::GET | Method::HEAD) {
            return Err(Refused::invalid("A GET or HEAD request has no body."));
        }
        if body.len() > BODY_MAX {
            return Err(Refused::new(Code::TooLarge, "The request body is larger than 1 MiB."));
        }
        let mut written = Vec::new();
        let headers = headers(given("headers"), &mut written)?;
        let url = given("url").and_then(Value::as_str).unwrap_or_default();
        written.push(url.to_owned());
        let url = url.parse::<WebUrl>()?;
        let mut request =
            Self { method, url, headers, body: Bytes::copy_from_slice(body.as_bytes()), timeout, written };
        request.fill_in(body);
        Ok(request)
    }

    /// Adds what a request has whose caller does not say otherwise.
    fn fill_in(&mut self, body: &str) {
        self.headers.entry(USER_AGENT).or_insert(HeaderValue::from_static(net::USER_AGENT));
        self.headers.entry(ACCEPT).or_insert(ACCEPTED);
        if !body.is_empty() {
            let json = body.trim().starts_with(['{', '[']) && serde_json::from_str::<IgnoredAny>(body.trim()).is_ok();
            let kind = if json { "application/json" } else { "text/plain; charset=utf-8" };
            self.headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static(kind));
        }
        self.headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    }

    /// Every text that would leave with the request.
    pub(super) fn texts(&self) -> impl Iterator<Item = &[u8]> {
        let written = self.written.iter().map(String::as_bytes);
        written.chain([self.url.as_str().as_bytes(), &self.body])
    }

    /// Goes on to where a redirect leads. What another origin need not know stays behind, also on the way back.
    pub(super) fn follow(&mut self, url: WebUrl) {
        if url.origin() != self.url.origin() {
            let kept = HARMLESS.iter().filter_map(|name| Some((name.clone(), self.headers.get(name)?.clone())));
            self.headers = kept.collect();
            self.headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        }
        self.url = url;
    }

    /// The request of one hop, with what is set for it alone.
    pub(super) fn hop(&self, loops: &HeaderValue, signature: Vec<(&'static str, String)>) -> Option<net::Request> {
        let mut headers = self.headers.clone();
        headers.insert(HOST, HeaderValue::try_from(self.url.authority()).ok()?);
        headers.insert(hop_count::HEADER, loops.clone());
        for (name, value) in signature {
            headers.insert(HeaderName::from_static(name), HeaderValue::try_from(value).ok()?);
        }
        Some(net::Request {
            method: self.method.clone(),
            target: self.url.target().clone(),
            headers,
            body: self.body.clone(),
            coding: net::Coding::AsSent,
            // The whole exchange has a deadline.
            timeouts: net::Timeouts::default(),
        })
    }
}

fn method(value: Option<&Value>) -> Result<Method, Refused> {
    let name = value.and_then(Value::as_str).map(str::to_uppercase).unwrap_or_default();
    METHODS.iter().find(|method| method.as_str() == name).cloned().ok_or_else(|| {
        let names: Vec<&str> = METHODS.iter().map(Method::as_str).collect();
        Refused::invalid(format!("method must be one of {}.", names.join(", ")))
    })
}

fn timeout(value: Option<&Value>) -> Result<u64, Refused> {
    let seconds = match value {
        None => Some(TIMEOUT_DEFAULT),
        Some(value) => {
            let whole = || value.as_f64().filter(|seconds| seconds.fract() == 0.0 && *seconds >= 0.0);
            value.as_u64().or_else(|| whole().map(|seconds| seconds as u64))
        }
    };
    seconds
        .filter(|seconds| (1..=TIMEOUT_MAX).contains(seconds))
        .ok_or_else(|| Refused::invalid(format!("timeout_seconds must be a whole number from 1 to {TIMEOUT_MAX}.")))
}

fn headers(value: Option<&Value>, written: &mut Vec<String>) -> Result<HeaderMap, Refused> {
    let malformed = || Refused::invalid("Each header must be a \"Name: value\" string.");
    let lines = match value {
        None => return Ok(HeaderMap::new()),
        Some(Value::Array(lines)) => lines,
        Some(_) => return Err(malformed()),
    };
    if lines.len() > HEADERS_MAX {
        return Err(Refused::invalid(format!("At most {HEADERS_MAX} headers.")));
    }
    let mut headers = HeaderMap::with_capacity(lines.len() + 8);
    let mut bytes = 0;
    for line in lines {
        let line = line.as_str().ok_or_else(malformed)?;
        let (name, value) = line.split_once(':').ok_or_else(malformed)?;
        let name = name.trim();
        let parsed = HeaderName::from_bytes(name.as_bytes()).map_err(|_| malformed())?;
        let latin1: Option<Vec<u8>> = value.trim().chars().map(|c| u8::try_from(u32::from(c)).ok()).collect();
        let value = latin1.and_then(|bytes| HeaderValue::from_bytes(&bytes).ok()).ok_or_else(malformed)?;
        // Programs behind CGI, WSGI and the like read both spellings as one.
        let read_as = parsed.as_str().replace('_', "-");
        if OWN.contains(&read_as.as_str()) || read_as.starts_with("proxy-") {
            let message = format!("{name} is set by this tool, not by the request.");
            return Err(Refused::new(Code::ForbiddenHeader, message));
        }
        bytes += name.len() + value.len();
        if bytes > HEADER_BYTES_MAX {
            return Err(Refused::new(Code::TooLarge, "The request headers are larger than 64 KiB."));
        }
        written.push(line.to_owned());
        headers.append(parsed, value);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests;
