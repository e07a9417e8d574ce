//! `{name}` in paths, queries and headers.

use std::collections::HashSet;

/// The `{name}`s of a path, and what the path looks like without their names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Template<'t> {
    /// In order; none twice.
    pub(super) names: Vec<&'t str>,
    /// Two paths of the same shape can't be told apart.
    pub(super) shape: String,
    /// The segments in front of the first that holds a name.
    pub(super) literal: Vec<&'t str>,
}

/// Why a text is no path with names.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum InvalidTemplate {
    #[error("a path begins with /")]
    NoSlash,
    #[error("a path can't hold {0:?}")]
    Character(char),
    #[error("a path has no empty, `.` or `..` segment")]
    Segment,
    #[error("a `{{` or `}}` stands alone")]
    Unbalanced,
    #[error("a name stands between `{{` and `}}`, without `/`, `{{` or `*`")]
    Name,
    #[error("the name `{0}` stands there twice")]
    Twice(String),
    #[error("`{{*{0}}}` must be the whole of the last segment")]
    Tail(String),
}

impl InvalidTemplate {
    /// What to write instead.
    pub(super) fn help(&self) -> &'static str {
        match self {
            Self::Character('?') => "a parameter of the query goes into `parameters` with `location: query`",
            Self::Character(' ') => "write %20",
            Self::Unbalanced => "braces stand around the name of a parameter, as in {city}",
            _ => "write a path such as /weather/{city}, or /files/{*path} for all that follows",
        }
    }
}

impl<'t> Template<'t> {
    /// Reads a path.
    pub(super) fn path(text: &'t str) -> Result<Self, InvalidTemplate> {
        let path = text.strip_prefix('/').ok_or(InvalidTemplate::NoSlash)?;
        let illegal = |character: &char| {
            character.is_control()
                || character.is_whitespace()
                || matches!(character, '?' | '#' | '\\' | '"' | '<' | '>')
        };
        if let Some(character) = outside_of_braces(path).find(illegal) {
            return Err(InvalidTemplate::Character(character));
        }
        let names = names(text)?;
        let mut seen = HashSet::new();
        if let Some(name) = names.iter().find(|name| !seen.insert(**name)) {
            return Err(InvalidTemplate::Twice((*name).to_owned()));
        }
        let segments: Vec<&str> = path.split('/').collect();
        for (position, segment) in segments.iter().enumerate() {
            let last = position + 1 == segments.len();
            match *segment {
                "." | ".." => return Err(InvalidTemplate::Segment),
                "" if !last => return Err(InvalidTemplate::Segment),
                _ => {}
            }
            if let Some((before, tail)) = segment.split_once("{*") {
                let (name, after) = tail.split_once('}').unwrap_or((tail, ""));
                if !(last && before.is_empty() && after.is_empty()) {
                    return Err(InvalidTemplate::Tail(name.to_owned()));
                }
            }
        }
        let literal = segments.into_iter().take_while(|segment| !segment.contains('{')).collect();
        Ok(Self { shape: shape(text), literal, names })
    }
}

/// The names in a text that is no path, such as the value of a header.
pub(super) fn names(text: &str) -> Result<Vec<&str>, InvalidTemplate> {
    let mut names = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        let (_, from) = rest.split_at(at);
        let inside = from.strip_prefix('{').ok_or(InvalidTemplate::Unbalanced)?;
        let (name, after) = inside.split_once('}').ok_or(InvalidTemplate::Unbalanced)?;
        let name = name.strip_prefix('*').unwrap_or(name);
        if name.contains('{') {
            return Err(InvalidTemplate::Unbalanced);
        }
        if name.is_empty() || name.contains(['/', '*']) {
            return Err(InvalidTemplate::Name);
        }
        names.push(name);
        rest = after;
    }
    Ok(names)
}

/// The path with every name left out.
fn shape(text: &str) -> String {
    let mut shape = String::with_capacity(text.len());
    let mut inside = false;
    for character in text.chars() {
        match character {
            '{' => inside = true,
            '}' => inside = false,
            _ => {}
        }
        if !inside || matches!(character, '{' | '*') {
            shape.push(character);
        }
    }
    shape
}

fn outside_of_braces(text: &str) -> impl Iterator<Item = char> {
    let mut inside = false;
    text.chars().filter(move |character| {
        match character {
            '{' => inside = true,
            '}' => inside = false,
            _ => {}
        }
        !inside
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_names_a_shape_and_a_literal_beginning() {
        for (text, names, shape, literal) in [
            ("/", vec![], "/", vec![""]),
            ("/weather", vec![], "/weather", vec!["weather"]),
            ("/weather/", vec![], "/weather/", vec!["weather", ""]),
            ("/a/{b}/c", vec!["b"], "/a/{}/c", vec!["a"]),
            ("/{id}.json", vec!["id"], "/{}.json", vec![]),
            ("/{a}.{b}/x", vec!["a", "b"], "/{}.{}/x", vec![]),
            ("/files/{*rest}", vec!["rest"], "/files/{*}", vec!["files"]),
            ("/{monetary-account id}", vec!["monetary-account id"], "/{}", vec![]),
        ] {
            assert_eq!(Template::path(text), Ok(Template { names, shape: shape.into(), literal }), "{text}");
        }
    }

    #[test]
    fn what_is_no_path_says_why() {
        use InvalidTemplate as Invalid;
        for (text, error) in [
            ("weather", Invalid::NoSlash),
            ("", Invalid::NoSlash),
            ("/a?b={c}", Invalid::Character('?')),
            ("/a b", Invalid::Character(' ')),
            ("/a\\b", Invalid::Character('\\')),
            ("/a//b", Invalid::Segment),
            ("/a/../b", Invalid::Segment),
            ("/a/{b", Invalid::Unbalanced),
            ("/a/b}", Invalid::Unbalanced),
            ("/a/{b{c}}", Invalid::Unbalanced),
            ("/a/{}", Invalid::Name),
            ("/a/{b/c}", Invalid::Name),
            ("/{a}/{a}", Invalid::Twice("a".into())),
            ("/{*a}/b", Invalid::Tail("a".into())),
            ("/x{*a}", Invalid::Tail("a".into())),
        ] {
            assert_eq!(Template::path(text), Err(error), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_is_too_odd(text in "[/{}*a.?ä ]{0,40}") {
            let _ = Template::path(&text);
            let _ = names(&text);
        }
    }
}
