//! From text to tree. serde-saphyr reads; what it says of places is kept.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{DuplicateKeyPolicy, Error, Location, Options, Spanned};

use super::super::excerpt;
use super::{Content, Document, Fault, Span, Step, Stored};
use crate::yaml::Diagnostic;

/// Bytes of one file.
pub const TEXT_MAX: usize = 32 << 20;

/// Lists and mappings inside each other.
const DEPTH_MAX: usize = 96;

/// Parts of what anchors hold, counted again for every anchor inside of another.
const ANCHORED_MAX: usize = 200_000;

/// Bytes of stack for reading that deep.
const STACK: usize = 16 << 20;

/// Nodes of one file after aliases are resolved.
const NODES_MAX: usize = 2_000_000;

pub(super) fn parse(name: &str, directory: &Path, text: String) -> Result<Document, Box<Diagnostic>> {
    if text.len() > TEXT_MAX {
        return Err(unreadable(name, &text, None, format!("the file is larger than {} MiB", TEXT_MAX >> 20)));
    }
    let Arena { nodes, faults } =
        on_a_large_stack(|| read(&text)).map_err(|(message, location)| unreadable(name, &text, location, message))?;
    Ok(Document { name: name.to_owned(), directory: directory.to_owned(), text, nodes, faults })
}

/// A level of the text takes up to 50 KB of stack in a debug build, which callers need not have.
fn on_a_large_stack<T: Send>(
    work: impl FnOnce() -> Result<T, (String, Option<Location>)> + Send,
) -> Result<T, (String, Option<Location>)> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("yaml".into()).stack_size(STACK).spawn_scoped(scope, work);
        let done = thread.map(std::thread::ScopedJoinHandle::join);
        done.ok().and_then(Result::ok).unwrap_or_else(|| Err(("the system has no thread left to read it".into(), None)))
    })
}

fn read(text: &str) -> Result<Arena, (String, Option<Location>)> {
    let tree = serde_saphyr::from_str_with_options::<Spanned<Tree>>(text, options());
    let tree = tree.map_err(|error| (message(&error), error.location()))?;
    let mut arena = Arena::default();
    arena.add(0, Step::Root, tree);
    Ok(arena)
}

fn options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: DEPTH_MAX,
            max_nodes: NODES_MAX,
            max_events: 4 * NODES_MAX,
            max_merge_keys: NODES_MAX,
            max_aliases: NODES_MAX,
            max_recorded_anchor_events: ANCHORED_MAX,
            // One anchor of defaults may be merged into a thousand agents; the nodes are counted after that.
            enforce_alias_anchor_ratio: false,
        },
        // Both places of a duplicate key are to be told, and the rest is to be read.
        duplicate_keys: DuplicateKeyPolicy::PassThrough,
        strict_booleans: true,
        leading_zero_numbers_as_strings: true,
        underscored_numbers_as_strings: true,
        // A key `null:` or `~:` is text like any other key.
        null_as_string: true,
        with_snippet: false,
    }
}

fn unreadable(name: &str, text: &str, location: Option<Location>, message: String) -> Box<Diagnostic> {
    let whole = Diagnostic::of_file(name, message);
    let Some(location) = location else { return Box::new(whole) };
    let (line, column) = (location.line() as u32, location.column() as u32);
    Box::new(Diagnostic { line, column, excerpt: excerpt::unread(text, line, column), ..whole })
}

/// The reader's own sentence, without the place that it ends with.
fn message(error: &Error) -> String {
    match error {
        Error::Budget { .. } => format!(
            "the file is too large: at most {DEPTH_MAX} levels and {NODES_MAX} values, those that aliases repeat included"
        ),
        Error::MultipleDocuments { .. } => "a second YAML document starts here; one file is one document".into(),
        Error::NonFiniteFloat { .. } => "a number must be finite; put it in quotes if it is text".into(),
        _ => {
            let sentence = error.to_string();
            let end = sentence.find(" at line ").unwrap_or(sentence.len());
            format!("this is no YAML: {}", sentence.get(..end).unwrap_or(&sentence))
        }
    }
}

impl From<Location> for Span {
    fn from(location: Location) -> Self {
        Self {
            line: location.line() as u32,
            column: location.column() as u32,
            offset: location.span().byte_offset().unwrap_or(0) as usize,
            length: location.span().byte_len().unwrap_or(0) as usize,
        }
    }
}

#[derive(Default)]
struct Arena {
    nodes: Vec<Stored>,
    faults: Vec<Fault>,
}

impl Arena {
    fn add(&mut self, parent: usize, step: Step, tree: Spanned<Tree>) -> usize {
        let index = self.nodes.len();
        self.nodes.push(Stored {
            parent,
            step,
            span: tree.defined.into(),
            content: Content::Null,
            written: None,
            unset: false,
        });
        let content = match tree.value {
            Tree::Scalar(content) => content,
            Tree::List(items) => {
                let items = items.into_iter().enumerate();
                Content::List(items.map(|(position, item)| self.add(index, Step::Item(position), item)).collect())
            }
            Tree::Mapping(entries) => Content::Mapping(self.entries(index, entries)),
        };
        if let Some(stored) = self.nodes.get_mut(index) {
            stored.content = content;
        }
        index
    }

    fn entries(&mut self, mapping: usize, entries: Vec<(Spanned<String>, Spanned<Tree>)>) -> Vec<usize> {
        let mut lines = HashMap::with_capacity(entries.len());
        let mut children = Vec::with_capacity(entries.len());
        for (key, tree) in entries {
            let span = Span::from(key.defined);
            let first = *lines.entry(key.value.clone()).or_insert(span);
            let child = self.add(mapping, Step::Key(key.value.as_str().into(), span), tree);
            if first == span {
                children.push(child);
            } else {
                self.faults.push(Fault {
                    node: child,
                    key: true,
                    message: format!("the key `{}` stands here twice", key.value),
                    help: format!("the first is in line {}, column {}; keep one of them", first.line, first.column),
                });
            }
        }
        children
    }
}

enum Tree {
    Scalar(Content),
    List(Vec<Spanned<Tree>>),
    Mapping(Vec<(Spanned<String>, Spanned<Tree>)>),
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML value")
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Scalar(Content::Null))
    }

    fn visit_none<E>(self) -> Result<Tree, E> {
        Ok(Tree::Scalar(Content::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Tree, E> {
        Ok(Tree::Scalar(Content::Bool(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Tree, E> {
        Ok(Tree::Scalar(Content::Integer(value.into())))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Tree, E> {
        Ok(Tree::Scalar(Content::Integer(value.into())))
    }

    fn visit_i128<E>(self, value: i128) -> Result<Tree, E> {
        Ok(Tree::Scalar(Content::Integer(value)))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Tree, E> {
        Ok(Tree::Scalar(Content::Float(value)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Tree, E> {
        Ok(Tree::Scalar(Content::Text(value.into())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Tree, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Tree::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Tree, A::Error> {
        let mut mapping = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            mapping.push(entry);
        }
        Ok(Tree::Mapping(mapping))
    }
}
