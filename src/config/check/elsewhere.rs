//! Agents that are taken in from elsewhere: nobody is taken in from itself, in however many steps.

use std::collections::HashMap;

use super::super::agent::Draft;
use super::super::elsewhere::From;
use super::super::server::Server;
use super::super::upstreams;
use crate::front::Listen;
use crate::net::{Origin, Url};
use crate::yaml::{Problem, Report};

/// Reports agents of this file that are made of each other, so that none of them says anything.
pub(super) fn check<'d>(server: &Server<'d>, agents: &[Draft<'d>], report: &Report<'d>) {
    if agents.iter().all(|draft| draft.from.is_none()) {
        return;
    }
    let public: Option<Url> = server.public_url.as_deref().and_then(|url| url.parse().ok());
    let at: HashMap<(Option<&str>, &str), usize> = agents
        .iter()
        .enumerate()
        .map(|(number, draft)| ((draft.agent.host.as_deref(), draft.agent.base_path.as_str()), number))
        .collect();
    // The agent of this file that another one is taken in from.
    let target = |draft: &Draft<'_>| {
        let url = &draft.from.as_ref()?.base.url;
        let host = Some(&*url.origin.host);
        if let Some(number) = at.get(&(host, &*url.prefix)) {
            return Some(*number);
        }
        if public.as_ref().is_some_and(|public| public.origin == url.origin) {
            let prefix = public.as_ref().map(|public| &*public.prefix).unwrap_or_default();
            return at.get(&(None, url.prefix.strip_prefix(prefix)?)).copied();
        }
        let ours = server.listen.iter().any(|(listen, _)| is_at(listen, &url.origin));
        at.get(&(None, &*url.prefix)).filter(|_| ours).copied()
    };
    let targets: Vec<Option<usize>> = agents.iter().map(target).collect();
    for (number, draft) in agents.iter().enumerate() {
        let Some(from) = &draft.from else { continue };
        let mut next = targets.get(number).copied().flatten();
        // One that has not come back to itself after as many steps as there are agents goes in a circle of others.
        for _ in 0..agents.len() {
            let Some(at) = next else { break };
            if at == number {
                let problem = Problem::error(from.node, "the agent is taken in from itself");
                report.add(problem.help("name the agent that exists elsewhere; this is where this gateway serves it"));
                break;
            }
            next = targets.get(at).copied().flatten();
        }
    }
}

/// Whether a listener answers there.
fn is_at(listen: &Listen, origin: &Origin) -> bool {
    let Listen::Tcp(address) = listen else { return false };
    let named = origin.address().or_else(|| (&*origin.host == "localhost").then_some([127, 0, 0, 1].into()));
    address.port() == origin.port
        && named.is_some_and(|named| named == address.ip() || (named.is_loopback() && address.ip().is_unspecified()))
}

/// An agent that would never be asked.
pub(super) fn forbid_metadata<'d>(from: &From<'d>, report: &Report<'d>) {
    upstreams::forbid_metadata(&from.base.url.origin, from.node, report);
}
