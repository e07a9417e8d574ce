//! `ContentDigest`: what a body must hash to (RFC 9530).

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ring::digest::{Algorithm, SHA256, SHA512, digest};
use sfv::{BareItem, ListEntry};

use super::structured::{self, Malformed};

/// The digests that a `Content-Digest` names, of those that are still safe: SHA-256 and SHA-512.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContentDigest {
    sha256: Option<Vec<u8>>,
    sha512: Option<Vec<u8>>,
}

impl ContentDigest {
    /// The field of a body: SHA-256 alone.
    pub fn field_of(body: &[u8]) -> String {
        format!("sha-256=:{}:", BASE64_STANDARD.encode(digest(&SHA256, body)))
    }

    /// Reads the field. Algorithms that are not known are no part of it; a member that is no byte sequence makes the
    /// field unreadable.
    pub(super) fn parse(field: &str) -> Result<Self, Malformed> {
        let mut read = Self { sha256: None, sha512: None };
        for (key, member) in structured::dictionary(field)? {
            let ListEntry::Item(item) = member else { return Err(Malformed) };
            let BareItem::ByteSequence(bytes) = item.bare_item else { return Err(Malformed) };
            match key.as_str() {
                "sha-256" => read.sha256 = Some(bytes),
                "sha-512" => read.sha512 = Some(bytes),
                _ => {}
            }
        }
        Ok(read)
    }

    /// Whether every digest that is known, and at least one, is this body's.
    pub fn is_of(&self, body: &[u8]) -> bool {
        let matches = |expected: &Option<Vec<u8>>, algorithm: &'static Algorithm| {
            expected.as_deref().map(|expected| expected == digest(algorithm, body).as_ref())
        };
        let checks = [matches(&self.sha256, &SHA256), matches(&self.sha512, &SHA512)];
        checks.iter().flatten().all(|matches| *matches) && checks.iter().any(Option::is_some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELLO: &[u8] = b"{\"hello\": \"world\"}";
    const SHA256_OF_HELLO: &str = "sha-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=:";
    const SHA512_OF_HELLO: &str =
        "sha-512=:WZDPaVn/7XgHaAy8pmojAkGWoRx2UFChF41A2svX+TaPm+AbwAgBWnrIiYllu7BNNyealdVLvRwEmTHWXvJwew==:";

    #[test]
    fn the_examples_of_the_rfc_hold() {
        assert_eq!(ContentDigest::field_of(HELLO), SHA256_OF_HELLO);
        for field in [SHA256_OF_HELLO, SHA512_OF_HELLO, &format!("{SHA256_OF_HELLO}, {SHA512_OF_HELLO}")] {
            let digest = ContentDigest::parse(field).unwrap();
            assert!(digest.is_of(HELLO), "{field}");
            assert!(!digest.is_of(b"{\"hello\": \"World\"}"), "{field}");
        }
    }

    #[test]
    fn every_known_digest_must_match_and_one_must_be_known() {
        let wrong = "sha-512=:AAAA:";
        assert!(!ContentDigest::parse(&format!("{SHA256_OF_HELLO}, {wrong}")).unwrap().is_of(HELLO));
        assert!(ContentDigest::parse(&format!("{SHA256_OF_HELLO}, md5=:AAAA:")).unwrap().is_of(HELLO));
        assert!(!ContentDigest::parse("md5=:AAAA:").unwrap().is_of(HELLO));
        assert!(!ContentDigest::parse("").unwrap().is_of(HELLO));
        for unreadable in ["sha-256=abc", "sha-256", "sha-256=(:AAAA:)", "sha-256=:AAAA", "md5=1"] {
            assert!(ContentDigest::parse(unreadable).is_err(), "{unreadable}");
        }
    }
}
