//! Descriptions of APIs: imported into a file, named by a file, and fetched while the gateway serves.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use tempfile::TempDir;

use crate::support::{Gateway, Upstream, until};

const PROGRAM: &str = env!("CARGO_BIN_EXE_restap-gateway");

const FOLDER: &str = "tests/cases/openapi-minimal";

const SHOP: &str = r##"
openapi: 3.0.3
info: {title: Shop, version: "2"}
servers: [{url: "https://shop.example.com/v1"}]
security: [{key: []}]
paths:
  /items/{id}:
    parameters: [{name: id, in: path, required: true, schema: {type: integer}}]
    get:
      operationId: getItem
      parameters:
        - {name: tags, in: query, explode: false, schema: {type: array, items: {type: string}}}
        - {name: filter, in: query, style: deepObject, schema: {type: object, properties: {color: {type: string}}}}
        - {name: X-API-Key, in: header, required: true, schema: {type: string}}
      responses: {"200": {description: ok, content: {application/json: {schema: {type: object}}}}}
    patch:
      operationId: changeItem
      requestBody: {required: true, content: {application/merge-patch+json: {schema: {$ref: "#/components/schemas/Item"}}}}
      responses: {"200": {description: ok}}
  /orders:
    post:
      operationId: order
      requestBody:
        content:
          application/x-www-form-urlencoded:
            encoding: {address: {style: deepObject}}
            schema: {type: object, required: [item], properties: {item: {type: integer}, tags: {type: array, items: {type: string}}, address: {type: object}}}
      responses: {"201": {description: made}}
  /news: {get: {operationId: news, responses: {"200": {description: ok}}}}
components:
  securitySchemes: {key: {type: apiKey, in: query, name: app_key}}
  schemas: {Item: {type: object, required: [id, name], properties: {id: {type: integer, readOnly: true}, name: {type: string, minLength: 1}}, additionalProperties: false}}
"##;

fn run(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(PROGRAM).args(arguments).current_dir(folder).output().unwrap()
}

