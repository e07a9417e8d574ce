//! What no section can know by itself: everything is held against everything else.

mod addresses;
mod endpoints;
mod published;

use super::Surroundings;
use super::agent::Draft;
use super::server::Server;
use super::upstreams::Upstreams;
use crate::talk::settings::{DialectChoice, NewsFrom};
use crate::yaml::{Node, Problem, Report, nearest};

/// Reports what does not fit together, and makes every upstream that an agent names the key of one.
pub(super) fn check<'d>(
    server: &Server<'d>,
    agents: &mut [Draft<'d>],
    upstreams: &mut Upstreams<'d>,
    surroundings: Surroundings<'_>,
    report: &Report<'d>,
) {
    for draft in &mut *agents {
        resolve(draft, upstreams, report);
        dialect(draft, surroundings, report);
        news_in_context(draft, report);
    }
    let bases = addresses::check(agents, report);
    for draft in &*agents {
        endpoints::check(draft, &bases, report);
    }
    open_talk(server, agents, report);
    published::check(agents, report);
}

/// Replaces what the operator calls an upstream by its key.
fn resolve<'d>(draft: &mut Draft<'d>, upstreams: &mut Upstreams<'d>, report: &Report<'d>) {
    let file = draft.file;
    let mut key_of = |node: Option<Node<'d>>| {
        let node = node?;
        upstreams.resolve(node.as_text()?, file, node, report)
    };
    let default = draft.node.get("upstream");
    let default_key = key_of(default);
    let mut uses_default = false;

    let talk = draft.node.get("talk");
    if let Some(talk_settings) = draft.agent.talk.as_mut().filter(|talk| talk.dialect != DialectChoice::Guide) {
        let own = talk.and_then(|talk| talk.get("upstream"));
        uses_default |= own.is_none();
        talk_settings.upstream = if own.is_some() { key_of(own) } else { default_key.clone() };
    }
    // A capability that could not be read still uses what it names.
    let mut readable = draft.capabilities.iter().zip(&mut draft.agent.capabilities).peekable();
    for node in draft.node.get("capabilities").into_iter().flat_map(Node::children) {
        let own = node.get("route").and_then(|route| route.get("upstream"));
        uses_default |= own.is_none();
        let key = if own.is_some() { key_of(own) } else { default_key.clone() };
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

fn dialect<'d>(draft: &Draft<'d>, surroundings: Surroundings<'_>, report: &Report<'d>) {
    let Some(node) = draft.node.get("talk").and_then(|talk| talk.get("dialect")) else { return };
    match draft.agent.talk.as_ref().map(|talk| &talk.dialect) {
        Some(DialectChoice::BuiltIn(name)) if !surroundings.dialects.contains(&name.as_str()) => {
            let problem = Problem::error(node, format!("there is no dialect `{}`", node.written()));
            let names = surroundings.dialects.iter().copied().chain(["guide"]);
            report.add(match nearest(name, names.clone()) {
                Some(name) => problem.help(format!("did you mean `{name}`?")),
                None => problem.help(format!("the dialects are {}", crate::yaml::joined(names, "and"))),
            });
        }
        Some(DialectChoice::Inline(mapping)) => {
            for (pointer, message) in (surroundings.compile)(mapping) {
                report.add(Problem::error(node.nearest(&pointer), message));
            }
        }
        _ => {}
    }
}

/// Items of the agent's own feed come from anybody, and end up in front of the model.
fn news_in_context<'d>(draft: &Draft<'d>, report: &Report<'d>) {
    let Some(node) = draft.node.get("talk").and_then(|talk| talk.get("news")).and_then(|news| news.get("from")) else {
        return;
    };
    let news =
        draft.agent.talk.as_ref().map(|talk| talk.news).filter(|news| news.items > 0 && news.from != NewsFrom::Session);
    if news.is_some() && draft.agent.news.is_some() {
        let problem = Problem::warning(node, "everyone may post news to this agent, and its model will read them");
        report.add(problem.help("`from: session` shows the model only what was posted to the caller's own session"));
    }
}

fn open_talk<'d>(server: &Server<'d>, agents: &[Draft<'d>], report: &Report<'d>) {
    let talking: Vec<_> =
        agents.iter().filter(|draft| draft.agent.talk.as_ref().is_some_and(|talk| talk.upstream.is_some())).collect();
    let [first, others @ ..] = talking.as_slice() else { return };
    for (listen, node) in server.listen.iter().filter(|(listen, _)| !listen.is_loopback()) {
        let Some(node) = node else { continue };
        let others = match others.len() {
            0 => String::new(),
            1 => " and another agent".to_owned(),
            count => format!(" and {count} other agents"),
        };
        let message = format!("whoever reaches {listen} can talk to `{}`{others}, at your expense", first.agent.key);
        report.add(Problem::warning(*node, message).help("listen on 127.0.0.1, behind a proxy that knows its callers"));
    }
}
