//! The keys of gateway.yaml that concern the gateway as a whole.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::Cidr;
use super::settings::{Admin, Limits};
use crate::front::{Listen, way};
use crate::net::Url;
use crate::store;
use crate::telemetry::settings::{Format, Level, Settings as Log};
use crate::yaml::{ByteSize, Fields, Node, Period, Problem, Slot, Switch, Value as _, Written};

/// Where callers are served unless the file says so.
const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);

/// Where operators are served unless the file says so.
const ADMIN_LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9901);

/// Connections that `limits.connections` may allow.
const CONNECTIONS_MAX: u32 = 1_000_000;

/// What the file says beside agents and upstreams.
#[derive(Debug)]
pub(super) struct Server<'d> {
    /// Never empty unless a problem was reported. The node is where it is written, if it is.
    pub(super) listen: Vec<(Listen, Option<Node<'d>>)>,
    /// Of listeners that are more than an address, by their position.
    pub(super) ways: Vec<(usize, way::Settings)>,
    pub(super) public_url: Option<String>,
    pub(super) admin: Option<Admin>,
    pub(super) store: store::Settings,
    pub(super) limits: Limits,
    pub(super) trusted_proxies: Vec<Cidr>,
    pub(super) log: Log,
}

impl<'d> Server<'d> {
    /// Asks for every key of its own; `None` only in a schema.
    pub(super) fn take(fields: &mut Fields<'_, 'd>) -> Option<Self> {
        let doc = "Where callers are served: \"127.0.0.1:8080\", \":8080\" for every address, \"unix:/path\", {address: …}, or a list.";
        let Listeners(listeners) =
            fields.or_with("listen", Listeners(vec![Door::plain(Listen::Tcp(LISTEN), None)]), doc, Listeners::take);
        let public_url = fields.with(
            "public_url",
            "What agents are advertised by; without it the catalog leaves it out.",
            public_url,
        );
        let admin = fields.with("admin", "The operators' listener, or off.", |slot| slot.switch(admin));
        let store = fields.with(
            "store",
            "Where feeds and conversations are kept: embedded, memory, postgres or redis.",
            store::Settings::take,
        );
        let limits = fields.with("limits", "What bounds every request.", limits);
        let doc = "Blocks of addresses whose X-Forwarded-For and Forwarded are believed.";
        let trusted_proxies = fields.optional("trusted_proxies", doc);
        let log = fields.with("log", "How the gateway writes its log.", log);

        let directory = fields.node()?.document().directory();
        let ways = listeners.iter().enumerate().filter_map(|(at, door)| Some((at, door.way.clone()?))).collect();
        let server = Self {
            listen: listeners.into_iter().map(|door| (door.listen, door.node)).collect(),
            ways,
            public_url,
            admin: match admin {
                Some(Switch::Off) => None,
                Some(Switch::On(admin)) => Some(admin),
                Some(Switch::Default) | None => {
                    Some(Admin { listen: Listen::Tcp(ADMIN_LISTEN), token: None, written: false })
                }
            },
            store: store.unwrap_or_else(|| store::Settings::beside(directory)),
            limits: limits.unwrap_or_default(),
            trusted_proxies: trusted_proxies.unwrap_or_default(),
            log: log.unwrap_or_default(),
        };
        server.check(fields);
        Some(server)
    }

    fn check(&self, fields: &Fields<'_, 'd>) {
        let redirects = self.ways.iter().any(|(_, way)| way.https_redirect);
        if redirects
            && !self.ways.iter().any(|(_, way)| way.tls.is_some())
            && let Some(node) = fields.get("listen")
        {
            let problem = Problem::error(node, "`https_redirect` leads nowhere: no listener speaks TLS");
            fields.problem(problem.help("add one, such as {address: \":443\", tls: {cert: cert.pem, key: key.pem}}"));
        }
        let taken = |listen: &Listen| !matches!(listen, Listen::Tcp(address) if address.port() == 0);
        let mut seen = HashSet::with_capacity(self.listen.len());
        for (listen, node) in self.listen.iter().filter(|(listen, _)| taken(listen)) {
            if let (false, Some(node)) = (seen.insert(listen), node) {
                let problem = Problem::error(*node, format!("{listen} stands in the list twice"));
                fields.problem(problem.help("keep one of them"));
            }
        }
        if let (Some(admin), Some(node)) = (&self.admin, fields.get("admin").or(fields.get("listen")))
            && taken(&admin.listen)
            && seen.contains(&admin.listen)
        {
            let node = node.get("listen").unwrap_or(node);
            let problem =
                Problem::error(node, format!("callers and operators can't both be served at {}", admin.listen));
            fields.problem(problem.help("give `admin.listen` another port, or write `admin: off`"));
        }
    }
}

