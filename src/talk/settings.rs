//! `Settings`: the section `talk:` of an agent.

use std::time::Duration;

use serde_json::{Map, Value};

use super::dialect::{self, Dialect};
use crate::yaml::{ByteSize, Fields, Mismatch, Period, Problem, Slot, Written};

/// How an agent talks.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The name of an upstream; `None` only for the built-in guide.
    pub upstream: Option<String>,
    /// The upstream's way of talking.
    pub dialect: DialectChoice,
    /// The model to name in requests.
    pub model: Option<String>,
    /// The system prompt.
    pub system: Option<String>,
    /// Merged into the request's body.
    pub options: Map<String, Value>,
    /// In place of the dialect's own path.
    pub path: Option<String>,
    /// Whether callers may be streamed to.
    pub streaming: bool,
    /// Whether the upstream is asked to stream.
    pub upstream_streaming: bool,
    /// What a stateless upstream is reminded of.
    pub history: History,
    /// News in the context of the next turn.
    pub news: NewsContext,
    /// Talks that are answered later.
    pub later: Later,
}

/// `dialect:`, a built-in name or a mapping in the dialect vocabulary.
#[derive(Debug, Clone, PartialEq)]
pub enum DialectChoice {
    /// No model: the agent answers from its catalog.
    Guide,
    /// One of [`crate::talk::dialect`]'s list.
    BuiltIn(String),
    /// The operator's own, not yet compiled.
    Inline(Value),
}

impl DialectChoice {
    /// Compiles it; `None` is the guide, which needs no upstream.
    ///
    /// # Errors
    /// What is wrong in it; pointers are into the mapping, or empty for a name.
    pub fn compile(&self) -> Result<Option<Dialect>, Vec<dialect::Problem>> {
        match self {
            Self::Guide => Ok(None),
            Self::BuiltIn(name) => {
                Dialect::built_in(name).map(Some).ok_or_else(|| vec![dialect::Problem::unknown(name)])
            }
            Self::Inline(mapping) => Dialect::compile(mapping).map(Some),
        }
    }
}

/// `history:`, for dialects whose upstream keeps no conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct History {
    /// Pairs of user and assistant text; 0 is off.
    pub turns: u32,
    /// Estimated tokens of all pairs sent.
    pub tokens: u32,
    /// How long a conversation rests before it is forgotten.
    pub ttl: Duration,
}

impl Default for History {
    fn default() -> Self {
        Self { turns: 20, tokens: 8000, ttl: Duration::from_hours(1) }
    }
}

/// `news:` of a talk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewsContext {
    /// Whose news reach the model.
    pub from: NewsFrom,
    /// At most so many items a turn; 0 is off.
    pub items: u32,
    /// At most so many bytes of items a turn.
    pub bytes: u64,
}

impl Default for NewsContext {
    fn default() -> Self {
        Self { from: NewsFrom::Session, items: 20, bytes: 8 << 10 }
    }
}

/// `news.from` of a talk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum NewsFrom {
    /// The session's own feed.
    #[default]
    Session,
    /// The agent's own feed.
    Agent,
    /// Both.
    Both,
}

/// `async:`, talks of one agent that are answered later; one above both bounds is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Later {
    /// So many run at once, at least 1.
    pub running: u32,
    /// So many wait for one of these to end.
    pub waiting: u32,
}

impl Default for Later {
    fn default() -> Self {
        Self { running: 16, waiting: 64 }
    }
}

/// The dialect where none is written.
pub const DIALECT: &str = "openai-chat";

/// The same where the agent is one that exists elsewhere.
pub const DIALECT_OF_AN_AGENT: &str = "restap";

impl Settings {
    /// The built-in guide: what answers where no `talk:` is written.
    pub fn guide() -> Self {
        Self {
            upstream: None,
            dialect: DialectChoice::Guide,
            model: None,
            system: None,
            options: Map::new(),
            path: None,
            streaming: true,
            upstream_streaming: true,
            history: History::default(),
            news: NewsContext::default(),
            later: Later::default(),
        }
    }

    /// A talk with another agent, of which nothing is written.
    pub fn to_agent() -> Self {
        Self { dialect: DialectChoice::BuiltIn(DIALECT_OF_AN_AGENT.to_owned()), ..Self::guide() }
    }

