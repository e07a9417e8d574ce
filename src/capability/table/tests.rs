//! Which capability a request names.

use proptest::prelude::*;

use super::super::fixture::{settings, table};
use super::super::pattern::PatternProblem;
use super::super::settings::Validate;
use super::super::{InvalidPattern, Settings};
use super::*;
use crate::restap::catalog::{Location, Parameter};

fn of(endpoints: &[&str]) -> Table {
    table(endpoints.iter().map(|endpoint| settings(endpoint, endpoint)))
}

/// The id found and its parameters, or the status that it comes to.
fn find(table: &Table, request: &str) -> String {
    let (method, path) = request.split_once(' ').unwrap();
    match table.find(&path.parse().unwrap(), &method.parse().unwrap()) {
        Found::Capability(capability, params) => {
            let params = params.iter().map(|(name, value)| format!(" {name}={value}"));
            capability.id().to_owned() + &params.collect::<String>()
        }
        Found::MethodNotAllowed(allow) => format!("405 {}", allow.header_value().to_str().unwrap()),
        Found::NotFound => "404".to_owned(),
        Found::InvalidPath(error) => format!("400 {error:?}"),
    }
}

fn with_slashes(endpoint: &str, name: &str) -> Settings {
    let mut settings = settings(endpoint, endpoint);
    settings.parameters =
        vec![Parameter { allow_slash: true, ..super::super::fixture::parameter(name, Location::Path, "string") }];
    settings
}

#[test]
fn the_most_specific_endpoint_answers_whatever_the_order() {
    let endpoints = [
        "GET /{*rest}",
        "GET /u/{id}",
        "GET /u/{id}.json",
        "GET /u/{id}.min.json",
        "GET /u/me",
        "GET /{a}-{b}",
        "GET /{a}/x",
    ];
    let mut reversed = endpoints;
    reversed.reverse();
    for table in [of(&endpoints), of(&reversed)] {
        for (request, found) in [
            ("GET /u/me", "GET /u/me"),
            ("GET /u/7", "GET /u/{id} id=7"),
            ("GET /u/7.json", "GET /u/{id}.json id=7"),
            ("GET /u/7.min.json", "GET /u/{id}.min.json id=7"),
            ("GET /u/.json", "GET /u/{id} id=.json"),
            ("GET /x-y", "GET /{a}-{b} a=x b=y"),
            ("GET /x", "GET /{*rest} rest=x"),
            ("GET /x/y/z/", "GET /{*rest} rest=x/y/z/"),
        ] {
            assert_eq!(find(&table, request), found, "{request}");
        }
    }
}

#[test]
fn where_the_first_choice_leads_nowhere_the_next_is_tried() {
    let table = of(&["GET /a/{x}/c", "GET /{y}/b/d", "GET /a/b/{*rest}"]);
    assert_eq!(find(&table, "GET /a/b/d"), "GET /a/b/{*rest} rest=d");
    assert_eq!(find(&table, "GET /a/b/c"), "GET /a/b/{*rest} rest=c");
    assert_eq!(find(&table, "GET /a/z/c"), "GET /a/{x}/c x=z");
    assert_eq!(find(&table, "GET /z/b/d"), "GET /{y}/b/d y=z");
    assert_eq!(find(&table, "GET /a/z/d"), "404");
}

#[test]
fn a_template_takes_no_empty_segment_and_a_trailing_slash_counts() {
    let table = of(&["GET /a/{x}", "GET /b/", "GET /f/{*rest}"]);
    assert_eq!(find(&table, "GET /a/"), "404");
    assert_eq!(find(&table, "GET /a/1/"), "404");
    assert_eq!(find(&table, "GET /b"), "404");
    assert_eq!(find(&table, "GET /b/"), "GET /b/");
    assert_eq!(find(&table, "GET /f"), "404");
    assert_eq!(find(&table, "GET /f/"), "404");
    assert_eq!(find(&table, "GET /f/a/"), "GET /f/{*rest} rest=a/");
    assert_eq!(find(&table, "GET /ab"), "404");
}

#[test]
fn a_known_path_with_another_method_says_which_it_knows() {
    let table = of(&["GET /u/me", "PUT /u/{id}", "DELETE /u/{id}", "POST /u"]);
    assert_eq!(find(&table, "POST /u/me"), "405 DELETE, GET, HEAD, PUT");
    assert_eq!(find(&table, "GET /u/7"), "405 DELETE, PUT");
    assert_eq!(find(&table, "GET /u"), "405 POST");
    assert_eq!(find(&table, "PATCH /u/me"), "405 DELETE, GET, HEAD, PUT");
}

#[test]
fn a_less_specific_endpoint_answers_where_it_alone_has_the_method() {
    let table = of(&["GET /u/me", "PUT /u/{id}"]);
    assert_eq!(find(&table, "PUT /u/me"), "PUT /u/{id} id=me");
}

#[test]
fn head_goes_where_get_does() {
    let table = of(&["GET /u/{id}", "POST /u"]);
    assert_eq!(find(&table, "HEAD /u/7"), "GET /u/{id} id=7");
    assert_eq!(find(&table, "HEAD /u"), "405 POST");
}

