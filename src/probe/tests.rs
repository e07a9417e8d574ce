use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn came(status: u16, body: &impl ToString) -> Reply {
    let content_type = "application/json".to_owned();
    Reply::Came(Answer { status, content_type, body: body.to_string().into_bytes(), flaw: None })
}

fn streamed(body: &str) -> Reply {
    let content_type = "text/event-stream".to_owned();
    Reply::Came(Answer { status: 200, content_type, body: body.into(), flaw: None })
}

fn outcome(report: &Report, rule: &str) -> Outcome {
    report.entries().find(|entry| entry.rule.id == rule).unwrap().outcome
}

#[test]
fn ids_are_unique_and_grouped() {
    let mut seen = std::collections::HashSet::new();
    for rule in ALL {
        assert!(seen.insert(rule.id), "{} stands twice", rule.id);
        assert!(rule.id.split_once('.').is_some_and(|(group, name)| !group.is_empty() && !name.is_empty()));
    }
}

#[test]
fn a_server_that_offers_nothing_but_a_catalog_breaks_nothing() {
    let catalog = json!({"restap_version": "1.0", "agent": {"name": "A"}, "capabilities": []});
    let mut seen = Seen { is_private: true, catalog: came(200, &catalog), ..Seen::default() };
    seen.talk.whole = came(404, &"{}");
    seen.news.bare = came(404, &"{}");
    let report = judge(&seen);
    assert!(report.passed(true), "{:?}", report.entries().collect::<Vec<_>>());
    assert_eq!(outcome(&report, "talk.served"), Outcome::NotOffered);
    assert_eq!(outcome(&report, "news.read"), Outcome::NotOffered);
}

#[test]
fn what_is_withheld_is_skipped_and_a_withheld_catalog_is_no_pass() {
    let catalog = json!({"restap_version": "1.0", "agent": {"name": "A"}, "capabilities": [
        {"id": "talk", "method": "POST", "endpoint": "/talk"}]});
    for status in [401, 403, 429, 503] {
        let mut seen = Seen { is_private: true, catalog: came(200, &catalog), ..Seen::default() };
        seen.talk.whole = came(status, &"{}");
        seen.news.bare = came(status, &"{}");
        let report = judge(&seen);
        assert!(report.passed(true), "{status}: {:?}", report.entries().collect::<Vec<_>>());
        assert_eq!(outcome(&report, "talk.served"), Outcome::Skipped);
        let report = judge(&Seen { catalog: came(status, &"{}"), ..Seen::default() });
        assert!(!report.passed(false) && !report.is_judged());
    }
}

#[test]
fn catalogs_of_the_wild_are_read_and_judged_without_a_guess() {
    // Capabilities as an object of booleans, endpoints as objects, another key for the version.
    let mogs = json!({"restap": "1.0", "name": "M", "endpoints": {"talk": {"method": "POST", "url": "/t"},
        "news": {"read": {}, "publish": {}}}, "capabilities": {"talk": true}});
    let offers = Offers::of(Some(&mogs));
    assert!(offers.talk && offers.news_read && !offers.news_post);
    let report = judge(&Seen { catalog: came(200, &mogs), ..Seen::default() });
    assert_eq!(outcome(&report, "catalog.capabilities"), Outcome::Broken);
    assert_eq!(outcome(&report, "catalog.version"), Outcome::Warning);
    // An answer that comes later is an answer.
    let mut seen = Seen { catalog: came(200, &json!({"capabilities": ["talk"]})), ..Seen::default() };
    seen.talk.whole = came(202, &json!({"query_id": "q1", "status": "processing"}));
    assert_eq!(outcome(&judge(&seen), "talk.reply"), Outcome::Held);
    // Frames without `event` inside, and a note of progress before the message.
    seen.talk.streamed = streamed(
        "event: status\ndata: {}\n\nevent: message.start\ndata: {\"id\":\"a\"}\n\nevent: message.delta\n\
         data: {\"id\":\"a\",\"text\":\"t\"}\n\nevent: message.end\ndata: {\"id\":\"a\"}\n\nevent: done\ndata: {}\n\n",
    );
    let report = judge(&seen);
    let broken: Vec<_> = report.entries().filter(|entry| entry.rule.id.starts_with("stream.")).collect();
    assert!(
        broken.iter().all(|it| matches!(it.outcome, Outcome::Held | Outcome::NotOffered | Outcome::Skipped)),
        "{broken:?}"
    );
}

#[test]
fn an_agent_that_fails_in_its_stream_breaks_nothing_by_that() {
    let mut seen = Seen { catalog: came(200, &json!({})), ..Seen::default() };
    seen.talk.whole = came(200, &json!({"reply": "hi"}));
    seen.talk.streamed = streamed(
        "event: message.start\ndata: {\"id\":\"a\"}\n\nevent: error\ndata: {\"message\":\"no\"}\n\nevent: done\ndata: {}\n\n",
    );
    let report = judge(&seen);
    for rule in ["stream.start", "stream.error", "stream.done"] {
        assert_eq!(outcome(&report, rule), Outcome::Held, "{rule}");
    }
    for rule in ["stream.delta", "stream.end"] {
        assert_eq!(outcome(&report, rule), Outcome::Skipped, "{rule}");
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z/{}:._]{0,8}".prop_map(Value::from),
    ];
    let key = prop_oneof![
        Just("capabilities"),
        Just("id"),
        Just("endpoint"),
        Just("method"),
        Just("streaming"),
        Just("sessions"),
        Just("events"),
        Just("input_schema"),
        Just("packages"),
        Just("protocols"),
        Just("items"),
        Just("timestamp"),
        Just("session_id"),
        Just("reply"),
        Just("error"),
        Just("endpoints"),
    ];
    leaf.prop_recursive(4, 48, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key.clone(), inner), 0..5)
                .prop_map(|it| it.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<Value>()),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn whatever_answers_hold_every_rule_ends_somehow(
        catalog in any_json(), talk in any_json(), news in any_json(), stream in "(event: [a-z.]{0,12}\n|data: [{}\":a-z]{0,12}\n|\n){0,12}"
    ) {
        let mut seen = Seen { catalog: came(200, &catalog), ..Seen::default() };
        seen.talk.whole = came(200, &talk);
        seen.talk.empty = came(400, &talk);
        seen.talk.streamed = streamed(&stream);
        seen.news.bare = came(200, &news);
        seen.news.after = came(200, &news);
        seen.news.posted = came(200, &news);
        let report = judge(&seen);
        prop_assert_eq!(report.entries().count(), ALL.len());
    }
}
