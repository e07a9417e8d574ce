//! Settings and requests that the tests of this room start from.

use http::{HeaderMap, HeaderName, HeaderValue, Method};

use crate::restap::catalog::{Location, Parameter};
use crate::yaml::Secret;

use super::settings::Validate;
use super::{Capability, CookiePolicy, Found, Params, Service, Settings, Table};

/// `GET /weather/{city}` as `"GET /weather/{city}"`, with the id in front where several are needed.
pub(super) fn settings(id: &str, method_and_endpoint: &str) -> Settings {
    let (method, endpoint) = method_and_endpoint.split_once(' ').unwrap();
    let method: Method = method.parse().unwrap();
    Settings { validate_request: Validate::Enforce, ..Settings::new(id, method, endpoint, "api") }
}

pub(super) fn capability(method_and_endpoint: &str) -> Capability {
    Capability::new(settings("it", method_and_endpoint)).unwrap()
}

pub(super) fn table(entries: impl IntoIterator<Item = Settings>) -> Table {
    Table::new(entries.into_iter().map(|entry| Capability::new(entry).unwrap()).collect()).unwrap()
}

/// What a path says for a capability that it names.
pub(super) fn params(capability: &Capability, path: &str) -> Params {
    let mut settings = capability.settings().clone();
    settings.method = Method::GET;
    settings.validate_request = Validate::Off;
    match table([settings]).find(&path.parse().unwrap(), &Method::GET) {
        Found::Capability(_, params) => params,
        other => panic!("{path}: {other:?}"),
    }
}

pub(super) fn parameter(name: &str, location: Location, kind: &str) -> Parameter {
    Parameter { required: false, ..Parameter::new(name, location, kind) }
}

pub(super) fn service(url: &str) -> Service {
    Service::new(&url.parse().unwrap(), &[], &[], CookiePolicy::Drop).unwrap()
}

pub(super) fn service_with_key(url: &str, header: &'static str, query: &str, value: &str) -> Service {
    let headers = [(HeaderName::from_static(header), Secret::new(value))];
    let query = [(query.to_owned(), Secret::new(value))];
    Service::new(&url.parse().unwrap(), &headers, &query, CookiePolicy::Drop).unwrap()
}

/// `name: value` lines.
pub(super) fn headers(lines: &[&str]) -> HeaderMap {
    let header = |line: &&str| {
        let (name, value) = line.split_once(": ").unwrap();
        (name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap())
    };
    lines.iter().map(header).collect()
}

/// `name: value` lines in alphabetical order.
pub(super) fn lines(headers: &HeaderMap) -> String {
    let line = |(name, value): (&HeaderName, &HeaderValue)| format!("{name}: {}\n", value.to_str().unwrap());
    let mut lines: Vec<_> = headers.iter().map(line).collect();
    lines.sort();
    lines.concat()
}
