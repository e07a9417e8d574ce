//! Budgets of entries and of the catalog.

use serde_json::{Map, Value, json};

use super::*;
use crate::restap::catalog::{Card, Endpoints, Location, Provider};

fn catalog(capabilities: Vec<Capability>) -> Catalog {
    Catalog {
        restap_version: "1.0",
        agent: Card::default(),
        provider: Provider { name: String::new(), version: String::new() },
        endpoints: Endpoints { talk: None, news: None, news_post: None, catalog: "", health: "" },
        service_type: "public-agent",
        name: String::new(),
        version: String::new(),
        public_url: None,
        capabilities,
        packages: Vec::new(),
        protocols: Map::new(),
    }
}

fn entry(id: &str, input: Option<Value>) -> Capability {
    Capability { id: id.to_owned(), input_schema: input.map(Into::into), ..Capability::default() }
}

/// A record with so many fields of some 100 bytes each.
fn record(fields: usize) -> Value {
    let field = |n| (format!("field_{n}"), json!({"type": "string", "description": "d".repeat(60)}));
    json!({"type": "object", "title": "Record", "properties": (0..fields).map(field).collect::<Map<_, _>>()})
}

#[test]
fn parameters_lose_schemas_and_long_descriptions_but_none_is_left_out() {
    let parameter = |n: usize| Parameter {
        required: n == 0,
        description: Some("d".repeat(150)),
        schema: Some(json!({"enum": vec!["value"; 10 * n]}).into()),
        ..Parameter::new(&format!("p{n}"), Location::Query, "string")
    };
    let mut parameters: Vec<_> = (0..10).map(parameter).collect();
    assert!(fit_parameters(&mut parameters, 4 << 10));
    assert!(fits(&parameters, 4 << 10));
    assert!(parameters[0].schema.is_some() && parameters[9].schema.is_none() && parameters.len() == 10);
    let mut many: Vec<_> = (0..60).map(parameter).collect();
    fit_parameters(&mut many, 4 << 10);
    assert!(
        many.iter().all(|it| it.schema.is_none() && it.description.as_ref().unwrap().len() <= 80) && many.len() == 60
    );
}

#[test]
fn an_entry_says_that_it_is_reduced_and_where_the_whole_one_is() {
    let whole = catalog(vec![entry("a.b/ü", Some(record(500))), entry("small", Some(record(2)))]);
    let (bytes, ids) = within_budgets(whole).unwrap();
    let document: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(ids, ["a.b/ü"]);
    assert_eq!(document["capabilities"][0]["x_truncated"], true);
    assert_eq!(document["capabilities"][0]["x_detail"], "/.well-known/restap/capabilities/a.b%2F%C3%BC");
    assert_eq!(document["capabilities"][1].get("x_truncated"), None);
}

#[test]
fn a_catalog_of_many_large_entries_stays_within_its_limit() {
    let entries = |count: usize, schema: Option<Value>| {
        catalog((0..count).map(|n| entry(&format!("capability.{n}"), schema.clone())).collect())
    };
    for (count, expected) in [(100, 0), (350, 350)] {
        let (bytes, ids) = within_budgets(entries(count, Some(record(140)))).unwrap();
        assert!(bytes.len() <= CATALOG_BYTES_MAX, "{count}");
        let document: Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!((document["capabilities"].as_array().unwrap().len(), ids.len()), (count, expected));
    }
    assert!(within_budgets(entries(70_000, None)).unwrap_err().bytes > CATALOG_BYTES_MAX);
}
