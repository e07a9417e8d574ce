//! A capability: what is asked of the service, by Pingora's hooks where bytes only pass, else by our own client.
//!
//! Which way is decided once at load ([`Call::new`]). Pingora's hooks stream both ways with one timer between any two
//! bytes; a capability that must see the body, whose answers are kept, or that has more timers than that, is served.

mod cached;
mod mapping;
mod serving;
mod whole;

use std::sync::Arc;
use std::time::Duration;

use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap};
use http::{StatusCode, Version};
use pingora::http::ResponseHeader;
use pingora::proxy::Session;
use serde_json::Value;
use tracing::{debug, warn};

use crate::capability::headers::{Arrival, Caller, Proxy, Scheme};
use crate::capability::send::Sent;
use crate::capability::settings::Validate;
use crate::capability::validate::{Input, Refused};
use crate::capability::{
    Body, Capability, InvalidPath, Params, Received, Return, Service, Target, Variables, request_headers,
    response_headers,
};
use crate::gateway::ctx::RequestCtx;
use crate::gateway::error::Refusal;
use crate::gateway::job::Job;
use crate::gateway::live::Agent;
use crate::gateway::respond::Failed;
use crate::gateway::{Gateway, body};
use crate::net;
use crate::restap::{ErrorCode, HopCount, SESSION_HEADER};
use crate::upstream::{Affinity, Kind, Picked, Timeouts, Upstream};

/// A capability and the service that it asks.
#[derive(Debug)]
pub(in crate::gateway) struct Call {
    /// The id, as logs and metrics have it.
    pub name: Arc<str>,
    pub capability: Arc<Capability>,
    pub service: Arc<Service>,
    pub upstream: Arc<Upstream>,
    pub timeouts: Timeouts,
    /// Over the whole exchange.
    pub total: Option<Duration>,
    way: Way,
    /// What its answers are kept under, besides what is asked; `None` where none is kept.
    kept_under: Option<Box<[u8]>>,
}

/// How a capability is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// By Pingora's hooks.
    Passed,
    /// By our own client, with the request's body read whole.
    Served,
}

/// A call that Pingora's hooks carry on.
#[derive(Debug)]
pub(in crate::gateway) struct ProxiedCall {
    pub call: Arc<Call>,
    pub target: Target,
    pub headers: HeaderMap,
    /// Bytes of the request's body so far, and at most.
    pub sent: u64,
    pub sent_max: Option<u64>,
    /// Interim answers (1xx) so far.
    pub interim: usize,
    /// Bytes of the response's body so far.
    pub received: u64,
    /// What went wrong, as the caller is told.
    pub failure: Option<Refusal>,
    /// What ties it to a server.
    pub affinity: Option<Affinity>,
    /// The server that it is at, and those that it was at.
    pub picked: Option<Picked>,
    pub tried: Vec<usize>,
}

impl Call {
    pub(in crate::gateway) fn new(capability: Arc<Capability>, service: Arc<Service>, upstream: Arc<Upstream>) -> Self {
        let timeouts = upstream.timeouts(Kind::Capability);
        let total = capability.settings().route.timeout.or(timeouts.total);
        let one_timer = total.is_none() && timeouts.first_byte == timeouts.idle;
        // Without chunks a body that passes could not be delimited.
        let speaks_1_1 = upstream.http != net::HttpVersion::Http10;
        let passes =
            one_timer && speaks_1_1 && !upstream.repeats(&capability.settings().route.method) && upstream.passes();
        let kept_under = cached::kept_under(&capability, &upstream);
        let only_passes = capability.body() == Body::Passing && !capability.receiver().maps() && kept_under.is_none();
        let way = if only_passes && passes { Way::Passed } else { Way::Served };
        Self { name: capability.id().into(), capability, service, upstream, timeouts, total, way, kept_under }
    }

    /// The service without what its upstream adds, which may be credentials.
    pub(in crate::gateway) fn plain_service(&self) -> Option<Service> {
        let url = net::Url { query: "".into(), ..self.upstream.url.clone() };
        Service::new(&url, &[], &[], self.service.cookies()).ok()
    }

    /// How it is answered, for people.
    pub(in crate::gateway) fn way_in_words(&self) -> &'static str {
        match self.way {
            Way::Passed => "passes as it comes, in both directions",
            Way::Served => "is read whole before the service is asked",
        }
    }

    /// The most bytes of a request's body: JSON and what is read whole has a limit always.
    fn body_max(&self, headers: &HeaderMap, limit: u64) -> Option<u64> {
        let media_type = headers.get(CONTENT_TYPE).map_or(b"".as_slice(), http::HeaderValue::as_bytes);
        let essence =
            media_type.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii().to_ascii_lowercase();
        let json = essence == b"application/json" || essence.ends_with(b"+json");
        let fallback = (json || self.way == Way::Served).then_some(limit);
        self.capability.settings().route.body.or(fallback)
    }
}

