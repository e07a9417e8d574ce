//! `Signing`: whether a request is signed, and why not.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::rand::{GetRandomFlags, getrandom};

use super::request::Request;
use super::settings::Sign;
use crate::signature::{AgentUrl, Form, InvalidAgentUrl, Outgoing, Signer, SigningKey};

/// What an agent signs its requests with.
#[derive(Debug, Clone)]
pub struct Signing {
    sign: Sign,
    form: Form,
    signer: Result<Arc<Signer>, Unsigned>,
}

/// Why requests go out unsigned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unsigned {
    /// The operator does not want it.
    #[error("signing is turned off for this tool (sign: never).")]
    Never,
    /// Nobody could ask for the keys.
    #[error("this agent has no public address. Set public_url to its https address to sign as that agent.")]
    NoAddress,
    /// Anybody on the way could have changed the keys.
    #[error("this agent's address is not https, so a signature naming it could not be checked.")]
    NotHttps,
    /// There is nothing to sign with.
    #[error("this agent has no signing key yet. Serving it with restap-gateway serve creates one.")]
    NoKey,
    /// The service could not trust what arrives.
    #[error("requests to plain http addresses are not signed.")]
    PlainHttp,
    /// The key is broken, or the system gives no random bytes.
    #[error("this agent's key could not sign: restap-gateway keys show says what is wrong with it.")]
    Failed,
}

impl Signing {
    /// `public` is the agent's own base URL, as far as it is known to the world; `keys` are its own, the current one
    /// first.
    pub fn new(sign: Sign, form: Form, public: Option<&str>, keys: &[SigningKey]) -> Self {
        let signer = || {
            if sign == Sign::Never {
                return Err(Unsigned::Never);
            }
            let agent: AgentUrl = public.ok_or(Unsigned::NoAddress)?.parse().map_err(|error| match error {
                InvalidAgentUrl::NotHttps => Unsigned::NotHttps,
                InvalidAgentUrl::Syntax | InvalidAgentUrl::Loopback => Unsigned::NoAddress,
            })?;
            Signer::new(agent, keys).map(Arc::new).ok_or(Unsigned::NoKey)
        };
        Self { sign, form, signer: signer() }
    }

    /// Why nothing can be signed at all, if so.
    pub fn obstacle(&self) -> Option<Unsigned> {
        self.signer.as_ref().err().copied()
    }

    /// Whether a request that can't be signed is not sent.
    pub(super) fn is_required(&self) -> bool {
        self.sign == Sign::Always
    }

    /// As whom the next hop of a request is signed, and the fields that say so.
    pub(super) fn sign(&self, request: &Request) -> Result<Signed, Unsigned> {
        let signer = self.signer.as_ref().map_err(|reason| *reason)?;
        if !request.url.is_https() {
            return Err(Unsigned::PlainHttp);
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_err(|_| Unsigned::Failed)?.as_secs();
        let authority = request.url.authority();
        let outgoing = Outgoing {
            method: request.method.as_str(),
            authority: &authority,
            target: request.url.target().as_str(),
            body: &request.body,
            covered: &[],
        };
        let mut random = true;
        let mut nonce = |bytes: &mut [u8]| {
            let length = bytes.len();
            random &= getrandom(bytes, GetRandomFlags::empty()).is_ok_and(|filled| filled == length);
        };
        let now = i64::try_from(now).map_err(|_| Unsigned::Failed)?;
        let fields = signer.sign(&outgoing, self.form, now, &mut nonce).map_err(|_| Unsigned::Failed)?;
        if random { Ok(Signed { agent: signer.agent().to_string(), fields }) } else { Err(Unsigned::Failed) }
    }
}

/// A hop that is signed.
pub(super) struct Signed {
    pub(super) agent: String,
    pub(super) fields: Vec<(&'static str, String)>,
}
