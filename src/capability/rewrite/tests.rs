//! What the service is asked.

use super::super::fixture::{self, params, service, service_with_key, settings};
use super::super::{Capability, CookiePolicy, Service};
use super::*;
use crate::yaml::Secret;

fn ask(capability: &Capability, service: &Service, request: &str) -> String {
    let (method, target) = request.split_once(' ').unwrap();
    let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
    let target = capability.target(service, &params(capability, path), &method.parse().unwrap(), query);
    format!("{} {}", target.method(), target.path_and_query())
}

#[test]
fn a_route_without_a_path_asks_its_endpoint_under_the_upstreams_path() {
    let capability = fixture::capability("GET /weather/{city}");
    assert_eq!(ask(&capability, &service("http://a"), "GET /weather/Paris"), "GET /weather/Paris");
    assert_eq!(ask(&capability, &service("http://a/v1/"), "GET /weather/Paris"), "GET /v1/weather/Paris");
}

#[test]
fn the_callers_query_passes_byte_for_byte() {
    let capability = fixture::capability("GET /q");
    for query in ["?", "?a=1&a=2&&b", "?a=%zz&b=%2B+x;y=z", "?q=a%20b&%C3%A9=\u{e9}", "?a?b=c/d"] {
        let expected = format!("GET /q{query}");
        assert_eq!(ask(&capability, &service("http://a"), &expected), expected, "{query}");
    }
}

#[test]
fn what_the_route_and_the_upstream_set_stands_in_place_of_the_callers() {
    let mut entry = settings("it", "GET /w/{city}");
    entry.route.path = "/current".to_owned();
    entry.route.query = vec![("q".to_owned(), "{city}".to_owned()), ("units".to_owned(), "metric".to_owned())];
    let capability = Capability::new(entry).unwrap();
    let service = service_with_key("http://a/v1?lang=en", "x-key", "api key", "se/cret");
    let added = "q=New%20York&units=metric&lang=en&api%20key=se%2Fcret";
    for (query, kept) in [
        ("", ""),
        ("?", ""),
        ("?days=3", "days=3&"),
        ("?units=imperial&days=3&q=Berlin", "days=3&"),
        ("?%75nits=x&api+key=mine&api%20key&Units=y", "Units=y&"),
    ] {
        let asked = ask(&capability, &service, &format!("GET /w/New%20York{query}"));
        assert_eq!(asked, format!("GET /v1/current?{kept}{added}"), "{query}");
    }
}

#[test]
fn the_routes_method_is_asked_and_head_where_it_is_get() {
    let mut entry = settings("it", "POST /patch");
    entry.route.method = Method::PATCH;
    let patch = Capability::new(entry).unwrap();
    assert_eq!(ask(&patch, &service("http://a"), "POST /patch"), "PATCH /patch");
    let get = fixture::capability("GET /q");
    assert_eq!(ask(&get, &service("http://a"), "HEAD /q"), "HEAD /q");
    let mut entry = settings("it", "GET /search");
    entry.route.method = Method::POST;
    let mapped = Capability::new(entry).unwrap();
    assert_eq!(ask(&mapped, &service("http://a"), "HEAD /search"), "POST /search");
}

#[test]
fn nothing_that_is_printed_shows_a_credential() {
    let capability = fixture::capability("GET /q");
    let service = service_with_key("http://a", "x-key", "key", "hunter2");
    let target = capability.target(&service, &params(&capability, "/q"), &Method::GET, None);
    assert!(target.path_and_query().ends_with("key=hunter2"));
    assert!(!format!("{target:?} {service:?}").contains("hunter2"));
}

#[test]
fn a_header_that_http_can_not_carry_is_found_when_the_service_is_made() {
    let url = "http://a".parse().unwrap();
    let make = |name, value: &str| {
        let headers = [(HeaderName::from_static(name), Secret::new(value))];
        Service::new(&url, &headers, &[], CookiePolicy::Drop).unwrap_err().to_string()
    };
    assert_eq!(
        make("x-key", "hunter2\n"),
        "the value of `x-key` holds a character that a header can't carry, such as a line feed"
    );
    assert_eq!(
        make("transfer-encoding", "chunked"),
        "`transfer-encoding` belongs to the connection and is set by the gateway"
    );
}