#[track_caller]
fn import(folder: &Path, arguments: &[&str]) -> String {
    let output = run(folder, &[&["import"], arguments].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    said
}

#[track_caller]
fn passes_check(folder: &Path, file: &str) {
    let output = run(folder, &["check", "-c", file]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Minimal documents that have an operation to import.
fn documents() -> Vec<PathBuf> {
    let paths = fs::read_dir(FOLDER).unwrap().map(|entry| entry.unwrap().path());
    let paths = paths.map(|path| if path.is_dir() { path.join("openapi.yaml") } else { path });
    let mut paths: Vec<_> = paths.filter(|path| path.extension().is_some_and(|end| end == "yaml")).collect();
    paths.retain(|path| !path.to_string_lossy().contains("/10-"));
    paths.iter().map(|path| path.canonicalize().unwrap()).collect()
}

#[test]
fn every_minimal_document_becomes_a_file_that_check_accepts() {
    let folder = TempDir::new().unwrap();
    for (number, path) in documents().iter().enumerate() {
        let file = format!("{number}.yaml");
        let said = import(folder.path(), &[path.to_str().unwrap(), "--url", "http://127.0.0.1:9", "-o", &file]);
        assert!(said.contains("taken"), "{said}");
        let made = fs::read_to_string(folder.path().join(&file)).unwrap();
        assert!(!made.lines().any(|line| line.starts_with("listen") || line.starts_with("admin")), "{made}");
        passes_check(folder.path(), &file);
    }
}

#[test]
fn what_was_imported_is_called_as_the_service_expects() {
    let upstream = Upstream::start(|exchange| exchange.json(&json!({"ok": true})));
    let folder = Arc::new(TempDir::new().unwrap());
    fs::write(folder.path().join("shop.yaml"), SHOP).unwrap();
    let url = format!("{}/v1", upstream.url());
    let said = import(folder.path(), &["shop.yaml", "--url", &url, "-o", "made.yaml"]);
    for part in
        ["skipped  GET     /news", "reserved_path", "4 operations: 3 taken, 1 skipped", "SHOP_X_API_KEY", "SHOP_KEY"]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
    passes_check(folder.path(), "made.yaml");
    let made = fs::read_to_string(folder.path().join("made.yaml")).unwrap();
    let mut command = Command::new(PROGRAM);
    fs::write(
        folder.path().join("gateway.yaml"),
        format!("listen: 127.0.0.1:0\nadmin: off\nstore: {{memory: {{}}}}\n{made}"),
    )
    .unwrap();
    command.args(["serve", "-c", "gateway.yaml"]).env("SHOP_X_API_KEY", "key-1234").env("SHOP_KEY", "app-1234");
    let gateway = Gateway::spawn(folder, command);

    gateway.get("/items/7?tags=a&tags=b&filter%5Bcolor%5D=red").ok();
    let request = upstream.last();
    let (path, query) = request.target.split_once('?').unwrap();
    assert_eq!(path, "/v1/items/7");
    assert!(query.contains("tags=a,b") || query.contains("tags=a%2Cb"), "{query}");
    assert!(query.contains("filter[color]=red") || query.contains("filter%5Bcolor%5D=red"), "{query}");
    assert!(query.contains("app_key=app-1234") && request.header("x-api-key") == Some("key-1234"), "{request:?}");
    gateway.get("/items/seven").refused(400, "invalid_input");

    gateway.post("/items/7:patch", &json!({"name": "n"})).ok();
    let request = upstream.last();
    assert_eq!((request.method.as_str(), request.target.split('?').next()), ("PATCH", Some("/v1/items/7")));
    assert_eq!(request.header("content-type"), Some("application/merge-patch+json"));
    gateway.post("/items/7:patch", &json!({"name": "n", "id": 7})).refused(400, "invalid_input");

    gateway.post("/orders", &json!({"item": 7, "tags": ["a", "b"], "address": {"city": "Oslo"}})).ok();
    let request = upstream.last();
    assert_eq!(request.header("content-type"), Some("application/x-www-form-urlencoded"));
    let body = String::from_utf8(request.body).unwrap().replace("%5B", "[").replace("%5D", "]");
    assert_eq!(body, "item=7&tags=a&tags=b&address[city]=Oslo");
}

fn shop_agent(upstream: &str, openapi: &str) -> String {
    format!("agent:\n  name: Shop\n  talk: off\n  upstream: {upstream}/v1\n  capabilities:\n    - openapi: {openapi}\n")
}

fn ids(gateway: &Gateway) -> Vec<String> {
    let catalog = gateway.get("/.well-known/restap.json").ok();
    let all = catalog["capabilities"].as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap().to_owned());
    all.filter(|id| !id.starts_with("news")).collect()
}

#[test]
fn a_description_beside_the_file_is_served_and_followed() {
    let upstream = Upstream::start(|exchange| exchange.json(&json!({"ok": true})));
    let folder = Arc::new(TempDir::new().unwrap());
    let description = folder.path().join("shop.yaml");
    fs::write(&description, SHOP).unwrap();
    let openapi = "{file: shop.yaml, exclude: [order], prefix: /shop, overrides: {get_item: {title: An item, route: {timeout: 5s}}}}";
    let gateway = Gateway::start_in(folder, &shop_agent(&upstream.url(), openapi));
    assert_eq!(ids(&gateway), ["get_item", "change_item", "api.news"]);
    let catalog = gateway.get("/.well-known/restap.json").ok().to_string();
    assert!(catalog.contains("\"title\":\"An item\"") && !catalog.contains("X-API-Key"), "{catalog}");
    gateway.get("/shop/items/7").ok();
    assert_eq!(upstream.last().target, "/v1/items/7");
    fs::write(&description, SHOP.replace("/items/{id}", "/things/{id}")).unwrap();
    until("the new description in force", || (gateway.get("/shop/things/7").status == 200).then_some(()));
}

#[test]
fn a_description_that_is_not_to_be_had_keeps_no_gateway_from_starting() {
    let up = Arc::new(AtomicBool::new(false));
    let is_up = up.clone();
    let upstream =
        Upstream::start(move |exchange| match (is_up.load(Ordering::Acquire), exchange.request.target.as_str()) {
            (true, "/openapi.yaml") => exchange.answer("200 OK", "Content-Type: application/yaml", SHOP.as_bytes()),
            (true, _) => exchange.json(&json!({"ok": true})),
            (false, _) => exchange.answer("503 Service Unavailable", "", b""),
        });
    let folder = Arc::new(TempDir::new().unwrap());
    let openapi = format!("{{url: '{}/openapi.yaml'}}", upstream.url());
    let file = format!("store: {{embedded: {{path: data}}}}\n{}", shop_agent(&upstream.url(), &openapi));
    let gateway = Gateway::start_in(folder.clone(), &file);
    assert_eq!(ids(&gateway), Vec::<String>::new());
    let (status, ready) = gateway.admin("/ready");
    assert!(status == 200 && ready.contains("/openapi.yaml") && ready.contains("503"), "{ready}");
    up.store(true, Ordering::Release);
    until("the description in force", || (!ids(&gateway).is_empty()).then_some(()));
    gateway.get("/items/7").ok();
    until("nothing is missing", || (!gateway.admin("/ready").1.contains("openapi.yaml")).then_some(()));
    drop(gateway);
    // The last good copy is there when the service is not.
    up.store(false, Ordering::Release);
    let gateway = Gateway::start_in(folder, &file);
    assert_eq!(ids(&gateway), ["get_item", "change_item", "order"]);
    assert!(gateway.admin("/ready").1.contains("503"));
}

#[test]
fn a_reference_to_elsewhere_reaches_nobody() {
    let other = Upstream::fixed("200 OK", "Content-Type: application/json", "{\"type\":\"object\"}");
    let secret = format!("{}/secret", other.url());
    let document = json!({
        "openapi": "3.1.0", "info": {"title": "t", "version": "1"},
        "paths": {"/a": {"get": {"responses": {"200": {"description": "d", "content": {"application/json": {"schema": {"$ref": secret}}}}}}}}
    });
    let body = document.to_string();
    let service = Upstream::fixed("200 OK", "Content-Type: application/json", &body);
    let folder = Arc::new(TempDir::new().unwrap());
    fs::write(folder.path().join("a.json"), &body).unwrap();
    for spec in ["a.json".to_owned(), format!("{}/docs/a.json", service.url())] {
        for more in [None, Some("--allow-remote")] {
            let arguments: Vec<&str> = [spec.as_str(), "--url", "http://127.0.0.1:9"].into_iter().chain(more).collect();
            let said = import(folder.path(), &arguments);
            assert!(said.contains("external_ref"), "{said}");
        }
    }
    let gateway = Gateway::start(&shop_agent(&service.url(), &format!("{{url: '{}/docs/a.json'}}", service.url())));
    assert_eq!(ids(&gateway), ["a.get"]);
    assert_eq!(other.accepted(), 0);
}

#[test]
fn a_service_that_describes_itself_needs_no_file() {
    let upstream = Upstream::start(|exchange| match exchange.request.target.as_str() {
        "/openapi.yaml" => exchange.answer("200 OK", "Content-Type: application/yaml", SHOP.as_bytes()),
        _ => exchange.json(&json!({"ok": true})),
    });
    let folder = Arc::new(TempDir::new().unwrap());
    let url = format!("{}/openapi.yaml", upstream.url());
    let print = run(folder.path(), &["serve", "--openapi", &url, "--print"]);
    fs::write(folder.path().join("printed.yaml"), print.stdout).unwrap();
    passes_check(folder.path(), "printed.yaml");
    let mut command = Command::new(PROGRAM);
    command.args(["serve", "--listen", "127.0.0.1:0", "--openapi", &url]);
    let gateway = Gateway::spawn(folder, command);
    gateway.get("/items/7").ok();
    assert_eq!(upstream.last().target, "/items/7");
}

#[test]
fn trying_says_where_answers_are_not_what_the_description_says() {
    let upstream = Upstream::start(|exchange| match exchange.request.target.as_str() {
        "/good" => exchange.json(&json!({"n": 1})),
        _ => exchange.json(&json!({"n": "one"})),
    });
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let get = json!({"get": {"responses": {"200": {"description": "d", "content": {"application/json": {"schema": schema}}}}}});
    let document =
        json!({"openapi": "3.1.0", "paths": {"/good": get, "/bad": get, "/x/{id}": get, "/post": {"post": {}}}});
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("a.json"), document.to_string()).unwrap();
    let said = import(folder.path(), &["a.json", "--url", &upstream.url(), "--try", "-o", "made.yaml"]);
    assert!(said.contains("Tried 2 GETs; 1 need inputs that nobody knows; 1 answer otherwise"), "{said}");
    assert!(
        said.contains("GET /good: 200, as described") && said.contains("GET /bad: 200, breaks its schema: at `/n`"),
        "{said}"
    );
    assert_eq!(upstream.requests().len(), 2);
}

#[test]
fn an_import_never_writes_over_a_file_and_says_how_to_go_on() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("shop.yaml"), SHOP).unwrap();
    fs::write(folder.path().join("mine.yaml"), "mine").unwrap();
    let output = run(folder.path(), &["import", "shop.yaml", "-o", "mine.yaml"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--update"));
    assert_eq!(fs::read_to_string(folder.path().join("mine.yaml")).unwrap(), "mine");
    for (spec, said) in [("no.yaml", "No such file"), ("mine.yaml", "OpenAPI")] {
        let output = run(folder.path(), &["import", spec]);
        assert_eq!(output.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&output.stderr).contains(said), "{output:?}");
    }
    assert_eq!(run(folder.path(), &["import"]).status.code(), Some(2));
}

