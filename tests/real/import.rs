//! Descriptions of others and the software that is made from them: Prism, which mocks a description and refuses what breaks it,
//! and httpbin, a Flask application that describes itself.

use std::io::{Read, Write};
use std::sync::Arc;

use serde_json::Map;
use tempfile::TempDir;

use super::*;

const PROGRAM: &str = env!("CARGO_BIN_EXE_restap-gateway");

/// Documents of ours, which are always there, and of others, which are where somebody put them.
const OURS: [&str; 4] = [
    "tests/cases/openapi-minimal/12-array-and-scalar-body.yaml",
    "tests/cases/openapi-minimal/15-swagger2.yaml",
    "tests/cases/openapi-minimal/19-query-styles.yaml",
    "tests/cases/openapi-minimal/21-methods.yaml",
];
const OF_OTHERS: [&str; 3] = ["museum-3.1.yaml", "petstore-2.0.json", "alertmanager-2.0.yaml"];

fn prism(document: &Path) -> Option<Real> {
    let (cli, port) = (component("node_modules/@stoplight/prism-cli/dist/index.js")?, free_port());
    let mut command = Command::new("node");
    command.arg(cli).args(["mock", "--errors", "-h", "127.0.0.1", "-p", &port.to_string()]).arg(document);
    Some(Real::start(command, port))
}

fn httpbin() -> Option<Real> {
    let (python, port) = (component("python/bin/python")?, free_port());
    let found = Command::new(&python).args(["-c", "import httpbin"]).stderr(Stdio::null()).status().unwrap().success();
    if !found {
        eprintln!("skipped: httpbin is not installed; .ci/components does that");
        return None;
    }
    let mut command = Command::new(python);
    command.args(["-c", &format!("from httpbin import app; app.run(port={port}, threaded=True)")]);
    Some(Real::start(command, port))
}

/// A gateway with what `import` makes of a document; every credential is set.
fn imported(document: &Path, url: &str) -> (Gateway, String) {
    let folder = Arc::new(TempDir::new().unwrap());
    let made = folder.path().join("made.yaml");
    let output =
        Command::new(PROGRAM).arg("import").arg(document).args(["--url", url, "-o"]).arg(&made).output().unwrap();
    let report = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{report}");
    let text = std::fs::read_to_string(made).unwrap();
    let head = "listen: 127.0.0.1:0\nadmin: off\nstore: {memory: {}}\n";
    std::fs::write(folder.path().join("gateway.yaml"), format!("{head}{text}")).unwrap();
    let mut command = Command::new(PROGRAM);
    command.args(["serve", "-c", "gateway.yaml"]);
    (Gateway::spawn(folder, command), report)
}

#[test]
fn prism_takes_a_call_of_every_operation_that_was_imported() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let others = OF_OTHERS.map(|name| root.join("../shared/cases/openapi").join(name));
    for document in OURS.map(|path| root.join(path)).iter().chain(&others) {
        if !document.exists() {
            eprintln!("skipped: {} is not there", document.display());
            continue;
        }
        let Some(prism) = prism(document) else { return };
        let (gateway, report) = imported(document, &prism.url());
        let catalog = gateway.get("/.well-known/restap.json").ok();
        let fixed = ["talk", "news", "news_receive"];
        let capabilities = catalog["capabilities"].as_array().unwrap().iter();
        let capabilities: Vec<_> = capabilities.filter(|it| !fixed.contains(&it["id"].as_str().unwrap())).collect();
        assert!(!capabilities.is_empty() && report.contains(&format!("{} taken", capabilities.len())), "{report}");
        for capability in capabilities {
            let call = sample_call(capability);
            let answer = gateway.call(&call);
            let shown = String::from_utf8_lossy(&answer.body).into_owned();
            // A mock may answer with any status of its description; what breaks it is 4xx with a problem of Prism's own.
            assert!(
                answer.status < 400 && !shown.contains("stoplight.io/prism/errors"),
                "{}: {} {shown}\n{capability:#}",
                document.display(),
                answer.status
            );
        }
    }
}

/// A call with a value for every input.
fn sample_call(capability: &Value) -> Call {
    let mut path = capability["endpoint"].as_str().unwrap().to_owned();
    let (mut query, mut headers) = (Vec::new(), Vec::new());
    for parameter in capability["parameters"].as_array().into_iter().flatten() {
        let mut schema = parameter.get("schema").cloned().unwrap_or_else(|| json!({}));
        if schema.get("type").is_none() {
            schema["type"] = parameter["type"].clone();
        }
        let value = sample(&schema, &schema, 0);
        let text = match &value {
            Value::String(text) => text.clone(),
            Value::Array(items) => items
                .iter()
                .map(|it| it.as_str().map_or_else(|| it.to_string(), str::to_owned))
                .collect::<Vec<_>>()
                .join(","),
            other => other.to_string(),
        };
        let name = parameter["name"].as_str().unwrap();
        match parameter["location"].as_str().unwrap() {
            "path" => path = path.replace(&format!("{{{name}}}"), &encode(&text)),
            "query" => query.push(format!("{}={}", encode(name), encode(&text))),
            _ => headers.push((name.to_owned(), text)),
        }
    }
    let target = if query.is_empty() { path } else { format!("{path}?{}", query.join("&")) };
    let method = capability["method"].as_str().unwrap();
    let mut call = Call::new(method, &target);
    for (name, value) in headers {
        call = call.header(&name, &value);
    }
    match capability.get("input_schema") {
        Some(schema) => {
            let body = sample(schema, schema, 0);
            let types = capability["content_types"].as_array().into_iter().flatten().filter_map(Value::as_str);
            match types.map(str::to_owned).find(|media_type| media_type.starts_with("text/")) {
                Some(media_type) => call.header("content-type", &media_type).body(body.as_str().unwrap_or_default()),
                None => call.header("content-type", "application/json").body(body.to_string()),
            }
        }
        None => call,
    }
}

