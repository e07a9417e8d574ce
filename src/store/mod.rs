//! What outlives a request: feeds, conversations, leases, kept answers and queries, on one engine.
//!
//! [`Store`] is what the gateway calls, [`Engine`] what a place to keep things must do, [`Keys`] how everything is named
//! without storing a session id. A store is opened once and shared; every call may come from any thread.

pub mod conversation;
pub mod embedded;
pub mod engine;
pub mod feed;
pub mod follow;
pub mod health;
pub mod keys;
pub mod lease;
pub mod memory;
pub mod once;
pub mod postgres;
pub mod query;
pub mod rate;
pub mod redis;
pub mod settings;

mod clock;
mod news_id;
mod shared;

#[cfg(test)]
mod contract;
#[cfg(test)]
#[path = "../../tests/servers.rs"]
mod servers;

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::restap::ErrorCode;

pub use clock::{Clock, SystemClock};
pub use conversation::{Conversation, NewsRead, Turn, TurnEnd};
pub use engine::{Engine, Reader};
pub use feed::{Item, NewItem, Page, PageRequest, Receipt};
pub use health::Health;
pub use keys::{AgentId, CallerId, ConversationId, FeedId, Keys, LeaseKey, OnceKey, OnceScope, RateKey};
pub use lease::{LEASE_RENEWAL, LEASE_TERM, Lease};
pub use news_id::NewsId;
pub use once::Claim;
pub use query::Query;
pub use rate::{Allowance, Rate};
pub use settings::{NewsSettings, Settings};

use embedded::Taken;
use engine::{Bounds, Limits};
use memory::Memory;
use postgres::Postgres;
use redis::Redis;

