//! Whole answers as golden files. `UPDATE_EXPECT=1 cargo test --test it wire` rewrites them.

use std::sync::LazyLock;

use expect_test::{ExpectFile, expect_file};
use regex::Regex;
use serde_json::json;

use crate::support::{Call, Gateway, Upstream, chatting, delta, end};

/// What differs from run to run, and what stands in its place.
static VARYING: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    [
        (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<uuid>"),
        (r"msg_[0-9a-f]{32}", "msg_<id>"),
        (r"news_[0-9a-f]+", "news_<id>"),
        (r#""timestamp":\d{13}"#, "\"timestamp\":<ms>"),
        (r#""oldest":\d{13}"#, "\"oldest\":<ms>"),
        (r"Date: .+", "Date: <date>"),
    ]
    .map(|(pattern, name)| (Regex::new(pattern).unwrap(), name))
    .into()
});

/// The answer to a call: its status, its headers as they are spelt, and its body without chunks, which differ.
fn check(gateway: &Gateway, call: &Call, golden: &ExpectFile) {
    let answer = gateway.call(call);
    let headers: Vec<String> = answer.headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    let mut text = format!("{}\n{}\n\n{}\n", answer.status, headers.join("\n"), answer.text());
    for (pattern, name) in VARYING.iter() {
        text = pattern.replace_all(&text, *name).into_owned();
    }
    golden.assert_eq(&text);
}

fn gateway() -> (Upstream, Gateway) {
    let upstream = Upstream::chat(&(delta("Hello ") + &delta("there!") + &end("stop")));
    let gateway = Gateway::start(&chatting(&upstream.url()));
    (upstream, gateway)
}

#[test]
fn a_streamed_reply_is_as_it_was() {
    let (_upstream, gateway) = gateway();
    check(&gateway, &Call::talk("Say hello").streamed(), &expect_file!["../golden/wire/talk_stream.txt"]);
}

#[test]
fn a_reply_of_json_is_as_it_was() {
    let (_upstream, gateway) = gateway();
    check(&gateway, &Call::talk("Say hello"), &expect_file!["../golden/wire/talk_json.txt"]);
}

#[test]
fn errors_are_as_they_were() {
    let (_upstream, gateway) = gateway();
    check(&gateway, &Call::post("/talk", &json!({})), &expect_file!["../golden/wire/missing_message.txt"]);
    check(&gateway, &Call::get("/talk"), &expect_file!["../golden/wire/method_not_allowed.txt"]);
    check(&gateway, &Call::get("/news?since=x"), &expect_file!["../golden/wire/invalid_since.txt"]);
}

#[test]
fn news_are_as_they_were() {
    let (_upstream, gateway) = gateway();
    let item = json!({"type": "reply", "from": "agent-b", "in_reply_to": "query_123", "message": "Use clear labels."});
    let post = Call::post("/news", &item).session("sess_0123456789abcdef");
    check(&gateway, &post, &expect_file!["../golden/wire/news_post.txt"]);
    let read = Call::get("/news").session("sess_0123456789abcdef");
    check(&gateway, &read, &expect_file!["../golden/wire/news_read.txt"]);
    check(&gateway, &Call::get("/news"), &expect_file!["../golden/wire/news_empty.txt"]);
}

#[test]
fn discovery_is_as_it_was() {
    let (_upstream, gateway) = gateway();
    check(&gateway, &Call::get("/.well-known/restap.json"), &expect_file!["../golden/wire/catalog.txt"]);
    check(&gateway, &Call::get("/health"), &expect_file!["../golden/wire/health.txt"]);
    check(&gateway, &Call::get("/"), &expect_file!["../golden/wire/root.txt"]);
}
