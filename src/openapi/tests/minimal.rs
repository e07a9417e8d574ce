//! The documents of ours, one for each way in which imports fail.

use std::collections::BTreeSet;

use serde_json::json;

use super::*;
use crate::restap::catalog::Location as Place;

const FOLDER: &str = "tests/cases/openapi-minimal";

/// Holds what was imported against an `# expect` line.
type Expectation = fn(&Imported);

/// What is expected of each document, by the number that its name begins with.
const EXPECTED: [(&str, Expectation); 30] = [
    ("01", |it| {
        assert_eq!(it.ids(), ["save_tree"]);
        let schema = it.input("save_tree");
        assert_eq!(schema["$defs"]["Node"]["properties"]["children"]["items"]["$ref"], "#/$defs/Node");
        assert_eq!(schema["type"], "object");
    }),
    ("02", |it| {
        let definitions = it.input("post_a")["$defs"].as_object().unwrap();
        assert!(definitions.contains_key("A") && definitions.contains_key("B"));
    }),
    ("03", |it| {
        assert_eq!(it.ids(), ["post_x"]);
        assert_eq!(*it.input("post_x"), json!(true));
        assert_eq!(it.note("ref_loop").line, 10);
    }),
    ("04", |it| {
        assert_eq!(it.ids(), ["bad", "good"]);
        assert_eq!(it.input("bad")["properties"]["a"], json!(true));
        let note = it.note("broken_ref");
        assert_eq!(note.line, 10);
        assert!(
            note.message.contains("#/components/schemas/Missing") && note.pointer.ends_with("/properties/a/$ref"),
            "{note:?}"
        );
    }),
    ("05", |it| {
        assert_eq!(it.ids(), ["bad", "good"]);
        assert!(
            it.codes().contains(&"operation_skipped") && it.codes().contains(&"security_undefined"),
            "{:?}",
            it.codes()
        );
    }),
    ("06", |it| assert_eq!(it.ids(), ["stacks.by_id.items.get", "stacks.by_id.items.post"])),
    ("07", |it| {
        assert_eq!(it.ids()[0], "get_property");
        assert!(it.ids()[1].starts_with("get_property_") && it.ids()[1].len() == "get_property_".len() + 8);
        assert_eq!(it.note("duplicate_operation_id").severity, Severity::Warning);
    }),
    ("08", |it| {
        assert_eq!(it.ids().into_iter().collect::<BTreeSet<_>>().len(), 3);
        assert!(it.ids().iter().all(|id| id.starts_with("users.get_user")) && it.ids().contains(&"users.get_user"));
    }),
    ("09", |it| {
        let id = it.ids()[0];
        let (_, hash) = id.rsplit_once('_').unwrap();
        assert!(id.len() <= 64 && hash.len() == 8 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
    }),
    ("10", |it| {
        assert!(it.operations.is_empty());
        for (method, path) in [("GET", "/news"), ("POST", "/news"), ("GET", "/.well-known/restap.json")] {
            assert_eq!(it.skipped(method, path), "reserved_path");
        }
    }),
    ("11", |it| {
        let operation = it.operation("put_user");
        let places: Vec<_> = operation.parameters.iter().map(|it| (it.name.as_str(), it.location, it.kind)).collect();
        assert_eq!(places, [("id", Place::Path, "string"), ("id", Place::Query, "integer")]);
        assert_eq!(it.input("put_user")["properties"]["id"]["type"], "integer");
    }),
    ("12", |it| {
        assert_eq!(*it.input("bulk"), json!({"type": "array", "items": {"type": "integer"}}));
        assert_eq!(*it.input("note"), json!({"type": "string"}));
        let body = it.operation("note").body.as_ref().unwrap();
        assert_eq!((body.send_as, body.content_types.clone()), (SendAs::AsIs, vec!["text/plain".to_owned()]));
    }),
    ("13", |it| {
        let body = it.operation("create_charge").body.as_ref().unwrap();
        assert_eq!(body.content_types, ["application/x-www-form-urlencoded", "application/json"]);
        assert_eq!(body.send_as, SendAs::Form);
        assert_eq!(body.encoding, [("metadata".to_owned(), Form { style: Some("deepObject"), explode: None })]);
        assert_eq!(it.input("create_charge")["required"], json!(["amount"]));
    }),
    ("14", |it| {
        let body = it.operation("upload").body.as_ref().unwrap();
        assert_eq!(body.content_types[0], "multipart/form-data");
        let field = &it.input("upload")["properties"]["document"];
        assert_eq!((&field["format"], &field["description"]), (&json!("binary"), &json!("A file.")));
    }),
    ("15", |it| {
        assert_eq!(it.services[0].url.as_deref(), Some("https://api.example.com/v1"));
        assert_eq!(it.services[0].credentials[0].scheme, Scheme::Query("api_key".into()));
        let put = it.operation("put_pet");
        assert_eq!(
            *it.input("put_pet"),
            json!({"type": "object", "properties": {"name": {"type": ["string", "null"]}}})
        );
        assert_eq!((put.parameters[0].kind, put.parameters[0].location), ("integer", Place::Path));
        assert_eq!(put.parameter("tags").form, Form { style: Some("pipeDelimited"), explode: Some(false) });
        assert_eq!(put.output_formats, ["application/json", "application/xml"]);
        assert_eq!(it.output("put_pet")["properties"]["id"]["type"], "integer");
        let upload = it.operation("upload").body.as_ref().unwrap();
        assert_eq!((upload.send_as, upload.required), (SendAs::Multipart, true));
        assert_eq!(it.input("upload")["properties"]["file"]["format"], "binary");
    }),
    ("16", |it| {
        let properties = &it.input("x")["properties"];
        assert_eq!(properties["a"], json!({"type": ["string", "null"]}));
        assert_eq!(properties["b"], json!({"type": ["string", "null"], "enum": ["p", "q", null]}));
        assert_eq!(properties["c"]["anyOf"][1], json!({"type": "null"}));
        assert_eq!(properties["d"], json!({}));
        assert_eq!(properties["e"], json!({"anyOf": [{"$ref": "#/$defs/C"}, {"type": "null"}]}));
    }),
    ("17", |it| {
        let operation = it.operation("x");
        assert_eq!(operation.parameter("a").schema, Some(json!({"type": "number", "exclusiveMinimum": 0})));
        assert_eq!(operation.parameter("b").schema, Some(json!({"type": "integer", "exclusiveMinimum": 0})));
    }),
    ("18", |it| {
        let input = it.input("create_user");
        assert_eq!(input["required"], json!(["name", "password"]));
        assert!(input["properties"].get("id").is_none() && input["properties"].get("password").is_some());
        let output = it.output("create_user");
        assert_eq!(output["required"], json!(["id", "name"]));
        assert!(output["properties"].get("password").is_none());
    }),
    ("19", |it| {
        let form = |name: &str| it.operation("s").parameter(name).form;
        assert_eq!(form("a"), Form { style: Some("form"), explode: None });
        assert_eq!(form("b"), Form { style: Some("form"), explode: Some(false) });
        assert_eq!(form("c"), Form { style: Some("pipeDelimited"), explode: None });
        assert_eq!(form("d"), Form { style: Some("deepObject"), explode: None });
        assert_eq!(form("e"), Form { style: Some("json"), explode: None });
        assert!(
            it.operation("s").parameters.iter().any(|it| it.name == "StartTime<")
                && form("page[size]") == Form::default()
        );
    }),
    ("20", |it| {
        assert_eq!(it.operation("a").endpoint, "/Accounts/{Sid}.json");
        assert_eq!(it.operation("b").parameters.len(), 2);
        assert_eq!(it.operation("c").parameters[0].name, "monetary-account_id");
        let d = it.operation("d");
        assert_eq!(
            (d.endpoint.as_str(), d.parameters[0].location, d.parameters[0].required),
            ("/bulk", Place::Query, true)
        );
        let e = it.operation("e");
        assert_eq!((e.endpoint.as_str(), e.route_path.as_str()), ("/:action_run", "/"));
        let f = it.operation("f");
        assert_eq!((f.endpoint.as_str(), f.route_path.as_str()), ("/responses:beta_true", "/responses"));
        assert_eq!(f.route_query, [("beta".to_owned(), "true".to_owned())]);
        assert_eq!(it.operation("g").endpoint, "/responses");
        assert_eq!(it.skipped("GET", "/users/{name}"), "ambiguous_route");
        assert_eq!(it.operation("k").endpoint, "/no-slash");
        assert!(it.codes().contains(&"undeclared_path_param"));
    }),
    ("21", |it| {
        assert_eq!(it.ids(), ["g", "p"]);
        let patch = it.operation("p");
        assert_eq!((patch.method, patch.endpoint.as_str()), ("POST", "/r/{id}:patch"));
        assert_eq!((patch.route_method.as_str(), patch.route_path.as_str()), ("PATCH", "/r/{id}"));
        for method in ["HEAD", "OPTIONS", "TRACE"] {
            assert_eq!(it.skipped(method, "/r/{id}"), "unsupported_method");
        }
        assert_eq!(it.report.operations.len(), 5);
    }),
    ("22", |it| {
        let url = |id: &str| it.services[it.operation(id).service].url.as_deref();
        assert_eq!(url("a"), Some("https://acme.example.com/v1"));
        assert_eq!(url("b"), Some("https://upload.example.com"));
        assert_eq!(url("c"), None);
        assert_eq!(it.note("server_relative").severity, Severity::Warning);
        assert_eq!(it.other_servers, ["https://backup.example.com/v1"]);
    }),
    ("23", |it| {
        let shown = |id: &str| {
            let credentials = &it.services[it.operation(id).service].credentials;
            credentials.iter().map(|it| it.scheme.clone()).collect::<Vec<_>>()
        };
        assert_eq!(shown("a"), [Scheme::Bearer]);
        assert_eq!(shown("b"), []);
        assert_eq!(shown("c"), []);
        assert!(
            shown("d").contains(&Scheme::Header("X-API-KEY".into()))
                && shown("d").contains(&Scheme::Query("api_key".into()))
        );
        assert!(it.operation("d").parameters.is_empty());
        for code in ["security_undefined", "key_parameter_hidden", "cookie_parameter", "reserved_header"] {
            assert!(it.codes().contains(&code), "{code}");
        }
    }),
    ("24", |it| {
        assert_eq!(it.output("a")["title"], "created");
        assert_eq!(it.operation("a").output_formats, ["application/vnd.api+json"]);
        assert_eq!(it.operation("b").output_schema, None);
        assert_eq!(it.output("c")["type"], "array");
        assert_eq!(it.output("d")["type"], "object");
        assert_eq!(it.operation("e").output_schema, None);
    }),
    ("25", |it| {
        assert!(it.ids().contains(&"a") && it.ids().len() == 3, "{:?}", it.ids());
        assert_eq!(*it.output("b"), json!(true));
        assert_eq!(*it.output("c"), json!(true));
        assert_eq!(it.report.notes.iter().filter(|note| note.code == "external_ref").count(), 2);
    }),
    ("26", |it| {
        let lang = it.operation("x").parameter("lang").schema.clone().unwrap();
        assert_eq!(lang["enum"], json!(["no", "en", "on", "=", "017", null]));
        let seed = it.operation("x").parameter("seed").schema.clone().unwrap();
        assert!(seed["minimum"].is_f64() && seed["maximum"].is_f64(), "{seed}");
        assert_eq!(it.version.as_deref(), Some("2016-11-15"));
        assert!(it.note("duplicate_key").fix.contains("line 14"), "{:?}", it.note("duplicate_key"));
    }),
    ("27", |it| {
        assert!(!it.codes().contains(&"broken_ref"), "{:?}", it.report.notes);
        let schema = it.output("a");
        assert_eq!(schema["oneOf"].as_array().unwrap().len(), 4);
        let text = schema.to_string();
        assert!(text.contains(r#"{"type":"integer"}"#), "{text}");
        for name in schema["$defs"].as_object().into_iter().flat_map(|it| it.keys()) {
            assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte)), "{name}");
        }
    }),
    ("28", |it| {
        let schema = it.input("x");
        let properties = &schema["properties"];
        assert_eq!(properties["k"], json!({"const": "v"}));
        assert_eq!(properties["n"], json!({"type": ["string", "null"], "examples": ["a"]}));
        assert_eq!(properties["p"]["prefixItems"], json!([{"type": "string"}, {"type": "integer"}]));
        assert_eq!(properties["c"]["description"], "sibling");
        assert_eq!(properties["f"]["contentEncoding"], "base64");
        assert_eq!((&schema["if"], &schema["then"]), (&json!({"required": ["k"]}), &json!({"required": ["n"]})));
        assert_eq!(schema["$defs"]["L"], json!({"type": "string"}));
        assert!(it.codes().contains(&"webhook_ignored"));
    }),
    ("29", |it| {
        let operation = it.operation("x");
        assert_eq!(operation.parameter("a").schema, None);
        assert_eq!(operation.parameter("b").schema, Some(json!({"type": "string", "pattern": "(?<!x)y"})));
        assert_eq!(operation.parameter("c").schema, None);
        assert_eq!(it.report.notes.iter().filter(|note| note.code == "bad_pattern").count(), 2);
    }),
    ("30", |it| {
        let operation = &it.operations[0];
        assert_eq!(operation.title, "hi ${process.env.SECRET}");
        assert!(operation.description.as_ref().unwrap().chars().count() <= 1_000);
        assert_eq!(operation.parameters.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(), [".."]);
        assert!(it.codes().contains(&"bad_parameter") && it.codes().contains(&"description_trimmed"));
        assert!(!write::file(it, &write::Origin { document: "x\ny: z", command: "import" }).contains('\r'));
    }),
];

