//! `explain`: which agent, capability, rule and upstream a request meets, and what the service would be asked.

use clap::Args;
use serde_json::json;

use super::{ConfigFile, Fault, say, source};
use crate::gateway::{self, Asked};

/// Say what would become of a request: agent, capability, rule, upstream, rewritten request.
///
/// Example: restap-gateway explain GET /weather/Oslo
#[derive(Debug, Args)]
pub(super) struct Explain {
    #[command(flatten)]
    file: ConfigFile,
    /// The method, such as GET.
    method: String,
    /// The path and query, as a caller sends them.
    path: String,
    /// The `Host` that the caller names.
    #[arg(long, value_name = "NAME", default_value = "localhost")]
    host: String,
    /// For programs.
    #[arg(long)]
    json: bool,
}

impl Explain {
    pub(super) fn run(&self) -> Result<(), Fault> {
        let method = self.method.to_ascii_uppercase().parse();
        let method = method.map_err(|_| Fault(format!("`{}` is no method; write one such as GET", self.method)))?;
        if !self.path.starts_with('/') {
            return Err(Fault(format!("`{}` is no path; it begins with a slash", self.path)));
        }
        let config = source::load(&self.file.config)?;
        let asked = Asked { method, target: &self.path, host: &self.host };
        let steps = gateway::explain(&config, &asked).map_err(Fault::new)?;
        if self.json {
            let steps: Vec<_> = steps.iter().map(|(step, what)| json!({"step": step, "what": what})).collect();
            say(&format!("{}\n", json!(steps)));
        } else {
            let lines: Vec<String> = steps.iter().map(|(step, what)| format!("{step:<10} {what}\n")).collect();
            say(&lines.concat());
        }
        Ok(())
    }
}
