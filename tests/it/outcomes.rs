//! What becomes of a talk, by what its upstream does: one test a row of the outcome table.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::{Call, Exchange, Gate, Gateway, Response, Upstream, chatting, chatting_with, chunk, delta, end};

/// The same talk for a caller of event streams and for one of JSON, each with a gateway's whole answer.
fn both(answer: impl Fn(&mut Exchange<'_>) + Send + Sync + 'static) -> (Response, Response) {
    let upstream = Upstream::start(answer);
    let gateway = Gateway::start(&chatting(&upstream.url()));
    (gateway.stream("hi"), gateway.talk("hi"))
}

/// The same answer for both, before anything was said.
#[track_caller]
fn both_refused(answers: &(Response, Response), status: u16, code: &str) {
    answers.0.refused(status, code);
    answers.1.refused(status, code);
}

#[test]
fn text_with_a_proven_end_is_a_reply() {
    let (stream, json) = both(|exchange| exchange.stream(&(delta("Hello ") + &delta("world") + &end("stop"))));
    let events = stream.events();
    assert_eq!(events.names(), ["message.start", "message.delta", "message.delta", "message.end", "done"]);
    assert_eq!(events.text(), "Hello world");
    assert_eq!(events.keep_alives, 0);
    let id = &events.only("message.start")["id"];
    assert!(events.frames[..4].iter().all(|frame| &frame.data["id"] == id));
    assert_eq!(events.only("message.start")["session_id"], events.only("done")["session_id"]);
    let body = json.ok();
    assert_eq!(body["reply"], "Hello world");
    assert!(body["session_id"].is_string());
    assert!(body.get("query_id").is_none());
}

#[test]
fn a_stream_has_the_headers_that_keep_it_flowing() {
    let (stream, json) = both(|exchange| exchange.stream(&(delta("Hi") + &end("stop"))));
    assert_eq!(stream.header("cache-control"), Some("no-cache"));
    assert_eq!(stream.header("x-accel-buffering"), Some("no"));
    assert_eq!(stream.header("connection"), Some("keep-alive"));
    assert_eq!(stream.header("content-type"), Some("text/event-stream"));
    assert_eq!(json.header("cache-control"), Some("no-store"));
}

#[test]
fn each_text_leaves_as_soon_as_it_exists() {
    let gate = Gate::default();
    let held = gate.clone();
    let upstream = Upstream::start(move |exchange| {
        exchange.open_stream();
        exchange.send(delta("one"));
        held.wait();
        exchange.send(delta("two") + &end("stop"));
    });
    let gateway = Gateway::start(&chatting(&upstream.url()));
    let mut stream = gateway.open(&Call::talk("hi").streamed());
    assert_eq!(stream.next().unwrap().event, "message.start");
    assert_eq!(stream.next().unwrap().text(), "one");
    gate.open();
    assert_eq!(stream.rest().names(), ["message.delta", "message.end", "done"]);
}

#[test]
fn chunks_cut_anywhere_give_the_same_reply() {
    let (stream, json) = both(|exchange| {
        exchange.open_stream();
        for byte in (delta("né ✓") + &end("stop")).bytes() {
            exchange.send([byte]);
        }
    });
    assert_eq!(stream.events().text(), "né ✓");
    assert_eq!(json.ok()["reply"], "né ✓");
}

#[test]
fn a_proven_end_without_text_is_an_empty_reply() {
    let (stream, json) =
        both(|exchange| exchange.stream(&(chunk(&json!({"role": "assistant"}), &json!(null)) + &end("stop"))));
    let events = stream.events();
    assert_eq!(events.names(), ["message.start", "message.delta", "message.end", "done"]);
    assert_eq!(events.text(), "");
    assert_eq!(json.ok()["reply"], "");
}

#[test]
fn a_cut_by_length_after_text_is_told_by_its_finish_reason() {
    let (stream, json) = both(|exchange| exchange.stream(&(delta("Half a") + &end("length"))));
    let events = stream.events();
    assert_eq!(events.names(), ["message.start", "message.delta", "message.end", "done"]);
    assert_eq!(events.only("message.end")["finish_reason"], "length");
    let body = json.ok();
    assert_eq!((&body["reply"], &body["finish_reason"]), (&json!("Half a"), &json!("length")));
}

#[test]
fn a_length_or_filter_end_without_text_after_another_event_is_an_error() {
    for reason in ["length", "content_filter"] {
        let (stream, json) = both(move |exchange| {
            exchange.stream(&(chunk(&json!({"role": "assistant"}), &json!(null)) + &end(reason)));
        });
        let events = stream.events();
        assert_eq!(events.names(), ["message.start", "error", "done"], "{reason}");
        assert_eq!(events.only("error")["code"], "upstream_no_text");
        json.refused(502, "upstream_no_text");
    }
}

#[test]
fn a_tool_call_without_text_is_an_error() {
    let call = json!({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "find", "arguments": "{}"}}]});
    let (stream, json) = both(move |exchange| exchange.stream(&(chunk(&call, &json!(null)) + &end("tool_calls"))));
    let events = stream.events();
    assert_eq!(events.names().last_chunk(), Some(&["error", "done"]));
    assert!(!events.names().contains(&"message.end"), "{events:?}");
    json.refused(502, "upstream_no_text");
}

