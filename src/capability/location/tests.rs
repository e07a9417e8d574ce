//! Addresses of the service as callers see them.

use http::Method;

use super::super::fixture::{service, service_with_key, settings, table};
use super::super::{Found, Settings};
use super::*;

fn routed(id: &str, endpoint: &str, path: &str) -> Settings {
    let mut entry = settings(id, endpoint);
    entry.route.path = path.to_owned();
    entry
}

/// A `Location` that answers `GET /orders/7` of a service at `https://api.internal/v1`; `None` where it stays.
fn seen(service: &Service, base: &str, location: &str) -> Option<String> {
    let mut elsewhere = routed("elsewhere", "GET /elsewhere/{id}", "/archive/{id}");
    elsewhere.route.upstream = "another".to_owned();
    let table = table([
        routed("order", "GET /orders/{id}", "/o/{id}"),
        routed("cancel", "POST /orders/{id}/cancel", "/o/{id}"),
        routed("file", "GET /files/{*rest}", "/static/{*rest}"),
        routed("part", "GET /parts/{a}/{b}", "/p/{b}-{a}"),
        routed("lost", "GET /lost/{id}", "/l"),
        elsewhere,
    ]);
    let Found::Capability(capability, params) = table.find(&"/orders/7".parse().unwrap(), &Method::GET) else {
        panic!()
    };
    let target = capability.target(service, &params, &Method::GET, Some("x=1"));
    let back = Return { table: &table, capability, service, target: &target, base };
    let value = HeaderValue::from_str(location).unwrap();
    back.location(&value).map(|value| value.to_str().unwrap().to_owned())
}

fn location(text: &str) -> Option<String> {
    seen(&service("https://api.internal/v1"), "/agents/shop", text)
}

#[test]
fn an_address_on_the_services_origin_is_the_endpoint_that_leads_there() {
    for (text, expected) in [
        ("https://api.internal/v1/o/8", "/agents/shop/orders/8"),
        ("HTTPS://API.internal:443/v1/o/8", "/agents/shop/orders/8"),
        ("//api.internal/v1/o/8", "/agents/shop/orders/8"),
        ("/v1/o/8", "/agents/shop/orders/8"),
        ("8", "/agents/shop/orders/8"),
        ("./8?y=2#z", "/agents/shop/orders/8?y=2#z"),
        ("../o/a%20b%2fc", "/agents/shop/orders/a%20b%2Fc"),
        ("", "/agents/shop/orders/7"),
        ("#part", "/agents/shop/orders/7#part"),
        ("?page=2", "/agents/shop/orders/7?page=2"),
        ("/v1/static/a/b%3A;c/", "/agents/shop/files/a/b%3A%3Bc/"),
        ("/v1/p/x-y", "/agents/shop/parts/y/x"),
    ] {
        assert_eq!(location(text).as_deref(), Some(expected), "{text}");
    }
}

#[test]
fn a_path_that_no_route_leads_to_stays_the_same_under_our_base() {
    for (text, expected) in [
        ("/v1/none", "/agents/shop/none"),
        ("/v1/l", "/agents/shop/l"),
        ("/v1/archive/1", "/agents/shop/archive/1"),
        ("https://api.internal/v1", "/agents/shop"),
        ("https://api.internal/v1/", "/agents/shop/"),
    ] {
        assert_eq!(location(text).as_deref(), Some(expected), "{text}");
    }
}

#[test]
fn what_is_not_on_the_services_origin_stays_as_it_is() {
    for text in [
        "https://other.example/v1/o/8",
        "http://api.internal/v1/o/8",
        "https://api.internal:8443/v1/o/8",
        "https://api.internal@evil.example/v1/o/8",
        "https://user@api.internal/v1/o/8",
        "//evil.example/v1/o/8",
        "mailto:a@b",
        "https:/v1/o/8",
        "/outside",
        "/v1x/o/8",
        "/../v1/o/8",
        "/v1/o/%",
    ] {
        assert_eq!(location(text), None, "{text}");
    }
}

#[test]
fn our_own_query_parameters_do_not_come_back() {
    let service = service_with_key("https://api.internal/v1?lang=en", "x-key", "key", "s&cret");
    for (text, expected) in [
        ("/v1/o/8?key=s%26cret&y=2&lang=en", "/orders/8?y=2"),
        ("/v1/o/8?key=s%26cret", "/orders/8"),
        ("/v1/o/8?key=another&lang=fr", "/orders/8?key=another&lang=fr"),
    ] {
        assert_eq!(seen(&service, "", text).as_deref(), Some(expected), "{text}");
    }
}

#[test]
fn the_base_may_be_a_url() {
    let location = seen(&service("https://api.internal/v1"), "https://agents.example.com/shop", "/v1/o/8");
    assert_eq!(location.as_deref(), Some("https://agents.example.com/shop/orders/8"));
}
