//! Which headers of a request reach the service, and which of its answer reach the caller.

use std::collections::HashSet;
use std::net::IpAddr;

use http::StatusCode;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};

use crate::restap::catalog::{Location, Parameter};
use crate::restap::{HopCount, SESSION_HEADER, hop_count};

use super::entry::{Body, Capability};
use super::location::Return;
use super::media_type::MediaType;
use super::params::Params;
use super::path::InvalidPath;
use super::query;
use super::service::{CookiePolicy, Service};
use super::settings::Settings;
use super::style::Form;

/// What the gateway knows of a request beside its head.
#[derive(Debug, Clone)]
pub struct Arrival<'a> {
    /// The peer's address; `None` on a unix socket.
    pub peer: Option<IpAddr>,
    /// Whether the peer is one of `trusted_proxies`, so that what it says of the caller is believed.
    pub proxy: Proxy,
    /// The scheme the request came by.
    pub scheme: Scheme,
    /// Its `Host` or `:authority`.
    pub host: &'a str,
    /// As it stands in the answer and the log too.
    pub request_id: &'a HeaderValue,
    /// The trace that the request to the service belongs to (W3C Trace Context).
    pub traceparent: Option<&'a HeaderValue>,
    /// Who calls; `None` for anonymous callers.
    pub caller: Option<Caller<'a>>,
    /// How many gateways it came through.
    pub hops: &'a HopCount,
}

/// Whether a peer's word on the caller counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proxy {
    /// Its `Forwarded` and `X-Forwarded-*` are continued.
    Trusted,
    /// They are replaced.
    Unknown,
}

/// The scheme of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// Without TLS.
    Http,
    /// With TLS.
    Https,
}

/// A verified caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caller<'a> {
    /// How it is known, such as `api_key` or `jwt`.
    pub kind: &'a str,
    /// What it is called.
    pub name: &'a str,
}

/// The service answered 101 to a request that asked for no upgrade: 502 `upstream_error`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the service switched protocols, which it was not asked to")]
pub struct UnsolicitedUpgrade;

/// Fields of one connection (RFC 9110, section 7.6.1), whether nominated in `Connection` or not.
const HOP_BY_HOP: [&str; 10] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "proxy-authenticate",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "http2-settings",
];

/// What the service sees only where the route names it: credentials of the gateway, the session, and what some
/// frameworks take in place of the method and path that were routed, or CGI programs for their environment.
const WITHHELD: [&str; 12] = [
    "authorization",
    "cookie",
    SESSION_HEADER,
    "x-api-key",
    "api-key",
    "apikey",
    "x-http-method-override",
    "x-http-method",
    "x-method-override",
    "x-original-url",
    "x-rewrite-url",
    "proxy",
];

/// Claims about the caller's address that are no `X-Forwarded-*`; dropped unless the peer is trusted.
const ADDRESS_CLAIMS: [&str; 5] = ["forwarded", "x-real-ip", "x-client-ip", "true-client-ip", "cf-connecting-ip"];

/// What says more of the service than its answer, or speaks to browsers for the gateway's whole origin.
const WITHHELD_FROM_CALLERS: [&str; 6] =
    ["alt-svc", "clear-site-data", "server", "strict-transport-security", "x-powered-by", "x-request-id"];

const FORWARDED: HeaderName = header::FORWARDED;
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");
const CALLER: HeaderName = HeaderName::from_static("restap-caller");
const CALLER_KIND: HeaderName = HeaderName::from_static("restap-caller-kind");

/// The headers of the request to the service.
///
/// `Content-Length` stays as the caller sent it: whoever changes the body sets it anew, and whoever streams one that
/// came without it sends it chunked. Fails where a path parameter goes into a header that can't carry it.
pub fn request_headers(
    capability: &Capability,
    service: &Service,
    params: &Params,
    arrival: &Arrival<'_>,
    sent: &HeaderMap,
) -> Result<HeaderMap, InvalidPath> {
    let nominated = nominated(sent);
    let settings = capability.settings();
    let mut headers = HeaderMap::with_capacity(sent.len() + 16);
    for (name, value) in sent {
        let text = name.as_str();
        let withheld = text.contains('_') || WITHHELD.contains(&text) || text.starts_with("restap-");
        let passes = !nominated.contains(text)
            && !HOP_BY_HOP.contains(&text)
            && (!withheld || named(settings, name))
            && (arrival.proxy == Proxy::Trusted || !is_claim(text))
            && *name != header::HOST
            && (*name != header::EXPECT || capability.body() == Body::Passing);
        if passes {
            headers.append(name, value.clone());
        }
    }
    set_inputs(&mut headers, capability, sent);
    name_json(&mut headers, capability);
    if capability.receiver().maps() {
        // What is mapped is all of it, and plain.
        headers.remove(header::RANGE);
        headers.remove(header::IF_RANGE);
        headers.remove(header::ACCEPT_ENCODING);
        if let Some(accept) = capability.receiver().accept() {
            headers.insert(header::ACCEPT, accept);
        }
    }
    set_own(&mut headers, service, arrival, sent);
    for (name, value) in service.headers() {
        let own = beside_inputs(capability, &headers, name, value);
        headers.insert(name, own.unwrap_or_else(|| value.clone()));
    }
    for (name, value) in &capability.rewrite().headers {
        headers.insert(name, value.to_header(params)?);
    }
    Ok(headers)
}