#[test]
fn a_first_frame_that_is_only_a_length_end_is_a_status() {
    both_refused(&both(|exchange| exchange.stream(&end("length"))), 502, "upstream_no_text");
}

#[test]
fn an_error_object_after_text_is_error_and_done() {
    let (stream, json) = both(|exchange| {
        exchange.stream(&(delta("Half") + "data: {\"error\": {\"message\": \"overloaded\"}}\n\n"));
    });
    let events = stream.events();
    assert_eq!(events.names(), ["message.start", "message.delta", "error", "done"]);
    assert_eq!(events.only("error")["code"], "upstream_error");
    assert!(!events.only("error")["message"].as_str().unwrap().is_empty());
    json.refused(502, "upstream_error");
}

#[test]
fn an_upstream_killed_in_mid_stream_is_error_and_done() {
    let (stream, json) = both(|exchange| {
        exchange.open_stream();
        exchange.send(delta("Half"));
        exchange.reset();
    });
    // A reset may overtake the text before it, never the proof that is missing.
    match stream.status {
        200 => {
            let events = stream.events();
            assert_eq!(events.names().last_chunk(), Some(&["error", "done"]));
            assert!(!events.names().contains(&"message.end"));
        }
        _ => drop(stream.refused(502, "upstream_error")),
    }
    json.refused(502, "upstream_error");
}

#[test]
fn a_killed_upstream_after_text_was_delivered_is_error_and_done() {
    let gate = Gate::default();
    let held = gate.clone();
    let upstream = Upstream::start(move |exchange| {
        exchange.open_stream();
        exchange.send(delta("Half"));
        held.wait();
        exchange.reset();
    });
    let gateway = Gateway::start(&chatting(&upstream.url()));
    let mut stream = gateway.open(&Call::talk("hi").streamed());
    assert_eq!(stream.next().unwrap().event, "message.start");
    assert_eq!(stream.next().unwrap().text(), "Half");
    gate.open();
    assert_eq!(stream.rest().names(), ["error", "done"]);
}

#[test]
fn a_close_without_proof_of_the_end_is_error_and_done() {
    let (stream, json) = both(|exchange| {
        exchange.open_stream();
        exchange.send(delta("Half"));
    });
    assert_eq!(stream.events().names(), ["message.start", "message.delta", "error", "done"]);
    json.refused(502, "upstream_error");
}

#[test]
fn a_truncated_chunked_body_is_error_and_done() {
    let (stream, json) = both(|exchange| {
        exchange.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
        let text = delta("Half");
        exchange.send(format!("{:x}\r\n{text}\r\nff\r\ndata: ", text.len()));
        exchange.close();
    });
    assert_eq!(stream.events().names(), ["message.start", "message.delta", "error", "done"]);
    json.refused(502, "upstream_error");
}

#[test]
fn a_body_shorter_than_its_length_is_error_and_done() {
    let (stream, json) = both(|exchange| {
        let text = delta("Half");
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n";
        exchange.send(format!("{head}Content-Length: {}\r\n\r\n{text}", text.len() + 100));
        exchange.close();
    });
    assert_eq!(stream.events().names(), ["message.start", "message.delta", "error", "done"]);
    json.refused(502, "upstream_error");
}

#[test]
fn unparsable_data_after_text_is_error_and_done() {
    let (stream, json) =
        both(|exchange| exchange.stream(&(delta("Half") + "data: {\"choices\": [\n\n" + &end("stop"))));
    assert_eq!(stream.events().names(), ["message.start", "message.delta", "error", "done"]);
    json.refused(502, "upstream_error");
}

