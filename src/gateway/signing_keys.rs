//! The agents' signing keys, as they are when a configuration is put in force.

use std::sync::Arc;

use http::{HeaderMap, Uri};

use super::live::{Agent, Live};
use crate::config::settings;
use crate::egress::settings::Sign;
use crate::keyring::{Held, Keyring, KeyringError};
use crate::signature::{KEYS_MAX, SigningKey, normal_authority};

/// The keys of an agent; the first one is made for an agent that may sign. None for an agent that never signs, unless
/// it did so before: what it has signed can still be checked.
pub(super) fn held(agent: &settings::Agent) -> Result<Held, KeyringError> {
    match &agent.rest {
        None => Ok(Held::default()),
        Some(rest) => {
            let keyring = Keyring::new(&rest.signing_keys, &agent.key);
            if rest.sign == Sign::Never { keyring.read() } else { keyring.read_or_make() }
        }
    }
}

impl Live {
    /// The keys of all agents at the origin of a host, for whoever knows no more than that origin; readers take no
    /// more than [`KEYS_MAX`].
    pub(super) fn keys_of_origin(&self, host: Option<&str>) -> Vec<SigningKey> {
        let here = self.agents.iter().filter(|agent| agent.host.as_deref() == host);
        here.flat_map(|agent| agent.keys.published()).take(KEYS_MAX).collect()
    }

    /// The authority that a request is for, if it is certain to be ours: nobody is to have our keys sign for a host
    /// of theirs.
    pub(super) fn own_authority(&self, agent: Option<&Arc<Agent>>, headers: &HeaderMap, uri: &Uri) -> Option<String> {
        let named = uri.authority().map(http::uri::Authority::as_str);
        let named = named.or_else(|| headers.get(http::header::HOST)?.to_str().ok())?;
        let authority = normal_authority(named)?;
        let own = match agent.and_then(|agent| agent.host.as_deref()) {
            Some(host) => normal_authority(host),
            None => self.public_authority.clone(),
        };
        (own.as_ref() == Some(&authority)).then_some(authority)
    }
}
