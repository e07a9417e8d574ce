//! No two agents answer at one address.

use std::collections::HashMap;

use super::super::agent::Draft;
use super::super::upstreams::place;
use crate::yaml::{Node, Problem, Report};

/// First segments under a base URL that belong to the agent itself.
pub(super) use crate::restap::RESERVED_PATHS as RESERVED;

/// Who answers under which host and base path.
pub(super) type Bases<'a, 'd> = HashMap<(Option<&'a str>, &'a str), &'a Draft<'d>>;

/// Reports agents that are called the same, or answer at the same address.
pub(super) fn check<'a, 'd>(agents: &'a [Draft<'d>], report: &Report<'d>) -> Bases<'a, 'd> {
    let mut keys: HashMap<&str, Node<'d>> = HashMap::with_capacity(agents.len());
    let mut bases = Bases::with_capacity(agents.len());
    for draft in agents {
        let agent = &draft.agent;
        if let Some(earlier) = keys.insert(&agent.key, draft.node) {
            let problem = Problem::error(draft.node, format!("there is another agent `{}`", agent.key)).at_key();
            report.add(problem.help(format!("the other is at {}; rename one of them", place(earlier))));
            continue;
        }
        if let Some(earlier) = bases.insert((agent.host.as_deref(), &agent.base_path), draft) {
            let node = draft.address_node();
            let problem = Problem::error(node, format!("the agent `{}` has the same base URL", earlier.agent.key));
            let help = format!(
                "that one is at {}; give one of them another `base_path` or `host`",
                place(earlier.address_node())
            );
            report.add(problem.help(help));
        }
    }
    for draft in agents {
        enters_reserved(draft, &bases, report);
    }
    bases
}

/// The base of an agent may lie under that of another, but not where the other answers itself.
fn enters_reserved<'d>(draft: &Draft<'d>, bases: &Bases<'_, 'd>, report: &Report<'d>) {
    let (host, base) = (draft.agent.host.as_deref(), draft.agent.base_path.as_str());
    for (slash, _) in base.match_indices('/') {
        let (outer, inner) = base.split_at(slash);
        let reserved = inner.split('/').nth(1).filter(|segment| RESERVED.contains(segment));
        if let (Some(reserved), Some(other)) = (reserved, bases.get(&(host, outer))) {
            let message = format!("this base URL enters `/{reserved}` of the agent `{}`", other.agent.key);
            let help = format!("that one is at {}; choose another `base_path`", place(other.address_node()));
            report.add(Problem::error(draft.address_node(), message).help(help));
        }
    }
}
