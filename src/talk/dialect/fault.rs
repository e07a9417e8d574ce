//! `Fault`: why a reply failed, as far as its dialect can tell.

use crate::restap::ErrorCode;
use crate::talk::Failure;
use crate::talk::failure::Again;

/// Characters of an upstream's sentence that are told.
const EXCERPT: usize = 500;

/// Why a reply failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) failure: Failure,
    /// What a second attempt could leave out.
    pub(crate) again: Option<Again>,
}

impl Fault {
    /// The upstream failed in a way that has a sentence of ours.
    pub(crate) fn upstream(message: impl Into<String>) -> Self {
        Self { failure: Failure::new(ErrorCode::UpstreamError, message), again: None }
    }

    /// The upstream failed, and this is what it says; `all` is everything that it says, for programs.
    pub(crate) fn told(sentence: &str, all: &str) -> Self {
        let message = format!("the service behind this agent failed: {}", excerpt(sentence));
        Self { again: Again::told(all), ..Self::upstream(message) }
    }

    /// The connection closed before the reply was proven to be complete.
    pub(crate) fn broken_off() -> Self {
        Self::upstream("the service behind this agent broke its reply off")
    }

    pub(crate) fn too_large(limit: usize) -> Self {
        Self::upstream(format!("the reply of the service behind this agent is larger than {limit} bytes"))
    }
}

/// The begin of an upstream's sentence, on one line.
pub(crate) fn excerpt(text: &str) -> String {
    let line = |character: char| if character.is_control() { ' ' } else { character };
    let characters = text.trim().chars();
    let more = characters.clone().nth(EXCERPT).map(|_| '…');
    characters.take(EXCERPT).map(line).chain(more).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_is_one_line_of_bounded_length() {
        assert_eq!(excerpt(" a\nb\u{85}c "), "a b c");
        assert_eq!(excerpt(&"é".repeat(EXCERPT)), "é".repeat(EXCERPT));
        assert_eq!(excerpt(&"é".repeat(EXCERPT + 1)), format!("{}…", "é".repeat(EXCERPT)));
    }
}