    /// Reads `talk:` of an agent; `upstream` is what the agent names for all that it does, `dialect` how that talks
    /// unless something else is written.
    pub fn take(slot: Slot<'_, '_>, upstream: Option<&str>, dialect: &str) -> Option<Self> {
        slot.section("talk", |fields| {
            let own =
                fields.optional("upstream", "The name or the URL of the chat service; the agent's unless written.");
            let doc =
                "How the service talks: a built-in name, `guide` for no service at all, or a mapping of one's own.";
            let dialect =
                fields.or_with("dialect", DialectChoice::BuiltIn(dialect.to_owned()), doc, DialectChoice::take);
            let settings = Self {
                upstream: own.or_else(|| upstream.map(str::to_owned)),
                model: fields.optional("model", "The model to name in requests."),
                system: fields.optional("system", "The system prompt."),
                options: fields.optional("options", "Merged into the request's body.").unwrap_or_default(),
                path: fields.with("path", "In place of the dialect's own path.", path),
                streaming: fields.or("streaming", true, "Whether callers may be streamed to."),
                upstream_streaming: fields.or("upstream_streaming", true, "Whether the service is asked to stream."),
                history: fields
                    .with("history", "What a service without a memory of its own is reminded of.", History::take)
                    .unwrap_or_default(),
                news: fields
                    .with("news", "News in the context of the next turn.", NewsContext::take)
                    .unwrap_or_default(),
                later: fields.with("async", "Talks that are answered later.", Later::take).unwrap_or_default(),
                dialect,
            };
            settings.check(fields);
            match settings.dialect {
                DialectChoice::Guide => Some(Self { upstream: None, ..settings }),
                DialectChoice::BuiltIn(_) | DialectChoice::Inline(_) => Some(settings),
            }
        })
    }

    fn check(&self, fields: &Fields<'_, '_>) {
        let of_a_service = ["upstream", "model", "system", "options", "path", "upstream_streaming", "history", "news"];
        match self.dialect {
            DialectChoice::Guide => fields.useless(&of_a_service, "the guide answers without a service"),
            _ if self.upstream.is_none() => {
                if let Some(node) = fields.node() {
                    let help =
                        "add `upstream`, here or to the agent; or write `dialect: guide` for answers without a model";
                    fields.problem(Problem::error(node, "the talk has no upstream").at_key().help(help));
                }
            }
            _ => {}
        }
    }
}

impl DialectChoice {
    fn take(slot: Slot<'_, '_>) -> Option<Self> {
        slot.mapping_or(
            |slot| slot.map_of_json().map(|mapping| Self::Inline(Value::Object(mapping))),
            |slot| {
                slot.text().map(|name| match name.as_str() {
                    "guide" => Self::Guide,
                    _ => Self::BuiltIn(name),
                })
            },
        )
    }
}

impl Written for DialectChoice {
    fn written(&self) -> Value {
        match self {
            Self::Guide => "guide".into(),
            Self::BuiltIn(name) => name.as_str().into(),
            Self::Inline(mapping) => mapping.clone(),
        }
    }
}

fn path(slot: Slot<'_, '_>) -> Option<String> {
    slot.value(serde_json::json!({"type": "string"}), |node| match node.as_text() {
        Some(path) if path.starts_with('/') && !path.contains(['#', ' ']) => Ok(path.to_owned()),
        _ => Err(Mismatch::found(node, "a path that begins with /")),
    })
}

impl History {
    fn take(slot: Slot<'_, '_>) -> Option<Self> {
        slot.section("history", |fields| {
            let default = Self::default();
            Some(Self {
                turns: fields.or("turns", default.turns, "Pairs of user and assistant text; 0 is off."),
                tokens: fields.or("tokens", default.tokens, "Estimated tokens of all pairs that are sent."),
                ttl: fields
                    .or("ttl", Period(default.ttl), "How long a conversation rests before it is forgotten.")
                    .into(),
            })
        })
    }
}

impl NewsContext {
    fn take(slot: Slot<'_, '_>) -> Option<Self> {
        slot.section("talk_news", |fields| {
            let default = Self::default();
            let words = [("session", NewsFrom::Session), ("agent", NewsFrom::Agent), ("both", NewsFrom::Both)];
            Some(Self {
                from: fields.word("from", &words, default.from, "Whose news reach the model."),
                items: fields.or("items", default.items, "At most so many items a turn; 0 is off."),
                bytes: fields.or("bytes", ByteSize(default.bytes), "At most so many bytes of items a turn.").into(),
            })
        })
    }
}

impl Later {
    fn take(slot: Slot<'_, '_>) -> Option<Self> {
        slot.section("async", |fields| {
            let default = Self::default();
            Some(Self {
                running: fields.or_with("running", default.running, "So many run at once.", at_least_one),
                waiting: fields.or("waiting", default.waiting, "So many wait; one more is refused."),
            })
        })
    }
}

/// With none that may run, none would ever end.
fn at_least_one(slot: Slot<'_, '_>) -> Option<u32> {
    slot.value(serde_json::json!({"type": "integer", "minimum": 1, "maximum": u32::MAX}), |node| {
        let number = node.as_whole_number().and_then(|number| u32::try_from(number).ok());
        number.filter(|number| *number > 0).ok_or_else(|| Mismatch::found(node, "a whole number of at least 1"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_compiles_or_says_what_is_wrong() {
        assert!(DialectChoice::Guide.compile().unwrap().is_none());
        assert!(DialectChoice::BuiltIn("openai-chat".into()).compile().unwrap().is_some());
        assert!(DialectChoice::Inline(serde_json::json!({"like": "json"})).compile().unwrap().is_some());
        let problems = DialectChoice::BuiltIn("openai-caht".into()).compile().unwrap_err();
        assert_eq!(problems[0].suggestion.as_deref(), Some("openai-chat"));
    }
}
