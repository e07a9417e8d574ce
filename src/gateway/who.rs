//! Who is calling, and whether they may: credentials are verified, rights judged, rates counted.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::header::HeaderName;
use http::{HeaderMap, HeaderValue, Method};
use pingora::proxy::Session;

use super::Gateway;
use super::admission::Route;
use super::credentials::{self, Bad, Issuer, Proven, Signatures};
use super::ctx::RequestCtx;
use super::error::Refusal;
use super::live::Agent;
use super::respond::Failed;
use super::router::Fixed;
use crate::capability::headers;
use crate::identity::access::Quota;
use crate::identity::jwks::Place;
use crate::identity::limit::Running;
use crate::identity::settings::{self, Profile, Settings};
use crate::identity::{Access, Buckets, Caller, Count, Jwks, KeySets, Rate, Right, Spent, Standing, Verdict};
use crate::net::{Client, HttpVersion, guard, peer, tls};
use crate::restap::ErrorCode;
use crate::store::{self, AgentId, Allowance, CallerId};

/// What an agent's `access` comes to.
#[derive(Debug)]
pub(super) struct Guard {
    pub access: Access,
    /// Issuers whose tokens count.
    pub issuers: Vec<Issuer>,
    /// `None` where signatures are not looked at.
    pub signatures: Option<Signatures>,
    /// The name of the agent, as a challenge has it.
    pub realm: String,
    counts: Arc<Counts>,
}

/// What was counted of an agent's callers. It outlives a reload.
#[derive(Debug, Default)]
pub(super) struct Counts {
    rates: Buckets<(Box<str>, Option<CallerId>)>,
    running: Running<Option<CallerId>>,
}

/// What a guard is made of beside its settings.
pub(super) struct Surroundings<'a> {
    pub client: &'a Client,
    /// The agent's name.
    pub name: &'a str,
    /// The hosts that requests may be signed for.
    pub authorities: Vec<String>,
    /// The guard in force, whose counts and keys go on.
    pub before: Option<&'a Guard>,
}

impl Guard {
    pub(super) fn new(settings: &Settings, around: Surroundings<'_>) -> Result<Self, tls::Error> {
        let Surroundings { client, name, authorities, before } = around;
        let legal = |c: &char| (c.is_ascii_graphic() || *c == ' ') && !matches!(c, '"' | '\\');
        let realm = name.chars().filter(legal).collect();
        let issuers = settings.jwt.iter().map(|issuer| {
            let known = before.into_iter().flat_map(|before| &before.issuers).find(|known| known.settings == *issuer);
            let keys = match known {
                Some(known) => known.keys.clone(),
                None => Arc::new(Jwks::new(&issuer.issuer, place(issuer, client)?)),
            };
            Ok(Issuer { settings: issuer.clone(), keys })
        });
        let issuers = issuers.collect::<Result<Vec<_>, tls::Error>>()?;
        let signatures = if settings.web_bot_auth.profile == Profile::Off {
            None
        } else {
            let known = before.and_then(|before| before.signatures.as_ref());
            let ca = &settings.web_bot_auth.ca;
            let key_sets = if let Some(known) = known.filter(|known| known.settings.ca == *ca) {
                known.key_sets.clone()
            } else {
                KeySets::new(client.guard(guard::Settings { ca: ca.clone(), ..guard::Settings::default() })?)
            };
            let nonces = known.map(|known| known.nonces.clone()).unwrap_or_default();
            Some(Signatures { settings: settings.web_bot_auth.clone(), key_sets, nonces, authorities })
        };
        Ok(Self {
            access: Access::new(settings),
            issuers,
            signatures,
            realm,
            counts: before.map(|before| before.counts.clone()).unwrap_or_default(),
        })
    }

    /// Whether `Authorization` is the agent's.
    pub(super) fn takes_bearer(&self) -> bool {
        !self.access.api_keys.is_empty() || !self.issuers.is_empty()
    }
}

/// Where an issuer's keys are.
fn place(issuer: &settings::Issuer, client: &Client) -> Result<Place, tls::Error> {
    Ok(match &issuer.jwks {
        settings::Jwks::File(path) => Place::File(path.clone()),
        settings::Jwks::Url(url) => {
            let settings = peer::Settings {
                origin: url.origin.clone(),
                tls: tls::Settings { ca: issuer.ca.clone(), ..tls::Settings::default() },
                version: HttpVersion::default(),
                connect: KEYS_TIMEOUT,
                write: KEYS_TIMEOUT,
                read: KEYS_TIMEOUT,
            };
            let path = if url.prefix.is_empty() { "/" } else { &url.prefix };
            let target = format!("{path}{}", url.query).parse().map_err(|_| tls::Error::ServerName(url.to_string()))?;
            Place::Url(client.clone(), Box::new(client.peer(&settings)?), target)
        }
    })
}

