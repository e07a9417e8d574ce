//! `Template`: a text with `{name}` of an endpoint in it, filled in anew for every place it goes to.

use http::HeaderValue;

use super::params::Params;
use super::path::{InvalidPath, push_normal, push_value};
use super::pattern::Pattern;
use super::style::Form;

/// Literals and places for path parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Template {
    parts: Box<[Part]>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Literal(Box<str>),
    /// The number of a name of the endpoint.
    Param(usize),
}

/// Why a text of a route is no template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTemplate {
    /// A path without its leading slash.
    #[error("a path starts with `/`")]
    NotAbsolute,
    /// A path with a query.
    #[error("a path ends before `?` and `#`: fixed query parameters go into `route.query`")]
    Query,
    /// `.` or `..` as a segment of a path.
    #[error("a path has no `.` or `..` segment: write the path that they lead to")]
    DotSegment,
    /// What no path can hold.
    #[error("{0}")]
    Literal(InvalidPath),
    /// A value that no header can carry.
    #[error("a header's value holds visible ASCII characters and inner spaces only")]
    NoHeaderValue,
    /// `{` without `}`.
    #[error("`{{` is not closed; in a value a literal brace is written twice, in a path `%7B`")]
    Unclosed,
    /// `}` without `{`.
    #[error("`}}` has no `{{` before it; in a value a literal brace is written twice, in a path `%7D`")]
    Unopened,
    /// A name that the endpoint has not.
    #[error("the endpoint has no `{{{0}}}`")]
    UnknownName(Box<str>),
    /// `{*name}` of a parameter that is no tail.
    #[error("`{{*{0}}}` takes a tail, and in the endpoint `{0}` is none")]
    NoTail(Box<str>),
}

impl Template {
    /// Reads the path of a route. Its literals may be written as they read or percent-encoded.
    pub(super) fn path(text: &str, endpoint: &Pattern) -> Result<Self, InvalidTemplate> {
        if !text.starts_with('/') {
            return Err(InvalidTemplate::NotAbsolute);
        }
        if text.contains(['?', '#']) {
            return Err(InvalidTemplate::Query);
        }
        let literal = |literal: &str| {
            let mut normal = String::with_capacity(literal.len());
            for (number, segment) in literal.split('/').enumerate() {
                if number > 0 {
                    normal.push('/');
                }
                push_normal(segment, &mut normal).map_err(InvalidTemplate::Literal)?;
            }
            Ok(normal)
        };
        let template = parse(text, endpoint, Braces::Encoded, literal)?;
        let outline: String = template.parts.iter().map(Part::outline).collect();
        if outline.split('/').any(|segment| matches!(segment, "." | "..")) {
            return Err(InvalidTemplate::DotSegment);
        }
        Ok(template)
    }

    /// Reads a query parameter's value, which stands here unencoded.
    pub(super) fn query(text: &str, endpoint: &Pattern) -> Result<Self, InvalidTemplate> {
        parse(text, endpoint, Braces::Doubled, |literal| Ok(literal.to_owned()))
    }

    /// Reads a header's value.
    pub(super) fn header(text: &str, endpoint: &Pattern) -> Result<Self, InvalidTemplate> {
        let template = Self::query(text, endpoint)?;
        let outline: String = template.parts.iter().map(Part::outline).collect();
        header_value(&outline).map(|_| template).ok_or(InvalidTemplate::NoHeaderValue)
    }

    /// As a path in its normal form. `forms` are those of the endpoint's names, where the service wants one.
    pub(super) fn to_path(&self, params: &Params, forms: &[Option<Form>]) -> String {
        let mut path = String::new();
        for part in &self.parts {
            match part {
                Part::Literal(text) => path.push_str(text),
                Part::Param(number) => match forms.get(*number).and_then(Option::as_ref) {
                    Some(form) => form.push_path(params.name(*number), &form.of_text(params.text(*number)), &mut path),
                    None => params.push_path(*number, &mut path),
                },
            }
        }
        path
    }

    /// Appends the value percent-encoded, as it stands in a query.
    pub(super) fn push_query(&self, params: &Params, query: &mut String) {
        for part in &self.parts {
            push_value(part.text(params), query);
        }
    }

    /// As a header's value, if a header can carry it.
    pub(super) fn to_header(&self, params: &Params) -> Result<HeaderValue, InvalidPath> {
        let text: String = self.parts.iter().map(|part| part.text(params)).collect();
        header_value(&text).ok_or(InvalidPath::NoHeaderValue)
    }
}

/// How a literal brace is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Braces {
    /// `%7B` and `%7D`.
    Encoded,
    /// `{{` and `}}`.
    Doubled,
}

fn parse(
    text: &str,
    endpoint: &Pattern,
    braces: Braces,
    literal: impl Fn(&str) -> Result<String, InvalidTemplate>,
) -> Result<Template, InvalidTemplate> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        let (before, braced) = rest.split_at(at);
        parts.push(Part::Literal(literal(before)?.into()));
        if braces == Braces::Doubled
            && let Some(after) = braced.strip_prefix("{{").or_else(|| braced.strip_prefix("}}"))
        {
            parts.push(Part::Literal(if braced.starts_with('{') { "{" } else { "}" }.into()));
            rest = after;
            continue;
        }
        let inner = braced.strip_prefix('{').ok_or(InvalidTemplate::Unopened)?;
        let (name, after) = inner.split_once('}').ok_or(InvalidTemplate::Unclosed)?;
        parts.push(Part::Param(parameter(name, endpoint)?));
        rest = after;
    }
    parts.push(Part::Literal(literal(rest)?.into()));
    parts.retain(|part| !matches!(part, Part::Literal(text) if text.is_empty()));
    Ok(Template { parts: parts.into() })
}

fn parameter(name: &str, endpoint: &Pattern) -> Result<usize, InvalidTemplate> {
    let bare = name.strip_prefix('*').unwrap_or(name);
    let names = endpoint.names();
    let number = names.iter().position(|known| **known == *bare);
    let number = number.ok_or_else(|| InvalidTemplate::UnknownName(bare.into()))?;
    let is_tail = endpoint.has_tail() && number + 1 == names.len();
    if bare.len() < name.len() && !is_tail {
        return Err(InvalidTemplate::NoTail(bare.into()));
    }
    Ok(number)
}

impl Part {
    fn text<'p>(&'p self, params: &'p Params) -> &'p str {
        match self {
            Self::Literal(text) => text,
            Self::Param(number) => params.text(*number),
        }
    }

    /// The literal, or a letter in a parameter's place.
    fn outline(&self) -> &str {
        match self {
            Self::Literal(text) => text,
            Self::Param(_) => "x",
        }
    }
}

/// Visible ASCII with inner spaces: what every HTTP implementation carries unchanged (RFC 9110, section 5.5).
fn header_value(text: &str) -> Option<HeaderValue> {
    let carried = text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) && text.trim().len() == text.len();
    HeaderValue::from_str(text).ok().filter(|_| carried)
}

#[cfg(test)]
mod tests;
