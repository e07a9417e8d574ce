//! Where a command's configuration comes from: a file, or options that stand for one.

use std::io::IsTerminal;
use std::path::Path;

use super::Fault;
use crate::config::{Config, Loaded};
use crate::yaml::{Colour, Diagnostic};

/// Reads a file. Warnings go to stderr, and so do the problems of a file that can't be used.
pub(super) fn load(path: &Path) -> Result<Config, Fault> {
    Config::load(path, &environment).map(accept).map_err(|problems| refuse(&problems))
}

/// Reads a text that stands in no file, or in one that the program brings with it.
pub(super) fn from_text(text: &str, name: &Path) -> Result<Config, Fault> {
    let name = name.display().to_string();
    Config::from_text(&name, text, Path::new("."), &environment).map(accept).map_err(|problems| refuse(&problems))
}

/// All that is to be said of a file: warnings where it can be used, else every problem.
pub(super) fn judge(path: &Path) -> Result<Loaded, Vec<Diagnostic>> {
    Config::load(path, &environment)
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
