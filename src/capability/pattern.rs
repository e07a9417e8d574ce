//! `Pattern`: a path template, as in `/users/{id}/files/{*rest}`.

use std::cmp::{Ordering, Reverse};
use std::str::FromStr;
use std::sync::Arc;

use percent_encoding::percent_decode_str;

use super::path::{InvalidPath, push_normal};

/// A path template relative to an agent's base.
///
/// `{name}` takes a segment, or a part of one beside literals and other templates (`{id}.json`, `{a}-{b}`), and at
/// least one character. `{*name}`, last and alone in its segment, takes the rest of the path with its slashes, at
/// least one character too. A name holds any characters but `{`, `}` and `/`. A trailing slash counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    text: Box<str>,
    segments: Box<[Segment]>,
    names: Arc<[Box<str>]>,
}

/// What one segment of a request must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Segment {
    /// This decoded text.
    Literal(Box<str>),
    /// Literals and templates.
    Mixed(Mixed),
    /// Anything but nothing.
    Template,
    /// This and all further segments.
    Tail,
}

/// A segment with literals around its templates: literal, template, literal, …, template, literal. The first and the
/// last literal may be empty, those between are not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mixed {
    first: Box<str>,
    between: Box<[Box<str>]>,
    last: Box<str>,
}

/// Why a text is no pattern, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub struct InvalidPattern {
    /// Bytes before the fault.
    pub at: usize,
    /// The fault.
    pub problem: PatternProblem,
}

/// What is wrong with a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PatternProblem {
    /// No leading slash.
    #[error("a path starts with `/`")]
    NotAbsolute,
    /// `//`.
    #[error("a path has no empty segment: write one `/`")]
    EmptySegment,
    /// `.` or `..` as a segment.
    #[error("a path has no `.` or `..` segment: a request never has one when it is matched")]
    DotSegment,
    /// `?` or `#`.
    #[error("a path ends before `?` and `#`: fixed query parameters go into `route.query`")]
    Query,
    /// `{` without `}`.
    #[error("`{{` is not closed in its segment")]
    Unclosed,
    /// `}` without `{`.
    #[error("`}}` has no `{{` before it")]
    Unopened,
    /// `{}` or `{*}`.
    #[error("a template needs a name, as in `{{id}}`")]
    EmptyName,
    /// The same name twice.
    #[error("this name stands in the path already: every template needs its own")]
    DuplicateName,
    /// `{a}{b}`.
    #[error("two templates need a literal between them: it is undecided where the first one ends")]
    Adjacent,
    /// `{*rest}` beside something or before a slash.
    #[error("`{{*name}}` takes the rest of the path: it stands last and alone in its segment")]
    TailNotLast,
    /// `%2F`.
    #[error("an encoded slash can't stand in an endpoint: only a parameter's value may hold one")]
    EncodedSlash,
    /// A literal that no request can hold.
    #[error("{0}")]
    Literal(InvalidPath),
}

impl Pattern {
    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The templates' names in order, without `*`.
    pub fn names(&self) -> &[Box<str>] {
        &self.names
    }

    /// Whether `{*name}` ends it; the tail is the last of [`Self::names`].
    pub fn has_tail(&self) -> bool {
        matches!(self.segments.last(), Some(Segment::Tail))
    }

    pub(super) fn shared_names(&self) -> Arc<[Box<str>]> {
        Arc::clone(&self.names)
    }

    pub(super) fn segments(&self) -> &[Segment] {
        &self.segments
    }
}

impl FromStr for Pattern {
    type Err = InvalidPattern;

    fn from_str(text: &str) -> Result<Self, InvalidPattern> {
        let rest = text.strip_prefix('/').ok_or(InvalidPattern { at: 0, problem: PatternProblem::NotAbsolute })?;
        let mut names = Vec::new();
        let mut segments = Vec::new();
        let mut at = 1;
        let mut texts = rest.split('/').peekable();
        while let Some(segment) = texts.next() {
            let last = texts.peek().is_none();
            segments.push(parse_segment(segment, at, last, &mut names)?);
            at += segment.len() + 1;
        }
        Ok(Self { text: text.into(), segments: segments.into(), names: names.into() })
    }
}

