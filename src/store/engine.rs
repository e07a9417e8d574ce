//! `Engine`: what a place to keep things must do. Five nouns: feeds, records, leases, changes to them, and rates.
//!
//! A new engine is one file that implements this trait, one variant of [`settings::Engine`](super::settings::Engine)
//! and one line in [`open`](super::open); its tests call `contract::hold!`. Everything that callers of the store see
//! (JSON, ids, the rules of `since`) is made above it, once, in [`Store`](super::Store).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use async_trait::async_trait;
use bytes::Bytes;

use super::StoreError;
use super::health::Health;
use super::keys::{AgentId, CallerId, FeedId, Hash, QueryKey, RateKey};
use super::lease::Lease;
use super::rate::{Allowance, Rate};
use super::settings::Retention;

/// One place to keep things.
///
/// - **Durable.** `commit` returns `Ok` only after the change is on stable storage. `Unavailable` means unknown: it
///   may have been stored. Dropping the future of a call does not cancel the call.
/// - **Ordered.** An item's timestamp is taken inside the commit: `max(now, last + 1)` of its feed, where the last
///   timestamp of a feed that was dropped is the highest of any dropped feed of its agent. It never decreases: not
///   by retention, not by a restart, not by a clock that steps.
/// - **Closed.** A page is one snapshot: an item that it does not show, and that comes to be seen later, has a
///   timestamp above the page's `last`.
/// - **Bounded.** Right after a write its feed is within its [`Retention`] by at most 10 %, and its agent within
///   [`Limits`]. Retention works in slices that delay nobody for more than a few milliseconds.
/// - Reads never write.
#[async_trait]
pub trait Engine: Send + Sync + 'static {
    /// Makes a change: all of it or nothing.
    async fn commit(&self, change: Change) -> Result<Committed, StoreError>;

    /// Reads a feed in one snapshot.
    async fn page(&self, read: PageRead) -> Result<EnginePage, StoreError>;

    /// Reads a record, also one whose time is over.
    async fn record(&self, key: RecordKey) -> Result<Option<Record>, StoreError>;

    /// Takes a lease for [`LEASE_TERM`](super::LEASE_TERM), or returns the note of who holds it.
    async fn acquire(&self, lease: Lease, note: Hash) -> Result<Option<Hash>, StoreError>;

    /// Holds on for another term; false if the lease was lost.
    async fn renew(&self, lease: Lease) -> Result<bool, StoreError>;

    /// Lets go of a lease, if it is still held.
    async fn release(&self, lease: Lease) -> Result<(), StoreError>;

    /// Counts one more under this key if the rate allows it. Counters need not outlive the engine, and what is full
    /// again is forgotten.
    async fn spend(&self, key: RateKey, rate: Rate) -> Result<Allowance, StoreError>;

    /// How it is. Never fails and never waits for long.
    async fn health(&self) -> Health;

    /// Finishes what was accepted and lets go of everything. Later calls are `Unavailable`.
    async fn close(&self);
}

/// What is changed together.
#[derive(Debug, Clone, Default)]
pub struct Change {
    /// A feed that is opened or appended to.
    pub feed: Option<FeedChange>,
    /// Records that are written.
    pub puts: Vec<Put>,
    /// Leases that end with it.
    pub releases: Vec<Lease>,
}

/// Opens a feed, and appends to it.
#[derive(Debug, Clone)]
pub struct FeedChange {
    /// Which.
    pub feed: FeedId,
    /// Who owns it if this opens it; `None` is nobody.
    pub opener: Option<CallerId>,
    /// What is appended; `None` only opens the feed.
    pub item: Option<ItemBody>,
}

/// An item without its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemBody {
    /// The draft as one JSON object.
    pub json: Bytes,
    /// What a reader may filter by, at most three.
    pub queries: Vec<QueryKey>,
    /// Whether the gateway wrote it as the answer of a query.
    pub answer: bool,
}

impl ItemBody {
    /// Bytes that it counts for, about what it takes in a page.
    pub fn weight(&self) -> u64 {
        self.json.len() as u64 + ITEM_OVERHEAD
    }
}

/// Bytes of an item's id and timestamp in a page.
pub const ITEM_OVERHEAD: u64 = 72;

/// Writes a record.
#[derive(Debug, Clone)]
pub struct Put {
    /// Which.
    pub key: RecordKey,
    /// Whose it is: records of a kind are capped by owner.
    pub owner: Hash,
    /// The version that it must have: 0 for none, where one whose time is over counts as none. A record that caps
    /// have dropped matches every version. Otherwise the change is a `Conflict`.
    pub expect: u64,
    /// What it holds.
    pub body: Bytes,
    /// How long it is kept from now.
    pub ttl: Duration,
}

/// Names a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecordKey {
    /// What it is.
    pub kind: RecordKind,
    /// Which.
    pub hash: Hash,
}

/// What a record is. The numbers are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RecordKind {
    /// Turns and upstream ids; the owner is an agent.
    Conversation = 1,
    /// The first answer of an idempotency key; the owner is a caller.
    Answer = 2,
    /// An asynchronous talk; the owner is an agent.
    Query = 3,
    /// Where a reader of another agent's news stands, or an item of theirs; the owner is an agent.
    Follow = 4,
}

