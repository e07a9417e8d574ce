//! `Bundle`: a document and the others that it refers to. Who has them reads them; here is only said which are wanted.

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::Path;

use super::location::Location;
use super::text::decode;
use crate::yaml::{Document, Kind, Node};

/// Documents of one import.
const DOCUMENTS_MAX: usize = 2_000;

/// Bytes of all of them.
const BYTES_MAX: usize = 64 << 20;

/// References from one to the next.
const HOPS_MAX: usize = 64;

/// A document that can't be used at all. One sentence that says what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unreadable(pub String);

/// A document that is referred to and was not given yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Where it is.
    pub location: Location,
    /// It stands in the folder of the first document, or below. Any other is a stranger's word.
    pub below: bool,
}

/// A document and the others that it refers to.
#[derive(Debug)]
pub struct Bundle {
    documents: Vec<(Location, Document)>,
    by_location: HashMap<Location, Result<usize, String>>,
    by_name: HashMap<String, usize>,
    wanted: VecDeque<Location>,
    asked: HashSet<Location>,
    bytes: usize,
}

impl Bundle {
    /// Begins with the first document. It must be YAML or JSON; what it says is not looked at yet.
    pub fn new(location: Location, bytes: &[u8]) -> Result<Self, Unreadable> {
        let mut bundle = Self {
            documents: Vec::new(),
            by_location: HashMap::new(),
            by_name: HashMap::new(),
            wanted: VecDeque::new(),
            asked: HashSet::from([location.clone()]),
            bytes: bytes.len(),
        };
        bundle.read(location, bytes).map_err(Unreadable)?;
        Ok(bundle)
    }

    /// The next document that is to be given.
    pub fn wanted(&mut self) -> Option<Wanted> {
        let location = self.wanted.pop_front()?;
        let root = self.documents.first().map(|(location, _)| location);
        let below = root.is_some_and(|root| location.is_below(root));
        Some(Wanted { location, below })
    }

    /// Takes a document that was wanted, or why it is not to be had.
    pub fn give(&mut self, location: Location, bytes: Result<Vec<u8>, String>) {
        let read = bytes.and_then(|bytes| {
            self.bytes += bytes.len();
            if self.bytes > BYTES_MAX {
                return Err(format!("all documents together are larger than {} MiB", BYTES_MAX >> 20));
            }
            self.read(location.clone(), &bytes)
        });
        if let Err(reason) = read {
            self.by_location.insert(location, Err(reason));
        }
    }

    /// The first document.
    pub fn root(&self) -> Option<Node<'_>> {
        self.documents.first().map(|(_, document)| document.root())
    }

    /// Where the first document is.
    pub fn location(&self) -> Option<&Location> {
        self.documents.first().map(|(location, _)| location)
    }

    pub(super) fn documents(&self) -> impl Iterator<Item = &Document> {
        self.documents.iter().map(|(_, document)| document)
    }

    /// What a reference leads to, or why it leads nowhere.
    pub(super) fn resolve<'d>(&'d self, from: Node<'d>, reference: &str) -> Result<Node<'d>, String> {
        let (place, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let root = if place.is_empty() { from.document().root() } else { self.elsewhere(from, place)?.root() };
        if fragment.is_empty() {
            return Ok(root);
        }
        let decoded = percent_encoding::percent_decode_str(fragment).decode_utf8_lossy();
        // Some tools write `%` into a name without encoding it.
        let found = root.at_pointer(&decoded).or_else(|| root.at_pointer(fragment));
        found.ok_or_else(|| format!("nothing is at `{}`", clipped(reference)))
    }

    /// Follows `$ref` from a node that is no schema until one is there that is no reference.
    pub(super) fn follow<'d>(&'d self, node: Node<'d>) -> Result<Node<'d>, String> {
        let mut node = node;
        for _ in 0..HOPS_MAX {
            let Some(reference) = node.get("$ref").and_then(Node::as_text) else { return Ok(node) };
            node = self.resolve(node, reference)?;
        }
        Err("the references lead in a circle".to_owned())
    }

    /// Where the document of a node is.
    pub(super) fn location_of(&self, node: Node<'_>) -> Option<&Location> {
        let index = self.by_name.get(node.document().name())?;
        self.documents.get(*index).map(|(location, _)| location)
    }

    fn elsewhere(&self, from: Node<'_>, place: &str) -> Result<&Document, String> {
        let base = self.location_of(from).ok_or("the document is not known")?;
        let location = base.join(place)?;
        match self.by_location.get(&location) {
            Some(Ok(index)) => self.documents.get(*index).map(|(_, document)| document).ok_or_else(String::new),
            Some(Err(reason)) => Err(format!("`{}` can't be used: {reason}", clipped(&location.to_string()))),
            None => Err(format!("`{}` was not read", clipped(&location.to_string()))),
        }
    }

    fn read(&mut self, location: Location, bytes: &[u8]) -> Result<usize, String> {
        let name = location.to_string();
        let text = decode(bytes)?;
        if let Some(what) = no_mapping(&text) {
            return Err(format!("this is {what}, and no OpenAPI document"));
        }
        let document = Document::parse_foreign(&name, Path::new(""), text).map_err(|unreadable| {
            format!("{} (line {}, column {})", unreadable.message, unreadable.line, unreadable.column)
        })?;
        let index = self.documents.len();
        references(document.root(), &mut |reference| {
            let place = reference.split('#').next().unwrap_or_default();
            let Ok(other) = location.join(place) else { return };
            if place.is_empty() || self.asked.contains(&other) {
                return;
            }
            self.asked.insert(other.clone());
            if self.asked.len() > DOCUMENTS_MAX {
                let reason = format!("more than {DOCUMENTS_MAX} documents are referred to");
                self.by_location.insert(other, Err(reason));
            } else {
                self.wanted.push_back(other);
            }
        });
        self.by_location.insert(location.clone(), Ok(index));
        self.by_name.insert(name, index);
        self.documents.push((location, document));
        Ok(index)
    }
}

/// What a text is that is plainly something else.
fn no_mapping(text: &str) -> Option<&'static str> {
    let start = text.trim_start();
    let lower = start.get(..start.floor_char_boundary(2_000)).unwrap_or_default().to_ascii_lowercase();
    match lower.as_str() {
        raml if raml.starts_with("#%raml") => Some("RAML"),
        html if html.starts_with("<!doctype html") || html.starts_with("<html") => {
            Some("an HTML page: is the URL that of the document itself?")
        }
        xml if xml.starts_with('<') && xml.contains("wsdl") => Some("a WSDL document"),
        xml if xml.starts_with('<') => Some("XML"),
        _ => None,
    }
}

/// Every text under a `$ref`.
fn references<'d>(node: Node<'d>, visit: &mut impl FnMut(&'d str)) {
    let mut left = vec![node];
    while let Some(node) = left.pop() {
        if let (Some("$ref"), Kind::Text(text)) = (node.key(), node.kind()) {
            visit(text);
        }
        left.extend(node.children());
    }
}

/// As much of a text out of a document as a message shows.
pub(super) fn clipped(text: &str) -> String {
    let mut shown: String = text.chars().filter(|c| !c.is_control()).take(120).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}
