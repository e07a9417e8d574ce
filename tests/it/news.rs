//! `/news` on the wire: what is stored, who reads it, and that it is still there after the process is not.

use std::sync::Arc;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{Call, Gateway, Response, until};

const A: &str = "sess_aaaaaaaaaaaaaaaa";
const B: &str = "sess_bbbbbbbbbbbbbbbb";
const AGENT: &str = "agent: {name: News}\n";
const EMBEDDED: &str = "store: {embedded: {path: data}}\nagent: {name: News}\n";

fn post(gateway: &Gateway, session: Option<&str>, message: &str) -> String {
    let call = Call::post("/news", &json!({"type": "note", "message": message}));
    let answer = gateway.call(&session.into_iter().fold(call, Call::session)).ok();
    assert_eq!((&answer["status"], &answer["message"]), (&json!("received"), &json!("Message stored successfully")));
    answer["news_id"].as_str().unwrap().to_owned()
}

fn read(gateway: &Gateway, session: Option<&str>, query: &str) -> Value {
    gateway.call(&session.into_iter().fold(Call::get(&format!("/news{query}")), Call::session)).ok()
}

fn said(page: &Value) -> Vec<&str> {
    page["items"].as_array().unwrap().iter().map(|item| item["message"].as_str().unwrap()).collect()
}

/// An error of a read also has the empty list that pollers look at.
#[track_caller]
fn refused_read(answer: &Response, code: &str) {
    assert_eq!(answer.refused(400, code)["items"], json!([]));
}

#[test]
fn an_item_comes_back_as_it_was_posted() {
    let gateway = Gateway::start(AGENT);
    let item = json!({
        "type": "reply", "from": "agent-b", "in_reply_to": "query_123", "message": "Done ✓", "job_id": "job_1",
        "query_id": "query_9", "data": {"deep": [1, {"two": null}]}, "trigger": true, "unknown": "dropped"
    });
    let id = gateway.post("/news", &item).ok()["news_id"].as_str().unwrap().to_owned();
    let page = read(&gateway, None, "");
    let stored = &page["items"][0];
    assert_eq!(stored["id"], id.as_str());
    for key in ["type", "from", "in_reply_to", "message", "job_id", "query_id", "data"] {
        assert_eq!(stored[key], item[key], "{key}");
    }
    for key in ["trigger", "unknown", "session_id"] {
        assert!(stored.get(key).is_none(), "{key}: {stored}");
    }
    assert_eq!(page["timestamp"], stored["timestamp"]);
    assert_eq!(page["oldest"], stored["timestamp"]);
    assert_eq!(page["more"], false);
}

#[test]
fn a_feed_that_had_no_item_answers_with_timestamp_one() {
    let gateway = Gateway::start(AGENT);
    let page = read(&gateway, None, "");
    assert_eq!((&page["items"], &page["timestamp"], &page["more"]), (&json!([]), &json!(1), &json!(false)));
    assert!(page.get("oldest").is_none());
    post(&gateway, None, "first");
    assert_eq!(said(&read(&gateway, None, "?since=1")), ["first"]);
}

#[test]
fn every_broken_item_has_its_code() {
    let gateway = Gateway::start(AGENT);
    for (body, code) in [
        ("", "invalid_json"),
        ("{", "invalid_json"),
        ("[]", "missing_type"),
        ("\"x\"", "missing_type"),
        ("{}", "missing_type"),
        ("{\"type\": \"\"}", "missing_type"),
        ("{\"type\": null}", "missing_type"),
        ("{\"type\": 1}", "missing_type"),
        ("{\"type\": \"t\", \"message\": 1}", "invalid_field"),
        ("{\"type\": \"t\", \"from\": []}", "invalid_field"),
        ("{\"type\": \"t\", \"in_reply_to\": {}}", "invalid_field"),
        ("{\"type\": \"t\", \"job_id\": true}", "invalid_field"),
        ("{\"type\": \"t\", \"query_id\": 0}", "invalid_field"),
        ("{\"type\": \"t\", \"session_id\": 0}", "invalid_session_id"),
        ("{\"type\": \"t\", \"session_id\": \"short\"}", "invalid_session_id"),
    ] {
        let call = Call::new("POST", "/news").header("Content-Type", "application/json").body(body);
        let answer = gateway.call(&call);
        answer.refused(400, code);
    }
    let call = Call::new("POST", "/news").header("Content-Type", "text/plain").body("{\"type\": \"t\"}");
    gateway.call(&call).refused(415, "unsupported_media_type");
    gateway.post("/news", &json!({"type": "t", "from": null, "message": null, "session_id": null})).ok();
    assert_eq!(said(&read(&gateway, None, "")), [""], "nothing but the last was stored, and message is always there");
}

