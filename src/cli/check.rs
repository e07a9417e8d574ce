//! `check`: every problem of a configuration at once.

use clap::{Args, ValueEnum};

use super::{ConfigFile, Fault, say, source};

/// Say everything that is wrong with a configuration.
///
/// Example: restap-gateway check -c gateway.yaml
#[derive(Debug, Args)]
pub(super) struct Check {
    #[command(flatten)]
    file: ConfigFile,
    /// For people, or for editors and CI.
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
}

impl Check {
    pub(super) fn run(&self) -> Result<(), Fault> {
        let (problems, usable) = match source::judge(&self.file.config) {
            Ok(loaded) => (loaded.warnings, true),
            Err(problems) => (problems, false),
        };
        match self.format {
            Format::Json => say(&format!("{}\n", serde_json::to_string_pretty(&problems).map_err(Fault::new)?)),
            Format::Text => source::complain(&problems),
        }
        match (usable, self.format) {
            (false, _) => Err(Fault(String::new())),
            (true, Format::Text) => {
                say(&format!("{}: fine\n", self.file.config.display()));
                Ok(())
            }
            (true, Format::Json) => Ok(()),
        }
    }
}
