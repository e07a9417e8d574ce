//! Ed25519 keys as JSON Web Keys (RFC 8037), and the thumbprints that name them (RFC 7638).

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use serde_json::{Map, Value, json};

/// Bytes of a key, secret or public.
const KEY_LENGTH: usize = 32;

/// Bytes of a signature.
pub(super) const SIGNATURE_LENGTH: usize = 64;

/// Characters of a thumbprint: SHA-256 in base64url without padding.
const THUMBPRINT_LENGTH: usize = 43;

/// Points of a small order, their sign left out, canonical or not: under such a key everybody can sign everything.
const WEAK: [[u8; KEY_LENGTH]; 7] = [
    [
        0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    ],
    [
        0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    ],
    [
        0x26, 0xe8, 0x95, 0x8f, 0xc2, 0xb2, 0x27, 0xb0, 0x45, 0xc3, 0xf4, 0x89, 0xf2, 0xef, 0x98, 0xf0, 0xd5, 0xdf,
        0xac, 0x05, 0xd3, 0xc6, 0x33, 0x39, 0xb1, 0x38, 0x02, 0x88, 0x6d, 0x53, 0xfc, 0x05,
    ],
    [
        0xc7, 0x17, 0x6a, 0x70, 0x3d, 0x4d, 0xd8, 0x4f, 0xba, 0x3c, 0x0b, 0x76, 0x0d, 0x10, 0x67, 0x0f, 0x2a, 0x20,
        0x53, 0xfa, 0x2c, 0x39, 0xcc, 0xc6, 0x4e, 0xc7, 0xfd, 0x77, 0x92, 0xac, 0x03, 0x7a,
    ],
    [
        0xec, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f,
    ],
    [
        0xed, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f,
    ],
    [
        0xee, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f,
    ],
];

/// The name of a key: its RFC 7638 SHA-256 thumbprint in base64url, 43 characters.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Thumbprint(Box<str>);

impl Thumbprint {
    /// A text of the form of a thumbprint.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        (text.len() == THUMBPRINT_LENGTH && text.bytes().all(legal)).then(|| Self(text.into()))
    }

    /// Of the members that RFC 7638 3.2 and RFC 8037 2 count, for the key types that they name.
    pub(super) fn of_jwk(key: &Map<String, Value>) -> Option<Self> {
        let members: &[&str] = match key.get("kty")?.as_str()? {
            "OKP" => &["crv", "kty", "x"],
            "EC" => &["crv", "kty", "x", "y"],
            "RSA" => &["e", "kty", "n"],
            _ => return None,
        };
        let mut counted = Map::new();
        for member in members {
            counted.insert((*member).to_owned(), Value::String(key.get(*member)?.as_str()?.to_owned()));
        }
        Some(Self::of_text(&Value::Object(counted).to_string()))
    }

    fn of_text(canonical: &str) -> Self {
        Self(BASE64_URL_SAFE_NO_PAD.encode(digest(&SHA256, canonical.as_bytes())).into())
    }

    /// The 43 characters.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Thumbprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A public key that signatures can be checked with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKey {
    bytes: [u8; KEY_LENGTH],
    thumbprint: Thumbprint,
}

impl PublicKey {
    /// `None` for a key under which everybody can sign.
    pub fn new(bytes: [u8; KEY_LENGTH]) -> Option<Self> {
        (!is_weak(bytes)).then(|| Self::trusted(bytes))
    }

    fn trusted(bytes: [u8; KEY_LENGTH]) -> Self {
        let x = BASE64_URL_SAFE_NO_PAD.encode(bytes);
        Self { bytes, thumbprint: Thumbprint::of_text(&format!(r#"{{"crv":"Ed25519","kty":"OKP","x":"{x}"}}"#)) }
    }

    /// The `x` of a JSON Web Key: base64url without padding, in its one canonical form.
    pub(super) fn from_x(x: &str) -> Option<Self> {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(x).ok()?;
        Self::new(bytes.try_into().ok()?)
    }

    /// The key's name.
    pub fn thumbprint(&self) -> &Thumbprint {
        &self.thumbprint
    }

    /// The JSON Web Key: `kty`, `crv`, `x`, `kid` (the thumbprint) and `use`.
    pub fn to_jwk(&self) -> Value {
        let x = BASE64_URL_SAFE_NO_PAD.encode(self.bytes);
        json!({"kty": "OKP", "crv": "Ed25519", "x": x, "kid": self.thumbprint.as_str(), "use": "sig"})
    }

    /// Whether the holder of the secret key has signed the message (RFC 8032 5.1.7).
    pub(super) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, self.bytes).verify(message, signature).is_ok()
    }
}

/// The order of the point is 1, 2, 4 or 8.
fn is_weak(mut bytes: [u8; KEY_LENGTH]) -> bool {
    if let Some(last) = bytes.last_mut() {
        *last &= 0x7f;
    }
    WEAK.contains(&bytes)
}

/// A secret key, with what is published of it. It can't be printed.
#[derive(Clone)]
pub struct SigningKey {
    seed: [u8; KEY_LENGTH],
    public: PublicKey,
}

/// The text is no secret Ed25519 key. It says nothing of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it holds no secret Ed25519 key as a JSON Web Key (RFC 8037): kty OKP, crv Ed25519, d and its x")]
pub struct InvalidSigningKey;

impl SigningKey {
    /// The key of 32 random bytes.
    pub fn from_seed(seed: [u8; KEY_LENGTH]) -> Result<Self, InvalidSigningKey> {
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed).map_err(|_| InvalidSigningKey)?;
        let public = pair.public_key().as_ref().try_into().map_err(|_| InvalidSigningKey)?;
        Ok(Self { seed, public: PublicKey::trusted(public) })
    }

