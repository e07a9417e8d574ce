//! Capabilities: what of a request reaches the service, and what of its answer the caller.

use serde_json::json;

use crate::support::{Call, Exchange, Gateway, Request, Upstream, passing, secrets};

/// A service that answers `ok`, and a gateway with these capabilities, a YAML list in flow style.
fn serving(capabilities: &str) -> (Upstream, Gateway) {
    answering(capabilities, |exchange| exchange.answer("200 OK", "Content-Type: text/plain", b"ok"))
}

fn answering(capabilities: &str, answer: impl Fn(&mut Exchange<'_>) + Send + Sync + 'static) -> (Upstream, Gateway) {
    let upstream = Upstream::start(answer);
    let gateway = Gateway::start(&format!(
        "agent: {{name: T, talk: off, upstream: '{}/v1', capabilities: {capabilities}}}\n",
        upstream.url()
    ));
    (upstream, gateway)
}

/// What the service saw of a call.
#[track_caller]
fn seen(upstream: &Upstream, gateway: &Gateway, call: &Call) -> Request {
    let answer = gateway.call(call);
    assert_eq!((answer.status, answer.text()), (200, "ok"));
    upstream.last()
}

#[test]
fn a_template_maps_path_query_and_headers() {
    let (upstream, gateway) = serving(
        "[{id: w, method: GET, endpoint: '/weather/{city}/{day}', route: {path: '/current/{day}/{city}', \
         query: {units: metric, near: '{city}'}, headers: {X-City: '{city}', X-Fixed: yes}}}]",
    );
    let request = seen(&upstream, &gateway, &Call::get("/weather/New%20York/today?lang=en&x=%2F"));
    let (path, query) = request.target.split_once('?').unwrap();
    assert_eq!((request.method.as_str(), path), ("GET", "/v1/current/today/New%20York"));
    assert!(query.starts_with("lang=en&x=%2F"), "the caller's query stays byte for byte: {query}");
    assert!(query.contains("units=metric") && query.contains("near=New%20York"), "{query}");
    assert_eq!((request.header("x-city"), request.header("x-fixed")), (Some("New York"), Some("yes")));
}

#[test]
fn literals_and_templates_share_a_segment_and_a_tail_takes_the_rest() {
    let (upstream, gateway) = serving(
        "[{id: a, method: GET, endpoint: '/files/{id}.json', route: {path: '/j/{id}'}}, \
         {id: b, method: GET, endpoint: '/files/{id}', route: {path: '/f/{id}'}}, \
         {id: c, method: GET, endpoint: '/files/latest', route: {path: '/latest'}}, \
         {id: d, method: GET, endpoint: '/tree/{*rest}', route: {path: '/t/{*rest}'}}]",
    );
    for (path, sent) in [
        ("/files/7.json", "/v1/j/7"),
        ("/files/7", "/v1/f/7"),
        ("/files/7.xml", "/v1/f/7.xml"),
        ("/files/latest", "/v1/latest"),
        ("/tree/a/b/c", "/v1/t/a/b/c"),
    ] {
        assert_eq!(seen(&upstream, &gateway, &Call::get(path)).target, sent, "{path}");
    }
    gateway.get("/files/7/").refused(404, "not_found");
    gateway.get("/files").refused(404, "not_found");
}

#[test]
fn paths_are_decided_once() {
    let upstream = Upstream::fixed("200 OK", "", "ok");
    let gateway = Gateway::start(&passing(&upstream));
    for (path, sent) in [
        ("/a/./b", "/a/b"),
        ("/a/../b", "/b"),
        ("/a/%2e%2E/b", "/b"),
        ("/a//b", "/a/b"),
        ("//a", "/a"),
        ("/%61%7e", "/a~"),
        ("/a%3bb", "/a%3Bb"),
        ("/na%C3%AFve", "/na%C3%AFve"),
        ("/a/", "/a/"),
        ("/a?q=/../x//y", "/a?q=/../x//y"),
    ] {
        assert_eq!(seen(&upstream, &gateway, &Call::get(path)).target, sent, "{path}");
    }
}

#[test]
fn what_two_parsers_could_read_differently_is_an_invalid_path() {
    let upstream = Upstream::fixed("200 OK", "", "ok");
    let gateway = Gateway::start(&passing(&upstream));
    for path in [
        "/..",
        "/../etc/passwd",
        "/a/../../b",
        "/%2e%2e/x",
        "/a%00b",
        "/a%0d%0ab",
        "/a%7fb",
        "/a\\b",
        "/a%5cb",
        "/a%2fb",
        "/a%2Fb",
        "/..%2fx",
        "/a%ffb",
        "/a%c0%afb",
        "/a%",
        "/a%4",
        "/a%zz",
        "/%ed%a0%80",
    ] {
        gateway.get(path).refused(400, "invalid_path");
    }
    assert!(upstream.requests().is_empty());
}

#[test]
fn a_slash_in_a_parameter_passes_only_where_it_may() {
    let (upstream, gateway) = serving(
        "[{id: a, method: GET, endpoint: '/repos/{name}/info', parameters: [{name: name, location: path, type: string, \
         required: true, allow_slash: true}]}]",
    );
    let request = seen(&upstream, &gateway, &Call::get("/repos/group%2Fproject/info"));
    assert_eq!(request.target, "/v1/repos/group%2Fproject/info");
    for path in ["/repos/..%2fadmin/info", "/repos/a%2f..%2fb/info", "/repos/a%2f./info"] {
        let answer = gateway.get(path);
        assert!(matches!(answer.status, 400 | 404), "{path}: {}", answer.text());
    }
    assert_eq!(upstream.requests().len(), 1);
}

#[test]
fn a_parameter_that_a_header_can_not_carry_is_refused() {
    let (upstream, gateway) =
        serving("[{id: a, method: GET, endpoint: '/x/{v}', route: {path: /x, headers: {X-V: '{v}'}}}]");
    gateway.get("/x/na%C3%AFve").refused(400, "invalid_path");
    assert_eq!(seen(&upstream, &gateway, &Call::get("/x/plain")).header("x-v"), Some("plain"));
}

#[test]
fn headers_of_the_connection_and_of_the_gateway_stay_here() {
    let upstream = Upstream::fixed("200 OK", "", "ok");
    let gateway = Gateway::start(&passing(&upstream));
    let call = Call::get("/x")
        .header("Connection", "X-Nominated, keep-alive")
        .header("X-Nominated", "no")
        .header("Keep-Alive", "timeout=5")
        .header("TE", "trailers")
        .header("Proxy-Authorization", "Basic x")
        .header("Authorization", "Bearer secret")
        .header("Cookie", "a=b")
        .header("X-API-Key", "secret")
        .header("X_Api_Key", "secret")
        .header("Restap-Session-Id", "sess_0123456789abcdef")
        .header("Restap-Caller", "root")
        .header("X-Original-URL", "/admin")
        .header("X-Forwarded-For", "6.6.6.6")
        .header("X-Forwarded-Proto", "https")
        .header("Forwarded", "for=6.6.6.6")
        .header("X-Real-IP", "6.6.6.6")
        .header("X-Kept", "yes")
        .header("If-None-Match", "\"tag\"")
        .header("Range", "bytes=0-1")
        .header("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
        .header("Accept-Language", "de");
    let request = seen(&upstream, &gateway, &call);
    for name in [
        "x-nominated",
        "keep-alive",
        "te",
        "proxy-authorization",
        "authorization",
        "cookie",
        "x-api-key",
        "x_api_key",
        "restap-session-id",
        "restap-caller",
        "x-original-url",
        "x-real-ip",
    ] {
        assert_eq!(request.header(name), None, "{name}");
    }
    assert_eq!(request.all("x-forwarded-for"), ["127.0.0.1"], "an unknown peer's claim is replaced");
    assert_eq!(request.all("x-forwarded-proto"), ["http"]);
    assert!(request.all("forwarded").concat().starts_with("for=127.0.0.1;"), "{:?}", request.all("forwarded"));
    for (name, value) in
        [("x-kept", "yes"), ("if-none-match", "\"tag\""), ("range", "bytes=0-1"), ("accept-language", "de")]
    {
        assert_eq!(request.header(name), Some(value));
    }
    assert_eq!(request.header("host"), Some(upstream.address().to_string().as_str()));
    assert_eq!(request.header("traceparent"), Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"));
    assert!(request.header("x-request-id").is_some());
    assert!(request.header("cdn-loop").is_some());
}

#[test]
fn a_trusted_proxy_is_believed_and_continued() {
    let upstream = Upstream::fixed("200 OK", "", "ok");
    let gateway = Gateway::start(&format!("trusted_proxies: [127.0.0.0/8]\n{}", passing(&upstream)));
    let call = Call::get("/x").header("X-Forwarded-For", "203.0.113.7").header("X-Forwarded-Proto", "https");
    let request = seen(&upstream, &gateway, &call);
    assert_eq!(request.header("x-forwarded-for"), Some("203.0.113.7, 127.0.0.1"));
    assert_eq!(request.header("x-forwarded-proto"), Some("https"));
    gateway.wait_for_line(" 203.0.113.7 GET /x ");
}

#[test]
fn named_headers_are_forwarded() {
    let (upstream, gateway) = serving(
        "[{id: a, method: GET, endpoint: /x, route: {forward_headers: [authorization, cookie, restap-session-id]}}]",
    );
    let call =
        Call::get("/x").header("Authorization", "Bearer mine").header("Cookie", "a=b").session("sess_0123456789abcdef");
    secrets::forward_session("sess_0123456789abcdef");
    let request = seen(&upstream, &gateway, &call);
    assert_eq!((request.header("authorization"), request.header("cookie")), (Some("Bearer mine"), Some("a=b")));
    assert_eq!(request.header("restap-session-id"), Some("sess_0123456789abcdef"));
}

#[test]
fn an_upstreams_own_credential_beats_the_callers() {
    let upstream = Upstream::fixed("200 OK", "", "ok");
    let gateway = Gateway::start(&format!(
        "upstreams: {{api: {{url: '{}', headers: {{X-Api-Key: ours}}, query: {{key: s3cret}}}}}}\n\
         agent: {{name: T, talk: off, upstream: api, capabilities: [{{id: a, method: GET, endpoint: /x}}]}}\n",
        upstream.url()
    ));
    let request = seen(&upstream, &gateway, &Call::get("/x?a=1").header("X-Api-Key", "theirs"));
    assert_eq!(request.all("x-api-key"), ["ours"]);
    assert_eq!(request.target, "/x?a=1&key=s3cret");
    assert!(!gateway.logs().contains("s3cret"));
}

#[test]
fn an_answers_own_headers_stay_with_the_service() {
    let upstream = Upstream::start(|exchange| {
        let headers = "Content-Type: text/plain\r\nSet-Cookie: sid=1\r\nServer: Apache\r\nX-Powered-By: PHP\r\n\
            Alt-Svc: h3\r\nStrict-Transport-Security: max-age=1\r\nClear-Site-Data: \"*\"\r\nAccess-Control-Allow-Origin: *\r\n\
            Access-Control-Allow-Credentials: true\r\nRestap-Job-Id: forged\r\nKeep-Alive: timeout=5\r\nConnection: X-Internal\r\n\
            X-Internal: 1\r\nX-Kept: yes\r\nETag: \"v1\"\r\nCache-Control: max-age=5\r\nX-Request-Id: theirs";
        exchange.answer("201 Created", headers, b"made");
    });
    let gateway = Gateway::start(&passing(&upstream));
    let answer = gateway.call(&Call::get("/x").header("X-Request-Id", "ours"));
    assert_eq!((answer.status, answer.text()), (201, "made"));
    for name in [
        "set-cookie",
        "server",
        "x-powered-by",
        "alt-svc",
        "strict-transport-security",
        "clear-site-data",
        "access-control-allow-origin",
        "access-control-allow-credentials",
        "restap-job-id",
        "keep-alive",
        "x-internal",
    ] {
        assert_eq!(answer.header(name), None, "{name}");
    }
    for (name, value) in
        [("x-kept", "yes"), ("etag", "\"v1\""), ("cache-control", "max-age=5"), ("x-request-id", "ours")]
    {
        assert_eq!(answer.header(name), Some(value));
    }
}

#[test]
fn cookies_pass_only_where_the_upstream_says_so() {
    let upstream = Upstream::fixed("200 OK", "Set-Cookie: sid=1; Path=/", "ok");
    let gateway = Gateway::start(&format!(
        "upstreams: {{api: {{url: '{}', cookies: pass}}}}\n\
         agent: {{name: T, talk: off, upstream: api, capabilities: [{{id: a, method: GET, endpoint: /x}}]}}\n",
        upstream.url()
    ));
    assert_eq!(gateway.get("/x").header("set-cookie"), Some("sid=1; Path=/"));
}

#[test]
fn a_redirect_on_the_services_origin_leads_to_our_endpoint() {
    let (upstream, gateway) = answering(
        "[{id: make, method: POST, endpoint: /orders}, {id: get, method: GET, endpoint: '/orders/{id}', route: {path: '/o/{id}'}}, \
         {id: away, method: GET, endpoint: /away}]",
        |exchange| {
            let host = exchange.request.header("host").unwrap().to_owned();
            match exchange.request.target.as_str() {
                "/v1/orders" => {
                    let location = format!("Location: http://{host}/v1/o/77?full=1#top");
                    exchange.answer("303 See Other", &location, b"");
                }
                _ => exchange.answer("302 Found", "Location: https://elsewhere.example/x", b""),
            }
        },
    );
    let answer = gateway.post("/orders", &json!({}));
    assert_eq!((answer.status, answer.header("location")), (303, Some("/orders/77?full=1#top")));
    assert_eq!(gateway.get("/away").header("location"), Some("https://elsewhere.example/x"));
    assert_eq!(upstream.requests().len(), 2, "no redirect is followed");
}

#[test]
fn a_schema_refuses_what_breaks_it_before_the_service_is_asked() {
    let (upstream, gateway) = serving(
        "[{id: a, method: POST, endpoint: '/echo/{n}', content_types: [application/json], \
         parameters: [{name: n, location: path, type: integer, required: true}, {name: q, location: query, type: integer, required: true}], \
         input_schema: {type: object, properties: {text: {type: string}, secret: {type: integer}}, required: [text]}}]",
    );
    let body = gateway.post("/echo/1?q=2", &json!({"secret": "hunter2"})).refused(400, "invalid_input");
    let details = body["details"].as_array().unwrap();
    assert!(!details.is_empty() && details.len() <= 10);
    for detail in details {
        for key in ["location", "path", "keyword", "message"] {
            assert!(detail.get(key).is_some(), "{key}: {detail}");
        }
    }
    assert!(!body.to_string().contains("hunter2"), "values are masked: {body}");
    gateway.post("/echo/one?q=2", &json!({"text": "x"})).refused(400, "invalid_input");
    gateway.post("/echo/1", &json!({"text": "x"})).refused(400, "invalid_input");
    let broken = Call::new("POST", "/echo/1?q=2").header("Content-Type", "application/json").body("{");
    gateway.call(&broken).refused(400, "invalid_json");
    let foreign = Call::new("POST", "/echo/1?q=2").header("Content-Type", "text/plain").body("x");
    gateway.call(&foreign).refused(415, "unsupported_media_type");
    assert!(upstream.requests().is_empty());
    let request = seen(&upstream, &gateway, &Call::post("/echo/1?q=2", &json!({"text": "x", "more": [1]})));
    assert_eq!(request.json(), json!({"text": "x", "more": [1]}));
}

#[test]
fn a_schema_that_only_warns_lets_everything_through() {
    let (upstream, gateway) = serving(
        "[{id: a, method: POST, endpoint: /e, input_schema: {type: object, required: [text]}, validate: {request: warn}}]",
    );
    seen(&upstream, &gateway, &Call::post("/e", &json!({})));
    gateway.wait_for_line("breaks the capability's schema");
}

#[test]
fn json_over_the_limit_is_too_large_and_other_bodies_are_not() {
    let upstream = Upstream::fixed("200 OK", "", "ok");
    let gateway = Gateway::start(&format!("limits: {{body: 1KiB}}\n{}", passing(&upstream)));
    let long = "\"".to_owned() + &"x".repeat(2000) + "\"";
    for media_type in ["application/json", "application/vnd.api+json; charset=utf-8"] {
        let call = Call::new("POST", "/x").header("Content-Type", media_type).body(long.clone());
        gateway.call(&call).refused(413, "payload_too_large");
    }
    let chunked = Call::new("POST", "/x")
        .header("Content-Type", "application/json")
        .header("Transfer-Encoding", "chunked")
        .body(format!("{:x}\r\n{long}\r\n0\r\n\r\n", long.len()));
    gateway.call(&chunked).refused(413, "payload_too_large");
    let call = Call::new("POST", "/x").header("Content-Type", "application/octet-stream").body(long.clone());
    assert_eq!(seen(&upstream, &gateway, &call).length, long.len() as u64);
}

#[test]
fn failures_of_the_hop_have_their_codes() {
    let nobody = Upstream::unreachable();
    let gateway = Gateway::start(&format!(
        "agent: {{name: T, talk: off, upstream: '{nobody}', capabilities: [{{id: a, method: GET, endpoint: /x}}]}}\n"
    ));
    gateway.get("/x").refused(502, "upstream_unreachable");

    let (_upstream, gateway) =
        answering("[{id: a, method: GET, endpoint: /x}]", |exchange| exchange.connection.reset());
    gateway.get("/x").refused(502, "upstream_error");

    let upstream = Upstream::start(|exchange| {
        exchange.wait_until_left();
    });
    let gateway = Gateway::start(&format!(
        "upstreams: {{api: {{url: '{}', timeout: {{first_byte: 200ms}}}}}}\n\
         agent: {{name: T, talk: off, upstream: api, capabilities: [{{id: a, method: GET, endpoint: /x}}, \
         {{id: b, method: GET, endpoint: /y, route: {{timeout: 150ms}}}}]}}\n",
        upstream.url()
    ));
    gateway.get("/x").refused(504, "upstream_timeout");
    gateway.get("/y").refused(504, "upstream_timeout");
}

#[test]
fn an_answer_that_breaks_off_is_cut_for_the_caller_too() {
    let (_upstream, gateway) = answering("[{id: a, method: GET, endpoint: /x}]", |exchange| {
        exchange.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
        exchange.close();
    });
    let mut connection = gateway.connect();
    connection.send(Call::get("/x").bytes());
    assert_eq!(connection.head().status, 200);
    assert_eq!(connection.chunk().unwrap(), b"hello");
    assert!(connection.try_chunk().is_err(), "half an answer must not look whole");
}

#[test]
fn status_and_body_of_the_service_pass_as_they_are() {
    for (status, code) in [("404 Not Found", 404), ("418 Teapot", 418), ("500 Oops", 500), ("503 Busy", 503)] {
        let upstream = Upstream::fixed(status, "Content-Type: text/html", "<h1>theirs</h1>");
        let gateway = Gateway::start(&passing(&upstream));
        let answer = gateway.get("/x");
        assert_eq!((answer.status, answer.text()), (code, "<h1>theirs</h1>"));
        assert_eq!(answer.header("content-type"), Some("text/html"));
    }
}

#[test]
fn bodiless_answers_stay_bodiless() {
    let upstream = Upstream::start(|exchange| match exchange.request.target.as_str() {
        "/none" => exchange.send("HTTP/1.1 204 No Content\r\n\r\n"),
        "/same" => exchange.send("HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n"),
        _ => exchange.answer("200 OK", "", b"body"),
    });
    let gateway = Gateway::start(&passing(&upstream));
    let mut connection = gateway.connect();
    assert_eq!(connection.call(&Call::get("/none")).status, 204);
    assert_eq!(connection.call(&Call::get("/same")).status, 304);
    let head = connection.call(&Call::new("HEAD", "/any"));
    assert_eq!((head.status, head.header("content-length")), (200, Some("4")));
    assert_eq!(connection.call(&Call::get("/any")).text(), "body");
}

#[test]
fn an_upgrade_is_not_served_and_h2c_is_only_an_offer() {
    let upstream = Upstream::fixed("200 OK", "", "ok");
    let gateway = Gateway::start(&passing(&upstream));
    let upgrade = |protocol: &str| Call::get("/x").header("Connection", "Upgrade").header("Upgrade", protocol);
    gateway.call(&upgrade("websocket")).refused(501, "upgrade_not_supported");
    let request = seen(&upstream, &gateway, &upgrade("h2c").header("HTTP2-Settings", "AAMAAABk"));
    assert_eq!((request.header("upgrade"), request.header("http2-settings")), (None, None));
}

#[test]
fn an_upgrade_that_nobody_asked_for_is_the_services_fault() {
    let (_upstream, gateway) = answering("[{id: a, method: GET, endpoint: /x}]", |exchange| {
        exchange.send("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n");
        exchange.wait_until_left();
    });
    gateway.get("/x").refused(502, "upstream_error");
}

#[test]
fn a_capability_that_leads_back_to_itself_is_a_loop() {
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    drop(socket);
    let gateway = Gateway::start(&format!(
        "listen: {address}\nagent: {{name: T, upstream: 'http://{address}', capabilities: [{{id: a, method: GET, endpoint: /x}}]}}\n"
    ));
    gateway.get("/x").refused(508, "loop_detected");
}

#[test]
fn a_query_that_is_no_utf8_still_passes_as_it_is() {
    let upstream = Upstream::fixed("200 OK", "", "ok");
    let gateway = Gateway::start(&passing(&upstream));
    for query in ["a=%ff", "%zz", "a&&b=&=c", "a=b=c", "a+b=%20", "q=[1]|{2}"] {
        assert_eq!(seen(&upstream, &gateway, &Call::get(&format!("/x?{query}"))).target, format!("/x?{query}"));
    }
}
