//! `Rule`: which frames of a reply mean what.

use serde_json::{Map, Value};

use super::matcher::{Conditions, Kind, Matcher};
use super::pointer::Pointer;
use super::problem::{Problems, join, nearest};

/// One rule. Rules are tried in order on each frame; all that match act.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Rule {
    /// The names of the frames it is for; `None` is any frame.
    pub(crate) events: Option<Box<[Box<str>]>>,
    /// What the frame must hold.
    pub(crate) when: Conditions,
    /// The items of the frame that it looks at, each by itself.
    pub(crate) each: Pointer,
    /// What an item must hold.
    pub(crate) filter: Conditions,
    pub(crate) emit: Emit,
}

/// Places to look at; the first that holds something usable counts.
pub(crate) type Places = Box<[Pointer]>;

/// What a rule makes of a frame.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Emit {
    /// Text of the reply.
    Text { value: Places, mode: Mode, key: Places, separator: Box<str> },
    /// What the model thinks. It is no text of the reply.
    Reasoning { value: Places },
    /// A tool opens with its first name; arguments follow.
    Tool { key: Places, name: Places, args: Places },
    /// A tool is done.
    ToolEnd { key: Places },
    /// What the upstream is doing, for people.
    Status { value: Places },
    /// The URL of something that is no text.
    Artifact { value: Places, name: Places },
    /// A RESTAP hint, passed on.
    Pass,
    /// A value for the next turn.
    Conversation { value: Places, slot: Box<str> },
    /// Token counts, or one of them; those of several frames are merged.
    Usage { value: Places, slot: Option<Box<str>> },
    /// `suggested_actions` of a RESTAP upstream.
    SuggestedActions { value: Places },
    /// The reply comes later, under this query id.
    Pending { value: Places },
    /// The proof that the reply is complete.
    End { value: Places, detail: Places, stop: bool },
    /// The reply failed.
    Error { value: Places, default: Option<Box<str>> },
}

/// How a text stands to what came before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// It is appended.
    Delta,
    /// It is the whole text, wanted only if nothing came before it.
    Full,
    /// It is the whole text of its `key` so far.
    Snapshot,
    /// It is the whole text, in place of all that came before it.
    Replace,
}

/// The names of `emit`, each with the keys that mean something to it.
pub(crate) const EMITS: &[(&str, &[&str])] = &[
    ("text", &["value", "mode", "key", "sep"]),
    ("reasoning", &["value"]),
    ("tool", &["key", "name", "args"]),
    ("tool.end", &["key"]),
    ("status", &["value"]),
    ("artifact", &["value", "name"]),
    ("pass", &[]),
    ("conversation", &["value", "save"]),
    ("usage", &["value", "save"]),
    ("suggested_actions", &["value"]),
    ("pending", &["value"]),
    ("end", &["value", "detail", "stop"]),
    ("error", &["value", "default"]),
];

const MODES: &[(&str, Mode)] =
    &[("delta", Mode::Delta), ("full", Mode::Full), ("snapshot", Mode::Snapshot), ("replace", Mode::Replace)];

/// The slot of `emit: conversation` without `save`.
pub(crate) const CONVERSATION: &str = "conversation";

impl Rule {
    pub(crate) fn compile(rule: &Value, at: &str, problems: &mut Problems) -> Option<Self> {
        let map = problems.map(Some(rule), at)?;
        let Some(name) = problems.text(map.get("emit"), &join(at, "emit")) else {
            problems.add(at, "a rule needs `emit`, which says what it makes of a frame", Some("emit"));
            return None;
        };
        let Some((name, own)) = EMITS.iter().find(|(known, _)| *known == name) else {
            let names: Vec<&str> = EMITS.iter().map(|(name, _)| *name).collect();
            let message = format!("`{name}` can't be emitted; known are {}", names.join(", "));
            problems.add(join(at, "emit"), message, nearest(name, &names));
            return None;
        };
        problems.known_keys(map, at, &[&["event", "if", "each", "where", "emit"], *own].concat());
        let events = map.get("event").map(|event| {
            let names = problems.texts(Some(event), &join(at, "event"));
            names.into_iter().map(Into::into).collect()
        });
        Some(Self {
            events,
            when: conditions(map.get("if"), &join(at, "if"), problems),
            each: map.get("each").map(|_| place(map, at, "each", problems)).unwrap_or_default(),
            filter: conditions(map.get("where"), &join(at, "where"), problems),
            emit: Emit::compile(name, map, at, problems),
        })
    }