#[test]
fn news_never_stream_whatever_accept_says() {
    let gateway = Gateway::start(AGENT);
    gateway.call(&Call::post("/news", &json!({"type": "t"})).streamed()).ok();
    gateway.call(&Call::get("/news").streamed()).ok();
}

#[test]
fn a_body_over_the_limit_is_refused() {
    let gateway = Gateway::start(&format!("limits: {{body: 2KiB}}\n{AGENT}"));
    gateway.post("/news", &json!({"type": "t", "message": "x".repeat(3_000)})).refused(413, "payload_too_large");
    assert_eq!(read(&gateway, None, "")["items"], json!([]));
}

#[test]
fn one_request_reads_and_writes_one_feed() {
    let gateway = Gateway::start(AGENT);
    post(&gateway, None, "for all");
    post(&gateway, Some(A), "for a");
    post(&gateway, Some(B), "for b");
    assert_eq!(said(&read(&gateway, None, "")), ["for all"]);
    assert_eq!(said(&read(&gateway, Some(A), "")), ["for a"]);
    let scoped = read(&gateway, Some(B), "");
    assert_eq!(said(&scoped), ["for b"]);
    assert_eq!(scoped["items"][0]["session_id"], B);
    assert!(!read(&gateway, None, "").to_string().contains("sess_"), "an unscoped read shows no session");
}

#[test]
fn the_session_of_a_request_is_the_headers_then_the_querys_then_the_bodys() {
    let gateway = Gateway::start(AGENT);
    let body = |message: &str| json!({"type": "t", "message": message, "session_id": B});
    gateway.call(&Call::post(&format!("/news?session_id={B}"), &body("by header")).session(A)).ok();
    gateway.call(&Call::post(&format!("/news?session_id={A}"), &body("by query"))).ok();
    gateway.call(&Call::post("/news", &body("by body"))).ok();
    assert_eq!(said(&read(&gateway, Some(A), "")), ["by header", "by query"]);
    assert_eq!(said(&read(&gateway, None, &format!("?session_id={B}"))), ["by body"]);
    assert_eq!(said(&read(&gateway, Some(A), &format!("?session_id={B}"))), ["by header", "by query"]);
}

#[test]
fn a_malformed_session_is_refused_wherever_it_decides() {
    let gateway = Gateway::start(AGENT);
    refused_read(&gateway.call(&Call::get("/news").session("short")), "invalid_session_id");
    refused_read(&gateway.get("/news?session_id=short"), "invalid_session_id");
    refused_read(&gateway.get("/news?session_id="), "invalid_session_id");
    refused_read(&gateway.call(&Call::get(&format!("/news?session_id={A}")).session("short")), "invalid_session_id");
    refused_read(&gateway.call(&Call::get("/news").session(A).session(A)), "invalid_session_id");
    refused_read(&gateway.get(&format!("/news?session_id={A}&session_id={A}")), "invalid_session_id");
    let call = Call::post("/news", &json!({"type": "t", "session_id": "short"})).session(A);
    gateway.call(&call).ok();
    refused_read(&gateway.get("/news?since=1&since=2"), "bad_request");
}

#[test]
fn since_is_exclusive_and_a_page_is_cut_in_reading_order() {
    let gateway = Gateway::start(AGENT);
    let ids: Vec<String> = (0..5).map(|number| post(&gateway, None, &format!("n{number}"))).collect();
    let all = read(&gateway, None, "");
    let times: Vec<u64> =
        all["items"].as_array().unwrap().iter().map(|item| item["timestamp"].as_u64().unwrap()).collect();
    assert!(times.windows(2).all(|pair| pair[0] < pair[1]), "strictly increasing: {times:?}");
    assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "ids order like the feed: {ids:?}");

    let newest = read(&gateway, None, "?limit=2");
    assert_eq!((said(&newest), &newest["more"]), (vec!["n3", "n4"], &json!(true)));
    assert_eq!(newest["timestamp"], times[4]);
    assert_eq!(said(&read(&gateway, None, "?since=0&limit=2")), ["n3", "n4"]);
    assert_eq!(said(&read(&gateway, None, "?since=&limit=2")), ["n3", "n4"]);

    let forward = read(&gateway, None, &format!("?since={}&limit=2", times[0]));
    assert_eq!((said(&forward), &forward["more"]), (vec!["n1", "n2"], &json!(true)));
    assert_eq!(forward["timestamp"], times[2], "a page that is cut says how far it came");
    let last = read(&gateway, None, &format!("?since={}&limit=2", times[2]));
    assert_eq!((said(&last), &last["more"], &last["timestamp"]), (vec!["n3", "n4"], &json!(false), &json!(times[4])));
    let none = read(&gateway, None, &format!("?since={}", times[4]));
    assert_eq!((said(&none), &none["timestamp"]), (vec![], &json!(times[4])));
    for late in ["9007199254740992", "99999999999999999999"] {
        let above = read(&gateway, None, &format!("?since={late}"));
        assert_eq!((&above["items"], &above["timestamp"]), (&json!([]), &json!(times[4])));
    }
    let above = read(&gateway, None, "?since=9007199254740991");
    assert_eq!((said(&above), &above["timestamp"]), (vec![], &json!(times[4])));

    assert_eq!(said(&read(&gateway, None, &format!("?since_id={}", ids[2]))), ["n3", "n4"]);
    assert_eq!(said(&read(&gateway, None, &format!("?since_id={}&since=1", ids[3]))), ["n4"]);
}

