//! `Block`: how one kind of reply is read, a stream or a whole body.

use super::pointer::Pointer;
use super::rule::Rule;
use super::tree::Tree;

/// How bytes become frames.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Server-sent events with JSON as data.
    Sse,
    /// JSON values in a row, one a line or not, or the elements of one array.
    JsonSeq,
    /// One JSON value.
    #[default]
    Json,
    /// All bytes are text of the reply.
    Text,
    /// Binary frames of AWS with JSON as payload.
    AwsEventStream,
}

/// Where the name of a frame stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NamePlace {
    /// In the framing itself: an `event:` line.
    Sse,
    /// In the JSON.
    At(Pointer),
}

/// Which of a block's rules, in order.
type Chosen = Box<[usize]>;

/// How one kind of reply is read.
#[derive(Debug, Clone, Default)]
pub(crate) struct Block {
    pub(crate) framing: Framing,
    /// The first place that holds a name counts.
    names: Box<[NamePlace]>,
    /// Data that ends the reply, such as `[DONE]`.
    pub(crate) sentinel: Option<Box<str>>,
    /// A clean close proves that the reply is complete.
    pub(crate) eof_ok: bool,
    pub(crate) rules: Box<[Rule]>,
    /// The rules for frames of each name that a rule names; sorted by name.
    by_name: Box<[(Box<str>, Chosen)]>,
    /// The rules for frames of any other name, or none.
    unnamed: Chosen,
}

impl Framing {
    pub(crate) const NAMES: &'static [&'static str] = &["sse", "json-seq", "json", "text", "aws-eventstream"];

    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "sse" => Self::Sse,
            "json-seq" => Self::JsonSeq,
            "json" => Self::Json,
            "text" => Self::Text,
            "aws-eventstream" => Self::AwsEventStream,
            _ => return None,
        })
    }

    /// The `Accept` of a request for it. A refusal may always be JSON.
    pub(crate) fn accept(self) -> &'static str {
        match self {
            Self::Sse => "text/event-stream, application/json",
            Self::Json => "application/json",
            Self::JsonSeq | Self::Text => "*/*",
            Self::AwsEventStream => "application/vnd.amazon.eventstream, application/json",
        }
    }
}

impl Block {
    pub(crate) fn new(
        framing: Framing,
        names: Box<[NamePlace]>,
        sentinel: Option<Box<str>>,
        eof_ok: bool,
        rules: Box<[Rule]>,
    ) -> Self {
        let select = |name: Option<&str>| -> Chosen {
            let is_for = |rule: &Rule| match &rule.events {
                None => true,
                Some(events) => name.is_some_and(|name| events.iter().any(|event| **event == *name)),
            };
            rules.iter().enumerate().filter(|(_, rule)| is_for(rule)).map(|(index, _)| index).collect()
        };
        let mut events: Vec<&str> =
            rules.iter().flat_map(|rule| rule.events.iter().flatten()).map(|name| &**name).collect();
        events.sort_unstable();
        events.dedup();
        let by_name = events.into_iter().map(|name| (name.into(), select(Some(name)))).collect();
        let unnamed = select(None);
        Self { framing, names, sentinel, eof_ok, rules, by_name, unnamed }
    }

    /// The same rules for a whole body, which is read like one frame.
    pub(crate) fn of_one_body(&self) -> Self {
        Self { framing: Framing::Json, sentinel: None, ..self.clone() }
    }

    /// The name of a frame; `framed` is the one in the framing.
    pub(crate) fn name<'f>(&self, framed: Option<&'f str>, frame: Option<&'f Tree<'_>>) -> Option<&'f str> {
        self.names.iter().find_map(|place| match place {
            NamePlace::Sse => framed,
            NamePlace::At(pointer) => frame.and_then(|frame| pointer.first(frame)?.as_str()),
        })
    }

    /// The rules for frames of this name, in order.
    pub(crate) fn rules_for(&self, name: Option<&str>) -> impl Iterator<Item = &Rule> {
        let known = name.and_then(|name| self.by_name.binary_search_by(|(known, _)| (**known).cmp(name)).ok());
        let chosen = known.and_then(|index| self.by_name.get(index)).map_or(&self.unnamed, |(_, rules)| rules);
        chosen.iter().filter_map(|index| self.rules.get(*index))
    }
}
