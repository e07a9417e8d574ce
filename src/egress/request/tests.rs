use serde_json::json;

use super::*;

fn parse(arguments: Value) -> Result<Request, Refused> {
    let Value::Object(arguments) = arguments else { panic!("no object") };
    Request::parse(&arguments)
}

fn refusal(arguments: Value) -> (&'static str, String) {
    let refused = parse(arguments).unwrap_err();
    (refused.code.as_str(), refused.message)
}

const URL: &str = "http://example.com/";

#[test]
fn the_first_argument_that_is_wrong_is_told() {
    let bad_method = "method must be one of GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS.";
    let bad_time = "timeout_seconds must be a whole number from 1 to 60.";
    let bad_header = "Each header must be a \"Name: value\" string.";
    for (arguments, code, message) in [
        (json!({"timeout_seconds": 0}), "invalid_request", bad_method),
        (json!({"method": 5, "url": URL}), "invalid_request", bad_method),
        (json!({"method": "TRACE", "url": URL}), "invalid_request", bad_method),
        (json!({"method": "GET", "timeout_seconds": true, "body": 5}), "invalid_request", bad_time),
        (json!({"method": "GET", "timeout_seconds": "30"}), "invalid_request", bad_time),
        (json!({"method": "GET", "timeout_seconds": 1.5}), "invalid_request", bad_time),
        (json!({"method": "GET", "timeout_seconds": 61}), "invalid_request", bad_time),
        (json!({"method": "GET", "timeout_seconds": -1}), "invalid_request", bad_time),
        (json!({"method": "GET", "timeout_seconds": 1e300}), "invalid_request", bad_time),
        (json!({"method": "POST", "body": 5, "headers": 5}), "invalid_request", "body must be a string."),
        (json!({"method": "GET", "body": "x", "headers": 5}), "invalid_request", "A GET or HEAD request has no body."),
        (
            json!({"method": "POST", "body": "\u{e9}".repeat((BODY_MAX / 2) + 1), "headers": 5}),
            "too_large",
            "The request body is larger than 1 MiB.",
        ),
        (json!({"method": "GET", "headers": "a: b"}), "invalid_request", bad_header),
        (json!({"method": "GET", "headers": ["a"]}), "invalid_request", bad_header),
        (json!({"method": "GET", "headers": [5]}), "invalid_request", bad_header),
        (json!({"method": "GET", "headers": [":authority: x"]}), "invalid_request", bad_header),
        (json!({"method": "GET", "headers": ["a b: x"]}), "invalid_request", bad_header),
        (json!({"method": "GET", "headers": ["a: b\r\nc: d"]}), "invalid_request", bad_header),
        (json!({"method": "GET", "headers": ["a: b\u{0}"]}), "invalid_request", bad_header),
        (json!({"method": "GET", "headers": ["a: \u{20ac}"]}), "invalid_request", bad_header),
        (json!({"method": "GET", "headers": ["a", "Host: x"]}), "invalid_request", bad_header),
        (json!({"method": "GET", "headers": vec!["a: b"; 51]}), "invalid_request", "At most 50 headers."),
        (
            json!({"method": "GET", "headers": ["Host: x", "a"]}),
            "forbidden_header",
            "Host is set by this tool, not by the request.",
        ),
        (
            json!({"method": "GET", "headers": ["pRoXy-X : x"]}),
            "forbidden_header",
            "pRoXy-X is set by this tool, not by the request.",
        ),
        (json!({"method": "GET"}), "invalid_url", "url must be an absolute http or https URL."),
        (json!({"method": "GET", "url": 5}), "invalid_url", "url must be an absolute http or https URL."),
        (
            json!({"method": "GET", "url": "http://u@example.com"}),
            "invalid_url",
            "url must not contain a user name or password.",
        ),
    ] {
        assert_eq!(refusal(arguments.clone()), (code, message.to_owned()), "{arguments}");
    }
}

#[test]
fn every_header_that_the_tool_sets_is_refused() {
    for name in
        OWN.iter().chain(&["Proxy-Authorization", "PROXY-ANYTHING", "Signature_Input", "proxy_x", "Content_Length"])
    {
        assert_eq!(
            refusal(json!({"method": "GET", "url": URL, "headers": [format!("{name}: x")]})).0,
            "forbidden_header"
        );
    }
    for name in ["Authorization", "Cookie", "Origin", "Referer", "X-Forwarded-For", "Via", "Range", "Expect", "api_key"]
    {
        assert!(parse(json!({"method": "GET", "url": URL, "headers": [format!("{name}: x")]})).is_ok(), "{name}");
    }
}

#[test]
fn absent_arguments_have_defaults_and_unknown_ones_are_ignored() {
    let request =
        parse(json!({"method": "get", "url": URL, "headers": null, "body": "", "timeout_seconds": null, "x": 1}))
            .unwrap();
    assert_eq!((request.method.as_str(), request.timeout), ("GET", 30));
    assert_eq!(request.headers[USER_AGENT], net::USER_AGENT);
    assert_eq!(request.headers[ACCEPT], ACCEPTED);
    assert_eq!(request.headers[ACCEPT_ENCODING], "identity");
    assert!(!request.headers.contains_key(CONTENT_TYPE));
    assert_eq!(parse(json!({"method": "GET", "url": URL, "timeout_seconds": 30.0})).unwrap().timeout, 30);
}

#[test]
fn what_the_caller_says_stands() {
    let headers = ["user-agent: mine", "ACCEPT: a/b", "X-A: 1", "x-a:  caf\u{e9} : 2 ", "content-type: x/y"];
    let request = parse(json!({"method": "PUT", "url": URL, "headers": headers, "body": "{}"})).unwrap();
    assert_eq!(request.headers[USER_AGENT], "mine");
    assert_eq!(request.headers[ACCEPT], "a/b");
    assert_eq!(request.headers[CONTENT_TYPE], "x/y");
    let values: Vec<&[u8]> = request.headers.get_all("x-a").iter().map(HeaderValue::as_bytes).collect();
    assert_eq!(values, [&b"1"[..], b"caf\xe9 : 2"]);
}

#[test]
fn json_is_sent_as_json() {
    for (body, kind) in [
        (" {\"a\": 1}", "application/json"),
        ("[]", "application/json"),
        ("{\"a\": NaN}", "text/plain; charset=utf-8"),
        ("{\"a\": 1} x", "text/plain; charset=utf-8"),
        ("5", "text/plain; charset=utf-8"),
    ] {
        let request = parse(json!({"method": "POST", "url": URL, "body": body})).unwrap();
        assert_eq!(request.headers[CONTENT_TYPE], kind, "{body}");
    }
}

#[test]
fn another_origin_sees_nothing_but_what_is_harmless_also_on_the_way_back() {
    let headers = ["Authorization: x", "Cookie: x", "X-Api-Key: x", "Accept-Language: de", "User-Agent: me"];
    let mut request = parse(json!({"method": "GET", "url": "https://a.test/", "headers": headers})).unwrap();
    request.follow("https://a.test/other".parse().unwrap());
    assert!(request.headers.contains_key("authorization"));
    for next in ["https://a.test:8443/", "https://a.test/"] {
        request.follow(next.parse().unwrap());
        let mut names: Vec<&str> = request.headers.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["accept", "accept-encoding", "accept-language", "user-agent"], "{next}");
    }
}

#[test]
fn headers_are_bounded_together() {
    let headers: Vec<String> = (0..10).map(|number| format!("a{number}: {}", "x".repeat(7000))).collect();
    assert_eq!(refusal(json!({"method": "GET", "url": URL, "headers": headers})).0, "too_large");
}
