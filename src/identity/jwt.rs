//! Tokens (RFC 7519) that an issuer has signed: which algorithms count, and what a token must say.
//!
//! The algorithm is pinned by the key: a token's `alg` must be one that its key is for, and no key is ever a shared secret,
//! so that neither `none` nor an HMAC over a public key can pass.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::signature::{self, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm};
use serde_json::{Map, Value};

/// Bytes of a token.
pub const TOKEN_MAX: usize = 16 << 10;

/// Bytes of a key set.
pub const KEY_SET_MAX: usize = 256 << 10;

/// Keys of a set.
const KEYS_MAX: usize = 64;

/// Seconds that clocks may differ.
const SKEW: f64 = 60.0;

/// Values of a claim that groups may be made of.
const VALUES_MAX: usize = 256;

/// Why a token is not believed, as a phrase behind "the token".
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refused(pub &'static str);

/// A token as it came, with nothing verified but its form.
#[derive(Debug)]
pub struct Token<'a> {
    signed: &'a [u8],
    signature: Vec<u8>,
    algorithm: Algorithm,
    kid: Option<String>,
    claims: Map<String, Value>,
}

/// What a token must say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expected<'a> {
    /// `iss`.
    pub issuer: &'a str,
    /// One of these must be in `aud`.
    pub audience: &'a [String],
    /// The claim whose values are groups.
    pub groups_claim: Option<&'a str>,
}

/// What a token that is believed says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Believed {
    /// `sub`; empty where there is none.
    pub subject: String,
    /// Texts among its claims, those of the groups claim as `group`.
    pub claims: Vec<(Box<str>, Box<str>)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Algorithm {
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
    Es256,
    Es384,
    EdDsa,
}

impl Algorithm {
    const ALL: [(&'static str, Self); 9] = [
        ("RS256", Self::Rs256),
        ("RS384", Self::Rs384),
        ("RS512", Self::Rs512),
        ("PS256", Self::Ps256),
        ("PS384", Self::Ps384),
        ("PS512", Self::Ps512),
        ("ES256", Self::Es256),
        ("ES384", Self::Es384),
        ("EdDSA", Self::EdDsa),
    ];

    fn of(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, algorithm)| *algorithm)
    }

    fn rsa(self) -> Option<&'static RsaParameters> {
        Some(match self {
            Self::Rs256 => &signature::RSA_PKCS1_2048_8192_SHA256,
            Self::Rs384 => &signature::RSA_PKCS1_2048_8192_SHA384,
            Self::Rs512 => &signature::RSA_PKCS1_2048_8192_SHA512,
            Self::Ps256 => &signature::RSA_PSS_2048_8192_SHA256,
            Self::Ps384 => &signature::RSA_PSS_2048_8192_SHA384,
            Self::Ps512 => &signature::RSA_PSS_2048_8192_SHA512,
            Self::Es256 | Self::Es384 | Self::EdDsa => return None,
        })
    }
}

/// Public keys of an issuer.
#[derive(Debug, Clone, Default)]
pub struct Keys(Vec<Key>);

#[derive(Debug, Clone)]
struct Key {
    kid: Option<String>,
    /// Where the set says so, the key is for no other.
    algorithm: Option<Algorithm>,
    material: Material,
}

#[derive(Debug, Clone)]
enum Material {
    Rsa { n: Vec<u8>, e: Vec<u8> },
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

/// The document is no key set that can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidKeys {
    /// No JSON, or no `keys`.
    #[error("it is no JSON object with a list `keys` (RFC 7517)")]
    Syntax,
    /// Nothing that a token could be verified with.
    #[error("it holds no RSA, P-256, P-384 or Ed25519 key for signatures")]
    Empty,
}