/// Everything that the gateway keeps.
pub struct Store {
    engine: Box<dyn Engine>,
    keys: Keys,
    bounds: Arc<Bounds>,
    arrivals: Arc<feed::Arrivals>,
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
    /// The key of gateway.yaml.
    #[error("store.key: {0}")]
    Key(#[from] keys::InvalidKey),
    /// A key can't be made.
    #[error("the system gives no random bytes: {0}")]
    Random(io::Error),
    /// The key beside the data.
    #[error("{}: {source}; restore the file from a backup, the data can't be read without it", path.display())]
    KeyFile {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: keys::InvalidKey,
    },
    /// There are data but no key.
    #[error(
        "{} is missing, and the data beside it can't be read without it; restore it from a backup, set store.key, \
         or move the data away to begin anew",
        path.display()
    )]
    KeyMissing {
        /// The file.
        path: PathBuf,
    },
    /// A directory or file that can't be used.
    #[error("{} can't be used: {source}; {advice}", path.display())]
    Directory {
        /// Which.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
        /// What to do.
        advice: String,
    },
    /// The directory lies on another machine.
    #[error(
        "{} is on a network file system ({kind}), where a database can be damaged; set store.embedded.path to a \
         directory on a disk of this machine",
        path.display()
    )]
    NetworkFilesystem {
        /// The directory.
        path: PathBuf,
        /// Its kind.
        kind: &'static str,
    },
    /// A shared engine without a key.
    #[error("a shared store needs store.key, the same for every gateway; `restap-gateway keys new --store` makes one")]
    NoKey,
    /// The address of a shared engine.
    #[error("{0} can't be read")]
    Url(&'static str),
    /// TLS towards a shared engine.
    #[error(transparent)]
    Tls(#[from] crate::net::tls::Error),
    /// The thread of a shared engine.
    #[error("the system refuses a thread to the store: {0}")]
    Thread(io::Error),
    /// A shared engine that can be reached and can't be used.
    #[error("store.{engine}: {problem}")]
    Server {
        /// Which one.
        engine: &'static str,
        /// Why, and what to do.
        problem: String,
    },
    /// Two processes have it.
    #[error("{} is in use by {holders}; stop one of them, or give this gateway a store.embedded.path of its own", path.display())]
    InUse {
        /// The directory.
        path: PathBuf,
        /// Programs and process ids.
        holders: String,
    },
    /// The database can't be used.
    #[error("{} can't be used: {problem}", path.display())]
    Database {
        /// The file.
        path: PathBuf,
        /// Why, and what to do.
        problem: String,
    },
}

/// Opens the store of gateway.yaml; `agents` have their keys of that file. Blocks for some milliseconds, so it is
/// called before serving.
pub fn open(
    settings: &Settings,
    agents: &[(&str, NewsSettings)],
    clock: Arc<dyn Clock>,
) -> Result<Arc<Store>, OpenError> {
    match &settings.engine {
        settings::Engine::Memory => {
            let keys = match &settings.key {
                Some(key) => Keys::parse(key)?,
                None => Keys::random().map_err(OpenError::Random)?,
            };
            let bounds = Arc::new(Bounds::new(Limits::default(), retention(&keys, agents)));
            let engine = Memory::new(bounds.clone(), clock);
            Ok(Store::new(engine, keys, bounds))
        }
        settings::Engine::Embedded { path, max_size } => {
            let taken = Taken::take(path, settings.key.as_ref())?;
            let limits = Limits { bytes: *max_size, ..Limits::default() };
            let keys = taken.keys().clone();
            let bounds = Arc::new(Bounds::new(limits, retention(&keys, agents)));
            let engine = taken.open(bounds.clone(), clock)?;
            Ok(Store::new(engine, keys, bounds))
        }
        settings::Engine::Postgres(server) => {
            let key = settings.shared_key().ok_or(OpenError::NoKey)?;
            let (bounds, arrivals) = (shared_bounds(agents), Arc::<feed::Arrivals>::default());
            let (engine, keys) = Postgres::open(server, &key, bounds.clone(), None, arrivals.clone())?;
            Ok(Store::waking(engine, keys, bounds, arrivals))
        }
        settings::Engine::Redis(server) => {
            let key = settings.shared_key().ok_or(OpenError::NoKey)?;
            let (bounds, arrivals) = (shared_bounds(agents), Arc::<feed::Arrivals>::default());
            let (engine, keys) = Redis::open(server, &key, bounds.clone(), None, arrivals.clone())?;
            Ok(Store::waking(engine, keys, bounds, arrivals))
        }
    }
}

/// The engine's own limits are those of its server.
fn shared_bounds(agents: &[(&str, NewsSettings)]) -> Arc<Bounds> {
    let limits = Limits { bytes: u64::MAX, ..Limits::default() };
    Arc::new(Bounds::new(limits, retention(&Keys::locked(), agents)))
}

impl Store {
    fn new(engine: impl Engine, keys: Keys, bounds: Arc<Bounds>) -> Arc<Self> {
        Self::waking(engine, keys, bounds, Arc::default())
    }

    /// With an engine that says itself what other gateways append.
    fn waking(engine: impl Engine, keys: Keys, bounds: Arc<Bounds>, arrivals: Arc<feed::Arrivals>) -> Arc<Self> {
        Arc::new(Self { engine: Box::new(engine), keys, bounds, arrivals })
    }

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

impl OpenError {
    fn directory(path: &Path, source: io::Error) -> Self {
        let advice = match source.kind() {
            io::ErrorKind::PermissionDenied => {
                let user = rustix::process::geteuid().as_raw();
                format!("the gateway runs as user {user}, who must be able to read and write there")
            }
            io::ErrorKind::ReadOnlyFilesystem => {
                "mount it writable, or set store.embedded.path to a directory that is".to_owned()
            }
            io::ErrorKind::StorageFull => "free some space on the disk".to_owned(),
            _ => "store.embedded.path must name a directory that the gateway may make or use".to_owned(),
        };
        Self::Directory { path: path.to_owned(), source, advice }
    }
}

fn retention(keys: &Keys, agents: &[(&str, NewsSettings)]) -> HashMap<AgentId, settings::Retention> {
    agents.iter().map(|(key, news)| (keys.agent(key), news.retention)).collect()
}
