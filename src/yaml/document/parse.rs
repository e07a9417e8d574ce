//! From text to tree. serde-saphyr reads; what it says of places is kept.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{DuplicateKeyPolicy, Error, Location, Options, Spanned};

use super::super::excerpt;
use super::{Content, Document, Fault, Span, Step, Stored, json};
use crate::yaml::Diagnostic;

/// Bytes of one file.
pub const TEXT_MAX: usize = 32 << 20;

/// Lists and mappings inside each other; a description of an API by somebody else may have more.
const DEPTH_MAX: usize = 96;
pub(super) const FOREIGN_DEPTH_MAX: usize = 256;

/// Parts of what anchors hold, counted again for every anchor inside of another.
const ANCHORED_MAX: usize = 200_000;

/// Bytes of stack for reading that deep.
const STACK: usize = 16 << 20;
const FOREIGN_STACK: usize = 48 << 20;

/// Nodes of one file after aliases are resolved.
pub(super) const NODES_MAX: usize = 2_000_000;

/// Who wrote a text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Author {
    /// The operator, for us.
    Operator,
    /// Somebody, for others.
    Foreigner,
}

pub(super) fn parse(name: &str, directory: &Path, text: String) -> Result<Document, Box<Diagnostic>> {
    bounded(name, &text)?;
    let read = on_a_large_stack(STACK, || read(&text, Author::Operator));
    let Arena { nodes, faults, .. } = read.map_err(|(message, place)| unreadable(name, &text, place, message))?;
    Ok(Document { name: name.to_owned(), directory: directory.to_owned(), text, nodes, faults })
}

/// JSON is read as JSON where it is some: not all of it is YAML, and it takes a tenth of the time.
pub(super) fn parse_foreign(name: &str, directory: &Path, text: String) -> Result<Document, Box<Diagnostic>> {
    bounded(name, &text)?;
    let looks_like_json = text.trim_start().starts_with(['{', '[']);
    let read = on_a_large_stack(FOREIGN_STACK, || {
        let json = looks_like_json.then(|| json::read(&text));
        match json {
            Some(Ok(arena)) => Ok(arena),
            Some(Err(broken)) => read(&text, Author::Foreigner).map_err(|_| broken),
            None => read(&text, Author::Foreigner),
        }
    });
    let Arena { nodes, faults, .. } = read.map_err(|(message, place)| unreadable(name, &text, place, message))?;
    Ok(Document { name: name.to_owned(), directory: directory.to_owned(), text, nodes, faults })
}

fn bounded(name: &str, text: &str) -> Result<(), Box<Diagnostic>> {
    if text.len() <= TEXT_MAX {
        return Ok(());
    }
    Err(unreadable(name, text, None, format!("the file is larger than {} MiB", TEXT_MAX >> 20)))
}

/// A level of the text takes up to 50 KB of stack in a debug build, which callers need not have.
fn on_a_large_stack<T: Send>(stack: usize, work: impl FnOnce() -> Result<T, Broken> + Send) -> Result<T, Broken> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("yaml".into()).stack_size(stack).spawn_scoped(scope, work);
        let done = thread.map(std::thread::ScopedJoinHandle::join);
        done.ok().and_then(Result::ok).unwrap_or_else(|| Err(("the system has no thread left to read it".into(), None)))
    })
}

/// What keeps a text from being read, and in which line and column.
pub(super) type Broken = (String, Option<(u32, u32)>);

fn read(text: &str, author: Author) -> Result<Arena, Broken> {
    let depth = if author == Author::Operator { DEPTH_MAX } else { FOREIGN_DEPTH_MAX };
    let tree = serde_saphyr::from_str_with_options::<Spanned<Tree>>(text, options(depth));
    let place = |location: Location| (location.line() as u32, location.column() as u32);
    let tree = tree.map_err(|error| (message(&error, depth), error.location().map(place)))?;
    let mut arena = Arena { last_wins: author == Author::Foreigner, ..Arena::default() };
    arena.add(0, Step::Root, tree);
    Ok(arena)
}

fn options(depth: usize) -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: depth,
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

fn unreadable(name: &str, text: &str, place: Option<(u32, u32)>, message: String) -> Box<Diagnostic> {
    let whole = Diagnostic::of_file(name, message);
    let Some((line, column)) = place else { return Box::new(whole) };
    Box::new(Diagnostic { line, column, excerpt: excerpt::unread(text, line, column), ..whole })
}

/// The reader's own sentence, without the place that it ends with.
fn message(error: &Error, depth: usize) -> String {
    let too_large = || {
        format!(
            "the file is too large: at most {depth} levels and {NODES_MAX} values, those that aliases repeat included"
        )
    };
    match error {
        Error::Budget { .. } => too_large(),
        Error::MultipleDocuments { .. } => "a second YAML document starts here; one file is one document".into(),
        Error::NonFiniteFloat { .. } => "a number must be finite; put it in quotes if it is text".into(),
        _ => {
            let sentence = error.to_string();
            if sentence.contains("budget breached") {
                return too_large();
            }
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
pub(super) struct Arena {
    pub(super) nodes: Vec<Stored>,
    pub(super) faults: Vec<Fault>,
    /// Of a key that stands twice the last counts.
    pub(super) last_wins: bool,
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
        let mut seen = HashMap::with_capacity(entries.len());
        let mut children = Vec::with_capacity(entries.len());
        for (key, tree) in entries {
            let span = Span::from(key.defined);
            let child = self.add(mapping, Step::Key(key.value.as_str().into(), span), tree);
            self.entry(&mut seen, &mut children, (key.value, span, child));
        }
        children
    }

    /// Takes one entry of a mapping, `(key, place, node)`, among those that were seen.
    pub(super) fn entry(
        &mut self,
        seen: &mut HashMap<String, (Span, usize)>,
        children: &mut Vec<usize>,
        (key, span, child): (String, Span, usize),
    ) {
        let Some((first, position)) = seen.get(&key).copied() else {
            seen.insert(key, (span, children.len()));
            children.push(child);
            return;
        };
        self.faults.push(Fault {
            node: child,
            key: true,
            message: format!("the key `{key}` stands here twice"),
            help: format!("the first is in line {}, column {}; keep one of them", first.line, first.column),
        });
        if let Some(earlier) = children.get_mut(position).filter(|_| self.last_wins) {
            *earlier = child;
        }
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
