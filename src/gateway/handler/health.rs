//! `GET {base}/health`: the agent is here. No service is asked.

use pingora::proxy::Session;
use serde_json::json;

use crate::gateway::ctx::RequestCtx;
use crate::gateway::live::Agent;
use crate::gateway::respond::{self, Answer, Failed};
use crate::store::{Clock, SystemClock};

pub(in crate::gateway) async fn answer(
    session: &mut Session,
    ctx: &mut RequestCtx,
    agent: &Agent,
) -> Result<(), Failed> {
    let health = json!({
        "status": "ok",
        "timestamp": SystemClock.unix_ms(),
        "agent": agent.name,
        "version": agent.version,
    });
    respond::send(session, ctx, Answer::json(health.to_string())).await
}