    /// Whether it acts on every frame with one of its names, and nothing is read after it.
    fn stops_always(&self) -> bool {
        let stops = matches!(self.emit, Emit::End { stop: true, .. } | Emit::Error { .. });
        stops && self.when.is_empty() && self.each.is_root() && self.filter.is_empty()
    }

    /// Whether `other`, which stands in front of it, leaves it nothing.
    fn is_hidden_by(&self, other: &Self) -> bool {
        let all = match (&self.events, &other.events) {
            (_, None) => true,
            (None, Some(_)) => false,
            (Some(own), Some(others)) => own.iter().all(|name| others.contains(name)),
        };
        other.stops_always() && all
    }
}

impl Emit {
    fn compile(name: &str, map: &Map<String, Value>, at: &str, problems: &mut Problems) -> Self {
        let needed: &[&str] = match name {
            "text" | "reasoning" | "status" | "artifact" | "conversation" | "usage" | "suggested_actions"
            | "pending" => &["value"],
            "tool.end" => &["key"],
            "error" if !map.contains_key("default") => &["value"],
            _ => &[],
        };
        for key in needed {
            if map.get(*key).is_none_or(|value| value.as_array().is_some_and(Vec::is_empty)) {
                problems.add(at, format!("without `{key}` this rule can never emit anything"), Some(key));
            }
        }
        if name == "tool" && !map.contains_key("name") && !map.contains_key("args") {
            problems.add(at, "a tool needs `name`, where it opens, or `args`, where it goes on", Some("name"));
        }
        match name {
            "reasoning" => Self::Reasoning { value: places(map, at, "value", problems) },
            "tool" => Self::Tool {
                key: places(map, at, "key", problems),
                name: places(map, at, "name", problems),
                args: places(map, at, "args", problems),
            },
            "tool.end" => Self::ToolEnd { key: places(map, at, "key", problems) },
            "status" => Self::Status { value: places(map, at, "value", problems) },
            "artifact" => {
                Self::Artifact { value: places(map, at, "value", problems), name: places(map, at, "name", problems) }
            }
            "pass" => Self::Pass,
            "usage" => Self::Usage {
                value: places(map, at, "value", problems),
                slot: problems.text(map.get("save"), &join(at, "save")).map(Into::into),
            },
            "suggested_actions" => Self::SuggestedActions { value: places(map, at, "value", problems) },
            "pending" => Self::Pending { value: places(map, at, "value", problems) },
            "conversation" => Self::Conversation {
                value: places(map, at, "value", problems),
                slot: problems.text(map.get("save"), &join(at, "save")).unwrap_or(CONVERSATION).into(),
            },
            "end" => Self::End {
                value: places(map, at, "value", problems),
                detail: places(map, at, "detail", problems),
                stop: problems.flag(map.get("stop"), &join(at, "stop")),
            },
            "error" => Self::Error {
                value: places(map, at, "value", problems),
                default: problems.text(map.get("default"), &join(at, "default")).map(Into::into),
            },
            _ => Self::Text {
                value: places(map, at, "value", problems),
                key: places(map, at, "key", problems),
                mode: mode(map, at, problems),
                separator: problems.text(map.get("sep"), &join(at, "sep")).unwrap_or_default().into(),
            },
        }
    }
}