impl Keys {
    /// Reads a JWK Set. Keys of other kinds, or for other uses, are left out.
    pub fn parse(document: &[u8]) -> Result<Self, InvalidKeys> {
        let document: Value = serde_json::from_slice(document).map_err(|_| InvalidKeys::Syntax)?;
        let all = document.get("keys").and_then(Value::as_array).ok_or(InvalidKeys::Syntax)?;
        let keys: Vec<Key> = all.iter().take(KEYS_MAX).filter_map(Key::parse).collect();
        if keys.is_empty() { Err(InvalidKeys::Empty) } else { Ok(Self(keys)) }
    }

    /// Whether a token may have been signed by one of them: if not, the set may be an old one.
    pub fn may_have_signed(&self, token: &Token<'_>) -> bool {
        self.0.iter().any(|key| key.fits(token))
    }
}

impl Key {
    fn parse(jwk: &Value) -> Option<Self> {
        let text = |name: &str| jwk.get(name).and_then(Value::as_str);
        let bytes = |name: &str| BASE64_URL_SAFE_NO_PAD.decode(text(name)?).ok();
        if text("use").is_some_and(|used| used != "sig") {
            return None;
        }
        let algorithm = match text("alg") {
            None => None,
            Some(name) => Some(Algorithm::of(name)?),
        };
        // Uncompressed, as SEC 1 writes a point.
        let point = |length: usize| {
            let (x, y) = (bytes("x")?, bytes("y")?);
            (x.len() == length && y.len() == length).then(|| [[4].as_slice(), &x, &y].concat())
        };
        let material = match (text("kty")?, text("crv")) {
            ("RSA", _) => Material::Rsa { n: bytes("n")?, e: bytes("e")? },
            ("EC", Some("P-256")) => Material::P256(point(32)?),
            ("EC", Some("P-384")) => Material::P384(point(48)?),
            ("OKP", Some("Ed25519")) => Material::Ed25519(bytes("x").filter(|x| x.len() == 32)?),
            _ => return None,
        };
        Some(Self { kid: text("kid").map(str::to_owned), algorithm, material })
    }

    fn fits(&self, token: &Token<'_>) -> bool {
        let of_kind = match &self.material {
            Material::Rsa { .. } => token.algorithm.rsa().is_some(),
            Material::P256(_) => token.algorithm == Algorithm::Es256,
            Material::P384(_) => token.algorithm == Algorithm::Es384,
            Material::Ed25519(_) => token.algorithm == Algorithm::EdDsa,
        };
        of_kind
            && self.algorithm.is_none_or(|algorithm| algorithm == token.algorithm)
            && (token.kid.is_none() || self.kid.is_none() || self.kid == token.kid)
    }

    fn verifies(&self, token: &Token<'_>) -> bool {
        let plain = |algorithm: &'static dyn VerificationAlgorithm, key: &[u8]| {
            UnparsedPublicKey::new(algorithm, key).verify(token.signed, &token.signature).is_ok()
        };
        match &self.material {
            Material::Rsa { n, e } => token.algorithm.rsa().is_some_and(|parameters| {
                RsaPublicKeyComponents { n, e }.verify(parameters, token.signed, &token.signature).is_ok()
            }),
            Material::P256(point) => plain(&signature::ECDSA_P256_SHA256_FIXED, point),
            Material::P384(point) => plain(&signature::ECDSA_P384_SHA384_FIXED, point),
            Material::Ed25519(key) => plain(&signature::ED25519, key),
        }
    }
}

