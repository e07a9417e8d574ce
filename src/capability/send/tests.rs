//! JSON made what services take.

use serde_json::json;

use super::super::fixture::settings;
use super::super::settings::Encoding;
use super::*;
use crate::restap::catalog::Style;

fn sender(send_as: SendAs, change: impl FnOnce(&mut Settings)) -> Sender {
    let mut entry = settings("it", "POST /b");
    entry.route.send_as = send_as;
    change(&mut entry);
    Sender::new(&entry)
}

fn sent(sender: &Sender, value: &Value) -> Result<(String, String), Unsendable> {
    match sender.encode(value)? {
        Sent::Body(body, media_type) => {
            Ok((String::from_utf8_lossy(&body).into_owned(), media_type.to_str().unwrap().to_owned()))
        }
        Sent::Query(pairs) => Ok((pairs, "query".to_owned())),
    }
}

fn text(sender: &Sender, value: &Value) -> String {
    sent(sender, value).unwrap().0
}

#[test]
fn a_form_repeats_lists_and_puts_what_is_nested_in_brackets() {
    let form = sender(SendAs::Form, |_| {});
    let value = json!({
        "name": "Å & B", "n": 1.50, "ok": true, "none": null, "tags": ["a", "b"], "meta": {"k": "v", "deep": {"x": [1]}},
        "items": [{"price": "p", "q": 2}],
    });
    assert_eq!(
        sent(&form, &value).unwrap(),
        (
            "name=%C3%85%20%26%20B&n=1.5&ok=true&tags=a&tags=b&meta[k]=v&meta[deep][x][0]=1&items[0][price]=p&items[0][q]=2"
                .to_owned(),
            "application/x-www-form-urlencoded".to_owned()
        )
    );
    assert_eq!(
        sent(&form, &json!([1])).unwrap_err().message,
        "must be an object, whose entries are the fields of a form"
    );
}

#[test]
fn a_field_is_written_as_its_encoding_says() {
    let style = |style, explode| Encoding { style: Some(style), explode, ..Encoding::default() };
    let form = sender(SendAs::Form, |entry| {
        entry.route.encoding = vec![
            ("a".to_owned(), style(Style::Form, Some(false))),
            ("b".to_owned(), style(Style::DeepObject, None)),
            ("c".to_owned(), style(Style::Json, None)),
        ];
    });
    let value = json!({"a": [1, 2], "b": ["x"], "c": {"k": 1}});
    assert_eq!(text(&form, &value), "a=1,2&b[0]=x&c=%7B%22k%22%3A1%7D");
}

#[test]
fn a_form_of_a_get_goes_into_the_query() {
    let form = sender(SendAs::Form, |entry| entry.route.method = Method::GET);
    assert_eq!(sent(&form, &json!({"q": "a b"})).unwrap(), ("q=a%20b".to_owned(), "query".to_owned()));
}

#[test]
fn a_multipart_body_has_a_part_for_each_field_and_bytes_for_base64() {
    let multipart = sender(SendAs::Multipart, |entry| {
        let schema = json!({"properties": {"file": {"type": "string", "format": "binary"}, "files": {"$ref": "#/$defs/F"}},
            "$defs": {"F": {"type": "array", "items": {"format": "binary"}}}});
        entry.input_schema = Some(schema.into());
    });
    let value = json!({
        "note": "a\r\n\"b", "meta": {"k": 1}, "tags": ["x", "y"], "bad\"name\r\n": 1,
        "file": {"data": "AP8", "filename": "ü\".png", "content_type": "image/png"},
        "files": ["aGk=", "data:text/plain;base64,aG8="],
    });
    let (body, media_type) = sent(&multipart, &value).unwrap();
    let boundary = media_type.strip_prefix("multipart/form-data; boundary=").unwrap();
    let part =
        |head: &str, body: &str| format!("--{boundary}\r\nContent-Disposition: form-data; {head}\r\n\r\n{body}\r\n");
    let expected = [
        part("name=\"note\"", "a\r\n\"b"),
        part("name=\"meta\"\r\nContent-Type: application/json", "{\"k\":1}"),
        part("name=\"tags\"", "x"),
        part("name=\"tags\"", "y"),
        part("name=\"bad%22name%0D%0A\"", "1"),
        part("name=\"file\"; filename=\"ü%22.png\"\r\nContent-Type: image/png", "\0\u{fffd}"),
        part("name=\"files\"; filename=\"files\"\r\nContent-Type: application/octet-stream", "hi"),
        part("name=\"files\"; filename=\"files\"\r\nContent-Type: text/plain", "ho"),
        format!("--{boundary}--\r\n"),
    ];
    assert_eq!(body, expected.concat());
    for (file, message) in [
        (json!("%%%"), "must be base64, and is not"),
        (json!(7), "must be the file's bytes in base64, or {\"data\": base64, \"filename\", \"content_type\"}"),
        (json!({"data": "", "content_type": "a/b\r\nX: y"}), "has a `content_type` that is no media type"),
    ] {
        let problem = sent(&multipart, &json!({"file": file})).unwrap_err();
        assert_eq!((problem.path.as_str(), problem.message.as_str()), ("/file", message));
    }
}

#[test]
fn xml_has_attributes_text_and_an_element_for_each_item() {
    let xml = sender(SendAs::Xml, |_| {});
    let head = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>";
    let value =
        json!({"order": {"@id": "a\"<\n", "item": [1, "x & y", {"#text": "]]>", "@k": 1}], "none": null, "e": {}}});
    assert_eq!(
        text(&xml, &value),
        format!(
            "{head}<order id=\"a&quot;&lt;&#10;\"><item>1</item><item>x &amp; y</item><item k=\"1\">]]&gt;</item><none/><e></e></order>"
        )
    );
    assert_eq!(text(&xml, &json!({"a": 1, "b": 2})), format!("{head}<request><a>1</a><b>2</b></request>"));
    assert_eq!(text(&xml, &json!({"a": [1, 2]})), format!("{head}<request><a>1</a><a>2</a></request>"));
    let rooted = sender(SendAs::Xml, |entry| entry.route.xml_root = Some("soap:Body".to_owned()));
    assert_eq!(text(&rooted, &json!({"a": 1})), format!("{head}<soap:Body><a>1</a></soap:Body>"));
    for value in
        [json!({"a b": 1}), json!({"a": {"><x": 1}}), json!({"a": {"@1": 1}}), json!({"a": "\u{1}"}), json!({"": 1})]
    {
        assert!(sent(&xml, &value).is_err(), "{value}");
    }
}

#[test]
fn a_text_is_sent_without_its_quotes() {
    let plain = sender(SendAs::Text, |entry| entry.content_types = vec!["text/markdown".to_owned()]);
    assert_eq!(sent(&plain, &json!("a \"b\"")).unwrap(), ("a \"b\"".to_owned(), "text/markdown".to_owned()));
}

#[test]
fn what_is_nested_too_deeply_is_refused() {
    let deep = (0..100).fold(json!(1), |inner, _| json!({"a": inner}));
    for send_as in [SendAs::Form, SendAs::Multipart, SendAs::Xml] {
        assert_eq!(sent(&sender(send_as, |_| {}), &deep).unwrap_err().message, "may have at most 64 levels");
    }
}