#[test]
fn values_are_decoded_once() {
    let table = of(&["GET /w/{city}", "GET /f/{*rest}"]);
    assert_eq!(find(&table, "GET /w/S%C3%A3o%20Paulo"), "GET /w/{city} city=São Paulo");
    assert_eq!(find(&table, "GET /w/100%25"), "GET /w/{city} city=100%");
    assert_eq!(find(&table, "GET /w/%252e%252e"), "GET /w/{city} city=%2e%2e");
    assert_eq!(find(&table, "GET /w/a%3Bb+c"), "GET /w/{city} city=a;b+c");
    assert_eq!(find(&table, "GET /f/a%20b/c%3Fd"), "GET /f/{*rest} rest=a b/c?d");
}

#[test]
fn a_literal_is_the_same_however_it_is_spelt() {
    let table = of(&["GET /pets:batch", "GET /caf%C3%A9/a b"]);
    assert_eq!(find(&table, "GET /pets%3Abatch"), "GET /pets:batch");
    assert_eq!(find(&table, "GET /%70ets:batch"), "GET /pets:batch");
    assert_eq!(find(&table, "GET /café/a%20b"), "GET /caf%C3%A9/a b");
    assert_eq!(find(&table, "GET /Pets:batch"), "404");
}

#[test]
fn an_encoded_slash_is_refused_unless_the_parameter_takes_it() {
    let plain = of(&["GET /p/{id}", "GET /f/{*rest}"]);
    for path in ["/p/a%2Fb", "/p/a%2fb", "/f/a%2Fb", "/f/x/a%2Fb", "/none/a%2Fb", "/p%2Fa"] {
        assert_eq!(find(&plain, &format!("GET {path}")), "400 EncodedSlash", "{path}");
    }
    let table = table([
        with_slashes("GET /p/{id}", "id"),
        with_slashes("GET /p/{id}/issues", "id"),
        with_slashes("GET /f/{*rest}", "rest"),
    ]);
    assert_eq!(find(&table, "GET /p/group%2Fproject"), "GET /p/{id} id=group/project");
    assert_eq!(find(&table, "GET /p/group%2Fproject/issues"), "GET /p/{id}/issues id=group/project");
    assert_eq!(find(&table, "GET /f/a%2Fb/c"), "GET /f/{*rest} rest=a/b/c");
}

#[test]
fn no_part_of_a_value_is_a_dot_segment() {
    let table = table([
        with_slashes("GET /p/{id}", "id"),
        with_slashes("GET /f/{*rest}", "rest"),
        settings("json", "GET /j/{id}.json"),
        settings("pair", "GET /k/{a}-{b}"),
    ]);
    for path in [
        "/p/..%2Fb",
        "/p/a%2F..",
        "/p/a%2F%2E%2E%2Fb",
        "/p/.%2Fb",
        "/p/a%2F.",
        "/f/a%2F..%2Fb",
        "/f/x/..%2Fb",
        "/j/..json",
        "/j/...json",
        "/k/.-b",
        "/k/a-..",
    ] {
        assert_eq!(find(&table, &format!("GET {path}")), "400 DotParameter", "{path}");
    }
    assert_eq!(find(&table, "GET /p/..a%2Fb.."), "GET /p/{id} id=..a/b..");
    assert_eq!(find(&table, "GET /j/....json"), "json id=...");
}

#[test]
fn endpoints_must_differ_in_more_than_names_and_ids_too() {
    let entries = [
        settings("a", "GET /u/{id}"),
        settings("b", "PUT /u/{id}"),
        settings("c", "GET /u/{name}"),
        settings("a", "GET /x"),
    ];
    let entries = entries.into_iter().map(|entry| Capability::new(entry).unwrap()).collect();
    let problems: Vec<_> =
        Table::new(entries).unwrap_err().into_iter().map(|(at, error)| (at, error.to_string())).collect();
    assert_eq!(
        problems,
        [
            (
                2,
                "`a` answers GET /u/{id} already: endpoints must differ in more than the names of parameters"
                    .to_owned()
            ),
            (3, "the id `a` is taken already".to_owned()),
        ]
    );
}

#[test]
fn a_broken_schema_is_found_at_load_unless_it_is_never_held_against_anything() {
    let make = |validate_request| {
        let mut entry = settings("a", "POST /u");
        entry.input_schema = Some(serde_json::json!({"type": "text"}).into());
        entry.validate_request = validate_request;
        Table::new(vec![Capability::new(settings("b", "GET /u")).unwrap(), Capability::new(entry).unwrap()])
    };
    for validate in [Validate::Warn, Validate::Enforce] {
        assert!(matches!(*make(validate).unwrap_err(), [(1, CapabilityError::Schema(_))]));
    }
    assert!(make(Validate::Off).is_ok());
}

