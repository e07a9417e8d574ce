//! `Conversing`: a talk under way, between its upstream, its turn and whoever waits for it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method};
use serde_json::Value;
use tracing::warn;

use super::audience::Audience;
use super::follow;
use super::kept::{First, Kept};
use crate::gateway::error::Refusal;
use crate::gateway::live::{Agent, Talk};
use crate::gateway::respond::{self, Failed};
use crate::gateway::thread::Thread;
use crate::gateway::who::Who;
use crate::gateway::{Gateway, news_context};
use crate::net::{self, Response};
use crate::restap::{self, Delivery, ErrorCode, hop_count};
use crate::talk::failure::Again;
use crate::talk::turn::{Carries, Timers};
use crate::talk::{Ending, Exchange, Failure, Opening, Prompt, Rendered, Step, Turn, history};
use crate::upstream::{Affinity, Kind, Seat, Upstream};

/// Bytes of ready chunks that leave together.
const COALESCE_BYTES: usize = 16 << 10;

/// What a dialect saves its agent's session as.
const SAVED_SESSION: &str = "conversation";

/// One talk under way.
pub(super) struct Conversing {
    pub gateway: Arc<Gateway>,
    pub agent: Arc<Agent>,
    pub talk: Arc<Talk>,
    pub thread: Option<Thread>,
    pub message: String,
    pub hops: HeaderValue,
    pub request_id: HeaderValue,
    /// Who talks.
    pub who: Who,
    /// The note that carries news to the model.
    pub news: Option<String>,
    /// The idempotency key that the answer is kept under.
    pub once: Option<First>,
    /// The server that answers.
    pub seat: Arc<Seat>,
}

/// How a talk ended.
pub(super) struct Replied {
    /// What its caller gets.
    pub ending: Ending,
    /// Why there is no whole reply, in a stream too.
    pub failure: Option<Failure>,
}

/// What the upstream does next.
enum Input {
    Head(Box<Response>),
    Followed(Result<String, Failure>),
    Chunk(Bytes),
    End,
    Broken(net::Error),
    NobodyWaits,
    Cut,
    Tick,
}

