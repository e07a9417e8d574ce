//! What gateway.yaml and the files that it includes have in common: upstreams and agents.

use super::agent::{Draft, SINGLE};
use super::server::Server;
use crate::upstream;
use crate::yaml::{Fields, Node, Problem, Slot};

/// The upstreams and agents of one file.
#[derive(Debug, Default)]
pub(super) struct Part<'d> {
    pub(super) upstreams: Vec<Entry<'d>>,
    pub(super) agents: Vec<Draft<'d>>,
}

/// An entry of `upstreams:`.
#[derive(Debug)]
pub(super) struct Entry<'d> {
    pub(super) name: &'d str,
    pub(super) node: Node<'d>,
    /// `None` if it could not be read; its name is known nevertheless.
    pub(super) settings: Option<upstream::Settings>,
}

/// Reads or describes gateway.yaml.
pub(super) fn gateway<'d>(slot: Slot<'_, 'd>) -> Option<(Server<'d>, Part<'d>)> {
    slot.section("gateway", |fields| {
        let server = Server::take(fields);
        // Which files these are was settled before any was read.
        fields.optional::<Vec<String>>("include", "Files with more `agents` and `upstreams`, such as agents/*.yaml.");
        let doc =
            "Services by name. Those of an included file are known in that file alone unless they say `shared: true`.";
        let upstreams = fields.with("upstreams", doc, upstreams);
        let agent = fields.with("agent", "The agent at the origin.", |slot| Draft::take(SINGLE, "", slot));
        fields.require_in("agent", "name", "from", "The agent's name.");
        let agents = fields.with("agents", "Agents by name, each at a base URL of its own.", agents);
        let agents = agent.into_iter().chain(agents.unwrap_or_default()).collect();
        Some((server?, Part { upstreams: upstreams.unwrap_or_default(), agents }))
    })
}

/// Reads a file that gateway.yaml includes.
pub(super) fn included<'d>(slot: Slot<'_, 'd>) -> Option<Part<'d>> {
    slot.section("included", |fields: &mut Fields<'_, 'd>| {
        let upstreams = fields.with("upstreams", "Services by name.", upstreams);
        let agents = fields.with("agents", "Agents by name, each at a base URL of its own.", agents);
        Some(Part { upstreams: upstreams.unwrap_or_default(), agents: agents.unwrap_or_default() })
    })
}

fn upstreams<'d>(slot: Slot<'_, 'd>) -> Option<Vec<Entry<'d>>> {
    slot.map(|name, slot| {
        let node = slot.node();
        check_name(name, &slot);
        let settings = upstream::Settings::take(name, slot);
        Some(Entry { name, node: node?, settings })
    })
}

fn agents<'d>(slot: Slot<'_, 'd>) -> Option<Vec<Draft<'d>>> {
    slot.map(|key, slot| {
        check_name(key, &slot);
        Draft::take(key, &format!("/agents/{key}"), slot)
    })
}

/// Names stand in paths, metrics and logs, and must not be taken for URLs.
fn check_name(name: &str, slot: &Slot<'_, '_>) {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    if !name.bytes().all(legal) || !name.starts_with(|first: char| first.is_ascii_alphanumeric()) {
        slot.problem(|node| {
            let problem = Problem::error(node, format!("{name:?} can't be a name")).at_key();
            problem.help("a name is letters, digits, `.`, `_` and `-`, and begins with a letter or digit")
        });
    }
}
