//! What an entry of `upstreams:` says of several servers, of repeating requests, and of asking how servers are.

use std::collections::HashSet;
use std::time::Duration;

use http::uri::PathAndQuery;
use serde_json::json;

use crate::net::Url;
use crate::yaml::{Fields, Mismatch, Node, Period, Problem, Slot};

/// Servers of one upstream.
const SERVERS_MAX: usize = 256;

/// The largest share of a server.
const WEIGHT_MAX: u32 = 1_000;

/// Times that one request is sent, the first among them.
const ATTEMPTS_MAX: u32 = 5;

/// One server of an upstream.
#[derive(Debug, Clone, PartialEq)]
pub struct Server {
    /// Where it is.
    pub url: Url,
    /// Its share of the requests, against the others' weights.
    pub weight: u32,
}

/// `balance:`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Balance {
    /// In turn, by weight.
    #[default]
    RoundRobin,
    /// Whoever has the fewest requests for its weight.
    LeastConn,
    /// Requests of one session, else of one caller's address, go to one server.
    Consistent,
}

/// `retry:`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    /// Times that a request is sent, the first among them.
    pub attempts: u32,
    /// After what.
    pub when: Vec<When>,
}

/// A failure that a request may be repeated after.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum When {
    /// There was no connection.
    Connect,
    /// No answer began in time.
    Timeout,
    /// 502, 503 or 504.
    Status(u16),
}

/// `health:`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// What is asked for, at each server's origin.
    pub path: PathAndQuery,
    /// How often.
    pub interval: Duration,
}

impl Balance {
    pub(super) const WORDS: [(&str, Self); 3] =
        [("round_robin", Self::RoundRobin), ("least_conn", Self::LeastConn), ("consistent", Self::Consistent)];
}

impl When {
    const WORDS: [(&str, Self); 5] = [
        ("connect", Self::Connect),
        ("timeout", Self::Timeout),
        ("502", Self::Status(502)),
        ("503", Self::Status(503)),
        ("504", Self::Status(504)),
    ];
}

/// Reads `servers:`, in place of `url:`. They differ in nothing but host, port and weight: whatever else a URL says is
/// said of all.
pub(super) fn servers<'d>(slot: Slot<'_, 'd>) -> Option<Vec<Server>> {
    let (node, report) = (slot.node(), slot.report());
    let servers: Vec<(Option<Node<'d>>, Server)> = slot.list(|slot| {
        let node = slot.node();
        let server = slot.section("server", |fields| {
            let url = fields.required_with("url", "Where it is.", super::url);
            let weight =
                fields.or_with("weight", 1, "Its share of the requests, against the others' weights.", |slot| {
                    slot.integer(1..=WEIGHT_MAX)
                });
            Some(Server { url: url?, weight })
        })?;
        Some((node, server))
    })?;
    let report = report?;
    let Some((_, first)) = servers.first() else {
        report.add(Problem::error(node?, "the list is empty, so that there is nobody to ask"));
        return None;
    };
    if servers.len() > SERVERS_MAX {
        report.add(Problem::error(node?, format!("an upstream has {SERVERS_MAX} servers at most")));
    }
    let mut seen = HashSet::new();
    for (node, Server { url, .. }) in &servers {
        let Some(node) = node.and_then(|node| node.get("url")) else { continue };
        if !seen.insert(url.origin.clone()) {
            report.add(
                Problem::error(node, "this server stands in the list twice").help("give one of them more `weight`"),
            );
        }
        let same =
            (url.origin.tls, &url.prefix, &url.query) == (first.url.origin.tls, &first.url.prefix, &first.url.query);
        if !same {
            let problem = Problem::error(node, "the servers of an upstream differ in host and port alone");
            report.add(problem.help("give each the same scheme, path and query, or make another upstream of it"));
        }
    }
    Some(servers.into_iter().map(|(_, server)| server).collect())
}

/// Reads `retry:`.
pub(super) fn retry(slot: Slot<'_, '_>) -> Option<Retry> {
    slot.section("retry", |fields| {
        let doc = "Times that a request is sent, the first among them.";
        let attempts = fields.or_with("attempts", 2, doc, |slot| slot.integer(2..=ATTEMPTS_MAX));
        let doc = "After what it is sent again, where that is safe: connect, timeout, 502, 503, 504.";
        let when = fields.required_with("when", doc, |slot| {
            let (node, report) = (slot.node(), slot.report());
            let list = slot.list(when)?;
            if list.is_empty() {
                report?.add(
                    Problem::error(node?, "the list is empty, so that nothing is ever repeated")
                        .help("leave `retry` out"),
                );
            }
            Some(list)
        });
        Some(Retry { attempts, when: when? })
    })
}

/// A word, or a status as a number.
fn when(slot: Slot<'_, '_>) -> Option<When> {
    let words = When::WORDS.map(|(word, _)| word);
    let statuses = [502, 503, 504];
    let schema = json!({"anyOf": [{"enum": words}, {"enum": statuses}, {"type": "string", "pattern": "\\$\\{"}]});
    slot.value(schema, |node| {
        let text = node.written();
        let found = When::WORDS.iter().find(|(word, _)| node.as_text() == Some(*word) || text == *word);
        found.map(|(_, when)| *when).ok_or_else(|| Mismatch::found(node, "one of connect, timeout, 502, 503, 504"))
    })
}

/// Reads `health:`.
pub(super) fn health(slot: Slot<'_, '_>) -> Option<Health> {
    slot.section("health", |fields: &mut Fields<'_, '_>| {
        let doc = "What is asked for with GET, at each server's origin; 200 to 399 is well.";
        let path = fields.required_with("path", doc, |slot| {
            slot.value(json!({"type": "string", "pattern": "^/|\\$\\{"}), |node| {
                let path = node.as_text().filter(|path| path.starts_with('/'));
                path.and_then(|path| path.parse().ok()).ok_or_else(|| Mismatch::found(node, "a path such as /healthz"))
            })
        });
        let interval = fields.or("interval", Period(Duration::from_secs(5)), "How often each server is asked.");
        Some(Health { path: path?, interval: interval.into() })
    })
}
