//! A RESTAP agent behind the gateway that answers later is followed: its query, else its news.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method};
use serde_json::Value;

use crate::net::{self, Bounds, Coding, Timeouts};
use crate::restap::{ErrorCode, hop_count};
use crate::talk::Failure;
use crate::upstream::Upstream;

/// Between two questions: it begins so, and rises by half each time up to the most.
const EVERY_MIN: Duration = Duration::from_millis(200);
const EVERY_MAX: Duration = Duration::from_secs(2);

/// For one question.
const BOUNDS: Bounds = Bounds { bytes: 8 << 20, time: Duration::from_secs(30) };

/// Asks until the answer is there. It has no end of its own: the turn's progress timer is.
pub(super) async fn follow(upstream: Arc<Upstream>, query_id: String, hops: HeaderValue) -> Result<String, Failure> {
    let id = percent_encoding::utf8_percent_encode(&query_id, percent_encoding::NON_ALPHANUMERIC).to_string();
    let query = format!("/query/{id}");
    let news = format!("/news?since=0&limit=1000&query_id={id}");
    let mut every = EVERY_MIN;
    loop {
        tokio::time::sleep(every).await;
        every = (every * 3 / 2).min(EVERY_MAX);
        let mut answers = Vec::new();
        match ask(&upstream, &query, &hops).await {
            Some(answer) => answers.push(answer),
            None => {
                let items = ask(&upstream, &news, &hops).await;
                answers.extend(
                    items.as_ref().and_then(|page| page.get("items")?.as_array()).into_iter().flatten().cloned(),
                );
            }
        }
        if let Some(outcome) = answers.iter().find_map(|answer| read(answer, &query_id)) {
            return outcome;
        }
    }
}

/// One question; `None` where the agent has no such path, or fails for the moment.
async fn ask(upstream: &Upstream, path: &str, hops: &HeaderValue) -> Option<Value> {
    let mut headers = HeaderMap::from_iter([(hop_count::HEADER, hops.clone())]);
    upstream.set_headers(&mut headers);
    let request = net::Request {
        method: Method::GET,
        target: upstream.target(path).ok()?,
        headers,
        body: Bytes::new(),
        coding: Coding::Decoded,
        timeouts: Timeouts::default(),
    };
    let document = upstream.fetch(request, BOUNDS).await.ok()?;
    document.status.is_success().then(|| serde_json::from_slice(&document.body).ok())?
}

/// The outcome, if this is the query's state or an item that ends it.
fn read(answer: &Value, query_id: &str) -> Option<Result<String, Failure>> {
    let text = |pointer: &str| answer.pointer(pointer).and_then(Value::as_str);
    let names = |pointer: &str| text(pointer) == Some(query_id);
    let kind = text("/type");
    let ended = match (kind, text("/status")) {
        (Some("reply"), _) => names("/in_reply_to"),
        (Some("query.completed"), _) => names("/query_id") || names("/data/query_id") || names("/in_reply_to"),
        (Some("query.failed"), _) if names("/query_id") || names("/data/query_id") || names("/in_reply_to") => {
            return Some(Err(failed(text("/data/error").or(text("/message")))));
        }
        (None, Some("completed")) => true,
        (None, Some("failed")) => return Some(Err(failed(text("/error").or(text("/message"))))),
        _ => false,
    };
    let places = ["/result/result", "/data/result/result", "/result", "/data/result", "/message"];
    ended.then(|| Ok(places.into_iter().find_map(text).unwrap_or_default().to_owned()))
}

fn failed(message: Option<&str>) -> Failure {
    let message = message.unwrap_or("the agent behind the gateway could not answer");
    Failure::new(ErrorCode::UpstreamError, message.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_text_is_found_where_agents_put_it() {
        for answer in [
            json!({"id": "q", "query_id": "q", "status": "completed", "message": "m", "result": {"result": "text"}}),
            json!({"query_id": "q", "status": "completed", "result": "text"}),
            json!({"query_id": "q", "status": "completed", "message": "text"}),
            json!({"type": "query.completed", "data": {"query_id": "q", "result": {"result": "text"}}, "message": "m"}),
            json!({"type": "reply", "in_reply_to": "q", "message": "text"}),
        ] {
            assert_eq!(read(&answer, "q").unwrap().unwrap(), "text", "{answer}");
        }
    }

    #[test]
    fn other_items_and_states_are_waited_past() {
        for answer in [
            json!({"query_id": "q", "status": "processing"}),
            json!({"type": "reply", "in_reply_to": "other", "message": "text"}),
            json!({"type": "note", "query_id": "q", "message": "text"}),
            json!({"type": "query.completed", "query_id": "other", "message": "text"}),
        ] {
            assert!(read(&answer, "q").is_none(), "{answer}");
        }
        let failed = json!({"type": "query.failed", "query_id": "q", "data": {"error": "no"}});
        assert_eq!(read(&failed, "q").unwrap().unwrap_err().message, "no");
    }
}
