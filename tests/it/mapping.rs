//! Mapping: what callers send reaches a service as it expects it.

use serde_json::{Value, json};

use crate::support::{Call, Exchange, Gateway, Request, Upstream};

/// A service that answers `ok`, and a gateway with this capability's entry besides `id`.
fn serving(capability: &str) -> (Upstream, Gateway) {
    let upstream =
        Upstream::start(|exchange: &mut Exchange<'_>| exchange.answer("200 OK", "Content-Type: text/plain", b"ok"));
    let gateway = Gateway::start(&format!(
        "agent: {{name: T, talk: off, upstream: '{}', capabilities: [{{id: it, {capability}}}]}}\n",
        upstream.url()
    ));
    (upstream, gateway)
}

#[track_caller]
fn seen(upstream: &Upstream, gateway: &Gateway, call: &Call) -> Request {
    let answer = gateway.call(call);
    assert_eq!((answer.status, answer.text()), (200, "ok"));
    upstream.last()
}

#[test]
fn a_parameter_reaches_the_service_in_its_style_however_it_was_sent() {
    for (style, expected) in [
        ("style: form", "/x?a=1&c=R&c=G&z=2"),
        ("style: form, explode: false", "/x?a=1&c=R,G&z=2"),
        ("style: pipeDelimited", "/x?a=1&c=R|G&z=2"),
        ("style: spaceDelimited", "/x?a=1&c=R%20G&z=2"),
        ("style: json", "/x?a=1&c=%5B%22R%22%2C%22G%22%5D&z=2"),
    ] {
        let (upstream, gateway) = serving(&format!(
            "endpoint: /x, parameters: [{{name: c, type: array, {style}}}], validate: {{request: enforce}}"
        ));
        for query in ["c=R&c=G", "c=[%22R%22,%22G%22]", "c[]=R&c[]=G"] {
            let request = seen(&upstream, &gateway, &Call::get(&format!("/x?a=1&{query}&z=2")));
            assert_eq!(request.target, expected, "{style} {query}");
        }
    }
    let (upstream, gateway) = serving(
        "endpoint: /x, parameters: [{name: f, type: object, style: deepObject, schema: {properties: {n: {type: integer}}}}]",
    );
    assert_eq!(seen(&upstream, &gateway, &Call::get("/x?f={%22n%22:1}")).target, "/x?f[n]=1");
    let refused = gateway.get("/x?f[n]=one").refused(400, "invalid_input");
    assert_eq!(refused["details"][0]["message"], "must be an integer");
}

#[test]
fn without_a_style_a_query_passes_byte_for_byte() {
    let (upstream, gateway) = serving("endpoint: /x, parameters: [{name: c, type: array}, {name: f, type: object}]");
    for query in ["c=R%2CG&f[a]=1", "c=R&c=G", "f=color:red&&c=+"] {
        assert_eq!(seen(&upstream, &gateway, &Call::get(&format!("/x?{query}"))).target, format!("/x?{query}"));
    }
}

#[test]
fn a_path_a_header_and_a_cookie_are_written_as_the_service_wants() {
    let (upstream, gateway) = serving(
        "endpoint: '/colors/{c}/{m}', parameters: [{name: c, type: array, style: label, explode: true}, \
         {name: m, type: array, style: matrix}, {name: X-Ids, type: array, location: header, style: simple}, \
         {name: X_Under, location: header}, {name: sid, location: cookie, required: true}]",
    );
    let call = Call::get("/colors/red,blue/a,b%3Bc")
        .header("X-Ids", "[1, 2]")
        .header("X_Under", "kept")
        .header("X_Other", "dropped")
        .header("Cookie", "theme=dark; sid=abc");
    let request = seen(&upstream, &gateway, &call);
    assert_eq!(request.target, "/colors/.red.blue/;m=a,b%3Bc");
    assert_eq!((request.header("x-ids"), request.header("x_under")), (Some("1,2"), Some("kept")));
    assert_eq!((request.header("x_other"), request.all("cookie")), (None, vec!["sid=abc"]));
    let refused = gateway.get("/colors/red/a").refused(400, "invalid_input");
    assert_eq!(refused["details"][0]["location"], "cookie");
}

fn form(capability: &str) -> (Upstream, Gateway) {
    serving(&format!("method: POST, endpoint: /x, {capability}"))
}

#[test]
fn json_becomes_a_form_and_a_form_stays_as_it_is() {
    let (upstream, gateway) = form(
        "input_schema: {type: object, properties: {amount: {type: integer}}, required: [amount]}, route: {send_as: form}",
    );
    let body = json!({"amount": 5, "items": [{"price": "p"}], "tags": ["a", "b"]});
    let request = seen(&upstream, &gateway, &Call::post("/x", &body));
    assert_eq!(request.header("content-type"), Some("application/x-www-form-urlencoded"));
    assert_eq!(request.body, b"amount=5&items[0][price]=p&tags=a&tags=b");
    let own = Call::new("POST", "/x").header("Content-Type", "application/x-www-form-urlencoded").body("amount=%35+");
    assert_eq!(seen(&upstream, &gateway, &own).body, b"amount=%35+");
    gateway.post("/x", &json!({"amount": "five"})).refused(400, "invalid_input");
    gateway
        .call(&Call::new("POST", "/x").header("Content-Type", "text/plain").body("x"))
        .refused(415, "unsupported_media_type");
    gateway
        .call(&Call::new("POST", "/x").header("Content-Type", "application/json").body("{"))
        .refused(400, "invalid_json");
    let catalog = gateway.get("/.well-known/restap.json").ok();
    let capability = catalog["capabilities"].as_array().unwrap().iter().find(|it| it["id"] == "it").unwrap().clone();
    assert_eq!(capability["content_types"], json!(["application/json", "application/x-www-form-urlencoded"]));
}

#[test]
fn a_form_of_a_get_goes_into_the_query() {
    let (upstream, gateway) = form("route: {method: GET, path: '/search', query: {k: '1'}, send_as: form}");
    let request = seen(&upstream, &gateway, &Call::post("/x?p=2", &json!({"q": "a b"})));
    assert_eq!(
        (request.method.as_str(), request.target.as_str(), request.length),
        ("GET", "/search?p=2&k=1&q=a%20b", 0)
    );
    assert_eq!(request.header("content-type"), None);
}

#[test]
fn json_becomes_multipart_xml_and_text() {
    let (upstream, gateway) = form("route: {send_as: multipart, encoding: {file: {binary: true}}}");
    let request = seen(&upstream, &gateway, &Call::post("/x", &json!({"note": "n", "file": "AP8="})));
    let boundary = request.header("content-type").unwrap().strip_prefix("multipart/form-data; boundary=").unwrap();
    assert!(request.body.windows(4).any(|bytes| bytes == b"\0\xff\r\n"), "the bytes, not their base64");
    assert!(request.body.ends_with(format!("--{boundary}--\r\n").as_bytes()));
    let refused = gateway.post("/x", &json!({"file": "?"})).refused(400, "invalid_input");
    assert_eq!(refused["details"][0]["path"], "/file");

    let (upstream, gateway) = form("route: {send_as: xml}, content_types: [text/xml]");
    let request = seen(&upstream, &gateway, &Call::post("/x", &json!({"order": {"@id": 7, "item": [1, 2]}})));
    assert_eq!(request.header("content-type"), Some("text/xml"));
    assert!(request.body.ends_with(b"<order id=\"7\"><item>1</item><item>2</item></order>"));

    let (upstream, gateway) = form("route: {send_as: text}");
    let request = seen(&upstream, &gateway, &Call::post("/x", &json!("hello")));
    assert_eq!(
        (request.body.as_slice(), request.header("content-type")),
        (&b"hello"[..], Some("text/plain; charset=utf-8"))
    );
}

#[test]
fn raw_bytes_are_never_looked_at() {
    let (upstream, gateway) = form("input_schema: {type: object}, route: {send_as: raw}");
    let call = Call::new("POST", "/x").header("Content-Type", "image/png").body(vec![0, 255, 1]);
    let request = seen(&upstream, &gateway, &call);
    assert_eq!((request.body.as_slice(), request.header("content-type")), (&[0, 255, 1][..], Some("image/png")));
}

#[test]
fn json_goes_under_the_name_that_the_service_lists() {
    let (upstream, gateway) = form("content_types: [application/vnd.api+json]");
    let request = seen(&upstream, &gateway, &Call::post("/x", &json!({})));
    assert_eq!(request.header("content-type"), Some("application/vnd.api+json"));
}

#[test]
fn a_body_that_need_not_be_there_need_not_be_there() {
    let (_upstream, gateway) = form("input_schema: {type: object}, input_required: false");
    assert_eq!(gateway.call(&Call::new("POST", "/x")).status, 200);
    gateway.post("/x", &Value::from(1)).refused(400, "invalid_input");
    let (_upstream, gateway) = form("input_schema: {type: object}");
    gateway.call(&Call::new("POST", "/x")).refused(400, "invalid_input");
}
