//! `Settings`: the section `store:`, and what an agent says of its feeds under `news:`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::yaml::{ByteSize, Fields, Period, Problem, Secret, Slot, Value as _};

/// Bytes of a key.
const KEY_LENGTH: usize = 32;

/// `store:`.
#[derive(Debug, Clone, PartialEq)]
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

/// Where an embedded store is, beside the file, and how large it may become.
const PATH: &str = "data";
const MAX_SIZE: u64 = 1 << 30;

impl Settings {
    /// What holds where nothing is written in a file of this directory.
    pub fn beside(directory: &Path) -> Self {
        Self { engine: Engine::Embedded { path: directory.join(PATH), max_size: MAX_SIZE }, key: None }
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

impl Settings {
    /// Reads `store:`.
    pub fn take(slot: Slot<'_, '_>) -> Option<Self> {
        slot.section("store", |fields| {
            let embedded = fields.with("embedded", "SQLite in a directory of the gateway's own.", |slot| {
                slot.section("embedded", |fields| Engine::embedded(fields))
            });
            let memory = fields.with("memory", "Nothing outlives the process.", |slot| {
                slot.section("memory", |_| Some(Engine::Memory))
            });
            let key = fields.with(
                "key",
                "32 bytes in base64 that hash session ids; made once beside an embedded store where none is given.",
                key,
            );
            if let (Some(node), Some(_)) = (fields.get("memory"), fields.get("embedded")) {
                let problem = Problem::error(node, "there is already another engine, `embedded`").at_key();
                fields.problem(problem.help("keep one of them"));
            }
            let default = Self::beside(fields.node()?.document().directory());
            Some(Self { engine: embedded.or(memory).unwrap_or(default.engine), key })
        })
    }
}

impl Engine {
    fn embedded(fields: &mut Fields<'_, '_>) -> Option<Self> {
        let path = fields.or("path", PATH.to_owned(), "The directory, relative to this file; made if it is not there.");
        let max_size = fields.or("max_size", ByteSize(MAX_SIZE), "Bytes of all items.");
        let directory = fields.node()?.document().directory();
        Some(Self::Embedded { path: directory.join(path), max_size: max_size.into() })
    }
}

fn key(slot: Slot<'_, '_>) -> Option<Secret> {
    let (node, report) = (slot.node(), slot.report());
    let secret = Secret::take(slot)?;
    if BASE64.decode(secret.expose()).is_ok_and(|key| key.len() == KEY_LENGTH) {
        return Some(secret);
    }
    let problem = Problem::error(node?, format!("the key must be {KEY_LENGTH} bytes in base64"));
    report?.add(problem.help("`restap-gateway keys new --store` makes one"));
    None
}

impl NewsSettings {
    /// Reads `news:` of an agent.
    pub fn take(slot: Slot<'_, '_>) -> Option<Self> {
        slot.section("news", |fields| {
            let words = [
                ("optional", NewsSessions::Optional),
                ("required", NewsSessions::Required),
                ("ignored", NewsSessions::Ignored),
            ];
            let doc = "Whether a request's session names a feed of its own.";
            let sessions = fields.word("sessions", &words, NewsSessions::default(), doc);
            let retention = fields.with("retention", "When items go; each bound is for one feed.", Retention::take);
            Some(Self { sessions, retention: retention.unwrap_or_default() })
        })
    }
}

impl Retention {
    fn take(slot: Slot<'_, '_>) -> Option<Self> {
        slot.section("retention", |fields| {
            let default = Self::default();
            let items = fields.or_with("items", default.items, "Items a feed.", |slot| slot.integer(1..=u64::MAX));
            Some(Self {
                age: fields.or("age", Period(default.age), "Since an item was received.").into(),
                items,
                bytes: fields.or("bytes", ByteSize(default.bytes), "Bytes a feed.").into(),
            })
        })
    }
}
