//! Calls whose end becomes news: `report` of a capability, where bytes only pass and where the answer is served.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use crate::support::{Call, Exchange, Gateway, Response, Upstream, until};

const A: &str = "sess_aaaaaaaaaaaaaaaa";

/// What makes a capability be served rather than passed, and nothing.
const WAYS: [&str; 2] = ["", "route: {timeout: 20s},"];

fn service() -> Upstream {
    Upstream::start(|exchange| {
        match exchange.request.target.as_str() {
        "/fine" => exchange.json(&json!({"answer": 42})),
        "/broken" => exchange.answer("500 Internal Server Error", "Content-Type: text/plain", b"no"),
        "/empty" => exchange.answer("204 No Content", "", b""),
        "/chunks" => exchange.send(
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n4\r\n two\r\n0\r\n\r\n",
        ),
        "/zipped" => {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
            encoder.write_all(b"{\"zipped\":true}").unwrap();
            let body = encoder.finish().unwrap();
            exchange.answer("200 OK", "Content-Type: application/json\r\nContent-Encoding: gzip", &body);
        }
        "/long" => exchange.answer("200 OK", "Content-Type: text/plain", &vec![b'x'; (64 << 10) + 1]),
        "/cut" => cut(exchange),
        other => panic!("{other}"),
    }
    })
}

fn cut(exchange: &mut Exchange<'_>) {
    exchange.send("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 100\r\n\r\nhalf");
    exchange.reset();
}

fn reporting(upstream: &str, report: &str, way: &str, news: &str) -> Gateway {
    Gateway::start(&format!(
        "agent:\n  name: Jobs\n  talk: off\n  upstream: {upstream}\n  {news}\n  capabilities:\n    \
         - {{id: job, title: The job, endpoint: '/{{*path}}', {way} report: {report}}}\n"
    ))
}

fn items(gateway: &Gateway, session: Option<&str>) -> Vec<Value> {
    let page = gateway.call(&session.into_iter().fold(Call::get("/news"), Call::session)).ok();
    page["items"].as_array().unwrap().clone()
}

fn job_id(answer: &Response) -> &str {
    answer.header("restap-job-id").expect("the answer names no job")
}

#[test]
fn the_end_of_a_call_stands_in_the_feed_of_its_session_with_the_result() {
    let upstream = service();
    for way in WAYS {
        let gateway = reporting(&upstream.url(), "true", way, "");
        for (target, kind, result) in [
            ("/fine", "job.completed", json!({"answer": 42})),
            ("/broken", "job.failed", json!("no")),
            ("/chunks", "job.completed", json!("one two")),
            ("/zipped", "job.completed", json!({"zipped": true})),
            ("/empty", "job.completed", Value::Null),
            ("/long", "job.completed", Value::Null),
        ] {
            let answer = gateway.call(&Call::get(target).session(A).header("Accept-Encoding", "gzip"));
            let id = job_id(&answer);
            // Whoever has the answer finds the item.
            let found = items(&gateway, Some(A));
            let item = found.last().unwrap_or_else(|| panic!("{target}"));
            assert_eq!((&item["type"], &item["job_id"], &item["query_id"]), (&json!(kind), &json!(id), &json!(id)));
            let mut data = json!({"query_id": id});
            if !result.is_null() {
                data["result"] = result;
            }
            assert_eq!(item["data"], data, "{target}");
            assert!(item["message"].as_str().unwrap().starts_with("The job has "), "{item}");
            assert_eq!(item["session_id"], A);
        }
        assert_eq!(items(&gateway, None), Vec::<Value>::new(), "nobody else reads of it");
        assert_eq!(items(&gateway, Some(A)).len(), 6);
    }
}

