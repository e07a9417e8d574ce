//! `Settings`: the section `store:`, and what an agent says of its feeds under `news:`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::{postgres, redis};
use crate::net::tls::Settings as Tls;
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
    /// The key before, while the gateways of a shared store take a new one.
    pub previous_key: Option<Secret>,
}

/// The key of a shared store, and while it is changed the one before.
#[derive(Debug, Clone)]
pub struct SharedKey {
    /// `store.key`.
    pub current: Secret,
    /// `store.previous_key`.
    pub previous: Option<Secret>,
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
    /// A PostgreSQL server that several gateways share.
    Postgres(Server),
    /// A Redis or Valkey server that several gateways share.
    Redis(Server),
}

/// Where the server of a shared engine is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// Its URL, which may hold a password.
    pub url: Secret,
    /// Whom to trust.
    pub tls: Tls,
}

/// Where an embedded store is, beside the file, and how large it may become.
const PATH: &str = "data";
const MAX_SIZE: u64 = 1 << 30;

impl Settings {
    /// What holds where nothing is written in a file of this directory.
    pub fn beside(directory: &Path) -> Self {
        Self {
            engine: Engine::Embedded { path: directory.join(PATH), max_size: MAX_SIZE },
            key: None,
            previous_key: None,
        }
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
            let postgres = fields.with("postgres", "A PostgreSQL server that several gateways share.", |slot| {
                slot.section("postgres", |fields| {
                    Server::take(fields, "postgres://user:password@host/database", postgres::is_url)
                })
            });
            let redis = fields.with("redis", "A Redis or Valkey server that several gateways share.", |slot| {
                slot.section("redis", |fields| Server::take(fields, "redis://user:password@host/0", redis::is_url))
            });
            let store_key = fields.with(
                "key",
                "32 bytes in base64 that hash session ids; made once beside an embedded store where none is given.",
                key,
            );
            let doc = "The key before, while the gateways of a shared store take a new `key` one by one.";
            let previous_key = fields.with("previous_key", doc, key);
            one_engine(fields);
            if fields.get("postgres").or_else(|| fields.get("redis")).is_some() {
                if let Some(node) = fields.node().filter(|_| fields.get("key").is_none()) {
                    let problem =
                        Problem::error(node, "a shared store needs a `key`, the same for every gateway").at_key();
                    fields.problem(problem.help("`restap-gateway keys new --store` makes one: key: \"${STORE_KEY}\""));
                }
            } else {
                fields.useless(&["previous_key"], "a store that is not shared has one key for ever");
            }
            let default = Self::beside(fields.node()?.document().directory());
            let shared = postgres.map(Engine::Postgres).or(redis.map(Engine::Redis));
            let engine = embedded.or(memory).or(shared).unwrap_or(default.engine);
            Some(Self { engine, key: store_key, previous_key })
        })
    }
}

impl Settings {
    /// The key of a shared store.
    pub fn shared_key(&self) -> Option<SharedKey> {
        Some(SharedKey { current: self.key.clone()?, previous: self.previous_key.clone() })
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

impl Server {
    fn take(fields: &mut Fields<'_, '_>, form: &str, is_url: impl Fn(&str) -> bool) -> Option<Self> {
        let url: Option<Secret> = fields.required("url", &format!("Where it is, as in `{form}`."));
        let tls = fields.with("tls", "TLS towards the server.", |slot| {
            slot.section("store_tls", |fields| {
                let ca: PathBuf =
                    fields.required("ca", "PEM file of the authorities to trust in place of the system's.")?;
                let directory = fields.node()?.document().directory();
                Some(Tls { ca: Some(directory.join(ca)), ..Tls::default() })
            })
        });
        let url = url?;
        if !is_url(url.expose()) {
            let problem = Problem::error(fields.get("url")?, "the URL can't be read");
            fields
                .problem(problem.help(format!("it looks like {form}; `%` and two digits stand for what is no letter")));
            return None;
        }
        Some(Self { url, tls: tls.unwrap_or_default() })
    }
}

/// One engine alone makes sense.
fn one_engine(fields: &Fields<'_, '_>) {
    let mut named =
        ["embedded", "memory", "postgres", "redis"].into_iter().filter_map(|name| Some((name, fields.get(name)?)));
    if let Some((first, _)) = named.next() {
        for (_, node) in named {
            let problem = Problem::error(node, format!("there is already another engine, `{first}`")).at_key();
            fields.problem(problem.help("keep one of them"));
        }
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
