//! Who is calling, and whether they may: credentials are verified, rights judged, rates counted.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::header::{AUTHORIZATION, HeaderName};
use http::{HeaderMap, HeaderValue, Method};
use pingora::proxy::Session;

use super::Gateway;
use super::admission::Route;
use super::ctx::RequestCtx;
use super::error::Refusal;
use super::fields;
use super::live::Agent;
use super::router::Fixed;
use crate::capability::headers;
use crate::identity::access::Quota;
use crate::identity::limit::Running;
use crate::identity::{Access, Buckets, Caller, Count, Principal, Rate, Right, Spent, Standing, Verdict};
use crate::restap::ErrorCode;
use crate::store::{self, AgentId, Allowance, CallerId};

/// Where callers may send an API key beside `Authorization: Bearer`.
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// What an agent's `access` comes to.
#[derive(Debug)]
pub(super) struct Guard {
    pub access: Access,
    /// The name of the agent, as a challenge has it.
    realm: String,
    counts: Arc<Counts>,
}

/// What was counted of an agent's callers. It outlives a reload.
#[derive(Debug, Default)]
pub(super) struct Counts {
    rates: Buckets<(Box<str>, Option<CallerId>)>,
    running: Running<Option<CallerId>>,
}

impl Guard {
    pub(super) fn new(access: Access, name: &str, before: Option<&Self>) -> Self {
        let legal = |c: &char| (c.is_ascii_graphic() || *c == ' ') && !matches!(c, '"' | '\\');
        let realm = name.chars().filter(legal).collect();
        Self { access, realm, counts: before.map(|before| before.counts.clone()).unwrap_or_default() }
    }
}

/// Who is calling; by default nobody that is known.
#[derive(Debug, Clone, Default)]
pub(super) struct Who {
    /// What is verified.
    pub caller: Option<Arc<Caller>>,
    /// The caller in the store.
    pub id: Option<CallerId>,
    pub standing: Standing,
}

impl Who {
    /// Says to a service who calls.
    pub(super) fn tell(&self, to: &mut HeaderMap) {
        let name = self.caller.as_ref().map(|caller| caller.principal().name());
        headers::set_caller(
            to,
            self.caller
                .as_deref()
                .zip(name.as_deref())
                .map(|(caller, name)| headers::Caller { kind: caller.principal().kind().as_str(), name }),
        );
    }
}

/// What a request has used up of its caller's rate.
#[derive(Debug, Clone, Copy)]
pub(super) struct Used {
    pub rate: Rate,
    pub spent: Spent,
}

impl Used {
    /// What an answer says of the rate.
    pub(super) fn headers(&self) -> [(HeaderName, HeaderValue); 4] {
        let policy = format!("{};w={}", self.rate.count, self.rate.per.as_secs());
        let policy = HeaderValue::try_from(policy).unwrap_or(HeaderValue::from_static("1"));
        [
            (HeaderName::from_static("ratelimit-limit"), self.rate.count.into()),
            (HeaderName::from_static("ratelimit-remaining"), self.spent.remaining.into()),
            (HeaderName::from_static("ratelimit-reset"), whole_seconds(self.spent.full_in).into()),
            (HeaderName::from_static("ratelimit-policy"), policy),
        ]
    }
}

/// Seconds after which something holds for certain.
fn whole_seconds(period: Duration) -> u64 {
    period.as_millis().div_ceil(1000) as u64
}

/// What a route needs; `None` where it is open to everybody.
fn right(route: &Route) -> Option<Right<'_>> {
    match route {
        Route::Capability(_, call, _) => Some(Right::Capability(&call.name)),
        Route::Fixed(_, Fixed::Talk | Fixed::Query, _) => Some(Right::Talk),
        Route::Fixed(_, Fixed::News, _) => Some(Right::News),
        Route::Fixed(_, Fixed::RestRequest, _) => Some(Right::Rest),
        Route::Fixed(..)
        | Route::Tool(_)
        | Route::Directory
        | Route::ApiCatalog
        | Route::KeyDirectory
        | Route::Options(_) => None,
    }
}

