//! `keys`: secrets that the gateway needs.

use clap::{Args, Subcommand};

use super::{Fault, say};
use crate::store::Keys;

/// Make secrets.
///
/// Example: restap-gateway keys new --store
#[derive(Debug, Args)]
pub(super) struct Command {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Make a new secret and print it.
    New {
        /// For `store.key`: 32 random bytes in base64.
        #[arg(long, required = true)]
        store: bool,
    },
}

impl Command {
    pub(super) fn run(&self) -> Result<(), Fault> {
        let Action::New { store: _ } = self.action;
        let key = Keys::random().map_err(Fault::new)?.to_secret();
        say(&format!("{}\n", key.expose()));
        Ok(())
    }
}
