//! Dialects as data: what compiles and what does not, and the requests that they render.

use std::fmt::Write as _;
use std::path::Path;

use expect_test::{expect, expect_file};
use serde_json::json;
use uuid::Uuid;

use super::*;
use crate::talk::Exchange;
use crate::yaml::Secret;

/// What is wrong in a mapping, one a line.
fn problems(yaml: &str) -> String {
    let mapping: Value = serde_yaml::from_str(yaml).unwrap();
    let problems = Dialect::compile(&mapping).err().unwrap_or_default();
    let mut shown = String::new();
    for Problem { pointer, message, suggestion } in problems {
        let suggestion = suggestion.map(|name| format!(" [{name}]")).unwrap_or_default();
        let _ = writeln!(shown, "{pointer}: {message}{suggestion}");
    }
    shown
}

#[test]
fn every_dialect_of_the_list_compiles() {
    for name in Dialect::names() {
        let source = builtin::source(name).unwrap_or_else(|| panic!("{name} is YAML"));
        let compiled = Dialect::compile(&source);
        assert!(compiled.is_ok(), "{name}: {compiled:?}");
        assert!(Dialect::built_in(name).is_some());
    }
    assert_eq!(Dialect::names().count(), 25);
    assert!(Dialect::built_in("openai").is_none());
}

