//! `include:`: which files there are.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::yaml::Node;

/// Files that one gateway.yaml may include.
const FILES_MAX: usize = 10_000;

/// What `include:` names.
#[derive(Debug, Default)]
pub(super) struct Included {
    /// In the order of the list; those of one pattern in alphabetical order.
    pub(super) files: Vec<File>,
    /// What is wrong with an entry of the list, by its position.
    pub(super) problems: Vec<(usize, Trouble)>,
    /// The entries that are patterns, from the root of the file system or the working directory on.
    pub(super) patterns: Vec<String>,
}

/// A file that is included.
#[derive(Debug)]
pub(super) struct File {
    pub(super) path: PathBuf,
    /// Position of the entry that names it.
    pub(super) entry: usize,
}

/// What is wrong with an entry.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The file can't be included.
    Error(String),
    /// No file matches.
    Empty,
}

/// Finds the files that the list names. What is no list of texts is left to whoever reads the section.
pub(super) fn find(list: Option<Node<'_>>, main: Option<&Path>) -> Included {
    let mut included = Included::default();
    let mut seen: HashSet<PathBuf> = main.map(identity).into_iter().collect();
    for (entry, node) in list.into_iter().flat_map(Node::children).enumerate() {
        let Some(text) = node.as_text() else { continue };
        let pattern = pattern(text, node.document().directory());
        let found = match matches(text, pattern.as_deref(), node.document().directory()) {
            Ok(found) => found,
            Err(message) => {
                included.problems.push((entry, Trouble::Error(message)));
                continue;
            }
        };
        included.patterns.extend(pattern);
        if found.is_empty() {
            included.problems.push((entry, Trouble::Empty));
        }
        let new = found.into_iter().filter(|path| seen.insert(identity(path)));
        included.files.extend(new.map(|path| File { path, entry }));
        if included.files.len() > FILES_MAX {
            included.files.truncate(FILES_MAX);
            let message = format!("more than {FILES_MAX} files are included");
            included.problems.push((entry, Trouble::Error(message)));
            break;
        }
    }
    included
}

/// An entry that is a pattern, with the directory in front that it is relative to.
fn pattern(text: &str, directory: &Path) -> Option<String> {
    let directory = glob::Pattern::escape(&directory.display().to_string());
    text.contains(['*', '?', '[']).then(|| Path::new(&directory).join(text).display().to_string())
}

/// The files of one entry: those that match a pattern, or the one that is named, whether it is there or not.
fn matches(text: &str, pattern: Option<&str>, directory: &Path) -> Result<Vec<PathBuf>, String> {
    if text.is_empty() {
        return Err("the path is empty".into());
    }
    let Some(pattern) = pattern else { return Ok(vec![directory.join(text)]) };
    let paths = glob::glob(pattern).map_err(|error| format!("this is no pattern of file names: {}", error.msg))?;
    Ok(paths.filter_map(Result::ok).filter(|path| path.is_file()).take(FILES_MAX + 1).collect())
}

fn identity(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}
