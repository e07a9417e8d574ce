//! `Document`: a YAML text as a tree in which every node knows where it stands.

mod json;
mod parse;

pub use parse::TEXT_MAX;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Map, Number, Value};

use super::{Diagnostic, variable};

/// One YAML file that has been read. Aliases and merges are resolved; a node that came from one stands where it
/// was written first.
#[derive(Debug)]
pub struct Document {
    name: String,
    directory: PathBuf,
    text: String,
    nodes: Vec<Stored>,
    faults: Vec<Fault>,
}

/// A node of a document.
#[derive(Debug, Clone, Copy)]
pub struct Node<'d> {
    document: &'d Document,
    index: usize,
}

/// What a node is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind<'d> {
    /// `null`, `~`, or nothing at all.
    Null,
    /// `true` or `false`; `yes`, `no`, `on` and `off` are text.
    Bool(bool),
    /// A whole number.
    Integer(i128),
    /// Any other number; finite.
    Float(f64),
    /// Text, its variables filled in.
    Text(&'d str),
    /// `[…]` or `- …`.
    List,
    /// `{…}` or `key: …`.
    Mapping,
}

/// Where something stands in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    /// From 1.
    pub line: u32,
    /// In characters, from 1.
    pub column: u32,
    /// In bytes from the beginning of the text.
    pub offset: usize,
    /// In bytes; 0 where a block mapping or list starts.
    pub length: usize,
}

/// A problem of the text itself, which does not keep the rest from being read.
#[derive(Debug)]
pub(super) struct Fault {
    /// Index of the node.
    pub(super) node: usize,
    /// Whether its key is what is wrong.
    pub(super) key: bool,
    /// What is wrong.
    pub(super) message: String,
    /// What to write instead.
    pub(super) help: String,
}

#[derive(Debug)]
struct Stored {
    /// Index of the list or mapping that it stands in; the root's is its own.
    parent: usize,
    step: Step,
    span: Span,
    content: Content,
    /// The text before its variables were filled in, where it has any.
    written: Option<Box<str>>,
    /// A variable in its text could not be filled in, which is a problem already.
    unset: bool,
}

#[derive(Debug)]
enum Step {
    Root,
    Item(usize),
    Key(Box<str>, Span),
}

#[derive(Debug)]
enum Content {
    Null,
    Bool(bool),
    Integer(i128),
    Float(f64),
    Text(Box<str>),
    List(Vec<usize>),
    Mapping(Vec<usize>),
}

impl Document {
    /// Reads a text. `name` is what problems call the file, `directory` is what paths in it are relative to.
    /// A text that is no YAML is one problem.
    pub fn parse(name: &str, directory: &Path, text: String) -> Result<Self, Box<Diagnostic>> {
        parse::parse(name, directory, text)
    }

    /// Reads a text that somebody else wrote for another purpose, YAML or JSON: of a key that stands twice the last
    /// counts, lists and mappings may be nested deeper, and JSON need not be YAML. Its variables are never filled in.
    pub fn parse_foreign(name: &str, directory: &Path, text: String) -> Result<Self, Box<Diagnostic>> {
        parse::parse_foreign(name, directory, text)
    }

    /// Keys that stand twice in their mapping, at the later one, and where the first is.
    pub fn duplicate_keys(&self) -> impl Iterator<Item = (Node<'_>, &str)> {
        self.faults().filter(|(_, fault)| fault.key).map(|(node, fault)| (node, &*fault.help))
    }

    /// Fills in every `${NAME}` and `${NAME:-default}`; `$${` becomes `${`. Keys are left as they are.
    pub fn fill_in(&mut self, environment: &dyn Fn(&str) -> Option<String>) {
        for (index, node) in self.nodes.iter_mut().enumerate() {
            let Content::Text(text) = &mut node.content else { continue };
            match variable::expand(text, environment) {
                Ok(None) => {}
                Ok(Some(value)) => node.written = Some(std::mem::replace(text, value.into())),
                Err(invalid) => {
                    node.unset = true;
                    self.faults.extend(invalid.into_iter().map(|invalid| Fault {
                        node: index,
                        key: false,
                        message: invalid.to_string(),
                        help: invalid.help(),
                    }));
                }
            }
        }
    }

