//! `Base`: where an agent is, and which paths are on its origin.

use crate::net::{InvalidUrl, Url};

use super::{CARDS, CATALOG, origin};

/// Bytes of a path.
const PATH_MAX: usize = 1_024;

/// An agent's base URL, as an operator wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base {
    /// Without a document's name behind it.
    pub url: Url,
    /// The document that was named, if one was.
    pub(super) document: Option<String>,
}

/// Why an endpoint is no path of the agent's origin: the end of a sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Misplaced {
    #[error("leads to another origin than {0}")]
    Elsewhere(String),
    #[error("{0}")]
    Unfit(String),
}

impl Base {
    /// Reads what an operator wrote: a base URL, or that of a document under it.
    pub fn parse(text: &str) -> Result<Self, InvalidUrl> {
        let url: Url = text.parse()?;
        if !url.query.is_empty() {
            return Err(InvalidUrl::Path);
        }
        let known = std::iter::once(CATALOG).chain(CARDS).find_map(|end| url.prefix.strip_suffix(end));
        let elsewhere = || {
            let is_document =
                url.prefix.rsplit('/').next().is_some_and(|name| name.to_ascii_lowercase().ends_with(".json"));
            // A card that lies elsewhere says itself where its agent is, on the same origin.
            is_document.then_some("")
        };
        let Some(prefix) = known.or_else(elsewhere) else { return Ok(Self { url, document: None }) };
        let document = Some(url.to_string());
        let prefix = prefix.into();
        Ok(Self { url: Url { prefix, ..url }, document })
    }

    /// The path on the agent's origin that an endpoint means: one relative to the base, or a whole URL of the same
    /// origin. `own` is how the agent calls its own base.
    pub(super) fn path(&self, endpoint: &str, own: Option<&Url>) -> Result<String, Misplaced> {
        let endpoint = endpoint.trim();
        let path = if endpoint.contains("://") {
            self.of_url(endpoint, own)?
        } else if endpoint.starts_with("//") {
            return Err(self.elsewhere());
        } else if endpoint.is_empty() {
            return Err(Misplaced::Unfit("is empty".to_owned()));
        } else if endpoint.split('/').next().is_some_and(|first| first.contains(':') && !first.starts_with('{')) {
            return Err(Misplaced::Unfit("is no path".to_owned()));
        } else {
            format!("{}/{}", self.url.prefix, endpoint.strip_prefix('/').unwrap_or(endpoint))
        };
        check(&path).map_err(Misplaced::Unfit)?;
        Ok(path)
    }

    /// What a path on the origin is under the base; the path itself where it is elsewhere.
    pub(super) fn relative<'p>(&self, path: &'p str) -> &'p str {
        below(&self.url.prefix, path).unwrap_or(path)
    }

    fn of_url(&self, text: &str, own: Option<&Url>) -> Result<String, Misplaced> {
        let (scheme, rest) = text.split_once("://").unwrap_or_default();
        let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let named: Url = format!("{scheme}://{authority}").parse().map_err(|problem| match problem {
            InvalidUrl::Credentials => Misplaced::Unfit("holds a user or a password".to_owned()),
            _ => Misplaced::Unfit("is no URL of a service".to_owned()),
        })?;
        if named.origin == self.url.origin {
            return Ok(if path.is_empty() { "/".to_owned() } else { path.to_owned() });
        }
        let own = own.filter(|own| own.origin == named.origin);
        match own.and_then(|own| below(&own.prefix, path)) {
            Some(rest) => Ok(format!("{}{rest}", self.url.prefix)),
            None => Err(self.elsewhere()),
        }
    }

    fn elsewhere(&self) -> Misplaced {
        Misplaced::Elsewhere(origin(&self.url))
    }
}

/// What stands behind a prefix that ends where a segment does.
pub fn below<'p>(prefix: &str, path: &'p str) -> Option<&'p str> {
    path.strip_prefix(prefix).filter(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn check(path: &str) -> Result<(), String> {
    if path.len() > PATH_MAX {
        return Err(format!("is longer than {PATH_MAX} bytes"));
    }
    if path.contains(['?', '#']) {
        return Err("has a query or a fragment".to_owned());
    }
    if path.bytes().any(|byte| !byte.is_ascii_graphic() || matches!(byte, b'\\' | b'"' | b'<' | b'>')) {
        return Err("holds a character that no path can".to_owned());
    }
    let lower = path.to_ascii_lowercase();
    if lower.contains("%2f") || lower.contains("%5c") {
        return Err("holds an encoded slash".to_owned());
    }
    let climbs = |segment: &str| matches!(segment.replace("%2e", ".").as_str(), "." | "..");
    let mut segments = lower.split('/').skip(1);
    if segments.clone().any(climbs) || path.contains("//") {
        return Err("has segments such as `..` or an empty one".to_owned());
    }
    segments.next().map(drop).ok_or_else(|| "is no path".to_owned())
}
