//! `Matcher`: what a place in a frame must hold for a rule to act.

use serde_json::Number;

use super::pointer::Pointer;
use super::tree::Tree;

/// A test of one value, which may be absent.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Matcher {
    /// `null`: absent counts too.
    Null,
    Bool(bool),
    Number(Number),
    Text(Box<str>),
    /// A list: any of these.
    Any(Box<[Matcher]>),
    /// `{is: …}`.
    Is(Kind),
    /// `{not: …}`.
    Not(Box<Matcher>),
}

/// The types that `is` knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    String,
    /// A string with at least one character.
    Nonempty,
    Number,
    Object,
    Array,
}

impl Kind {
    pub(crate) const NAMES: &'static [&'static str] = &["string", "nonempty", "number", "object", "array"];

    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "string" => Self::String,
            "nonempty" => Self::Nonempty,
            "number" => Self::Number,
            "object" => Self::Object,
            "array" => Self::Array,
            _ => return None,
        })
    }
}

impl Matcher {
    pub(crate) fn matches(&self, value: Option<&Tree<'_>>) -> bool {
        match self {
            Self::Null => value.is_none_or(Tree::is_null),
            Self::Any(any) => any.iter().any(|one| one.matches(value)),
            Self::Not(not) => !not.matches(value),
            Self::Bool(expected) => value == Some(&Tree::Bool(*expected)),
            Self::Text(expected) => value.and_then(Tree::as_str) == Some(expected),
            Self::Number(expected) => match value {
                Some(Tree::Number(number)) => number == expected || number.as_f64() == expected.as_f64(),
                _ => false,
            },
            Self::Is(kind) => match (kind, value) {
                (Kind::String, Some(Tree::Text(_)))
                | (Kind::Number, Some(Tree::Number(_)))
                | (Kind::Object, Some(Tree::Object(_)))
                | (Kind::Array, Some(Tree::Array(_))) => true,
                (Kind::Nonempty, Some(Tree::Text(text))) => !text.is_empty(),
                _ => false,
            },
        }
    }
}

/// Places and what they must hold; all of them.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Conditions(pub(crate) Box<[(Pointer, Matcher)]>);

impl Conditions {
    pub(crate) fn hold(&self, value: &Tree<'_>) -> bool {
        self.0.iter().all(|(pointer, matcher)| matcher.matches(pointer.first(value)))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
