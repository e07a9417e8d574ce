//! Following a RESTAP upstream that answers later: what its `/query/{id}` and its `/news` say about a query.

use std::time::Duration;

use serde_json::Value;

/// The first and the longest pause between two looks.
const PAUSE_MIN: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// Where a query stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Followed {
    /// There is no answer yet.
    Processing,
    /// The text of the reply.
    Completed(String),
    /// What the upstream says about its failure.
    Failed(String),
}

/// The pause after so many looks: 0.2 s rising to 2 s.
pub fn pause(looks: u32) -> Duration {
    PAUSE_MIN.saturating_mul(2u32.saturating_pow(looks)).min(PAUSE_MAX)
}

/// What a body of `GET /query/{id}` says.
pub fn query(body: &Value) -> Followed {
    match body.get("status").and_then(Value::as_str) {
        Some("completed") => Followed::Completed(text(body.get("result"), body.get("message"))),
        Some("failed" | "cancelled" | "canceled") => Followed::Failed(reason(body, body)),
        _ => Followed::Processing,
    }
}

/// What a page of `GET /news` says about a query.
pub fn news(page: &Value, query_id: &str) -> Followed {
    let items = page.get("items").and_then(Value::as_array);
    let answers = items.into_iter().flatten().filter(|item| is_about(item, query_id)).map(|item| {
        let data = item.get("data").unwrap_or(&Value::Null);
        match item.get("type").and_then(Value::as_str) {
            Some("query.completed") => Followed::Completed(text(data.get("result"), item.get("message"))),
            Some("reply") => Followed::Completed(text(None, item.get("message"))),
            Some("query.failed" | "query.cancelled" | "reply.error") => Followed::Failed(reason(data, item)),
            _ => Followed::Processing,
        }
    });
    answers.into_iter().find(|answer| *answer != Followed::Processing).unwrap_or(Followed::Processing)
}

fn is_about(item: &Value, query_id: &str) -> bool {
    ["/query_id", "/in_reply_to", "/data/query_id", "/data/in_reply_to"]
        .iter()
        .any(|place| item.pointer(place).and_then(Value::as_str) == Some(query_id))
}

/// `result.result`, else a `result` that is a text, else the message.
fn text(result: Option<&Value>, message: Option<&Value>) -> String {
    let inner = result.and_then(|result| result.get("result")).and_then(Value::as_str);
    let own = result.and_then(Value::as_str);
    inner.or(own).or(message.and_then(Value::as_str)).unwrap_or_default().to_owned()
}

fn reason(data: &Value, item: &Value) -> String {
    let reason = [data.get("error"), item.get("message"), item.get("error")];
    let reason = reason.into_iter().flatten().find_map(Value::as_str);
    reason.unwrap_or("it gives no reason").to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_text_of_a_query_is_found_wherever_it_stands() {
        for (body, text) in [
            (json!({"status": "completed", "result": {"result": "Hi", "sessionId": "s"}, "message": "other"}), "Hi"),
            (json!({"status": "completed", "result": "Hi", "message": "other"}), "Hi"),
            (json!({"status": "completed", "result": {"a": 1}, "message": "Hi"}), "Hi"),
            (json!({"status": "completed"}), ""),
        ] {
            assert_eq!(query(&body), Followed::Completed(text.into()), "{body}");
        }
        assert_eq!(query(&json!({"status": "failed", "error": "no model"})), Followed::Failed("no model".into()));
        for body in [json!({"status": "processing"}), json!({"status": "pending"}), json!({}), json!([])] {
            assert_eq!(query(&body), Followed::Processing);
        }
    }

    #[test]
    fn only_items_about_the_query_count_in_a_feed() {
        let page = json!({"items": [
            {"type": "query.completed", "query_id": "other", "message": "no"},
            {"type": "query.received", "query_id": "q1", "message": "no"},
            {"type": "query.completed", "query_id": "q1", "data": {"result": {"result": "Hi"}}},
        ]});
        assert_eq!(news(&page, "q1"), Followed::Completed("Hi".into()));
        assert_eq!(news(&page, "q2"), Followed::Processing);
        let reply = json!({"items": [{"type": "reply", "in_reply_to": "q1", "message": "Hi"}]});
        assert_eq!(news(&reply, "q1"), Followed::Completed("Hi".into()));
        let failed = json!({"items": [{"type": "query.failed", "data": {"query_id": "q1", "error": "no model"}, "message": "failed"}]});
        assert_eq!(news(&failed, "q1"), Followed::Failed("no model".into()));
        assert_eq!(news(&json!({"items": "none"}), "q1"), Followed::Processing);
    }

    #[test]
    fn the_pause_rises_from_a_fifth_of_a_second_to_two() {
        let pauses: Vec<u128> = (0..6).map(|looks| pause(looks).as_millis()).collect();
        assert_eq!(pauses, [200, 400, 800, 1600, 2000, 2000]);
        assert_eq!(pause(u32::MAX), PAUSE_MAX);
    }
}
