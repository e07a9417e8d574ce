//! `Settings`: the section `store:`, and what an agent says of its feeds under `news:`.

use std::path::PathBuf;
use std::time::Duration;

use crate::yaml::Secret;

/// `store:`.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where things are kept.
    pub engine: Engine,
    /// 32 bytes that hash session ids; made once beside an embedded store where none is given.
    pub key: Option<Secret>,
}

/// One of the engines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Engine {
    /// Nothing outlives the process.
    Memory,
    /// SQLite in a directory of ours.
    Embedded {
        /// The directory; made if it is not there.
        path: PathBuf,
        /// Bytes of all items.
        max_size: u64,
    },
}

impl Default for Settings {
    fn default() -> Self {
        Self { engine: Engine::Embedded { path: "data".into(), max_size: 1 << 30 }, key: None }
    }
}

/// `news:` of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NewsSettings {
    /// Whether a session names a feed of its own.
    pub sessions: NewsSessions,
    /// When items go.
    pub retention: Retention,
}

/// `news.sessions`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum NewsSessions {
    /// The session's feed, without a session the agent's own.
    #[default]
    Optional,
    /// A request without a session is refused.
    Required,
    /// There is only the agent's own feed.
    Ignored,
}

/// `news.retention`, each bound for one feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Since the item was received.
    pub age: Duration,
    /// Items a feed.
    pub items: u64,
    /// Bytes a feed.
    pub bytes: u64,
}

impl Default for Retention {
    fn default() -> Self {
        Self { age: Duration::from_hours(720), items: 10_000, bytes: 16 << 20 }
    }
}