/// Where the exchange with the upstream is.
enum Wire<'a> {
    Sending(std::pin::Pin<Box<dyn Future<Output = Result<Response, net::Error>> + Send + 'a>>),
    Reading(Box<Response>),
    /// Its answer comes later, by other ways.
    Following(std::pin::Pin<Box<dyn Future<Output = Result<String, Failure>> + Send + 'a>>),
    /// Nothing is asked, or no more is expected.
    Silent,
}

impl Wire<'_> {
    async fn next(&mut self) -> Input {
        match self {
            Self::Sending(sending) => match sending.await {
                Ok(response) => Input::Head(Box::new(response)),
                Err(error) => Input::Broken(error),
            },
            Self::Reading(response) => match response.chunk().await {
                Ok(Some(bytes)) => Input::Chunk(bytes),
                Ok(None) => Input::End,
                Err(error) => Input::Broken(error),
            },
            Self::Following(following) => Input::Followed(following.await),
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

impl Conversing {
    /// Reads what is news to the model since the last turn.
    pub(super) async fn read_news(&mut self) {
        let read =
            news_context::read(&self.gateway, (&self.agent, &self.talk), self.who.id, self.thread.as_mut()).await;
        // A talk goes on without its news rather than not at all.
        self.news = read.unwrap_or_else(|error| {
            warn!(agent = %self.agent.key, "news could not be read for a talk: {error}");
            None
        });
    }

    /// Talks with the upstream until the reply is over. What is proven is kept before anybody reads that it is.
    pub(super) async fn run<A: Audience>(mut self, audience: &mut A, delivery: Delivery) -> Result<Replied, Failed> {
        let talk = self.talk.clone();
        let history = self.thread.as_ref().map(|thread| thread.history(&talk)).unwrap_or_default();
        let mut window = history.window(talk.history);
        let message_id = format!("msg_{}", uuid::Uuid::new_v4().simple());
        let mut turn = Turn::begin(self.opening(&message_id, delivery, !window.is_empty()), Instant::now());
        let (mut wire, mut step) = match &talk.upstream {
            Some(upstream) => (self.send(upstream, &turn, window), Step::Wait),
            None => {
                (Wire::Silent, turn.answer(&self.agent.view(&self.who).guide.answer(&self.message), Instant::now()))
            }
        };
        let mut pending = BytesMut::new();
        let mut cut = self.gateway.drain.cut();
        loop {
            match step {
                Step::Wait => {}
                Step::Write(frames) => pending.extend_from_slice(&frames),
                Step::Retry(again) => {
                    if again == Again::WithHalfTheHistory {
                        window = history::half(window);
                    }
                    turn.again(Instant::now());
                    wire = talk.upstream.as_ref().map_or(Wire::Silent, |upstream| self.send(upstream, &turn, window));
                }
                Step::Pending(query_id) => {
                    wire =
                        talk.upstream.as_ref().map_or(Wire::Silent, |upstream| self.follow(upstream, &turn, query_id));
                }
                Step::Over(ending) => {
                    self.claim().await?;
                    wire.let_go(&turn);
                    let (ending, written) = match ending {
                        Ending::Stream { rest, end } => {
                            pending.extend_from_slice(&rest);
                            let written = self.write_ahead(&turn, audience, &mut pending).await;
                            pending.extend_from_slice(&end);
                            (Ending::Stream { rest: Bytes::new(), end: pending.freeze() }, written)
                        }
                        ending => (ending, Ok(())),
                    };
                    // A proven turn is kept though its caller has left.
                    let failure = self.finish(&turn, message_id).await;
                    written?;
                    return Ok(Replied { ending, failure });
                }
            }
            if !pending.is_empty() {
                // Frames that are ready together leave in one write.
                if pending.len() < COALESCE_BYTES
                    && let Some(bytes) = wire.ready()
                {
                    step = turn.chunk(&bytes, Instant::now());
                    continue;
                }
                self.claim().await?;
                audience.write(pending.split().freeze()).await?;
            }
            let tick = turn.next_deadline().map_or_else(far_away, tokio::time::Instant::from_std);
            let input = tokio::select! {
                // The upstream comes last but for the clock: one that always has more would hide the others, and a
                // clock that a pause of the process has moved on must not hide what came meanwhile.
                biased;
                _ = cut.wait_for(|cut| *cut) => Input::Cut,
                () = audience.gone() => Input::NobodyWaits,
                input = wire.next() => input,
                () = tokio::time::sleep_until(tick) => Input::Tick,
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
                Input::Followed(outcome) => {
                    wire = Wire::Silent;
                    match outcome {
                        Ok(text) => turn.answer(&text, now),
                        Err(failure) => turn.fail(failure),
                    }
                }
                Input::Tick => turn.tick(now),
                Input::Cut => turn.fail(Failure::new(ErrorCode::ShuttingDown, Refusal::shutting_down().message)),
                Input::NobodyWaits => {
                    self.count(&turn);
                    return Err(respond::gone());
                }
            };
        }
    }

    /// Writes the last words before a turn is kept: they need not wait for the disk, only the end must.
    async fn write_ahead<A: Audience>(
        &self,
        turn: &Turn,
        audience: &mut A,
        pending: &mut BytesMut,
    ) -> Result<(), Failed> {
        let is_kept = turn.outcome().reply.is_some() && (self.thread.is_some() || self.once.is_some());
        if !is_kept || pending.is_empty() {
            return Ok(());
        }
        audience.write(pending.split().freeze()).await
    }

    /// Waits for the session's turn, if it is still to come: whatever is written names the session.
    async fn claim(&mut self) -> Result<(), Refusal> {
        match &mut self.thread {
            Some(thread) => thread.claim().await,
            None => Ok(()),
        }
    }

    fn opening(&self, message_id: &str, delivery: Delivery, has_history: bool) -> Opening {
        let timeouts = self.talk.upstream.as_ref().map(|upstream| upstream.timeouts(Kind::Talk));
        let saved = self.thread.as_ref().map(Thread::saved).unwrap_or_default();
        Opening {
            dialect: self.talk.dialect.clone(),
            streamed: self.talk.upstream_streaming,
            delivery,
            message_id: message_id.to_owned(),
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
            Ok(request) => {
                let key = self.thread.as_ref().map(|thread| thread.upstream_key(&self.gateway.store).to_string());
                let (affinity, seat) = (key.map(|key| Affinity::of(key.as_bytes())), self.seat.clone());
                Wire::Sending(Box::pin(async move { upstream.send_from(request, affinity, &seat).await }))
            }
            Err(problem) => {
                warn!(agent = %self.agent.key, "talk: the request can't be rendered: {problem}");
                Wire::Sending(Box::pin(async { Err(net::Error::Protocol("the request can't be rendered")) }))
            }
        }
    }

    /// Asks for the answer that the upstream promised, as the talk was asked.
    fn follow<'u>(&self, upstream: &Arc<Upstream>, turn: &Turn, id: String) -> Wire<'u> {
        let Ok((path, mut headers, _)) = self.render(upstream, turn, &[]) else { return Wire::Silent };
        headers.remove(CONTENT_TYPE);
        headers.remove(ACCEPT_ENCODING);
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        let path = path.split('?').next().unwrap_or_default();
        let session = turn.saved().get(SAVED_SESSION).and_then(Value::as_str);
        let query = follow::Query {
            upstream: upstream.clone(),
            id,
            base: path.strip_suffix(restap::TALK_PATH).unwrap_or_default().to_owned(),
            headers,
            session: session.and_then(|session| HeaderValue::from_str(session).ok()),
        };
        Wire::Following(Box::pin(query.follow()))
    }

    fn request(&self, upstream: &Upstream, turn: &Turn, history: &[Exchange]) -> Result<net::Request, String> {
        let (path_and_query, headers, body) = self.render(upstream, turn, history)?;
        // The turn has timers of its own, which know a keep-alive from progress.
        Ok(net::Request {
            method: Method::POST,
            target: upstream.target(&path_and_query).map_err(|problem| problem.to_string())?,
            headers,
            body,
            coding: net::Coding::AsSent,
            timeouts: net::Timeouts::default(),
        })
    }

    /// Path and query, headers and body of a request.
    fn render(
        &self,
        upstream: &Upstream,
        turn: &Turn,
        history: &[Exchange],
    ) -> Result<(String, HeaderMap, Bytes), String> {
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
        self.who.tell(&mut headers);
        upstream.set_headers(&mut headers);
        Ok((path_and_query, headers, body))
    }

    /// Keeps what is proven; gives what failed.
    async fn finish(&mut self, turn: &Turn, message_id: String) -> Option<Failure> {
        self.count(turn);
        let outcome = turn.outcome();
        if let (Some(failure), Some(upstream)) = (&outcome.failure, &self.talk.upstream) {
            self.gateway.metrics.upstream_error(&upstream.name, failure.code.as_str());
            if failure.code == ErrorCode::UpstreamTimeout {
                upstream.blame(&self.seat);
            }
        }
        if let Some(reply) = &outcome.reply {
            let once = self.once.take();
            let kept = Kept::Replied { message_id, reply: reply.clone() };
            let answer = once.as_ref().map(|once| once.answer(&kept));
            let done = match (self.thread.take(), answer) {
                (Some(thread), answer) => {
                    let exchange = Exchange { user: std::mem::take(&mut self.message), assistant: reply.reply.clone() };
                    thread.keep(&self.gateway.store, &self.talk, exchange, turn.saved(), answer).await
                }
                (None, Some((key, lease, answer))) => self.gateway.store.keep_answer(key, lease, &answer).await,
                (None, None) => Ok(()),
            };
            match done {
                Ok(()) => once.map(First::kept).unwrap_or_default(),
                // The reply is proven and reaches its caller; only the memory of it is lost.
                Err(error) => warn!(agent = %self.agent.key, "a turn could not be kept: {error}"),
            }
        }
        outcome.failure.clone()
    }

    fn count(&self, turn: &Turn) {
        let outcome = turn.outcome();
        self.gateway.metrics.talk(&self.agent.key, outcome.deltas, outcome.first_delta);
    }
}

/// A failure before the upstream's head, as a turn knows it.
fn failure(error: &net::Error) -> Failure {
    let refusal = Refusal::from(error);
    Failure { retry_after: refusal.retry_after.map(Duration::from_secs), ..Failure::new(refusal.code, refusal.message) }
}

fn far_away() -> tokio::time::Instant {
    tokio::time::Instant::now() + Duration::from_hours(24)
}
