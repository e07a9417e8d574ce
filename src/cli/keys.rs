//! `keys`: the secrets that the gateway needs, and the keys that agents sign with.

use std::path::Path;

use clap::{Args, Subcommand};
use serde_json::json;

use super::{ConfigFile, Fault, say, source};
use crate::config::Config;
use crate::keyring::{Held, Keyring, KeyringError};
use crate::store::Keys;

/// The directory of signing keys of an agent without `rest`, beside the file.
const DIRECTORY: &str = "keys";

/// Make secrets and signing keys, rotate them, and show what of them is public.
///
/// Example: restap-gateway keys rotate billing
#[derive(Debug, Args)]
pub(super) struct Command {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Make an agent's first signing key, or a secret.
    ///
    /// Example: restap-gateway keys new --store
    New {
        /// For `store.key`: 32 random bytes in base64, printed.
        #[arg(long, conflicts_with_all = ["agent", "config", "json"])]
        store: bool,
        #[command(flatten)]
        of: Of,
    },
    /// Make the next signing key and put it to use. The one before it signs beside it until `--finish`.
    ///
    /// Example: restap-gateway keys rotate --stage
    Rotate {
        /// Only publish the next key; `keys rotate` an hour later loses nobody who keeps key sets.
        #[arg(long, conflicts_with = "finish")]
        stage: bool,
        /// End the rotation: the key before the current one is deleted.
        #[arg(long)]
        finish: bool,
        #[command(flatten)]
        of: Of,
    },
    /// Show the signing keys, without their secrets.
    ///
    /// Example: restap-gateway keys show --json
    Show {
        #[command(flatten)]
        of: Of,
    },
}

/// Whose keys.
#[derive(Debug, Args)]
struct Of {
    /// The agent's key in the file; all agents with `rest` unless given.
    #[arg(value_name = "AGENT")]
    agent: Option<String>,
    #[command(flatten)]
    file: ConfigFile,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Command {
    pub(super) fn run(&self) -> Result<(), Fault> {
        match &self.action {
            Action::New { store: true, .. } => {
                let key = Keys::random().map_err(Fault::new)?.to_secret();
                say(&format!("{}\n", key.expose()));
                Ok(())
            }
            Action::New { store: false, of } => of.each(make),
            Action::Rotate { stage: true, of, .. } => of.each(|keyring, _| keyring.stage()),
            Action::Rotate { finish: true, of, .. } => of.each(|keyring, _| keyring.finish()),
            Action::Rotate { of, .. } => of.each(|keyring, _| keyring.rotate()),
            Action::Show { of } => of.each(|keyring, _| keyring.read()),
        }
    }
}

/// Makes the first key. Of several agents those that have one are left alone.
fn make(keyring: &Keyring, one_of_many: bool) -> Result<Held, KeyringError> {
    if one_of_many { keyring.read_or_make() } else { keyring.make() }
}

impl Of {
    /// Does it to the keys of every agent that is meant, and shows what they are then.
    fn each(&self, action: impl Fn(&Keyring, bool) -> Result<Held, KeyringError>) -> Result<(), Fault> {
        let config = source::load(&self.file.config)?;
        let beside = self.file.config.parent().unwrap_or(Path::new(""));
        let mut shown = Vec::new();
        let agents = self.agents(&config)?;
        for agent in &agents {
            let directory =
                agent.rest.as_ref().map_or_else(|| beside.join(DIRECTORY), |rest| rest.signing_keys.clone());
            let keyring = Keyring::new(&directory, &agent.key);
            let held = action(&keyring, agents.len() > 1)
                .map_err(|error| Fault::new(format!("agent `{}`: {error}", agent.key)))?;
            shown.push((agent.key.as_str(), held));
        }
        say(&if self.json { as_json(&shown) } else { as_text(&shown) });
        Ok(())
    }

    fn agents<'c>(&self, config: &'c Config) -> Result<Vec<&'c crate::config::settings::Agent>, Fault> {
        if let Some(key) = &self.agent {
            let found = config.agents.iter().find(|agent| agent.key == *key);
            let known = config.agents.iter().map(|agent| format!("`{}`", agent.key)).collect::<Vec<_>>().join(", ");
            return found
                .map(|agent| vec![agent])
                .ok_or_else(|| Fault::new(format!("there is no agent `{key}`; the file has {known}")));
        }
        let signing: Vec<_> = config.agents.iter().filter(|agent| agent.rest.is_some()).collect();
        Ok(if signing.is_empty() { config.agents.iter().collect() } else { signing })
    }
}

fn as_text(shown: &[(&str, Held)]) -> String {
    let width = shown.iter().map(|(agent, _)| agent.chars().count()).max().unwrap_or_default();
    let mut text = String::new();
    for (agent, held) in shown {
        if held.named().is_empty() {
            text.extend([format!("{agent:width$}  none      `keys new` makes one\n")]);
        }
        for (name, key) in held.named() {
            text.extend([format!("{agent:width$}  {name:8}  {}\n", key.thumbprint())]);
        }
    }
    text
}

fn as_json(shown: &[(&str, Held)]) -> String {
    let keys = |held: &Held| -> Vec<_> {
        held.named().iter().map(|(name, key)| json!({"is": name, "jwk": key.public().to_jwk()})).collect()
    };
    let agents: Vec<_> = shown.iter().map(|(agent, held)| json!({"agent": agent, "keys": keys(held)})).collect();
    format!("{}\n", json!(agents))
}
