//! `Trie`: many patterns, matched at once, the most specific first.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use super::path::NormalPath;
use super::pattern::{Mixed, Pattern, Segment};

/// Patterns by segment. At each one a literal comes before literals with templates, those before a template alone,
/// that before a tail; where the first choice leads nowhere the next is tried.
///
/// No node is visited twice for one path, so a search takes at most as many steps as the patterns have segments,
/// whatever the path is.
#[derive(Debug)]
pub(super) struct Trie<T> {
    root: Node<T>,
}

#[derive(Debug)]
struct Node<T> {
    literals: HashMap<Box<str>, Node<T>>,
    mixed: BTreeMap<Mixed, Node<T>>,
    template: Option<Box<Node<T>>>,
    tail: Vec<T>,
    here: Vec<T>,
}

/// What the templates of a pattern took.
#[derive(Debug, Clone, Copy)]
pub(super) struct Captured<'p> {
    /// Decoded, in the order of the pattern's names, without the tail.
    pub(super) pieces: &'p [&'p str],
    /// The rest of the path in its normal form.
    pub(super) tail: Option<&'p str>,
}

/// Whether a search goes on after a match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Search {
    On,
    Done,
}

impl<T> Default for Trie<T> {
    fn default() -> Self {
        Self { root: Node::default() }
    }
}

impl<T> Default for Node<T> {
    fn default() -> Self {
        Self { literals: HashMap::new(), mixed: BTreeMap::new(), template: None, tail: Vec::new(), here: Vec::new() }
    }
}

impl<T> Trie<T> {
    /// What stands at a pattern's place. Patterns that differ only in names have the same place.
    pub(super) fn place(&mut self, pattern: &Pattern) -> &mut Vec<T> {
        let mut node = &mut self.root;
        for segment in pattern.segments() {
            node = match segment {
                Segment::Literal(text) => node.literals.entry(text.clone()).or_default(),
                Segment::Mixed(mixed) => node.mixed.entry(mixed.clone()).or_default(),
                Segment::Template => node.template.get_or_insert_default(),
                Segment::Tail => return &mut node.tail,
            };
        }
        &mut node.here
    }

    /// Shows what stands at every pattern that matches `path`, the most specific first, until `found` says
    /// [`Search::Done`].
    pub(super) fn search(&self, path: &NormalPath, mut found: impl FnMut(&[T], Captured<'_>) -> Search) {
        let segments: Vec<_> = path.segments().collect();
        let mut walk = Walk { path: path.as_str(), pieces: Vec::new(), found: &mut found };
        walk.step(&self.root, &segments);
    }
}

struct Walk<'p, 'f, F> {
    path: &'p str,
    pieces: Vec<&'p str>,
    found: &'f mut F,
}

impl<'p, F> Walk<'p, '_, F> {
    fn step<T>(&mut self, node: &Node<T>, segments: &'p [(usize, Cow<'p, str>)]) -> Search
    where
        F: FnMut(&[T], Captured<'_>) -> Search,
    {
        let Some(((start, segment), rest)) = segments.split_first() else {
            return self.show(&node.here, None);
        };
        if let Some(child) = node.literals.get(&**segment)
            && self.step(child, rest) == Search::Done
        {
            return Search::Done;
        }
        if segment.is_empty() {
            return Search::On;
        }
        let depth = self.pieces.len();
        for (mixed, child) in &node.mixed {
            if mixed.capture(segment, &mut self.pieces) && self.step(child, rest) == Search::Done {
                return Search::Done;
            }
            self.pieces.truncate(depth);
        }
        if let Some(child) = &node.template {
            self.pieces.push(segment);
            if self.step(child, rest) == Search::Done {
                return Search::Done;
            }
            self.pieces.truncate(depth);
        }
        self.show(&node.tail, self.path.get(*start..))
    }

    fn show<T>(&mut self, place: &[T], tail: Option<&str>) -> Search
    where
        F: FnMut(&[T], Captured<'_>) -> Search,
    {
        if place.is_empty() { Search::On } else { (self.found)(place, Captured { pieces: &self.pieces, tail }) }
    }
}
