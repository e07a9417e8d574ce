//! `schema`: what a configuration may hold.

use clap::Args;

use super::{Fault, say};

/// Print the JSON Schema of gateway.yaml, for editors.
///
/// Example: restap-gateway schema > gateway.schema.json
#[derive(Debug, Args)]
pub(super) struct Schema {}

pub(super) fn run() -> Result<(), Fault> {
    let schema = serde_json::to_string_pretty(&crate::config::schema()).map_err(Fault::new)?;
    say(&format!("{schema}\n"));
    Ok(())
}
