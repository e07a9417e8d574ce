//! `Mismatch`: a value that is not what was expected, in the words that an operator reads.

use std::fmt::Display;
use std::str::FromStr;

use super::document::{Kind, Node};
use super::report::Problem;
use super::{excerpt, nearest};

/// Characters of a wrong text that an error repeats.
const QUOTED_MAX: usize = 40;

/// Why a scalar is not what was expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub help: Option<String>,
}

impl Mismatch {
    /// A sentence of its own.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), help: None }
    }

    /// `expected a list, found the text "no"`.
    pub fn found(node: Node<'_>, expects: &str) -> Self {
        let (found, help) = match node.kind() {
            Kind::Null => ("nothing".to_owned(), Some("write a value, or leave the key out".to_owned())),
            Kind::Text(_) => (format!("the text {}", quote(node.written())), None),
            Kind::List => ("a list".to_owned(), None),
            Kind::Mapping => ("a mapping".to_owned(), None),
            Kind::Bool(_) | Kind::Integer(_) | Kind::Float(_) => (node.written().to_owned(), None),
        };
        Self { message: format!("expected {expects}, found {found}"), help }
    }

    /// What to write instead.
    pub fn help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }

    /// The problem that it is with a node.
    pub fn about(self, node: Node<'_>) -> Problem<'_> {
        let problem = Problem::error(node, self.message);
        match self.help {
            Some(help) => problem.help(help),
            None => problem,
        }
    }
}

/// Takes the text of a node. Numbers and booleans are no text; the error says how to make them so.
pub(super) fn text<'d>(node: Node<'d>, expects: &str) -> Result<&'d str, Mismatch> {
    match node.kind() {
        Kind::Text(text) => Ok(text),
        Kind::Bool(_) | Kind::Integer(_) | Kind::Float(_) => {
            Err(Mismatch::found(node, expects).help(format!("put it in quotes: \"{}\"", node.written())))
        }
        _ => Err(Mismatch::found(node, expects)),
    }
}

pub(super) fn parse<T: FromStr>(text: &str, expects: &str) -> Result<T, Mismatch>
where
    T::Err: Display,
{
    text.parse().map_err(|error: T::Err| Mismatch::new(error.to_string()).help(format!("write {expects}")))
}

pub(super) fn one_of<T: Clone>(node: Node<'_>, words: &[(&str, T)]) -> Result<T, Mismatch> {
    let found = node.as_text().and_then(|text| words.iter().find(|(name, _)| *name == text));
    found.map(|(_, value)| value.clone()).ok_or_else(|| {
        let names = words.iter().map(|(name, _)| *name);
        let mismatch = Mismatch::found(node, &joined(names.clone(), "or"));
        let quoted = names.clone().find(|name| node.as_text().is_none() && node.written() == *name);
        let nearest = node.as_text().and_then(|text| nearest(text, names));
        match (quoted, nearest) {
            (Some(name), _) => mismatch.help(format!("put it in quotes: \"{name}\"")),
            (None, Some(name)) => mismatch.help(format!("did you mean `{name}`?")),
            (None, None) => mismatch,
        }
    })
}

/// `a, b or c`.
pub fn joined<'n>(names: impl IntoIterator<Item = &'n str>, last: &str) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    match names.split_last() {
        Some((end, [])) => (*end).to_owned(),
        Some((end, start)) => format!("{} {last} {end}", start.join(", ")),
        None => String::new(),
    }
}

fn quote(text: &str) -> String {
    let text = excerpt::without_credentials(text);
    let mut quoted: String = text.chars().take(QUOTED_MAX).collect();
    if quoted.len() < text.len() {
        quoted.push('…');
    }
    format!("{quoted:?}")
}
