//! Golden documents.

use expect_test::{ExpectFile, expect_file};
use serde_json::json;

use super::*;
use crate::restap::catalog::{Location, Parameter};

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        other => panic!("{other}"),
    }
}

fn parameter(name: &str, location: Location, kind: &str, required: bool, schema: Option<Value>) -> Parameter {
    let description = required.then(|| format!("The {name}"));
    Parameter { required, description, schema: schema.map(Into::into), ..Parameter::new(name, location, kind) }
}

fn weather() -> Capability {
    Capability {
        id: "weather.current".to_owned(),
        title: "Current weather".to_owned(),
        method: "GET".to_owned(),
        endpoint: "/weather/{city}".to_owned(),
        description: Some("What the weather is like now".to_owned()),
        parameters: vec![
            parameter(
                "city",
                Location::Path,
                "string",
                true,
                Some(json!({"type": "string", "description": "The city"})),
            ),
            parameter(
                "units",
                Location::Query,
                "string",
                false,
                Some(json!({"type": "string", "enum": ["metric", "imperial"]})),
            ),
            parameter("X-Trace", Location::Header, "boolean", false, Some(json!(true))),
        ],
        output_schema: Some(json!({"type": "object", "properties": {"temperature": {"type": "number"}}}).into()),
        output_formats: vec!["application/json".to_owned()],
        ..Capability::default()
    }
}

fn echo() -> Capability {
    Capability {
        id: "text.echo".to_owned(),
        title: "Echo text back".to_owned(),
        method: "POST".to_owned(),
        endpoint: "/text/echo".to_owned(),
        description: Some("Returns the input\n# unchanged".to_owned()),
        input_schema: Some(
            json!({
                "type": "object",
                "properties": {"lang": {"type": "string"}, "text": {"type": "string"}, "more": {"anyOf": []}},
                "required": ["text"]
            })
            .into(),
        ),
        content_types: vec!["application/json".to_owned()],
        ..Capability::default()
    }
}

/// Everything that can be said.
fn everything() -> Facts {
    Facts {
        card: Card {
            name: "Weather agent".to_owned(),
            description: Some("Weather for any city: \"now\" and tomorrow.".to_owned()),
            contact: Some("ops@example.com".to_owned()),
        },
        version: Some("2.1.0".to_owned()),
        public_url: Some("https://agents.example.com/weather".to_owned()),
        talk: Some(Talk { streaming: true, sessions: true, optional_events: vec!["status".to_owned()] }),
        news: Some(News { sessions: NewsSessions::Optional, reads: true, posts: true }),
        capabilities: vec![weather(), echo()],
        packages: vec![object(json!({"name": "Weather SDK", "type": "npm-package", "package": "@example/weather"}))],
        protocols: object(json!({"mcp": {"available": true, "endpoint": "/mcp"}})),
    }
}

fn named(name: &str) -> Facts {
    Facts { card: Card { name: name.to_owned(), ..Card::default() }, ..Facts::default() }
}

/// An agent that says nothing of itself, whose news belong to sessions.
fn private() -> Facts {
    Facts {
        talk: Some(Talk::default()),
        news: Some(News { sessions: NewsSessions::Required, reads: true, posts: true }),
        packages: vec![object(json!({"name": "How to", "type": "claude-plugin", "skill_file": "SKILL.md"}))],
        ..named("Ärzte & Co")
    }
}

/// An agent whose schemas are over every budget.
fn large() -> Facts {
    let field = |n| {
        let field = json!({"type": "object", "description": format!("Field {n}"), "properties": {
            "value": {"$ref": "#/$defs/Value"},
            "unit": {"type": "object", "title": "Unit", "properties": {
                "symbol": {"type": "string", "description": "As it is written. ".repeat(30), "examples": ["m"]}
            }}
        }});
        (format!("field_{n}"), field)
    };
    let schema = json!({
        "type": "object",
        "properties": (0..30).map(field).collect::<Map<_, _>>(),
        "required": ["field_0"],
        "$defs": {"Value": {"oneOf": [{"type": "number"}, {"type": "string", "description": "As text"}]}}
    });
    let capability =
        Capability { input_schema: Some(schema.clone().into()), output_schema: Some(schema.into()), ..echo() };
    Facts { capabilities: vec![capability], ..named("Large") }
}