#[test]
fn an_early_failure_is_a_status_for_both() {
    both_refused(
        &both(|exchange| exchange.stream("data: {\"error\": {\"message\": \"no\"}}\n\n")),
        502,
        "upstream_error",
    );
    both_refused(&both(|exchange| exchange.stream("data: nonsense\n\n")), 502, "upstream_error");
    both_refused(&both(|exchange| exchange.stream("")), 502, "upstream_error");
    both_refused(&both(|exchange| exchange.connection.reset()), 502, "upstream_error");
    both_refused(&both(|exchange| exchange.answer("500 Oops", "", b"stack trace")), 502, "upstream_error");
    both_refused(&both(|exchange| exchange.answer("404 Not Found", "", b"")), 502, "upstream_error");
    both_refused(&both(|exchange| exchange.answer("302 Found", "Location: /elsewhere", b"")), 502, "upstream_error");
}

#[test]
fn an_upstream_that_is_no_http_is_a_status() {
    both_refused(
        &both(|exchange| {
            exchange.send("SSH-2.0-OpenSSH_9.6\r\n");
            exchange.close();
        }),
        502,
        "upstream_error",
    );
}

#[test]
fn rate_limits_and_outages_of_the_upstream_keep_their_status_and_their_retry_after() {
    for (status, retry_after, ours, code) in [
        ("429 Too Many Requests", "7", 429, "upstream_rate_limited"),
        ("503 Service Unavailable", "11", 503, "upstream_unavailable"),
    ] {
        let answers = both(move |exchange| {
            exchange.answer(status, &format!("Retry-After: {retry_after}"), b"{\"error\":{\"message\":\"busy\"}}");
        });
        both_refused(&answers, ours, code);
        assert_eq!(answers.0.header("retry-after"), Some(retry_after));
        assert_eq!(answers.1.header("retry-after"), Some(retry_after));
    }
}

#[test]
fn rate_limits_and_outages_always_say_when_to_retry() {
    for (status, ours) in [("429 Too Many Requests", 429), ("503 Service Unavailable", 503)] {
        let (stream, json) = both(move |exchange| exchange.answer(status, "", b""));
        for answer in [stream, json] {
            assert_eq!(answer.status, ours);
            assert!(answer.header("retry-after").is_some_and(|seconds| seconds.parse::<u64>().unwrap() >= 1));
        }
    }
}

#[test]
fn refused_credentials_never_show_the_upstreams_text() {
    for status in ["401 Unauthorized", "403 Forbidden"] {
        let answers = both(move |exchange| {
            exchange.answer(status, "WWW-Authenticate: Bearer", b"{\"error\":{\"message\":\"bad key sk-12345\"}}");
        });
        both_refused(&answers, 502, "upstream_auth");
        for answer in [&answers.0, &answers.1] {
            assert!(!answer.text().contains("sk-12345"));
            assert_eq!(answer.header("www-authenticate"), None);
        }
    }
}

#[test]
fn a_refused_connection_is_unreachable() {
    let url = Upstream::unreachable();
    let gateway = Gateway::start(&chatting(&url));
    gateway.stream("hi").refused(502, "upstream_unreachable");
    let body = gateway.talk("hi").refused(502, "upstream_unreachable");
    assert!(!body.to_string().contains(url.trim_start_matches("http://")), "no address of ours: {body}");
}

#[test]
fn a_silent_upstream_runs_into_the_first_byte_timer() {
    let upstream = Upstream::start(|exchange| assert!(exchange.wait_until_left()));
    let gateway = Gateway::start(&chatting_with(&upstream.url(), "timeout: {first_byte: 200ms}", ""));
    let began = Instant::now();
    gateway.stream("hi").refused(504, "upstream_timeout");
    gateway.talk("hi").refused(504, "upstream_timeout");
    assert!(began.elapsed() >= Duration::from_millis(400));
    assert!(upstream.open_falls_to(0, Duration::from_secs(5)), "the gateway lets go of what it no longer waits for");
}

#[test]
fn an_upstream_that_goes_quiet_runs_into_the_idle_timer() {
    let upstream = Upstream::start(|exchange| {
        exchange.open_stream();
        exchange.send(delta("Half"));
        assert!(exchange.wait_until_left());
    });
    let gateway = Gateway::start(&chatting_with(&upstream.url(), "timeout: {idle: 200ms}", ""));
    let events = gateway.stream("hi").events();
    assert_eq!(events.names(), ["message.start", "message.delta", "error", "done"]);
    assert_eq!(events.only("error")["code"], "upstream_timeout");
    gateway.talk("hi").refused(504, "upstream_timeout");
}

