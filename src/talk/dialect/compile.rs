//! A dialect as JSON → a [`Dialect`], with all that is wrong in it at once.

use serde_json::{Map, Value};

use super::problem::{Problem, Problems, join, nearest};
use super::request::Request;
use super::rule::{self, Emit, Rule};
use super::template::Name;
use super::thoughts::Tags;
use super::{Block, Conversation, Dialect, Framing, NamePlace, builtin};

/// Compiles a mapping; what `like` names is filled in first.
pub(crate) fn compile(value: &Value) -> Result<Dialect, Vec<Problem>> {
    let mut problems = Problems::default();
    let Some(map) = problems.map(Some(value), "") else {
        return Err(problems.into_vec());
    };
    problems.known_keys(map, "", &["like", "conversation", "reasoning_tags", "request", "stream", "response"]);
    let inherited = inherit(map, &mut problems);
    let map = inherited.as_ref().unwrap_or(map);

    let request = Request::compile(map.get("request"), "/request", &mut problems);
    let stream = block(map.get("stream"), "/stream", &mut problems);
    let response = match (map.get("response"), &stream) {
        // One reply in one body, and nothing different to say about it.
        (None, Some(stream)) if stream.framing != Framing::Text => Some(stream.of_one_body()),
        (response, _) => block(response, "/response", &mut problems),
    };
    if response.is_none() && map.get("response").is_none_or(Value::is_null) {
        problems.add("/response", "a dialect needs `response`, which says how a reply is read", Some("response"));
    }
    if stream.is_none() && request.stream_path.is_some() {
        problems.add("/request/stream_path", "without `stream` nothing is ever sent to this path", Some("stream"));
    }
    let conversation = conversation(map, &request, [stream.as_ref(), response.as_ref()], &mut problems);
    let tags = tags(map.get("reasoning_tags"), &mut problems);
    let response = response.unwrap_or_default();
    let problems = problems.into_vec();
    if problems.is_empty() { Ok(Dialect { conversation, tags, request, stream, response }) } else { Err(problems) }
}

/// The mapping over the dialect that it is like: a key of `request`, `stream` or `response` replaces that one's, and
/// `null` takes it away.
fn inherit(map: &Map<String, Value>, problems: &mut Problems) -> Option<Map<String, Value>> {
    let like = problems.text(map.get("like"), "/like")?;
    let Some(base) = builtin::source(like) else {
        let Problem { message, suggestion, .. } = Problem::unknown(like);
        problems.add("/like", message, suggestion.as_deref());
        return None;
    };
    let mut merged = match base {
        Value::Object(base) if base.contains_key("like") => inherit(&base, problems)?,
        Value::Object(base) => base,
        _ => Map::new(),
    };
    for (key, value) in map.iter().filter(|(key, _)| *key != "like") {
        match (merged.get_mut(key), value) {
            (Some(Value::Object(section)), Value::Object(own)) => {
                section.extend(own.clone());
                section.retain(|_, value| !value.is_null());
            }
            _ => {
                merged.insert(key.clone(), value.clone());
            }
        }
    }
    Some(merged)
}

/// The two tags that thoughts stand between.
fn tags(value: Option<&Value>, problems: &mut Problems) -> Option<Tags> {
    let at = "/reasoning_tags";
    let value = value.filter(|value| !value.is_null())?;
    match problems.texts(Some(value), at)[..] {
        [open, close] if !open.trim().is_empty() && !close.is_empty() && open.trim() == open && open != close => {
            Some(Tags { open: open.into(), close: close.into() })
        }
        _ => {
            problems.add(at, "this must be two different tags, as in [\"<think>\", \"</think>\"]", None);
            None
        }
    }
}