/// Lets a request through or says why not. Who calls stands in the ctx afterwards.
pub(super) async fn admit(
    gateway: &Gateway,
    session: &Session,
    ctx: &mut RequestCtx,
    route: &Route,
) -> Result<(), Refusal> {
    // The agent itself may do everything at its own listener.
    let guarded = ctx.agent.clone().filter(|agent| agent.guard.is_some() && ctx.agent_side.is_none());
    let Some(agent) = guarded else { return Ok(()) };
    let Some(guard) = &agent.guard else { return Ok(()) };
    let is_read = session.req_header().method != Method::POST;
    let right = match right(route) {
        Some(Right::News) if !is_read => Some(Right::NewsReceive),
        right => right,
    };
    let Some(right) = right else {
        // Whoever can't be known sees what everybody sees.
        if !matches!(route, Route::Options(_)) {
            let caller = credentials(guard, session, route).unwrap_or_default();
            ctx.who = who(gateway, guard, caller);
        }
        return Ok(());
    };
    let outcome = judge(gateway, guard, (session, ctx), (&agent, route, right)).await;
    // A reader of news finds no items where it looks for them.
    outcome.map_err(|refusal| if right == Right::News { Refusal { no_items: true, ..refusal } } else { refusal })
}

async fn judge(
    gateway: &Gateway,
    guard: &Guard,
    (session, ctx): (&Session, &mut RequestCtx),
    (agent, route, right): (&Agent, &Route, Right<'_>),
) -> Result<(), Refusal> {
    let caller = credentials(guard, session, route)?;
    ctx.who = who(gateway, guard, caller);
    let standing = ctx.who.standing;
    match guard.access.judge(standing, ctx.who.caller.is_some(), right) {
        Verdict::Allowed => {}
        Verdict::NeedsCredential => return Err(needs_credential(guard, right)),
        Verdict::Forbidden => {
            let name = ctx.who.caller.as_ref().map(|caller| caller.shown()).unwrap_or_default();
            let message = format!("{name} may not use {}; ask the operator of {} for it", right.id(), agent.name);
            return Err(Refusal::new(ErrorCode::Forbidden, message));
        }
        Verdict::Denied => {
            let message = "this agent does not accept requests from this caller; ask its operator why";
            return Err(Refusal::new(ErrorCode::Forbidden, message));
        }
    }
    count(gateway, (&agent.id, guard), ctx, right).await
}

/// Takes a token of each rate that the request counts against, and a place among those that run.
async fn count(
    gateway: &Gateway,
    (agent, guard): (&AgentId, &Guard),
    ctx: &mut RequestCtx,
    right: Right<'_>,
) -> Result<(), Refusal> {
    let groups = ctx.who.standing.groups;
    let id = ctx.who.id;
    if let Some(most) = guard.access.running_max(groups) {
        let Some(running) = guard.counts.running.begin(id, most) else {
            let message = format!("{most} of your requests run already; wait until one is done, then send this again");
            return Err(Refusal::new(ErrorCode::RateLimited, message).retry_after(1));
        };
        ctx.running = Some(running);
    }
    for quota in guard.access.quotas(groups, right) {
        let name = rate_name(&quota);
        let mut spent = guard.counts.rates.take((name.clone(), id), quota.rate, Instant::now());
        // Whoever is over here is over everywhere. A store that can't be asked leaves it at what is known here.
        if spent.allowed {
            let key = gateway.store.keys().rate(*agent, &name, id);
            if let Ok(allowance) = gateway.store.spend(key, stored(quota.rate)).await {
                spent = with_others(quota.rate, allowance);
            }
        }
        if ctx.used.is_none_or(|known| !spent.allowed || spent.remaining < known.spent.remaining) {
            ctx.used = Some(Used { rate: quota.rate, spent });
        }
        if !spent.allowed {
            return over(ctx, &quota, spent, right);
        }
    }
    Ok(())
}

/// A poller that asks too often finds nothing new; everybody else is told.
fn over(ctx: &mut RequestCtx, quota: &Quota<'_>, spent: Spent, right: Right<'_>) -> Result<(), Refusal> {
    let after = whole_seconds(spent.next_in).max(1);
    if right == Right::News {
        ctx.paced = Some(after);
        return Ok(());
    }
    let what = quota.name.1.unwrap_or("this agent");
    let message = format!("more than {} requests of {what}; wait for {after} s, then send this again", quota.rate);
    Err(Refusal::new(ErrorCode::RateLimited, message).retry_after(after))
}

/// The same rate as the store counts it.
fn stored(rate: Rate) -> store::Rate {
    store::Rate::new(u32::try_from(rate.count).unwrap_or(u32::MAX), rate.per)
}

/// What is left where other gateways have counted too.
fn with_others(rate: Rate, allowance: Allowance) -> Spent {
    let lacking = u32::try_from(rate.count.saturating_sub(allowance.remaining)).unwrap_or(u32::MAX);
    let full_in = rate.interval().saturating_mul(lacking);
    Spent { allowed: allowance.allowed, remaining: allowance.remaining, full_in, next_in: allowance.again }
}

fn rate_name(quota: &Quota<'_>) -> Box<str> {
    match quota.name {
        (group, None) => group.into(),
        (group, Some(tool)) => format!("{group} {tool}").into(),
    }
}

fn who(gateway: &Gateway, guard: &Guard, caller: Option<Caller>) -> Who {
    let standing = guard.access.standing(caller.as_ref());
    let id = caller.as_ref().map(|caller| gateway.store.keys().caller(&caller.principal().to_string()));
    Who { caller: caller.map(Arc::new), id, standing }
}

/// Verifies what a request brings. A credential that is there and bad is an error, never nobody.
fn credentials(guard: &Guard, session: &Session, route: &Route) -> Result<Option<Caller>, Refusal> {
    let headers = &session.req_header().headers;
    let mut principals = Vec::new();
    if !guard.access.api_keys.is_empty() {
        if let Some(value) = single(headers, &AUTHORIZATION)? {
            match bearer(value).and_then(|token| guard.access.api_keys.find(token)) {
                Some(name) => principals.push(Principal::ApiKey(name.into())),
                // Where the operator sends the header on, it may be the service's.
                None if forwards(route, &AUTHORIZATION) => {}
                None => return Err(bad_credential(guard, "the API key in Authorization is not known here")),
            }
        }
        if let Some(key) = single(headers, &API_KEY)? {
            match guard.access.api_keys.find(key) {
                Some(name) => principals.push(Principal::ApiKey(name.into())),
                None if forwards(route, &API_KEY) => {}
                None => return Err(bad_credential(guard, "the API key in X-API-Key is not known here")),
            }
        }
    }
    Ok(Caller::new(principals))
}

fn single<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h [u8]>, Refusal> {
    fields::single(headers, name).map(|value| value.map(<[u8]>::trim_ascii))
}

/// The token of `Bearer TOKEN`; the scheme is compared without case.
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(value.iter().position(|byte| *byte == b' ')?)?;
    scheme.eq_ignore_ascii_case(b"bearer").then(|| token.trim_ascii())
}