fn parse_segment(text: &str, at: usize, last: bool, names: &mut Vec<Box<str>>) -> Result<Segment, InvalidPattern> {
    if text.is_empty() && !last {
        return Err(InvalidPattern { at, problem: PatternProblem::EmptySegment });
    }
    let mut literals = Vec::new();
    let mut rest = text;
    while let Some(open) = rest.find(['{', '}']) {
        let start = at + text.len() - rest.len();
        let error = |offset, problem| Err(InvalidPattern { at: start + offset, problem });
        let (literal, braced) = rest.split_at(open);
        let Some(inner) = braced.strip_prefix('{') else { return error(open, PatternProblem::Unopened) };
        let Some((name, after)) = inner.split_once('}') else { return error(open, PatternProblem::Unclosed) };
        if name.contains('{') {
            return error(open, PatternProblem::Unclosed);
        }
        let tail = name.strip_prefix('*');
        let name = tail.unwrap_or(name);
        if name.is_empty() {
            return error(open, PatternProblem::EmptyName);
        }
        if names.iter().any(|known| **known == *name) {
            return error(open, PatternProblem::DuplicateName);
        }
        if tail.is_some() && !(last && literals.is_empty() && literal.is_empty() && after.is_empty()) {
            return error(open, PatternProblem::TailNotLast);
        }
        if literal.is_empty() && !literals.is_empty() {
            return error(open, PatternProblem::Adjacent);
        }
        literals.push(parse_literal(literal, start)?);
        names.push(name.into());
        if tail.is_some() {
            return Ok(Segment::Tail);
        }
        rest = after;
    }
    let end = parse_literal(rest, at + text.len() - rest.len())?;
    let mut literals = literals.into_iter();
    Ok(match literals.next() {
        None if matches!(&*end, "." | "..") => {
            return Err(InvalidPattern { at, problem: PatternProblem::DotSegment });
        }
        None => Segment::Literal(end),
        Some(first) => {
            let mixed = Mixed { first, between: literals.collect(), last: end };
            if mixed.is_bare() { Segment::Template } else { Segment::Mixed(mixed) }
        }
    })
}

/// A literal may be written as it reads or percent-encoded; it is kept decoded, as segments are when they are matched.
fn parse_literal(text: &str, at: usize) -> Result<Box<str>, InvalidPattern> {
    if let Some(offset) = text.find(['?', '#']) {
        return Err(InvalidPattern { at: at + offset, problem: PatternProblem::Query });
    }
    push_normal(text, &mut String::new())
        .map_err(|problem| InvalidPattern { at, problem: PatternProblem::Literal(problem) })?;
    let literal = percent_decode_str(text).decode_utf8_lossy();
    if literal.contains('/') {
        return Err(InvalidPattern { at, problem: PatternProblem::EncodedSlash });
    }
    Ok(literal.into())
}

impl Mixed {
    /// What each template takes of a decoded segment, pushed in order; nothing is pushed where it does not match.
    ///
    /// A template takes as much as it can: `{name}.{ext}` splits at the last dot. Found from the right, where each
    /// literal stands as far right as it can, which gives every template before it the most room; so no choice is
    /// ever taken back, and time is linear in the segment.
    pub(super) fn capture<'s>(&self, segment: &'s str, captures: &mut Vec<&'s str>) -> bool {
        let before = captures.len();
        let matched = self.capture_reversed(segment, captures).is_some();
        if matched {
            captures.get_mut(before..).unwrap_or_default().reverse();
        } else {
            captures.truncate(before);
        }
        matched
    }

    fn capture_reversed<'s>(&self, segment: &'s str, captures: &mut Vec<&'s str>) -> Option<()> {
        let mut room = segment.strip_prefix(&*self.first)?.strip_suffix(&*self.last)?;
        for literal in self.between.iter().rev() {
            let (last_character, _) = room.char_indices().next_back()?;
            let at = room.get(..last_character)?.rfind(&**literal)?;
            let (head, tail) = room.split_at_checked(at)?;
            captures.push(tail.strip_prefix(&**literal)?);
            room = head;
        }
        if room.is_empty() {
            return None;
        }
        captures.push(room);
        Some(())
    }

    fn rank(&self) -> impl Ord + '_ {
        let between: usize = self.between.iter().map(|text| text.len()).sum();
        let literal = self.first.len() + between + self.last.len();
        (Reverse(literal), self.between.len(), &self.first, &self.between, &self.last)
    }

    fn is_bare(&self) -> bool {
        self.first.is_empty() && self.between.is_empty() && self.last.is_empty()
    }
}

/// More literal text comes first, then fewer templates, then the text itself: no order of declaration matters.
impl Ord for Mixed {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl PartialOrd for Mixed {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests;
