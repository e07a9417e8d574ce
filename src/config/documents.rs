//! `Documents`: copies of the documents that a configuration names by URL. Who fetches them puts them here; reading the
//! configuration takes what is there, and never waits for anybody.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use crate::openapi::{Bundle, Location, Unreadable};

/// Bytes of a copy on the disk.
const COPY_BYTES_MAX: u64 = 128 << 20;

/// The folder of the copies, beside the data.
const FOLDER: &str = "documents";

/// Copies by URL, shared by everybody who reads or fetches.
#[derive(Debug, Clone, Default)]
pub struct Documents {
    inner: Arc<Mutex<Inner>>,
    reloaded: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Inner {
    copies: BTreeMap<Named, Arc<Copy>>,
    problems: BTreeMap<Named, String>,
    /// What the configuration that was read last names.
    named: BTreeSet<Named>,
    folder: Option<PathBuf>,
}

/// A document as a configuration names it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Named {
    /// What it is of.
    pub kind: Kind,
    /// What the operator wrote.
    pub url: String,
}

/// What a document is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A description of an API, which is at the URL.
    Description,
    /// An agent, whose document is under the URL.
    Agent,
}

impl Named {
    /// A description of an API.
    pub fn description(url: &str) -> Self {
        Self { kind: Kind::Description, url: url.to_owned() }
    }

    /// An agent.
    pub fn agent(url: &str) -> Self {
        Self { kind: Kind::Agent, url: url.to_owned() }
    }
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::Description => write!(f, "the description at {}", self.url),
            Kind::Agent => write!(f, "the agent at {}", self.url),
        }
    }
}

/// A document and those below its folder that it refers to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Copy {
    url: String,
    /// Where each is, and its text; the first is the document itself.
    parts: Vec<(String, String)>,
}

impl Copy {
    /// What was fetched; each part with where it is.
    pub fn new(url: &str, parts: Vec<(String, String)>) -> Self {
        Self { url: url.to_owned(), parts }
    }

    /// The document alone.
    pub fn text(&self) -> Option<&str> {
        self.parts.first().map(|(_, text)| text.as_str())
    }

    /// The document with what it refers to.
    pub fn bundle(&self) -> Result<Bundle, Unreadable> {
        let empty = || Unreadable("the copy is empty".to_owned());
        let (location, text) = self.parts.first().ok_or_else(empty)?;
        let mut bundle = Bundle::new(Location::Url(location.clone()), text.as_bytes())?;
        while let Some(wanted) = bundle.wanted() {
            let known = self.parts.iter().find(|(location, _)| *location == wanted.location.to_string());
            let text = known.map(|(_, text)| text.clone().into_bytes());
            bundle.give(
                wanted.location,
                text.ok_or_else(|| "only what is below the document's folder is fetched".to_owned()),
            );
        }
        Ok(bundle)
    }
}

impl Documents {
    /// Says where copies are kept, and which documents are named: others are no longer told of.
    pub(super) fn expect(&self, folder: Option<PathBuf>, named: BTreeSet<Named>) {
        let mut inner = self.lock();
        inner.folder = folder.map(|folder| folder.join(FOLDER));
        inner.problems.retain(|known, _| named.contains(known));
        inner.named = named;
    }

    /// Says that the configuration was read again, so that what it names is to be looked at anew.
    pub fn look_again(&self) {
        self.reloaded.notify_one();
    }

    /// Waits until the configuration was read again.
    pub async fn reloaded(&self) {
        self.reloaded.notified().await;
    }

    /// What the configuration that was read last names.
    pub fn named(&self) -> BTreeSet<Named> {
        self.lock().named.clone()
    }

    /// The copy of a document: what was fetched, else the last good one of the disk.
    pub fn get(&self, named: &Named) -> Option<Arc<Copy>> {
        let mut inner = self.lock();
        if let Some(copy) = inner.copies.get(named) {
            return Some(copy.clone());
        }
        let path = inner.folder.as_deref().map(|folder| file_of(folder, named))?;
        let metadata = std::fs::metadata(&path).ok().filter(|file| file.is_file() && file.len() <= COPY_BYTES_MAX);
        metadata.as_ref()?;
        let copy: Copy = serde_json::from_slice(&std::fs::read(&path).ok()?).ok()?;
        let copy = Arc::new(copy);
        (copy.url == named.url).then(|| inner.copies.entry(named.clone()).or_insert(copy).clone())
    }