fn forwards(route: &Route, header: &HeaderName) -> bool {
    matches!(route, Route::Capability(_, call, _) if call.capability.settings().route.forward_headers.contains(header))
}

/// What callers may prove who they are with, as a sentence has it.
fn accepted(guard: &Guard) -> String {
    let mut ways = Vec::new();
    if !guard.access.api_keys.is_empty() {
        ways.push("an API key as Authorization: Bearer KEY or X-API-Key: KEY");
    }
    ways.join(", or ")
}

fn needs_credential(guard: &Guard, right: Right<'_>) -> Refusal {
    let accepted = accepted(guard);
    let message = if accepted.is_empty() {
        format!("{} is closed to anonymous callers, and this agent knows no others; ask its operator", right.id())
    } else {
        format!("{} needs a credential: send {accepted}", right.id())
    };
    challenge(guard, Refusal::new(ErrorCode::Unauthorized, message), "")
}

fn bad_credential(guard: &Guard, what: &str) -> Refusal {
    let message = format!("{what}; send {}, or none at all to ask as nobody", accepted(guard));
    challenge(guard, Refusal::new(ErrorCode::Unauthorized, message), ", error=\"invalid_token\"")
}

/// RFC 9110, section 11.6.1: every 401 says how to prove who one is.
fn challenge(guard: &Guard, refusal: Refusal, error: &str) -> Refusal {
    let bearer = format!("Bearer realm=\"{}\"{error}", guard.realm);
    let challenges = [bearer].into_iter().filter_map(|challenge| HeaderValue::try_from(challenge).ok()).collect();
    Refusal { challenges, ..refusal }
}

/// Kept with the request: the place that it takes among its caller's.
pub(super) type Place = Option<Count>;
