//! Turns and the clock: when a head goes out, when a caller hears something, when an upstream is too slow.

use proptest::prelude::*;

use super::*;
use crate::yaml::Secret;

const TEXT: &[u8] = b"data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\n\n";
const ROLE: &[u8] = b"data: {\"choices\":[{\"delta\":{\"role\":\"assistant\"}}]}\n\n";
const FINISH: &[u8] = b"data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
const ERROR: &[u8] = b"data: {\"error\":{\"message\":\"overloaded\"}}\n\n";
const OVERFLOW: &[u8] = b"data: {\"error\":{\"code\":\"context_length_exceeded\",\"message\":\"too long\"}}\n\n";
const PING: &[u8] = b": ping\n\n";
const DONE: &[u8] = b"data: [DONE]\n\n";

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A caller of an OpenAI-shaped upstream, and when the turn began.
fn caller(delivery: Delivery, change: impl FnOnce(&mut Opening)) -> (Caller, Instant) {
    let began = Instant::now();
    let mut opening = opening(&dialect("openai-chat"), true, delivery);
    change(&mut opening);
    (Caller::new(opening, began), began)
}

fn head() -> HeaderMap {
    [(http::header::CONTENT_TYPE, "text/event-stream".parse().unwrap())].into_iter().collect()
}

impl Caller {
    /// An upstream's head, and bytes, at once.
    fn hears(&mut self, bytes: &[u8], now: Instant) -> Step {
        self.wait_until(now);
        let step = self.turn.head(StatusCode::OK, &head(), now);
        assert!(matches!(step, Step::Wait));
        self.turn.chunk(bytes, now)
    }

    fn sent(&self) -> &str {
        std::str::from_utf8(&self.sent).unwrap()
    }

    fn failure(&self) -> (&str, bool) {
        let failure = self.turn.outcome().failure.as_ref().unwrap();
        (failure.code.as_str(), matches!(self.ending, Some(Ending::Refused(_))))
    }
}

#[test]
fn the_head_waits_for_the_first_event_and_ten_seconds_at_most() {
    let (mut caller, began) = caller(Delivery::Stream, |_| {});
    caller.wait_until(began + seconds(9));
    assert_eq!(caller.sent(), "");
    caller.wait_until(began + seconds(10));
    assert_eq!(caller.sent(), ": keep-alive\n");
    caller.wait_until(began + seconds(24));
    assert_eq!(caller.sent(), ": keep-alive\n");
    caller.wait_until(began + seconds(40));
    assert_eq!(caller.sent(), ": keep-alive\n".repeat(3));
    let step = caller.hears(TEXT, began + seconds(41));
    caller.take(step);
    assert!(caller.sent().starts_with(&format!("{}event: message.start\ndata: {{", ": keep-alive\n".repeat(3))));
    caller.wait_until(began + seconds(55));
    assert!(caller.sent().ends_with("\n\n"));
    caller.wait_until(began + seconds(56));
    assert!(caller.sent().ends_with("\n\n: keep-alive\n"));
}

#[test]
fn an_event_without_text_opens_the_stream_too() {
    let (mut caller, began) = caller(Delivery::Stream, |_| {});
    let step = caller.hears(ROLE, began);
    assert!(matches!(&step, Step::Write(bytes) if bytes.starts_with(b"event: message.start\n")));
}

#[test]
fn a_keep_alive_of_the_upstream_opens_nothing() {
    let (mut caller, began) = caller(Delivery::Stream, |_| {});
    assert!(matches!(caller.hears(&PING.repeat(3), began), Step::Wait));
    let step = caller.turn.chunk(ERROR, began);
    caller.take(step);
    assert_eq!(caller.failure(), ("upstream_error", true));
}

