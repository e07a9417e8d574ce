//! `POST /talk`, top to bottom.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use http::header::ACCEPT;
use http::{HeaderMap, Method};
use pingora::proxy::Session;
use prometheus::IntGauge;
use tracing::warn;

use crate::gateway::ctx::RequestCtx;
use crate::gateway::error::Refusal;
use crate::gateway::live::{Agent, Talk};
use crate::gateway::respond::{self, Answer, Failed};
use crate::gateway::thread::Thread;
use crate::gateway::{Gateway, body, fields, news_context};
use crate::net::{self, Response};
use crate::restap::talk::TalkRequest;
use crate::restap::{Delivery, ErrorCode, HopCount, hop_count};
use crate::talk::failure::Again;
use crate::talk::turn::{Carries, Timers};
use crate::talk::{Ending, Exchange, Failure, Opening, Prompt, Rendered, Step, Turn, history};
use crate::upstream::{Kind, Upstream};

/// Bytes of ready chunks that leave together.
const COALESCE_BYTES: usize = 16 << 10;

/// Streams that one agent keeps open.
const STREAMS_MAX: usize = 1_000;

/// Answers a talk, or ends it when its caller leaves.
pub(in crate::gateway) async fn answer(
    gateway: &Gateway,
    session: &mut Session,
    ctx: &mut RequestCtx,
    (agent, talk): (&Arc<Agent>, &Talk),
) -> Result<(), Failed> {
    let headers = &session.req_header().headers;
    let accept = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let delivery = Delivery::negotiate(accept, talk.streaming)?;
    fields::require_json(headers)?;
    let named = fields::session_header(headers)?;
    let hops = HopCount::read(headers)?;
    let limits = ctx.live.limits;
    let body = body::read(session, limits.body, limits.body_timeout).await?;
    let request = TalkRequest::parse(&body, named)?;
    let _open = (delivery == Delivery::Stream).then(|| OpenStream::count(gateway, agent)).transpose()?;

    let continued = if talk.continues() {
        let opening = Thread::open(&gateway.store, &gateway.queues, (agent.id, talk), request.session_id.clone());
        Some(while_there(session, opening).await??)
    } else {
        None
    };
    let mut conversing = Conversing {
        gateway,
        agent,
        talk,
        thread: continued,
        message: request.message,
        hops: hops.next(),
        request_id: ctx.id.clone(),
        news: None,
    };
    conversing.read_news().await;
    conversing.run(session, ctx, delivery).await
}

/// One talk under way.
struct Conversing<'a> {
    gateway: &'a Gateway,
    agent: &'a Arc<Agent>,
    talk: &'a Talk,
    thread: Option<Thread>,
    message: String,
    hops: http::HeaderValue,
    request_id: http::HeaderValue,
    /// The note that carries news to the model.
    news: Option<String>,
}

/// What the upstream does next.
enum Input {
    Head(Response),
    Chunk(Bytes),
    End,
    Broken(net::Error),
    CallerGone,
    Cut,
    Tick,
}

/// Where the exchange with the upstream is.
enum Wire<'a> {
    Sending(std::pin::Pin<Box<dyn Future<Output = Result<Response, net::Error>> + Send + 'a>>),
    Reading(Response),
    /// Nothing is asked, or no more is expected.
    Silent,
}

impl Wire<'_> {
    async fn next(&mut self) -> Input {
        match self {
            Self::Sending(sending) => match sending.await {
                Ok(response) => Input::Head(response),
                Err(error) => Input::Broken(error),
            },
            Self::Reading(response) => match response.chunk().await {
                Ok(Some(bytes)) => Input::Chunk(bytes),
                Ok(None) => Input::End,
                Err(error) => Input::Broken(error),
            },
            Self::Silent => std::future::pending().await,
        }
    }

    /// Ends the exchange. One whose end its content has proven may still give its connection back.
    fn let_go(self, turn: &Turn) {
        if let Self::Reading(response) = self
            && turn.outcome().reply.is_some()
        {
            tokio::spawn(response.release());
        }
    }

    /// A chunk that is there already.
    fn ready(&mut self) -> Option<Bytes> {
        match self {
            Self::Reading(response) => response.ready_chunk()?.ok().flatten(),
            _ => None,
        }
    }
}

impl<'a> Conversing<'a> {
    async fn read_news(&mut self) {
        let read = news_context::read(self.gateway, self.agent, self.talk, self.thread.as_mut()).await;
        // A talk goes on without its news rather than not at all.
        self.news = read.unwrap_or_else(|error| {
            warn!(agent = %self.agent.key, "news could not be read for a talk: {error}");
            None
        });
    }

