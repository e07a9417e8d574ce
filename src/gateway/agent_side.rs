//! The agent's own listener: which agent calls, and which of its paths. Callers never come here.

use std::collections::HashMap;
use std::sync::Arc;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use pingora::proxy::Session;

use super::admission::Route;
use super::ctx::RequestCtx;
use super::error::Refusal;
use super::fields;
use super::handler::query::QUERIES;
use super::live::Agent;
use super::router::{self, Fixed};
use crate::capability::{InvalidPath, NormalPath};
use crate::egress::definition;
use crate::front::{Listen, is_foreign, is_own_name};
use crate::restap::ErrorCode;
use crate::yaml::Secret;

/// Which agent a token is the token of, listener by listener. Tokens are known by their hashes alone, so that how long a
/// comparison takes says nothing about one.
#[derive(Debug, Default)]
pub(super) struct Tokens(HashMap<(Listen, [u8; blake3::OUT_LEN]), Arc<Agent>>);

impl Tokens {
    pub(super) fn add(&mut self, listen: &Listen, token: &Secret, agent: &Arc<Agent>) {
        let hash = blake3::hash(token.expose().as_bytes());
        self.0.insert((listen.clone(), hash.into()), Arc::clone(agent));
    }

    fn find(&self, listen: &Listen, token: &[u8]) -> Option<&Arc<Agent>> {
        self.0.get(&(listen.clone(), blake3::hash(token).into()))
    }
}

/// Judges a request of an agent and finds its route: the tool, and the agent's news and queries as their owner.
pub(super) fn admit(session: &Session, ctx: &mut RequestCtx, listen: &Listen) -> Result<Route, Refusal> {
    let request = session.req_header();
    let host = router::host(&request.headers, &request.uri);
    if is_foreign(&request.headers) || !(host.is_empty() || is_own_name(&host)) {
        let message = "this listener is for the agent on this machine alone; ask it by IP address or localhost";
        return Err(Refusal::new(ErrorCode::Forbidden, message));
    }
    let live = ctx.live.clone();
    let agent = bearer(&request.headers)?.and_then(|token| live.tokens.find(listen, token));
    let agent = agent.ok_or_else(|| {
        let message = "send the agent's own token, the `rest.token` of gateway.yaml, as Authorization: Bearer TOKEN";
        Refusal::new(ErrorCode::Unauthorized, message)
    })?;
    ctx.agent = Some(Arc::clone(agent));
    let target = std::str::from_utf8(request.raw_path()).map_err(|_| InvalidPath::NotUtf8)?;
    let path: NormalPath = target.split('?').next().unwrap_or_default().parse()?;
    ctx.path = path.as_str().into();
    let (name, allow, route) = match path.as_str() {
        text if text.strip_prefix('/') == Some(definition::NAME) => {
            (definition::NAME, "GET, HEAD, POST", Route::Tool(Arc::clone(agent)))
        }
        "/news" if agent.news.is_some() => ("news", "GET, HEAD, POST", fixed(agent, Fixed::News, path)),
        text if agent.talk.is_some() && text.strip_prefix(QUERIES).is_some_and(|id| !id.is_empty()) => {
            ("query", "GET, HEAD", fixed(agent, Fixed::Query, path))
        }
        _ => {
            let message =
                "the agent's own listener has /rest_request, and /news and /query/{id} where the agent has them";
            return Err(Refusal::new(ErrorCode::NotFound, message));
        }
    };
    ctx.route = name.into();
    if allow.split(", ").any(|method| method == request.method.as_str()) {
        Ok(route)
    } else {
        Err(Refusal::method_not_allowed(allow.to_owned()))
    }
}

fn fixed(agent: &Arc<Agent>, fixed: Fixed, path: NormalPath) -> Route {
    Route::Fixed(Arc::clone(agent), fixed, path)
}

fn bearer(headers: &HeaderMap) -> Result<Option<&[u8]>, Refusal> {
    let Some(sent) = fields::single(headers, &AUTHORIZATION)? else { return Ok(None) };
    let (scheme, token) = sent.split_at_checked("Bearer ".len()).unwrap_or_default();
    Ok(scheme.eq_ignore_ascii_case(b"Bearer ").then(|| token.trim_ascii()))
}