#[test]
fn the_first_event_is_found_frame_by_frame_and_not_read_by_read() {
    for (bytes, refused) in [
        ([ERROR, DONE].concat(), true),
        ([PING, ERROR].concat(), true),
        ([ROLE, ERROR].concat(), false),
        ([TEXT, ERROR].concat(), false),
    ] {
        let (mut caller, began) = caller(Delivery::Stream, |_| {});
        let step = caller.hears(&bytes, began);
        caller.take(step);
        assert_eq!(caller.failure(), ("upstream_error", refused), "{}", String::from_utf8_lossy(&bytes));
        let names: Vec<Value> = caller.frames().into_iter().map(|mut frame| frame["event"].take()).collect();
        let spoke = bytes.starts_with(TEXT);
        let expected = match (refused, spoke) {
            (true, _) => json!([]),
            (false, false) => json!(["message.start", "error", "done"]),
            (false, true) => json!(["message.start", "message.delta", "error", "done"]),
        };
        assert_eq!(Value::Array(names), expected);
    }
}

#[test]
fn after_an_early_head_every_failure_is_a_frame() {
    let (mut caller, began) = caller(Delivery::Stream, |_| {});
    caller.wait_until(began + seconds(11));
    let step = caller.turn.fail(Failure::unreachable());
    caller.take(step);
    let frames = caller.frames();
    assert_eq!(frames.len(), 3);
    assert_eq!(frames[1]["code"], "upstream_unreachable");
    assert_eq!(caller.turn.next_deadline(), None);
}

#[test]
fn a_caller_of_json_always_gets_a_status() {
    let (mut caller, began) = caller(Delivery::Json, |_| {});
    caller.wait_until(began + seconds(100));
    let step = caller.hears(TEXT, began + seconds(100));
    assert!(matches!(step, Step::Wait));
    let step = caller.turn.reset(began + seconds(101));
    caller.take(step);
    assert_eq!((caller.sent(), caller.failure()), ("", ("upstream_error", true)));
}

#[test]
fn each_timer_ends_the_turn_by_itself() {
    let timers = Timers { first_byte: seconds(50), idle: seconds(20), progress: seconds(35), total: None };
    for delivery in DELIVERIES {
        // No byte at all.
        let (mut slow, began) = caller(delivery, |opening| opening.timers = timers);
        slow.wait_until(began + seconds(49));
        assert!(slow.ending.is_none());
        slow.wait_until(began + seconds(50));
        assert_eq!(slow.failure().0, "upstream_timeout");

        // A head and then no byte.
        let (mut silent, began) = caller(delivery, |opening| opening.timers = timers);
        let step = silent.hears(TEXT, began + seconds(40));
        silent.take(step);
        silent.wait_until(began + seconds(59));
        assert!(silent.ending.is_none());
        silent.wait_until(began + seconds(60));
        assert_eq!(silent.failure(), ("upstream_timeout", delivery == Delivery::Json));

        // Bytes, but no event.
        let (mut stuck, began) = caller(delivery, |opening| opening.timers = timers);
        let step = stuck.hears(TEXT, began);
        stuck.take(step);
        for second in [10, 20, 30] {
            let now = stuck.wait_until(began + seconds(second));
            let step = stuck.turn.chunk(PING, now);
            stuck.take(step);
        }
        stuck.wait_until(began + seconds(34));
        assert!(stuck.ending.is_none());
        stuck.wait_until(began + seconds(35));
        assert_eq!(stuck.failure().0, "upstream_timeout");

        // Events all the time.
        let (mut endless, began) =
            caller(delivery, |opening| opening.timers = Timers { total: Some(seconds(60)), ..timers });
        let step = endless.hears(TEXT, began);
        endless.take(step);
        for second in (10..60).step_by(10) {
            let now = endless.wait_until(began + seconds(second));
            let step = endless.turn.chunk(TEXT, now);
            endless.take(step);
        }
        assert!(endless.ending.is_none());
        endless.wait_until(began + seconds(60));
        assert_eq!(endless.failure().0, "upstream_timeout");
    }
}

