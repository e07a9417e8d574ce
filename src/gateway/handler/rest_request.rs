//! `/rest_request` on the agent's own listener: a call of the tool, or what a model is told of it.

use std::fmt::Write;

use http::Method;
use pingora::proxy::Session;
use serde_json::{Map, Value};
use tracing::info;

use crate::egress::{Audit, Outcome, Tool, definition};
use crate::gateway::ctx::RequestCtx;
use crate::gateway::error::Refusal;
use crate::gateway::live::Agent;
use crate::gateway::respond::{self, Answer, Failed};
use crate::gateway::{Gateway, body, fields};
use crate::restap::{ErrorCode, HopCount};

/// Bytes of a call: the largest body that the tool sends, each of its bytes escaped, and as much again for the rest.
const CALL_MAX: u64 = 8 << 20;

pub(in crate::gateway) async fn answer(
    gateway: &Gateway,
    session: &mut Session,
    ctx: &mut RequestCtx,
    agent: &Agent,
) -> Result<(), Failed> {
    let tool = agent.tool.as_ref().ok_or_else(Refusal::internal)?;
    if session.req_header().method != Method::POST {
        return respond::send(session, ctx, Answer::json(definition::definition().to_string())).await;
    }
    fields::require_json(&session.req_header().headers)?;
    let loops = HopCount::read(&session.req_header().headers)?;
    let body = body::read(session, ctx, CALL_MAX, ctx.live.limits.body_timeout).await?;
    let arguments: Map<String, Value> = serde_json::from_slice(&body).map_err(|_| {
        let message = "the body must be a JSON object such as {\"method\": \"GET\", \"url\": \"https://example.com/\"}";
        Refusal::new(ErrorCode::InvalidJson, message)
    })?;
    let mut cut = gateway.drain.cut();
    let outcome = tokio::select! {
        outcome = call(tool, &arguments, &loops) => outcome,
        _ = cut.wait_for(|cut| *cut) => return Err(Refusal::shutting_down().into()),
        _ = session.downstream_session.read_body_or_idle(true) => return Err(respond::gone()),
    };
    note(gateway, ctx, agent, &outcome.audit);
    respond::send(session, ctx, Answer::json(outcome.result.to_string())).await
}

async fn call(tool: &Tool, arguments: &Map<String, Value>, loops: &HopCount) -> Outcome {
    Box::pin(tool.call(arguments, loops)).await
}

/// Counts the call and says where it led. Of a URL the origin alone is told: its path may be a secret.
fn note(gateway: &Gateway, ctx: &mut RequestCtx, agent: &Agent, audit: &Audit) {
    let signed = matches!(audit.signed, Some(Ok(_)));
    let outcome = match (audit.refused, audit.status) {
        (Some(code), _) => code.as_str(),
        (None, Some(200..=299)) => "2xx",
        (None, Some(300..=399)) => "3xx",
        (None, Some(400..=499)) => "4xx",
        (None, _) => "5xx",
    };
    gateway.metrics.rest_request(&agent.key, outcome, signed);
    if let Some(last) = audit.hops.last() {
        ctx.upstream = Some(last.origin.as_str().into());
    }
    let mut hops = String::new();
    for hop in &audit.hops {
        let separator = if hops.is_empty() { "" } else { " > " };
        // Writing into a String does not fail.
        let _ = write!(hops, "{separator}{} ({})", hop.origin, hop.address.as_deref().unwrap_or("not called"));
    }
    let signature = match &audit.signed {
        Some(Ok(agent)) => format!("as {agent}"),
        Some(Err(reason)) => format!("no: {reason}"),
        None => "no: nothing was sent".to_owned(),
    };
    info!(
        agent = &*agent.key,
        method = audit.method.as_ref().map(Method::as_str),
        hops,
        status = audit.status,
        refused = audit.refused.map(crate::egress::Code::as_str),
        signed = signature,
        id = ctx.id.to_str().unwrap_or_default(),
        "rest_request"
    );
}