#[test]
fn without_a_session_everybody_reads_that_it_ended_and_the_result_only_where_that_is_wanted() {
    let upstream = service();
    for way in WAYS {
        for (report, result) in [("true", false), ("{}", false), ("{result: false}", false), ("{result: true}", true)] {
            let gateway = reporting(&upstream.url(), report, way, "");
            let answer = gateway.get("/fine");
            let found = items(&gateway, None);
            assert_eq!(found.len(), 1, "{report} {way}");
            assert_eq!(found[0]["job_id"], job_id(&answer));
            assert_eq!(found[0]["data"].get("result").is_some(), result, "{report} {way}");
        }
        let gateway = reporting(&upstream.url(), "true", way, "news: {sessions: ignored}");
        gateway.call(&Call::get("/fine").session(A));
        let found = items(&gateway, None);
        assert!(found.len() == 1 && found[0]["data"].get("result").is_none(), "{found:?}");
    }
}

#[test]
fn a_call_that_reaches_no_service_has_failed() {
    for way in WAYS {
        let gateway = reporting(&Upstream::unreachable(), "true", way, "");
        let answer = gateway.call(&Call::get("/fine").session(A));
        answer.refused(502, "upstream_unreachable");
        let found = items(&gateway, Some(A));
        assert_eq!((&found[0]["type"], &found[0]["job_id"]), (&json!("job.failed"), &json!(job_id(&answer))));
        assert_eq!(found[0]["data"]["result"]["error"], "upstream_unreachable");
    }
}

#[test]
fn an_answer_that_breaks_off_has_failed_and_has_no_result() {
    let upstream = service();
    for way in WAYS {
        let gateway = reporting(&upstream.url(), "true", way, "");
        let mut connection = gateway.connect();
        connection.send(Call::get("/cut").session(A).bytes());
        let item = until("the item of a broken answer", || items(&gateway, Some(A)).pop());
        assert_eq!((&item["type"], item["data"].get("result")), (&json!("job.failed"), None), "{item}");
    }
}

#[test]
fn a_head_request_ends_with_its_head() {
    let upstream = service();
    for way in WAYS {
        let gateway = reporting(&upstream.url(), "true", way, "");
        let mut connection = gateway.connect();
        connection.send(Call::new("HEAD", "/fine").session(A).bytes());
        let answer = connection.response(true);
        let found = items(&gateway, Some(A));
        assert_eq!(found[0]["job_id"], job_id(&answer));
        assert!(found[0]["data"].get("result").is_none());
    }
}

#[test]
fn only_calls_that_were_let_through_are_jobs() {
    let upstream = service();
    let gateway = reporting(&upstream.url(), "true", "parameters: [{name: n, type: integer}],", "");
    let answer = gateway.get("/fine?n=one");
    answer.refused(400, "invalid_input");
    assert_eq!(answer.header("restap-job-id"), None);
    gateway.call(&Call::get("/fine").session("short")).refused(400, "invalid_session_id");
    assert_eq!(items(&gateway, None), Vec::<Value>::new());

    let silent = reporting(&upstream.url(), "false", "", "");
    assert_eq!(silent.call(&Call::get("/fine").session("short")).header("restap-job-id"), None);
    assert_eq!(items(&silent, None), Vec::<Value>::new());
}

#[test]
fn a_report_that_can_not_be_stored_fails_no_call() {
    let upstream = service();
    for way in WAYS {
        // An item is larger than this feed may be.
        let gateway = reporting(&upstream.url(), "true", way, "news: {retention: {bytes: 10B}}");
        let answer = gateway.call(&Call::get("/fine").session(A));
        assert_eq!(answer.ok(), json!({"answer": 42}));
        gateway.wait_for_line("a report could not be stored");
        // And a result that is, is left out.
        let gateway = reporting(&upstream.url(), "true", way, "news: {retention: {bytes: 400B}}");
        gateway.call(&Call::get("/chunks").session(A));
        let whole = items(&gateway, Some(A));
        assert_eq!(whole[0]["data"]["result"], "one two", "it fits");
        gateway.call(&Call::get("/broken").session(A));
        assert_eq!(items(&gateway, Some(A)).len(), 1, "retention keeps the newest");
    }
}
