//! Where a command's configuration comes from: a file, or options that stand for one.

use std::io::IsTerminal;
use std::path::Path;
use std::time::SystemTime;

use tokio::runtime::Builder;

use super::Fault;
use crate::config::{Config, Loaded, Reading, Source};
use crate::gateway::{self, Origin};
use crate::yaml::{Colour, Diagnostic};

/// Reads a file. Warnings go to stderr, and so do the problems of a file that can't be used.
pub(super) fn load(path: &Path) -> Result<Config, Fault> {
    read(&Source::file(path)).outcome.map(accept).map_err(|problems| refuse(&problems))
}

/// Reads what a process is to be started with, and keeps where it came from.
pub(super) fn open(source: Source) -> Result<(Config, Origin), Fault> {
    let read_at = SystemTime::now();
    let Reading { outcome, sources } = read(&source);
    let config = outcome.map(accept).map_err(|problems| refuse(&problems))?;
    Ok((config, Origin { source, environment, read_at, sources }))
}

/// All that is to be said of a file: warnings where it can be used, else every problem.
pub(super) fn judge(path: &Path) -> Result<Loaded, Vec<Diagnostic>> {
    read(&Source::file(path)).outcome
}

/// Reads a configuration; what it names by URL is asked for first, for so long as a start waits.
fn read(source: &Source) -> Reading {
    let reading = source.read(&environment, None);
    if reading.outcome.is_err() || source.documents().named().is_empty() {
        return reading;
    }
    let Ok(runtime) = Builder::new_current_thread().enable_all().build() else { return reading };
    let fetched = runtime.block_on(gateway::fetch_named(source.documents(), gateway::START));
    if fetched { source.read(&environment, None) } else { reading }
}

fn show(problems: &[Diagnostic]) -> String {
    let colour = if std::io::stderr().is_terminal() { Colour::Always } else { Colour::Never };
    problems.iter().map(|problem| problem.render(colour)).collect::<Vec<_>>().join("\n")
}

fn accept(loaded: Loaded) -> Config {
    complain(&loaded.warnings);
    loaded.config
}

/// The problems say it all.
fn refuse(problems: &[Diagnostic]) -> Fault {
    complain(problems);
    Fault(String::new())
}

/// Shows problems to a person.
pub(super) fn complain(problems: &[Diagnostic]) {
    use std::io::Write;
    let _ = std::io::stderr().lock().write_all(show(problems).as_bytes());
}

/// The environment of this process.
fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
