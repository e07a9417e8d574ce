//! A call that our own client carries on: the service is asked, and its answer passes as it comes or is mapped whole.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, EXPECT, HeaderMap, TRANSFER_ENCODING};
use http::{Method, Version};
use pingora::proxy::Session;
use tracing::warn;

use super::whole::Whole;
use super::{Call, ProxiedCall, cached, caller_head, exceeds, failed, is_bodiless, mapping};
use crate::capability::Variables;
use crate::gateway::Gateway;
use crate::gateway::ctx::RequestCtx;
use crate::gateway::error::Refusal;
use crate::gateway::live::Agent;
use crate::gateway::respond::{self, Failed};
use crate::net;
use crate::upstream::{Affinity, Seat};

/// How long the head of an answer waits for the first bytes of its body.
const FIRST_BYTES: Duration = Duration::from_millis(250);

/// How the service is asked.
pub(super) struct Asking<'a> {
    pub gateway: &'a Gateway,
    pub call: &'a Arc<Call>,
    pub method: Method,
    pub variables: Variables,
    /// Bytes of an answer that is read whole.
    pub limit: u64,
    affinity: Option<Affinity>,
    deadline: Option<Instant>,
}

/// An answer that passes as it comes, of which some bytes may have come.
pub(super) struct Passing {
    pub response: net::Response,
    pub first: Bytes,
}

/// Asks the service with our own client.
pub(super) async fn serve(
    gateway: &Gateway,
    session: &mut Session,
    ctx: &mut RequestCtx,
    (agent, mut proxied, body): (&Agent, ProxiedCall, Bytes),
    variables: Variables,
) -> Result<(), Failed> {
    let call = proxied.call.clone();
    // The body is here: the service need not be asked whether it wants it.
    proxied.headers.remove(EXPECT);
    let target = proxied.target.path_and_query().parse().map_err(|_| Refusal::internal())?;
    let request = net::Request {
        method: proxied.target.method().clone(),
        target,
        headers: std::mem::take(&mut proxied.headers),
        body,
        coding: if call.capability.receiver().maps() { net::Coding::Decoded } else { net::Coding::AsSent },
        timeouts: call.timeouts.into(),
    };
    let asking = Asking {
        gateway,
        call: &call,
        method: request.method.clone(),
        variables,
        limit: ctx.live.limits.response,
        affinity: proxied.affinity,
        deadline: call.total.map(|total| Instant::now() + total),
    };
    if let Some(asked) = cached::asked(session, ctx, (agent, &asking), &request) {
        return Box::pin(cached::answer(session, ctx, (agent, proxied, &asking), (asked, request))).await;
    }
    let response = tokio::select! {
        biased;
        response = asking.send(request) => response?,
        _ = session.downstream_session.read_body_or_idle(true) => return Err(respond::gone()),
    };
    if mapping::reads(&call, &asking.method, &response) {
        let whole = tokio::select! {
            biased;
            whole = mapping::answer(&asking, response) => whole?,
            _ = session.downstream_session.read_body_or_idle(true) => return Err(respond::gone()),
        };
        return whole.write(session, ctx, (agent, &proxied)).await;
    }
    pass(session, ctx, (agent, &mut proxied, &asking), Passing { response, first: Bytes::new() }).await
}

impl Asking<'_> {
    /// Waits for the head of the answer.
    pub(super) async fn send(&self, request: net::Request) -> Result<net::Response, Refusal> {
        let seat = Seat::default();
        let sending = Box::pin(self.call.upstream.send_following(request, self.affinity, &seat));
        self.within(sending).await.map_err(|error| failed(self.gateway, self.call, &error))
    }

    /// The next part of the body.
    pub(super) async fn chunk(&self, response: &mut net::Response) -> Result<Option<Bytes>, Refusal> {
        self.within(response.chunk()).await.map_err(|error| failed(self.gateway, self.call, &error))
    }

    async fn within<T>(&self, asking: impl Future<Output = Result<T, net::Error>>) -> Result<T, net::Error> {
        let Some(deadline) = self.deadline else { return asking.await };
        let after = deadline.saturating_duration_since(Instant::now());
        let timed_out = Err(net::Error::Timeout { timer: net::Timer::Total, after });
        tokio::time::timeout_at(deadline.into(), asking).await.unwrap_or(timed_out)
    }
}

/// Passes an answer on as it comes.
pub(super) async fn pass(
    session: &mut Session,
    ctx: &mut RequestCtx,
    (agent, proxied, asking): (&Agent, &mut ProxiedCall, &Asking<'_>),
    Passing { mut response, first }: Passing,
) -> Result<(), Failed> {
    let call = asking.call;
    let mut head = caller_head(agent, proxied, response.status, &response.headers)?;
    let bodiless = asking.method == Method::HEAD || is_bodiless(response.status);
    if !bodiless && !head.headers.contains_key(CONTENT_LENGTH) {
        match session.req_header().version {
            Version::HTTP_11 => head.insert_header(TRANSFER_ENCODING, "chunked").map_err(Failed::gone)?,
            Version::HTTP_10 => session.set_keepalive(None),
            _ => {}
        }
    }
    // A service that breaks off at once can still be told of with a status.
    let is_stream = is_event_stream(&response.headers);
    let mut first = (!first.is_empty()).then_some(Ok(Some(first)));
    if !bodiless && !is_stream && first.is_none() {
        tokio::select! {
            biased;
            chunk = asking.chunk(&mut response) => match chunk {
                Err(refusal) => return Err(refusal.into()),
                chunk => first = Some(chunk),
            },
            () = tokio::time::sleep(FIRST_BYTES) => {}
            _ = session.downstream_session.read_body_or_idle(true) => return Err(respond::gone()),
        }
    }
    ctx.finish_head(&mut head).map_err(Failed::gone)?;
    ctx.told(&[], bodiless);
    session.write_response_header(Box::new(head), bodiless).await.map_err(Failed::gone)?;
    if bodiless {
        return Ok(());
    }
    loop {
        let chunk = if let Some(chunk) = first.take() {
            chunk
        } else {
            tokio::select! {
                biased;
                chunk = asking.chunk(&mut response) => chunk,
                _ = session.downstream_session.read_body_or_idle(true) => return Err(respond::gone()),
            }
        };
        match chunk {
            Ok(Some(bytes)) if exceeds(proxied, bytes.len()) => {
                warn!(capability = call.capability.id(), "the answer is over route.response_body and was cut");
                return Err(respond::gone());
            }
            Ok(Some(bytes)) => {
                ctx.told(&bytes, false);
                session.write_response_body(Some(bytes), false).await.map_err(Failed::gone)?;
            }
            Ok(None) => {
                ctx.told(&[], true);
                return session.write_response_body(None, true).await.map_err(Failed::gone);
            }
            // The head is out, so all that is left is not to end the body as if it were whole.
            Err(_) => return Err(respond::gone()),
        }
    }
}

/// Whether an answer is one that may go on for as long as its service likes.
pub(super) fn is_event_stream(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|it| it.as_bytes().starts_with(b"text/event-stream"))
}

/// An answer that only passes, for who has it already.
pub(super) fn unchanged(session: &Session, passing: &Passing) -> Option<Whole> {
    let Passing { response, .. } = passing;
    let known = crate::cache::is_unchanged(&session.req_header().headers, response.status, &response.headers);
    known.then(|| Whole::unchanged(response.headers.clone()))
}