#[test]
fn what_is_wrong_is_told_at_once_with_places_and_nearest_names() {
    expect![[r"
        /respose: `respose` is no key here; known are like, conversation, reasoning_tags, request, stream, response [response]
        /request/heders: `heders` is no key here; known are root, path, stream_path, headers, body, history [headers]
        /request/body/message: `{{mesage}}` stands for nothing here; known are message, messages, system, model, stream, session_key, session_uuid, uuid, credential, saved.conversation [message]
        /request/path: a path starts with / and has no space, # or unencoded character [/chat]
        /request/body: the body sends neither {{message}} nor {{messages}}
        /response/framing: `jsn` is no framing; known are sse, json-seq, json, text, aws-eventstream [json]
    "]]
    .assert_eq(&problems(
        r#"
        respose: {}
        request: {path: chat, heders: {}, body: {message: "{{mesage}}"}}
        response: {framing: jsn}
        "#,
    ));
    expect![[r"
        /response/rules/0: a rule needs `emit`, which says what it makes of a frame [emit]
        /response/rules/1/emit: `txt` can't be emitted; known are text, reasoning, tool, tool.end, status, artifact, pass, conversation, usage, suggested_actions, pending, end, error [text]
        /response/rules/2/sep: `sep` is no key here; known are event, if, each, where, emit, value, detail, stop
        /response/rules/3/value: `choices.0.text`: a pointer starts with a slash, as in /choices/0; the empty pointer is the whole value [/choices/0/text]
        /response/rules/4: without `value` this rule can never emit anything [value]
        /response/rules/5/if/~1a/is: `strng` is no type; known are string, nonempty, number, object, array [string]
        /response/rules/6/mode: `snap` is no mode; known are delta, full, snapshot, replace [snapshot]
        /response/rules/7/stop: this must be true or false
        /response/rules/8/if/~1a: a condition is a value, a list of values, {is: type} or {not: condition}
    "]]
    .assert_eq(&problems(
        r#"
        like: json
        response:
          framing: json
          rules:
            - {value: /a}
            - {emit: txt, value: /a}
            - {emit: end, sep: x}
            - {emit: text, value: choices.0.text}
            - {emit: text}
            - {if: {/a: {is: strng}}, emit: end}
            - {emit: text, value: /a, mode: snap}
            - {if: {/a: 1}, emit: end, stop: "yes"}
            - {if: {/a: {is: string, not: 1}}, emit: end}
        "#,
    ));
}

#[test]
fn a_rule_that_can_never_fire_is_told() {
    expect![[r"
        /stream/rules/1: this rule can never fire: the one at /stream/rules/0 ends the reply before it
        /stream/rules/4: this rule can never fire: the one at /stream/rules/3 ends the reply before it
        /response/rules/1/if/~1a: this rule can never fire: nothing is in an empty list
        /response/rules/0/event: this rule can never fire: these frames have no names; say where one is with `name` [name]
    "]].assert_eq(&problems(
        r"
        like: json
        stream:
          framing: sse
          rules:
            - {event: [done, end], emit: end, stop: true}
            - {event: end, emit: text, value: /a}
            - {event: [end, other], emit: text, value: /a}
            - {emit: error, value: /a}
            - {event: other, emit: end}
        response:
          framing: json
          eof_ok: true
          rules:
            - {event: a, emit: end}
            - {if: {/a: []}, emit: end}
        ",
    ));
    expect![[r"
        /stream/sentinel: only server-sent events have a sentinel
        /response/rules: these rules can never fire: plain text has no frames
    "]]
    .assert_eq(&problems(
        r"
        like: json
        stream: {framing: json-seq, sentinel: end, eof_ok: true}
        response: {framing: text, rules: [{emit: end}]}
        ",
    ));
}

#[test]
fn what_belongs_together_is_checked_together() {
    for (yaml, problem) in [
        ("{like: jsno}", "/like: there is no dialect `jsno`; known are openai-chat,"),
        ("{like: json, conversation: minted}", "/conversation: minted: a rule with `emit: conversation` must keep"),
        ("{like: json, conversation: kept}", "/conversation: `kept` is none of none, derived, minted"),
        ("{like: openai-chat, conversation: derived}", "/conversation: derived: the request must send"),
        ("{like: json, request: {stream_path: /s}}", "/request/stream_path: without `stream` nothing is ever sent"),
        ("{like: openai-chat, request: {history: null}}", "/request: {{messages}} needs `history`"),
        (
            "{like: openai-chat, request: {body: {m: \"{{message}}\"}}}",
            "/request/history: `history` needs {{messages}}",
        ),
        (
            "{like: json, response: {rules: [{emit: text, value: /a}]}}",
            "/response: nothing here proves that a reply is complete",
        ),
        ("{like: json, request: {body: {m: \"{{message\"}}}", "/request/body/m: `{{` without `}}`"),
        ("{like: json, request: {headers: {a b: c}}}", "/request/headers/a b: `a b` is no name of a header"),
        (
            "{like: json, request: {headers: {x: \"{{message}}\"}}}",
            "/request/headers/x: `{{message}}` stands for nothing here",
        ),
        (
            "{like: json, request: {body: {$if: history, then: \"{{message}}\"}}}",
            "/request/body/$if: `$if` knows one condition: stream [stream]",
        ),
        (
            "{like: openai-chat, request: {history: {item: {r: \"{{role}}\"}, roles: {bot: x}}}}",
            "/request/history/roles/bot: `bot` is no role",
        ),
        ("{request: 1, response: []}", "/request: this must be a mapping"),
        ("{}", "/request: a dialect needs `request`"),
        ("[]", ": this must be a mapping"),
    ] {
        let problems = problems(yaml);
        assert!(problems.contains(problem), "{yaml}\n{problems}");
    }
}

#[test]
fn a_dialect_of_ones_own_can_be_like_another() {
    let mapping = json!({
        "like": "json",
        "request": {"path": "/ask", "body": {"question": "{{message}}"}},
        "response": {"rules": [{"emit": "text", "value": "/answer/text"}, {"if": {"/answer": {"is": "object"}}, "emit": "end"}]},
        "conversation": "none",
    });
    let dialect = Dialect::compile(&mapping).unwrap();
    let rendered = dialect.request(&prompt(&Map::new(), &Map::new(), &[], "")).unwrap();
    assert_eq!((rendered.path_and_query.as_str(), &rendered.body[..]), ("/ask", &br#"{"question":"And now?"}"#[..]));
    assert_eq!(dialect.conversation(), Conversation::None);
}

#[test]
fn a_dialect_says_what_it_takes_and_does() {
    let facts = |name: &str| {
        let dialect = Dialect::built_in(name).unwrap();
        let flags = [
            (dialect.streams(), "streams"),
            (dialect.takes_history(), "history"),
            (dialect.takes_system(), "system"),
            (dialect.takes_model(), "model"),
            (dialect.needs_model(), "needs model"),
            (dialect.takes_credential(), "credential"),
        ];
        let flags: Vec<&str> = flags.into_iter().filter(|(is, _)| *is).map(|(_, name)| name).collect();
        format!("{name}: {:?}; {}; {}\n", dialect.conversation(), flags.join(", "), dialect.hints().join(" "))
    };
    expect_file![golden("dialects.txt")].assert_eq(&Dialect::names().map(facts).collect::<String>());
}

#[test]
fn the_documentation_names_every_dialect_and_everything_that_can_be_emitted() {
    let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/dialects.md")).unwrap();
    for name in Dialect::names().chain(rule::EMITS.iter().map(|(name, _)| *name)).chain(Framing::NAMES.iter().copied())
    {
        assert!(page.contains(&format!("`{name}`")), "{name}");
    }
}

#[test]
fn every_example_of_the_documentation_compiles() {
    let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/dialects.md")).unwrap();
    let blocks = page.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let mut compiled = 0;
    for block in blocks {
        let file: Value = serde_yaml::from_str(block).unwrap();
        if let Some(dialect) = file.pointer("/agent/talk/dialect").filter(|dialect| dialect.is_object()) {
            assert!(Dialect::compile(dialect).is_ok(), "{block}");
            compiled += 1;
        }
    }
    assert!(compiled >= 3, "{compiled} examples");
}

fn golden(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/talk").join(name)
}

fn prompt<'a>(
    options: &'a Map<String, Value>,
    saved: &'a Saved,
    history: &'a [Exchange],
    url_prefix: &'a str,
) -> Prompt<'a> {
    Prompt {
        message: "And now?",
        system: None,
        news: None,
        history,
        model: None,
        options,
        stream: true,
        session_key: None,
        session_uuid: None,
        saved,
        credential: None,
        request_id: Uuid::from_u128(0x0000_0000_0000_4000_8000_0000_0000_0000),
        url_prefix,
    }
}

fn shown(rendered: &Rendered) -> String {
    let mut shown = format!("POST {}\n", rendered.path_and_query);
    for (name, value) in &rendered.headers {
        let value = if value.is_sensitive() { "(hidden)" } else { value.to_str().unwrap() };
        let _ = writeln!(shown, "{name}: {value}");
    }
    let body: Value = serde_json::from_slice(&rendered.body).unwrap();
    let _ = writeln!(shown, "\n{}\n", serde_json::to_string_pretty(&body).unwrap());
    shown
}

#[test]
fn every_dialect_renders_its_golden_requests() {
    let secret = Secret::new("sk-secret");
    let history = [Exchange { user: "Hello".into(), assistant: "Hi.".into() }];
    let saved = json!({"conversation": "saved-conversation", "task": "saved-task"}).as_object().unwrap().clone();
    let (options, none) = (json!({"temperature": 0.2}).as_object().unwrap().clone(), Map::new());
    let mut all = String::new();
    for name in Dialect::names() {
        let dialect = Dialect::built_in(name).unwrap();
        let full = Prompt {
            system: Some("Be brief."),
            news: Some("[NEWS]\n{\"type\":\"reply\"}"),
            model: Some("model/1"),
            session_key: Some("session-key"),
            session_uuid: Some("11111111-1111-4111-8111-111111111111"),
            credential: Some(&secret),
            ..prompt(&options, &saved, &history, "")
        };
        // The least that the path can do with.
        let bare = Prompt {
            stream: false,
            model: dialect.needs_model().then_some("m"),
            session_key: (name == "botpress-converse").then_some("k"),
            session_uuid: (name == "langgraph").then_some("u"),
            ..prompt(&none, &none, &[], "")
        };
        let _ = write!(all, "== {name}: everything, a stream\n{}", shown(&dialect.request(&full).unwrap()));
        let _ = write!(all, "== {name}: a first message, no stream\n{}", shown(&dialect.request(&bare).unwrap()));
    }
    assert!(!all.contains("sk-secret"));
    expect_file![golden("requests.txt")].assert_eq(&all);
}

#[test]
fn the_path_fits_the_upstreams_url() {
    let path = |name: &str, prefix: &str| {
        let dialect = Dialect::built_in(name).unwrap();
        let none = Map::new();
        dialect.request(&Prompt { model: Some("m"), ..prompt(&none, &none, &[], prefix) }).unwrap().path_and_query
    };
    for (name, prefix, expected) in [
        ("openai-chat", "", "/v1/chat/completions"),
        ("openai-chat", "/v1", "/chat/completions"),
        ("openai-chat", "/openai/deployments/x", "/chat/completions"),
        ("openai-responses", "", "/v1/responses"),
        ("anthropic", "", "/v1/messages"),
        ("anthropic", "/v1", "/messages"),
        ("anthropic", "/anthropic", "/v1/messages"),
        ("gemini", "/v1beta", "/models/m:streamGenerateContent?alt=sse"),
        ("ollama-chat", "/api", "/chat"),
        ("ollama-chat", "/myapi", "/api/chat"),
        ("restap", "/agents/a", "/talk"),
        ("json", "", "/"),
        ("json", "/ask", ""),
    ] {
        assert_eq!(path(name, prefix), expected, "{name} at {prefix:?}");
    }
}

#[test]
fn the_operators_path_stands_as_it_is() {
    let none = Map::new();
    let render = |name: &str, path: &str, prompt: &Prompt<'_>| {
        Dialect::built_in(name)
            .unwrap()
            .with_path(path)
            .unwrap()
            .request(prompt)
            .map(|rendered| rendered.path_and_query)
    };
    let bare = prompt(&none, &none, &[], "/v1");
    assert_eq!(render("openai-chat", "/v1/other", &bare).unwrap(), "/v1/other");
    assert_eq!(render("json", "/", &bare).unwrap(), "/");
    let model = Prompt { model: Some("a/b c"), ..prompt(&none, &none, &[], "") };
    assert_eq!(render("gemini", "/m/{{model}}?x=1", &model).unwrap(), "/m/a%2Fb%20c?x=1");
    assert_eq!(render("gemini", "/m/{{model}}", &bare), Err(Unrenderable::Path));
    assert!(Dialect::built_in("json").unwrap().with_path("ask").is_err());
    assert!(Dialect::built_in("json").unwrap().with_path("/{{message}}").is_err());
}

#[test]
fn a_value_that_a_header_cannot_carry_is_refused() {
    let none = Map::new();
    let secret = Secret::new("a\r\nx: y");
    let prompt = Prompt { credential: Some(&secret), ..prompt(&none, &none, &[], "") };
    let refused = Dialect::built_in("json").unwrap().request(&prompt).unwrap_err();
    assert_eq!(refused, Unrenderable::Header(http::header::AUTHORIZATION));
}

#[test]
fn options_are_merged_key_by_key() {
    let options =
        json!({"parameters": {"temperature": 0.1}, "max_tokens": 9, "stream_options": {"include_usage": true}});
    let (options, none) = (options.as_object().unwrap().clone(), Map::new());
    let body = |name: &str| -> Value {
        let rendered = Dialect::built_in(name).unwrap().request(&prompt(&options, &none, &[], "")).unwrap();
        serde_json::from_slice(&rendered.body).unwrap()
    };
    assert_eq!(body("tgi-generate")["parameters"], json!({"max_new_tokens": 512, "temperature": 0.1}));
    assert_eq!(body("anthropic")["max_tokens"], json!(9));
    assert_eq!(body("openai-chat")["stream_options"], json!({"include_usage": true}));
}
