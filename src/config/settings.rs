//! `Config`: gateway.yaml after reading, checking and filling in what was not written.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value};

use super::Cidr;
use crate::front::{self, Listen};
use crate::restap::catalog::Card;
use crate::yaml::Secret;
use crate::{capability, egress, identity, store, talk, telemetry, upstream};

/// The whole of gateway.yaml, its includes among it.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Where callers are served; never empty.
    pub listen: Vec<Listen>,
    /// Of listeners that are more than an address, by their position: TLS, or a redirect.
    pub ways: Vec<(usize, front::way::Settings)>,
    /// What agents are advertised by, without a trailing slash.
    pub public_url: Option<String>,
    /// The operators' listener; `None` is `admin: off`.
    pub admin: Option<Admin>,
    /// Where feeds and conversations are kept.
    pub store: store::Settings,
    /// What bounds every request.
    pub limits: Limits,
    /// Peers whose `X-Forwarded-For` and `Forwarded` are believed.
    pub trusted_proxies: Vec<Cidr>,
    /// Logging.
    pub log: telemetry::Settings,
    /// By name; inline URLs stand under their own text.
    pub upstreams: BTreeMap<String, upstream::Settings>,
    /// In the order of the file. One with the base `""` and no host is at the origin.
    pub agents: Vec<Agent>,
    /// Every credential of the file, by the path of its key.
    pub credentials: Vec<(String, Secret)>,
}

impl Config {
    /// Where agents call the outbound tool, each once.
    pub fn rest_listeners(&self) -> Vec<&Listen> {
        let mut all: Vec<&Listen> = Vec::new();
        for listen in self.agents.iter().filter_map(|agent| Some(&agent.rest.as_ref()?.listen)) {
            if !all.contains(&listen) {
                all.push(listen);
            }
        }
        all
    }
}

/// `admin:`.
#[derive(Debug, Clone, PartialEq)]
pub struct Admin {
    /// Where.
    pub listen: Listen,
    /// Opens what is not read-only on a listener that is not loopback.
    pub token: Option<Secret>,
    /// Whether the address stands in the file; if not, one that is taken is a warning.
    pub written: bool,
}

/// `limits:`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a body that the gateway itself reads, and of every JSON body.
    pub body: u64,
    /// Bytes of an answer that the gateway reads whole.
    pub response: u64,
    /// Bytes of the answers that `route.cache` keeps, of all agents.
    pub cache: u64,
    /// Open connections.
    pub connections: usize,
    /// Until a request's head is complete.
    pub header_timeout: Duration,
    /// Until a body that is read whole is complete; between two reads of a streamed one.
    pub body_timeout: Duration,
    /// After SIGTERM, until streams are cut.
    pub shutdown: Duration,
    /// After an upgrade, until the old process's streams are cut.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body: 1 << 20,
            response: 8 << 20,
            cache: 64 << 20,
            connections: 10_000,
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_mins(1),
            shutdown: Duration::from_secs(30),
            drain: Duration::from_hours(1),
        }
    }
}

/// One agent: `agent:`, or an entry of `agents:`.
#[derive(Debug, Clone, PartialEq)]
pub struct Agent {
    /// The key under `agents:`, or `agent`. Names it in logs and metrics, and keys its feeds.
    pub key: String,
    /// `""` at the origin, else `/agents/billing`: a leading slash, no trailing one.
    pub base_path: String,
    /// The host that it alone answers, lower case, without a port.
    pub host: Option<String>,
    /// `name`, `description`, `contact`.
    pub card: Card,
    /// `version`, in the catalog and in health.
    pub version: Option<String>,
    /// `None` is `talk: off`.
    pub talk: Option<talk::Settings>,
    /// `None` is `news: off`.
    pub news: Option<store::NewsSettings>,
    /// In the order of the file.
    pub capabilities: Vec<capability::Settings>,
    /// As written; each has `name` and `type`.
    pub packages: Vec<Map<String, Value>>,
    /// As written.
    pub protocols: Map<String, Value>,
    /// The outbound tool of the agent itself.
    pub rest: Option<egress::Settings>,
    /// `cors.origins`; `None` is the default of the listener.
    pub cors: Option<Vec<String>>,
    /// `access:`; `None` where it is not written, and then everybody may do everything.
    pub access: Option<identity::Settings>,
    /// Whose news are read; `None` is nobody's.
    pub follow: Option<Follow>,
}

/// `follow_news`, once it is known where the news are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Follow {
    /// The agent's base URL, which its items are told apart by.
    pub agent: String,
    /// The key of an upstream.
    pub upstream: String,
    /// The path of the news on it.
    pub path: String,
}