#[test]
fn bytes_that_never_stop_hide_no_timer() {
    let timers = Timers { first_byte: seconds(50), idle: seconds(20), progress: seconds(35), total: Some(seconds(60)) };
    for delivery in DELIVERIES {
        for (bytes, end) in [(PING, 35), (TEXT, 60)] {
            let (mut flooded, began) = caller(delivery, |opening| opening.timers = timers);
            let step = flooded.hears(TEXT, began);
            flooded.take(step);
            for (now, over) in [(began + seconds(end - 1), false), (began + seconds(end), true)] {
                let step = flooded.turn.chunk(bytes, now);
                flooded.take(step);
                assert_eq!(flooded.ending.is_some(), over);
            }
            assert_eq!(flooded.failure().0, "upstream_timeout");
        }

        let (mut settled, began) = caller(delivery, |opening| opening.timers = timers);
        for (bytes, now) in [(FINISH, began), (PING, began + GRACE)] {
            let step = settled.hears(bytes, now);
            settled.take(step);
        }
        assert!(settled.turn.outcome().reply.is_some());
    }
}

#[test]
fn timers_that_no_clock_can_hold_are_off() {
    let forever =
        Timers { first_byte: Duration::MAX, idle: Duration::MAX, progress: Duration::MAX, total: Some(Duration::MAX) };
    let (caller, _) = caller(Delivery::Json, |opening| opening.timers = forever);
    assert_eq!(caller.turn.next_deadline(), None);
}

#[test]
fn after_the_end_only_a_short_grace_is_waited() {
    let (mut caller, began) = caller(Delivery::Stream, |_| {});
    let step = caller.hears(&[TEXT, FINISH].concat(), began);
    caller.take(step);
    assert_eq!(caller.turn.next_deadline(), Some(began + GRACE));
    caller.wait_until(began + GRACE);
    assert_eq!(caller.frames().last().unwrap()["event"], "done");
    assert_eq!(caller.turn.outcome().reply.as_ref().unwrap().reply, "Hi");
}

#[test]
fn nothing_is_read_after_the_sentinel() {
    let (mut caller, began) = caller(Delivery::Stream, |_| {});
    let step = caller.hears(&[TEXT, DONE, TEXT, ERROR].concat(), began);
    caller.take(step);
    assert_eq!(caller.seen().reply.as_deref(), Some("Hi"));
    for step in [
        caller.turn.chunk(TEXT, began),
        caller.turn.end(began),
        caller.turn.tick(began),
        caller.turn.fail(Failure::unreachable()),
    ] {
        assert!(matches!(step, Step::Wait));
    }
}

#[test]
fn the_session_stands_in_start_and_done_and_in_the_json() {
    let session = SessionId::parse("sess_0123456789abcdef").unwrap();
    for delivery in DELIVERIES {
        let (mut caller, began) = caller(delivery, |opening| opening.session_id = Some(session.clone()));
        let step = caller.hears(&[TEXT, DONE].concat(), began);
        caller.take(step);
        if let Ending::Reply(reply) = caller.ending.as_ref().unwrap() {
            assert_eq!(reply.session_id.as_ref(), Some(&session));
        } else {
            let carry: Vec<bool> = caller.frames().iter().map(|frame| frame.get("session_id").is_some()).collect();
            assert_eq!(carry, [true, false, false, true]);
        }
    }
}

#[test]
fn an_overflow_before_any_text_is_retried_once() {
    for delivery in DELIVERIES {
        let (mut caller, began) = caller(delivery, |opening| opening.carries = Carries::History);
        let step = caller.hears(&[ROLE, OVERFLOW].concat(), began);
        assert!(matches!(step, Step::Retry(Again::WithHalfTheHistory)));
        caller.turn.again(began + seconds(1));
        let step = caller.hears(&[TEXT, DONE].concat(), began + seconds(1));
        caller.take(step);
        assert_eq!(caller.seen().reply.as_deref(), Some("Hi"));
        if delivery == Delivery::Stream {
            assert_eq!(caller.frames().len(), 4, "message.start stands once");
        }
    }
    let (mut caller, began) = caller(Delivery::Stream, |opening| opening.carries = Carries::History);
    assert!(matches!(caller.hears(OVERFLOW, began), Step::Retry(_)));
    caller.turn.again(began);
    let step = caller.hears(OVERFLOW, began);
    caller.take(step);
    assert_eq!(caller.failure(), ("upstream_error", true));
}