/// A stored record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// 1 when it was first put, 1 more each time.
    pub version: u64,
    /// What it holds.
    pub body: Bytes,
    /// The item that was appended by the change that last put it.
    pub item: Option<ItemPlace>,
    /// Its time is over; nobody has removed it yet.
    pub expired: bool,
}

/// Where an item stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ItemPlace {
    /// The hash of its feed.
    pub feed: Hash,
    /// Its timestamp.
    pub timestamp: u64,
}

/// Where the answer of a query stands, for an engine that reads the page of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueryAnswer {
    /// It is no query that we started.
    Unknown,
    /// It still runs, or its answer was posted nowhere.
    Nowhere,
    /// Here.
    At(ItemPlace),
}

/// What a change led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Committed {
    /// The timestamp of the item.
    pub timestamp: Option<u64>,
}

/// Asks for a page.
#[derive(Debug, Clone, Copy)]
pub struct PageRead {
    /// Which feed.
    pub feed: FeedId,
    /// Who asks. A feed that has an owner is `NotOwner` for everyone else.
    pub reader: Reader,
    /// From where, and in which direction.
    pub from: Position,
    /// At most so many items, at least 1.
    pub limit: u32,
    /// Only the items of this query: of one that we started its answer, in whichever feed of the agent; of any other
    /// value the items of this feed that name it.
    pub query: Option<QueryKey>,
}

/// Who reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    /// The gateway itself, for the agent's owner or for a turn.
    Agent,
    /// A caller; `None` is anonymous.
    Caller(Option<CallerId>),
}

impl Reader {
    /// A feed that a verified caller opened is read by that caller only.
    pub fn may_read(self, owner: Option<CallerId>) -> Result<(), StoreError> {
        match self {
            Self::Caller(caller) if owner.is_some() && caller != owner => Err(StoreError::NotOwner),
            _ => Ok(()),
        }
    }
}

/// Where a page begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position {
    /// At the end, backwards: the newest items.
    Newest,
    /// Behind this timestamp, forwards.
    After(u64),
}

/// One snapshot of a feed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EnginePage {
    /// Ascending, also those read backwards.
    pub items: Vec<StoredItem>,
    /// Items lie beyond the page in the direction read.
    pub more: bool,
    /// The feed's last timestamp, also of an item that is gone; 0 if it had none yet.
    pub last: u64,
    /// The timestamp of the oldest item that the feed keeps.
    pub oldest: Option<u64>,
}

/// An item as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredItem {
    /// Where it stands.
    pub place: ItemPlace,
    /// The draft as one JSON object.
    pub json: Bytes,
    /// Whether the gateway wrote it as the answer of a query.
    pub answer: bool,
}

/// What bounds a store, however many callers it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of all items.
    pub bytes: u64,
    /// Bytes of an agent's items.
    pub agent_bytes: u64,
    /// Feeds of an agent.
    pub agent_feeds: u64,
    /// Conversations of an agent, and the bytes of all of them; its queries have as much again.
    pub conversations: Cap,
    /// Kept answers of a caller, and the bytes of all of them.
    pub answers: Cap,
    /// Rate counters of all agents; the ones that are nearest to be full go first.
    pub rates: u64,
}

/// Records of one kind and one owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cap {
    /// How many.
    pub records: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
}

impl Limits {
    /// What holds for records of this kind and one owner; the least recently put goes first.
    pub fn cap(&self, kind: RecordKind) -> Cap {
        match kind {
            RecordKind::Conversation | RecordKind::Query => self.conversations,
            RecordKind::Answer | RecordKind::Follow => self.answers,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bytes: 1 << 30,
            agent_bytes: 1 << 30,
            agent_feeds: 100_000,
            conversations: Cap { records: 100_000, bytes: 256 << 20 },
            answers: Cap { records: 10_000, bytes: 256 << 20 },
            rates: 100_000,
        }
    }
}

/// The limits and each agent's retention, which a reload may change.
#[derive(Debug)]
pub struct Bounds {
    /// What never changes.
    pub limits: Limits,
    retention: ArcSwap<HashMap<AgentId, Retention>>,
}

impl Bounds {
    /// With these agents.
    pub fn new(limits: Limits, agents: HashMap<AgentId, Retention>) -> Self {
        Self { limits, retention: ArcSwap::from_pointee(agents) }
    }

    /// What holds for this agent; one that gateway.yaml no longer names has the default.
    pub fn retention(&self, agent: AgentId) -> Retention {
        self.retention.load().get(&agent).copied().unwrap_or_default()
    }

    /// How long the items of every agent of gateway.yaml are kept.
    pub(super) fn ages(&self) -> Vec<(AgentId, Duration)> {
        self.retention.load().iter().map(|(agent, retention)| (*agent, retention.age)).collect()
    }

    /// Takes other agents from now on.
    pub fn replace(&self, agents: HashMap<AgentId, Retention>) {
        self.retention.store(Arc::new(agents));
    }
}
