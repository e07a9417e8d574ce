//! What callers get of what old services say.

use http::header::CONTENT_TYPE;
use serde_json::json;

use super::super::fixture::settings;
use super::super::settings::{Condition, Message, Transform};
use super::*;

fn receiver(change: impl FnOnce(&mut Settings)) -> Receiver {
    let mut entry = settings("it", "GET /x");
    entry.route.receive_as = Some(ReceiveAs::Auto);
    change(&mut entry);
    Receiver::new(&entry)
}

fn make(receiver: &Receiver, status: u16, media_type: &str, body: &[u8]) -> Result<Made, Unusable> {
    let mut headers = HeaderMap::new();
    if !media_type.is_empty() {
        headers.insert(CONTENT_TYPE, HeaderValue::from_str(media_type).unwrap());
    }
    let came = Came { status: StatusCode::from_u16(status).unwrap(), headers: &headers, body };
    receiver.make(&came, &Variables::default(), Effort::Full)
}

fn value(receiver: &Receiver, media_type: &str, body: &[u8]) -> Value {
    let made = make(receiver, 200, media_type, body).unwrap();
    serde_json::from_slice(made.body.as_deref().unwrap_or(body)).unwrap()
}

fn problem(receiver: &Receiver, media_type: &str, body: &[u8]) -> String {
    make(receiver, 200, media_type, body).unwrap_err().to_string()
}

#[test]
fn xml_is_read_as_elements_attributes_and_text() {
    let auto = receiver(|_| {});
    let xml = b"<?xml version='1.0'?><!-- c --><s:order xmlns:s='urn:x' s:id=\"7\"><item>1</item><item k='v'>x &amp; &#233;</item><e/><t><![CDATA[<b>]]></t></s:order>";
    assert_eq!(
        value(&auto, "text/xml", xml),
        json!({"order": {"@id": "7", "item": ["1", {"@k": "v", "#text": "x & \u{e9}"}], "e": "", "t": "<b>"}})
    );
    for broken in [
        "<a>",
        "<a></b>",
        "</a>",
        "<a/><b/>",
        "text",
        "<a/>text",
        "<a b=c/>",
        "<a b='1' b='2'/>",
        "<a>&nope;</a>",
        "",
        "<a",
        "<!DOCTYPE a [<!ENTITY x 'y'>]><a>&x;</a>",
        "<!DOCTYPE a SYSTEM 'file:///etc/passwd'><a/>",
    ] {
        let read = make(&auto, 200, "application/xml", broken.as_bytes());
        assert!(broken.is_empty() || read.is_err(), "{broken}: {read:?}");
    }
    let deep = "<a>".repeat(100_000);
    assert_eq!(problem(&auto, "text/xml", deep.as_bytes()), "the service's answer is XML of more than 128 levels");
    let wide = format!("<r>{}</r>", "<a/>".repeat(500_001));
    assert_eq!(problem(&auto, "text/xml", wide.as_bytes()), "the service's answer is XML of more than 500000 elements");
}

#[test]
fn values_are_read_as_the_schema_wants() {
    let typed = receiver(|entry| {
        let schema = json!({"type": "object", "properties": {"r": {"type": "object", "properties": {
            "n": {"type": "integer"}, "items": {"type": "array", "items": {"type": "number"}}}}}});
        entry.output_schema = Some(schema.into());
    });
    assert_eq!(value(&typed, "text/xml", b"<r><n>7</n><items>1.5</items></r>"), json!({"r": {"n": 7, "items": [1.5]}}));
}

#[test]
fn csv_is_a_list_of_objects() {
    let auto = receiver(|_| {});
    for text in [
        "a,b\r\n1,\"x, \"\"y\"\"\"\r\n2,\r\n",
        "a;b\n1;\"x, \"\"y\"\"\"\n2;\n",
        "\u{feff}a\tb\n1\t\"x, \"\"y\"\"\"\n2\t\n",
    ] {
        assert_eq!(
            value(&auto, "text/csv", text.as_bytes()),
            json!([{"a": "1", "b": "x, \"y\""}, {"a": "2", "b": ""}]),
            "{text}"
        );
    }
    assert_eq!(value(&auto, "text/csv", b"a,a,\n1,2,3"), json!([{"a": "1", "a_2": "2", "column_3": "3"}]));
    assert_eq!(value(&auto, "text/csv", b"a,b\n1"), json!([{"a": "1"}]));
    assert_eq!(
        problem(&auto, "text/csv", b"a,b\n1,2,3"),
        "the service's answer is CSV whose line 2 has more cells than its first"
    );
}

