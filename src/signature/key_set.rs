//! `KeySet`: the keys that somebody publishes (RFC 7517 5), as a stranger's is read and as ours is written.

use serde_json::{Map, Value, json};

use super::key::{PublicKey, Thumbprint};

/// Bytes of a key set that is read.
pub const KEY_SET_MAX: usize = 64 * 1024;

/// Entries of a key set that is read: nobody has that many keys at a time.
pub const KEYS_MAX: usize = 16;

/// The test keys of RFC 9421 B.1 that a signature of agents could be made with, whose secret halves everybody has:
/// Ed25519 (B.1.4) and RSA-PSS (B.1.2).
const TEST_KEYS: [&str; 2] =
    ["poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U", "oD0HwocPBSfpNy5W3bpJeyFGY_IQ_YpqxSjQ3Yd-CLA"];

/// Usable Ed25519 keys, each once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeySet(Vec<PublicKey>);

/// Why a document is no key set that can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidKeySet {
    /// More than [`KEY_SET_MAX`] bytes.
    #[error("it is larger than 64 KiB")]
    TooLarge,
    /// No JSON.
    #[error("it is not JSON")]
    NotJson,
    /// No JWK Set.
    #[error("the document has no keys array")]
    NoKeys,
    /// More than [`KEYS_MAX`].
    #[error("it has more than {KEYS_MAX} entries")]
    TooMany,
    /// A key that everybody has.
    #[error("it lists a test key of RFC 9421, which everybody can sign with")]
    TestKey,
    /// A `kid` at the well-known directory that is not the thumbprint.
    #[error("at the well-known directory a kid must be the key's thumbprint")]
    Kid,
    /// Nothing to verify with.
    #[error("it has no usable Ed25519 key")]
    Empty,
}

impl KeySet {
    /// Keys that are held already.
    pub fn of(keys: impl IntoIterator<Item = PublicKey>) -> Self {
        let mut set = Self::default();
        keys.into_iter().for_each(|key| set.add(key));
        set
    }

    /// Reads a stranger's document. Entries that are no Ed25519 key for signatures are passed over.
    /// At a well-known directory (`directory`) every `kid` must be the thumbprint.
    pub fn parse(document: &[u8], directory: bool) -> Result<Self, InvalidKeySet> {
        if document.len() > KEY_SET_MAX {
            return Err(InvalidKeySet::TooLarge);
        }
        let document: Value = serde_json::from_slice(document).map_err(|_| InvalidKeySet::NotJson)?;
        let entries = document.get("keys").and_then(Value::as_array).ok_or(InvalidKeySet::NoKeys)?;
        if entries.len() > KEYS_MAX {
            return Err(InvalidKeySet::TooMany);
        }
        let mut set = Self::default();
        for entry in entries.iter().filter_map(Value::as_object) {
            let Some(thumbprint) = Thumbprint::of_jwk(entry) else { continue };
            if TEST_KEYS.contains(&thumbprint.as_str()) {
                return Err(InvalidKeySet::TestKey);
            }
            let Some(key) = usable(entry) else { continue };
            if directory && entry.get("kid").is_some_and(|kid| kid.as_str() != Some(thumbprint.as_str())) {
                return Err(InvalidKeySet::Kid);
            }
            set.add(key);
        }
        if set.0.is_empty() { Err(InvalidKeySet::Empty) } else { Ok(set) }
    }

    /// The key of this name.
    pub fn get(&self, thumbprint: &Thumbprint) -> Option<&PublicKey> {
        self.0.iter().find(|key| key.thumbprint() == thumbprint)
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The document: `{"keys":[…]}`, in the order in which they were added.
    pub fn to_json(&self) -> String {
        let keys: Vec<Value> = self.0.iter().map(PublicKey::to_jwk).collect();
        json!({ "keys": keys }).to_string()
    }

    fn add(&mut self, key: PublicKey) {
        if self.get(key.thumbprint()).is_none() {
            self.0.push(key);
        }
    }
}

/// An entry that says nothing against its use for Ed25519 signatures.
fn usable(entry: &Map<String, Value>) -> Option<PublicKey> {
    let text = |name: &str| entry.get(name).and_then(Value::as_str);
    if text("kty") != Some("OKP") || text("crv") != Some("Ed25519") {
        return None;
    }
    let fits = |name: &str, legal: &dyn Fn(&Value) -> bool| entry.get(name).is_none_or(legal);
    let to_sign = fits("use", &|value| value == "sig")
        && fits("key_ops", &|value| value.as_array().is_some_and(|ops| ops.iter().any(|op| op == "verify")))
        && fits("alg", &|value| matches!(value.as_str(), Some("ed25519" | "EdDSA" | "Ed25519")));
    if to_sign { PublicKey::from_x(text("x")?) } else { None }
}
