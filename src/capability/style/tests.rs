//! Every style, written and read, and what callers write in its place.

#![expect(clippy::needless_pass_by_value, reason = "a value that is written where it is used reads best")]

use serde_json::json;

use super::*;

fn form(style: Style, explode: Option<bool>, schema: Value) -> Form {
    Form::new(style, explode, Some(&schema))
}

fn pairs(form: &Form, value: Value) -> String {
    let mut pairs = Vec::new();
    form.push_pairs("c", &value, &mut pairs);
    pairs.join("&")
}

fn path(style: Style, explode: bool, value: &Value) -> String {
    let mut path = String::new();
    form(style, Some(explode), json!(true)).push_path("c", value, &mut path);
    path
}

#[test]
fn a_query_is_written_as_openapi_says() {
    let (list, object) = (json!(["a b", "g,h", "x"]), json!({"R": 100, "G": "2&3"}));
    for (style, explode, of_list, of_object) in [
        (Style::Form, true, "c=a%20b&c=g%2Ch&c=x", "R=100&G=2%263"),
        (Style::Form, false, "c=a%20b,g%2Ch,x", "c=R,100,G,2%263"),
        (Style::SpaceDelimited, false, "c=a%20b%20g%2Ch%20x", "c=R%20100%20G%202%263"),
        (Style::PipeDelimited, false, "c=a%20b|g%2Ch|x", "c=R|100|G|2%263"),
        (Style::DeepObject, true, "c[0]=a%20b&c[1]=g%2Ch&c[2]=x", "c[R]=100&c[G]=2%263"),
        (
            Style::Json,
            false,
            "c=%5B%22a%20b%22%2C%22g%2Ch%22%2C%22x%22%5D",
            "c=%7B%22R%22%3A100%2C%22G%22%3A%222%263%22%7D",
        ),
    ] {
        let of = |schema: Value| form(style, Some(explode), schema);
        assert_eq!(pairs(&of(json!({"type": "array"})), list.clone()), of_list, "{style:?} {explode}");
        assert_eq!(pairs(&of(json!({"type": "object"})), object.clone()), of_object, "{style:?} {explode}");
    }
    let nested = json!({"a": {"b": [{"n": 1}, {"n": null}]}, "d": true});
    let deep = form(Style::DeepObject, None, json!({"type": "object"}));
    assert_eq!(pairs(&deep, nested), "c[a][b][0][n]=1&c[a][b][1][n]=&c[d]=true");
}

#[test]
fn reserved_characters_stay_where_the_service_wants_them() {
    let reserved = Form { allow_reserved: true, ..form(Style::Form, None, json!({"type": "string"})) };
    assert_eq!(pairs(&reserved, json!("a/b?c=d&e#f+g%h:@é")), "c=a/b?c=d%26e%23f%2Bg%25h:@%C3%A9");
}

#[test]
fn a_path_is_written_as_openapi_says() {
    let (one, list, object) = (json!("a/b"), json!(["a", "b;c"]), json!({"R": 100, "G": 200}));
    for (style, explode, of_one, of_list, of_object) in [
        (Style::Simple, false, "a%2Fb", "a,b%3Bc", "R,100,G,200"),
        (Style::Label, false, ".a%2Fb", ".a,b%3Bc", ".R,100,G,200"),
        (Style::Label, true, ".a%2Fb", ".a.b%3Bc", ".R=100.G=200"),
        (Style::Matrix, false, ";c=a%2Fb", ";c=a,b%3Bc", ";c=R,100,G,200"),
        (Style::Matrix, true, ";c=a%2Fb", ";c=a;c=b%3Bc", ";R=100;G=200"),
    ] {
        let mut exploded = form(style, Some(explode), json!({"type": "object"}));
        exploded.holds = Holds::Object;
        let mut object_path = String::new();
        exploded.push_path("c", &object, &mut object_path);
        assert_eq!(
            (path(style, explode, &one).as_str(), path(style, explode, &list).as_str(), object_path.as_str()),
            (of_one, of_list, of_object),
            "{style:?} {explode}"
        );
    }
}