#[test]
fn every_charset_becomes_utf8() {
    let text = |media_type: &str, body: &[u8]| {
        let made = make(&receiver(|_| {}), 200, media_type, body).unwrap();
        (
            String::from_utf8(made.body.unwrap_or(body.to_vec())).unwrap(),
            made.media_type.unwrap().to_str().unwrap().to_owned(),
        )
    };
    let utf8 = "text/plain; charset=utf-8".to_owned();
    assert_eq!(
        text("text/plain; charset=ISO-8859-1", b"caf\xe9 \x80"),
        ("caf\u{e9} \u{20ac}".to_owned(), utf8.clone())
    );
    assert_eq!(text("text/plain; charset=\"shift_jis\"", b"\x93\xfa"), ("\u{65e5}".to_owned(), utf8.clone()));
    assert_eq!(text("text/plain", b"caf\xe9"), ("caf\u{e9}".to_owned(), utf8.clone()));
    assert_eq!(text("text/plain; charset=nonsense", "caf\u{e9}".as_bytes()), ("caf\u{e9}".to_owned(), utf8.clone()));
    assert_eq!(text("text/plain; charset=utf-8", b"a\xff"), ("a\u{fffd}".to_owned(), utf8));
    assert_eq!(
        value(&receiver(|_| {}), "application/json; charset=latin1", b"{\"a\":\"\xe9\"}"),
        json!({"a": "\u{e9}"})
    );
    assert_eq!(value(&receiver(|_| {}), "application/json", b"\xff\xfe{\0}\0"), json!({}));
    let xml = b"<?xml version=\"1.0\" encoding=\"iso-8859-1\"?><a>\xe9</a>";
    assert_eq!(value(&receiver(|_| {}), "text/xml", xml), json!({"a": "\u{e9}"}));
}

#[test]
fn json_is_read_through_guards_and_calls() {
    let json_only = receiver(|entry| entry.route.receive_as = Some(ReceiveAs::Json));
    for text in [")]}',\n{\"a\":1}", "cb({\"a\":1});", "/**/ns.cb({\"a\":1})", "\u{feff}{\"a\":1}", "{\"a\":1}"] {
        assert_eq!(value(&json_only, "text/javascript", text.as_bytes()), json!({"a": 1}), "{text}");
    }
    assert_eq!(problem(&json_only, "text/plain", b"a 'b'"), "the service's answer is not JSON");
    assert_eq!(
        problem(&json_only, "application/json", "[".repeat(100_000).as_bytes()),
        "the service's answer is not JSON"
    );
    assert_eq!(problem(&json_only, "application/json", b"{\"a\":1e999}"), "the service's answer is not JSON");
}

#[test]
fn an_error_page_is_a_sentence_and_an_error_in_json_stays() {
    let auto = receiver(|_| {});
    let told = |status: u16, media_type: &str, body: &str| {
        let made = make(&auto, status, media_type, body.as_bytes()).unwrap();
        (made.status.as_u16(), String::from_utf8(made.body.unwrap_or_default()).unwrap())
    };
    let page = "<html><head><title>Order 7\n is not here</title></head><body><pre>at com.example.Foo(Foo.java:1)</pre>";
    assert_eq!(
        told(404, "text/html", page),
        (404, json!({"error": "not_found", "message": "the service behind this agent answered 404 Not Found: Order 7 is not here"}).to_string())
    );
    assert_eq!(
        told(500, "text/html; charset=utf-8", page),
        (500, json!({"error": "upstream_error", "message": "the service behind this agent answered 500 Internal Server Error"}).to_string())
    );
    assert_eq!(told(400, "text/plain", "no such city\nat x").1, json!({"error": "invalid_input", "message": "the service behind this agent answered 400 Bad Request: no such city"}).to_string());
    assert_eq!(told(422, "application/json", "{\"detail\": 1}"), (422, String::new()), "its own bytes");
    assert_eq!(told(400, "application/xml", "<e><m>x</m></e>").1, "{\"e\":{\"m\":\"x\"}}");
    assert!(told(503, "application/json", "<html>").1.contains("upstream_unavailable"));
}

