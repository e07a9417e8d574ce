//! The hook table: what happens to a request, in the order in which Pingora calls it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::Version;
use http::header::{HOST, TRANSFER_ENCODING};
use pingora::http::{RequestHeader, ResponseHeader};
use pingora::modules::http::HttpModules;
use pingora::proxy::{FailToProxy, ProxyHttp, Session};
use pingora::upstreams::peer::HttpPeer;
use pingora::{Error, ErrorSource, ErrorType, Result};

use tracing::error;

use super::access_log::Outcome;
use super::ctx::RequestCtx;
use super::error::Refusal;
use super::handler::capability;
use super::respond::{self, Failed};
use super::stall::{self, Unlogged};
use super::{Gateway, access_log, admission, body, handler, who};
use crate::front::Listen;
use crate::net;
use crate::upstream::{CONNECTIONS_MAX, Unavailable, is_failure};

/// How long a caller may take to read what was written.
const WRITE_TIMEOUT: Duration = Duration::from_mins(1);

/// How long the rest of a body that nobody wants is read, so that its connection can be used again.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Pingora's view of the gateway: what stands behind one of its doors.
pub(super) struct Proxy {
    pub gateway: Arc<Gateway>,
    /// The agents' own listener; `None` where callers are served.
    pub agent_side: Option<Arc<Listen>>,
}

#[async_trait]
impl ProxyHttp for Proxy {
    type CTX = RequestCtx;

    fn new_ctx(&self) -> RequestCtx {
        let gateway = &self.gateway;
        let mut ctx = RequestCtx::new(gateway.live.load_full(), gateway.drain.enter(), &gateway.metrics);
        ctx.agent_side.clone_from(&self.agent_side);
        ctx
    }

    /// None: answers are compressed where they are made, and a service's bytes pass as they are.
    fn init_downstream_modules(&self, _: &mut HttpModules) {}

    async fn request_filter(&self, session: &mut Session, ctx: &mut RequestCtx) -> Result<bool> {
        session.set_read_timeout(Some(ctx.live.limits.body_timeout));
        session.set_write_timeout(Some(WRITE_TIMEOUT));
        session.set_total_drain_timeout(Some(DRAIN_TIMEOUT));
        // What is left of a body is read, or `respond::refuse` closes: not so every answer that comes before its end,
        // of which `100 Continue` would be one.
        session.downstream_session.set_close_on_response_before_downstream_finish(false);
        let failed = match admission::admit(session, ctx) {
            Ok(route) => match who::admit(&self.gateway, session, ctx, &route).await {
                Ok(()) => handler::answer(&self.gateway, session, ctx, route).await,
                Err(failed) => Err(failed),
            },
            Err(refusal) => Err(refusal.into()),
        };
        let told = match failed {
            Ok(false) if session.is_http2() && !session.downstream_session.is_body_done() => {
                ctx.unlogged = Some(Unlogged::new(&self.gateway, &session.req_header().method));
                stall::begin(ctx.live.limits.body_timeout);
                return Ok(false);
            }
            Ok(answered) => return Ok(answered),
            Err(Failed::Refused(refusal)) => respond::refuse(session, ctx, &refusal).await,
            Err(gone) => Err(gone),
        };
        match told {
            Ok(()) => Ok(true),
            Err(Failed::Gone(error)) => Err(error),
            Err(Failed::Refused(_)) => internal("a refusal was refused"),
        }
    }

    async fn upstream_peer(&self, _: &mut Session, ctx: &mut RequestCtx) -> Result<Box<HttpPeer>> {
        let Some(proxied) = &mut ctx.proxied else { return internal("no call to pass on") };
        let picked = match proxied.call.upstream.pick(proxied.affinity, &proxied.tried) {
            Ok(picked) => &*proxied.picked.insert(picked),
            Err(Unavailable { retry_after }) => {
                let failure = net::Error::Unavailable { retry_after };
                proxied.failure = Some(capability::failed(&self.gateway, &proxied.call, &failure));
                return Err(Error::new_up(ErrorType::ConnectError));
            }
        };
        proxied.tried.push(picked.index());
        match picked.peer().http_peer().await {
            Ok(peer) => Ok(peer),
            Err(error) => {
                proxied.failure = Some(capability::failed(&self.gateway, &proxied.call, &error));
                Err(Error::new_up(ErrorType::ConnectError))
            }
        }
    }

