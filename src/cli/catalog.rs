//! `catalog`: the discovery document that a configuration leads to.

use clap::Args;

use super::{ConfigFile, Fault, say, source};
use crate::gateway;

/// Print an agent's discovery document without serving anything.
///
/// Example: restap-gateway catalog -c gateway.yaml
#[derive(Debug, Args)]
pub(super) struct Catalog {
    #[command(flatten)]
    file: ConfigFile,
    /// The agent's name under `agents:`; not needed where there is one agent.
    agent: Option<String>,
}

impl Catalog {
    pub(super) fn run(&self) -> Result<(), Fault> {
        let config = source::load(&self.file.config)?;
        let names: Vec<&str> = config.agents.iter().map(|agent| agent.key.as_str()).collect();
        let agent = match (&self.agent, config.agents.as_slice()) {
            (Some(name), agents) => agents
                .iter()
                .find(|agent| agent.key == *name)
                .ok_or_else(|| Fault(format!("there is no agent {name}; there are {}", names.join(", "))))?,
            (None, [agent]) => agent,
            (None, _) => return Err(Fault(format!("name one of the agents: {}", names.join(", ")))),
        };
        say(&format!("{}\n", gateway::catalog(&config, agent).map_err(Fault::new)?));
        Ok(())
    }
}
