//! What a reload can't change: whoever holds a socket or a file open would have to let go of it.

use crate::config::Config;
use crate::config::agent::Draft;
use crate::config::server::Server;
use crate::yaml::{Node, Problem, Report};

/// Reports each key that says something else than what is in force and needs another process.
pub(in crate::config) fn check<'d>(
    server: &Server<'d>,
    agents: &[Draft<'d>],
    running: &Config,
    root: Node<'d>,
    report: &Report<'d>,
) {
    let differs = |path: &[&str]| {
        let node = path.iter().try_fold(root, |node, key| node.get(key));
        let shown = path.join(".");
        let problem = match node {
            Some(node) => Problem::error(node, format!("`{shown}` can't be changed by a reload")).at_key(),
            None => Problem::error(root, format!("`{shown}` can't be changed by a reload, and is no longer written")),
        };
        report.add(problem.help("`restap-gateway upgrade` starts a process that takes over with it, or restart"));
    };
    if server.listen.iter().map(|(listen, _)| listen).ne(&running.listen) || server.ways != running.ways {
        differs(&["listen"]);
    }
    let admin = |admin: Option<&crate::config::settings::Admin>| admin.map(|admin| admin.listen.clone());
    if admin(server.admin.as_ref()) != admin(running.admin.as_ref()) {
        differs(if server.admin.is_some() && root.get("admin").is_some() { &["admin", "listen"] } else { &["admin"] });
    }
    if server.store != running.store {
        differs(&["store"]);
    }
    if server.limits.connections != running.limits.connections {
        differs(&["limits", "connections"]);
    }
    for draft in agents {
        let (Some(rest), Some(node)) = (&draft.agent.rest, draft.node.get("rest")) else { continue };
        if !running.rest_listeners().contains(&&rest.listen) {
            let node = node.get("listen").unwrap_or(node);
            let problem =
                Problem::error(node, format!("a reload can't begin to serve `rest_request` at {}", rest.listen));
            report.add(problem.help("name one that is served already, or `restap-gateway upgrade`, or restart"));
        }
    }
}
