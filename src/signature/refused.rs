//! `Refused`: why a signature is not believed.

use std::borrow::Cow;

use super::key_set::InvalidKeySet;

/// The kind of reason. The names are those that callers of agents know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Code {
    /// A field can't be read, or the labels do not belong together.
    Malformed,
    /// A parameter is missing or is not what it must be.
    Params,
    /// Created in the future, or no longer valid.
    Expired,
    /// Made for another host.
    Authority,
    /// Something is not signed that must be.
    Coverage,
    /// `Signature-Agent` names nobody whose keys could be asked for.
    Agent,
    /// The key set could not be fetched.
    KeySetUnreachable,
    /// What was fetched is no key set.
    KeySetInvalid,
    /// The key set has no such key.
    KeyUnknown,
    /// The signature is not that of this request.
    Invalid,
    /// The body is not the one that was signed.
    Digest,
    /// The signature was seen before.
    Replayed,
}

impl Code {
    /// The name, such as `signature_expired`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Malformed => "signature_malformed",
            Self::Params => "signature_params_invalid",
            Self::Expired => "signature_expired",
            Self::Authority => "signature_authority_mismatch",
            Self::Coverage => "signature_coverage_insufficient",
            Self::Agent => "signature_agent_invalid",
            Self::KeySetUnreachable => "key_set_unreachable",
            Self::KeySetInvalid => "key_set_invalid",
            Self::KeyUnknown => "signature_key_unknown",
            Self::Invalid => "signature_invalid",
            Self::Digest => "content_digest_mismatch",
            Self::Replayed => "signature_replayed",
        }
    }
}

/// What is known of who has signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The signature is wrong: whoever sent it is not whom it names.
    Invalid,
    /// There is nothing to judge it by: nobody is named, or no key was found.
    Unverified,
}

/// A signature that is not believed, and what its signer should do about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{sentence}")]
pub struct Refused {
    code: Code,
    outcome: Outcome,
    sentence: Cow<'static, str>,
}

impl Refused {
    pub(super) fn new(code: Code, sentence: impl Into<Cow<'static, str>>) -> Self {
        let outcome = match code {
            Code::KeySetUnreachable | Code::KeySetInvalid | Code::KeyUnknown => Outcome::Unverified,
            _ => Outcome::Invalid,
        };
        Self { code, outcome, sentence: sentence.into() }
    }

    pub(super) fn unverified(code: Code, sentence: impl Into<Cow<'static, str>>) -> Self {
        Self { outcome: Outcome::Unverified, ..Self::new(code, sentence) }
    }

    /// A key set that could not be fetched; `why` is a phrase such as `it answered 404`.
    pub fn unreachable(why: &str) -> Self {
        let sentence = format!("the key set that Signature-Agent names could not be fetched: {why}");
        Self::new(Code::KeySetUnreachable, sentence)
    }

    /// A nonce that another gateway has seen.
    pub fn replayed() -> Self {
        Self::new(Code::Replayed, "the nonce was used before: sign every request anew")
    }

    /// The kind of reason.
    pub fn code(&self) -> Code {
        self.code
    }

    /// Whether the signature is wrong or could not be judged.
    pub fn outcome(&self) -> Outcome {
        self.outcome
    }
}

impl From<InvalidKeySet> for Refused {
    fn from(why: InvalidKeySet) -> Self {
        Self::new(Code::KeySetInvalid, format!("the key set that Signature-Agent names can't be used: {why}"))
    }
}