/// Checks a call. `Some` is to be carried on by Pingora's hooks; a served one has been answered.
pub(in crate::gateway) async fn answer(
    gateway: &Gateway,
    session: &mut Session,
    ctx: &mut RequestCtx,
    (agent, call, params): (&Arc<Agent>, &Arc<Call>, Params),
) -> Result<Option<ProxiedCall>, Failed> {
    let request = session.req_header();
    let limits = ctx.live.limits;
    let hops = HopCount::read(&request.headers)?;
    let (method, query) = (request.method.clone(), request.uri.query().map(str::to_owned));
    let served = call.way == Way::Served || request.version == Version::HTTP_10 || ctx.whole.is_some();
    let limit = call.body_max(&request.headers, limits.body);
    if let (Some(limit), Some(length)) = (limit, body::declared_length(session))
        && length > limit
    {
        return Err(body::too_large(limit).into());
    }
    let maps = call.capability.maps();
    let mut whole = if served {
        Some(body::read(session, ctx, limit.unwrap_or(limits.body), limits.body_timeout).await?)
    } else {
        None
    };
    let request = session.req_header();
    let seen = whole.as_deref().filter(|_| call.capability.body() == Body::Whole);
    let received = match seen {
        Some(body) => receive(call, &request.headers, body)?,
        None => None,
    };
    validate(
        call,
        &Input { params: &params, query: query.as_deref(), headers: &request.headers, body: received.as_ref() },
    )?;
    let mut target = call.capability.target(&call.service, &params, &method, query.as_deref());
    let host = super::super::router::host(&request.headers, &request.uri);
    let name = ctx.who.caller.as_ref().map(|caller| caller.principal().name());
    let caller = ctx.who.caller.as_ref().zip(name.as_deref());
    let arrival = Arrival {
        peer: ctx.peer,
        proxy: if ctx.from_trusted_proxy { Proxy::Trusted } else { Proxy::Unknown },
        scheme: if ctx.arrival.tls { Scheme::Https } else { Scheme::Http },
        host: &host,
        request_id: &ctx.id,
        traceparent: request.headers.get("traceparent"),
        caller: caller.map(|(caller, name)| Caller { kind: caller.principal().kind().as_str(), name }),
        hops: &hops,
    };
    let mut headers = request_headers(&call.capability, &call.service, &params, &arrival, &request.headers)?;
    let variables = if maps {
        call.capability.variables(&params, query.as_deref(), &request.headers)
    } else {
        Variables::default()
    };
    let sender = call.capability.sender();
    let value = match received {
        Some(Received::Json(value)) if sender.converts() => Some(value),
        Some(Received::Nothing) if sender.makes() => Some(Value::Null),
        _ => None,
    };
    if let Some(value) = value {
        match mapping::send(call, value, whole.as_ref().map_or(0, bytes::Bytes::len), &variables).await? {
            Sent::Body(body, media_type) => {
                headers.insert(CONTENT_TYPE, media_type);
                whole = Some(body);
            }
            Sent::Query(pairs) => {
                headers.remove(CONTENT_TYPE);
                target.push_query(&pairs);
                whole = Some(bytes::Bytes::new());
            }
        }
    }
    ctx.counted.pass();
    ctx.job = Job::begin(gateway, (agent, &call.capability), ctx.who.id, (&method, &request.headers))?;
    ctx.upstream = Some(call.upstream.name.as_str().into());
    let proxied = ProxiedCall {
        call: call.clone(),
        target,
        headers,
        sent: 0,
        sent_max: limit,
        interim: 0,
        received: 0,
        failure: None,
        affinity: affinity(call, ctx, session),
        picked: None,
        tried: Vec::new(),
    };
    match whole {
        None => Ok(Some(proxied)),
        // Boxed, so that requests that are not served this way do not carry its size.
        Some(body) => {
            Box::pin(serving::serve(gateway, session, ctx, (agent, proxied, body), variables)).await.map(|()| None)
        }
    }
}

/// What ties a call to one of several servers: its session, else its caller's address.
fn affinity(call: &Call, ctx: &RequestCtx, session: &Session) -> Option<Affinity> {
    if !call.upstream.is_balanced() {
        return None;
    }
    match session.req_header().headers.get(SESSION_HEADER) {
        Some(id) => Some(Affinity::of(id.as_bytes())),
        None => ctx.client.map(|address| Affinity::of(address.to_string().as_bytes())),
    }
}