#[test]
fn a_list_is_read_in_every_form_that_callers_write() {
    let list = json!({"type": "array", "items": {"type": "string"}});
    let pipes = form(Style::PipeDelimited, None, list.clone());
    for query in
        ["c=a|b", "c=a%7Cb", "c=a,b", "c=a&c=b", "c=[\"a\",\"b\"]", "c[]=a&c[]=b", "c[0]=a&c[1]=b", "x=1&c=a,b"]
    {
        assert_eq!(pipes.of_query("c", query), Some(json!(["a", "b"])), "{query}");
    }
    assert_eq!(pipes.of_query("c", "d=1"), None);
    let repeated = form(Style::Form, None, list);
    assert_eq!(repeated.of_query("c", "c=a,b"), Some(json!(["a,b"])), "a comma may belong to a text");
    let numbers = form(Style::Form, None, json!({"type": "array", "items": {"type": "integer"}}));
    assert_eq!(numbers.of_query("c", "c=1,2"), Some(json!(["1", "2"])), "but not to a number");
    assert_eq!(numbers.of_text("1,2"), json!(["1", "2"]));
}

#[test]
fn an_object_is_read_in_every_form_that_callers_write() {
    let schema = json!({"type": "object", "properties": {"R": {"type": "integer"}, "G": {}}});
    let deep = form(Style::DeepObject, None, schema.clone());
    for query in ["c[R]=1&c[G]=2", "c={\"R\":\"1\",\"G\":\"2\"}", "c=R,1,G,2"] {
        assert_eq!(deep.of_query("c", query), Some(json!({"R": "1", "G": "2"})), "{query}");
    }
    let nested = deep.of_query("c", "c[a][b][0]=x&c[a][b][1]=y&c[d]=1&c[d]=2");
    assert_eq!(nested, Some(json!({"a": {"b": ["x", "y"]}, "d": ["1", "2"]})));
    let spread = form(Style::Form, None, schema);
    assert_eq!(spread.of_query("c", "R=1&other=2"), Some(json!({"R": "1"})));
    assert_eq!(spread.of_query("c", "c[R]=1&G=2"), Some(json!({"R": "1", "G": "2"})));
}

#[test]
fn json_as_text_stays_json() {
    let json = form(Style::Json, None, json!({"type": "object"}));
    let value = json.of_query("c", "c=%7B%22a%22%3A1%7D").unwrap();
    assert_eq!((value.clone(), pairs(&json, value)), (json!({"a": 1}), "c=%7B%22a%22%3A1%7D".to_owned()));
    assert_eq!(json.of_query("c", "c[a]=1"), Some(json!({"a": "1"})));
    assert_eq!(pairs(&json, json.of_query("c", "c=broken").unwrap()), "c=broken");
}

proptest::proptest! {
    #[test]
    fn whatever_stands_in_a_query_is_read_and_written_without_a_panic(query in "[c\\[\\]a0=&,|%+\"{}]{0,40}") {
        for kind in ["string", "array", "object"] {
            for style in [Style::Form, Style::PipeDelimited, Style::DeepObject, Style::Json] {
                for explode in [true, false] {
                    let form = form(style, Some(explode), json!({"type": kind, "properties": {"a": {}}}));
                    if let Some(value) = form.of_query("c", &query) {
                        let written = pairs(&form, value);
                        proptest::prop_assert!(written.bytes().all(|byte| byte.is_ascii_graphic()));
                    }
                }
            }
        }
    }

    #[test]
    fn a_list_comes_back_from_what_is_written(items in proptest::collection::vec("[a-z/&=é]{1,5}", 1..5)) {
        for (style, explode) in [(Style::Form, true), (Style::Form, false), (Style::PipeDelimited, false), (Style::DeepObject, true)] {
            let form = form(style, Some(explode), json!({"type": "array"}));
            proptest::prop_assert_eq!(form.of_query("c", &pairs(&form, json!(items))), Some(json!(items)));
        }
    }
}