#[test]
fn every_minimal_document_gives_what_its_expect_line_says() {
    let index: Value = serde_json::from_slice(&fs::read(format!("{FOLDER}/index.json")).unwrap()).unwrap();
    let index = index.as_array().unwrap();
    assert_eq!(index.len(), EXPECTED.len());
    for (listed, (number, expected)) in index.iter().zip(EXPECTED) {
        let file = listed["file"].as_str().unwrap();
        assert!(file.starts_with(number), "{file} is not {number}");
        let path = Path::new(FOLDER).join(file);
        let path = if path.is_dir() { path.join("openapi.yaml") } else { path };
        let text = fs::read_to_string(&path).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("# expect: ")).unwrap();
        assert_eq!(line, listed["expect"].as_str().unwrap(), "{file}");
        let imported = import(&bundle(&path).unwrap(), &Options { name: "t".into(), ..Options::default() }).unwrap();
        eprintln!("{file}: {line}\n{}", imported.report.render(true));
        expected(&imported);
    }
}

#[test]
fn under_a_prefix_nothing_is_reserved() {
    let bundle = bundle(&Path::new(FOLDER).join("10-reserved-ids-and-paths.yaml")).unwrap();
    let options = Options { prefix: "/api".into(), name: "press".into(), ..Options::default() };
    let imported = import(&bundle, &options).unwrap();
    assert_eq!(imported.ids(), ["press.news", "press.talk", "discover"]);
    assert_eq!(imported.operations[0].endpoint, "/api/news");
    assert_eq!(imported.operations[0].route_path, "/news");
}
