//! `MediaType`: what a `Content-Type` says, as far as it matters here.

use http::HeaderValue;

/// `application/json`.
pub(super) const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Type and subtype in lower case, and the charset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MediaType {
    essence: Box<str>,
    charset: Option<Box<str>>,
}

impl MediaType {
    /// Reads a header's value or a media type of the settings; what is none is a type that nothing is.
    pub(super) fn of(text: &str) -> Self {
        let mut parts = text.split(';');
        let essence = parts.next().unwrap_or_default().trim().to_ascii_lowercase().into();
        let charset = parts.find_map(|parameter| {
            let (name, value) = parameter.split_once('=')?;
            name.trim().eq_ignore_ascii_case("charset").then(|| value.trim().trim_matches(['"', '\'']).into())
        });
        Self { essence, charset }
    }

    pub(super) fn of_header(value: &HeaderValue) -> Self {
        Self::of(value.to_str().unwrap_or_default())
    }

    pub(super) fn essence(&self) -> &str {
        &self.essence
    }

    pub(super) fn charset(&self) -> Option<&str> {
        self.charset.as_deref()
    }

    pub(super) fn is_json(&self) -> bool {
        matches!(&*self.essence, "application/json" | "text/json" | "application/x-json")
            || self.essence.ends_with("+json")
    }

    pub(super) fn is_xml(&self) -> bool {
        matches!(&*self.essence, "application/xml" | "text/xml") || self.essence.ends_with("+xml")
    }

    pub(super) fn is_text(&self) -> bool {
        self.essence.starts_with("text/")
    }

    /// Whether this type, or range such as `text/*`, covers another.
    pub(super) fn covers(&self, other: &Self) -> bool {
        let range = self.essence.strip_suffix('*').filter(|_| self.essence.ends_with("/*"));
        *self.essence == *"*/*"
            || self.essence == other.essence
            || range.is_some_and(|range| other.essence.starts_with(range))
    }
}