fn encode(text: &str) -> String {
    text.bytes()
        .map(|byte| {
            if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                char::from(byte).to_string()
            } else {
                format!("%{byte:02X}")
            }
        })
        .collect()
}

/// A value that fits a schema.
fn sample(schema: &Value, root: &Value, depth: usize) -> Value {
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        return sample(root.pointer(reference.trim_start_matches('#')).unwrap_or(&Value::Null), root, depth + 1);
    }
    for key in ["examples", "enum"] {
        if let Some(first) = schema.get(key).and_then(Value::as_array).and_then(|values| values.first()) {
            return first.clone();
        }
    }
    if let Some(value) = schema.get("const").or(schema.get("default")) {
        return value.clone();
    }
    if let Some(branches) = schema.get("allOf").and_then(Value::as_array) {
        let mut own = schema.clone();
        own.as_object_mut().unwrap().remove("allOf");
        let parts = branches.iter().chain([&own]).map(|part| sample(part, root, depth + 1));
        return parts.filter_map(|part| part.as_object().cloned()).flatten().collect::<Map<_, _>>().into();
    }
    for key in ["oneOf", "anyOf"] {
        if let Some(first) = schema.get(key).and_then(Value::as_array).and_then(|branches| branches.first()) {
            return sample(first, root, depth + 1);
        }
    }
    let kind = schema["type"].as_str().or_else(|| schema["type"][0].as_str()).unwrap_or("object");
    match kind {
        "integer" | "number" => schema.get("minimum").filter(|it| it.as_f64() > Some(1.0)).cloned().unwrap_or(json!(1)),
        "boolean" => json!(true),
        "array" if depth > 4 => json!([]),
        "array" => {
            let item = sample(schema.get("items").unwrap_or(&json!({"type": "string"})), root, depth + 1);
            json!([item])
        }
        "string" => json!(match schema["format"].as_str() {
            Some("binary") => "YQ==".to_owned(),
            Some("date") => "2024-02-29".to_owned(),
            Some("date-time") => "2024-02-29T12:00:00Z".to_owned(),
            Some("uuid") => "f3bb16ab-295c-4f32-9856-4280fd541b93".to_owned(),
            Some("email") => "a@example.com".to_owned(),
            Some("uri") => "http://example.com/".to_owned(),
            _ => "a".repeat(schema["minLength"].as_u64().unwrap_or(1).max(1) as usize),
        }),
        _ if depth > 4 => json!({}),
        _ => {
            let required: Vec<_> =
                schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            let properties = schema["properties"].as_object().cloned().unwrap_or_default();
            let wanted = properties.iter().filter(|(name, _)| depth < 2 || required.contains(&name.as_str()));
            wanted.map(|(name, schema)| (name.clone(), sample(schema, root, depth + 1))).collect::<Map<_, _>>().into()
        }
    }
}

#[test]
fn a_flask_application_that_describes_itself_is_an_agent() {
    let Some(httpbin) = httpbin() else { return };
    let url = httpbin.url();
    let gateway = Gateway::start(&format!(
        "agent:\n  name: Bin\n  talk: off\n  upstream: {url}\n  capabilities:\n    - openapi: {{url: '{url}/spec.json', tags: [HTTP Methods, Anything, Status codes, Dynamic data], prefix: /bin}}\n"
    ));
    let catalog = gateway.get("/.well-known/restap.json").ok();
    let ids: Vec<_> = catalog["capabilities"].as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap()).collect();
    assert!(
        ids.contains(&"get.get") && ids.contains(&"patch.patch") && ids.contains(&"base64.by_value.get"),
        "{ids:?}"
    );
    assert!(!ids.contains(&"gzip.get"), "{ids:?}");

    let echoed = gateway.get("/bin/get?a=1&a=2&b=%C3%A9").ok();
    assert_eq!(echoed["args"], json!({"a": ["1", "2"], "b": "é"}));
    let echoed = gateway.post("/bin/patch:patch", &json!({"x": [1, null]})).ok();
    assert_eq!(echoed["json"], json!({"x": [1, null]}));
    let echoed = gateway.post("/bin/anything/a", &json!({"x": 1})).ok();
    assert_eq!((&echoed["method"], &echoed["json"]), (&json!("POST"), &json!({"x": 1})));
    let text = gateway.get("/bin/base64/SGVsbG8=");
    assert_eq!((text.status, text.text()), (200, "Hello"));
    let refused = gateway.get("/bin/drip?numbytes=many").refused(400, "invalid_input");
    assert_eq!(refused["details"][0]["path"], "numbytes");
}

#[test]
fn the_file_made_of_a_flask_application_is_an_agent_too() {
    let Some(httpbin) = httpbin() else { return };
    let folder = TempDir::new().unwrap();
    let spec = folder.path().join("spec.json");
    let mut socket = TcpStream::connect(("127.0.0.1", httpbin.port)).unwrap();
    socket.write_all(b"GET /spec.json HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    std::fs::write(&spec, answer.split_once("\r\n\r\n").unwrap().1).unwrap();
    let (gateway, report) = imported(&spec, &httpbin.url());
    assert!(report.contains("taken") && report.contains("TRACE"), "{report}");
    assert_eq!(gateway.get("/uuid").ok()["uuid"].as_str().unwrap().len(), 36);
    assert_eq!(gateway.get("/status/418").status, 418);
    assert_eq!(gateway.get("/headers").ok()["headers"]["Host"], json!(httpbin.url().trim_start_matches("http://")));
}