    async fn run(mut self, session: &mut Session, ctx: &mut RequestCtx, delivery: Delivery) -> Result<(), Failed> {
        let all = self.thread.as_ref().map(Thread::exchanges).unwrap_or_default();
        let mut window = history::window(&all, self.talk.history.turns as usize, self.talk.history.tokens as usize);
        let mut turn = Turn::begin(self.opening(delivery, !window.is_empty()), Instant::now());
        let mut wire = Wire::Silent;
        let mut step = match &self.talk.upstream {
            Some(upstream) => {
                ctx.upstream = Some(upstream.name.as_str().into());
                wire = self.send(upstream, &turn, window);
                Step::Wait
            }
            None => turn.answer(&self.agent.guide.answer(&self.message), Instant::now()),
        };
        let mut out = Output { opened: false, pending: BytesMut::new() };
        let mut cut = self.gateway.drain.cut();
        loop {
            match step {
                Step::Wait => {}
                Step::Write(frames) => out.pending.extend_from_slice(&frames),
                Step::Retry(again) => {
                    if again == Again::WithHalfTheHistory {
                        window = history::half(window);
                    }
                    turn.again(Instant::now());
                    wire = match &self.talk.upstream {
                        Some(upstream) => self.send(upstream, &turn, window),
                        None => Wire::Silent,
                    };
                }
                Step::Pending(_) => {
                    wire = Wire::Silent;
                    step = turn.fail(answers_later());
                    continue;
                }
                Step::Over(ending) => {
                    wire.let_go(&turn);
                    self.finish(&turn, ctx).await;
                    return out.end(session, ctx, ending).await;
                }
            }
            if !out.pending.is_empty() {
                // Frames that are ready together leave in one write.
                if out.pending.len() < COALESCE_BYTES
                    && let Some(bytes) = wire.ready()
                {
                    step = turn.chunk(&bytes, Instant::now());
                    continue;
                }
                out.flush(session, ctx, false).await?;
            }
            let tick = turn.next_deadline().map_or_else(far_away, tokio::time::Instant::from_std);
            let input = tokio::select! {
                biased;
                input = wire.next() => input,
                _ = session.downstream_session.read_body_or_idle(true) => Input::CallerGone,
                () = tokio::time::sleep_until(tick) => Input::Tick,
                _ = cut.wait_for(|cut| *cut) => Input::Cut,
            };
            let now = Instant::now();
            step = match input {
                Input::Head(response) => {
                    let step = turn.head(response.status, &response.headers, now);
                    wire = Wire::Reading(response);
                    step
                }
                Input::Chunk(bytes) => turn.chunk(&bytes, now),
                Input::End => {
                    wire = Wire::Silent;
                    turn.end(now)
                }
                Input::Broken(error) => {
                    let reading = matches!(wire, Wire::Reading(_));
                    wire = Wire::Silent;
                    warn!(agent = %self.agent.key, "talk: {error}");
                    if reading { turn.reset(now) } else { turn.fail(failure(&error)) }
                }
                Input::Tick => turn.tick(now),
                Input::Cut => turn.fail(Failure::new(ErrorCode::ShuttingDown, Refusal::shutting_down().message)),
                Input::CallerGone => {
                    self.count(&turn);
                    return Err(Failed::Gone(respond::gone()));
                }
            };
        }
    }

    fn opening(&self, delivery: Delivery, has_history: bool) -> Opening {
        let timeouts = self.talk.upstream.as_ref().map(|upstream| upstream.timeouts(Kind::Talk));
        let saved = self.thread.as_ref().map(Thread::saved).unwrap_or_default();
        Opening {
            dialect: self.talk.dialect.clone(),
            streamed: self.talk.upstream_streaming,
            delivery,
            message_id: format!("msg_{}", uuid::Uuid::new_v4().simple()),
            session_id: self.thread.as_ref().map(|thread| thread.session_id.clone()),
            timers: timeouts.map_or_else(Timers::default, |timeouts| Timers {
                first_byte: timeouts.first_byte,
                idle: timeouts.idle,
                progress: timeouts.progress,
                total: timeouts.total,
            }),
            reply_limit: self.gateway.live.load().limits.response as usize,
            carries: match (has_history, saved.is_empty()) {
                (true, _) => Carries::History,
                (false, false) => Carries::Saved,
                (false, true) => Carries::Nothing,
            },
            saved,
            credential: self.talk.upstream.as_ref().and_then(|upstream| upstream.api_key.clone()),
        }
    }

