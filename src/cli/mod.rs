//! The command line: one file a subcommand.

mod agent;
mod call;
mod catalog;
mod check;
mod completions;
mod demo;
mod explain;
mod import;
mod keys;
mod news;
mod probe;
mod process;
mod run;
mod schema;
mod serve;
mod source;
mod store;
mod talk;
mod upgrade;

use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

/// Makes plain HTTP services and chat backends into RESTAP agents.
#[derive(Debug, Parser)]
#[command(version, args_conflicts_with_subcommands = true, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: serve::Serve,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::Serve),
    Check(check::Check),
    Explain(explain::Explain),
    Catalog(catalog::Catalog),
    Schema(schema::Schema),
    Demo(demo::Demo),
    Import(Box<import::Import>),
    Call(call::Call),
    Talk(talk::Talk),
    Run(run::Run),
    Upgrade(upgrade::Upgrade),
    Completions(completions::Completions),
    #[command(hide = true)]
    Man(completions::Man),
    News(news::News),
    Probe(probe::Probe),
    Keys(keys::Command),
    Store(store::Store),
}

/// Where the configuration is.
#[derive(Debug, Clone, Args)]
struct ConfigFile {
    /// The configuration.
    #[arg(short, long = "config", value_name = "FILE", default_value = "gateway.yaml")]
    config: std::path::PathBuf,
}

/// Why a command ends with 1. The sentence is for the person who typed it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Fault(String);

impl Fault {
    fn new(message: impl std::fmt::Display) -> Self {
        Self(format!("{message}"))
    }
}

/// Runs the command that was typed. Exit codes: 0 done, 1 the thing failed, 2 usage.
pub fn run() -> ExitCode {
    let cli = Cli::parse();
    let done = match cli.command.unwrap_or(Command::Serve(cli.serve)) {
        Command::Serve(serve) => serve.run(),
        Command::Check(check) => check.run(),
        Command::Explain(explain) => explain.run(),
        Command::Catalog(catalog) => catalog.run(),
        Command::Schema(schema::Schema {}) => schema::run(),
        Command::Demo(demo::Demo {}) => demo::run(),
        Command::Import(import) => import.run(),
        Command::Call(call) => call.run(),
        Command::Talk(talk) => talk.run(),
        Command::Run(run) => match run.run() {
            // It ends as the service did.
            Ok(code) => return code,
            Err(fault) => Err(fault),
        },
        Command::Upgrade(upgrade) => upgrade.run(),
        Command::Completions(completions) => {
            completions.run();
            Ok(())
        }
        Command::Man(completions::Man {}) => completions::Man::run(),
        Command::News(news) => news.run(),
        Command::Probe(probe) => probe.run(),
        Command::Keys(keys) => keys.run(),
        Command::Store(store) => store.run(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(Fault(message)) => {
            if !message.is_empty() {
                complain(&message);
            }
            ExitCode::FAILURE
        }
    }
}

/// Writes to stdout; a reader that has left is no failure.
fn say(text: &str) {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Writes one problem to stderr.
fn complain(message: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr().lock(), "restap-gateway: {message}");
}
