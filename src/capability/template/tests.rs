//! Parameters in every place that they go to.

use super::super::Capability;
use super::super::fixture::{capability, params};
use super::*;

fn of(endpoint: &str) -> Capability {
    capability(&format!("GET {endpoint}"))
}

/// A route's path for a request to an endpoint.
fn path(endpoint: &str, template: &str, request: &str) -> String {
    let capability = of(endpoint);
    Template::path(template, capability.endpoint()).unwrap().to_path(&params(&capability, request), &[])
}

fn query(endpoint: &str, template: &str, request: &str) -> String {
    let capability = of(endpoint);
    let mut query = String::new();
    let template = Template::query(template, capability.endpoint()).unwrap();
    template.push_query(&params(&capability, request), &mut query);
    query
}

fn header(endpoint: &str, template: &str, request: &str) -> Result<HeaderValue, InvalidPath> {
    let capability = of(endpoint);
    Template::header(template, capability.endpoint()).unwrap().to_header(&params(&capability, request))
}

#[test]
fn a_value_in_a_path_is_data_of_one_segment() {
    for (request, expected) in [
        ("/w/Paris", "/current/Paris.json"),
        ("/w/S%C3%A3o%20Paulo", "/current/S%C3%A3o%20Paulo.json"),
        ("/w/a;admin=1", "/current/a%3Badmin%3D1.json"),
        ("/w/x:cancel", "/current/x%3Acancel.json"),
        ("/w/a%3Fb%23c&d", "/current/a%3Fb%23c%26d.json"),
        ("/w/%252F..", "/current/%252F...json"),
        ("/w/a+b", "/current/a%2Bb.json"),
    ] {
        assert_eq!(path("/w/{city}", "/current/{city}.json", request), expected, "{request}");
    }
}

#[test]
fn a_tail_keeps_its_slashes_and_its_encodings() {
    for (request, expected) in [
        ("/f/a/b/", "/static/a/b/"),
        ("/f/@scope/pkg:1,2=3", "/static/@scope/pkg:1,2=3"),
        ("/f/a%3Ab/c%20d", "/static/a%3Ab/c%20d"),
        ("/f/..;/secret", "/static/..%3B/secret"),
    ] {
        assert_eq!(path("/f/{*rest}", "/static/{*rest}", request), expected, "{request}");
        assert_eq!(path("/f/{*rest}", "/static/{rest}", request), expected, "{request}");
    }
}

#[test]
fn a_slash_that_a_parameter_takes_stays_encoded() {
    let mut settings = super::super::fixture::settings("it", "GET /p/{id}");
    settings.parameters = vec![crate::restap::catalog::Parameter {
        allow_slash: true,
        ..super::super::fixture::parameter("id", crate::restap::catalog::Location::Path, "string")
    }];
    let capability = Capability::new(settings).unwrap();
    let template = Template::path("/projects/{id}/issues", capability.endpoint()).unwrap();
    assert_eq!(template.to_path(&params(&capability, "/p/group%2Fproject"), &[]), "/projects/group%2Fproject/issues");
}

#[test]
fn a_literal_of_a_path_is_brought_into_its_normal_form() {
    assert_eq!(path("/w/{c}", "/a b/%7bx%7D/%61/{c}/é%2f", "/w/1"), "/a%20b/%7Bx%7D/a/1/%C3%A9%2F");
    assert_eq!(path("/w/{c}", "/", "/w/1"), "/");
    assert_eq!(path("/{a}/{b}", "/{b}{a}/{b}", "/1/2"), "/21/2");
}

#[test]
fn a_value_in_a_query_is_encoded_whole() {
    assert_eq!(query("/w/{c}", "{c}", "/w/a%26b=c%20d"), "a%26b%3Dc%20d");
    assert_eq!(query("/w/{c}", "in {c} & {{near}}", "/w/x"), "in%20x%20%26%20%7Bnear%7D");
    assert_eq!(query("/f/{*rest}", "{rest}", "/f/a%20b/c"), "a%20b%2Fc");
}

#[test]
fn a_value_goes_into_a_header_only_where_one_can_carry_it() {
    assert_eq!(header("/w/{c}", "city={c}", "/w/a%20b").unwrap(), "city=a b");
    assert_eq!(header("/w/{c}", "{{{c}}}", "/w/a").unwrap(), "{a}");
    for request in ["/w/S%C3%A3o", "/w/%20a", "/w/a%20"] {
        assert_eq!(header("/w/{c}", "{c}", request), Err(InvalidPath::NoHeaderValue), "{request}");
    }
}

#[test]
fn what_is_no_template_says_why() {
    let endpoint = "/a/{id}/{*rest}".parse().unwrap();
    for (text, error) in [
        ("a", InvalidTemplate::NotAbsolute),
        ("/a?b=c", InvalidTemplate::Query),
        ("/a/../b", InvalidTemplate::DotSegment),
        ("/%2e/b", InvalidTemplate::DotSegment),
        ("/a/{id", InvalidTemplate::Unclosed),
        ("/a/id}", InvalidTemplate::Unopened),
        ("/{name}", InvalidTemplate::UnknownName("name".into())),
        ("/{{id}}", InvalidTemplate::UnknownName("{id".into())),
        ("/{*id}", InvalidTemplate::NoTail("id".into())),
        ("/a%", InvalidTemplate::Literal(InvalidPath::BrokenEncoding)),
    ] {
        assert_eq!(Template::path(text, &endpoint), Err(error), "{text}");
    }
    assert_eq!(Template::query("}", &endpoint), Err(InvalidTemplate::Unopened));
    assert_eq!(Template::header("é", &endpoint), Err(InvalidTemplate::NoHeaderValue));
    assert_eq!(Template::header(" a", &endpoint), Err(InvalidTemplate::NoHeaderValue));
}
