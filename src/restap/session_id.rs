//! `SessionId`: the 16–128 grammar, minting, and a `Debug` that hides the value.

use std::fmt;

/// The shortest and the longest session id, in bytes (RESTAP, "Identifier format and entropy").
const LENGTH: std::ops::RangeInclusive<usize> = 16..=128;

/// An opaque continuity token of the form `^[A-Za-z0-9._-]{16,128}$`.
///
/// It is a bearer secret, so it has neither `Display` nor `Serialize`, and its `Debug` shows nothing of it.
#[derive(Clone, PartialEq, Eq)]
pub struct SessionId(Box<str>);

/// The text is outside the grammar. It says nothing of the text, which may be a mistyped secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("session_id must match ^[A-Za-z0-9._-]{{16,128}}$")]
pub struct InvalidSessionId;

impl SessionId {
    /// Takes a client's id as it is. Any value inside the grammar is valid, whatever its shape.
    pub fn parse(text: &str) -> Result<Self, InvalidSessionId> {
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        if LENGTH.contains(&text.len()) && text.bytes().all(legal) {
            Ok(Self(text.into()))
        } else {
            Err(InvalidSessionId)
        }
    }

    /// A new UUIDv4: 122 bits of entropy, the least that the protocol allows a server to mint.
    pub fn mint() -> Self {
        Self(uuid::Uuid::new_v4().to_string().into())
    }

    /// The secret itself, for the wire and for the keyed hash. Never for a log, a metric or an error.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionId(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixteen_to_128_url_safe_bytes_are_valid() {
        for text in ["a".repeat(16), "a".repeat(128), "._-AZaz09._-AZaz".to_owned()] {
            assert_eq!(SessionId::parse(&text).unwrap().expose(), text);
        }
    }

    #[test]
    fn shorter_longer_and_other_characters_are_refused() {
        for text in
            ["", &"a".repeat(15), &"a".repeat(129), "aaaaaaaaaaaaaaa a", "aaaaaaaaaaaaaaaaé", "aaaaaaaaaaaaaaaa\n"]
        {
            assert_eq!(SessionId::parse(text), Err(InvalidSessionId), "{text:?}");
        }
    }

    #[test]
    fn a_minted_id_is_valid_and_new_each_time() {
        let (one, two) = (SessionId::mint(), SessionId::mint());
        assert!(SessionId::parse(one.expose()).is_ok());
        assert_ne!(one, two);
    }

    #[test]
    fn debug_shows_nothing_of_the_secret() {
        let id = SessionId::parse("sess_0123456789abcdef").unwrap();
        assert_eq!(format!("{id:?}"), "SessionId(…)");
    }
}
