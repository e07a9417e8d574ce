//! An operation as an entry of `capabilities:`.

use serde_json::{Map, Value, json};

use super::{Form, Operation, Parameter, SendAs};
use crate::restap::catalog::Location;

/// The entry. `upstream` is left out where the agent's own is meant.
pub fn entry(operation: &Operation, upstream: Option<&str>) -> Map<String, Value> {
    let mut entry = Map::new();
    let mut put = |key: &str, value: Value| drop(entry.insert(key.to_owned(), value));
    put("id", json!(operation.id));
    put("title", json!(operation.title));
    put("method", json!(operation.method));
    put("endpoint", json!(operation.endpoint));
    if let Some(description) = &operation.description {
        put("description", json!(description));
    }
    if !operation.parameters.is_empty() {
        put("parameters", operation.parameters.iter().map(parameter).collect());
    }
    if let Some(body) = &operation.body {
        if let Some(schema) = &body.schema {
            put("input_schema", (**schema).clone());
            let by_default = !matches!(operation.method, "GET" | "DELETE");
            if body.required != by_default {
                put("input_required", body.required.into());
            }
        }
        put("content_types", json!(body.content_types));
    }
    if let Some(schema) = &operation.output_schema {
        put("output_schema", (**schema).clone());
    }
    if !operation.output_formats.is_empty() {
        put("output_formats", json!(operation.output_formats));
    }
    let route = route(operation, upstream);
    if !route.is_empty() {
        put("route", route.into());
    }
    entry
}

fn parameter(parameter: &Parameter) -> Value {
    let location = match parameter.location {
        Location::Path => "path",
        Location::Header => "header",
        _ => "query",
    };
    let mut entry = Map::from_iter([
        ("name".to_owned(), json!(parameter.name)),
        ("location".to_owned(), json!(location)),
        ("type".to_owned(), json!(parameter.kind)),
    ]);
    if parameter.required && parameter.location != Location::Path {
        entry.insert("required".to_owned(), true.into());
    }
    entry.extend(parameter.description.as_ref().map(|text| ("description".to_owned(), json!(text))));
    entry.extend(parameter.schema.as_ref().map(|schema| ("schema".to_owned(), schema.clone())));
    entry.extend(form(&parameter.form));
    entry.into()
}

fn form(form: &Form) -> Map<String, Value> {
    let style = form.style.map(|style| ("style".to_owned(), json!(style)));
    let explode = form.explode.map(|explode| ("explode".to_owned(), json!(explode)));
    style.into_iter().chain(explode).collect()
}

fn route(operation: &Operation, upstream: Option<&str>) -> Map<String, Value> {
    let mut route = Map::new();
    let mut put = |key: &str, value: Value| drop(route.insert(key.to_owned(), value));
    if let Some(upstream) = upstream {
        put("upstream", json!(upstream));
    }
    if operation.route_method != operation.method {
        put("method", json!(operation.route_method));
    }
    if operation.route_path != operation.endpoint {
        put("path", json!(operation.route_path));
    }
    if !operation.route_query.is_empty() {
        // Values there may hold `{name}`s of the endpoint; these are meant as they are.
        let literal =
            |(name, value): &(String, String)| (name.clone(), json!(value.replace('{', "{{").replace('}', "}}")));
        put("query", operation.route_query.iter().map(literal).collect::<Map<_, _>>().into());
    }
    let Some(body) = &operation.body else { return route };
    match body.send_as {
        SendAs::AsIs => return route,
        SendAs::Form => put("send_as", json!("form")),
        SendAs::Multipart => put("send_as", json!("multipart")),
    }
    let encoding: Map<_, _> =
        body.encoding.iter().map(|(name, encoding)| (name.clone(), form(encoding).into())).collect();
    if !encoding.is_empty() {
        put("encoding", encoding.into());
    }
    route
}