#[test]
fn a_poller_sees_every_item_once() {
    let gateway = Gateway::start(AGENT);
    let (mut seen, mut since) = (Vec::new(), 0);
    std::thread::scope(|scope| {
        for writer in 0..3 {
            let gateway = &gateway;
            scope.spawn(move || {
                let mut connection = gateway.connect();
                for number in 0..60 {
                    let item = json!({"type": "t", "message": format!("{writer}-{number}")});
                    connection.call(&Call::post("/news", &item)).ok();
                }
            });
        }
        let mut connection = gateway.connect();
        while seen.len() < 180 {
            let page = connection.call(&Call::get(&format!("/news?since={since}&limit=7"))).ok();
            seen.extend(said(&page).into_iter().map(str::to_owned));
            since = page["timestamp"].as_u64().unwrap();
            assert!(seen.len() <= 180, "an item came twice");
        }
    });
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 180);
}

#[test]
fn every_broken_parameter_has_its_code_and_others_are_ignored() {
    let gateway = Gateway::start(AGENT);
    for since in ["-1", "abc", "1.5", "1e3", "%201"] {
        refused_read(&gateway.get(&format!("/news?since={since}")), "invalid_since");
    }
    for since_id in ["nonsense", "0", "../../etc/passwd", "%27%20OR%201=1"] {
        refused_read(&gateway.get(&format!("/news?since_id={since_id}")), "invalid_since");
    }
    for limit in ["0", "-1", "1001", "ten", "1.0", "99999999999999999999"] {
        refused_read(&gateway.get(&format!("/news?limit={limit}")), "invalid_limit");
    }
    gateway.get("/news?limit=1000&since_id=&page=3&sort=desc&a=1&a=2").ok();
}

#[test]
fn a_query_string_that_can_not_be_read_is_refused_and_not_fatal() {
    let gateway = Gateway::start(AGENT);
    for query in
        ["?since=%ff", "?session_id=%ff%fe%fd%fc%ff%fe%fd%fc%ff%fe%fd%fc%ff%fe%fd%fc", "?limit=%00", "?since=1%"]
    {
        let answer = gateway.get(&format!("/news{query}"));
        assert_eq!(answer.status, 400, "{query}: {}", answer.text());
        assert_eq!(answer.json()["items"], json!([]), "{query}");
    }
    gateway.get("/news?&&=&a").ok();
}

#[test]
fn items_of_a_query_are_found_by_any_name_it_has() {
    let gateway = Gateway::start(AGENT);
    gateway.post("/news", &json!({"type": "t", "message": "by id", "query_id": "q1"})).ok();
    gateway.post("/news", &json!({"type": "t", "message": "by reply", "in_reply_to": "q1"})).ok();
    gateway.post("/news", &json!({"type": "t", "message": "by data", "data": {"caller_query_id": "q1"}})).ok();
    gateway.post("/news", &json!({"type": "t", "message": "another", "query_id": "q2"})).ok();
    gateway.call(&Call::post("/news", &json!({"type": "t", "message": "A's", "query_id": "q1"})).session(A)).ok();
    assert_eq!(said(&read(&gateway, None, "?query_id=q1")), ["by id", "by reply", "by data"]);
    assert_eq!(said(&read(&gateway, Some(A), "?query_id=q1")), ["A's"]);
    let none = read(&gateway, None, "?query_id=q3&since=5");
    assert_eq!((said(&none), &none["timestamp"]), (vec![], &json!(5)), "a reader that finds nothing stays where it is");
}

