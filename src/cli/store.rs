//! `store`: a copy of an embedded store, and a check of it, also while gateways use it.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use super::{ConfigFile, Fault, complain, say, source};
use crate::store::{embedded, settings::Engine};

/// Copy or check the embedded store, also while it is in use.
///
/// Example: restap-gateway store backup /backup/store.db
#[derive(Debug, Args)]
pub(super) struct Store {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Copy the store, as it is at one moment, to a file that is not there yet.
    ///
    /// Example: restap-gateway store backup /backup/store.db
    Backup {
        #[command(flatten)]
        file: ConfigFile,
        /// The copy.
        #[arg(value_name = "FILE")]
        to: PathBuf,
    },
    /// Look for damage.
    ///
    /// Example: restap-gateway store check -c gateway.yaml
    Check {
        #[command(flatten)]
        file: ConfigFile,
    },
}

impl Store {
    pub(super) fn run(&self) -> Result<(), Fault> {
        match &self.action {
            Action::Backup { file, to } => backup(&directory(&file.config)?, to),
            Action::Check { file } => check(&directory(&file.config)?),
        }
    }
}

/// Where the store of a configuration is.
fn directory(config: &Path) -> Result<PathBuf, Fault> {
    match source::load(config)?.store.engine {
        Engine::Embedded { path, .. } => Ok(path),
        Engine::Memory => {
            Err(Fault::new("store is in memory: it ends with its process, and there is nothing to copy or to check"))
        }
        Engine::Postgres(_) => Err(Fault::new(
            "store is on PostgreSQL, whose own tools copy and check it: pg_dump --schema restap, pg_amcheck",
        )),
        Engine::Redis(_) => {
            Err(Fault::new("store is on Redis, whose own tools copy and check it: BGSAVE or its append-only file"))
        }
    }
}

fn backup(directory: &Path, to: &Path) -> Result<(), Fault> {
    let bytes = embedded::backup(directory, to).map_err(Fault::new)?;
    say(&format!("{}: {bytes} bytes\n", to.display()));
    let key = directory.join(embedded::KEY);
    if key.exists() {
        complain(&format!("keep {} with it: the copy can't be read without that key", key.display()));
    } else {
        complain("keep store.key of gateway.yaml with it: the copy can't be read without that key");
    }
    Ok(())
}

fn check(directory: &Path) -> Result<(), Fault> {
    let problems = embedded::check(directory).map_err(Fault::new)?;
    let path = directory.join(embedded::DATABASE);
    if problems.is_empty() {
        say(&format!("{}: fine\n", path.display()));
        return Ok(());
    }
    for problem in &problems {
        complain(&format!("{}: {problem}", path.display()));
    }
    Err(Fault::new("the store is damaged: stop the gateway and restore the last backup"))
}
