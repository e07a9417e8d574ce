//! One line a request, and its place in the metrics.

use std::fmt::Write;
use std::time::SystemTime;

use chrono::{DateTime, SecondsFormat, Utc};
use http::Method;
use serde_json::json;

use super::Gateway;
use super::ctx::RequestCtx;
use crate::telemetry::settings::Format;

/// What only its session knows of a request that is over.
pub(super) struct Outcome<'a> {
    pub method: &'a Method,
    pub status: u16,
    /// Of the answer's body.
    pub bytes: usize,
}

/// Counts a request that is over, and writes its line. The path stands without its query, which may hold a session.
pub(super) fn write(gateway: &Gateway, outcome: &Outcome<'_>, ctx: &RequestCtx) {
    let took = ctx.received_at.elapsed();
    let status = outcome.status;
    gateway.metrics.request(ctx.agent_key(), &ctx.route, status, took);
    if let Some(outcome) = ctx.cache {
        gateway.metrics.cache_request(ctx.agent_key(), &ctx.route, outcome);
    }
    if !ctx.live.log.access {
        return;
    }
    let id = ctx.id.to_str().unwrap_or_default();
    let method = outcome.method.as_str();
    let client = ctx.client.map_or_else(|| "unix".to_owned(), |address| address.to_string());
    let code = ctx.refused.map(crate::restap::ErrorCode::as_str);
    let (bytes, millis) = (outcome.bytes, took.as_secs_f64() * 1000.0);
    let time = DateTime::<Utc>::from(SystemTime::now()).to_rfc3339_opts(SecondsFormat::Millis, true);
    let caller = ctx.who.caller.as_ref().or(ctx.who.named.as_ref()).map(|caller| caller.shown());
    let line = match ctx.live.log.format {
        Format::Json => json!({
            "time": time, "client": client, "method": method, "path": ctx.path, "status": status, "agent": ctx.agent_key(),
            "route": &*ctx.route, "upstream": ctx.upstream.as_deref(), "cache": ctx.cache, "bytes": bytes,
            "ms": (millis * 1000.0).round() / 1000.0, "error": code, "caller": caller, "id": id,
        })
        .to_string(),
        Format::Text => {
            let mut line = format!(
                "{time} {client} {method} {} {status} {bytes}B {millis:.2}ms agent={} route={} id={id}",
                ctx.path,
                ctx.agent_key(),
                ctx.route
            );
            if let Some(upstream) = &ctx.upstream {
                // Writing into a String does not fail.
                let _ = write!(line, " upstream={upstream}");
            }
            if let Some(cache) = ctx.cache {
                let _ = write!(line, " cache={cache}");
            }
            if let Some(caller) = caller {
                let _ = write!(line, " caller={caller}");
            }
            if let Some(code) = code {
                let _ = write!(line, " error={code}");
            }
            line
        }
    };
    if !gateway.access.line(line) {
        gateway.metrics.access_lines_dropped.inc();
    }
}
