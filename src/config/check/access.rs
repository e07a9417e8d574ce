//! Who may do what: grants name something that is there, and what is open to everybody is meant to be.

use std::collections::HashSet;

use super::super::agent::Draft;
use super::super::server::Server;
use crate::identity::Grant;
use crate::yaml::{Node, Problem, Report, nearest};

/// What may be granted beside capabilities.
const FIXED: [&str; 4] = ["talk", "news", "news_receive", "rest"];

/// Holds every agent's `access` against the agent.
pub(super) fn check<'d>(server: &Server<'d>, agents: &[Draft<'d>], report: &Report<'d>) {
    let asks = |way: &crate::front::way::Settings| way.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some());
    let asks_for_certificates = server.ways.iter().any(|(_, way)| asks(way));
    for draft in agents {
        grants(draft, report);
        kept(draft, report);
        if !asks_for_certificates {
            certificates(draft, report);
        }
    }
    open_talk(server, agents, report);
}

/// An identity that no listener asks for would never be proven.
fn certificates<'d>(draft: &Draft<'d>, report: &Report<'d>) {
    let Some(access) = draft.node.get("access") else { return };
    let of_groups = access.get("groups").into_iter().flat_map(Node::children).flat_map(Node::children);
    for node in access.get("deny").into_iter().flat_map(Node::children).chain(of_groups) {
        if node.as_text().is_some_and(|text| text.starts_with("cert:")) {
            let problem = Problem::error(node, "no caller can prove this: no listener asks for client certificates");
            report.add(problem.help("write `client_ca` into the `tls` of a listener"));
        }
    }
}

/// A grant that names nothing would do nothing.
fn grants<'d>(draft: &Draft<'d>, report: &Report<'d>) {
    let Some(access) = draft.node.get("access") else { return };
    let ids: HashSet<&str> =
        draft.agent.capabilities.iter().map(|capability| capability.id.as_str()).chain(FIXED).collect();
    let in_tools = access.get("tools").into_iter().flat_map(Node::children).flat_map(Node::children);
    let in_tools = in_tools.filter_map(|node| Some((node, node.as_text()?)));
    let limits = access.get("rate").into_iter().flat_map(Node::children);
    let in_rate = limits.filter_map(|limits| limits.get("tools")).flat_map(Node::children);
    let in_rate = in_rate.filter_map(|node| Some((node, node.key()?)));
    // A capability that could not be read may be the one that is meant.
    let written = draft.node.get("capabilities").map_or(0, |list| list.children().count());
    let incomplete = written > draft.agent.capabilities.len() || draft.from.is_some();
    for (node, text) in in_tools.chain(in_rate) {
        let Ok(grant) = text.parse::<Grant>() else { continue };
        if incomplete || ids.iter().any(|id| grant.names(id)) {
            continue;
        }
        let message = format!("this agent has no capability `{text}`");
        let problem = if grant.is_pattern() { Problem::warning(node, message) } else { Problem::error(node, message) };
        let problem = if node.as_text().is_none_or(|value| value != text) { problem.at_key() } else { problem };
        report.add(match nearest(text, ids.iter().copied()) {
            Some(near) => problem.help(format!("did you mean `{near}`?")),
            None => problem,
        });
    }
    for (key, is_off) in [("talk", draft.agent.talk.is_none()), ("news", draft.agent.news.is_none())] {
        for node in access.get("tools").into_iter().flat_map(Node::children).flat_map(Node::children) {
            if is_off && node.as_text().is_some_and(|text| text == key || key == "news" && text == "news_receive") {
                let problem = Problem::error(node, format!("this grant does nothing: the agent has `{key}: off`"));
                report.add(problem);
            }
        }
    }
}

/// Nothing is kept of calls with a credential.
fn kept<'d>(draft: &Draft<'d>, report: &Report<'d>) {
    let Some(access) = &draft.agent.access else { return };
    for (node, capability) in draft.capabilities.iter().zip(&draft.agent.capabilities) {
        let cache = node.get("route").and_then(|route| route.get("cache"));
        if let Some(node) = cache.filter(|_| access.restricts() && !access.is_open_for(&capability.id)) {
            let message = "`cache` does nothing here: nobody may call this without a credential";
            let help = "answers to callers with one are never kept; leave `cache` out, or open it in `access.tools`";
            report.add(Problem::error(node, message).at_key().help(help));
        }
    }
}

/// A model behind a public address costs its operator what any stranger likes.
fn open_talk<'d>(server: &Server<'d>, agents: &[Draft<'d>], report: &Report<'d>) {
    let is_open = |draft: &&Draft<'d>| {
        let access = draft.agent.access.as_ref();
        access.is_none_or(|access| access.is_open_for("talk") && !access.limits_anonymous())
    };
    let has_model = |draft: &&Draft<'d>| draft.agent.talk.as_ref().is_some_and(|talk| talk.upstream.is_some());
    let talking: Vec<_> = agents.iter().filter(has_model).filter(is_open).collect();
    let [first, others @ ..] = talking.as_slice() else { return };
    for (listen, node) in server.listen.iter().filter(|(listen, _)| !listen.is_loopback()) {
        let Some(node) = node else { continue };
        let others = match others.len() {
            0 => String::new(),
            1 => " and another agent".to_owned(),
            count => format!(" and {count} other agents"),
        };
        let message = format!("whoever reaches {listen} can talk to `{}`{others}, at your expense", first.agent.key);
        let help = "say who may with `access.tools`, or how often with `access.rate`; or listen on 127.0.0.1";
        report.add(Problem::warning(*node, message).help(help));
    }
}
