//! `Documents`: copies of the documents that a configuration names by URL. Who fetches them puts them here; reading the
//! configuration takes what is there, and never waits for anybody.

use std::collections::{BTreeMap, BTreeSet};
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
    copies: BTreeMap<String, Arc<Copy>>,
    problems: BTreeMap<String, String>,
    /// What the configuration that was read last names.
    named: BTreeSet<String>,
    folder: Option<PathBuf>,
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
    pub(super) fn expect(&self, folder: Option<PathBuf>, named: BTreeSet<String>) {
        let mut inner = self.lock();
        inner.folder = folder.map(|folder| folder.join(FOLDER));
        inner.problems.retain(|url, _| named.contains(url));
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

    /// The URLs that the configuration that was read last names.
    pub fn named(&self) -> Vec<String> {
        self.lock().named.iter().cloned().collect()
    }

    /// The copy of a document: what was fetched, else the last good one of the disk.
    pub fn get(&self, url: &str) -> Option<Arc<Copy>> {
        let mut inner = self.lock();
        if let Some(copy) = inner.copies.get(url) {
            return Some(copy.clone());
        }
        let path = inner.folder.as_deref().map(|folder| file_of(folder, url))?;
        let metadata = std::fs::metadata(&path).ok().filter(|file| file.is_file() && file.len() <= COPY_BYTES_MAX);
        metadata.as_ref()?;
        let copy: Copy = serde_json::from_slice(&std::fs::read(&path).ok()?).ok()?;
        let copy = Arc::new(copy);
        (copy.url == url).then(|| inner.copies.entry(url.to_owned()).or_insert(copy).clone())
    }

    /// Takes what was fetched; whether it is another than before. A copy that can't be kept on the disk is no failure: the
    /// sentence is for the log.
    pub fn put(&self, url: &str, copy: Copy) -> (bool, Option<String>) {
        let before = self.get(url);
        let mut inner = self.lock();
        inner.problems.remove(url);
        if before.is_some_and(|before| *before == copy) {
            return (false, None);
        }
        let written = inner.folder.clone().and_then(|folder| keep(&folder, url, &copy).err());
        inner.copies.insert(url.to_owned(), Arc::new(copy));
        (true, written)
    }

    /// Takes note of why a document could not be fetched; whether that is news.
    pub fn fail(&self, url: &str, problem: &str) -> bool {
        self.lock().problems.insert(url.to_owned(), problem.to_owned()).is_none_or(|before| before != problem)
    }

    /// The documents that could not be fetched when it was last tried, and why.
    pub fn problems(&self) -> Vec<(String, String)> {
        self.lock().problems.iter().map(|(url, problem)| (url.clone(), problem.clone())).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn file_of(folder: &Path, url: &str) -> PathBuf {
    folder.join(format!("{}.json", blake3::hash(url.as_bytes()).to_hex()))
}

/// Writes a copy so that whoever reads it reads the old one or the new one, and nobody else either.
fn keep(folder: &Path, url: &str, copy: &Copy) -> Result<(), String> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let path = file_of(folder, url);
    let new = path.with_extension("new");
    let write = || -> std::io::Result<()> {
        std::fs::create_dir_all(folder)?;
        let _ = std::fs::remove_file(&new);
        let file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        serde_json::to_writer(&file, copy)?;
        file.sync_all()?;
        std::fs::rename(&new, &path)
    };
    write().map_err(|error| format!("the copy of {url} can't be kept at {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy(text: &str) -> Copy {
        Copy::new("http://h/a.json", vec![("http://h/a.json".into(), text.into())])
    }

    #[test]
    fn the_last_good_copy_outlives_the_process() {
        let folder = tempfile::tempdir().unwrap();
        let documents = Documents::default();
        documents.expect(Some(folder.path().to_owned()), BTreeSet::new());
        assert_eq!(documents.put("http://h/a.json", copy("{}")), (true, None));
        assert_eq!(documents.put("http://h/a.json", copy("{}")), (false, None));
        let later = Documents::default();
        assert!(later.get("http://h/a.json").is_none());
        later.expect(Some(folder.path().to_owned()), BTreeSet::new());
        assert_eq!(*later.get("http://h/a.json").unwrap(), copy("{}"));
        assert!(later.get("http://h/b.json").is_none());
    }

    #[test]
    fn a_copy_that_is_broken_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let documents = Documents::default();
        documents.expect(Some(folder.path().to_owned()), BTreeSet::new());
        documents.put("http://h/a.json", copy("{}"));
        let path = file_of(&folder.path().join(FOLDER), "http://h/a.json");
        std::fs::write(path, "{").unwrap();
        let later = Documents::default();
        later.expect(Some(folder.path().to_owned()), BTreeSet::new());
        assert!(later.get("http://h/a.json").is_none());
    }

    #[test]
    fn a_problem_is_told_once_and_until_it_is_gone() {
        let documents = Documents::default();
        assert!(documents.fail("http://h/a.json", "no"));
        assert!(!documents.fail("http://h/a.json", "no"));
        documents.put("http://h/a.json", copy("{}"));
        assert!(documents.problems().is_empty());
    }
}