    /// The node that holds all others.
    pub fn root(&self) -> Node<'_> {
        Node { document: self, index: 0 }
    }

    /// What problems call the file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What paths in the file are relative to.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Whether nothing is wrong with the text itself: no key stands twice, every variable could be filled in.
    pub fn is_sound(&self) -> bool {
        self.faults.is_empty()
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn faults(&self) -> impl Iterator<Item = (Node<'_>, &Fault)> {
        self.faults.iter().map(|fault| (Node { document: self, index: fault.node }, fault))
    }
}

impl<'d> Node<'d> {
    /// What it is.
    pub fn kind(self) -> Kind<'d> {
        match self.stored().map(|stored| &stored.content) {
            None | Some(Content::Null) => Kind::Null,
            Some(Content::Bool(value)) => Kind::Bool(*value),
            Some(Content::Integer(value)) => Kind::Integer(*value),
            Some(Content::Float(value)) => Kind::Float(*value),
            Some(Content::Text(text)) => Kind::Text(text),
            Some(Content::List(_)) => Kind::List,
            Some(Content::Mapping(_)) => Kind::Mapping,
        }
    }

    /// Its text, if it is text and every variable in it could be filled in.
    pub fn as_text(self) -> Option<&'d str> {
        match self.kind() {
            Kind::Text(text) if !self.is_unset() => Some(text),
            _ => None,
        }
    }

    /// Its number, if it is a whole one, or a variable that holds one.
    pub fn as_whole_number(self) -> Option<i128> {
        match self.kind() {
            Kind::Integer(number) => Some(number),
            // JSON Schema does not tell 5.0 from 5 either.
            Kind::Float(number) if number.fract() == 0.0 && number.abs() < 1e18 => Some(number as i128),
            Kind::Text(text) if self.is_filled_in() => text.parse().ok(),
            _ => None,
        }
    }

    /// What a list or mapping holds; nothing for other kinds.
    pub fn children(self) -> impl Iterator<Item = Node<'d>> {
        let children: &[usize] = match self.stored().map(|stored| &stored.content) {
            Some(Content::List(children) | Content::Mapping(children)) => children,
            _ => &[],
        };
        children.iter().map(move |&index| Node { index, ..self })
    }

    /// The value of a key of a mapping.
    pub fn get(self, key: &str) -> Option<Node<'d>> {
        self.children().find(|child| child.key() == Some(key))
    }

    /// The node that a JSON pointer (RFC 6901) names, or the nearest one above it that is there.
    pub fn nearest(self, pointer: &str) -> Node<'d> {
        let mut node = self;
        for step in pointer.split('/').skip(1) {
            let step = step.replace("~1", "/").replace("~0", "~");
            let child = match node.kind() {
                Kind::List => step.parse().ok().and_then(|index| node.children().nth(index)),
                _ => node.get(&step),
            };
            match child {
                Some(child) => node = child,
                None => break,
            }
        }
        node
    }

    /// The key that it is the value of.
    pub fn key(self) -> Option<&'d str> {
        match &self.stored()?.step {
            Step::Key(key, _) => Some(key),
            Step::Root | Step::Item(_) => None,
        }
    }

    /// Where its key stands; where it stands itself if it has none.
    pub fn key_span(self) -> Span {
        match self.stored().map(|stored| &stored.step) {
            Some(Step::Key(_, span)) => *span,
            _ => self.span(),
        }
    }

    /// Where it stands.
    pub fn span(self) -> Span {
        self.stored().map(|stored| stored.span).unwrap_or_default()
    }

    /// The file that it stands in.
    pub fn document(self) -> &'d Document {
        self.document
    }

    /// A scalar as it stands in the file: variables not filled in, numbers in the operator's own digits.
    pub fn written(self) -> &'d str {
        let Some(stored) = self.stored() else { return "" };
        match (&stored.written, &stored.content) {
            (Some(written), _) => written,
            (None, Content::Text(text)) => text,
            _ => self.document.text.get(stored.span.offset..stored.span.offset + stored.span.length).unwrap_or(""),
        }
    }

    /// Whether its text holds variables, so that it may not be shown.
    pub fn is_filled_in(self) -> bool {
        self.stored().is_some_and(|stored| stored.written.is_some())
    }

    /// Whether a variable in its text could not be filled in, so that there is nothing more to say about it.
    pub fn is_unset(self) -> bool {
        self.stored().is_some_and(|stored| stored.unset)
    }

    /// Such as `agent.capabilities[2].route.upstream`; empty for the root.
    pub fn path(self) -> String {
        let mut steps = Vec::new();
        let mut index = self.index;
        while let Some(stored) = self.document.nodes.get(index).filter(|stored| stored.parent != index) {
            steps.push(&stored.step);
            index = stored.parent;
        }
        let mut path = String::new();
        for step in steps.into_iter().rev() {
            let _ = match step {
                Step::Root => Ok(()),
                Step::Item(index) => write!(path, "[{index}]"),
                Step::Key(key, _) if !is_plain(key) => write!(path, "[{key:?}]"),
                Step::Key(key, _) if path.is_empty() => write!(path, "{key}"),
                Step::Key(key, _) => write!(path, ".{key}"),
            };
        }
        path
    }

    /// Its JSON pointer (RFC 6901); empty for the root.
    pub fn pointer(self) -> String {
        let mut steps = Vec::new();
        let mut index = self.index;
        while let Some(stored) = self.document.nodes.get(index).filter(|stored| stored.parent != index) {
            steps.push(&stored.step);
            index = stored.parent;
        }
        let mut pointer = String::new();
        for step in steps.into_iter().rev() {
            let _ = match step {
                Step::Root => Ok(()),
                Step::Item(index) => write!(pointer, "/{index}"),
                Step::Key(key, _) => write!(pointer, "/{}", key.replace('~', "~0").replace('/', "~1")),
            };
        }
        pointer
    }

    /// The node that exactly this JSON pointer names.
    pub fn at_pointer(self, pointer: &str) -> Option<Node<'d>> {
        let mut node = self;
        for step in pointer.strip_prefix('/')?.split('/') {
            let step = step.replace("~1", "/").replace("~0", "~");
            node = match node.kind() {
                Kind::List => node.children().nth(step.parse().ok()?)?,
                _ => node.get(&step)?,
            };
        }
        Some(node)
    }

    /// The same as JSON. A whole number that 64 bits do not hold becomes a float.
    pub fn to_json(self) -> Value {
        match self.kind() {
            Kind::Null => Value::Null,
            Kind::Bool(value) => Value::Bool(value),
            Kind::Integer(value) => match (i64::try_from(value), u64::try_from(value)) {
                (Ok(value), _) => value.into(),
                (_, Ok(value)) => value.into(),
                _ => Number::from_f64(value as f64).map_or(Value::Null, Value::Number),
            },
            Kind::Float(value) => Number::from_f64(value).map_or(Value::Null, Value::Number),
            Kind::Text(text) => Value::String(text.to_owned()),
            Kind::List => self.children().map(Node::to_json).collect(),
            Kind::Mapping => Value::Object(self.to_map()),
        }
    }

    /// The entries of a mapping as JSON.
    pub fn to_map(self) -> Map<String, Value> {
        self.children().filter_map(|child| Some((child.key()?.to_owned(), child.to_json()))).collect()
    }

    fn stored(self) -> Option<&'d Stored> {
        self.document.nodes.get(self.index)
    }
}

impl PartialEq for Node<'_> {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.document, other.document) && self.index == other.index
    }
}

impl Eq for Node<'_> {}

impl std::hash::Hash for Node<'_> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        std::ptr::from_ref(self.document).hash(state);
        self.index.hash(state);
    }
}

fn is_plain(key: &str) -> bool {
    !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

#[cfg(test)]
mod tests;
