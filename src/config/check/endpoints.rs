//! The endpoints of one agent: each can be reached, and is asked only for what its request holds.

use std::collections::HashMap;

use super::super::agent::Draft;
use super::super::upstreams::place;
use super::addresses::{Bases, RESERVED};
use crate::capability::{Capability, CapabilityError, InvalidTemplate, Pattern, Route, Settings, Table};
use crate::yaml::{Node, Problem, Report, nearest};

/// Reports ids and endpoints that collide, and names in `{}` that mean nothing.
pub(super) fn check<'d>(draft: &Draft<'d>, bases: &Bases<'_, 'd>, report: &Report<'d>) {
    let (mut compiled, mut nodes) = (Vec::new(), Vec::new());
    for (&node, settings) in draft.capabilities.iter().zip(&draft.agent.capabilities) {
        reachable(draft, settings, node.get("endpoint").unwrap_or(node), bases, report);
        let names = settings.endpoint.parse().map(|pattern: Pattern| pattern.names().to_vec()).unwrap_or_default();
        same_parameter_twice(node, &names, report);
        let capability = Capability::new(settings.clone()).or_else(|errors| {
            for error in errors {
                report.add(about(&error, node, &names));
            }
            // What is wrong with the route does not keep its endpoint from being another's too.
            let route = Route::to("", &settings.method, &settings.endpoint);
            Capability::new(Settings { route, parameters: Vec::new(), ..settings.clone() })
        });
        if let Ok(capability) = capability {
            compiled.push(capability);
            nodes.push((settings, node));
        }
    }
    let Err(errors) = Table::new(compiled) else { return };
    let mut first_of = HashMap::with_capacity(nodes.len());
    for (settings, node) in &nodes {
        first_of.entry(settings.id.as_str()).or_insert(*node);
    }
    for (number, error) in errors {
        let Some((_, node)) = nodes.get(number) else { continue };
        report.add(collision(&error, *node, &first_of));
    }
}

/// The endpoint is not one that the agent, or another one, answers itself.
fn reachable<'d>(draft: &Draft<'d>, capability: &Settings, node: Node<'d>, bases: &Bases<'_, 'd>, report: &Report<'d>) {
    let Some(path) = capability.endpoint.strip_prefix('/') else { return };
    let mut segments = path.split('/').take_while(|segment| !segment.contains('{')).peekable();
    let first = segments.peek().copied().unwrap_or_default();
    if path.is_empty() || RESERVED.contains(&first) {
        let problem = Problem::error(node, format!("every agent answers `/{first}` itself"));
        report.add(problem.help("choose another path; `route: {path: …}` still names the service's own"));
        return;
    }
    let mut path = draft.agent.base_path.clone();
    for segment in segments {
        path.push('/');
        path.push_str(segment);
        if let Some(other) = bases.get(&(draft.agent.host.as_deref(), path.as_str())) {
            let problem = Problem::error(node, format!("the agent `{}` answers at this path", other.agent.key));
            let help = format!("that one is at {}; choose another path", place(other.address_node()));
            report.add(problem.help(help));
        }
    }
}

fn same_parameter_twice<'d>(capability: Node<'d>, in_path: &[Box<str>], report: &Report<'d>) {
    let mut seen = HashMap::new();
    for parameter in capability.get("parameters").into_iter().flat_map(Node::children) {
        let Some((node, name)) = parameter.get("name").and_then(|node| Some((node, node.as_text()?))) else { continue };
        let by_default = if in_path.iter().any(|known| **known == *name) { "path" } else { "query" };
        let location = parameter.get("location").map_or(Some(by_default), Node::as_text);
        if location == Some("header") && name.parse::<http::HeaderName>().is_err() {
            report.add(Problem::error(node, format!("{:?} can't be the name of a header", node.written())));
        }
        if let Some(earlier) = seen.insert((name, location), node) {
            let location = location.unwrap_or_default();
            let problem = Problem::error(node, format!("there is another {location} parameter `{}`", node.written()));
            report.add(problem.help(format!("the other is at {}; keep one of them", place(earlier))));
        }
    }
}

/// What the capability's own reading found, at the place of what is wrong.
fn about<'d>(error: &CapabilityError, capability: Node<'d>, names: &[Box<str>]) -> Problem<'d> {
    let at = |path: &[&str]| path.iter().try_fold(capability, |node, key| node.get(key)).unwrap_or(capability);
    let in_route = |node: Node<'d>, error: &InvalidTemplate| match error {
        InvalidTemplate::UnknownName(name) => unknown_name(node, error.to_string(), name, names),
        _ => sentence(node, &error.to_string()),
    };
    match error {
        CapabilityError::Endpoint(problem) => sentence(at(&["endpoint"]), &problem.to_string()),
        CapabilityError::RoutePath(problem) => in_route(at(&["route", "path"]), problem),
        CapabilityError::RouteQuery { name, problem } => in_route(at(&["route", "query", name]), problem),
        CapabilityError::RouteHeader { name, problem } => in_route(header(at(&["route", "headers"]), name), problem),
        CapabilityError::ConnectionHeader(name) => {
            sentence(header(at(&["route", "headers"]), name), &error.to_string()).at_key()
        }
        CapabilityError::UnknownPathParameter { name, .. } => {
            let parameters = at(&["parameters"]).children().filter_map(|parameter| parameter.get("name"));
            let node = parameters.into_iter().find(|node| node.as_text() == Some(name)).unwrap_or(capability);
            unknown_name(node, format!("the endpoint has no `{{{name}}}`"), name, names)
        }
        CapabilityError::Schema(_) | CapabilityError::SameEndpoint { .. } | CapabilityError::SameId(_) => {
            sentence(capability, &error.to_string())
        }
    }
}

/// Two capabilities that can't be told apart, at the later one.
fn collision<'d>(error: &CapabilityError, node: Node<'d>, first_of: &HashMap<&str, Node<'d>>) -> Problem<'d> {
    let (key, other) = match error {
        CapabilityError::SameEndpoint { other, .. } => ("endpoint", other),
        CapabilityError::SameId(id) => ("id", id),
        _ => return sentence(node, &error.to_string()),
    };
    let earlier = first_of.get(other.as_str()).copied().unwrap_or(node);
    let (message, _) = parts(&error.to_string());
    let help = format!("the other is at {}; change one of them", place(earlier.get(key).unwrap_or(earlier)));
    Problem::error(node.get(key).unwrap_or(node), message).help(help)
}

fn unknown_name<'d>(node: Node<'d>, message: String, name: &str, known: &[Box<str>]) -> Problem<'d> {
    let known = || known.iter().map(|name| &**name);
    match nearest(name, known()).or(known().next()) {
        Some(known) => Problem::error(node, message).help(format!("did you mean `{known}`?")),
        None => Problem::error(node, message).help(format!("write it into the endpoint, as in /path/{{{name}}}")),
    }
}

fn header<'d>(headers: Node<'d>, name: &http::HeaderName) -> Node<'d> {
    let found =
        headers.children().find(|header| header.key().is_some_and(|key| name.as_str().eq_ignore_ascii_case(key)));
    found.unwrap_or(headers)
}

fn sentence<'d>(node: Node<'d>, text: &str) -> Problem<'d> {
    match parts(text) {
        (message, Some(help)) => Problem::error(node, message).help(help),
        (message, None) => Problem::error(node, message),
    }
}

/// The rooms say what is wrong, and after a colon what to write instead.
fn parts(text: &str) -> (String, Option<String>) {
    match text.split_once(": ") {
        Some((message, help)) => (message.to_owned(), Some(help.to_owned())),
        None => (text.to_owned(), None),
    }
}
