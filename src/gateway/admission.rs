//! What every request passes before its handler: its id, its host, its path, and the route that these lead to.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use http::header::{CONNECTION, CONTENT_LENGTH, ORIGIN, UPGRADE};
use http::{HeaderMap, HeaderValue, Method, Version};
use pingora::protocols::l4::socket::SocketAddr;
use pingora::proxy::Session;
use uuid::Uuid;

use super::agent_side;
use super::ctx::{REQUEST_ID, RequestCtx};
use super::error::Refusal;
use super::fields;
use super::handler::capability::Call;
use super::live::{Agent, Live};
use super::router::{self, Fixed};
use crate::capability::{Found, InvalidPath, NormalPath, Params};
use crate::front::Arrival;
use crate::restap::ErrorCode;

/// Characters of a caller's `X-Request-Id`.
const REQUEST_ID_MAX: usize = 128;

/// What answers a request.
#[derive(Debug)]
pub(super) enum Route {
    /// A fixed path of an agent; the rest of the path tells which capability document is asked for.
    Fixed(Arc<Agent>, Fixed, NormalPath),
    /// A capability.
    Capability(Arc<Agent>, Arc<Call>, Params),
    /// The origin of a gateway whose agents have bases of their own.
    Directory,
    /// `/.well-known/api-catalog`.
    ApiCatalog,
    /// The keys of all agents of an origin where none lives.
    KeyDirectory,
    /// The outbound tool, on the agent's own listener.
    Tool(Arc<Agent>),
    /// `OPTIONS`: the methods of the path.
    Options(String),
}

/// Judges a request's head and finds its route. What it learns stands in the ctx, also where it refuses.
pub(super) fn admit(session: &Session, ctx: &mut RequestCtx) -> Result<Route, Refusal> {
    let request = session.req_header();
    ctx.id = request_id(&request.headers);
    note_peer(session, ctx);
    ctx.arrival = Arrival::of(session.digest()).cloned().unwrap_or_default();
    let loopback = is_loopback(session.server_addr());
    ctx.cors = None;
    let live = ctx.live.clone();
    // HTTP/1 heads are held to this on their bytes; HTTP/2 may have sent it twice.
    fields::single(&request.headers, &CONTENT_LENGTH)?;
    refuse_upgrade(request.version, &request.headers)?;
    if let Some(listen) = ctx.agent_side.clone() {
        return agent_side::admit(session, ctx, &listen);
    }
    let host = router::host(&request.headers, &request.uri);
    if !live.serves_host(&host) {
        let message = "this gateway does not serve that Host; ask for the one that the agent is advertised by";
        return Err(Refusal::new(ErrorCode::Misdirected, message));
    }
    let target = std::str::from_utf8(request.raw_path()).map_err(|_| InvalidPath::NotUtf8)?;
    let path: NormalPath = target.split('?').next().unwrap_or_default().parse()?;
    ctx.path = path.as_str().into();
    let origin = request.headers.get(ORIGIN);
    find(&live, &host, &path, &request.method, ctx).inspect(|route| {
        ctx.cors = cors(route, ctx.agent.as_deref(), origin, loopback);
    })
}

fn find(live: &Live, host: &str, path: &NormalPath, method: &Method, ctx: &mut RequestCtx) -> Result<Route, Refusal> {
    let Some((agent, own)) = live.routes.find(host, path) else { return at_origin(path.as_str(), method, ctx) };
    ctx.agent = Some(agent.clone());
    if let Some(fixed) = Fixed::find(agent, own.as_str()) {
        ctx.route = fixed.name().into();
        return match fixed {
            Fixed::Reserved => Err(Refusal::not_found(&agent.base_path)),
            _ if *method == Method::OPTIONS => Ok(Route::Options(fixed.allow().to_owned())),
            _ if fixed.takes(method) => Ok(Route::Fixed(agent.clone(), fixed, own)),
            _ => Err(Refusal::method_not_allowed(fixed.allow().to_owned())),
        };
    }
    match agent.table.find(&own, method) {
        Found::Capability(capability, params) => {
            let call = agent.calls.get(capability.id()).ok_or_else(Refusal::internal)?.clone();
            ctx.route = call.name.clone();
            Ok(Route::Capability(agent.clone(), call, params))
        }
        Found::MethodNotAllowed(allow) => {
            let methods: Vec<&str> = allow.methods().iter().map(Method::as_str).chain(["OPTIONS"]).collect();
            let allow = methods.join(", ");
            if *method == Method::OPTIONS { Ok(Route::Options(allow)) } else { Err(Refusal::method_not_allowed(allow)) }
        }
        Found::NotFound => Err(Refusal::not_found(&agent.base_path)),
        Found::InvalidPath(problem) => Err(problem.into()),
    }
}