#[test]
fn an_entry_reports_everything_that_is_wrong_with_it() {
    let mut entry = settings("a", "GET /u/{id}");
    entry.parameters = vec![super::super::fixture::parameter("uid", Location::Path, "string")];
    entry.route.path = "/v/{uid}".to_owned();
    entry.route.query = vec![("q".to_owned(), "{".to_owned())];
    entry.route.headers = vec![
        (http::header::CONTENT_LENGTH, "3".to_owned()),
        (http::header::FROM, "a\nb".to_owned()),
        (http::header::HOST, "{id}.example.com".to_owned()),
    ];
    let problems: Vec<_> = Capability::new(entry).unwrap_err().iter().map(ToString::to_string).collect();
    assert_eq!(
        problems,
        [
            "the endpoint has no `{uid}`; a path parameter stands in it as a template",
            "the endpoint has no `{uid}`",
            "`{` is not closed; in a value a literal brace is written twice, in a path `%7B`",
            "`content-length` belongs to the connection and is set by the gateway",
            "a header's value holds visible ASCII characters and inner spaces only",
        ]
    );
    let endpoint = Capability::new(settings("a", "GET u")).unwrap_err();
    let expected = InvalidPattern { at: 0, problem: PatternProblem::NotAbsolute };
    assert_eq!(endpoint, [CapabilityError::Endpoint(expected)]);
}

#[test]
fn a_template_without_an_entry_is_a_required_string() {
    let mut entry = settings("a", "GET /u/{id}/{name}");
    entry.parameters = vec![super::super::fixture::parameter("name", Location::Path, "integer")];
    let published = Capability::new(entry).unwrap().published();
    let shown: Vec<_> =
        published.parameters.iter().map(|it| (it.name.as_str(), it.kind.as_str(), it.required)).collect();
    assert_eq!(shown, [("name", "integer", true), ("id", "string", true)]);
}

#[test]
fn many_capabilities_are_found_as_fast_as_few() {
    let endpoints: Vec<_> = (0..5_000).map(|n| format!("GET /v1/{}/{{id}}/item{n}/{{sub}}.json", n % 50)).collect();
    let table = of(&endpoints.iter().map(String::as_str).collect::<Vec<_>>());
    for (n, endpoint) in endpoints.iter().enumerate() {
        let request = format!("GET /v1/{}/a/item{n}/b.json", n % 50);
        assert_eq!(find(&table, &request), format!("{endpoint} id=a sub=b"));
    }
}

#[test]
fn a_hostile_path_takes_no_longer_than_the_patterns_are_many() {
    // Every segment has a literal, a mixed and a bare choice: 3^12 ways for whoever tries them all anew.
    let choices = ["a", "{}x", "{}"];
    let endpoint = |mut way: usize| {
        let mut text = "GET ".to_owned();
        for depth in 0..12 {
            text += "/";
            text += &choices[way % 3].replace("{}", &format!("{{p{depth}}}"));
            way /= 3;
        }
        text + "/end"
    };
    let table =
        of(&(0..2_000).map(|n| endpoint(n * 265)).collect::<Vec<_>>().iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(find(&table, &format!("GET {}/no", "/ax".repeat(12))), "404");
    assert_eq!(find(&table, &format!("GET {}", "/a".repeat(4_000))), "404");
}

/// Whether a pattern without mixed segments matches, one segment at a time.
fn naive(endpoint: &str, path: &str) -> bool {
    let (mut pattern, mut path) = (endpoint.split('/'), path.split('/').peekable());
    loop {
        match (pattern.next(), path.next()) {
            (None, None) => return true,
            (Some(part), Some(segment)) if part.starts_with("{*") => {
                return !segment.is_empty() || path.peek().is_some();
            }
            (Some(part), Some(segment)) if part.starts_with('{') && !segment.is_empty() => {}
            (Some(part), Some(segment)) if part == segment => {}
            _ => return false,
        }
    }
}

/// Literal before template before tail, segment by segment.
fn rank(endpoint: &str) -> Vec<u8> {
    endpoint.split('/').map(|part| if part.starts_with("{*") { 2 } else { u8::from(part.starts_with('{')) }).collect()
}

proptest! {
    #[test]
    fn an_endpoint_is_found_exactly_where_the_naive_matcher_finds_one(
        shapes in prop::collection::btree_set("(/[ab]|/T){1,3}(/|/R)?", 1..12),
        path in "(/[abc]){0,4}/?",
    ) {
        prop_assume!(path.starts_with('/'));
        let endpoints: Vec<_> = shapes.iter().map(|shape| {
            let mut number = 0;
            let name = |part: &str| {
                number += 1;
                match part { "T" => format!("{{p{number}}}"), "R" => "{*rest}".to_owned(), other => other.to_owned() }
            };
            shape.split('/').map(name).collect::<Vec<_>>().join("/")
        }).collect();
        let table = table(endpoints.iter().map(|endpoint| settings(endpoint, &format!("GET {endpoint}"))));
        let expected = endpoints.iter().filter(|endpoint| naive(endpoint, &path)).min_by_key(|endpoint| rank(endpoint));
        let found = match table.find(&path.parse().unwrap(), &Method::GET) {
            Found::Capability(capability, _) => Some(capability.id().to_owned()),
            _ => None,
        };
        prop_assert_eq!(found.as_ref(), expected);
    }
}
