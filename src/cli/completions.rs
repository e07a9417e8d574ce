//! `completions` and `man`: what packages install beside the program, out of its own definition of the command line.

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use super::{Cli, Fault, say};

/// The program's name on the command line.
const NAME: &str = env!("CARGO_PKG_NAME");

/// Print the completions for a shell.
///
/// Example: restap-gateway completions bash > /etc/bash_completion.d/restap-gateway
#[derive(Debug, Args)]
pub(super) struct Completions {
    /// Which shell.
    shell: Shell,
}

impl Completions {
    pub(super) fn run(&self) {
        let mut text = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), NAME, &mut text);
        say(&String::from_utf8_lossy(&text));
    }
}

/// Print the manual page.
///
/// Example: restap-gateway man > restap-gateway.1
#[derive(Debug, Args)]
pub(super) struct Man {}

impl Man {
    pub(super) fn run() -> Result<(), Fault> {
        let mut text = Vec::new();
        let page = clap_mangen::Man::new(Cli::command().name(NAME));
        page.render(&mut text).map_err(Fault::new)?;
        // The commands follow, each with its own options.
        for command in Cli::command().get_subcommands().filter(|command| !command.is_hide_set()) {
            let command = command.clone().bin_name(format!("{NAME} {}", command.get_name()));
            let page = clap_mangen::Man::new(command);
            page.render_name_section(&mut text).map_err(Fault::new)?;
            page.render_synopsis_section(&mut text).map_err(Fault::new)?;
            page.render_options_section(&mut text).map_err(Fault::new)?;
        }
        say(&String::from_utf8_lossy(&text));
        Ok(())
    }
}
