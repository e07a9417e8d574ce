//! Asynchronous talk: 202 now, the answer as news and at `/query/{id}`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::{HeaderName, HeaderValue, StatusCode};
use pingora::proxy::Session;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinSet;
use tracing::warn;

use super::audience::Nobody;
use super::conversing::{Conversing, Replied};
use super::kept::{First, Kept};
use super::preference::{Form, Later};
use crate::gateway::Gateway;
use crate::gateway::ctx::RequestCtx;
use crate::gateway::error::Refusal;
use crate::gateway::lease::Held;
use crate::gateway::live::{Agent, Talk};
use crate::gateway::queries::{self, Ended};
use crate::gateway::respond::{self, Answer, Failed};
use crate::gateway::thread::{Patience, Thread};
use crate::gateway::who::Who;
use crate::restap::talk::{Dispatch, TalkReply};
use crate::restap::{Delivery, ErrorCode, SessionId};
use crate::store::settings::NewsSessions;
use crate::store::{FeedId, Query, StoreError};
use crate::talk::{Ending, settings};

/// How often, and for how long, an answer that the store can't take now is tried again.
const KEEP_RETRY: Duration = Duration::from_secs(2);
const KEEP_TRIES: usize = 30;

/// Asynchronous talks of one agent.
#[derive(Debug)]
pub(in crate::gateway) struct Queries {
    bounds: settings::Later,
    running: Semaphore,
    accepted: AtomicUsize,
}

impl Queries {
    pub(in crate::gateway) fn new(bounds: settings::Later) -> Self {
        let running = (bounds.running as usize).min(Semaphore::MAX_PERMITS);
        Self { bounds, running: Semaphore::new(running), accepted: AtomicUsize::new(0) }
    }

    pub(in crate::gateway) fn bounds(&self) -> settings::Later {
        self.bounds
    }

    fn accepted_max(&self) -> usize {
        (self.bounds.running as usize).saturating_add(self.bounds.waiting as usize)
    }
}

/// One of them, from its acceptance to its end.
struct Counted(Arc<Agent>);

impl Counted {
    fn take(agent: &Arc<Agent>) -> Result<Self, Refusal> {
        let queries = &agent.queries;
        let counted = Self(agent.clone());
        if queries.accepted.fetch_add(1, Ordering::AcqRel) >= queries.accepted_max() {
            let message = "this agent has too many talks to answer later; try again when some are done";
            return Err(Refusal::new(ErrorCode::TooManyQueries, message).retry_after(5));
        }
        Ok(counted)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.queries.accepted.fetch_sub(1, Ordering::AcqRel);
    }
}

/// What a talk asks.
pub(in crate::gateway) struct Asked {
    pub session_id: Option<SessionId>,
    pub message: String,
    pub dispatch: Dispatch,
    pub hops: HeaderValue,
    pub request_id: HeaderValue,
    pub who: Who,
}

/// A query that is accepted: the body of the 202.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::gateway) struct Accepted {
    query_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    session_id: Option<String>,
    /// The seconds of `wait=N` that were waited first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    waited: Option<u64>,
}

/// How a talk that may be answered later was answered.
pub(in crate::gateway) enum Answered {
    Later(Accepted),
    AtOnce(Box<TalkReply>),
}