#[test]
fn keep_alives_of_the_upstream_do_not_move_the_progress_timer() {
    let upstream = Upstream::start(|exchange| {
        exchange.open_stream();
        exchange.send(delta("Half"));
        // Each write is answered by nothing, until the gateway has left and one fails.
        exchange.connection.socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(10) {
            exchange.send(": still here\n\n");
            let mut byte = [0];
            let left = std::io::Read::read(&mut exchange.connection.socket, &mut byte).is_ok_and(|count| count == 0);
            if left {
                return;
            }
        }
        panic!("the gateway never left");
    });
    let gateway = Gateway::start(&chatting_with(&upstream.url(), "timeout: {idle: 5s, progress: 400ms}", ""));
    let events = gateway.stream("hi").events();
    assert_eq!(events.names(), ["message.start", "message.delta", "error", "done"]);
    assert_eq!(events.only("error")["code"], "upstream_timeout");
    gateway.talk("hi").refused(504, "upstream_timeout");
}

#[test]
fn a_slow_first_token_is_bridged_by_a_keep_alive() {
    let upstream = Upstream::start(|exchange| {
        exchange.open_stream();
        exchange.connection.socket.set_read_timeout(Some(Duration::from_millis(10_600))).unwrap();
        let mut byte = [0];
        // Nothing comes: this is how long the model thinks.
        let _ = std::io::Read::read(&mut exchange.connection.socket, &mut byte);
        exchange.send("data: {\"error\": {\"message\": \"gave up\"}}\n\n");
    });
    let gateway = Gateway::start(&chatting(&upstream.url()));
    let began = Instant::now();
    let mut stream = gateway.open(&Call::talk("hi").streamed());
    assert!(began.elapsed() >= Duration::from_millis(9_900), "the head waits for the first event");
    assert_eq!(stream.connection.chunk().unwrap(), b": keep-alive\n");
    // The status is spent, so the failure is told in the stream.
    assert_eq!(stream.rest().names(), ["message.start", "error", "done"]);
}

#[test]
fn an_upstream_that_can_not_stream_still_streams_to_its_caller() {
    let upstream = Upstream::start(|exchange| {
        let choice =
            json!({"index": 0, "message": {"role": "assistant", "content": "All at once"}, "finish_reason": "stop"});
        exchange.json(&json!({"choices": [choice], "usage": {"total_tokens": 3}}));
    });
    let gateway = Gateway::start(&chatting_with(&upstream.url(), "", "upstream_streaming: false"));
    let events = gateway.stream("hi").events();
    assert_eq!(events.names(), ["message.start", "message.delta", "message.end", "done"]);
    assert_eq!(events.text(), "All at once");
    let body = gateway.talk("hi").ok();
    assert_eq!((&body["reply"], &body["usage"]["total_tokens"]), (&json!("All at once"), &json!(3)));
    assert!(upstream.requests().iter().all(|request| request.json()["stream"] != json!(true)));
}

#[test]
fn a_caller_of_json_also_has_its_upstream_stream() {
    let upstream = Upstream::chat(&(delta("Hi") + &end("stop")));
    let gateway = Gateway::start(&chatting(&upstream.url()));
    gateway.talk("hi").ok();
    assert_eq!(upstream.request().json()["stream"], true);
}

#[test]
fn an_upstreams_gzip_and_interim_answers_are_understood() {
    use std::io::Write;
    let text = delta("Packed") + &end("stop");
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    let packed = encoder.finish().unwrap();
    let (stream, json) = both(move |exchange| {
        exchange.send("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n");
        exchange.answer("200 OK", "Content-Type: text/event-stream\r\nContent-Encoding: gzip", &packed);
    });
    assert_eq!(stream.events().text(), "Packed");
    assert_eq!(json.ok()["reply"], "Packed");
}

#[test]
fn reasoning_never_reaches_the_reply() {
    let (stream, json) = both(|exchange| {
        let thought = chunk(&json!({"reasoning_content": "secret thoughts"}), &json!(null));
        exchange.stream(&(thought + &delta("Answer") + &end("stop")));
    });
    assert!(!stream.text().contains("secret thoughts"));
    assert_eq!(stream.events().text(), "Answer");
    assert_eq!(json.ok()["reply"], "Answer");
}

#[test]
fn eight_hops_are_a_loop() {
    let upstream = Upstream::chat(&(delta("Hi") + &end("stop")));
    let gateway = Gateway::start(&chatting(&upstream.url()));
    gateway.talk("hi").ok();
    let hops = upstream.last().header("cdn-loop").unwrap().to_owned();
    let mut seen = hops;
    for _ in 0..8 {
        let answer = gateway.call(&Call::talk("hi").header("CDN-Loop", &seen));
        if answer.status == 508 {
            answer.refused(508, "loop_detected");
            return;
        }
        seen = upstream.last().header("cdn-loop").unwrap().to_owned();
    }
    panic!("a loop is never noticed: {seen}");
}