fn block(value: Option<&Value>, at: &str, problems: &mut Problems) -> Option<Block> {
    let map = problems.map(value.filter(|value| !value.is_null()), at)?;
    problems.known_keys(map, at, &["framing", "name", "sentinel", "eof_ok", "rules"]);
    let framing = framing(map, at, problems)?;
    let sentinel = problems.text(map.get("sentinel"), &join(at, "sentinel")).map(Into::into);
    if sentinel.is_some() && framing != Framing::Sse {
        problems.add(join(at, "sentinel"), "only server-sent events have a sentinel", None);
    }
    let eof_ok = framing == Framing::Text || problems.flag(map.get("eof_ok"), &join(at, "eof_ok"));
    let names = name_places(map, at, framing, problems);
    let rules = rules(map, at, !names.is_empty(), problems);
    let proof = |(_, rule): &(String, Rule)| matches!(rule.emit, Emit::End { .. } | Emit::Pending { .. });
    match (framing, rules.is_empty()) {
        (Framing::Text, false) => {
            problems.add(join(at, "rules"), "these rules can never fire: plain text has no frames", None);
        }
        (Framing::Text, true) => {}
        _ if sentinel.is_none() && !eof_ok && !rules.iter().any(proof) => {
            let message = "nothing here proves that a reply is complete; add a rule with `emit: end`, a `sentinel` \
                           or `eof_ok: true`";
            problems.add(at, message, Some("eof_ok"));
        }
        _ => {}
    }
    Some(Block::new(framing, names, sentinel, eof_ok, rules.into_iter().map(|(_, rule)| rule).collect()))
}

fn framing(map: &Map<String, Value>, at: &str, problems: &mut Problems) -> Option<Framing> {
    let at_framing = join(at, "framing");
    let Some(name) = problems.text(map.get("framing"), &at_framing) else {
        problems.add(at, format!("`framing` is missing; known are {}", Framing::NAMES.join(", ")), Some("framing"));
        return None;
    };
    let framing = Framing::named(name);
    if framing.is_none() {
        let message = format!("`{name}` is no framing; known are {}", Framing::NAMES.join(", "));
        problems.add(at_framing, message, nearest(name, Framing::NAMES));
    }
    framing
}

fn name_places(map: &Map<String, Value>, at: &str, framing: Framing, problems: &mut Problems) -> Box<[NamePlace]> {
    let at = join(at, "name");
    let Some(value) = map.get("name") else {
        return if framing == Framing::Sse { Box::new([NamePlace::Sse]) } else { Box::default() };
    };
    let places = problems.texts(Some(value), &at);
    let place = |text| match text {
        "sse" => NamePlace::Sse,
        _ => NamePlace::At(rule::pointer(text, &at, problems)),
    };
    places.into_iter().map(place).collect()
}

fn rules(map: &Map<String, Value>, at: &str, named: bool, problems: &mut Problems) -> Vec<(String, Rule)> {
    let at = join(at, "rules");
    let rules = match map.get("rules") {
        None => return Vec::new(),
        Some(Value::Array(rules)) => rules,
        Some(_) => {
            problems.add(at, "this must be a list of rules", None);
            return Vec::new();
        }
    };
    let compiled = rules.iter().enumerate().filter_map(|(index, rule)| {
        let at = format!("{at}/{index}");
        Rule::compile(rule, &at, problems).map(|rule| (at, rule))
    });
    let compiled: Vec<(String, Rule)> = compiled.collect();
    rule::report_dead(&compiled, named, problems);
    compiled
}

/// What the dialect says about conversations, or what its request shows.
fn conversation(
    map: &Map<String, Value>,
    request: &Request,
    blocks: [Option<&Block>; 2],
    problems: &mut Problems,
) -> Conversation {
    let sends_saved = request.uses(|name| matches!(name, Name::Saved(_)));
    let sends_key = request.uses(|name| matches!(name, Name::SessionKey | Name::SessionUuid));
    let at = "/conversation";
    let Some(name) = problems.text(map.get("conversation"), at) else {
        return match (sends_saved, sends_key) {
            (true, _) => Conversation::Minted,
            (false, true) => Conversation::Derived,
            (false, false) => Conversation::None,
        };
    };
    let keeps = |rule: &Rule| matches!(rule.emit, Emit::Conversation { .. });
    let saves = blocks.into_iter().flatten().any(|block| block.rules.iter().any(keeps));
    match name {
        "none" => Conversation::None,
        "derived" => {
            if !sends_key {
                problems.add(at, "derived: the request must send {{session_key}} or {{session_uuid}}", None);
            }
            Conversation::Derived
        }
        "minted" => {
            if !sends_saved || !saves {
                let message = "minted: a rule with `emit: conversation` must keep a value, and the request must send \
                               it as {{saved.conversation}}";
                problems.add(at, message, None);
            }
            Conversation::Minted
        }
        _ => {
            let names = &["none", "derived", "minted"];
            problems.add(at, format!("`{name}` is none of {}", names.join(", ")), nearest(name, names));
            Conversation::None
        }
    }
}
