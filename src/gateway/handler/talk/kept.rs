//! Answers that are kept under an idempotency key and given again.

use std::sync::Arc;

use bytes::Bytes;
use pingora::proxy::Session;
use serde::{Deserialize, Serialize};

use super::audience::Caller;
use super::later::Accepted;
use crate::gateway::Gateway;
use crate::gateway::ctx::RequestCtx;
use crate::gateway::error::Refusal;
use crate::gateway::lease::Held;
use crate::gateway::live::Agent;
use crate::gateway::respond::{self, Answer, Failed};
use crate::restap::talk::TalkReply;
use crate::restap::{Delivery, ErrorCode, SessionId};
use crate::store::{CallerId, Claim, Lease, OnceKey, OnceScope};
use crate::talk::turn;

/// A request that is answered once.
#[derive(Debug, Clone, Copy)]
pub(super) struct Once(OnceKey);

/// The right to answer it. Dropping it without an answer frees the key.
pub(super) struct First {
    key: OnceKey,
    held: Held,
}

/// What a key says.
pub(super) enum Claimed {
    First(First),
    Answered(Kept),
}

/// An answer as it is kept.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kept {
    /// A reply, and the id of its message.
    Replied { message_id: String, reply: TalkReply },
    /// A query that was accepted.
    Accepted(Accepted),
}

impl Once {
    /// What a key names depends on agent, operation and session, and without a session on the body too.
    pub(super) fn new(
        gateway: &Gateway,
        (agent, caller): (&Agent, Option<CallerId>),
        (key, session, body): (&str, Option<&SessionId>, &[u8]),
    ) -> Self {
        let scope = OnceScope { agent: agent.id, operation: "talk", caller, session };
        Self(gateway.store.keys().once(scope, key, body))
    }

    /// Asks whether this is the first request of its key.
    pub(super) async fn claim(self, gateway: &Arc<Gateway>) -> Result<Claimed, Refusal> {
        match gateway.store.claim(self.0).await? {
            Claim::First(lease) => Ok(Claimed::First(First { key: self.0, held: Held::new(&gateway.store, lease) })),
            Claim::Answered(answer) => {
                serde_json::from_slice(&answer).map(Claimed::Answered).map_err(|_| Refusal::internal())
            }
            Claim::Running => {
                let message = "the first request with this Idempotency-Key still runs; wait for its answer";
                Err(Refusal::new(ErrorCode::RequestInProgress, message).retry_after(1))
            }
            Claim::Reused => {
                let message = "this Idempotency-Key was used with another body; use a new one";
                Err(Refusal::new(ErrorCode::IdempotencyKeyReused, message))
            }
        }
    }
}

impl First {
    /// What the store keeps together with the turn.
    pub(super) fn answer(&self, kept: &Kept) -> (OnceKey, Lease, Bytes) {
        // Strings, numbers and JSON values: nothing in it fails to serialise.
        (self.key, self.held.lease(), serde_json::to_vec(kept).unwrap_or_default().into())
    }

    /// The store has kept the answer.
    pub(super) fn kept(self) {
        self.held.ended();
    }
}

impl Kept {
    /// Gives the answer again, in the form that this caller accepts.
    pub(super) async fn give(
        self,
        session: &mut Session,
        ctx: &mut RequestCtx,
        delivery: Delivery,
    ) -> Result<(), Failed> {
        match self {
            Self::Accepted(accepted) => accepted.answer(session, ctx).await,
            Self::Replied { message_id, reply } if delivery == Delivery::Stream => {
                let session_id = reply.session_id.clone();
                Caller::new(session, ctx).end(turn::replay(&reply, message_id, session_id)).await
            }
            Self::Replied { reply, .. } => {
                let body = serde_json::to_vec(&reply).map_err(|_| Refusal::internal())?;
                respond::send(session, ctx, Answer::json(body)).await
            }
        }
    }
}
