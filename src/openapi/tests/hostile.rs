//! Documents that somebody wrote to do harm, and documents that nobody finished.

use std::fmt::Write as _;

use proptest::prelude::*;

use super::*;

fn refusal(text: &str) -> String {
    let bundle = Bundle::new(Location::File("api.yaml".into()), text.as_bytes());
    bundle.and_then(|bundle| import(&bundle, &Options::default())).unwrap_err().to_string()
}

#[test]
fn what_is_no_openapi_is_called_by_its_name() {
    for (text, name) in [
        ("<!DOCTYPE html><html>", "HTML"),
        ("<?xml version='1.0'?><wsdl:definitions/>", "WSDL"),
        ("#%RAML 1.0\ntitle: x", "RAML"),
        ("asyncapi: 2.0.0", "AsyncAPI"),
        ("{\"info\": {\"_postman_id\": \"x\"}, \"item\": []}", "Postman"),
        ("swagger: '1.2'", "Swagger `1.2`"),
        ("openapi: 4.0.0", "OpenAPI `4.0.0`"),
        ("- a", "no mapping"),
        ("", "empty"),
        ("a: b", "neither `openapi` nor `swagger`"),
        ("{\"openapi\": ", "no JSON"),
    ] {
        let refusal = refusal(text);
        assert!(refusal.contains(name), "{text}: {refusal}");
    }
}

#[test]
fn an_alias_bomb_is_an_error_with_a_place() {
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for n in 1..12 {
        let before = format!("*a{}", n - 1);
        let _ = writeln!(bomb, "a{n}: &a{n} [{}]", vec![before; 10].join(", "));
    }
    let refusal = refusal(&format!("openapi: 3.0.0\n{bomb}"));
    assert!(refusal.contains("too large") && refusal.contains("line"), "{refusal}");
}

#[test]
fn a_deep_document_is_an_error_or_cut() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let deep = format!("{{\"openapi\": \"3.0.0\", \"x\": {}1{}}}", open.repeat(100_000), close.repeat(100_000));
        assert!(!refusal(&deep).is_empty());
    }
    let schema = format!("{}{{}}{}", "{\"items\":".repeat(120), "}".repeat(120));
    let text = format!(
        "{{\"openapi\": \"3.1.0\", \"paths\": {{\"/a\": {{\"post\": {{\"requestBody\": {{\"content\": {{\"application/json\": {{\"schema\": {schema}}}}}}}}}}}}}}}"
    );
    let imported = of_text(&text);
    assert_eq!(imported.operations.len(), 1);
    assert!(imported.codes().contains(&"schema_truncated"), "{:?}", imported.codes());
}

#[test]
fn numbers_of_any_size_are_read() {
    let text = r#"{"openapi": "3.1.0", "paths": {"/a": {"post": {"requestBody": {"content": {"application/json": {"schema":
        {"minimum": 1e999, "maximum": -99999999999999999999999999999999999999999999, "minLength": 1e400, "maxItems": 99999999999999999999}}}}}}}}"#;
    let imported = of_text(text);
    let schema = imported.input("a.post");
    assert!(schema.get("minimum").is_none() && schema["maximum"].is_f64() && schema["maxItems"].is_u64(), "{schema}");
}

#[test]
fn a_schema_that_doubles_at_every_level_stays_within_its_budget() {
    let mut text = "openapi: 3.1.0\npaths:\n  /a:\n    post: {requestBody: {content: {application/json: {schema: {$ref: '#/components/schemas/S0'}}}}}\ncomponents:\n  schemas:\n".to_owned();
    for n in 0..400 {
        let next = format!("{{$ref: '#/components/schemas/S{}'}}", n + 1);
        let _ = writeln!(
            text,
            "    S{n}: {{description: {}, properties: {{a: {next}, b: {next}, c: {next}}}}}",
            "d".repeat(200)
        );
    }
    let imported = of_text(&text);
    let schema = imported.input("a.post").to_string();
    assert!(schema.len() <= INPUT_BYTES, "{}", schema.len());
    assert!(!schema.contains("$ref") || schema.contains("$defs"), "{schema}");
}

