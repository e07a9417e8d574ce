//! What is refused, and what is said about it.

use serde_json::{Value, json};

use super::super::fixture::{headers, parameter, params, settings};
use super::super::{Capability, Settings};
use super::*;
use crate::restap::catalog::Location;

fn check(settings: &Settings, target: &str, sent: &[&str], body: Option<&[u8]>) -> Result<(), Refused> {
    let capability = Capability::new(settings.clone()).unwrap();
    let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
    let (params, headers) = (params(&capability, path), headers(sent));
    let body = body.map(|body| capability.receive(&headers, body)).transpose()?;
    capability.validation().check(&Input { params: &params, query, headers: &headers, body: body.as_ref() })
}

/// Violations as `location path keyword: message` lines; empty where there are none.
fn shown(result: Result<(), Refused>) -> Vec<String> {
    let violations = match result {
        Ok(()) => return Vec::new(),
        Err(Refused::Input(violations)) => violations,
        Err(other) => panic!("{other:?}"),
    };
    let line = |violation: Violation| {
        let Violation { location, path, keyword, message } = violation;
        format!("{location:?} {path} {keyword}: {message}")
    };
    violations.into_iter().map(line).collect()
}

fn with_query(kind: &str, schema: Option<Value>) -> Settings {
    let mut entry = settings("it", "GET /q");
    entry.parameters = vec![Parameter { schema: schema.map(Into::into), ..parameter("p", Location::Query, kind) }];
    entry
}

fn query(kind: &str, schema: Option<Value>, query: &str) -> Vec<String> {
    shown(check(&with_query(kind, schema), &format!("/q?{query}"), &[], None))
}

fn with_body(schema: Value) -> Settings {
    let mut entry = settings("it", "POST /b");
    entry.input_schema = Some(schema.into());
    entry
}

fn body(schema: Value, body: &str) -> Vec<String> {
    shown(check(&with_body(schema), "/b", &["content-type: application/json"], Some(body.as_bytes())))
}

#[test]
fn text_is_read_as_what_the_schema_wants() {
    for (kind, schema, good, bad) in [
        (
            "integer",
            None,
            &["p=5", "p=-5", "p=%35", "p=1.0"][..],
            &["p=five", "p=", "p=1.5", "p=+5", "p=5%20", "p=0x5", "p=true"][..],
        ),
        ("number", None, &["p=1.5", "p=-0", "p=1e3"], &["p=1,5", "p=.5", "p=NaN", "p=1e999"]),
        ("boolean", None, &["p=true", "p=false"], &["p=1", "p=True", "p=yes", "p="]),
        ("string", None, &["p=5", "p=true", "p=null", "p=", "p", "p=a+b%20c", "p=%FF"], &[]),
        ("string", Some(json!({"enum": ["a b", "5"]})), &["p=a+b", "p=a%20b", "p=5"], &["p=A%20B", "p=6"]),
        ("integer", Some(json!({"minimum": 1, "maximum": 9})), &["p=1", "p=9"], &["p=0", "p=10"]),
        ("integer", Some(json!({"enum": [1, 2]})), &["p=1"], &["p=3"]),
        ("string", Some(json!({"type": ["integer", "null"]})), &["p=7", "p=null"], &["p=x"]),
        ("string", Some(json!({"anyOf": [{"type": "integer"}, {"enum": ["all"]}]})), &["p=7", "p=all"], &["p=some"]),
        ("string", Some(json!({"pattern": "^\\d{4}$", "type": "string"})), &["p=2024"], &["p=24"]),
        (
            "array",
            Some(json!({"items": {"type": "integer"}, "maxItems": 3})),
            &["p=1", "p=1,2", "p=1&p=2", "p=1%2C2"],
            &["p=a", "p=1,a", "p=1&p=b", "p=1,2,3,4"],
        ),
        ("array", Some(json!({"items": {"type": "string"}})), &["p=a,1", "p=1&p=2"], &[]),
        ("object", None, &["p[a]=1&p[b]=2", "p={}", ""], &[]),
        ("unheard-of", None, &["p=x"], &[]),
    ] {
        for query_text in good {
            assert_eq!(query(kind, schema.clone(), query_text), [""; 0], "{kind} {query_text}");
        }
        for query_text in bad {
            assert_ne!(query(kind, schema.clone(), query_text), [""; 0], "{kind} {query_text}");
        }
    }
}

