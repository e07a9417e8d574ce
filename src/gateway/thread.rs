//! `Thread`: the session of a talk, from the id that the request carried to the turn that is kept.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::OwnedMutexGuard;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::error::Refusal;
use super::lease::Held;
use super::live::Talk;
use crate::restap::{ErrorCode, SessionId};
use crate::store::{
    AgentId, CallerId, Conversation, ConversationId, Lease, LeaseKey, NewsRead, OnceKey, Store, StoreError, TurnEnd,
};
use crate::talk::dialect::{self, Saved};
use crate::talk::{Exchange, History};

/// How a turn waits for those before it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    /// Turns before it, without the one that runs.
    queue_max: usize,
    wait: Duration,
}

impl Patience {
    /// Of a caller on its connection.
    pub(super) const CALLER: Self = Self { queue_max: 4, wait: Duration::from_secs(10) };

    /// Of a query, for which nobody waits. How many there are is bounded by the agent.
    pub(super) const QUERY: Self = Self { queue_max: usize::MAX, wait: Duration::from_mins(30) };
}

/// How often a lease that another process holds is asked for again.
const LEASE_RETRY: Duration = Duration::from_millis(50);

/// The sessions that have a turn in this process, by the session's lease.
pub(super) type Queues = Arc<Mutex<HashMap<LeaseKey, Queue>>>;

/// A session's turn and who waits for it.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// Fair: turns begin in the order in which they came.
    gate: Arc<tokio::sync::Mutex<()>>,
    /// The turn that runs and those that wait.
    length: usize,
}

/// One talk's part in a conversation.
pub(super) struct Thread {
    /// Echoed to the caller.
    pub session_id: SessionId,
    id: ConversationId,
    conversation: Conversation,
    turn: Option<HeldTurn>,
    /// The turn of a session that was minted here, which nobody knows yet.
    coming: Option<JoinHandle<Result<HeldTurn, Refusal>>>,
}

impl Thread {
    /// Takes or mints the session and, where turns are remembered here, waits for its turn. That of a minted one is
    /// taken meanwhile, as nobody can be before it; [`Self::claim`] waits for it.
    pub(super) async fn open(
        store: &Arc<Store>,
        queues: &Queues,
        (agent, caller, talk): (AgentId, Option<CallerId>, &Talk),
        (session_id, patience): (Option<SessionId>, Patience),
    ) -> Result<Self, Refusal> {
        let is_minted = session_id.is_none();
        let session_id = session_id.unwrap_or_else(SessionId::mint);
        let id = store.keys().conversation(agent, caller, &session_id);
        let mut thread = Self { session_id, id, conversation: Conversation::default(), turn: None, coming: None };
        if talk.remembers() {
            let turn = HeldTurn::wait(store.clone(), queues.clone(), store.keys().turn_lease(id), patience);
            if is_minted {
                thread.coming = Some(tokio::spawn(turn));
            } else {
                thread.turn = Some(turn.await?);
                thread.conversation = store.conversation(id).await?;
            }
        }
        Ok(thread)
    }

    /// Waits until the turn is held. Before that nobody may learn the session's id.
    pub(super) async fn claim(&mut self) -> Result<(), Refusal> {
        if let Some(coming) = self.coming.take() {
            self.turn = Some(coming.await.map_err(|_| Refusal::internal())??);
        }
        Ok(())
    }

    /// Whether the session was minted for this turn, so that nothing can be there for it yet.
    pub(super) fn is_new(&self) -> bool {
        self.coming.is_some()
    }

    /// The conversation's name for the upstream, which says nothing of the session id.
    pub(super) fn upstream_key(&self, store: &Store) -> uuid::Uuid {
        store.keys().upstream_key(self.id)
    }

    /// What the upstream is reminded of, oldest first.
    pub(super) fn history(&self, talk: &Talk) -> History {
        let mut history = History::default();
        // A configuration before this one may have left some that this dialect has no place for.
        for turn in self.conversation.turns.iter().filter(|_| talk.keeps_history()) {
            history.push(Exchange { user: turn.user.clone(), assistant: turn.assistant.clone() }, talk.history);
        }
        history
    }