#[test]
fn a_rule_makes_an_error_of_an_answer() {
    let rule = |when: Condition, message: &str| ErrorRule {
        when,
        status: StatusCode::BAD_REQUEST,
        code: None,
        message: Some(if message.starts_with('/') {
            Message::At(message.to_owned())
        } else {
            Message::Text(message.to_owned())
        }),
    };
    let at = |pointer: &str| Condition { pointer: Some(pointer.to_owned()), ..Condition::default() };
    let slack = receiver(|entry| {
        entry.route.errors = vec![
            rule(Condition { equals: Some(false.into()), ..at("/ok") }, "/error"),
            rule(Condition { matches: Some(regex::Regex::new("^ERR").unwrap()), ..at("/s") }, "it failed"),
            rule(Condition { exists: Some(false), status: Some(StatusCode::ACCEPTED), ..at("/id") }, "/none"),
        ];
    });
    let told = |status: u16, body: &str| {
        let made = make(&slack, status, "application/json", body.as_bytes()).unwrap();
        (
            made.status.as_u16(),
            made.body
                .map(|body| serde_json::from_slice::<Value>(&body).unwrap()["message"].as_str().unwrap().to_owned()),
        )
    };
    assert_eq!(
        told(200, r#"{"ok": false, "error": "channel_not_found"}"#),
        (400, Some("channel_not_found".to_owned()))
    );
    assert_eq!(told(200, r#"{"ok": true, "s": "ERR 7"}"#), (400, Some("it failed".to_owned())));
    assert_eq!(told(202, "{}"), (400, Some("the service behind this agent refused the request".to_owned())));
    assert_eq!(told(200, r#"{"ok": true}"#), (200, None));
}

#[test]
fn a_mapping_sees_answers_that_succeed() {
    let mapped = receiver(|entry| {
        entry.route.receive_as = None;
        entry.route.transform =
            Transform { request: None, response: Some(".data | {temp: .t, s: $status}".parse().unwrap()) };
    });
    assert_eq!(value(&mapped, "application/json", b"{\"data\":{\"t\":2}}"), json!({"temp": 2, "s": 200}));
    assert_eq!(
        make(&mapped, 404, "application/json", b"{\"e\":1}").unwrap(),
        made(StatusCode::NOT_FOUND, Some(JSON), None)
    );
    assert_eq!(make(&mapped, 204, "", b"").unwrap().body.unwrap(), b"{\"temp\":null,\"s\":204}");
    assert_eq!(problem(&mapped, "application/json", b"{\"data\": 1}").split(':').next().unwrap(), "the mapping failed");
    assert_eq!(problem(&mapped, "image/png", b"\0"), "the service's answer is neither JSON nor text");
}

#[test]
fn nothing_is_no_content() {
    let auto = receiver(|_| {});
    assert_eq!(make(&auto, 200, "application/json", b"").unwrap(), made(StatusCode::NO_CONTENT, None, None));
    assert_eq!(make(&auto, 201, "", b"").unwrap().status, StatusCode::CREATED);
}

#[test]
fn an_answer_that_breaks_its_schema_is_refused_or_told() {
    let with = |mode| {
        receiver(|entry| {
            entry.route.receive_as = None;
            entry.output_schema = Some(json!({"type": "object", "required": ["id"]}).into());
            entry.validate_response = mode;
        })
    };
    let enforced = make(&with(Validate::Enforce), 200, "application/json", b"{\"secret\": 1}");
    assert!(matches!(enforced, Err(Unusable::Output(violations)) if violations.len() == 1));
    assert!(make(&with(Validate::Enforce), 200, "text/plain", b"x").is_err());
    assert_eq!(make(&with(Validate::Warn), 200, "application/json", b"{}").unwrap().warned.len(), 1);
    assert_eq!(make(&with(Validate::Enforce), 200, "application/json", b"{\"id\": 1}").unwrap().body, None);
}

proptest::proptest! {
    #[test]
    fn hostile_bytes_are_read_or_refused_and_never_a_panic(body in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..300), kind in 0_usize..6) {
        let types = ["text/xml", "text/csv", "application/json", "text/plain; charset=utf-16", "application/x-www-form-urlencoded", ""];
        let _ = make(&receiver(|_| {}), 200, types[kind], &body);
        let _ = make(&receiver(|_| {}), 500, types[kind], &body);
    }

    #[test]
    fn markup_is_read_or_refused_and_never_a_panic(text in "(<|>|/|a|b|=|\"|'|&|;|#|x|!|\\[|\\]|-| |<a>|</a>|<a/>|<!--|-->|<!\\[CDATA\\[|\\]\\]>|&amp;|&#1;){0,30}") {
        let _ = make(&receiver(|_| {}), 200, "text/xml", text.as_bytes());
    }
}