#[test]
fn a_violation_names_the_parameter_and_says_what_to_do() {
    assert_eq!(query("integer", None, "p=hunter2"), ["Query p type: must be an integer"]);
    assert_eq!(query("integer", None, "p=1&p=2"), ["Query p maxItems: must be there once only"]);
    assert_eq!(
        query("string", Some(json!({"enum": ["x", "y"]})), "p=z"),
        ["Query p enum: must be one of `\"x\"`, `\"y\"`"]
    );
    let mut entry = settings("it", "GET /u/{id}");
    entry.parameters = vec![
        parameter("id", Location::Path, "integer"),
        Parameter { required: true, ..parameter("limit", Location::Query, "integer") },
        Parameter { required: true, ..parameter("X-Tenant", Location::Header, "string") },
        parameter("X-Count", Location::Header, "integer"),
    ];
    assert_eq!(
        shown(check(&entry, "/u/me?unknown=1", &["x-count: many", "x-else: 1"], None)),
        [
            "Path id type: must be an integer",
            "Query limit required: must be there",
            "Header X-Tenant required: must be there",
            "Header X-Count type: must be an integer",
        ]
    );
    assert_eq!(shown(check(&entry, "/u/7?limit=1", &["x-count: 3", "x-tenant: a"], None)), [""; 0]);
    let message = check(&entry, "/u/me", &[], None).unwrap_err().to_string();
    assert_eq!(message, "the path parameter `id` must be an integer, and 2 more problems; see `details`");
}

#[test]
fn a_required_object_is_there_under_names_of_its_own() {
    let mut entry = with_query("object", None);
    entry.parameters[0].required = true;
    assert_eq!(shown(check(&entry, "/q?p[color]=red", &[], None)), [""; 0]);
    assert_eq!(shown(check(&entry, "/q?pq=1", &[], None)), ["Query p required: must be there"]);
}

