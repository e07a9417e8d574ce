//! Nothing that everybody can read holds a credential.

use regex::RegexBuilder;

use super::super::agent::Draft;
use crate::yaml::{Kind, Node, Problem, Report};

/// Bytes of a credential that is looked for. A shorter one stands in any text by chance.
const LENGTH_MIN: usize = 8;

/// Bytes of the automaton that looks for all credentials at once.
const AUTOMATON_MAX: usize = 64 << 20;

/// Keys of an agent that its catalog shows.
const OF_AGENT: [&str; 6] = ["name", "description", "contact", "version", "packages", "protocols"];

/// Keys of a capability that nobody sees.
const HIDDEN_OF_CAPABILITY: [&str; 2] = ["route", "validate"];

/// Reports a published text that holds a credential which came out of a variable or a file.
pub(super) fn check<'d>(agents: &[Draft<'d>], report: &Report<'d>) {
    let mut credentials = report.credentials();
    credentials.retain(|credential| credential.value.expose().len() >= LENGTH_MIN);
    if credentials.is_empty() {
        return;
    }
    let pattern = credentials.iter().map(|credential| format!("({})", regex::escape(credential.value.expose())));
    let pattern = pattern.collect::<Vec<_>>().join("|");
    let Ok(pattern) = RegexBuilder::new(&pattern).size_limit(AUTOMATON_MAX).build() else { return };
    for draft in agents {
        let of_agent = OF_AGENT.iter().filter_map(|key| draft.node.get(key));
        let of_capabilities = draft.node.get("capabilities").into_iter().flat_map(Node::children);
        let of_capabilities = of_capabilities.flat_map(Node::children);
        let of_capabilities =
            of_capabilities.filter(|node| !node.key().is_some_and(|key| HIDDEN_OF_CAPABILITY.contains(&key)));
        for node in of_agent.chain(of_capabilities) {
            texts(node, &mut |node, text| {
                if !pattern.is_match(text) {
                    return;
                }
                let credential = credentials.iter().find(|credential| text.contains(credential.value.expose()));
                let path = credential.map(|credential| credential.node.path()).unwrap_or_default();
                report.hide(node);
                let problem = Problem::error(node, format!("this is published, and holds the credential of `{path}`"));
                report.add(problem.help("take it out, or use another variable"));
            });
        }
    }
}

fn texts<'d>(node: Node<'d>, visit: &mut impl FnMut(Node<'d>, &'d str)) {
    match node.kind() {
        Kind::Text(text) => visit(node, text),
        Kind::List | Kind::Mapping => node.children().for_each(|child| texts(child, visit)),
        _ => {}
    }
}