/// Where no agent lives: the directory at `/`, and the api-catalog.
fn at_origin(path: &str, method: &Method, ctx: &mut RequestCtx) -> Result<Route, Refusal> {
    let (name, route) = match path {
        "/" => ("directory", Route::Directory),
        "/.well-known/api-catalog" => ("api_catalog", Route::ApiCatalog),
        crate::signature::DIRECTORY_PATH => ("key_directory", Route::KeyDirectory),
        _ => {
            let message = "nothing is at this path; the agents that are here are listed at /";
            return Err(Refusal::new(ErrorCode::NotFound, message));
        }
    };
    ctx.route = name.into();
    let allow = "GET, HEAD, OPTIONS".to_owned();
    match *method {
        Method::GET | Method::HEAD => Ok(route),
        Method::OPTIONS => Ok(Route::Options(allow)),
        _ => Err(Refusal::method_not_allowed(allow)),
    }
}

/// The caller's id for the request, if a log can carry it, or a new one.
fn request_id(headers: &HeaderMap) -> HeaderValue {
    let sent = headers
        .get(REQUEST_ID)
        .filter(|id| (1..=REQUEST_ID_MAX).contains(&id.len()) && id.as_bytes().iter().all(u8::is_ascii_graphic));
    sent.cloned().unwrap_or_else(|| {
        // Unique and no secret: the kernel need not be asked for random bytes each time.
        let id = Uuid::from_u64_pair(*PROCESS, COUNT.fetch_add(1, Ordering::Relaxed));
        HeaderValue::try_from(id.to_string()).unwrap_or(HeaderValue::from_static("none"))
    })
}

/// What tells the request ids of this process from those of others, and how many it has made.
static PROCESS: LazyLock<u64> = LazyLock::new(|| Uuid::new_v4().as_u64_pair().0);
static COUNT: AtomicU64 = AtomicU64::new(0);

fn note_peer(session: &Session, ctx: &mut RequestCtx) {
    let peer = session.client_addr().and_then(SocketAddr::as_inet).map(|address| address.ip().to_canonical());
    ctx.peer = peer;
    ctx.from_trusted_proxy = peer.is_some_and(|peer| ctx.live.trusts(peer));
    ctx.client = if ctx.from_trusted_proxy { forwarded_for(&session.req_header().headers, &ctx.live) } else { None };
    ctx.client = ctx.client.or(peer);
}

/// The last address of `X-Forwarded-For` that is no proxy of ours.
fn forwarded_for(headers: &HeaderMap, live: &Live) -> Option<IpAddr> {
    let lines = headers.get_all("x-forwarded-for").iter().filter_map(|line| line.to_str().ok());
    let addresses: Vec<IpAddr> =
        lines.flat_map(|line| line.split(',')).map_while(|address| address.trim().parse().ok()).collect();
    addresses.into_iter().rev().find(|address| !live.trusts(*address))
}

fn is_loopback(listener: Option<&SocketAddr>) -> bool {
    match listener.and_then(SocketAddr::as_inet) {
        Some(address) => address.ip().to_canonical().is_loopback(),
        None => true,
    }
}

/// `h2c` is an offer that need not be taken; whatever else a caller wants to switch to is not served.
fn refuse_upgrade(version: Version, headers: &HeaderMap) -> Result<(), Refusal> {
    let offers = headers.get_all(UPGRADE).iter().filter_map(|value| value.to_str().ok());
    let other = offers.flat_map(|value| value.split(',')).any(|offer| !offer.trim().eq_ignore_ascii_case("h2c"));
    let nominated = headers.contains_key(CONNECTION);
    if version < Version::HTTP_2 && other && nominated {
        let message = "no other protocol is served here; send the request without Upgrade";
        return Err(Refusal::new(ErrorCode::UpgradeNotSupported, message));
    }
    Ok(())
}

/// What `Access-Control-Allow-Origin` says to a page of this origin.
fn cors(route: &Route, agent: Option<&Agent>, origin: Option<&HeaderValue>, loopback: bool) -> Option<HeaderValue> {
    const ANY: HeaderValue = HeaderValue::from_static("*");
    let public = match route {
        Route::Fixed(_, fixed, _) => fixed.is_public(),
        Route::Directory | Route::ApiCatalog | Route::KeyDirectory => true,
        Route::Capability(..) | Route::Tool(_) | Route::Options(_) => false,
    };
    match agent.and_then(|agent| agent.cors.as_ref()) {
        _ if public => Some(ANY),
        None => (!loopback).then_some(ANY),
        Some(origins) if origins.contains(&ANY) => Some(ANY),
        Some(origins) => origin.filter(|origin| origins.contains(origin)).cloned(),
    }
}