/// How long an issuer may take at each step.
const KEYS_TIMEOUT: Duration = Duration::from_secs(5);

/// Who is calling; by default nobody that is known.
#[derive(Debug, Clone, Default)]
pub(super) struct Who {
    /// What is verified.
    pub caller: Option<Arc<Caller>>,
    /// The caller in the store.
    pub id: Option<CallerId>,
    /// Whom the request names without proving enough to be let in: for logs and rates.
    pub named: Option<Arc<Caller>>,
    /// Whose rates it counts against.
    pub counted: Option<CallerId>,
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
    session: &mut Session,
    ctx: &mut RequestCtx,
    route: &Route,
) -> Result<(), Failed> {
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
            let proven = credentials::verify(gateway, (agent.id, guard), (session, ctx), route).await;
            match proven {
                Err(Bad::Request(failed)) => return Err(failed),
                proven => ctx.who = who(gateway, guard, proven.ok().unwrap_or_default()),
            }
        }
        return Ok(());
    };
    match judge(gateway, guard, (session, ctx), (&agent, route, right)).await {
        // A reader of news finds no items where it looks for them.
        Err(Bad::Credential(refusal)) if right == Right::News => Err(Refusal { no_items: true, ..refusal }.into()),
        Err(Bad::Credential(refusal)) => Err(refusal.into()),
        Err(Bad::Request(failed)) => Err(failed),
        Ok(()) => Ok(()),
    }
}

async fn judge(
    gateway: &Gateway,
    guard: &Guard,
    (session, ctx): (&mut Session, &mut RequestCtx),
    (agent, route, right): (&Agent, &Route, Right<'_>),
) -> Result<(), Bad> {
    let proven = credentials::verify(gateway, (agent.id, guard), (session, ctx), route).await?;
    ctx.who = who(gateway, guard, proven);
    let standing = ctx.who.standing;
    match guard.access.judge(standing, ctx.who.caller.is_some(), right) {
        Verdict::Allowed => {}
        Verdict::NeedsCredential => return Err(needs_credential(guard, right).into()),
        Verdict::Forbidden => {
            let name = ctx.who.caller.as_ref().map(|caller| caller.shown()).unwrap_or_default();
            let message = format!("{name} may not use {}; ask the operator of {} for it", right.id(), agent.name);
            return Err(Refusal::new(ErrorCode::Forbidden, message).into());
        }
        Verdict::Denied => {
            let message = "this agent does not accept requests from this caller; ask its operator why";
            return Err(Refusal::new(ErrorCode::Forbidden, message).into());
        }
    }
    count(gateway, (&agent.id, guard), ctx, right).await.map_err(Bad::Credential)
}

/// Takes a token of each rate that the request counts against, and a place among those that run.
async fn count(
    gateway: &Gateway,
    (agent, guard): (&AgentId, &Guard),
    ctx: &mut RequestCtx,
    right: Right<'_>,
) -> Result<(), Refusal> {
    let groups = ctx.who.standing.groups;
    let id = ctx.who.counted;
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

fn who(gateway: &Gateway, guard: &Guard, Proven { caller, named }: Proven) -> Who {
    let mut standing = guard.access.standing(caller.as_ref());
    // Whoever only names itself gains nothing by it, and may lose.
    standing.denied |= named.as_ref().is_some_and(|named| guard.access.standing(Some(named)).denied);
    let id_of = |caller: &Caller| gateway.store.keys().caller(&caller.principal().to_string());
    let id = caller.as_ref().map(id_of);
    let counted = id.or_else(|| named.as_ref().map(id_of));
    Who { caller: caller.map(Arc::new), id, named: named.map(Arc::new), counted, standing }
}

fn needs_credential(guard: &Guard, right: Right<'_>) -> Refusal {
    let accepted = credentials::accepted(guard);
    let message = if accepted.is_empty() {
        format!("{} is closed to anonymous callers, and this agent knows no others; ask its operator", right.id())
    } else {
        format!("{} needs a credential: send {accepted}", right.id())
    };
    credentials::challenge(guard, Refusal::new(ErrorCode::Unauthorized, message), "")
}

/// Kept with the request: the place that it takes among its caller's.
pub(super) type Slot = Option<Count>;