    /// Takes what was fetched; whether it is another than before. A copy that can't be kept on the disk is no failure: the
    /// sentence is for the log.
    pub fn put(&self, named: &Named, copy: Copy) -> (bool, Option<String>) {
        let before = self.get(named);
        let mut inner = self.lock();
        inner.problems.remove(named);
        if before.is_some_and(|before| *before == copy) {
            return (false, None);
        }
        let written = inner.folder.clone().and_then(|folder| keep(&folder, named, &copy).err());
        inner.copies.insert(named.clone(), Arc::new(copy));
        (true, written)
    }

    /// Takes note of why a document could not be fetched; whether that is news.
    pub fn fail(&self, named: &Named, problem: &str) -> bool {
        self.lock().problems.insert(named.clone(), problem.to_owned()).is_none_or(|before| before != problem)
    }

    /// The documents that could not be fetched when it was last tried, and why.
    pub fn problems(&self) -> Vec<(Named, String)> {
        self.lock().problems.iter().map(|(named, problem)| (named.clone(), problem.clone())).collect()
    }

    /// Why a document could not be fetched when it was last tried.
    pub(super) fn problem(&self, named: &Named) -> Option<String> {
        self.lock().problems.get(named).cloned()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn file_of(folder: &Path, named: &Named) -> PathBuf {
    let kind = match named.kind {
        Kind::Description => "",
        Kind::Agent => "agent ",
    };
    folder.join(format!("{}.json", blake3::hash(format!("{kind}{}", named.url).as_bytes()).to_hex()))
}

/// Writes a copy so that whoever reads it reads the old one or the new one, and nobody else either.
fn keep(folder: &Path, named: &Named, copy: &Copy) -> Result<(), String> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let path = file_of(folder, named);
    let new = path.with_extension("new");
    let write = || -> std::io::Result<()> {
        std::fs::create_dir_all(folder)?;
        let _ = std::fs::remove_file(&new);
        let file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        serde_json::to_writer(&file, copy)?;
        file.sync_all()?;
        std::fs::rename(&new, &path)
    };
    write().map_err(|error| format!("the copy of {named} can't be kept at {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Named {
        Named::description(&format!("http://h/{name}.json"))
    }

    fn copy(text: &str) -> Copy {
        Copy::new("http://h/a.json", vec![("http://h/a.json".into(), text.into())])
    }

    #[test]
    fn the_last_good_copy_outlives_the_process() {
        let folder = tempfile::tempdir().unwrap();
        let documents = Documents::default();
        documents.expect(Some(folder.path().to_owned()), BTreeSet::new());
        assert_eq!(documents.put(&named("a"), copy("{}")), (true, None));
        assert_eq!(documents.put(&named("a"), copy("{}")), (false, None));
        let later = Documents::default();
        assert!(later.get(&named("a")).is_none());
        later.expect(Some(folder.path().to_owned()), BTreeSet::new());
        assert_eq!(*later.get(&named("a")).unwrap(), copy("{}"));
        assert!(later.get(&named("b")).is_none());
    }

    #[test]
    fn an_agent_and_a_description_at_one_address_are_two_documents() {
        let folder = tempfile::tempdir().unwrap();
        let documents = Documents::default();
        documents.expect(Some(folder.path().to_owned()), BTreeSet::new());
        documents.put(&named("a"), copy("{}"));
        assert!(documents.get(&Named::agent("http://h/a.json")).is_none());
    }

    #[test]
    fn a_copy_that_is_broken_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let documents = Documents::default();
        documents.expect(Some(folder.path().to_owned()), BTreeSet::new());
        documents.put(&named("a"), copy("{}"));
        let path = file_of(&folder.path().join(FOLDER), &named("a"));
        std::fs::write(path, "{").unwrap();
        let later = Documents::default();
        later.expect(Some(folder.path().to_owned()), BTreeSet::new());
        assert!(later.get(&named("a")).is_none());
    }

    #[test]
    fn a_problem_is_told_once_and_until_it_is_gone() {
        let documents = Documents::default();
        assert!(documents.fail(&named("a"), "no"));
        assert!(!documents.fail(&named("a"), "no"));
        documents.put(&named("a"), copy("{}"));
        assert!(documents.problems().is_empty());
    }
}
