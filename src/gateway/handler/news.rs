//! `GET` and `POST /news`: a feed that is read and written, and never answered.
//!
//! Nothing here can reach a service or a model; `tests/tidy.rs` holds that.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use http::{HeaderMap, Method};
use pingora::proxy::Session;
use prometheus::IntGauge;
use serde_json::json;

use crate::gateway::ctx::RequestCtx;
use crate::gateway::error::Refusal;
use crate::gateway::fields::{self, Query};
use crate::gateway::live::Agent;
use crate::gateway::respond::{self, Answer, Failed};
use crate::gateway::{Gateway, body, queries};
use crate::restap::{ErrorCode, NewsDraft, Prefer, SessionId, Since};
use crate::store::settings::NewsSessions;
use crate::store::{NewItem, NewsSettings, OnceScope, Page, PageRequest, Reader, StoreError};

/// Items of a page where the reader does not say.
const LIMIT_DEFAULT: u32 = 100;

/// Items of a page at most.
const LIMIT_MAX: u32 = 1_000;

/// Readers of an agent that wait for items.
const WAITERS_MAX: usize = 1_000;

/// How often a reader that waits looks for what another process has appended.
const READ_AGAIN: Duration = Duration::from_secs(1);

/// The parameters of a read.
const PARAMETERS: &[&str] = &["since", "since_id", "limit", "query_id", "session_id"];

/// Reads a page, or stores an item.
pub(in crate::gateway) async fn answer(
    gateway: &Gateway,
    session: &mut Session,
    ctx: &mut RequestCtx,
    (agent, news): (&Agent, &NewsSettings),
) -> Result<(), Failed> {
    if session.req_header().method == Method::POST {
        let outcome = post(gateway, session, ctx, (agent, news)).await;
        gateway.metrics.news_append(&agent.key, outcome_name(&outcome, "stored"));
        respond::send(session, ctx, outcome?).await
    } else {
        let outcome = read(gateway, session, ctx, (agent, news)).await;
        let outcome = outcome.map_err(|failed| match failed {
            Failed::Refused(refusal) => Refusal { no_items: true, ..*refusal }.into(),
            gone @ Failed::Gone(_) => gone,
        });
        let name = outcome_name(&outcome, if matches!(outcome, Ok((_, true))) { "items" } else { "empty" });
        gateway.metrics.news_read(&agent.key, name);
        respond::send(session, ctx, outcome?.0).await
    }
}

async fn post(
    gateway: &Gateway,
    session: &mut Session,
    ctx: &RequestCtx,
    (agent, news): (&Agent, &NewsSettings),
) -> Result<Answer, Failed> {
    let request = session.req_header();
    fields::require_json(&request.headers)?;
    let named = named_session(&request.headers, &Query::read(request.uri.query(), PARAMETERS)?)?;
    let key = fields::idempotency_key(&request.headers)?;
    let limits = ctx.live.limits;
    let body = body::read(session, ctx, limits.body, limits.body_timeout).await?;
    let (draft, posting) = NewsDraft::parse(&body)?;
    let session_id = match named {
        Some(named) => Some(named),
        None => posting.session_id.transpose()?,
    };
    let session_id = scope(news, session_id)?;
    let feed = gateway.store.keys().feed(agent.id, session_id.as_ref());
    let scope = OnceScope { agent: agent.id, operation: "news", caller: ctx.who.id, session: session_id.as_ref() };
    let once = key.or(posting.dispatch_id).map(|key| gateway.store.keys().once(scope, &key, &body));
    let began = Instant::now();
    let receipt = gateway.store.append(NewItem { feed, opener: ctx.who.id, draft: &draft, once }).await?;
    gateway.metrics.store.append_latency.observe(began.elapsed().as_secs_f64());
    let received =
        json!({"status": "received", "news_id": receipt.id.to_string(), "message": "Message stored successfully"});
    Ok(Answer::json(received.to_string()))
}

/// The answer, and whether it holds items.
async fn read(
    gateway: &Gateway,
    session: &mut Session,
    ctx: &RequestCtx,
    (agent, news): (&Agent, &NewsSettings),
) -> Result<(Answer, bool), Failed> {
    let request = session.req_header();
    let query = Query::read(request.uri.query(), PARAMETERS)?;
    let session_id = scope(news, named_session(&request.headers, &query)?)?;
    let wait = Prefer::read(&request.headers).wait;
    let since = Since::parse(query.get("since"), query.get("since_id")).map_err(|code| {
        Refusal::new(
            code,
            "since is a time in unix milliseconds, and since_id the id of an item; leave both out to read the newest",
        )
    })?;
    if let Some(after) = ctx.paced {
        return Ok((paced(&since, after), false));
    }
    let query_id = query.get("query_id").filter(|id| !id.is_empty());
    if let Some(id) = query_id {
        // One that was lost fails now, and its item says so.
        queries::find(gateway, agent, id).await?;
    }
    let wanted = PageRequest {
        feed: gateway.store.keys().feed(agent.id, session_id.as_ref()),
        reader: if ctx.agent_side.is_some() { Reader::Agent } else { Reader::Caller(ctx.who.id) },
        since: &since,
        limit: limit(query.get("limit"))?,
        query: query_id,
    };
    agent.reports.settle().await;
    let page = match wait {
        None => page(gateway, wanted).await?,
        Some(wait) => arriving(gateway, session, (agent, wanted, wait)).await?,
    };
    Ok((Answer::json(page.to_json(session_id.as_ref())), !page.items.is_empty()))
}

