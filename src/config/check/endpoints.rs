//! The endpoints of one agent: each can be reached, and names what its request holds.

use std::collections::HashMap;

use super::super::agent::Draft;
use super::super::template::{InvalidTemplate, Template, names};
use super::super::upstreams::place;
use super::addresses::{Bases, RESERVED};
use crate::capability::Settings;
use crate::yaml::{Kind, Node, Problem, Report, nearest};

/// Reports ids and endpoints that collide, and names in `{}` that mean nothing.
pub(super) fn check<'d>(draft: &Draft<'d>, bases: &Bases<'_, 'd>, report: &Report<'d>) {
    let mut ids: HashMap<&str, Node<'d>> = HashMap::new();
    let mut shapes: HashMap<(&http::Method, String), (&Settings, Node<'d>)> = HashMap::new();
    for (&node, capability) in draft.capabilities.iter().zip(&draft.agent.capabilities) {
        let id = node.get("id").unwrap_or(node);
        if let Some(earlier) = ids.insert(&capability.id, id) {
            let problem = Problem::error(id, format!("there is another capability `{}`", capability.id));
            report.add(problem.help(format!("the other is at {}; rename one of them", place(earlier))));
        }
        let endpoint = node.get("endpoint").unwrap_or(node);
        let template = match Template::path(&capability.endpoint) {
            Ok(template) => template,
            Err(error) => {
                report.add(invalid(endpoint, &error));
                continue;
            }
        };
        reachable(draft, capability, &template, endpoint, bases, report);
        parameters(node, &template, report);
        route(node, &template, report);
        let key = (&capability.method, template.shape);
        if let Some((other, earlier)) = shapes.insert(key, (capability, endpoint)) {
            let message = format!("`{}` already answers {} at such a path", other.id, capability.method);
            report.add(
                Problem::error(endpoint, message).help(format!("that is at {}; change one of them", place(earlier))),
            );
        }
    }
}

/// The endpoint is not one that the agent, or another one, answers itself.
fn reachable<'d>(
    draft: &Draft<'d>,
    capability: &Settings,
    template: &Template<'_>,
    node: Node<'d>,
    bases: &Bases<'_, 'd>,
    report: &Report<'d>,
) {
    let first = template.literal.first().copied().unwrap_or_default();
    if capability.endpoint == "/" || RESERVED.contains(&first) {
        let problem = Problem::error(node, format!("every agent answers `/{first}` itself"));
        report.add(problem.help("choose another path; `route: {path: …}` still names the service's own"));
        return;
    }
    let mut path = draft.agent.base_path.clone();
    for segment in &template.literal {
        path.push('/');
        path.push_str(segment);
        if let Some(other) = bases.get(&(draft.agent.host.as_deref(), path.as_str())) {
            let problem = Problem::error(node, format!("the agent `{}` answers at this path", other.agent.key));
            let help = format!("that one is at {}; choose another path", place(other.address_node()));
            report.add(problem.help(help));
        }
    }
}

fn parameters<'d>(capability: Node<'d>, template: &Template<'_>, report: &Report<'d>) {
    let mut seen = HashMap::new();
    for parameter in capability.get("parameters").into_iter().flat_map(Node::children) {
        let Some((node, name)) = parameter.get("name").and_then(|node| Some((node, node.as_text()?))) else { continue };
        let location = parameter.get("location").and_then(Node::as_text);
        match location {
            Some("path") if !template.names.contains(&name) => {
                report.add(unknown_name(node, name, &template.names));
            }
            Some("header") if name.parse::<http::HeaderName>().is_err() => {
                report.add(Problem::error(node, format!("{:?} can't be the name of a header", node.written())));
            }
            _ => {}
        }
        let in_path = location == Some("path") || (location.is_none() && template.names.contains(&name));
        let location = if in_path { "path" } else { location.unwrap_or("query") };
        if let Some(earlier) = seen.insert((name, location), node) {
            let problem = Problem::error(node, format!("there is another {location} parameter `{name}`"));
            report.add(problem.help(format!("the other is at {}; keep one of them", place(earlier))));
        }
    }
}

/// What is asked of the service names only what the endpoint has.
fn route<'d>(capability: Node<'d>, template: &Template<'_>, report: &Report<'d>) {
    let Some(route) = capability.get("route") else { return };
    let known = |node: Node<'d>, used: Result<Vec<&str>, InvalidTemplate>| match used {
        Ok(used) => {
            for name in used.into_iter().filter(|name| !template.names.contains(name)) {
                report.add(unknown_name(node, name, &template.names));
            }
        }
        Err(error) => report.add(invalid(node, &error)),
    };
    if let Some((node, path)) = route.get("path").and_then(|node| Some((node, node.as_text()?))) {
        known(node, Template::path(path).map(|path| path.names));
    }
    for node in ["query", "headers"].into_iter().filter_map(|key| route.get(key)).flat_map(Node::children) {
        if let Kind::Text(text) = node.kind() {
            known(node, names(text));
        }
    }
}

fn unknown_name<'d>(node: Node<'d>, name: &str, known: &[&str]) -> Problem<'d> {
    let problem = Problem::error(node, format!("the endpoint has no `{{{name}}}`"));
    match nearest(name, known.iter().copied()).or(known.first().copied()) {
        Some(known) => problem.help(format!("did you mean `{known}`?")),
        None => problem.help(format!("write it into the endpoint, as in /path/{{{name}}}")),
    }
}

fn invalid<'d>(node: Node<'d>, error: &InvalidTemplate) -> Problem<'d> {
    Problem::error(node, error.to_string()).help(error.help())
}