    fn fail_to_connect(
        &self,
        _: &mut Session,
        peer: &HttpPeer,
        ctx: &mut RequestCtx,
        mut error: Box<Error>,
    ) -> Box<Error> {
        let (Some(proxied), Some(address)) = (&mut ctx.proxied, peer._address.as_inet()) else { return error };
        if let Some(picked) = &proxied.picked {
            picked.peer().avoid(*address);
        }
        let again = proxied.tried.len() < CONNECTIONS_MAX as usize;
        if again && let Some(picked) = proxied.picked.take() {
            picked.record(false);
        }
        if !again {
            let cause = net::connect_error(&error, proxied.call.timeouts.connect);
            let failure = net::Error::Connect { address: *address, cause };
            proxied.failure = Some(capability::failed(&self.gateway, &proxied.call, &failure));
        }
        error.set_retry(again);
        error
    }

    async fn upstream_request_filter(
        &self,
        _: &mut Session,
        upstream_request: &mut RequestHeader,
        ctx: &mut RequestCtx,
    ) -> Result<()> {
        let Some(proxied) = &ctx.proxied else { return internal("no call to pass on") };
        let target = proxied.target.path_and_query().as_bytes();
        let mut request = RequestHeader::build(proxied.target.method().clone(), target, Some(proxied.headers.len()))?;
        for (name, value) in &proxied.headers {
            request.append_header(name.clone(), value.clone())?;
        }
        if let Some(picked) = proxied.picked.as_ref().filter(|_| proxied.call.upstream.is_balanced()) {
            request.insert_header(HOST, picked.authority())?;
        }
        // Pingora asks an HTTP/2 request how it ends, and panics where it is none any more.
        request.set_version(upstream_request.version);
        request.set_send_end_stream(upstream_request.send_end_stream().unwrap_or(true));
        *upstream_request = request;
        Ok(())
    }

    async fn request_body_filter(
        &self,
        _: &mut Session,
        body: &mut Option<Bytes>,
        end: bool,
        ctx: &mut RequestCtx,
    ) -> Result<()> {
        stall::came(end);
        let Some(proxied) = &mut ctx.proxied else { return Ok(()) };
        proxied.sent += body.as_ref().map_or(0, |body| body.len() as u64);
        match proxied.sent_max {
            Some(most) if proxied.sent > most => {
                proxied.failure = Some(body::too_large(most));
                Err(Error::new_down(ErrorType::HTTPStatus(413)))
            }
            _ => Ok(()),
        }
    }

    async fn response_filter(
        &self,
        session: &mut Session,
        response: &mut ResponseHeader,
        ctx: &mut RequestCtx,
    ) -> Result<()> {
        let (Some(proxied), Some(agent)) = (&mut ctx.proxied, &ctx.agent) else { return Ok(()) };
        proxied.interim += usize::from(response.status.is_informational());
        if proxied.interim > net::INTERIM_MAX {
            let failure = net::Error::Protocol("too many interim answers");
            proxied.failure = Some(capability::failed(&self.gateway, &proxied.call, &failure));
            return Err(Error::new_up(ErrorType::InvalidHTTPHeader));
        }
        let mut head = match capability::caller_head(agent, proxied, response.status, &response.headers) {
            Ok(head) => head,
            Err(refusal) => {
                proxied.failure = Some(refusal);
                return Err(Error::new_up(ErrorType::InvalidHTTPHeader));
            }
        };
        head.set_version(response.version);
        let chunked = response.headers.contains_key(TRANSFER_ENCODING) && !capability::is_bodiless(response.status);
        if chunked && session.req_header().version == Version::HTTP_11 {
            head.insert_header(TRANSFER_ENCODING, "chunked")?;
        }
        if !response.status.is_informational() {
            // Before its caller can ask again, which must find the service as this answer says it is.
            if let Some(picked) = &proxied.picked {
                picked.record(!is_failure(response.status));
            }
            ctx.finish_head(&mut head)?;
            ctx.told(&[], false);
        }
        *response = head;
        Ok(())
    }