/// A page for a reader who asks too often: nothing new, and where it was.
fn paced(since: &Since, after: u64) -> Answer {
    let timestamp = if let Since::Time(time) = since { *time } else { 0 };
    let mut answer = Answer::json(json!({"items": [], "timestamp": timestamp, "more": false}).to_string());
    answer.headers.push((http::header::RETRY_AFTER, after.into()));
    answer
}

async fn page(gateway: &Gateway, wanted: PageRequest<'_>) -> Result<Page, StoreError> {
    let began = Instant::now();
    let page = gateway.store.page(wanted).await?;
    gateway.metrics.store.read_latency.observe(began.elapsed().as_secs_f64());
    Ok(page)
}

/// A page that is held back while it is empty, at most for `wait`. Reads of the store are what decides: that something
/// may have arrived only makes the next one come sooner.
async fn arriving(
    gateway: &Gateway,
    session: &mut Session,
    (agent, wanted, wait): (&Agent, PageRequest<'_>, Duration),
) -> Result<Page, Failed> {
    let end = tokio::time::Instant::now() + wait;
    let waiter = Waiter::count(gateway, agent);
    let mut stopping = gateway.drain.stopping();
    loop {
        let arrival = gateway.store.arrival(wanted.feed);
        let page = page(gateway, wanted).await?;
        let now = tokio::time::Instant::now();
        if !page.items.is_empty() || now >= end || waiter.is_none() || *stopping.borrow() {
            return Ok(page);
        }
        tokio::select! {
            () = arrival => {}
            () = tokio::time::sleep_until(end.min(now + READ_AGAIN)) => {}
            _ = stopping.wait_for(|stopping| *stopping) => {}
            _ = session.downstream_session.read_body_or_idle(true) => return Err(respond::gone()),
        }
    }
}

/// A reader that waits; `None` above the most of an agent, whose readers then do not wait.
struct Waiter {
    waiting: Arc<AtomicUsize>,
    gauge: IntGauge,
}

impl Waiter {
    fn count(gateway: &Gateway, agent: &Agent) -> Option<Self> {
        let waiter = Self { waiting: agent.waiters.clone(), gauge: gateway.metrics.store.waiting(&agent.key) };
        waiter.gauge.inc();
        (waiter.waiting.fetch_add(1, Ordering::AcqRel) < WAITERS_MAX).then_some(waiter)
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.waiting.fetch_sub(1, Ordering::AcqRel);
        self.gauge.dec();
    }
}

/// The session of header or query; the header decides where both stand.
fn named_session(headers: &HeaderMap, query: &Query) -> Result<Option<SessionId>, Refusal> {
    match (fields::session_header(headers)?, query.get("session_id")) {
        (Some(session_id), _) => Ok(Some(session_id)),
        (None, Some(text)) => SessionId::parse(text).map(Some).map_err(|_| fields::invalid_session()),
        (None, None) => Ok(None),
    }
}

/// The feed that a request is for: a session's, or without one the agent's own.
fn scope(news: &NewsSettings, session_id: Option<SessionId>) -> Result<Option<SessionId>, Refusal> {
    match (news.sessions, session_id) {
        (NewsSessions::Ignored, _) => Ok(None),
        (NewsSessions::Optional, session_id) => Ok(session_id),
        (NewsSessions::Required, Some(session_id)) => Ok(Some(session_id)),
        (NewsSessions::Required, None) => Err(Refusal::new(
            ErrorCode::MissingSessionId,
            "this agent keeps news by session; send the session's id in the header Restap-Session-Id",
        )),
    }
}

fn limit(text: Option<&str>) -> Result<u32, Refusal> {
    let Some(text) = text.filter(|text| !text.is_empty()) else { return Ok(LIMIT_DEFAULT) };
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let limit = text.parse().ok().filter(|limit| digits && (1..=LIMIT_MAX).contains(limit));
    limit.ok_or_else(|| Refusal::new(ErrorCode::InvalidLimit, "limit is a number from 1 to 1000"))
}

/// The word that a metric counts an outcome under.
fn outcome_name<T>(outcome: &Result<T, Failed>, fine: &'static str) -> &'static str {
    match outcome {
        Ok(_) => fine,
        Err(Failed::Refused(refusal)) => refusal.code.as_str(),
        Err(Failed::Gone(_)) => "gone",
    }
}
