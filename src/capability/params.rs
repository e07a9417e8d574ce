//! `Params`: what a request's path says for the templates of an endpoint.

use std::sync::Arc;

use percent_encoding::percent_decode_str;

use super::path::{InvalidPath, push_value};
use super::trie::Captured;

/// The values of path parameters, decoded once and checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Params {
    names: Arc<[Box<str>]>,
    values: Box<[Param]>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Param {
    text: Box<str>,
    /// A tail as it goes into a path: its slashes are separators, and what was encoded stays encoded.
    tail: Option<Box<str>>,
}

impl Params {
    /// The decoded value of a template.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter().find_map(|(known, text)| (known == name).then_some(text))
    }

    /// Names and decoded values, in the order of the endpoint.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.names.iter().zip(&self.values).map(|(name, param)| (&**name, &*param.text))
    }

    /// Takes what was captured, if it may go on. `allow_slash` says so for each name.
    pub(super) fn check(
        names: Arc<[Box<str>]>,
        allow_slash: &[bool],
        captured: Captured<'_>,
    ) -> Result<Self, InvalidPath> {
        let pieces = captured.pieces.iter().map(|piece| Param { text: (*piece).into(), tail: None });
        let tail = captured.tail.map(|normal| Param {
            text: percent_decode_str(normal).decode_utf8_lossy().into(),
            // Some servers cut a segment at `;` and would then see `..` in `..;`.
            tail: Some(normal.replace(';', "%3B").into()),
        });
        let values: Box<[_]> = pieces.chain(tail).collect();
        for (param, allow_slash) in values.iter().zip(allow_slash) {
            let encoded_slash = match &param.tail {
                Some(normal) => normal.contains("%2F"),
                None => param.text.contains('/'),
            };
            if encoded_slash && !allow_slash {
                return Err(InvalidPath::EncodedSlash);
            }
            if param.text.split('/').any(|part| matches!(part, "." | "..")) {
                return Err(InvalidPath::DotParameter);
            }
        }
        Ok(Self { names, values })
    }

    /// The name of the template with this number.
    pub(super) fn name(&self, number: usize) -> &str {
        self.names.get(number).map_or("", |name| name)
    }

    /// The decoded value of the template with this number.
    pub(super) fn text(&self, number: usize) -> &str {
        self.values.get(number).map_or("", |param| &param.text)
    }

    /// Appends a value as it goes into a path: a tail with its slashes, anything else as one segment's data.
    pub(super) fn push_path(&self, number: usize, path: &mut String) {
        match self.values.get(number) {
            Some(Param { tail: Some(tail), .. }) => path.push_str(tail),
            Some(Param { text, tail: None }) => push_value(text, path),
            None => {}
        }
    }
}