/// Reads a body that must be seen; `None` where it only had to be looked at, and can't be read.
fn receive(call: &Call, headers: &HeaderMap, body: &[u8]) -> Result<Option<Received>, Refusal> {
    match call.capability.receive(headers, body) {
        Ok(received) => Ok(Some(received)),
        Err(refused)
            if call.capability.validation().mode() == Validate::Warn && !call.capability.sender().converts() =>
        {
            warn!(capability = call.capability.id(), "a request breaks the capability's schema: {refused}");
            Ok(None)
        }
        Err(refused) => Err(told(call, refused)),
    }
}

fn validate(call: &Call, input: &Input<'_>) -> Result<(), Refusal> {
    let validation = call.capability.validation();
    if validation.mode() == Validate::Off {
        return Ok(());
    }
    let Err(refused) = validation.check(input) else { return Ok(()) };
    if validation.mode() == Validate::Warn {
        warn!(capability = call.capability.id(), "a request breaks the capability's schema: {refused}");
        return Ok(());
    }
    Err(told(call, refused))
}

/// What a caller is told of a request that is refused.
fn told(call: &Call, refused: Refused) -> Refusal {
    let code = match &refused {
        Refused::Input(_) => ErrorCode::InvalidInput,
        Refused::Json(_) => ErrorCode::InvalidJson,
        Refused::MediaType(_) => ErrorCode::UnsupportedMediaType,
        Refused::Schema(problem) => {
            warn!(capability = call.capability.id(), "{problem}");
            return Refusal::internal();
        }
    };
    let message = refused.to_string();
    let details = match refused {
        Refused::Input(violations) => serde_json::to_value(violations).ok().map(Box::new),
        _ => None,
    };
    Refusal { details, ..Refusal::new(code, message) }
}

/// Counts a service's failure and says what its caller is told.
pub(in crate::gateway) fn failed(gateway: &Gateway, call: &Call, error: &net::Error) -> Refusal {
    let refusal = Refusal::from(error);
    warn!(capability = call.capability.id(), upstream = %call.upstream.name, "{error}");
    gateway.metrics.upstream_error(&call.upstream.name, refusal.code.as_str());
    refusal
}

/// The head of the answer as the caller gets it.
pub(in crate::gateway) fn caller_head(
    agent: &Agent,
    proxied: &ProxiedCall,
    status: StatusCode,
    sent: &HeaderMap,
) -> Result<ResponseHeader, Refusal> {
    let call = &proxied.call;
    let back = Return {
        table: &agent.table,
        capability: &call.capability,
        service: &call.service,
        target: &proxied.target,
        base: &agent.base_path,
    };
    let headers = response_headers(&back, status, sent).map_err(|refused| {
        debug!(capability = call.capability.id(), "{refused}");
        Refusal::new(
            ErrorCode::UpstreamError,
            "the service behind this agent answered with an upgrade that nobody asked for",
        )
    })?;
    if let (Some(most), Some(length)) = (call.capability.settings().route.response_body, headers.get(CONTENT_LENGTH))
        && length.to_str().ok().and_then(|length| length.parse::<u64>().ok()).is_some_and(|length| length > most)
    {
        return Err(too_long());
    }
    let mut head = ResponseHeader::build(status, Some(headers.len() + 4)).map_err(|_| Refusal::internal())?;
    for (name, value) in &headers {
        head.append_header(name.clone(), value.clone()).map_err(|_| Refusal::internal())?;
    }
    Ok(head)
}

/// Whether these bytes bring the answer over `route.response_body`.
pub(in crate::gateway) fn exceeds(proxied: &mut ProxiedCall, bytes: usize) -> bool {
    proxied.received += bytes as u64;
    proxied.call.capability.settings().route.response_body.is_some_and(|most| proxied.received > most)
}

fn too_long() -> Refusal {
    Refusal::new(ErrorCode::InvalidOutput, "the service's answer is over this capability's limit; ask for less")
}

/// Whether an answer has no body, whatever its head says.
pub(in crate::gateway) fn is_bodiless(status: StatusCode) -> bool {
    status == StatusCode::NO_CONTENT || status == StatusCode::NOT_MODIFIED || status.is_informational()
}

impl From<InvalidPath> for Refusal {
    fn from(error: InvalidPath) -> Self {
        Self::new(ErrorCode::InvalidPath, error.to_string())
    }
}

impl From<crate::restap::hop_count::LoopDetected> for Refusal {
    fn from(error: crate::restap::hop_count::LoopDetected) -> Self {
        Self::new(ErrorCode::LoopDetected, error.to_string())
    }
}

impl From<crate::restap::NotAcceptable> for Refusal {
    fn from(error: crate::restap::NotAcceptable) -> Self {
        Self::new(ErrorCode::NotAcceptable, error.to_string())
    }
}