impl<'a> Token<'a> {
    /// Reads a token's form.
    pub fn parse(text: &'a [u8]) -> Result<Self, Refused> {
        let malformed = Refused("is no signed token: three parts of base64url with a dot between");
        if text.len() > TOKEN_MAX {
            return Err(Refused("is longer than 16 KiB"));
        }
        let mut dots = memchr::memchr_iter(b'.', text);
        let (Some(first), Some(second), None) = (dots.next(), dots.next(), dots.next()) else { return Err(malformed) };
        let part = |range: std::ops::Range<usize>| {
            text.get(range).and_then(|part| BASE64_URL_SAFE_NO_PAD.decode(part).ok()).ok_or(malformed)
        };
        let object = |bytes: Vec<u8>| serde_json::from_slice::<Map<String, Value>>(&bytes).map_err(|_| malformed);
        let header = object(part(0..first)?)?;
        let claims = object(part(first + 1..second)?)?;
        let signature = part(second + 1..text.len())?;
        if header.contains_key("crit") {
            return Err(Refused("has extensions that must be understood and are not"));
        }
        let algorithm = header
            .get("alg")
            .and_then(Value::as_str)
            .and_then(Algorithm::of)
            .ok_or(Refused("is signed by an algorithm that is not taken; RS, PS, ES256, ES384 and EdDSA are"))?;
        let kid = match header.get("kid") {
            None => None,
            Some(Value::String(kid)) => Some(kid.clone()),
            Some(_) => return Err(malformed),
        };
        let signed = text.get(..second).unwrap_or_default();
        Ok(Self { signed, signature, algorithm, kid, claims })
    }

    /// Who says to have signed it.
    pub fn issuer(&self) -> &str {
        self.claims.get("iss").and_then(Value::as_str).unwrap_or_default()
    }

    /// Verifies signature, time, issuer and audience; `now` is in Unix seconds.
    pub fn believe(&self, keys: &Keys, expected: &Expected<'_>, now: u64) -> Result<Believed, Refused> {
        let mut fitting = keys.0.iter().filter(|key| key.fits(self)).peekable();
        if fitting.peek().is_none() {
            return Err(Refused("is signed by a key that its issuer does not publish"));
        }
        if !fitting.any(|key| key.verifies(self)) {
            return Err(Refused("has a signature that is not its issuer's"));
        }
        let now = now as f64;
        match self.time("exp")? {
            None => return Err(Refused("never expires: `exp` is missing")),
            Some(end) if end + SKEW <= now => return Err(Refused("has expired")),
            Some(_) => {}
        }
        if self.time("nbf")?.is_some_and(|begin| begin - SKEW > now) {
            return Err(Refused("is not valid yet"));
        }
        if self.issuer() != expected.issuer {
            return Err(Refused("is from another issuer"));
        }
        let for_us = |name: &str| expected.audience.iter().any(|audience| audience == name);
        let audience = match self.claims.get("aud") {
            Some(Value::String(name)) => for_us(name),
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).any(for_us),
            _ => false,
        };
        if !audience {
            return Err(Refused("is for another audience"));
        }
        let subject = self.claims.get("sub").and_then(Value::as_str).unwrap_or_default().to_owned();
        Ok(Believed { subject, claims: self.texts(expected.groups_claim) })
    }

    /// A time, which must be a number where it is there: anything else would pass for none.
    fn time(&self, name: &str) -> Result<Option<f64>, Refused> {
        match self.claims.get(name) {
            None => Ok(None),
            Some(value) => value.as_f64().map(Some).ok_or(Refused("has a time that is no number")),
        }
    }

    /// Claims whose values are text, one entry a value.
    fn texts(&self, groups_claim: Option<&str>) -> Vec<(Box<str>, Box<str>)> {
        let mut texts: Vec<(Box<str>, Box<str>)> = Vec::new();
        let mut add = |name: &str, value: &Value, split: bool| match value {
            Value::String(text) if split => {
                texts.extend(text.split(' ').filter(|word| !word.is_empty()).map(|word| (name.into(), word.into())));
            }
            Value::String(text) => texts.push((name.into(), text.as_str().into())),
            Value::Array(values) => {
                texts.extend(values.iter().filter_map(Value::as_str).map(|text| (name.into(), text.into())));
            }
            _ => {}
        };
        for (name, value) in self.claims.iter().filter(|(name, _)| *name != "group" && *name != "sub") {
            // Scopes are words in one text (RFC 8693, section 4.2).
            add(name, value, name == "scope");
        }
        if let Some(value) = groups_claim.and_then(|name| self.claims.get(name)) {
            add("group", value, false);
        }
        texts.truncate(VALUES_MAX);
        texts
    }
}

#[cfg(test)]
mod tests;