    /// Reads the JSON Web Key of a key file. A public half that is not the secret half's is refused.
    pub fn parse(text: &str) -> Result<Self, InvalidSigningKey> {
        let key: Map<String, Value> = serde_json::from_str(text).map_err(|_| InvalidSigningKey)?;
        let member = |name: &str| key.get(name).and_then(Value::as_str).ok_or(InvalidSigningKey);
        if member("kty")? != "OKP" || member("crv")? != "Ed25519" {
            return Err(InvalidSigningKey);
        }
        let seed = BASE64_URL_SAFE_NO_PAD.decode(member("d")?).map_err(|_| InvalidSigningKey)?;
        let read = Self::from_seed(seed.try_into().map_err(|_| InvalidSigningKey)?)?;
        let public = BASE64_URL_SAFE_NO_PAD.decode(member("x")?).map_err(|_| InvalidSigningKey)?;
        if public == read.public.bytes { Ok(read) } else { Err(InvalidSigningKey) }
    }

    /// The text of a key file, which [`SigningKey::parse`] reads: the secret itself.
    pub fn to_file(&self) -> String {
        let mut key = self.public.to_jwk();
        if let Some(key) = key.as_object_mut() {
            key.insert("d".to_owned(), self.secret().into());
        }
        format!("{key}\n")
    }

    /// The secret half as a key file spells it: the member `d`, which must not leave.
    pub fn secret(&self) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(self.seed)
    }

    /// The half that is published.
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    /// The key's name.
    pub fn thumbprint(&self) -> &Thumbprint {
        self.public.thumbprint()
    }

    /// Signs (RFC 8032 5.1.6).
    pub(super) fn sign(&self, message: &[u8]) -> Result<[u8; SIGNATURE_LENGTH], InvalidSigningKey> {
        let pair = Ed25519KeyPair::from_seed_and_public_key(&self.seed, &self.public.bytes);
        let signature = pair.map_err(|_| InvalidSigningKey)?.sign(message);
        signature.as_ref().try_into().map_err(|_| InvalidSigningKey)
    }
}

impl PartialEq for SigningKey {
    fn eq(&self, other: &Self) -> bool {
        self.public == other.public
    }
}

impl Eq for SigningKey {}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({})", self.thumbprint())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test key of RFC 9421 B.1.4.
    const FILE: &str = r#"{"kty":"OKP","crv":"Ed25519","kid":"test-key-ed25519",
        "d":"n4Ni-HpISpVObnQMW0wOhCKROaIKqKtW_2ZYb2p9KcU","x":"JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs"}"#;

    #[test]
    fn a_key_is_named_by_its_thumbprint() {
        let key = SigningKey::parse(FILE).unwrap();
        assert_eq!(key.thumbprint().as_str(), "poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U");
        assert_eq!(key.public().to_jwk()["kid"], "poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U");
        // RFC 8037 A.3.
        let known = PublicKey::from_x("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo").unwrap();
        assert_eq!(known.thumbprint().as_str(), "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k");
    }

    #[test]
    fn a_key_file_is_read_as_it_was_written_and_debug_shows_nothing_of_the_secret() {
        let key = SigningKey::from_seed([7; 32]).unwrap();
        assert_eq!(SigningKey::parse(&key.to_file()).unwrap(), key);
        assert_eq!(format!("{key:?}"), format!("SigningKey({})", key.thumbprint()));
        assert!(!key.public().to_jwk().to_string().contains("\"d\""));
    }

    #[test]
    fn what_is_no_secret_ed25519_key_is_refused() {
        let other = SigningKey::from_seed([8; 32]).unwrap().public().to_jwk()["x"].as_str().unwrap().to_owned();
        for bad in [
            String::new(),
            "{}".to_owned(),
            "[]".to_owned(),
            FILE.replace("OKP", "EC"),
            FILE.replace("Ed25519\"", "X25519\""),
            FILE.replace("n4Ni-HpI", ""),
            FILE.replace("n4Ni-HpI", "????????"),
            FILE.replace("JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs", &other),
        ] {
            assert_eq!(SigningKey::parse(&bad), Err(InvalidSigningKey), "{bad}");
        }
    }

    #[test]
    fn a_key_under_which_everybody_can_sign_is_none() {
        for mut bytes in WEAK {
            assert_eq!(PublicKey::new(bytes), None, "{bytes:?}");
            bytes[31] |= 0x80;
            assert_eq!(PublicKey::new(bytes), None, "{bytes:?}");
        }
        assert_eq!(PublicKey::from_x("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"), None);
    }

    #[test]
    fn a_signature_holds_for_its_message_and_key_alone() {
        let (key, other) = (SigningKey::from_seed([1; 32]).unwrap(), SigningKey::from_seed([2; 32]).unwrap());
        let mut signature = key.sign(b"message").unwrap();
        assert!(key.public().verifies(b"message", &signature));
        assert!(!key.public().verifies(b"Message", &signature));
        assert!(!other.public().verifies(b"message", &signature));
        assert!(!key.public().verifies(b"message", &signature[1..]));
        signature[0] ^= 1;
        assert!(!key.public().verifies(b"message", &signature));
    }
}
