//! The outbound tools of the agents, made of what the file says of each and of what the process as a whole holds.

use std::sync::Arc;

use super::live::{AssembleError, base_url};
use super::signing_keys;
use crate::config::settings::{Agent, Config};
use crate::egress::held::Credential;
use crate::egress::{Held, Signing, Tool};
use crate::net::{Client, guard};
use crate::signature::SigningKey;
use crate::yaml::Secret;

/// Makes the tools of one configuration.
pub(super) struct Tools<'a> {
    config: &'a Config,
    client: &'a Client,
    held: Arc<Held>,
}

impl<'a> Tools<'a> {
    pub(super) fn new(config: &'a Config, client: &'a Client) -> Result<Self, AssembleError> {
        let held =
            if config.agents.iter().any(|agent| agent.rest.is_some()) { credentials(config)? } else { Vec::new() };
        let broken = |problem: aho_corasick::BuildError| AssembleError::Credentials(problem.to_string());
        Ok(Self { config, client, held: Arc::new(Held::new(held).map_err(broken)?) })
    }

    /// The tool of an agent that has one; `keys` are its own, the current one first.
    pub(super) fn tool(&self, agent: &Agent, keys: &[SigningKey]) -> Result<Option<Tool>, AssembleError> {
        let Some(rest) = &agent.rest else { return Ok(None) };
        let settings = guard::Settings { allow_private: rest.allow_private.clone(), ca: rest.ca.clone() };
        let guard = self.client.guard(settings);
        let guard = guard.map_err(|problem| AssembleError::Rest { agent: agent.key.clone(), problem })?;
        let base = base_url(self.config, agent);
        let public = base.contains("://").then_some(base.as_str());
        let signing = Signing::new(rest.sign, rest.signature_agent, public, keys);
        Ok(Some(Tool::new(guard, signing, Arc::clone(&self.held))))
    }
}

/// Everything that this process holds in secret: out of its environment, out of its file and the files that it names,
/// and the keys that its agents sign with.
fn credentials(config: &Config) -> Result<Vec<Credential>, AssembleError> {
    let variables = std::env::vars_os().filter_map(|(name, value)| {
        let (name, value) = (name.to_string_lossy(), value.to_string_lossy());
        Credential::of_variable(&name, &value)
    });
    let listed =
        config.agents.iter().filter_map(|agent| Some((&agent.key, agent.rest.as_ref()?))).flat_map(|(key, rest)| {
            let named = move |(number, value)| (format!("{key}: rest.secrets[{number}]"), value);
            rest.secrets.iter().enumerate().map(named).map(|(name, value)| Credential { name, value: value.clone() })
        });
    let written = config.credentials.iter().flat_map(|(path, value)| Credential::of_setting(path, value));
    let mut all: Vec<Credential> = variables.chain(written).chain(listed).collect();
    for agent in &config.agents {
        let broken = |problem| AssembleError::Keys { agent: agent.key.clone(), problem };
        let named = signing_keys::held(agent).map_err(broken)?.named();
        all.extend(named.into_iter().map(|(which, key)| Credential {
            name: format!("{}: the {which} signing key", agent.key),
            value: Secret::new(key.secret()),
        }));
    }
    Ok(all)
}
