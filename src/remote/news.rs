//! Pages of an agent's news, in the shapes that are served.

use serde_json::{Map, Value};

use crate::restap::NewsDraft;

/// Items of a page that are looked at.
const ITEMS_MAX: usize = 1_000;

/// Bytes of an item; a larger one is left out.
const ITEM_BYTES_MAX: usize = 1 << 20;

/// Characters of an id.
const ID_MAX: usize = 256;

/// How an id of ours begins. Those of everybody else are told apart by whose they are.
const OWN_ID: &str = "news_";

/// One page, oldest items first.
#[derive(Debug, Clone, PartialEq)]
pub struct NewsPage {
    /// Each with the time that the agent gives it, 0 where it gives none.
    pub items: Vec<(u64, NewsDraft)>,
    /// Whether the agent says that there are more, or can't say it.
    pub more: bool,
}

/// Reads a page of the news of this agent; `None` where it is none.
pub fn news(agent: &str, bytes: &[u8]) -> Option<NewsPage> {
    let page: Value = serde_json::from_slice(bytes).ok()?;
    let list = match &page {
        Value::Array(list) => list,
        page => page.get("items").or(page.get("news"))?.as_array()?,
    };
    let mut items: Vec<_> = list.iter().take(ITEMS_MAX).filter_map(|item| draft(agent, item.as_object()?)).collect();
    // Some show the newest first.
    items.sort_by_key(|(timestamp, _)| *timestamp);
    let more = page.get("more").and_then(Value::as_bool).unwrap_or(false);
    Some(NewsPage { items, more })
}

fn draft(agent: &str, item: &Map<String, Value>) -> Option<(u64, NewsDraft)> {
    let written = serde_json::to_vec(item).ok().filter(|written| written.len() <= ITEM_BYTES_MAX)?;
    let text = |key: &str| item.get(key).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned);
    let data = item.get("data").or(item.get("payload")).filter(|data| !data.is_null());
    let of_data = |key: &str| data?.get(key)?.as_str().map(str::to_owned);
    let legal = |id: &str| id.len() <= ID_MAX && id.bytes().all(|byte| byte.is_ascii_graphic());
    let id = match item.get("id").or(item.get("news_id")) {
        Some(Value::String(id)) if legal(id) && !id.is_empty() => Some(id.clone()),
        Some(Value::Number(id)) => Some(id.to_string()),
        _ => None,
    };
    let origin = text("origin").filter(|origin| legal(origin));
    let origin = origin.or_else(|| id.clone().filter(|id| id.starts_with(OWN_ID))).unwrap_or_else(|| {
        let which = id.map_or(written, String::into_bytes);
        let whole = [agent.as_bytes(), b"\n", &which].concat();
        blake3::hash(&whole).to_hex().chars().take(32).collect()
    });
    let timestamp = item.get("timestamp").or(item.get("created_at")).and_then(Value::as_f64).unwrap_or_default();
    let draft = NewsDraft {
        kind: text("type").unwrap_or_else(|| "message".to_owned()),
        message: text("message").or_else(|| of_data("message")).unwrap_or_default(),
        from: text("from"),
        in_reply_to: text("in_reply_to"),
        job_id: text("job_id"),
        query_id: text("query_id"),
        data: data.cloned(),
        origin: Some(origin),
    };
    Some((if timestamp.is_finite() && timestamp > 0.0 { timestamp as u64 } else { 0 }, draft))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn page(page: &Value) -> NewsPage {
        news("http://h", page.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn items_of_every_shape_are_in_the_order_of_their_times() {
        let page = page(&json!({"items": [
            {"id": 7, "type": "b", "timestamp": 20, "data": {"message": "in data"}},
            {"id": "x", "timestamp": 10.0, "message": "m", "from": 3},
            {"id": "y", "received_at": "2026", "payload": {"a": 1}},
            "nonsense", {"type": "t", "timestamp": -5}
        ], "more": true}));
        let shown: Vec<_> =
            page.items.iter().map(|(time, it)| (*time, it.kind.as_str(), it.message.as_str())).collect();
        assert_eq!(shown, [(0, "message", ""), (0, "t", ""), (10, "message", "m"), (20, "b", "in data")]);
        assert!(page.more && page.items[2].1.from.is_none() && page.items[0].1.data == Some(json!({"a": 1})));
    }

    #[test]
    fn an_item_is_known_by_where_it_was_first() {
        let origin = |agent: &str, item: Value| {
            let page = news(agent, json!([item]).to_string().as_bytes()).unwrap();
            page.items[0].1.origin.clone().unwrap()
        };
        let ours = "news_0000000000000500000001000000000002";
        assert_eq!(origin("http://a", json!({"id": ours})), ours);
        assert_eq!(origin("http://a", json!({"id": "news_b", "origin": ours})), ours);
        let one = origin("http://a", json!({"id": 1, "timestamp": 1}));
        assert_eq!(one, origin("http://a", json!({"id": 1, "timestamp": 2})));
        assert!(one != origin("http://b", json!({"id": 1})) && one != origin("http://a", json!({"id": 2})));
        assert!(origin("http://a", json!({"message": "a"})) != origin("http://a", json!({"message": "b"})));
        assert_ne!(origin("http://a", json!({"id": 1, "origin": "not\nlegal"})), "not\nlegal");
    }

    #[test]
    fn what_is_no_page_is_none() {
        for text in ["", "<html>", "{}", "{\"items\":1}", "null", "{\"items\":{\"a\":1}}"] {
            assert_eq!(news("http://h", text.as_bytes()), None, "{text}");
        }
        let large = json!({"items": [{"message": "x".repeat(ITEM_BYTES_MAX)}]});
        assert_eq!(page(&large).items.len(), 0);
        let many: Vec<_> = (0..5_000).map(|id| json!({"id": id})).collect();
        assert_eq!(page(&json!({"items": many})).items.len(), ITEMS_MAX);
    }
}