#[test]
fn an_overflow_is_not_retried_after_text_nor_without_history() {
    for (carries, bytes) in [
        (Carries::History, [TEXT, OVERFLOW].concat()),
        (Carries::Nothing, OVERFLOW.to_vec()),
        (Carries::Saved, OVERFLOW.to_vec()),
        (Carries::History, ERROR.to_vec()),
    ] {
        let (mut caller, began) = caller(Delivery::Stream, |opening| opening.carries = carries);
        let step = caller.hears(&bytes, began);
        caller.take(step);
        assert_eq!(caller.failure().0, "upstream_error");
    }
}

#[test]
fn a_conversation_that_the_upstream_forgot_is_begun_anew() {
    let mut opening = opening(&dialect("dify"), true, Delivery::Json);
    opening.carries = Carries::Saved;
    opening.saved.insert("conversation".into(), "cv-old".into());
    let now = Instant::now();
    let mut caller = Caller::new(opening, now);
    let step = caller.turn.head(StatusCode::NOT_FOUND, &HeaderMap::new(), now);
    caller.take(step);
    let step = caller.turn.chunk(b"{\"code\":\"not_found\",\"message\":\"Conversation Not Exists.\"}", now);
    caller.take(step);
    assert!(matches!(caller.turn.end(now), Step::Retry(Again::WithoutSaved)));
    assert!(caller.turn.saved().is_empty());
    caller.turn.again(now);
    let step = caller.hears(b"data: {\"event\":\"message\",\"answer\":\"Hi\",\"conversation_id\":\"cv-new\"}\n\ndata: {\"event\":\"message_end\"}\n\n", now);
    caller.take(step);
    caller.wait_until(now + GRACE);
    assert_eq!(caller.seen().conversation, Some(json!("cv-new")));
}

#[test]
fn a_conversation_outlives_a_turn_that_does_not_name_it_and_a_task_does_not() {
    let mut opening = opening(&dialect("a2a-1.0"), true, Delivery::Json);
    opening.saved = json!({"conversation": "x", "task": "t"}).as_object().unwrap().clone();
    let now = Instant::now();
    let mut caller = Caller::new(opening, now);
    let step = caller.hears(b"data: {\"result\":{\"message\":{\"parts\":[{\"text\":\"Hi\"}]}}}\n\n", now);
    caller.take(step);
    let step = caller.turn.end(now);
    caller.take(step);
    assert_eq!(json!(caller.turn.saved()), json!({"conversation": "x"}));
}

#[test]
fn an_upstream_that_answers_later_is_followed() {
    for delivery in DELIVERIES {
        let now = Instant::now();
        let mut caller = Caller::new(opening(&dialect("restap"), true, delivery), now);
        let step = caller.turn.head(StatusCode::ACCEPTED, &HeaderMap::new(), now);
        caller.take(step);
        let step = caller.turn.chunk(b"{\"query_id\":\"q1\",\"status\":\"processing\",\"session_id\":\"theirs\"}", now);
        caller.take(step);
        let step = caller.turn.end(now);
        caller.take(step);
        assert_eq!(caller.pending.as_deref(), Some("q1"));
        caller.wait_until(now + seconds(12));
        assert_eq!(caller.sent(), if delivery == Delivery::Stream { ": keep-alive\n" } else { "" });
        let step = caller.turn.answer("Hello", now + seconds(12));
        caller.take(step);
        assert_eq!(caller.seen().reply.as_deref(), Some("Hello"));
        assert_eq!(caller.seen().conversation, Some(json!("theirs")));
    }
    let now = Instant::now();
    let mut caller = Caller::new(opening(&dialect("restap"), true, Delivery::Stream), now);
    let step = caller.hears(b"{\"query_id\":\"q1\",\"reply\":null}", now);
    caller.take(step);
    let step = caller.turn.end(now);
    caller.take(step);
    let step = caller.turn.fail(Failure::new(ErrorCode::UpstreamError, "it failed"));
    caller.take(step);
    assert_eq!(caller.failure(), ("upstream_error", true));
}