fn shown(document: &Document) -> String {
    let value: Value = serde_json::from_slice(document.body()).unwrap();
    serde_json::to_string_pretty(&value).unwrap() + "\n"
}

fn published(facts: Facts) -> Published {
    Published::new(facts).unwrap()
}

fn holds(golden: &ExpectFile, document: &Document) {
    golden.assert_eq(&shown(document));
}

#[test]
fn the_catalog_says_what_the_agent_is_and_does() {
    holds(&expect_file!["../../tests/golden/catalog/everything.json"], &published(everything()).catalog);
    holds(&expect_file!["../../tests/golden/catalog/private.json"], &published(private()).catalog);
    holds(&expect_file!["../../tests/golden/catalog/silent.json"], &published(named("Silent")).catalog);
}

#[test]
fn a_large_schema_is_published_as_much_as_fits() {
    let published = published(large());
    holds(&expect_file!["../../tests/golden/catalog/large.json"], &published.catalog);
    assert_eq!(published.reduced, ["text.echo"]);
    let whole = published.capability("text.echo").unwrap();
    assert!(whole.body().len() > 32 << 10);
    assert_eq!(serde_json::from_slice::<Value>(whole.body()).unwrap().get("x_truncated"), None);
}

#[test]
fn every_capability_can_be_asked_for_alone() {
    let published = published(everything());
    let document: Value = serde_json::from_slice(published.catalog.body()).unwrap();
    for entry in document["capabilities"].as_array().unwrap() {
        let alone = published.capability(entry["id"].as_str().unwrap()).unwrap();
        assert_eq!(serde_json::from_slice::<Value>(alone.body()).unwrap(), *entry);
    }
    assert!(published.capability("none").is_none());
}

#[test]
fn the_skill_teaches_what_the_catalog_lists() {
    let text = |facts| String::from_utf8(published(facts).skill.body().to_vec()).unwrap();
    expect_file!["../../tests/golden/catalog/everything.md"].assert_eq(&text(everything()));
    expect_file!["../../tests/golden/catalog/private.md"].assert_eq(&text(private()));
    let many = (0..150).map(|n| Capability { id: format!("c{n}"), ..echo() }).collect();
    assert!(text(Facts { capabilities: many, ..named("Many") }).ends_with("\nThe catalog lists 50 more.\n"));
}

#[test]
fn no_text_of_a_setting_ends_the_skills_front_matter() {
    let mut facts = named("x\n---\nname: y");
    facts.card.description = Some("a\n---\n\"b: c".to_owned());
    let text = String::from_utf8(published(facts).skill.body().to_vec()).unwrap();
    let lines: Vec<_> = text.lines().take(5).collect();
    assert_eq!(lines[..2], ["---", "name: x-name-y"]);
    assert!(lines[2].starts_with("description: \"a --- \\\"b: c. Use it") && lines[3] == "---" && lines[4].is_empty());
}

#[test]
fn the_base_says_where_to_go() {
    holds(&expect_file!["../../tests/golden/catalog/root.json"], &published(everything()).root);
    assert_eq!(
        shown(&published(named("Silent")).root),
        "{\n  \"agent\": \"Silent\",\n  \"catalog\": \"/.well-known/restap.json\"\n}\n"
    );
}

#[test]
fn the_origin_lists_its_agents() {
    let entry = |name: &str, description: Option<&str>, base: &str| Entry {
        name: name.to_owned(),
        description: description.map(str::to_owned),
        base: base.to_owned(),
    };
    let agents = [
        entry("Billing", Some("Invoices"), "https://agents.example.com/agents/billing"),
        entry("Support", None, "/agents/support"),
    ];
    holds(&expect_file!["../../tests/golden/catalog/directory.json"], &directory(&agents));
    let linkset = api_catalog(&agents);
    holds(&expect_file!["../../tests/golden/catalog/api-catalog.json"], &linkset);
    assert_eq!(linkset.media_type(), "application/linkset+json; profile=\"https://www.rfc-editor.org/info/rfc9727\"");
}

#[test]
fn the_same_facts_make_the_same_bytes() {
    let (once, again) = (published(everything()).catalog, published(everything()).catalog);
    let request = http::HeaderMap::new();
    assert_eq!(once.select(&request), again.select(&request));
}
