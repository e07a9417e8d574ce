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

/// A service that answers this, and a gateway whose capability is `GET /x` with this besides.
fn answering(status: &str, headers: &str, body: &[u8], capability: &str) -> (Upstream, Gateway) {
    let (status, headers, body) = (status.to_owned(), headers.to_owned(), body.to_vec());
    let upstream = Upstream::start(move |exchange: &mut Exchange<'_>| exchange.answer(&status, &headers, &body));
    let gateway = Gateway::start(&format!(
        "agent: {{name: T, talk: off, upstream: '{}', capabilities: [{{id: it, endpoint: /x, {capability}}}]}}\n",
        upstream.url()
    ));
    (upstream, gateway)
}

const JSON: &str = "Content-Type: application/json";

#[test]
fn a_mapping_in_jq_makes_the_request_and_the_answer() {
    let upstream = Upstream::start(|exchange: &mut Exchange<'_>| {
        exchange.answer("200 OK", "Content-Type: application/json\r\nETag: \"1\"", b"{\"data\":{\"t\":21.5}}");
    });
    let gateway = Gateway::start(&format!(
        "agent: {{name: T, talk: off, upstream: '{}', capabilities: [{{id: w, method: POST, endpoint: '/w/{{city}}', \
         parameters: [{{name: days, type: integer}}], route: {{path: /v1, transform: {{\
         request: '{{q: $path.city, days: $query.days, lang: $headers[\"accept-language\"], note}}', response: '.data | {{temp: .t}}'}}}}}}]}}\n",
        upstream.url()
    ));
    let call = Call::post("/w/New%20York?days=3", &json!({"note": "n"}))
        .header("Accept-Language", "de")
        .header("Authorization", "Bearer x");
    let answer = gateway.call(&call);
    assert_eq!(answer.ok(), json!({"temp": 21.5}));
    assert_eq!(answer.header("etag"), None, "the tag was of other bytes");
    assert_eq!(upstream.last().json(), json!({"q": "New York", "days": 3, "lang": "de", "note": "n"}));
    assert_eq!(gateway.call(&Call::new("POST", "/w/Oslo")).ok(), json!({"temp": 21.5}));
    assert_eq!(upstream.last().json(), json!({"q": "Oslo", "days": null, "lang": null, "note": null}));
}

#[test]
fn a_mapping_that_goes_on_for_ever_ends() {
    for (program, status, code) in
        [("request: 'def f: f; f'", 400, "invalid_input"), ("response: '[repeat(1)]'", 502, "invalid_output")]
    {
        let (_upstream, gateway) =
            answering("200 OK", JSON, b"{}", &format!("method: POST, route: {{transform: {{{program}}}}}"));
        gateway.post("/x", &json!({})).refused(status, code);
        assert_eq!(gateway.get("/health").status, 200);
    }
}

#[test]
fn answers_of_old_services_become_json() {
    for (media_type, body, receive_as, expected) in [
        ("text/xml; charset=iso-8859-1", &b"<r><a>caf\xe9</a></r>"[..], "auto", json!({"r": {"a": "caf\u{e9}"}})),
        ("text/csv", b"a,b\n1,2\n", "auto", json!([{"a": "1", "b": "2"}])),
        ("application/x-www-form-urlencoded", b"a=1&b=x+y", "auto", json!({"a": "1", "b": "x y"})),
        ("text/plain", b"<r/>", "xml", json!({"r": ""})),
        ("text/html", b")]}',{\"a\":1}", "json", json!({"a": 1})),
    ] {
        let (_upstream, gateway) = answering(
            "200 OK",
            &format!("Content-Type: {media_type}"),
            body,
            &format!("route: {{receive_as: {receive_as}}}"),
        );
        assert_eq!(gateway.get("/x").ok(), expected, "{media_type}");
    }
    let (_upstream, gateway) =
        answering("200 OK", "Content-Type: text/plain; charset=windows-1251", b"\xcf\xf0", "route: {receive_as: auto}");
    let answer = gateway.get("/x");
    assert_eq!((answer.text(), answer.header("content-type")), ("\u{41f}\u{440}", Some("text/plain; charset=utf-8")));
    let (_upstream, gateway) = answering(
        "200 OK",
        "Content-Type: application/xml",
        b"<!DOCTYPE a [<!ENTITY b \"c\">]><a>&b;</a>",
        "route: {receive_as: auto}",
    );
    gateway.get("/x").refused(502, "invalid_output");
}

#[test]
fn two_hundred_with_an_error_is_an_error() {
    let (_upstream, gateway) = answering(
        "200 OK",
        JSON,
        b"{\"ok\":false,\"error\":\"channel_not_found\"}",
        "route: {errors: [{when: {pointer: /ok, equals: false}, status: 404, message: /error}]}",
    );
    assert_eq!(gateway.get("/x").refused(404, "not_found")["message"], "channel_not_found");
}

