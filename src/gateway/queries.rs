//! How a query ends: the answer at `/query/{id}`, and the item of news that says so.

use serde_json::{Map, Value, json, value::RawValue};
use tracing::warn;

use super::Gateway;
use super::error::Refusal;
use super::live::Agent;
use crate::restap::talk::TalkReply;
use crate::restap::{ErrorCode, NewsDraft};
use crate::store::{Lease, Query, StoreError};

/// The type of the item of a query that was answered.
pub(super) const COMPLETED: &str = "query.completed";

/// What became of a query.
pub(super) type Ended = Result<Box<TalkReply>, Refusal>;

/// The query of this id. One whose runner is gone is stored as failed by whoever finds it, which is here.
pub(super) async fn find(gateway: &Gateway, agent: &Agent, id: &str) -> Result<Option<Query>, StoreError> {
    match gateway.store.query(agent.id, id).await? {
        Some(query) if query.answer.is_none() => fail_if_lost(gateway, query).await.map(Some),
        found => Ok(found),
    }
}

/// Stores how a query ended. It is read again first: what was accepted is a version behind what is stored.
pub(super) async fn finish(gateway: &Gateway, query: &Query, ended: &Ended, lease: Lease) -> Result<(), StoreError> {
    let mut query = gateway.store.query(query.agent, &query.id).await?.ok_or(StoreError::Conflict)?;
    let item = conclude(&mut query, ended);
    gateway.store.finish_query(&query, &item, lease).await
}

async fn fail_if_lost(gateway: &Gateway, query: Query) -> Result<Query, StoreError> {
    let store = &gateway.store;
    let Some(lease) = store.acquire(store.keys().query_lease(store.keys().query(&query.id))).await? else {
        return Ok(query);
    };
    // Its runner may have finished just before its lease ended, so this is read under ours.
    let mut query = store.query(query.agent, &query.id).await?.unwrap_or(query);
    if query.answer.is_some() {
        store.release(lease).await?;
        return Ok(query);
    }
    let message = "the gateway that ran this query has stopped; send the talk again";
    let item = conclude(&mut query, &Err(Refusal::new(ErrorCode::ShuttingDown, message)));
    if let Err(error) = store.finish_query(&query, &item, lease).await {
        // A store that takes nothing can still be read, and the query has failed all the same.
        warn!("a query that was lost could not be stored as failed: {error}");
        store.release(lease).await?;
    }
    Ok(query)
}

/// Writes the answer into the query, and as the item that says so.
fn conclude(query: &mut Query, ended: &Ended) -> NewsDraft {
    let mut data = Map::from_iter([("query_id".to_owned(), json!(query.id))]);
    let caller_query_id = query.caller_query_id.as_ref();
    data.extend(caller_query_id.map(|id| ("caller_query_id".to_owned(), json!(id))));
    let (kind, message, answer) = match ended {
        Ok(reply) => {
            // The store adds the session where a reader may see it.
            data.insert("result".to_owned(), json!({"result": reply.reply}));
            let answer = json!({"status": "completed", "message": reply.reply, "result": {"result": reply.reply}});
            (COMPLETED, reply.reply.clone(), answer)
        }
        Err(refusal) => {
            data.insert("error".to_owned(), json!(refusal.message));
            data.insert("code".to_owned(), json!(refusal.code));
            let answer = json!({"status": "failed", "error": refusal.message, "code": refusal.code});
            ("query.failed", refusal.message.to_string(), answer)
        }
    };
    query.answer = RawValue::from_string(answer.to_string()).ok();
    NewsDraft {
        kind: kind.to_owned(),
        message,
        query_id: Some(query.id.clone()),
        in_reply_to: Some(query.id.clone()),
        data: Some(Value::Object(data)),
        ..NewsDraft::default()
    }
}
