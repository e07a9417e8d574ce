//! How the agents talk: each dialect is known and compiles, and nothing is written that it has no place for.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::super::agent::Draft;
use crate::talk::settings::{DialectChoice, NewsFrom};
use crate::talk::{Dialect, Settings, dialect};
use crate::yaml::{Node, Problem, Report, joined, nearest};

/// Reports what is wrong with the talk of each agent. Returns the keys of upstreams whose `api_key` goes somewhere.
pub(super) fn check<'d>(agents: &[Draft<'d>], report: &Report<'d>) -> HashSet<String> {
    let mut built_in = HashMap::new();
    let mut with_credential = HashSet::new();
    for draft in agents {
        let Some(settings) = draft.agent.talk.as_ref().filter(|talk| talk.dialect != DialectChoice::Guide) else {
            continue;
        };
        let Some(node) = draft.node.get("talk") else { continue };
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

fn dialect<'d>(
    settings: &Settings,
    talk: Node<'d>,
    built_in: &mut HashMap<String, Option<Arc<Dialect>>>,
    report: &Report<'d>,
) -> Option<Arc<Dialect>> {
    let node = talk.get("dialect").unwrap_or(talk);
    let own = match (&settings.dialect, &settings.path) {
        (DialectChoice::Guide, _) => return None,
        (DialectChoice::BuiltIn(name), None) => {
            let known = built_in.entry(name.clone()).or_insert_with(|| Dialect::built_in(name).map(Arc::new)).clone();
            if known.is_none() {
                report.add(unknown(node, name));
            }
            return known;
        }
        (DialectChoice::BuiltIn(name), Some(_)) => {
            let Some(dialect) = Dialect::built_in(name) else {
                report.add(unknown(node, name));
                return None;
            };
            dialect
        }
        (DialectChoice::Inline(mapping), _) => {
            Dialect::compile(mapping).map_err(|problems| tell(problems, node, report)).ok()?
        }
    };
    match &settings.path {
        None => Some(Arc::new(own)),
        Some(path) => {
            let node = talk.get("path").unwrap_or(talk);
            own.with_path(path).map(Arc::new).map_err(|problems| tell(problems, node, report)).ok()
        }
    }
}

fn unknown<'d>(node: Node<'d>, name: &str) -> Problem<'d> {
    let problem = Problem::error(node, format!("there is no dialect `{}`", node.written()));
    let names = || Dialect::names().chain(["guide"]);
    match nearest(name, names()) {
        Some(name) => problem.help(format!("did you mean `{name}`?")),
        None => problem.help(format!("the dialects are {}", joined(names(), "and"))),
    }
}

fn tell<'d>(problems: Vec<dialect::Problem>, node: Node<'d>, report: &Report<'d>) {
    for problem in problems {
        let node = node.nearest(&problem.pointer);
        let of_key = node.key().is_some_and(|key| problem.message.starts_with(&format!("`{key}`")));
        let suggestion = problem.suggestion.filter(|name| !problem.message.contains(&format!("`{name}`")));
        let told = Problem::error(node, problem.message);
        let told = if of_key { told.at_key() } else { told };
        report.add(match suggestion {
            Some(name) => told.help(format!("did you mean `{name}`?")),
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
    if draft.agent.news.is_some() && news.is_some_and(|news| news.items > 0 && news.from != NewsFrom::Session) {
        let problem = Problem::warning(node, "everyone may post news to this agent, and its model will read them");
        report.add(problem.help("`from: session` shows the model only what was posted to the caller's own session"));
    }
}