/// Begins to answer. Comes back with the reply if it is there within the caller's wait, else once the query is stored.
pub(super) async fn begin(
    gateway: &Arc<Gateway>,
    (agent, talk): (&Arc<Agent>, &Arc<Talk>),
    (later, asked): (Later, Asked),
    once: Option<First>,
) -> Result<Answered, Refusal> {
    let counted = Counted::take(agent)?;
    let query_id = uuid::Uuid::new_v4().to_string();
    let mut query = Query::new(query_id.clone(), agent.id);
    query.feed = feed(gateway, agent, later.form, asked.session_id.as_ref()).map(|feed| (feed, asked.who.id));
    query.caller_query_id = asked.dispatch.query_id.clone();
    query.session = match (asked.session_id, talk.continues()) {
        (Some(session_id), true) => Some(session_id),
        (None, true) => Some(SessionId::mint()),
        (_, false) => None,
    };
    let keys = gateway.store.keys();
    let lease = gateway.store.acquire(keys.query_lease(keys.query(&query_id))).await?.ok_or_else(Refusal::internal)?;
    let held = Held::new(&gateway.store, lease);
    let conversing = Conversing {
        gateway: gateway.clone(),
        agent: agent.clone(),
        talk: talk.clone(),
        thread: None,
        message: asked.message,
        hops: asked.hops,
        request_id: asked.request_id,
        who: asked.who,
        news: None,
        once: None,
        seat: Arc::default(),
    };
    let begun = Begun { query, conversing, held, counted };
    match later.wait {
        Some(wait) => begun.within(wait, once).await,
        // Whoever sends a talk and leaves at once has it accepted, and a repeat of it is told so.
        None => tokio::spawn(begun.accept(once)).await.unwrap_or_else(|_| Err(Refusal::internal())),
    }
}

/// A query that is neither stored nor asked yet.
struct Begun {
    query: Query,
    conversing: Conversing,
    held: Held,
    counted: Counted,
}

impl Begun {
    /// Stores the query, then asks.
    async fn accept(self, once: Option<First>) -> Result<Answered, Refusal> {
        let Self { query, conversing, held, counted } = self;
        let gateway = conversing.gateway.clone();
        gateway.store.start_query(&query).await?;
        tokio::spawn(run(conversing, query.clone(), (held, counted), None));
        accepted(&gateway, &query, None, once).await
    }

    /// Asks, and stores the query if that takes longer than the caller waits. A caller who leaves before ends it.
    async fn within(self, wait: Duration, once: Option<First>) -> Result<Answered, Refusal> {
        let Self { query, conversing, held, counted } = self;
        let gateway = conversing.gateway.clone();
        let (done, mut at_once) = oneshot::channel();
        let mut running = JoinSet::new();
        running.spawn(run(conversing, query.clone(), (held, counted), Some(done)));
        if let Ok(Ok(ended)) = tokio::time::timeout(wait, &mut at_once).await {
            return finished_at_once(&gateway, ended, once).await;
        }
        gateway.store.start_query(&query).await?;
        running.detach_all();
        // From here on the answer goes to the store, unless it has come in this very moment.
        at_once.close();
        if let Ok(ended) = at_once.try_recv() {
            return finished_at_once(&gateway, ended, once).await;
        }
        accepted(&gateway, &query, Some(wait.as_secs()), once).await
    }
}

async fn accepted(
    gateway: &Gateway,
    query: &Query,
    waited: Option<u64>,
    once: Option<First>,
) -> Result<Answered, Refusal> {
    let session_id = query.session.as_ref().map(|id| id.expose().to_owned());
    let accepted = Accepted { query_id: query.id.clone(), session_id, waited };
    keep(gateway, once, &Kept::Accepted(accepted.clone())).await?;
    Ok(Answered::Later(accepted))
}

async fn finished_at_once(gateway: &Gateway, ended: Ended, once: Option<First>) -> Result<Answered, Refusal> {
    let reply = ended?;
    let message_id = format!("msg_{}", uuid::Uuid::new_v4().simple());
    keep(gateway, once, &Kept::Replied { message_id, reply: (*reply).clone() }).await?;
    Ok(Answered::AtOnce(reply))
}

async fn keep(gateway: &Gateway, once: Option<First>, kept: &Kept) -> Result<(), StoreError> {
    let Some(once) = once else { return Ok(()) };
    let (key, lease, answer) = once.answer(kept);
    gateway.store.keep_answer(key, lease, &answer).await?;
    once.kept();
    Ok(())
}