    /// Asks the upstream. The request is rendered anew for each attempt.
    fn send<'u>(&self, upstream: &'u Arc<Upstream>, turn: &Turn, history: &[Exchange]) -> Wire<'u> {
        match self.request(upstream, turn, history) {
            Ok(request) => Wire::Sending(Box::pin(upstream.send(request))),
            Err(problem) => {
                warn!(agent = %self.agent.key, "talk: the request can't be rendered: {problem}");
                Wire::Sending(Box::pin(async { Err(net::Error::Protocol("the request can't be rendered")) }))
            }
        }
    }

    fn request(&self, upstream: &Upstream, turn: &Turn, history: &[Exchange]) -> Result<net::Request, String> {
        let key = self.thread.as_ref().map(|thread| thread.upstream_key(&self.gateway.store).to_string());
        let prompt = Prompt {
            message: &self.message,
            system: self.talk.system.as_deref(),
            news: self.news.as_deref(),
            history,
            model: self.talk.model.as_deref(),
            options: &self.talk.options,
            stream: self.talk.upstream_streaming,
            session_key: key.as_deref(),
            session_uuid: key.as_deref(),
            saved: turn.saved(),
            credential: upstream.api_key.as_ref(),
            request_id: uuid::Uuid::new_v4(),
            url_prefix: &upstream.url.prefix,
        };
        let Rendered { path_and_query, headers: rendered, body } =
            self.talk.dialect.request(&prompt).map_err(|problem| problem.to_string())?;
        let mut headers: HeaderMap = rendered.into_iter().collect();
        headers.insert(hop_count::HEADER, self.hops.clone());
        headers.insert(crate::gateway::ctx::REQUEST_ID, self.request_id.clone());
        upstream.set_headers(&mut headers);
        let target = upstream.target(&path_and_query).map_err(|problem| problem.to_string())?;
        // The turn has timers of its own, which know a keep-alive from progress.
        Ok(net::Request {
            method: Method::POST,
            target,
            headers,
            body,
            coding: net::Coding::AsSent,
            timeouts: net::Timeouts::default(),
        })
    }

    /// Keeps what is proven, before the caller reads that it is.
    async fn finish(&mut self, turn: &Turn, ctx: &mut RequestCtx) {
        self.count(turn);
        let outcome = turn.outcome();
        if let Some(failure) = &outcome.failure {
            ctx.refused = Some(failure.code);
            if let Some(upstream) = &self.talk.upstream {
                self.gateway.metrics.upstream_error(&upstream.name, failure.code.as_str());
            }
        }
        if let (Some(reply), Some(thread)) = (&outcome.reply, self.thread.take()) {
            let exchange = Exchange { user: std::mem::take(&mut self.message), assistant: reply.reply.clone() };
            thread.keep(&self.gateway.store, self.talk, exchange, turn.saved()).await;
        }
    }

    fn count(&self, turn: &Turn) {
        let outcome = turn.outcome();
        self.gateway.metrics.talk(&self.agent.key, outcome.deltas, outcome.first_delta);
    }
}

/// What is on its way to the caller.
struct Output {
    opened: bool,
    pending: BytesMut,
}

impl Output {
    async fn flush(&mut self, session: &mut Session, ctx: &mut RequestCtx, last: bool) -> Result<(), Failed> {
        if !std::mem::replace(&mut self.opened, true) {
            respond::open_stream(session, ctx).await?;
        }
        respond::write_frames(session, self.pending.split().freeze(), last).await
    }

    async fn end(mut self, session: &mut Session, ctx: &mut RequestCtx, ending: Ending) -> Result<(), Failed> {
        match ending {
            Ending::Stream(frames) => {
                self.pending.extend_from_slice(&frames);
                self.flush(session, ctx, true).await
            }
            Ending::Reply(reply) => {
                let body = serde_json::to_vec(&reply).map_err(|_| Refusal::internal())?;
                respond::send(session, ctx, Answer::json(body)).await
            }
            Ending::Refused(failure) => Err(Refusal::from(failure).into()),
        }
    }
}

/// Waits for something on behalf of a caller, who may leave meanwhile.
async fn while_there<T>(session: &mut Session, waiting: impl Future<Output = T>) -> Result<T, Failed> {
    tokio::select! {
        biased;
        done = waiting => Ok(done),
        _ = session.downstream_session.read_body_or_idle(true) => Err(Failed::Gone(respond::gone())),
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

/// A failure before the upstream's head, as a turn knows it.
fn failure(error: &net::Error) -> Failure {
    let refusal = Refusal::from(error);
    Failure::new(refusal.code, refusal.message)
}

fn answers_later() -> Failure {
    Failure::new(
        ErrorCode::UpstreamError,
        "the agent behind the gateway answers later, by its own news; ask it directly, or ask it for an immediate reply",
    )
}

fn far_away() -> tokio::time::Instant {
    tokio::time::Instant::now() + std::time::Duration::from_secs(86_400)
}
