//! From JSON to a tree. serde_json says what is JSON; where a value stands is where its slice of the text begins.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::parse::{Arena, Broken, FOREIGN_DEPTH_MAX, NODES_MAX};
use super::{Content, Span, Step, Stored};

/// Bytes that may be looked at: each level of a text looks at what is in it once more.
const LOOKED_AT_MAX: usize = 1 << 30;

/// Bytes of a line in which columns are counted in characters; beyond them in bytes, so that the one line of a minified
/// document is not counted anew for every value.
const COUNTED_MAX: usize = 512;

pub(super) fn read(text: &str) -> Result<Arena, Broken> {
    let root: &RawValue = serde_json::from_str(text).map_err(|error| {
        (format!("this is no JSON: {}", sentence(&error)), Some((error.line() as u32, error.column() as u32)))
    })?;
    let lines = std::iter::once(0).chain(memchr::memchr_iter(b'\n', text.as_bytes()).map(|at| at + 1)).collect();
    let mut reader = Reader { text, lines, arena: Arena { last_wins: true, ..Arena::default() }, left: LOOKED_AT_MAX };
    reader.value(0, Step::Root, root, 0)?;
    Ok(reader.arena)
}

/// serde_json's own words without the place.
fn sentence(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split_once(" at line ").map_or(text.clone(), |(sentence, _)| sentence.to_owned())
}

struct Reader<'t> {
    text: &'t str,
    /// Where each line begins.
    lines: Vec<usize>,
    arena: Arena,
    left: usize,
}

impl<'t> Reader<'t> {
    fn value(&mut self, parent: usize, step: Step, raw: &'t RawValue, depth: usize) -> Result<usize, Broken> {
        let slice = raw.get();
        let span = self.span(slice);
        let place = Some((span.line, span.column));
        if depth > FOREIGN_DEPTH_MAX || self.arena.nodes.len() >= NODES_MAX {
            let message = format!("the file is too large: at most {FOREIGN_DEPTH_MAX} levels and {NODES_MAX} values");
            return Err((message, place));
        }
        let index = self.arena.nodes.len();
        self.arena.nodes.push(Stored { parent, step, span, content: Content::Null, written: None, unset: false });
        let broken = |error: serde_json::Error| (format!("this is no JSON: {}", sentence(&error)), place);
        let content = match slice.as_bytes().first() {
            Some(b'{') => {
                self.look_at(slice, place)?;
                let Entries(entries) = serde_json::from_str(slice).map_err(broken)?;
                let (mut seen, mut children) = (HashMap::with_capacity(entries.len()), Vec::new());
                for (key, value) in entries {
                    let span = match key {
                        Cow::Borrowed(key) => self.span(key),
                        Cow::Owned(_) => self.span(value.get()),
                    };
                    let child = self.value(index, Step::Key(key.as_ref().into(), span), value, depth + 1)?;
                    self.arena.entry(&mut seen, &mut children, (key.into_owned(), span, child));
                }
                Content::Mapping(children)
            }
            Some(b'[') => {
                self.look_at(slice, place)?;
                let items: Vec<&RawValue> = serde_json::from_str(slice).map_err(broken)?;
                let items = items.into_iter().enumerate();
                let children = items.map(|(number, item)| self.value(index, Step::Item(number), item, depth + 1));
                Content::List(children.collect::<Result<_, _>>()?)
            }
            // Half of a surrogate pair is no text; as it is written it is.
            Some(b'"') => Content::Text(match serde_json::from_str::<String>(slice) {
                Ok(text) => text.into(),
                Err(_) => slice.trim_matches('"').into(),
            }),
            Some(b't') => Content::Bool(true),
            Some(b'f') => Content::Bool(false),
            Some(b'n') => Content::Null,
            _ => number(slice),
        };
        if let Some(stored) = self.arena.nodes.get_mut(index) {
            stored.content = content;
        }
        Ok(index)
    }

    fn look_at(&mut self, slice: &str, place: Option<(u32, u32)>) -> Result<(), Broken> {
        let left = self.left.checked_sub(slice.len());
        self.left = left.ok_or_else(|| ("the file is nested too deeply for its size".to_owned(), place))?;
        Ok(())
    }

    fn span(&self, slice: &str) -> Span {
        let offset = (slice.as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize);
        let line = self.lines.partition_point(|start| *start <= offset);
        let start = line.checked_sub(1).and_then(|line| self.lines.get(line)).copied().unwrap_or_default();
        let before = self.text.get(start..offset).unwrap_or_default();
        let column = if before.len() > COUNTED_MAX { before.len() } else { before.chars().count() } + 1;
        Span { line: line as u32, column: column as u32, offset, length: slice.len() }
    }
}

/// A number that no float holds stays the text that it is.
fn number(slice: &str) -> Content {
    match (slice.parse::<i128>(), slice.parse::<f64>()) {
        (Ok(number), _) => Content::Integer(number),
        (_, Ok(number)) if number.is_finite() => Content::Float(number),
        _ => Content::Text(slice.into()),
    }
}

/// The entries of an object in their order, those with the same key too.
struct Entries<'t>(Vec<(Cow<'t, str>, &'t RawValue)>);

impl<'t> Deserialize<'t> for Entries<'t> {
    fn deserialize<D: Deserializer<'t>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EntriesVisitor)
    }
}

struct EntriesVisitor;

impl<'t> Visitor<'t> for EntriesVisitor {
    type Value = Entries<'t>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'t>>(self, mut map: A) -> Result<Entries<'t>, A::Error> {
        let mut entries = Vec::new();
        while let Some((Key(key), value)) = map.next_entry()? {
            entries.push((key, value));
        }
        Ok(Entries(entries))
    }
}

/// A key as it stands in the text where it has no escapes. `Cow` itself is always read as owned.
struct Key<'t>(Cow<'t, str>);

impl<'t> Deserialize<'t> for Key<'t> {
    fn deserialize<D: Deserializer<'t>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeyVisitor;
        impl<'t> Visitor<'t> for KeyVisitor {
            type Value = Key<'t>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }

            fn visit_borrowed_str<E>(self, key: &'t str) -> Result<Key<'t>, E> {
                Ok(Key(Cow::Borrowed(key)))
            }

            fn visit_str<E>(self, key: &str) -> Result<Key<'t>, E> {
                Ok(Key(Cow::Owned(key.to_owned())))
            }
        }
        deserializer.deserialize_str(KeyVisitor)
    }
}