/// The feed that the answer goes to: that of the session which the request carried; without one the dispatch form's
/// goes to the agent's own.
fn feed(gateway: &Gateway, agent: &Agent, form: Form, session_id: Option<&SessionId>) -> Option<FeedId> {
    let keys = gateway.store.keys();
    match (agent.news?.sessions, session_id, form) {
        (NewsSessions::Ignored, Some(_), _) | (_, None, Form::Prefer) => None,
        (_, Some(session_id), _) => Some(keys.feed(agent.id, Some(session_id))),
        (_, None, Form::Dispatch) => Some(keys.feed(agent.id, None)),
    }
}

/// Runs a query to its end, and says how it ended to who waits, else to the store.
async fn run(
    mut conversing: Conversing,
    query: Query,
    (held, _counted): (Held, Counted),
    waiting: Option<oneshot::Sender<Ended>>,
) {
    let gateway = conversing.gateway.clone();
    // A process that stops gives its queries the time that its streams have.
    let _running = gateway.drain.enter();
    let agent = conversing.agent.clone();
    let ended = match open(&mut conversing, query.session.clone()).await {
        Ok(()) => {
            // Those that wait for a session are none that run: they would keep others from it.
            let _permit = agent.queries.running.acquire().await;
            converse(conversing).await
        }
        Err(refusal) => Err(refusal),
    };
    let ended = match waiting {
        Some(waiting) => match waiting.send(ended) {
            Ok(()) => return,
            Err(ended) => ended,
        },
        None => ended,
    };
    for _ in 0..KEEP_TRIES {
        match queries::finish(&gateway, &query, &ended, held.lease()).await {
            Ok(()) => return held.ended(),
            Err(StoreError::Conflict) => return,
            Err(error) => warn!(agent = %agent.key, "the answer of a query could not be stored: {error}"),
        }
        tokio::time::sleep(KEEP_RETRY).await;
    }
}

async fn open(conversing: &mut Conversing, session_id: Option<SessionId>) -> Result<(), Refusal> {
    if session_id.is_some() {
        let gateway = &conversing.gateway;
        let of = (conversing.agent.id, conversing.who.id, &*conversing.talk);
        conversing.thread =
            Some(Thread::open(&gateway.store, &gateway.queues, of, (session_id, Patience::QUERY)).await?);
    }
    conversing.read_news().await;
    Ok(())
}

async fn converse(conversing: Conversing) -> Ended {
    match conversing.run(&mut Nobody, Delivery::Json).await {
        Ok(Replied { ending: Ending::Reply(reply), .. }) => Ok(Box::new(reply)),
        Ok(Replied { ending: Ending::Refused(failure), .. }) => Err(failure.into()),
        Ok(Replied { ending: Ending::Stream { .. }, .. }) | Err(_) => Err(Refusal::internal()),
    }
}

impl Answered {
    /// 200 with the reply, or 202 with the query.
    pub(super) async fn answer(self, session: &mut Session, ctx: &mut RequestCtx) -> Result<(), Failed> {
        match self {
            Self::Later(accepted) => accepted.answer(session, ctx).await,
            Self::AtOnce(reply) => {
                let body = serde_json::to_vec(&reply).map_err(|_| Refusal::internal())?;
                respond::send(session, ctx, Answer::json(body)).await
            }
        }
    }
}

impl Accepted {
    pub(super) async fn answer(self, session: &mut Session, ctx: &mut RequestCtx) -> Result<(), Failed> {
        let mut body = Map::from_iter([
            ("query_id".to_owned(), Value::String(self.query_id)),
            ("status".to_owned(), json!("processing")),
        ]);
        body.extend(self.session_id.map(|id| ("session_id".to_owned(), Value::String(id))));
        let mut answer = Answer::json(Value::Object(body).to_string());
        answer.status = StatusCode::ACCEPTED;
        let applied = HeaderName::from_static("preference-applied");
        let preferences = match self.waited {
            Some(seconds) => HeaderValue::try_from(format!("respond-async, wait={seconds}")),
            None => Ok(HeaderValue::from_static("respond-async")),
        };
        answer.headers.extend(preferences.ok().map(|preferences| (applied, preferences)));
        respond::send(session, ctx, answer).await
    }
}