#[test]
fn an_error_page_is_told_in_json_where_answers_are_read() {
    let page = b"<html><title>No order 7</title><pre>Traceback</pre></html>";
    let (_upstream, gateway) = answering("404 Not Found", "Content-Type: text/html", page, "route: {receive_as: auto}");
    let told = gateway.get("/x").refused(404, "not_found");
    assert_eq!(told["message"], "the service behind this agent answered 404 Not Found: No order 7");
    assert_eq!(gateway.call(&Call::new("HEAD", "/x")).status, 404);
    let (_upstream, gateway) = answering("404 Not Found", "Content-Type: text/html", page, "method: GET");
    assert!(gateway.get("/x").text().contains("Traceback"), "what only passes passes as it is");
}

#[test]
fn an_answer_that_breaks_its_schema_is_not_passed_on() {
    let schema = "output_schema: {type: object, properties: {id: {type: integer}}, required: [id]}";
    let (_upstream, gateway) =
        answering("200 OK", JSON, b"{\"id\":\"s3cr3t\"}", &format!("{schema}, validate: {{response: enforce}}"));
    let refused = gateway.get("/x").refused(502, "invalid_output");
    assert_eq!(
        refused["details"],
        json!([{"location": "body", "path": "/id", "keyword": "type", "message": "must be an integer"}])
    );
    assert!(!refused.to_string().contains("s3cr3t") && !gateway.logs().contains("s3cr3t"));
    let (_upstream, gateway) = answering("200 OK", JSON, b"{}", &format!("{schema}, validate: {{response: warn}}"));
    assert_eq!(gateway.get("/x").ok(), json!({}));
    gateway.wait_for_line("an answer breaks output_schema");
    let (_upstream, gateway) = answering("200 OK", JSON, b"{}", schema);
    assert_eq!(gateway.get("/x").ok(), json!({}));
}

#[test]
fn redirects_within_the_origin_are_followed_where_it_says_so() {
    let upstream = Upstream::start(|exchange: &mut Exchange<'_>| {
        let leads = match exchange.request.target.as_str() {
            "/x" => Some("/y?z=1"),
            "/loop" => Some("/loop"),
            "/away" => Some("http://elsewhere.invalid/"),
            _ => None,
        };
        match leads {
            Some(location) => exchange.answer("302 Found", &format!("Location: {location}"), b""),
            None => exchange.answer("200 OK", "Content-Type: text/plain", b"there"),
        }
    });
    let gateway = Gateway::start(&format!(
        "upstreams: {{api: {{url: '{}', redirects: follow}}}}\n\
         agent: {{name: T, talk: off, upstream: api, capabilities: [{{id: a, endpoint: '/{{*p}}'}}, {{id: b, method: POST, endpoint: '/{{*p}}'}}]}}\n",
        upstream.url()
    ));
    assert_eq!(gateway.get("/x").text(), "there");
    assert_eq!(upstream.last().target, "/y?z=1");
    gateway.get("/loop").refused(502, "upstream_error");
    assert_eq!(gateway.get("/away").header("location"), Some("http://elsewhere.invalid/"));
    assert_eq!(gateway.call(&Call::new("POST", "/x")).status, 302);
}

#[test]
fn a_service_that_breaks_off_at_once_is_told_of() {
    let upstream = Upstream::start(|exchange: &mut Exchange<'_>| {
        exchange.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 10\r\n\r\n");
        exchange.close();
    });
    let gateway = Gateway::start(&format!(
        "agent: {{name: T, talk: off, upstream: '{}', capabilities: [{{id: it, endpoint: /x, route: {{timeout: 9s}}}}]}}\n",
        upstream.url()
    ));
    gateway.get("/x").refused(502, "upstream_error");
}

#[test]
fn a_token_is_asked_for_once_kept_and_renewed_when_it_is_refused() {
    let upstream = Upstream::start(|exchange: &mut Exchange<'_>| {
        let asked = |exchange: &Exchange<'_>| String::from_utf8_lossy(&exchange.request.body).into_owned();
        if exchange.request.target == "/token" {
            assert_eq!(exchange.request.header("authorization"), Some("Basic Y2xpZW50OnMlM0FjcmV0"));
            assert_eq!(asked(exchange), "grant_type=client_credentials&scope=a%20b");
            exchange.answer("200 OK", JSON, b"{\"access_token\":\"t0k3n\",\"expires_in\":3600}");
        } else if exchange.request.target == "/refused" {
            exchange.answer("401 Unauthorized", JSON, b"{}");
        } else {
            assert_eq!(exchange.request.header("authorization"), Some("Bearer t0k3n"));
            exchange.answer("200 OK", JSON, b"{}");
        }
    });
    let gateway = Gateway::start(&format!(
        "upstreams: {{api: {{url: '{url}', oauth2: {{token_url: '{url}/token', client_id: client, client_secret: 's:cret', scopes: [a, b]}}}}}}\n\
         agent: {{name: T, talk: off, upstream: api, capabilities: [{{id: it, endpoint: '/{{*p}}'}}]}}\n",
        url = upstream.url()
    ));
    let tokens = || upstream.requests().iter().filter(|request| request.target == "/token").count();
    for _ in 0..3 {
        assert_eq!(gateway.get("/x").status, 200);
    }
    assert_eq!(tokens(), 1);
    assert_eq!(gateway.get("/refused").status, 401);
    assert_eq!(tokens(), 2, "one new token, and no more");
    assert!(!gateway.logs().contains("t0k3n"));
}