#[test]
fn an_answer_that_needs_no_upstream_is_streamed_like_any_other() {
    let (mut caller, began) = caller(Delivery::Stream, |_| {});
    let step = caller.turn.answer("Hello", began);
    caller.take(step);
    let names: Vec<String> = caller.frames().iter().map(|frame| frame["event"].as_str().unwrap().to_owned()).collect();
    assert_eq!(names, ["message.start", "message.delta", "message.end", "done"]);
}

#[test]
fn a_reply_can_be_told_again() {
    let session = SessionId::parse("sess_0123456789abcdef").ok();
    let reply = TalkReply { reply: "Hi".into(), finish_reason: Some("length".into()), ..TalkReply::default() };
    let told = replay(&reply, "msg_1".into(), session);
    expect_test::expect![[r#"
        event: message.start
        data: {"event":"message.start","id":"msg_1","session_id":"sess_0123456789abcdef"}

        event: message.delta
        data: {"event":"message.delta","id":"msg_1","text":"Hi"}

        event: message.end
        data: {"event":"message.end","id":"msg_1","finish_reason":"length"}

        event: done
        data: {"event":"done","session_id":"sess_0123456789abcdef"}

    "#]]
    .assert_eq(std::str::from_utf8(&told).unwrap());
}

#[test]
fn a_credential_that_an_upstream_repeats_is_not_told() {
    let (mut caller, began) = caller(Delivery::Json, |opening| opening.credential = Some(Secret::new("sk-secret")));
    let step = caller.hears(b"data: {\"error\":\"bad key sk-secret\"}\n\n", began);
    caller.take(step);
    assert!(!caller.turn.outcome().failure.as_ref().unwrap().message.contains("sk-secret"));
}

#[test]
fn a_reply_over_the_limit_fails_after_what_was_said() {
    for (streamed, dialect_name) in [(true, "openai-chat"), (false, "json"), (true, "text")] {
        let mut opening = opening(&dialect(dialect_name), streamed, Delivery::Stream);
        opening.reply_limit = 100;
        let now = Instant::now();
        let mut caller = Caller::new(opening, now);
        let mut step = caller.hears(b"", now);
        for _ in 0..60 {
            caller.take(step);
            if caller.ending.is_some() {
                break;
            }
            step = caller.turn.chunk(if dialect_name == "json" { b"{\"reply\":\"" } else { TEXT }, now);
        }
        let failure = caller.turn.outcome().failure.as_ref().unwrap();
        assert!(failure.message.ends_with("larger than 100 bytes"), "{failure}");
    }
}

/// Bytes that look like a reply more often than chance would have it.
fn reply() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        Just(TEXT.to_vec()),
        Just(ROLE.to_vec()),
        Just(FINISH.to_vec()),
        Just(DONE.to_vec()),
        Just(b"{\"message\":{\"content\":\"a\\ud83d\"},\"done\":false}\n".to_vec()),
        Just(b"{\"type\":\"item\",\"content\":\"x\",\"response\":\"y\"}".to_vec()),
        Just(b"event: message.delta\ndata: {\"text\":\"Hi\"}\n\n".to_vec()),
        Just(b"data: {\"event\":\"token\",\"data\":\"".to_vec()),
        Just(b"[{\"text\":\"a\"},".to_vec()),
        Just(b"<html>".to_vec()),
        "[\\[\\]{}\",:a1\\\\ \n]{0,12}".prop_map(String::into_bytes),
        prop::collection::vec(any::<u8>(), 0..20),
    ];
    prop::collection::vec(part, 0..8).prop_map(|parts| parts.concat())
}

