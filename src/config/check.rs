//! What no section can know by itself: everything is held against everything else.

mod access;
mod addresses;
mod elsewhere;
mod endpoints;
mod published;
pub(super) mod reload;
mod rest;
mod talk;

use super::agent::Draft;
use super::server::Server;
use super::upstreams::Upstreams;
use crate::talk::settings::DialectChoice;
use crate::yaml::{Node, Problem, Report};

/// Reports what does not fit together, and makes every upstream that an agent names the key of one.
pub(super) fn check<'d>(
    server: &Server<'d>,
    agents: &mut [Draft<'d>],
    upstreams: &mut Upstreams<'d>,
    report: &Report<'d>,
) {
    for draft in &mut *agents {
        resolve(draft, upstreams, report);
    }
    upstreams.check_api_keys(&talk::check(agents, report), report);
    let bases = addresses::check(agents, report);
    for draft in &*agents {
        endpoints::check(draft, &bases, report);
    }
    access::check(server, agents, report);
    published::check(agents, report);
    rest::check(server, agents, report);
    elsewhere::check(server, agents, report);
}

/// Replaces what the operator calls an upstream by its key.
fn resolve<'d>(draft: &mut Draft<'d>, upstreams: &mut Upstreams<'d>, report: &Report<'d>) {
    let file = draft.file;
    if let Some(from) = &draft.from {
        match draft.node.get("upstream") {
            None => upstreams.add(from.key(), from.base.url.clone(), from.node, report),
            Some(_) => elsewhere::forbid_metadata(from, report),
        }
    }
    let mut key_of = |node: Option<Node<'d>>| {
        let node = node?;
        upstreams.resolve(node.as_text()?, file, node, report)
    };
    let default = draft.node.get("upstream");
    let default_key = match (&draft.from, default) {
        (Some(from), None) => Some(from.key().to_owned()),
        (_, default) => key_of(default),
    };
    // An agent from elsewhere is asked through it.
    let mut uses_default = draft.from.is_some();

    let talk = draft.node.get("talk");
    if let Some(talk_settings) = draft.agent.talk.as_mut().filter(|talk| talk.dialect != DialectChoice::Guide) {
        let own = talk.and_then(|talk| talk.get("upstream"));
        uses_default |= own.is_none();
        talk_settings.upstream = if own.is_some() { key_of(own) } else { default_key.clone() };
    }
    // A capability that could not be read still uses what it names.
    let mut readable = draft.capabilities.iter().zip(&mut draft.agent.capabilities).peekable();
    for node in draft.node.get("capabilities").into_iter().flat_map(Node::children) {
        let import = node.get("openapi");
        let own = import.or(node.get("route")).and_then(|holder| holder.get("upstream"));
        uses_default |= own.is_none();
        let key = if own.is_some() { key_of(own) } else { default_key.clone() };
        if let Some(section) = import {
            if own.is_none() && default.is_none() && draft.from.is_none() {
                let problem = Problem::error(section, "the description has no upstream").at_key();
                report.add(problem.help("add `upstream` here, or to the agent"));
            }
            if let Some(import) = draft.imports.iter_mut().find(|import| import.node() == section) {
                import.upstream = key.unwrap_or_default();
            }
            continue;
        }
        if let Some((_, capability)) = readable.next_if(|(readable, _)| **readable == node) {
            capability.route.upstream = key.unwrap_or_default();
        }
    }
    if let Some(node) = default.filter(|_| !uses_default) {
        let problem =
            Problem::warning(node, "`upstream` does nothing: no capability and no talk of the agent uses it").at_key();
        report.add(problem.help("add `capabilities` or `talk`"));
    }
}
