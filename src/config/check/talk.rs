//! How the agents talk: each dialect is known and compiles, and nothing is written that it has no place for.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::super::agent::Draft;
use crate::talk::settings::{DialectChoice, NewsFrom};
use crate::talk::{Dialect, Settings, dialect};
use crate::yaml::{Node, Problem, Report};

type BuiltIn = HashMap<String, Arc<Dialect>>;

/// Reports what is wrong with the talk of each agent. Returns the keys of upstreams whose `api_key` goes somewhere.
pub(super) fn check<'d>(agents: &[Draft<'d>], report: &Report<'d>) -> HashSet<String> {
    let mut built_in = BuiltIn::new();
    let mut with_credential = HashSet::new();
    for draft in agents {
        let Some(settings) = draft.agent.talk.as_ref().filter(|talk| talk.dialect != DialectChoice::Guide) else {
            continue;
        };
        let node = match (draft.node.get("talk"), &draft.from) {
            (Some(node), _) => node,
            (None, Some(from)) => from.node,
            (None, None) => continue,
        };
        let dialect = dialect(settings, node, &mut built_in, report);
        // Of a dialect that is not known nobody knows what it takes.
        if dialect.as_ref().is_none_or(|dialect| dialect.takes_credential()) {
            with_credential.extend(settings.upstream.clone());
        }
        if let Some(dialect) = dialect {
            fits(&dialect, settings, node, report);
        }
        news_in_context(draft, node, report);
    }
    with_credential
}

/// The dialect of a talk. One of the list is compiled once for all agents that name it as it is.
fn dialect<'d>(
    settings: &Settings,
    talk: Node<'d>,
    built_in: &mut BuiltIn,
    report: &Report<'d>,
) -> Option<Arc<Dialect>> {
    let name = match (&settings.dialect, &settings.path) {
        (DialectChoice::BuiltIn(name), None) => Some(name),
        _ => None,
    };
    if let Some(known) = name.and_then(|name| built_in.get(name)) {
        return Some(Arc::clone(known));
    }
    let told = |problems, key| tell(problems, talk.get(key).unwrap_or(talk), report);
    let dialect = settings.dialect.compile().map_err(|problems| told(problems, "dialect")).ok()??;
    let dialect = match &settings.path {
        None => dialect,
        Some(path) => dialect.with_path(path).map_err(|problems| told(problems, "path")).ok()?,
    };
    let dialect = Arc::new(dialect);
    if let Some(name) = name {
        built_in.insert(name.clone(), Arc::clone(&dialect));
    }
    Some(dialect)
}

/// The problems of a dialect, at the places of what its pointers lead to.
fn tell<'d>(problems: Vec<dialect::Problem>, node: Node<'d>, report: &Report<'d>) {
    for problem in problems {
        let node = node.nearest(&problem.pointer);
        // The names that there are help only those to whom none is near.
        let (message, known) = match problem.message.split_once("; known are ") {
            Some((message, known)) => (message, Some(format!("known are {known}"))),
            None => (problem.message.as_str(), None),
        };
        let suggestion = problem.suggestion.filter(|name| !message.contains(&format!("`{name}`")));
        let help = suggestion.map(|name| format!("did you mean `{name}`?")).or(known);
        let told = Problem::error(node, message);
        let told =
            if node.key().is_some_and(|key| message.starts_with(&format!("`{key}`"))) { told.at_key() } else { told };
        report.add(match help {
            Some(help) => told.help(help),
            None => told,
        });
    }
}

/// A key for which the dialect's request has no place would do nothing.
fn fits<'d>(dialect: &Dialect, settings: &Settings, node: Node<'d>, report: &Report<'d>) {
    let places = [
        ("model", dialect.takes_model(), "the dialect's request has no place for a model"),
        ("system", dialect.takes_system(), "the dialect's request has no place for a system prompt"),
        (
            "history",
            dialect.takes_history() || settings.history.turns == 0,
            "the service keeps the conversation, or has no place for one",
        ),
    ];
    for (key, takes, because) in places {
        if let Some(written) = node.get(key).filter(|_| !takes) {
            report.add(Problem::error(written, format!("`{key}` does nothing here: {because}")).at_key());
        }
    }
    if dialect.needs_model() && settings.model.is_none() && node.get("model").is_none() {
        let problem = Problem::error(node, "`model` is missing: the dialect's path holds it").at_key();
        report.add(problem.help("add `model`: The model to name in requests"));
    }
}

/// Items of the agent's own feed come from anybody, and end up in front of the model.
fn news_in_context<'d>(draft: &Draft<'d>, talk: Node<'d>, report: &Report<'d>) {
    let Some(node) = talk.get("news").and_then(|news| news.get("from")) else { return };
    let news = draft.agent.talk.as_ref().map(|talk| talk.news);
    let everyone_posts = draft
        .agent
        .access
        .as_ref()
        .is_none_or(|access| access.is_open_for("news") || access.is_open_for("news_receive"));
    if everyone_posts
        && draft.agent.news.is_some()
        && news.is_some_and(|news| news.items > 0 && news.from != NewsFrom::Session)
    {
        let problem = Problem::warning(node, "everyone may post news to this agent, and its model will read them");
        report.add(problem.help("`from: session` shows the model only what was posted to the caller's own session"));
    }
}
