//! Conversations: what a stateless upstream is reminded of, and where a stateful one keeps its own.

use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::engine::{Change, Put, RecordKey, RecordKind};
use super::keys::{ConversationId, OnceKey};
use super::lease::Lease;
use super::{Store, StoreError};

/// Bytes of text that one conversation keeps; older turns go first.
pub const CONVERSATION_BYTES_MAX: usize = 256 << 10;

/// What is remembered of a conversation. Changed in memory, then kept with [`Store::keep_conversation`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conversation {
    /// Oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub turns: Vec<Turn>,
    /// The upstream's own id of the conversation, where it mints one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream: Option<String>,
    /// Up to where news have reached the model.
    #[serde(default)]
    pub news: NewsRead,
    /// What [`Store::keep_conversation`] must find unchanged.
    #[serde(skip)]
    version: u64,
}

/// A message and its whole reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    /// What the caller said.
    pub user: String,
    /// What the agent answered.
    pub assistant: String,
}

/// Timestamps up to which the news of two feeds have been read; 0 is nothing yet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewsRead {
    /// Of the session's feed.
    pub session: u64,
    /// Of the agent's own.
    pub agent: u64,
}

/// How a turn ends in the store, all at once.
#[derive(Debug, Clone, Default)]
pub struct TurnEnd {
    /// How long the conversation rests before it is forgotten.
    pub ttl: Duration,
    /// The turn's lease, which ends with it.
    pub lease: Option<Lease>,
    /// The answer to keep under an idempotency key, whose lease ends too.
    pub answer: Option<(OnceKey, Lease, Bytes)>,
}

impl Conversation {
    /// Whether nothing was remembered.
    pub fn is_new(&self) -> bool {
        self.version == 0
    }

    /// Adds a turn whose end is proven, and drops the oldest ones beyond `turns_max` and [`CONVERSATION_BYTES_MAX`].
    pub fn push(&mut self, turn: Turn, turns_max: usize) {
        self.turns.push(turn);
        let mut bytes = 0;
        let kept = self.turns.iter().rev().take(turns_max).take_while(|turn| {
            bytes += turn.user.len() + turn.assistant.len();
            bytes <= CONVERSATION_BYTES_MAX
        });
        let dropped = self.turns.len() - kept.count();
        self.turns.drain(..dropped);
    }
}

impl Store {
    /// What is remembered; empty for a conversation that is new, or that rested for too long.
    pub async fn conversation(&self, id: ConversationId) -> Result<Conversation, StoreError> {
        let Some(record) = self.engine.record(key(id)).await? else { return Ok(Conversation::default()) };
        let kept = if record.expired {
            Conversation::default()
        } else {
            serde_json::from_slice(&record.body).map_err(|_| StoreError::Corrupt("a conversation".into()))?
        };
        Ok(Conversation { version: record.version, ..kept })
    }

    /// Keeps a conversation as it is now. `Conflict` if another turn has changed it since it was read, which a held
    /// [`turn_lease`](super::Keys::turn_lease) excludes.
    pub async fn keep_conversation(
        &self,
        id: ConversationId,
        conversation: &Conversation,
        end: TurnEnd,
    ) -> Result<(), StoreError> {
        let body = serde_json::to_vec(conversation).unwrap_or_default().into();
        let put = Put { key: key(id), owner: id.agent.0, expect: conversation.version, body, ttl: end.ttl };
        let mut change = Change { puts: vec![put], ..Change::default() };
        change.releases.extend(end.lease);
        if let Some((once, lease, answer)) = end.answer {
            change.puts.push(Put::answer(&self.keys, once, &answer));
            change.releases.push(lease);
        }
        self.engine.commit(change).await.map(drop)
    }
}

fn key(id: ConversationId) -> RecordKey {
    RecordKey { kind: RecordKind::Conversation, hash: id.hash }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(bytes: usize) -> Turn {
        Turn { user: "u".repeat(bytes / 2), assistant: "a".repeat(bytes - bytes / 2) }
    }

    #[test]
    fn the_oldest_turns_go_first() {
        let mut conversation = Conversation::default();
        for bytes in 1..=5 {
            conversation.push(turn(bytes), 3);
        }
        assert_eq!(conversation.turns, [turn(3), turn(4), turn(5)]);
        conversation.push(turn(CONVERSATION_BYTES_MAX - 5), 10);
        assert_eq!(conversation.turns, [turn(5), turn(CONVERSATION_BYTES_MAX - 5)]);
    }

    #[test]
    fn a_turn_that_is_too_large_is_not_kept_and_what_came_before_it_is_of_no_use() {
        let mut conversation = Conversation::default();
        conversation.push(turn(10), 3);
        conversation.push(turn(CONVERSATION_BYTES_MAX + 1), 3);
        assert!(conversation.turns.is_empty());
    }
}
