//! `Source`: where a configuration comes from, so that it can be read again.

use std::path::{Path, PathBuf};

use super::documents::Documents;
use super::sources::Sources;
use super::{Config, Environment, Loaded, load};
use crate::front::Listen;
use crate::yaml::Diagnostic;

/// A configuration's origin.
#[derive(Debug, Clone)]
pub struct Source {
    text: Text,
    /// In place of `listen:`, where not empty.
    listen: Vec<Listen>,
    documents: Documents,
}

#[derive(Debug, Clone)]
enum Text {
    File(PathBuf),
    Inline { name: String, text: String, directory: PathBuf },
}

/// What came of reading.
#[derive(Debug)]
pub struct Reading {
    /// The configuration, or every problem.
    pub outcome: Result<Loaded, Vec<Diagnostic>>,
    /// What was read, also where it can't be used: a change may have mended it.
    pub sources: Sources,
}

impl Source {
    /// A file.
    pub fn file(path: &Path) -> Self {
        Self { text: Text::File(path.to_owned()), listen: Vec::new(), documents: Documents::default() }
    }

    /// A text that stands in no file; paths in it are relative to `directory`, problems name it `name`.
    pub fn text(name: &str, text: &str, directory: &Path) -> Self {
        let (name, text, directory) = (name.to_owned(), text.to_owned(), directory.to_owned());
        Self { text: Text::Inline { name, text, directory }, listen: Vec::new(), documents: Documents::default() }
    }

    /// Listens there in place of what is written; an empty list changes nothing.
    #[must_use]
    pub fn listening(self, listen: Vec<Listen>) -> Self {
        Self { listen, ..self }
    }

    /// Copies of the documents that it names by URL, as far as somebody has fetched them.
    pub fn documents(&self) -> &Documents {
        &self.documents
    }

    /// What problems call it.
    pub fn name(&self) -> String {
        match &self.text {
            Text::File(path) => path.display().to_string(),
            Text::Inline { name, .. } => name.clone(),
        }
    }

    /// Reads it. Against a configuration that is in force, a change that needs another process is an error.
    pub fn read(&self, environment: Environment<'_>, running: Option<&Config>) -> Reading {
        let reading = Against { running, listen: &self.listen, documents: &self.documents };
        match &self.text {
            Text::File(path) => load::file(path, environment, reading),
            Text::Inline { name, text, directory } => load::text(name, text.clone(), directory, environment, reading),
        }
    }
}

/// What a file is held against beside itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct Against<'a> {
    pub(super) running: Option<&'a Config>,
    /// The command line's, which beats the file's.
    pub(super) listen: &'a [Listen],
    /// Copies of what it names by URL.
    pub(super) documents: &'a Documents,
}
