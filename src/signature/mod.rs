//! HTTP message signatures (RFC 9421) as agents use them (Web Bot Auth): keys, what is signed, and what is verified.
//!
//! Nothing here asks the clock, the network or the disk: the time, random bytes and the keys of others are arguments.
//! Verifying has two steps, since the keys are elsewhere: [`Claim::read`] judges everything that the request says and
//! names the key set that its caller must fetch, [`Claim::verify`] judges the signature by it.

mod agent;
mod base;
mod digest;
mod directory;
mod key;
mod key_set;
mod nonces;
mod refused;
mod sign;
mod structured;
mod verify;

pub use agent::Discovery;
pub use base::{Scheme, normal_authority};
pub use digest::ContentDigest;
pub use directory::sign_directory;
pub use key::{InvalidSigningKey, PublicKey, SigningKey, Thumbprint};
pub use key_set::{InvalidKeySet, KEY_SET_MAX, KEYS_MAX, KeySet};
pub use nonces::Nonces;
pub use refused::{Code, Outcome, Refused};
pub use sign::{AgentUrl, Form, InvalidAgentUrl, Outgoing, SIGNED_FIELDS, Signer};
pub use structured::{FIELD_MAX, MEMBERS_MAX};
pub use verify::{Claim, Profile, Request, Spent, Verified};

/// Where an agent's key set is, below its base URL.
pub const KEY_SET_PATH: &str = "/.well-known/jwks.json";

/// Where the keys of all agents of an origin are.
pub const DIRECTORY_PATH: &str = "/.well-known/http-message-signatures-directory";

/// The media type of a key directory.
pub const DIRECTORY_MEDIA_TYPE: &str = "application/http-message-signatures-directory+json";

/// What signatures of agents carry as `tag`.
const TAG: &str = "web-bot-auth";

/// Seconds that clocks may differ.
const SKEW: i64 = 60;

/// Signatures of a request that are looked at: one a key, and an agent holds two while it rotates them.
const LABELS_MAX: usize = 2;

#[cfg(test)]
mod tests;