#[test]
fn references_to_anything_are_followed_or_told() {
    let imported = of_text(
        "openapi: 3.1.0\npaths:\n  /a: {$ref: '#/paths/~1a'}\n  /b: {$ref: '#/info'}\n  /c:\n    get: {parameters: [{$ref: '#/paths'}, {$ref: 7}, 8], responses: {200: {$ref: '#/x'}}}\ninfo: {title: t}\n",
    );
    assert_eq!(imported.ids(), ["c.get"]);
    assert!(imported.codes().contains(&"broken_ref") && imported.codes().contains(&"bad_parameter"));
}

#[test]
fn nothing_of_a_document_is_taken_for_a_variable_or_breaks_a_file() {
    let imported = of_text(
        "openapi: 3.0.0\ninfo: {title: \"${HOME} # x\\n- y\", version: 1.0}\nservers: [{url: 'http://h/${A}'}]\npaths:\n  /a:\n    get: {summary: \"${SECRET}: *x\", parameters: [{name: q, in: query, schema: {enum: ['${B}', no, '017', '1e3', '~', '']}}]}\n",
    );
    let file = write::file(&imported, &write::Origin { document: "a\nb: c", command: "x" });
    let document = crate::yaml::Document::parse("f", Path::new(""), file.clone()).unwrap();
    let read = document.root().get("agent").unwrap();
    assert_eq!(read.get("name").unwrap().as_text(), Some("$${HOME} # x - y"));
    let values = document.root().nearest("/agent/capabilities/0/parameters/0/schema/enum").to_json();
    assert_eq!(values, serde_json::json!(["$${B}", "no", "017", "1e3", "~", ""]), "{file}");
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z{}/#?$~.*:\\n<\u{0}é]{0,8}".prop_map(Value::from),
        prop::sample::select(vec![
            "string",
            "object",
            "query",
            "path",
            "body",
            "application/json",
            "#/components/schemas/A",
            "#",
            "get"
        ])
        .prop_map(Value::from),
    ];
    let key = prop::sample::select(vec![
        "get",
        "post",
        "patch",
        "parameters",
        "name",
        "in",
        "schema",
        "type",
        "items",
        "properties",
        "required",
        "$ref",
        "allOf",
        "oneOf",
        "requestBody",
        "content",
        "application/json",
        "multipart/form-data",
        "responses",
        "200",
        "default",
        "security",
        "servers",
        "url",
        "enum",
        "operationId",
        "tags",
        "a",
        "/a/{b}",
        "nullable",
        "discriminator",
        "mapping",
        "style",
        "explode",
        "additionalProperties",
        "pattern",
        "minimum",
        "exclusiveMinimum",
        "example",
        "encoding",
        "readOnly",
    ]);
    leaf.prop_recursive(6, 60, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key.clone(), inner), 0..6).prop_map(|entries| Value::Object(
                entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
            )),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_document_is_too_odd(
        paths in prop::collection::vec(("/[a-z{}?#=]{0,6}", value()), 0..4),
        components in value(),
        version in prop::sample::select(vec!["3.0.3", "3.1.0"]),
        swagger in any::<bool>(),
    ) {
        let paths: serde_json::Map<_, _> = paths.into_iter().collect();
        let mut document = serde_json::json!({"paths": paths, "components": {"schemas": {"A": components}}, "definitions": {"A": components}});
        if swagger { document["swagger"] = "2.0".into() } else { document["openapi"] = version.into() }
        let imported = of_text(&document.to_string());
        prop_assert_eq!(imported.report.taken(), imported.operations.len());
        let file = write::file(&imported, &write::Origin { document: "d", command: "c" });
        prop_assert!(crate::yaml::Document::parse("f", Path::new(""), file.clone()).is_ok(), "{}", file);
    }

    #[test]
    fn no_bytes_are_too_odd(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Bundle::new(Location::File("a".into()), &bytes).and_then(|bundle| import(&bundle, &Options::default()));
    }
}