    fn response_body_filter(
        &self,
        _: &mut Session,
        body: &mut Option<Bytes>,
        end: bool,
        ctx: &mut RequestCtx,
    ) -> Result<Option<Duration>> {
        let length = body.as_ref().map_or(0, Bytes::len);
        if ctx.proxied.as_mut().is_some_and(|proxied| capability::exceeds(proxied, length)) {
            return Err(Error::new_up(ErrorType::InvalidHTTPHeader));
        }
        ctx.told(body.as_deref().unwrap_or_default(), end);
        Ok(None)
    }

    async fn fail_to_proxy(&self, session: &mut Session, error: &Error, ctx: &mut RequestCtx) -> FailToProxy {
        let over = |error_code| FailToProxy { error_code, can_reuse_downstream: false };
        let known = ctx.proxied.as_mut().and_then(|proxied| proxied.failure.take());
        let answered = session.response_written().is_some_and(|head| !head.status.is_informational());
        let Some(refusal) = known.or_else(|| self.refusal(error, ctx)).filter(|_| !answered) else { return over(0) };
        let code = refusal.code.status().as_u16();
        let told = respond::refuse(session, ctx, &refusal).await;
        FailToProxy {
            error_code: code,
            // What the caller has still to send was promised to a service that is gone.
            can_reuse_downstream: told.is_ok() && session.downstream_session.is_body_done(),
        }
    }

    async fn logging(&self, session: &mut Session, error: Option<&Error>, ctx: &mut RequestCtx) {
        ctx.end_job(error.is_none());
        if let Some(picked) = ctx.proxied.as_ref().and_then(|proxied| proxied.picked.as_ref()) {
            // A caller that left before there was an answer says nothing of the service.
            if error.is_some_and(|error| *error.esource() == ErrorSource::Upstream) {
                picked.record(false);
            }
        }
        ctx.unlogged = None;
        let outcome = Outcome {
            method: &session.req_header().method,
            // 499 is what nginx calls a caller that left before its answer.
            status: session.response_written().map_or(499, |head| head.status.as_u16()),
            bytes: session.body_bytes_sent(),
        };
        access_log::write(&self.gateway, &outcome, ctx);
    }

    /// Pingora's own summary shows the query, where a session id may stand.
    fn request_summary(&self, _: &Session, ctx: &RequestCtx) -> String {
        format!("route {}", ctx.route)
    }

    fn suppress_error_log(&self, _: &Session, _: &RequestCtx, _: &Error) -> bool {
        true
    }
}

impl Proxy {
    /// What the caller of a passed call is told when Pingora fails; `None` where it is gone.
    fn refusal(&self, error: &Error, ctx: &RequestCtx) -> Option<Refusal> {
        match error.esource() {
            ErrorSource::Downstream => respond::unreadable(error),
            ErrorSource::Upstream => {
                let call = &ctx.proxied.as_ref()?.call;
                let failure = match error.etype() {
                    ErrorType::ReadTimedout => {
                        net::Error::Timeout { timer: net::Timer::Idle, after: call.timeouts.idle }
                    }
                    ErrorType::WriteTimedout => net::Error::Timeout { timer: net::Timer::Write, after: WRITE_TIMEOUT },
                    ErrorType::ConnectionClosed => net::Error::Truncated,
                    ErrorType::InvalidHTTPHeader | ErrorType::H1Error => net::Error::Protocol("the head of the answer"),
                    _ => net::Error::Reset,
                };
                Some(capability::failed(&self.gateway, call, &failure))
            }
            ErrorSource::Internal | ErrorSource::Unset => {
                error!(route = %ctx.route, "a request failed inside the gateway: {}", error.etype().as_str());
                Some(Refusal::internal())
            }
        }
    }
}

fn internal<T>(message: &'static str) -> Result<T> {
    Error::e_explain(ErrorType::InternalError, message)
}