/// A listener as it is written.
struct Door<'d> {
    listen: Listen,
    node: Option<Node<'d>>,
    way: Option<way::Settings>,
}

impl<'d> Door<'d> {
    fn plain(listen: Listen, node: Option<Node<'d>>) -> Self {
        Self { listen, node, way: None }
    }

    fn take(slot: Slot<'_, 'd>) -> Option<Self> {
        let node = slot.node();
        slot.mapping_or(
            |slot| {
                slot.section("listener", |fields| {
                    let listen = fields.required("address", "The address, such as 127.0.0.1:8080.");
                    let way = super::way::take(fields);
                    Some(Self { listen: listen?, node, way })
                })
            },
            |slot| Listen::take(slot).map(|listen| Self::plain(listen, node)),
        )
    }
}

struct Listeners<'d>(Vec<Door<'d>>);

impl<'d> Listeners<'d> {
    fn take(slot: Slot<'_, 'd>) -> Option<Self> {
        slot.list_or(
            |slot| {
                let (node, report) = (slot.node(), slot.report());
                let list = slot.list(Door::take)?;
                if node?.children().next().is_none() {
                    report?.add(Problem::error(node?, "the list is empty, so that nobody can be served"));
                }
                Some(Self(list))
            },
            |slot| Door::take(slot).map(|listener| Self(vec![listener])),
        )
    }
}

impl Written for Listeners<'_> {
    fn written(&self) -> serde_json::Value {
        match self.0.as_slice() {
            [door] => door.listen.written(),
            list => list.iter().map(|door| door.listen.written()).collect(),
        }
    }
}

fn public_url(slot: Slot<'_, '_>) -> Option<String> {
    let (node, report) = (slot.node(), slot.report());
    let url: Url = slot.parsed("a URL such as https://agents.example.com", Some("[Hh][Tt][Tt][Pp][Ss]?://.+"))?;
    if !url.query.is_empty() {
        report?.add(Problem::error(node?, "agents can't be advertised by a URL with a query"));
        return None;
    }
    Some(url.to_string())
}

fn admin(slot: Slot<'_, '_>) -> Option<Admin> {
    slot.section("admin", |fields| {
        let listen = fields.or("listen", Listen::Tcp(ADMIN_LISTEN), "Where operators are served.");
        let token = fields.optional("token", "Opens what changes something, on a listener that is not loopback.");
        Some(Admin { listen, token, written: fields.get("listen").is_some() })
    })
}

fn limits(slot: Slot<'_, '_>) -> Option<Limits> {
    slot.section("limits", |fields| {
        let default = Limits::default();
        let connections = default.connections as u32;
        let mut size = |name, default, doc: &str| fields.or(name, ByteSize(default), doc).into();
        let body = size("body", default.body, "Bytes of a body that the gateway itself reads, and of every JSON body.");
        let response = size("response", default.response, "Bytes of an answer that the gateway reads whole.");
        let doc = "Bytes of the answers that `route.cache` keeps, of all agents; one has a sixteenth at most.";
        let cache = size("cache", default.cache, doc);
        let doc = "Open connections.";
        let connections = fields.or_with("connections", connections, doc, |slot| slot.integer(1..=CONNECTIONS_MAX));
        let mut period = |name, default, doc: &str| fields.or(name, Period(default), doc).into();
        Some(Limits {
            body,
            response,
            cache,
            connections: connections as usize,
            header_timeout: period("header_timeout", default.header_timeout, "Until a request's head is complete."),
            body_timeout: period(
                "body_timeout",
                default.body_timeout,
                "Until a body that is read whole is complete; the longest pause of a streamed one.",
            ),
            shutdown: period("shutdown", default.shutdown, "After SIGTERM, until streams are cut."),
            drain: period("drain", default.drain, "After an upgrade, until the old process's streams are cut."),
        })
    })
}

fn log(slot: Slot<'_, '_>) -> Option<Log> {
    slot.section("log", |fields| {
        let default = Log::default();
        let formats = [("text", Format::Text), ("json", Format::Json)];
        let levels = [
            ("error", Level::Error),
            ("warn", Level::Warn),
            ("info", Level::Info),
            ("debug", Level::Debug),
            ("trace", Level::Trace),
        ];
        Some(Log {
            format: fields.word("format", &formats, default.format, "For people or for programs."),
            level: fields.word("level", &levels, default.level, "The least that is written to stderr."),
            access: fields.or("access", default.access, "One line a request on stdout."),
        })
    })
}