/// The caller's headers that a mapping may see: those that could reach the service.
pub(super) fn forwarded(settings: &Settings, sent: &HeaderMap) -> HeaderMap {
    let passes = |name: &HeaderName| {
        let text = name.as_str();
        let withheld = text.contains('_') || WITHHELD.contains(&text) || text.starts_with("restap-");
        !HOP_BY_HOP.contains(&text) && (!withheld || named(settings, name))
    };
    sent.iter().filter(|(name, _)| passes(name)).map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Whether the route names a header, to be forwarded or as an input.
fn named(settings: &Settings, name: &HeaderName) -> bool {
    let is_it = |parameter: &Parameter| {
        parameter.location == Location::Header && parameter.name.eq_ignore_ascii_case(name.as_str())
    };
    settings.route.forward_headers.contains(name) || settings.parameters.iter().any(is_it)
}

/// Writes inputs as the service wants them, and its cookies alone.
fn set_inputs(headers: &mut HeaderMap, capability: &Capability, sent: &HeaderMap) {
    let rewrite = capability.rewrite();
    for (name, form) in &rewrite.input_headers {
        let lines: Vec<_> = headers.get_all(name).iter().filter_map(|line| line.to_str().ok()).collect();
        if !lines.is_empty()
            && let Ok(value) = HeaderValue::from_str(&form.to_text(&form.of_text(&lines.join(","))))
        {
            headers.insert(name, value);
        }
    }
    let cookie = |(name, form): &(Box<str>, Form)| {
        let value = query::cookie(sent, name)?;
        Some(format!("{name}={}", form.to_text(&form.of_text(&value))))
    };
    let cookies: Vec<String> = rewrite.cookies.iter().filter_map(cookie).collect();
    if !cookies.is_empty()
        && !headers.contains_key(header::COOKIE)
        && let Ok(value) = HeaderValue::from_str(&cookies.join("; "))
    {
        headers.insert(header::COOKIE, value);
    }
}

/// JSON under a name that the service does not list goes to it under the one that it does.
fn name_json(headers: &mut HeaderMap, capability: &Capability) {
    let Some(sent) = headers.get(header::CONTENT_TYPE).map(MediaType::of_header) else { return };
    let mut listed = capability.settings().content_types.iter().map(|listed| MediaType::of(listed));
    if sent.is_json()
        && let Some(own) = capability.sender().json_type()
        && MediaType::of_header(own) != sent
        && !capability.settings().content_types.is_empty()
        && !listed.any(|listed| listed.covers(&sent))
    {
        headers.insert(header::CONTENT_TYPE, own.clone());
    }
}

/// The cookies of the service's own settings and those that are inputs, together.
fn beside_inputs(
    capability: &Capability,
    headers: &HeaderMap,
    name: &HeaderName,
    own: &HeaderValue,
) -> Option<HeaderValue> {
    if *name != header::COOKIE || capability.rewrite().cookies.is_empty() {
        return None;
    }
    let cookies = headers.get(name)?.to_str().ok()?;
    let mut joined = HeaderValue::from_str(&format!("{}; {cookies}", own.to_str().ok()?)).ok()?;
    joined.set_sensitive(true);
    Some(joined)
}

/// The headers of the answer to the caller; those of 1xx answers too.
///
/// A body's framing stays as the service had it but for `Transfer-Encoding`: a body without `Content-Length` is the
/// caller's connection's to frame.
pub fn response_headers(
    back: &Return<'_>,
    status: StatusCode,
    sent: &HeaderMap,
) -> Result<HeaderMap, UnsolicitedUpgrade> {
    if status == StatusCode::SWITCHING_PROTOCOLS {
        return Err(UnsolicitedUpgrade);
    }
    // RFC 9110, section 8.6: these have no body, and a length would be read as the next answer's bytes.
    let bodiless = status.is_informational() || status == StatusCode::NO_CONTENT;
    let nominated = nominated(sent);
    let mut headers = HeaderMap::with_capacity(sent.len() + 8);
    for (name, value) in sent {
        let text = name.as_str();
        let passes = !nominated.contains(text)
            && !HOP_BY_HOP.contains(&text)
            && !WITHHELD_FROM_CALLERS.contains(&text)
            && !text.starts_with("access-control-")
            && !text.starts_with("restap-")
            && (*name != header::SET_COOKIE || back.service.cookies() == CookiePolicy::Pass)
            && (*name != header::CONTENT_LENGTH || !bodiless);
        if !passes {
            continue;
        }
        if *name == header::CONTENT_LENGTH {
            headers.insert(name, one_length(value));
            continue;
        }
        let rewritten = (*name == header::LOCATION).then(|| back.location(value)).flatten();
        headers.append(name, rewritten.unwrap_or_else(|| value.clone()));
    }
    Ok(headers)
}

/// The length that a service may have repeated (RFC 9110, section 8.6): whoever read its answer has seen that the
/// repetitions are equal, and the caller gets one.
fn one_length(value: &HeaderValue) -> HeaderValue {
    let first = value.as_bytes().split(|byte| *byte == b',').next().unwrap_or_default();
    HeaderValue::from_bytes(first.trim_ascii()).unwrap_or_else(|_| value.clone())
}

/// Whether a header is the connection's own or frames its body, so that nobody but the gateway may set it.
pub(super) fn is_framing(name: &HeaderName) -> bool {
    HOP_BY_HOP.contains(&name.as_str()) || *name == header::CONTENT_LENGTH
}

/// Names in `Connection`. The body's length is never among them: without it the rest of the body would be read as
/// another request.
fn nominated(headers: &HeaderMap) -> HashSet<String> {
    let values = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let names = values.flat_map(|value| value.split(',')).map(|name| name.trim().to_ascii_lowercase());
    names.filter(|name| name != header::CONTENT_LENGTH.as_str()).collect()
}

fn is_claim(name: &str) -> bool {
    name.starts_with("x-forwarded-") || ADDRESS_CLAIMS.contains(&name)
}

/// Sets what the gateway says of itself and of the caller, in place of what the caller said.
fn set_own(headers: &mut HeaderMap, service: &Service, arrival: &Arrival<'_>, sent: &HeaderMap) {
    headers.insert(header::HOST, service.authority().clone());
    headers.insert(hop_count::HEADER, arrival.hops.next());
    headers.insert(REQUEST_ID, arrival.request_id.clone());
    set_trace(headers, arrival, sent);
    set_forwarded(headers, arrival);
    // Named in `forward_headers` or not, a caller never says who it is.
    set_caller(headers, arrival.caller);
}

/// Says who calls, in place of whatever stands there.
pub fn set_caller(headers: &mut HeaderMap, caller: Option<Caller<'_>>) {
    headers.remove(CALLER);
    headers.remove(CALLER_KIND);
    if let Some(caller) = caller {
        headers.insert(CALLER, visible(caller.name));
        headers.insert(CALLER_KIND, visible(caller.kind));
    }
}

/// A vendor's state belongs to its trace: where the gateway began another one, it goes no further.
fn set_trace(headers: &mut HeaderMap, arrival: &Arrival<'_>, sent: &HeaderMap) {
    let trace_id =
        |value: Option<&HeaderValue>| value.and_then(|value| value.as_bytes().get(3..35).map(<[u8]>::to_vec));
    if trace_id(arrival.traceparent) != trace_id(sent.get(TRACEPARENT)) {
        headers.remove(TRACESTATE);
    }
    match arrival.traceparent {
        Some(traceparent) => headers.insert(TRACEPARENT, traceparent.clone()),
        None => headers.remove(TRACEPARENT),
    };
}

/// RFC 7239 and its predecessors. What a trusted proxy said is continued; of any other peer nothing is left here.
fn set_forwarded(headers: &mut HeaderMap, arrival: &Arrival<'_>) {
    let scheme = match arrival.scheme {
        Scheme::Http => "http",
        Scheme::Https => "https",
    };
    let node = match arrival.peer {
        Some(IpAddr::V4(address)) => address.to_string(),
        Some(IpAddr::V6(address)) => format!("\"[{address}]\""),
        None => "unknown".to_owned(),
    };
    let quoted = arrival.host.replace('\\', "\\\\").replace('"', "\\\"");
    append(headers, &FORWARDED, &format!("for={node};host=\"{quoted}\";proto={scheme}"));
    if let Some(peer) = arrival.peer {
        append(headers, &FORWARDED_FOR, &peer.to_string());
    }
    for (name, value) in [(FORWARDED_HOST, arrival.host), (FORWARDED_PROTO, scheme)] {
        if !headers.contains_key(&name)
            && let Ok(value) = HeaderValue::from_str(value)
        {
            headers.insert(name, value);
        }
    }
}

/// Puts a member behind a list's others, in one line.
fn append(headers: &mut HeaderMap, name: &HeaderName, member: &str) {
    let before = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    let list = before.chain([member]).collect::<Vec<_>>().join(", ");
    if let Ok(list) = HeaderValue::from_str(&list) {
        headers.insert(name, list);
    }
}

/// A caller's name as visible ASCII: everything else, and `%`, percent-encoded.
fn visible(text: &str) -> HeaderValue {
    const HIDDEN: &percent_encoding::AsciiSet = &percent_encoding::CONTROLS.add(b' ').add(b'%');
    let encoded = percent_encoding::utf8_percent_encode(text, HIDDEN).to_string();
    HeaderValue::try_from(encoded).unwrap_or(HeaderValue::from_static("unknown"))
}

#[cfg(test)]
mod tests;
