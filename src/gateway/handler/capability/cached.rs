//! A capability with `route.cache`: which calls may share an answer, and what becomes of one.
//!
//! Whoever shows who they are asks for themselves: no answer to a credential or a session is kept, nor is a kept one given
//! to it.

use std::time::{Duration, SystemTime};

use bytes::BytesMut;
use http::Method;
use http::header::{self, CONTENT_LENGTH, HeaderName};
use pingora::proxy::Session;
use tokio::time::{Instant, timeout_at};

use super::serving::{self, Asking, Passing};
use super::whole::Whole;
use super::{ProxiedCall, mapping, too_long};
use crate::cache::{self, Answer, Asked, Cache, Fetched, Fresh, Got, Wish, is_unchanged};
use crate::capability::Capability;
use crate::gateway::ctx::RequestCtx;
use crate::gateway::error::Refusal;
use crate::gateway::live::Agent;
use crate::gateway::respond::{self, Failed};
use crate::net;
use crate::restap::SESSION_HEADER;
use crate::upstream::Upstream;

/// How long a body that could only pass is read to be kept. A longer one passes as it comes, and others ask for
/// themselves.
const READING_MAX: Duration = Duration::from_secs(5);

/// What shows who calls, verified or not; other names of credentials tell answers apart, as every header does.
const CREDENTIALS: [HeaderName; 9] = [
    header::AUTHORIZATION,
    header::PROXY_AUTHORIZATION,
    header::COOKIE,
    HeaderName::from_static("x-api-key"),
    HeaderName::from_static("api-key"),
    HeaderName::from_static("apikey"),
    HeaderName::from_static("signature"),
    HeaderName::from_static("signature-input"),
    HeaderName::from_static(SESSION_HEADER),
];

/// What asks for something else than the whole answer. `If-None-Match` and `If-Modified-Since` are answered out of it.
const PARTIAL: [HeaderName; 4] = [header::RANGE, header::IF_RANGE, header::IF_MATCH, header::IF_UNMODIFIED_SINCE];

/// What the answers of a capability are kept under; a changed entry of the file begins anew.
pub(super) fn kept_under(capability: &Capability, upstream: &Upstream) -> Option<Box<[u8]>> {
    capability.settings().route.cache?;
    let (settings, origin) = (format!("{:?}", capability.settings()), upstream.url.origin.to_string());
    let digest = cache::digest([settings.as_bytes(), upstream.name.as_bytes(), origin.as_bytes()]);
    Some(digest.as_slice().into())
}