#[test]
fn required_sessions_are_required_and_declared() {
    let gateway = Gateway::start("agent: {name: News, news: {sessions: required}}\n");
    refused_read(&gateway.get("/news"), "missing_session_id");
    gateway.post("/news", &json!({"type": "t"})).refused(400, "missing_session_id");
    gateway.post("/news", &json!({"type": "t", "message": "mine", "session_id": A})).ok();
    assert_eq!(said(&read(&gateway, Some(A), "")), ["mine"]);
    for id in ["news", "news_receive"] {
        assert_eq!(declared(&gateway, id), json!({"supported": true, "required": true}));
    }
}

#[test]
fn ignored_sessions_are_dropped_and_not_declared() {
    let gateway = Gateway::start("agent: {name: News, news: {sessions: ignored}}\n");
    post(&gateway, Some(A), "for all");
    let page = read(&gateway, None, "");
    assert_eq!(said(&page), ["for all"]);
    assert_eq!(said(&read(&gateway, Some(B), "")), ["for all"]);
    assert!(!page.to_string().contains(A));
    refused_read(&gateway.call(&Call::get("/news").session("short")), "invalid_session_id");
    assert_eq!(declared(&gateway, "news"), Value::Null);
}

#[test]
fn optional_sessions_are_declared_as_not_required() {
    let gateway = Gateway::start(AGENT);
    assert_eq!(declared(&gateway, "news_receive"), json!({"supported": true, "required": false}));
}

fn declared(gateway: &Gateway, id: &str) -> Value {
    let catalog = gateway.get("/.well-known/restap.json").ok();
    let entries = catalog["capabilities"].as_array().unwrap();
    entries.iter().find(|entry| entry["id"] == id).unwrap()["sessions"].clone()
}

#[test]
fn agents_have_feeds_of_their_own() {
    let gateway = Gateway::start("agents: {a: {name: A}, b: {name: B}}\n");
    gateway.post("/agents/a/news", &json!({"type": "t", "message": "for a"})).ok();
    assert_eq!(said(&gateway.get("/agents/a/news").ok()), ["for a"]);
    assert_eq!(said(&gateway.get("/agents/b/news").ok()), Vec::<&str>::new());
}

#[test]
fn news_off_is_no_path_and_no_capability() {
    let gateway = Gateway::start("agent: {name: Quiet, news: off}\n");
    gateway.get("/news").refused(404, "not_found");
    gateway.post("/news", &json!({"type": "t"})).refused(404, "not_found");
    assert!(!gateway.get("/.well-known/restap.json").ok()["capabilities"].to_string().contains("news_receive"));
}

#[test]
fn other_methods_are_told_what_news_takes() {
    let gateway = Gateway::start(AGENT);
    let answer = gateway.call(&Call::new("DELETE", "/news"));
    answer.refused(405, "method_not_allowed");
    assert_eq!(answer.header("allow"), Some("GET, HEAD, POST, OPTIONS"));
    assert_eq!(gateway.call(&Call::new("HEAD", "/news")).status, 200);
}

#[test]
fn retention_keeps_the_newest_and_says_where_they_begin() {
    let gateway = Gateway::start("agent: {name: News, news: {retention: {items: 10}}}\n");
    let ids: Vec<String> = (0..30).map(|number| post(&gateway, None, &format!("n{number}"))).collect();
    let page = read(&gateway, None, "");
    assert!(said(&page).len() <= 11, "{page}");
    assert_eq!(said(&page).last(), Some(&"n29"));
    assert_eq!(page["oldest"], page["items"][0]["timestamp"]);
    assert_eq!(read(&gateway, None, &format!("?since_id={}", ids[0]))["items"], page["items"]);
}

#[test]
fn news_survive_a_restart_with_their_ids_and_times() {
    let mut first = Gateway::start(EMBEDDED);
    post(&first, None, "for all");
    post(&first, Some(A), "for a");
    let (all, own) = (read(&first, None, ""), read(&first, Some(A), ""));
    assert!(first.stop().0.success());
    let second = Gateway::start_in(first.directory(), EMBEDDED);
    assert_eq!((read(&second, None, ""), read(&second, Some(A), "")), (all.clone(), own));
    post(&second, None, "later");
    let later = read(&second, None, &format!("?since={}", all["timestamp"]));
    assert_eq!(said(&later), ["later"]);
}

