//! `Settings`: the section `talk:` of an agent.

use std::time::Duration;

use serde_json::{Map, Value};

use super::Dialect;
use super::dialect::Problem;

/// How an agent talks.
#[derive(Debug, Clone)]
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
    pub fn compile(&self) -> Result<Option<Dialect>, Vec<Problem>> {
        match self {
            Self::Guide => Ok(None),
            Self::BuiltIn(name) => Dialect::built_in(name).map(Some).ok_or_else(|| vec![Problem::unknown(name)]),
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