/// The question that a call asks, if its answer may be shared.
pub(super) fn asked(
    session: &Session,
    ctx: &mut RequestCtx,
    (agent, asking): (&Agent, &Asking<'_>),
    request: &net::Request,
) -> Option<Asked> {
    let kept_under = asking.call.kept_under.as_deref()?;
    ctx.cache = Some("bypass");
    let came = session.req_header();
    let wish = Wish::of(&came.headers);
    let safe = |method: &Method| matches!(*method, Method::GET | Method::HEAD);
    let anonymous = ctx.who.caller.is_none()
        && ctx.who.named.is_none()
        && !CREDENTIALS.iter().any(|name| came.headers.contains_key(name));
    let whole = !PARTIAL.iter().any(|name| request.headers.contains_key(name));
    if !anonymous
        || !whole
        || wish == Wish::Nothing
        || !safe(&came.method)
        || !safe(&request.method)
        || !request.body.is_empty()
    {
        return None;
    }
    // A mapping that looks at the caller's headers sees those too that the service's answer does not depend on.
    let looks = asking.call.capability.looks_at_headers();
    let seen = if looks { asking.variables.headers.to_string() } else { String::new() };
    let place = [agent.key.as_bytes(), kept_under, request.target.as_str().as_bytes(), seen.as_bytes()];
    Some(Asked::new(&place, &request.method, &request.headers, wish))
}

/// Answers a call out of the cache, or asks the service and keeps what it says.
pub(super) async fn answer(
    session: &mut Session,
    ctx: &mut RequestCtx,
    (agent, mut proxied, asking): (&Agent, ProxiedCall, &Asking<'_>),
    (asked, mut request): (Asked, net::Request),
) -> Result<(), Failed> {
    let live = ctx.live.clone();
    ctx.cache = Some("fail");
    // The whole answer is wanted, out of which both are answered here.
    request.headers.remove(header::IF_NONE_MATCH);
    request.headers.remove(header::IF_MODIFIED_SINCE);
    let fetch = Fetch { asking, cache: &live.cache, request };
    let got = tokio::select! {
        biased;
        got = live.cache.get(&asked, fetch) => got?,
        _ = session.downstream_session.read_body_or_idle(true) => return Err(respond::gone()),
    };
    let (outcome, whole) = match got {
        Got::Hit(answer) => ("hit", Ok(kept(&answer, true))),
        Got::Followed(answer) => ("collapsed", Ok(kept(&answer, true))),
        Got::Miss(answer) => ("miss", Ok(kept(&answer, false))),
        Got::Own(Own::Whole(whole)) => ("pass", Ok(whole)),
        Got::Own(Own::Passing(passing)) => ("pass", Err(passing)),
    };
    ctx.cache = Some(outcome);
    asking.gateway.metrics.cache_bytes.set(i64::try_from(live.cache.bytes()).unwrap_or(i64::MAX));
    if matches!(outcome, "hit" | "collapsed") {
        // Nobody was asked.
        ctx.upstream = None;
    }
    let whole = match whole {
        Ok(whole) if is_unchanged(&session.req_header().headers, whole.status, &whole.headers) => {
            Whole::unchanged(whole.headers)
        }
        Ok(whole) => whole,
        Err(passing) => match serving::unchanged(session, &passing) {
            Some(whole) => whole,
            None => return serving::pass(session, ctx, (agent, &mut proxied, asking), *passing).await,
        },
    };
    whole.write(session, ctx, (agent, &proxied)).await
}

fn kept(answer: &Answer, aged: bool) -> Whole {
    let headers = if aged { answer.aged_headers() } else { answer.headers.clone() };
    Whole { status: answer.status, headers, body: answer.body.clone() }
}

/// An answer for its asker alone.
enum Own {
    Whole(Whole),
    Passing(Box<Passing>),
}

/// Asks the service once.
struct Fetch<'a> {
    asking: &'a Asking<'a>,
    cache: &'a Cache,
    request: net::Request,
}

impl cache::Fetch for Fetch<'_> {
    type Own = Own;
    type Error = Refusal;

    async fn fetch(&mut self) -> Result<Fetched<Own>, Refusal> {
        let response = self.asking.send(self.request.clone()).await?;
        let fresh = self.fresh(response.status, &response.headers);
        if mapping::reads(self.asking.call, &self.asking.method, &response) {
            let status = response.status;
            let whole = mapping::answer(self.asking, response).await?;
            // A mapping may tell errors that the service does not.
            let keeps = whole.status == status && whole.body.len() as u64 <= self.cache.body_max();
            return Ok(match fresh.filter(|_| keeps) {
                Some(fresh) => Fetched::Shared(Answer::new(whole.status, &whole.headers, &whole.body, fresh)),
                None => Fetched::Own(Own::Whole(whole)),
            });
        }
        let length = response.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
        let streams = serving::is_event_stream(&response.headers);
        let large = self.asking.method != Method::HEAD && length.is_some_and(|length| length > self.cache.body_max());
        match fresh.filter(|_| !streams && !large) {
            Some(fresh) => self.read(response, fresh).await,
            None => Ok(Fetched::Own(Own::Passing(Box::new(Passing { response, first: bytes::Bytes::new() })))),
        }
    }
}

impl Fetch<'_> {
    fn fresh(&self, status: http::StatusCode, headers: &http::HeaderMap) -> Option<Fresh> {
        let period = self.asking.call.capability.settings().route.cache?;
        Fresh::of(status, headers, period, SystemTime::now())
    }

    /// Reads a body to keep it. One that is too large or too slow for that passes.
    async fn read(&self, mut response: net::Response, fresh: Fresh) -> Result<Fetched<Own>, Refusal> {
        let most = self.asking.call.capability.settings().route.response_body;
        let until = Instant::now() + READING_MAX;
        let mut body = BytesMut::new();
        while let Ok(chunk) = timeout_at(until, self.asking.chunk(&mut response)).await {
            let Some(bytes) = chunk? else {
                let answer = Answer::new(response.status, &response.headers, &body, fresh);
                return Ok(Fetched::Shared(answer));
            };
            body.extend_from_slice(&bytes);
            let length = body.len() as u64;
            if most.is_some_and(|most| length > most) {
                return Err(too_long());
            }
            if length > self.cache.body_max() {
                break;
            }
        }
        Ok(Fetched::Own(Own::Passing(Box::new(Passing { response, first: body.freeze() }))))
    }
}
