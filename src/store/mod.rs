//! What outlives a request: feeds, conversations, leases, kept answers and queries, on one engine.
//!
//! [`Store`] is what the gateway calls, [`Engine`] what a place to keep things must do, [`Keys`] how everything is named
//! without storing a session id. A store is opened once and shared; every call may come from any thread.

pub mod conversation;
pub mod engine;
pub mod feed;
pub mod health;
pub mod keys;
pub mod lease;
pub mod memory;
pub mod once;
pub mod query;
pub mod settings;

mod clock;
mod news_id;

use std::collections::HashMap;
use std::sync::Arc;

use crate::restap::ErrorCode;

pub use clock::{Clock, SystemClock};
pub use conversation::{Conversation, NewsRead, Turn, TurnEnd};
pub use engine::{Engine, Reader};
pub use feed::{Item, NewItem, Page, PageRequest, Receipt};
pub use health::Health;
pub use keys::{AgentId, CallerId, ConversationId, FeedId, Keys, LeaseKey, OnceKey, OnceScope};
pub use lease::{LEASE_RENEWAL, LEASE_TERM, Lease};
pub use news_id::NewsId;
pub use once::Claim;
pub use query::Query;
pub use settings::{NewsSettings, Settings};

use engine::Bounds;

/// Everything that the gateway keeps.
pub struct Store {
    engine: Box<dyn Engine>,
    keys: Keys,
    bounds: Arc<Bounds>,
}

/// Why a call failed, and whose fault that is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The caller: `since_id` is none of our ids.
    #[error("since_id is not the id of a news item")]
    InvalidSince,
    /// The caller: an item that is larger than its feed may be.
    #[error("a news item of this agent may have {bytes_max} bytes")]
    TooLarge {
        /// What the feed keeps in all.
        bytes_max: u64,
    },
    /// The caller: more than 1,000 items a second in one feed, for longer than a burst.
    #[error("the feed takes at most 1000 items a second")]
    TooFast,
    /// The caller: the feed was opened by somebody else.
    #[error("the feed belongs to another caller")]
    NotOwner,
    /// The caller: the idempotency key was used with another body.
    #[error("the idempotency key was used with another body")]
    KeyReused,
    /// Another request has changed the same thing meanwhile.
    #[error("another request has changed this meanwhile")]
    Conflict,
    /// The operator: no room. Reads go on.
    #[error("the store has no room left")]
    Full,
    /// The operator: the engine can't be reached, is overloaded or closed. What was asked may have been done.
    #[error("the store is unavailable: {0}")]
    Unavailable(&'static str),
    /// The operator: what is stored is damaged; it was not used.
    #[error("the store is damaged: {0} can't be read")]
    Corrupt(String),
}

impl StoreError {
    /// The code that callers see.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::InvalidSince => ErrorCode::InvalidSince,
            Self::TooLarge { .. } => ErrorCode::PayloadTooLarge,
            Self::TooFast => ErrorCode::TooManyItems,
            Self::NotOwner => ErrorCode::Forbidden,
            Self::KeyReused => ErrorCode::IdempotencyKeyReused,
            Self::Conflict => ErrorCode::SessionBusy,
            Self::Full | Self::Unavailable(_) | Self::Corrupt(_) => ErrorCode::StoreUnavailable,
        }
    }
}

/// Why a store can't be opened, as a sentence that says what to do.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// `store.key` of gateway.yaml.
    #[error("store.key: {0}")]
    Key(#[from] keys::InvalidKey),
}

/// Opens the store of gateway.yaml, each agent with its key there. Blocks for some milliseconds: call it before
/// serving.
pub fn open(
    settings: &Settings,
    agents: &[(&str, NewsSettings)],
    clock: Arc<dyn Clock>,
) -> Result<Arc<Store>, OpenError> {
    let _ = settings;
    let keys = Keys::new(*blake3::hash(uuid::Uuid::new_v4().as_bytes()).as_bytes());
    let bounds = Arc::new(Bounds::new(engine::Limits::default(), retention(&keys, agents)));
    Ok(Arc::new(Store { engine: Box::new(memory::Memory::new(bounds.clone(), clock)), keys, bounds }))
}

impl Store {
    /// How things are named.
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Takes other agents and retention from now on, as a reload does.
    pub fn configure(&self, agents: &[(&str, NewsSettings)]) {
        self.bounds.replace(retention(&self.keys, agents));
    }

    /// How it is.
    pub async fn health(&self) -> Health {
        self.engine.health().await
    }

    /// Finishes what was accepted and closes. Later calls are `Unavailable`.
    pub async fn close(&self) {
        self.engine.close().await;
    }
}

fn retention(keys: &Keys, agents: &[(&str, NewsSettings)]) -> HashMap<AgentId, settings::Retention> {
    agents.iter().map(|(key, news)| (keys.agent(key), news.retention)).collect()
}