/// Reports rules that no frame can reach. `named` is whether frames have names at all.
pub(crate) fn report_dead(rules: &[(String, Rule)], named: bool, problems: &mut Problems) {
    for (index, (at, rule)) in rules.iter().enumerate() {
        let earlier = rules.get(..index).unwrap_or_default();
        if rule.events.as_ref().is_some_and(|events| events.is_empty()) {
            problems.add(join(at, "event"), "this rule can never fire: it is for no event", None);
        } else if rule.events.is_some() && !named {
            let message = "this rule can never fire: these frames have no names; say where one is with `name`";
            problems.add(join(at, "event"), message, Some("name"));
        } else if let Some((other, _)) = earlier.iter().find(|(_, other)| rule.is_hidden_by(other)) {
            let message = format!("this rule can never fire: the one at {other} ends the reply before it");
            problems.add(at, message, None);
        }
    }
}

fn mode(map: &Map<String, Value>, at: &str, problems: &mut Problems) -> Mode {
    let Some(text) = problems.text(map.get("mode"), &join(at, "mode")) else {
        return Mode::Delta;
    };
    MODES.iter().find(|(name, _)| *name == text).map_or_else(
        || {
            let names: Vec<&str> = MODES.iter().map(|(name, _)| *name).collect();
            let message = format!("`{text}` is no mode; known are {}", names.join(", "));
            problems.add(join(at, "mode"), message, nearest(text, &names));
            Mode::Delta
        },
        |(_, mode)| *mode,
    )
}

fn places(map: &Map<String, Value>, at: &str, key: &str, problems: &mut Problems) -> Places {
    let at = join(at, key);
    let texts = problems.texts(map.get(key), &at);
    texts.into_iter().map(|text| pointer(text, &at, problems)).collect()
}

fn place(map: &Map<String, Value>, at: &str, key: &str, problems: &mut Problems) -> Pointer {
    let at = join(at, key);
    problems.text(map.get(key), &at).map(|text| pointer(text, &at, problems)).unwrap_or_default()
}

pub(crate) fn pointer(text: &str, at: &str, problems: &mut Problems) -> Pointer {
    Pointer::parse(text).unwrap_or_else(|error| {
        let suggestion = format!("/{}", text.trim_start_matches(['$', '.']).replace('.', "/"));
        problems.add(at, format!("`{text}`: {error}"), (!text.starts_with('/')).then_some(suggestion.as_str()));
        Pointer::default()
    })
}

fn conditions(value: Option<&Value>, at: &str, problems: &mut Problems) -> Conditions {
    let Some(map) = problems.map(value, at) else {
        return Conditions::default();
    };
    let conditions = map.iter().map(|(text, spec)| {
        let at = join(at, text);
        (pointer(text, &at, problems), matcher(spec, &at, problems))
    });
    Conditions(conditions.collect())
}

fn matcher(spec: &Value, at: &str, problems: &mut Problems) -> Matcher {
    match spec {
        Value::Null => Matcher::Null,
        Value::Bool(value) => Matcher::Bool(*value),
        Value::Number(value) => Matcher::Number(value.clone()),
        Value::String(value) => Matcher::Text(value.as_str().into()),
        Value::Array(items) => {
            if items.is_empty() {
                problems.add(at, "this rule can never fire: nothing is in an empty list", None);
            }
            Matcher::Any(items.iter().map(|item| matcher(item, at, problems)).collect())
        }
        Value::Object(map) => match (map.get("is"), map.get("not"), map.len()) {
            (Some(Value::String(name)), None, 1) => {
                let kind = Kind::named(name);
                if kind.is_none() {
                    let message = format!("`{name}` is no type; known are {}", Kind::NAMES.join(", "));
                    problems.add(join(at, "is"), message, nearest(name, Kind::NAMES));
                }
                kind.map_or(Matcher::Null, Matcher::Is)
            }
            (None, Some(not), 1) => Matcher::Not(Box::new(matcher(not, &join(at, "not"), problems))),
            _ => {
                problems.add(at, "a condition is a value, a list of values, {is: type} or {not: condition}", None);
                Matcher::Null
            }
        },
    }
}