#[test]
fn wrong_sections_are_told_at_their_place() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("shop.yaml"), SHOP).unwrap();
    let cases = [
        ("{}", "neither `file` nor `url`"),
        ("{file: shop.yaml, url: 'http://h/a'}", "not both"),
        ("{file: nowhere.yaml}", "No such file"),
        ("{file: shop.yaml, prefx: /a}", "did you mean `prefix`?"),
        ("{file: shop.yaml, prefix: shop}", "a path such as /shop"),
        ("{file: shop.yaml, overrides: {get_itm: {title: x}}}", "did you mean `get_item`?"),
        ("{file: shop.yaml, overrides: {get_item: {titel: x}}}", "did you mean `title`?"),
        ("{file: shop.yaml, overrides: {get_item: {route: {path: '/{nobody}'}}}}", "nobody"),
    ];
    for (openapi, said) in cases {
        fs::write(folder.path().join("gateway.yaml"), shop_agent("http://127.0.0.1:9", openapi)).unwrap();
        let output = run(folder.path(), &["check"]);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(stderr.contains(said) && stderr.contains("gateway.yaml:6:"), "{openapi}: {stderr}");
    }
}

#[test]
fn a_token_of_client_credentials_is_asked_for_in_an_imported_file_and_while_trying() {
    let upstream = Upstream::start(|exchange| {
        let authorization = exchange.request.header("authorization").unwrap_or_default().to_owned();
        match exchange.request.target.as_str() {
            "/token" => exchange.json(&json!({"access_token": "t-of-the-service", "expires_in": 600})),
            _ if authorization == "Bearer t-of-the-service" => exchange.json(&json!({"ok": true})),
            _ => exchange.answer("401 Unauthorized", "", b""),
        }
    });
    let folder = Arc::new(TempDir::new().unwrap());
    let document = format!(
        "openapi: 3.0.3\ninfo: {{title: Bank, version: '1'}}\nservers: [{{url: '{url}'}}]\n\
         security: [{{login: ['read:${{all}}', write]}}]\n\
         paths: {{/balance: {{get: {{operationId: balance, responses: {{'200': {{description: ok, content: \
         {{application/json: {{schema: {{type: object, required: [ok]}}}}}}}}}}}}}}}}\n\
         components: {{securitySchemes: {{login: {{type: oauth2, flows: {{clientCredentials: {{tokenUrl: '{url}/token', scopes: {{}}}}, \
         authorizationCode: {{tokenUrl: 'https://elsewhere.example/token', authorizationUrl: 'https://elsewhere.example/', scopes: {{}}}}}}}}}}}}\n",
        url = upstream.url()
    );
    fs::write(folder.path().join("bank.yaml"), document).unwrap();
    let mut command = Command::new(PROGRAM);
    command.args(["import", "bank.yaml", "-o", "made.yaml", "--try"]).current_dir(folder.path());
    command.env("BANK_LOGIN_CLIENT_ID", "the-client").env("BANK_LOGIN_CLIENT_SECRET", "the-secret-of-the-client");
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    for part in ["BANK_LOGIN_CLIENT_ID", "BANK_LOGIN_CLIENT_SECRET", "/balance: 200, as described"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!said.contains("the-secret-of-the-client"), "{said}");
    let made = fs::read_to_string(folder.path().join("made.yaml")).unwrap();
    let written: serde_json::Value = serde_yaml::from_str(&made).unwrap();
    assert_eq!(
        written["upstreams"]["bank"]["oauth2"],
        json!({
            "token_url": format!("{}/token", upstream.url()),
            "client_id": "${BANK_LOGIN_CLIENT_ID:-not-set}",
            "client_secret": "${BANK_LOGIN_CLIENT_SECRET:-not-set}",
            "scopes": ["read:$${all}", "write"],
        }),
        "{made}"
    );
    assert!(!made.contains("bearer"), "{made}");
    passes_check(folder.path(), "made.yaml");
    fs::write(
        folder.path().join("gateway.yaml"),
        format!("listen: 127.0.0.1:0\nadmin: off\nstore: {{memory: {{}}}}\n{made}"),
    )
    .unwrap();
    let mut command = Command::new(PROGRAM);
    command.args(["serve", "-c", "gateway.yaml"]);
    command.env("BANK_LOGIN_CLIENT_ID", "the-client").env("BANK_LOGIN_CLIENT_SECRET", "the-secret-of-the-client");
    let gateway = Gateway::spawn(folder.clone(), command);
    assert_eq!(gateway.get("/balance").ok(), json!({"ok": true}));
    let asked = upstream.requests().iter().filter(|request| request.target == "/token").count();
    assert_eq!(asked, 2, "one token for each program");
    let tokens = upstream.requests().into_iter().filter(|request| request.target == "/token");
    for request in tokens {
        assert_eq!(request.body, b"grant_type=client_credentials&scope=read%3A%24%7Ball%7D%20write");
    }
}
