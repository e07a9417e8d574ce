//! A2A agent cards (0.2, 0.3 and 1.0): who the agent is, and the JSON-RPC interface that it is talked to by.

use serde_json::{Map, Value};

use super::path::{Base, Misplaced};
use super::text::{self, DESCRIPTION_MAX};
use super::{Remote, Talk, origin};

/// Interfaces that are looked at, and skills that are told of.
const INTERFACES_MAX: usize = 32;
const SKILLS_MAX: usize = 50;

/// Whether a document is a card.
pub(super) fn is_one(document: &Map<String, Value>) -> bool {
    let has = |key: &str| document.contains_key(key);
    let restap = ["restap_version", "restap", "endpoints"].into_iter().any(has);
    let list = |key: &str| document.get(key).is_some_and(Value::is_array);
    !restap
        && (list("supportedInterfaces")
            || (has("url") && (list("skills") || has("protocolVersion") || has("preferredTransport"))))
}

pub(super) fn read(card: &Map<String, Value>, base: &Base) -> Remote {
    let provider = card.get("provider").and_then(Value::as_object);
    let mut remote = Remote {
        name: text::line(card, &["name"]),
        description: description(card),
        contact: provider.and_then(|provider| text::line(provider, &["url", "organization"])),
        version: text::scalar(card, &["version"]),
        ..Remote::default()
    };
    let capabilities = card.get("capabilities").and_then(Value::as_object);
    let streaming = capabilities.and_then(|all| all.get("streaming")).and_then(Value::as_bool).unwrap_or(false);
    let mut problems = Vec::new();
    for Interface { url, version } in interfaces(card) {
        match on_origin(url, base) {
            Ok((path, elsewhere)) => {
                if elsewhere {
                    problems.push(format!(
                        "its card names the origin of {}, and it is asked at the same path of {}",
                        text::shown(url, text::NAME_MAX, false),
                        origin(&base.url)
                    ));
                }
                let dialect = if version.starts_with("0.") { "a2a-0.3" } else { "a2a-1.0" };
                remote.talk = Some(Talk { dialect, path, streaming });
                break;
            }
            Err(problem) => problems.push(format!("`url` of its card {problem}, so that it can't be talked to there")),
        }
    }
    if remote.talk.is_none() && problems.is_empty() {
        problems.push("its card names no interface of the JSONRPC binding, which is the one that is spoken".to_owned());
    }
    remote.notes = problems;
    remote
}

struct Interface<'v> {
    url: &'v str,
    version: &'v str,
}

/// The interfaces that speak JSON-RPC, in the order of the card's preference.
fn interfaces(card: &Map<String, Value>) -> Vec<Interface<'_>> {
    let json_rpc = |transport: Option<&str>| transport.is_none_or(|name| name.eq_ignore_ascii_case("JSONRPC"));
    let overall = text::first(card, &["protocolVersion"]);
    let mut found = Vec::new();
    for interface in listed(card, "supportedInterfaces") {
        let binding = text::first(interface, &["protocolBinding", "transport"]);
        if let Some(url) = text::first(interface, &["url"]).filter(|_| json_rpc(binding)) {
            let version = text::first(interface, &["protocolVersion"]).or(overall).unwrap_or("1.0");
            found.push(Interface { url, version });
        }
    }
    // Before 1.0 the card itself names the preferred one.
    let version = overall.unwrap_or("0.3");
    if let Some(url) = text::first(card, &["url"])
        && json_rpc(text::first(card, &["preferredTransport"]))
    {
        found.push(Interface { url, version });
    }
    for interface in listed(card, "additionalInterfaces") {
        let transport = text::first(interface, &["transport"]);
        if let Some(url) = text::first(interface, &["url"]).filter(|_| transport.is_some() && json_rpc(transport)) {
            found.push(Interface { url, version });
        }
    }
    found
}

fn listed<'v>(card: &'v Map<String, Value>, key: &str) -> impl Iterator<Item = &'v Map<String, Value>> {
    card.get(key).and_then(Value::as_array).into_iter().flatten().take(INTERFACES_MAX).filter_map(Value::as_object)
}

/// The path of an interface, and whether the card names another origin for it: cards are often written with the name
/// that their authors see, such as localhost. Only the operator's origin is ever asked.
fn on_origin(url: &str, base: &Base) -> Result<(String, bool), Misplaced> {
    match (base.path(url, None), url.split_once("://")) {
        (Err(Misplaced::Elsewhere(_)), Some((_, rest))) => {
            let path = rest.find('/').and_then(|at| rest.get(at..)).unwrap_or("/");
            let here = format!("{}{path}", base.url.origin);
            base.path(&here, None).map(|path| (path, true))
        }
        (path, _) => path.map(|path| (path, false)),
    }
}

/// A card's skills have no endpoints: whoever talks to the agent should know of them.
fn description(card: &Map<String, Value>) -> Option<String> {
    let mut text = text::prose(card, &["description"]).unwrap_or_default();
    let skills = card.get("skills").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_object);
    for skill in skills.take(SKILLS_MAX) {
        let Some(name) = text::line(skill, &["name", "id"]) else { continue };
        let what = text::line(skill, &["description"]).map(|what| format!(": {what}")).unwrap_or_default();
        let line = format!("{}- {name}{what}", if text.is_empty() { "" } else { "\n" });
        if text.chars().count() + line.chars().count() > DESCRIPTION_MAX {
            break;
        }
        text.push_str(&line);
    }
    (!text.is_empty()).then_some(text)
}