#[test]
fn a_body_is_held_against_its_schema() {
    let schema = json!({
        "type": "object",
        "properties": {
            "name": {"type": "string", "minLength": 2},
            "tags": {"type": "array", "items": {"enum": ["x", "y"]}, "uniqueItems": true},
            "age": {"type": ["integer", "null"], "exclusiveMinimum": 0}
        },
        "required": ["name"],
        "additionalProperties": false
    });
    assert_eq!(body(schema.clone(), r#"{"name": "ab", "tags": ["x"], "age": null}"#), [""; 0]);
    assert_eq!(
        body(schema.clone(), r#"{"name": "s", "tags": ["x", "secret"], "age": "secret", "colour": "secret"}"#),
        [
            "Body /name minLength: must have at least 2 characters",
            "Body /tags/1 enum: must be one of `\"x\"`, `\"y\"`",
            "Body /age type: must be null or an integer",
            "Body  additionalProperties: has properties that are not taken: `colour`; remove them",
        ]
    );
    assert_eq!(body(schema, "{}"), ["Body  required: needs the property `name`"]);
}

#[test]
fn of_several_alternatives_the_closest_one_is_explained() {
    let schema = json!({"oneOf": [
        {"type": "object", "properties": {"kind": {"const": "card"}, "number": {"type": "string"}}, "required": ["kind", "number"]},
        {"type": "object", "properties": {"kind": {"const": "cash"}}, "required": ["kind", "amount", "currency", "till"]},
        {"type": "string"}
    ]});
    assert_eq!(
        body(schema.clone(), r#"{"kind": "card"}"#),
        ["Body  oneOf: fits none of its 3 alternatives; for the closest one it needs the property `number`"]
    );
    assert_eq!(
        body(
            json!({"anyOf": [{"properties": {"a": {"type": "string"}}}, {"maxProperties": 0, "required": ["b"]}]}),
            r#"{"a": 5}"#
        ),
        ["Body  anyOf: fits none of its 2 alternatives; for the closest one `/a` must be a string"]
    );
}

#[test]
fn no_value_of_the_input_is_shown() {
    let secret = "hunter2";
    let inputs = [
        json!(secret),
        json!([secret, secret]),
        json!({"a": secret, "b": [secret]}),
        json!({"a": {"b": {"c": secret}}}),
    ];
    let schemas = [
        json!({"type": "integer"}),
        json!({"enum": [1]}),
        json!({"const": {"a": 1}}),
        json!({"pattern": "^x", "minLength": 50, "maxLength": 2, "maxItems": 1, "uniqueItems": true, "maxProperties": 0}),
        json!({"not": {}}),
        json!(false),
        json!({"contains": {"type": "integer"}, "items": {"type": "integer"}, "additionalProperties": {"type": "integer"}}),
        json!({"oneOf": [{"pattern": "^x", "type": "string"}, {"items": {"const": 1}, "type": "array"}, false]}),
        json!({"allOf": [{"anyOf": [{"anyOf": [{"const": 3}]}]}], "unevaluatedItems": false}),
        json!({"contentEncoding": "base64", "format": "email"}),
        json!({"dependentRequired": {"a": ["z"]}, "if": {"type": "string"}, "then": {"maxLength": 1}}),
    ];
    for schema in &schemas {
        for input in &inputs {
            for line in body(schema.clone(), &input.to_string()) {
                assert!(!line.contains(secret), "{schema} {input}: {line}");
            }
        }
    }
}

#[test]
fn at_most_ten_violations_are_listed_and_each_is_short() {
    let many = format!("[{}]", vec!["1"; 500].join(","));
    assert_eq!(body(json!({"items": {"type": "string"}}), &many).len(), VIOLATIONS_MAX);
    let names: Vec<_> = (0..1000).map(|n| format!("\"{}{n}\": 1", "n".repeat(500))).collect();
    let lines =
        body(json!({"properties": {"a": {}}, "additionalProperties": false}), &format!("{{{}}}", names.join(",")));
    assert!(lines.len() == 1 && lines[0].len() < 4_000 && lines[0].ends_with("and 990 more; remove them"), "{lines:?}");
    let long = json!({"enum": (0..1000).map(|n| format!("{}{n}", "o".repeat(500))).collect::<Vec<_>>()});
    assert!(body(long, "1")[0].len() < 4_000);
    let deep = format!("{}1{}", "{\"kkkkkkkkkk\":".repeat(100), "}".repeat(100));
    let recursive = json!({"additionalProperties": {"$ref": "#"}, "type": "object"});
    assert!(body(recursive, &deep)[0].len() < 400);
}

#[test]
fn a_large_body_that_is_wrong_everywhere_costs_little() {
    let schema = json!({"anyOf": [{"items": {"type": "string"}}, {"items": {"type": "boolean"}}]});
    let lines = body(schema, &format!("[{}]", vec!["1"; 500_000].join(",")));
    assert_eq!(
        lines,
        ["Body  schema: does not fit its schema, and is too large to say where; send a smaller part of it to find out"]
    );
}

#[test]
fn no_pattern_and_no_recursion_takes_long() {
    let long = format!("\"{}!\"", "a".repeat(100_000));
    assert_eq!(body(json!({"pattern": "^(a+)+$"}), &long).len(), 1);
    // With look-around it is matched by stepping back, which has an end; what is undecided then is refused.
    assert_eq!(body(json!({"pattern": "^(?=x|(a+)+$)"}), &long).len(), 1);
    let twice = json!({"$ref": "#/$defs/n", "$defs": {"n": {
        "anyOf": [
            {"properties": {"c": {"$ref": "#/$defs/n"}}, "required": ["a"]},
            {"properties": {"c": {"$ref": "#/$defs/n"}}, "required": ["b"]}
        ]
    }}});
    let deep = format!("{}{{}}{}", "{\"a\":1,\"b\":1,\"c\":".repeat(100), "}".repeat(100));
    assert_eq!(body(twice, &deep).len(), 1);
}

#[test]
fn a_body_must_be_there_and_be_json_whose_keys_are_single() {
    let entry = with_body(json!({"type": "object"}));
    let sent = &["content-type: application/json"];
    assert_eq!(shown(check(&entry, "/b", sent, Some(b""))), ["Body  required: must be there, as JSON"]);
    for text in [&b"{"[..], b"{\"a\":1,\"a\":2}", b"{} {}", b"\xff"] {
        let refused = check(&entry, "/b", sent, Some(text)).unwrap_err();
        assert!(matches!(&refused, Refused::Json(_)) && refused.to_string().starts_with("the body is not JSON: "));
    }
    let compressed = check(&entry, "/b", &["content-encoding: gzip"], Some(b"\x1f\x8b")).unwrap_err().to_string();
    assert_eq!(compressed, "the body is not JSON: it is compressed; send it without Content-Encoding");
    assert_eq!(check(&entry, "/b", &["content-encoding: identity"], Some(b"{}")), Ok(()));
    let mut get = entry.clone();
    get.input_required = false;
    assert_eq!(check(&get, "/b", &[], Some(b"")), Ok(()));
    assert_eq!(check(&entry, "/b", sent, None), Ok(()));
}

#[test]
fn a_body_in_a_form_that_is_not_listed_is_refused_and_one_that_is_passes() {
    let of = |content_types: &[&str], sent: &str| {
        let mut entry = with_body(json!(false));
        entry.content_types = content_types.iter().map(ToString::to_string).collect();
        let sent = if sent.is_empty() { String::new() } else { format!("content-type: {sent}") };
        let sent: Vec<_> = [sent.as_str()].into_iter().filter(|line| !line.is_empty()).collect();
        match check(&entry, "/b", &sent, Some(b"{}")) {
            Ok(()) => "unseen",
            Err(Refused::Input(_)) => "seen",
            Err(Refused::MediaType(_)) => "refused",
            Err(other) => panic!("{other}"),
        }
    };
    for (content_types, sent, expected) in [
        (&[][..], "application/json", "seen"),
        (&[], "Application/JSON; charset=utf-8", "seen"),
        (&[], "application/vnd.api+json", "seen"),
        (&[], "", "seen"),
        (&[], "application/x-www-form-urlencoded", "refused"),
        (&[], "text/plain", "refused"),
        (&["application/json"], "application/merge-patch+json", "seen"),
        (&["application/json"], "text/plain", "refused"),
        (&["multipart/form-data", "application/json"], "multipart/form-data; boundary=x", "unseen"),
        (&["multipart/form-data", "application/json"], "application/json", "seen"),
        (&["text/*"], "text/csv", "unseen"),
        (&["text/*"], "application/json", "refused"),
        (&["*/*"], "application/json", "seen"),
        (&["*/*"], "image/png", "unseen"),
        (&["application/*"], "application/json", "seen"),
    ] {
        assert_eq!(of(content_types, sent), expected, "{content_types:?} {sent}");
    }
    let refused = check(&with_body(json!({})), "/b", &["content-type: text/plain"], Some(b"{}")).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the body's media type is not taken here; send Content-Type: application/json (curl: -H 'Content-Type: application/json')"
    );
}

#[test]
fn a_schema_that_can_not_be_compiled_is_found_and_nothing_is_fetched_for_it() {
    for (schema, problem) in [
        (json!({"$ref": "#/$defs/nope"}), "/$defs/nope"),
        (json!({"$ref": "https://example.com/s.json"}), "`https://example.com/s.json` lies outside the schema"),
        (json!({"$ref": "file:///etc/passwd"}), "`file:///etc/passwd` lies outside the schema"),
        (json!({"properties": {"a": {"pattern": "["}}}), "/properties/a/pattern"),
        (json!({"properties": {"a": {"type": "text"}}}), "/properties/a/type"),
    ] {
        let capability = Capability::new(with_body(schema.clone())).unwrap();
        let problems = capability.validation().compile().unwrap_err();
        let message = problems[0].to_string();
        assert!(message.starts_with("`input_schema` can't be compiled: ") && message.contains(problem), "{message}");
        let refused = check(&with_body(schema), "/b", &["content-type: application/json"], Some(b"{}"));
        assert!(matches!(refused, Err(Refused::Schema(_))));
    }
    let capability = Capability::new(with_query("string", Some(json!({"type": 5})))).unwrap();
    assert!(capability.validation().compile().unwrap_err()[0].to_string().starts_with("the schema of `p` can't"));
}

#[test]
fn a_schema_is_of_2020_12_whatever_it_says_and_its_formats_are_notes() {
    let schema = json!({"$schema": "http://json-schema.org/draft-07/schema#", "prefixItems": [{"type": "integer"}]});
    assert_eq!(body(schema, "[\"a\"]"), ["Body /0 type: must be an integer"]);
    assert_eq!(body(json!({"format": "date"}), "\"yesterday\""), [""; 0]);
}

#[test]
fn a_violation_is_serialised_as_details_have_it() {
    let Refused::Input(violations) = check(&with_body(json!({"type": "object"})), "/b", &[], Some(b"[]")).unwrap_err()
    else {
        panic!("an input");
    };
    assert_eq!(
        serde_json::to_value(&violations).unwrap(),
        json!([{"location": "body", "path": "", "keyword": "type", "message": "must be an object"}])
    );
}