fn packed(coding: &str, body: &[u8]) -> Vec<u8> {
    use std::io::Write as _;
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let mut deflate = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    match coding {
        "gzip" => gzip.write_all(body).and_then(|()| gzip.finish()).unwrap(),
        "deflate" => deflate.write_all(body).and_then(|()| deflate.finish()).unwrap(),
        _ => body.to_vec(),
    }
}

proptest! {
    #[test]
    fn whatever_an_upstream_sends_the_caller_sees_one_whole_answer(
        body in reply(),
        size in 1usize..50,
        name in prop::sample::select(Dialect::names().collect::<Vec<_>>()),
        streamed in any::<bool>(),
        coding in prop::sample::select(vec!["", "gzip", "deflate"]),
        clean in any::<bool>(),
    ) {
        let dialect = dialect(name);
        let now = Instant::now();
        let body = packed(coding, &body);
        let run = |size: usize, delivery: Delivery| {
            let mut caller = Caller::new(opening(&dialect, streamed, delivery), now);
            let mut headers = head();
            headers.insert("content-encoding", coding.parse().unwrap());
            let step = caller.turn.head(StatusCode::OK, &headers, now);
            caller.take(step);
            for chunk in body.chunks(size) {
                let step = caller.turn.chunk(chunk, now);
                caller.take(step);
            }
            let step = if clean { caller.turn.end(now) } else { caller.turn.reset(now) };
            caller.take(step);
            if caller.pending.is_some() && caller.ending.is_none() {
                let step = caller.turn.answer("later", now);
                caller.take(step);
            }
            caller.seen()
        };
        let whole = run(usize::MAX, Delivery::Stream);
        prop_assert_eq!(&run(size, Delivery::Stream), &whole);
        let names: Vec<&str> = whole.frames.iter().map(|frame| frame["event"].as_str().unwrap()).collect();
        prop_assert!(whole.refused.is_some() == names.is_empty());
        prop_assert!(names.is_empty() || names.starts_with(&["message.start"]));
        prop_assert!(names.is_empty() || names.ends_with(&["message.end", "done"]) || names.ends_with(&["error", "done"]));
        prop_assert_eq!(run(size, Delivery::Json).reply, whole.reply);
    }
}

#[test]
fn a_compressed_bomb_is_refused() {
    let (mut caller, began) = caller(Delivery::Stream, |_| {});
    let mut headers = head();
    headers.insert("content-encoding", "gzip".parse().unwrap());
    let step = caller.turn.head(StatusCode::OK, &headers, began);
    caller.take(step);
    let step = caller.turn.chunk(&packed("gzip", &b"data: {}\n\n".repeat(1 << 20)), began);
    caller.take(step);
    assert!(caller.turn.outcome().failure.as_ref().unwrap().message.contains("larger than"));
}

#[test]
fn what_an_upstream_counts_is_bounded() {
    let (mut caller, began) = caller(Delivery::Json, |_| {});
    let step = caller.hears(TEXT, began);
    caller.take(step);
    for number in 0..100 {
        let frame = format!("data: {{\"usage\":{{\"k{number}\":1,\"total\":{number}}}}}\n\n");
        let step = caller.turn.chunk(frame.as_bytes(), began);
        caller.take(step);
    }
    let step = caller.turn.chunk(DONE, began);
    caller.take(step);
    let usage = caller.turn.outcome().reply.as_ref().unwrap().usage.clone().unwrap();
    assert_eq!((usage.as_object().unwrap().len(), &usage["total"]), (64, &json!(99)));
}
