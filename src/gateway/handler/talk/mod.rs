//! `POST /talk`, top to bottom.

mod audience;
mod conversing;
mod follow;
mod kept;
pub(in crate::gateway) mod later;
mod preference;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::header::ACCEPT;
use pingora::proxy::Session;
use prometheus::IntGauge;

use crate::gateway::ctx::RequestCtx;
use crate::gateway::error::Refusal;
use crate::gateway::live::{Agent, Talk};
use crate::gateway::respond::{self, Answer, Failed};
use crate::gateway::thread::{Patience, Thread};
use crate::gateway::{Gateway, body, fields};
use crate::restap::talk::TalkRequest;
use crate::restap::{Delivery, ErrorCode, HopCount, Prefer};
use crate::store::settings::NewsSessions;
use crate::talk::Ending;
use audience::{Audience, Caller};
use conversing::{Conversing, Replied};
use kept::Once;
use preference::Later;

/// Streams that one agent keeps open.
const STREAMS_MAX: usize = 1_000;

/// Answers a talk, or ends it when its caller leaves.
pub(in crate::gateway) async fn answer(
    gateway: &Arc<Gateway>,
    session: &mut Session,
    ctx: &mut RequestCtx,
    (agent, talk): (&Arc<Agent>, &Arc<Talk>),
) -> Result<(), Failed> {
    let headers = &session.req_header().headers;
    let accept = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let delivery = Delivery::negotiate(accept, talk.streaming)?;
    fields::require_json(headers)?;
    let named = fields::session_header(headers)?;
    let key = fields::idempotency_key(headers)?;
    let prefer = Prefer::read(headers);
    let hops = HopCount::read(headers)?;
    let limits = ctx.live.limits;
    let body = body::read(session, ctx, limits.body, limits.body_timeout).await?;
    let request = TalkRequest::parse(&body, named)?;
    let later = Later::of(prefer, &request.dispatch, delivery);

    let key = key.or_else(|| request.dispatch.dispatch_id.clone());
    let once = match key {
        Some(key) => {
            let once = Once::new(gateway, (agent, ctx.who.id), (&key, request.session_id.as_ref(), &body));
            match once.claim(gateway).await? {
                kept::Claimed::First(once) => Some(once),
                kept::Claimed::Answered(kept) => return kept.give(session, ctx, delivery).await,
            }
        }
        None => None,
    };
    let _open = (delivery == Delivery::Stream).then(|| OpenStream::count(gateway, agent)).transpose()?;
    let asked = later::Asked {
        session_id: request.session_id.clone(),
        message: request.message,
        dispatch: request.dispatch,
        hops: hops.next(),
        request_id: ctx.id.clone(),
        who: ctx.who.clone(),
    };
    let upstream = talk.upstream.as_ref().map(|upstream| upstream.name.as_str().into());
    open_feed(gateway, agent, &asked).await?;
    let mut caller = Caller::new(session, ctx);
    if let Some(later) = later {
        let accepted = later::begin(gateway, (agent, talk), (later, asked), once);
        let accepted = while_there(&mut caller, accepted).await??;
        caller.ctx.upstream = upstream;
        return accepted.answer(caller.session, caller.ctx).await;
    }
    let thread = if talk.continues() {
        let opening = Thread::open(
            &gateway.store,
            &gateway.queues,
            (agent.id, asked.who.id, talk),
            (asked.session_id, Patience::CALLER),
        );
        Some(while_there(&mut caller, opening).await??)
    } else {
        None
    };
    caller.ctx.upstream = upstream;
    let mut conversing = Conversing {
        gateway: gateway.clone(),
        agent: agent.clone(),
        talk: talk.clone(),
        thread,
        message: asked.message,
        hops: asked.hops,
        request_id: asked.request_id,
        who: asked.who,
        news: None,
        once,
        seat: Arc::default(),
    };
    conversing.read_news().await;
    let Replied { ending, failure } = conversing.run(&mut caller, delivery).await?;
    caller.ctx.refused = failure.map(|failure| failure.code);
    match ending {
        // What came before the end is written already.
        Ending::Stream { end, .. } => caller.end(end).await,
        Ending::Reply(reply) => {
            let body = serde_json::to_vec(&reply).map_err(|_| Refusal::internal())?;
            respond::send(session, ctx, Answer::json(body)).await
        }
        Ending::Refused(failure) => Err(Refusal::from(failure).into()),
    }
}

/// The first that a session is used with owns its feed. Where nobody is ever known, nobody owns one.
async fn open_feed(gateway: &Gateway, agent: &Agent, asked: &later::Asked) -> Result<(), Refusal> {
    let (Some(session), Some(news), Some(_)) = (&asked.session_id, agent.news, &agent.guard) else { return Ok(()) };
    if news.sessions != NewsSessions::Ignored {
        let feed = gateway.store.keys().feed(agent.id, Some(session));
        gateway.store.open_feed(feed, asked.who.id).await?;
    }
    Ok(())
}

/// Waits for something on behalf of a caller, who may leave meanwhile.
async fn while_there<T>(caller: &mut Caller<'_>, waiting: impl Future<Output = T>) -> Result<T, Failed> {
    tokio::select! {
        biased;
        done = waiting => Ok(done),
        () = caller.gone() => Err(respond::gone()),
    }
}

/// Counts an open stream for as long as it lives.
struct OpenStream {
    open: Arc<AtomicUsize>,
    gauge: IntGauge,
}

impl OpenStream {
    fn count(gateway: &Gateway, agent: &Agent) -> Result<Self, Refusal> {
        let gauge = gateway.metrics.streams(&agent.key);
        gauge.inc();
        let stream = Self { open: agent.streams.clone(), gauge };
        if stream.open.fetch_add(1, Ordering::AcqRel) >= STREAMS_MAX {
            let message = "this agent has 1000 streams open; try again later, or ask for application/json";
            return Err(Refusal::new(ErrorCode::TooManyStreams, message).retry_after(5));
        }
        Ok(stream)
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::AcqRel);
        self.gauge.dec();
    }
}