    /// What the upstream gave at the last turn.
    pub(super) fn saved(&self) -> Saved {
        let kept = self.conversation.upstream.as_deref();
        kept.and_then(|kept| serde_json::from_str(kept).ok()).unwrap_or_default()
    }

    /// Up to where news have reached the model.
    pub(super) fn news(&mut self) -> &mut NewsRead {
        &mut self.conversation.news
    }

    /// Keeps a turn whose end is proven, and with it the answer to its idempotency key; then the next turn may begin.
    pub(super) async fn keep(
        mut self,
        store: &Arc<Store>,
        talk: &Talk,
        exchange: Exchange,
        saved: &Saved,
        answer: Option<(OnceKey, Lease, Bytes)>,
    ) -> Result<(), StoreError> {
        let Some(turn) = self.turn.take() else {
            return match answer {
                Some((key, lease, answer)) => store.keep_answer(key, lease, &answer).await,
                None => Ok(()),
            };
        };
        // Services refuse an empty turn of theirs, so one without text is not remembered.
        if talk.keeps_history() && !exchange.assistant.is_empty() {
            let remembered = crate::store::Turn { user: exchange.user, assistant: exchange.assistant };
            self.conversation.push(remembered, talk.history.turns as usize);
        }
        self.conversation.upstream = (!saved.is_empty()).then(|| serde_json::to_string(saved).unwrap_or_default());
        let end = TurnEnd { ttl: talk.history.ttl, lease: Some(turn.lease.lease()), answer };
        store.keep_conversation(self.id, &self.conversation, end).await?;
        turn.lease.ended();
        Ok(())
    }
}

impl Talk {
    /// Whether something of a turn is kept here for the next one.
    pub(super) fn remembers(&self) -> bool {
        self.keeps_history() || self.dialect.conversation() == dialect::Conversation::Minted
    }
}

/// A session's turn, in this process and in all others on the store. It is renewed for as long as this lives, and
/// let go when it is dropped.
struct HeldTurn {
    lease: Held,
    _place: Place,
    _gate: OwnedMutexGuard<()>,
}

impl HeldTurn {
    async fn wait(store: Arc<Store>, queues: Queues, key: LeaseKey, patience: Patience) -> Result<Self, Refusal> {
        let deadline = Instant::now() + patience.wait;
        let (place, gate) = Place::take(&queues, key, patience.queue_max).ok_or_else(busy)?;
        let gate = tokio::time::timeout_at(deadline, gate.lock_owned()).await.map_err(|_| busy())?;
        // Only another process can hold the lease now, or a turn that ended just before.
        loop {
            if let Some(lease) = store.acquire(key).await? {
                return Ok(Self { lease: Held::new(&store, lease), _place: place, _gate: gate });
            }
            if Instant::now() >= deadline {
                return Err(busy());
            }
            tokio::time::sleep(LEASE_RETRY).await;
        }
    }
}

/// A place in the queue of a session; its head is the turn that runs.
#[derive(Debug)]
struct Place {
    queues: Queues,
    key: LeaseKey,
}

impl Place {
    fn take(queues: &Queues, key: LeaseKey, queue_max: usize) -> Option<(Self, Arc<tokio::sync::Mutex<()>>)> {
        let mut all = queues.lock().unwrap_or_else(PoisonError::into_inner);
        let queue = all.entry(key).or_default();
        if queue.length > queue_max {
            return None;
        }
        queue.length += 1;
        Some((Self { queues: queues.clone(), key }, queue.gate.clone()))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut all = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(queue) = all.get_mut(&self.key) {
            queue.length -= 1;
            if queue.length == 0 {
                all.remove(&self.key);
            }
        }
    }
}

fn busy() -> Refusal {
    let message = "other turns of this session are still running; wait for their replies, then send this again";
    Refusal::new(ErrorCode::SessionBusy, message).retry_after(2)
}
