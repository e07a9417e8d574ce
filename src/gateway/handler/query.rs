//! `GET {base}/query/{id}`: how a talk that is answered later stands. Whoever knows the id may ask.

use pingora::proxy::Session;
use serde_json::{Map, Value, json};

use crate::gateway::ctx::RequestCtx;
use crate::gateway::error::Refusal;
use crate::gateway::live::Agent;
use crate::gateway::respond::{self, Answer, Failed};
use crate::gateway::{Gateway, queries};
use crate::restap::ErrorCode;

/// Where queries are.
pub(in crate::gateway) const QUERIES: &str = "/query/";

pub(in crate::gateway) async fn answer(
    gateway: &Gateway,
    session: &mut Session,
    ctx: &mut RequestCtx,
    (agent, path): (&Agent, &str),
) -> Result<(), Failed> {
    let id = path.strip_prefix(QUERIES).unwrap_or_default();
    let query = queries::find(gateway, agent, id).await?.ok_or_else(unknown)?;
    let mut shown = Map::from_iter([("id".to_owned(), json!(query.id)), ("query_id".to_owned(), json!(query.id))]);
    match &query.answer {
        Some(answer) => {
            let answer: Map<String, Value> = serde_json::from_str(answer.get()).map_err(|_| Refusal::internal())?;
            shown.extend(answer);
        }
        None => drop(shown.insert("status".to_owned(), json!("processing"))),
    }
    if let Some(session_id) = &query.session {
        shown.insert("session_id".to_owned(), json!(session_id.expose()));
        if let Some(result) = shown.get_mut("result").and_then(Value::as_object_mut) {
            result.insert("sessionId".into(), json!(session_id.expose()));
        }
    }
    respond::send(session, ctx, Answer::json(Value::Object(shown).to_string())).await
}

fn unknown() -> Refusal {
    Refusal::new(ErrorCode::NotFound, "there is no such query; its id stands in the answer 202 of the talk")
}