#[test]
fn what_was_received_survives_a_kill() {
    let directory = Arc::new(TempDir::new().unwrap());
    let mut expected = Vec::new();
    for round in 0..3 {
        let mut gateway = Gateway::start_in(directory.clone(), EMBEDDED);
        for number in 0..5 {
            let message = format!("{round}-{number}");
            post(&gateway, None, &message);
            expected.push(message);
        }
        gateway.kill();
    }
    let gateway = Gateway::start_in(directory, EMBEDDED);
    assert_eq!(said(&read(&gateway, None, "")), expected);
}

#[test]
fn a_conversation_survives_a_restart() {
    use crate::support::{Upstream, chatting, delta, end};
    let upstream = Upstream::chat(&(delta("ok") + &end("stop")));
    let file = format!("store: {{embedded: {{path: data}}}}\n{}", chatting(&upstream.url()));
    let mut first = Gateway::start(&file);
    first.call(&Call::talk("one").session(A)).ok();
    first.stop();
    let second = Gateway::start_in(first.directory(), &file);
    second.call(&Call::talk("two").session(A)).ok();
    assert_eq!(upstream.last().json()["messages"].as_array().unwrap().len(), 3);
    assert!(!holds(first.directory().path(), A), "the id itself is nowhere on the disk");
}

/// Whether some file below the folder holds the text.
fn holds(folder: &std::path::Path, text: &str) -> bool {
    std::fs::read_dir(folder).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        if path.is_dir() {
            return holds(&path, text);
        }
        let bytes = std::fs::read(&path).unwrap_or_default();
        bytes.windows(text.len()).any(|window| window == text.as_bytes())
    })
}

#[test]
fn a_full_disk_refuses_writes_and_reads_go_on() {
    let directory = Arc::new(TempDir::new().unwrap());
    let data = directory.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let Some(_mounted) = Mounted::small(&data) else {
        eprintln!("skipped: a small file system can only be mounted by root");
        return;
    };
    let gateway = Gateway::start_in(directory, EMBEDDED);
    post(&gateway, None, "before");
    let filler = data.join("filler");
    let _full = std::fs::write(&filler, vec![0; 64 << 20]).unwrap_err();
    let item = json!({"type": "t", "message": "x".repeat(200 << 10)});
    let answer = gateway.post("/news", &item);
    answer.refused(503, "store_unavailable");
    assert!(answer.header("retry-after").is_some());
    assert_eq!(said(&read(&gateway, None, "")), ["before"]);
    std::fs::remove_file(&filler).unwrap();
    // The store looks for room every second or so, and refuses without trying until there is some.
    let after = Call::post("/news", &json!({"type": "t", "message": "after"})).header("Idempotency-Key", "k");
    until("there is room again", || (gateway.call(&after).status == 200).then_some(()));
    assert_eq!(said(&read(&gateway, None, "")), ["before", "after"]);
}

/// A file system of a few MiB, until it is dropped.
struct Mounted(std::path::PathBuf);

impl Mounted {
    fn small(at: &std::path::Path) -> Option<Self> {
        let mount =
            std::process::Command::new("mount").args(["-t", "tmpfs", "-o", "size=8m", "tmpfs"]).arg(at).output();
        mount.is_ok_and(|output| output.status.success()).then(|| Self(at.to_owned()))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(&self.0).output();
    }
}

#[test]
fn a_reader_that_prefers_to_wait_hears_of_an_item_when_it_comes() {
    let gateway = Gateway::start(AGENT);
    for session in [None, Some(A)] {
        let waiting = session.into_iter().fold(Call::get("/news?since=1").header("Prefer", "wait=30"), Call::session);
        let mut reader = gateway.connect();
        reader.send(waiting.bytes());
        // The request is on its way or waits already: in both cases it must not miss what comes now.
        post(&gateway, session, "news");
        assert_eq!(said(&reader.response(false).ok()), ["news"]);
    }
}

#[test]
fn a_reader_that_waits_in_vain_gets_an_empty_page() {
    let gateway = Gateway::start(AGENT);
    let page = gateway.call(&Call::get("/news").header("Prefer", "wait=1")).ok();
    assert_eq!(page, json!({"items": [], "timestamp": 1, "more": false}));
    post(&gateway, None, "there already");
    let page = gateway.call(&Call::get("/news").header("Prefer", "wait=60")).ok();
    assert_eq!(said(&page), ["there already"]);
}

#[test]
fn a_process_that_stops_lets_its_waiting_readers_go() {
    let mut gateway = Gateway::start(AGENT);
    let mut reader = gateway.connect();
    reader.send(Call::get("/news").header("Prefer", "wait=60").bytes());
    let (status, _) = gateway.stop();
    assert!(status.success());
}
