//! `ApiKeys`: the keys that callers may show, kept as digests alone.

use constant_time_eq::constant_time_eq_32;
use ring::digest::{SHA256, digest};

use crate::yaml::Secret;

/// Characters that a key should have at least, so that nobody guesses it.
pub const CHARACTERS_MIN: usize = 16;

/// SHA-256 of a key.
#[derive(Clone, Copy)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Of a key as a caller sends it.
    pub fn of(key: &[u8]) -> Self {
        let mut bytes = [0; 32];
        for (to, from) in bytes.iter_mut().zip(digest(&SHA256, key).as_ref()) {
            *to = *from;
        }
        Self(bytes)
    }

    /// Takes as long whatever differs.
    fn is(&self, other: &Self) -> bool {
        constant_time_eq_32(&self.0, &other.0)
    }
}

impl PartialEq for Digest {
    fn eq(&self, other: &Self) -> bool {
        self.is(other)
    }
}

impl Eq for Digest {}

/// A digest of a weak key could be turned back into it.
impl std::fmt::Debug for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Digest(…)")
    }
}

/// An entry of `access.api_keys`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKey {
    /// What it is called in gateway.yaml.
    pub name: Box<str>,
    /// What it is.
    pub digest: Digest,
}

/// `sha256:` and something that is no digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("behind sha256: stand 64 hexadecimal digits, as `printf %s KEY | sha256sum` prints them")]
pub struct InvalidDigest;

impl ApiKey {
    /// Takes a key as gateway.yaml has it: itself, or `sha256:` and its digest.
    pub fn new(name: &str, secret: &Secret) -> Result<Self, InvalidDigest> {
        let digest = match secret.expose().strip_prefix("sha256:") {
            None => Digest::of(secret.expose().as_bytes()),
            Some(hex) => Digest(from_hex(hex).ok_or(InvalidDigest)?),
        };
        Ok(Self { name: name.into(), digest })
    }
}

/// All keys of an agent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApiKeys(Vec<ApiKey>);

impl ApiKeys {
    /// These keys.
    pub fn new(keys: Vec<ApiKey>) -> Self {
        Self(keys)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The name of a key that a caller shows. All keys are compared, whichever it is.
    pub fn find(&self, shown: &[u8]) -> Option<&str> {
        let shown = Digest::of(shown);
        let found = self.0.iter().fold(None, |found, key| if key.digest.is(&shown) { Some(key) } else { found });
        found.map(|key| &*key.name)
    }
}

fn from_hex(hex: &str) -> Option<[u8; 32]> {
    let digits: Option<Vec<u8>> = hex.chars().map(|c| c.to_digit(16).map(|digit| digit as u8)).collect();
    let bytes: Vec<u8> = digits?.chunks(2).filter_map(|pair| Some(pair.first()? << 4 | pair.get(1)?)).collect();
    if hex.len() == 64 { bytes.try_into().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_by_itself_whether_it_is_written_or_its_digest() {
        let key = |name: &str, text: &str| ApiKey::new(name, &Secret::new(text)).unwrap();
        // printf %s second-key-of-this-test | sha256sum
        let digest = "sha256:6BD3f0a0f0ab5a54b0d5d3ed7f4fc8a1a2b8e7e0c2f8b0a5d7d7b3c9e3d5a1f0";
        let keys = ApiKeys::new(vec![key("a", "first-key-of-this-test"), key("b", digest)]);
        assert_eq!(keys.find(b"first-key-of-this-test"), Some("a"));
        for wrong in ["first-key-of-this-tes", "first-key-of-this-test ", "", digest, "FIRST-KEY-OF-THIS-TEST"] {
            assert_eq!(keys.find(wrong.as_bytes()), None, "{wrong}");
        }
        let hex = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let keys = ApiKeys::new(vec![key("c", &format!("sha256:{hex}"))]);
        assert_eq!(keys.find(b"abc"), Some("c"));
    }

    #[test]
    fn what_is_no_digest_is_refused_and_nothing_shows_a_key() {
        for text in
            ["sha256:", "sha256:ab", &format!("sha256:{}", "x".repeat(64)), &format!("sha256:{}", "é".repeat(32))]
        {
            assert!(ApiKey::new("a", &Secret::new(text)).is_err(), "{text}");
        }
        let key = ApiKey::new("a", &Secret::new("a-secret-that-nobody-sees")).unwrap();
        assert_eq!(format!("{key:?}"), "ApiKey { name: \"a\", digest: Digest(…) }");
    }
}
