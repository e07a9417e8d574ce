//! `Sources`: the files that a configuration was read from, and whether they are still the same.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// A larger file that is part of a configuration is compared by its size and times alone.
const COMPARED_MAX: u64 = 8 << 20;

/// How exactly systems tell when a file was changed: a change in this time before a reading may have missed it.
const GRANULARITY: Duration = Duration::from_millis(50);

/// What a configuration was read from. A change of any of it is a reason to read it again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sources {
    /// The file itself and what it includes.
    documents: Vec<PathBuf>,
    /// Patterns of `include:`, whose new files belong to the configuration.
    patterns: Vec<String>,
    /// Secrets, certificates, schemas and the like, and a digest of what they held.
    parts: BTreeMap<PathBuf, Option<[u8; 32]>>,
}

/// How the files of some [`Sources`] look from outside.
#[derive(Debug, PartialEq, Eq)]
pub struct Look {
    files: Vec<(PathBuf, Option<Seen>)>,
}

/// What a change of a file changes. A link is followed, so that one that is set to another file is another file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Sources {
    pub(super) fn new(documents: Vec<PathBuf>, patterns: Vec<String>, parts: Vec<PathBuf>) -> Self {
        let parts = parts.into_iter().map(|path| (path.clone(), digest(&path))).collect();
        Self { documents, patterns, parts }
    }

    /// Every file, the configuration itself first.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.documents.iter().chain(self.parts.keys()).map(PathBuf::as_path)
    }

    /// The secrets, certificates and other parts that hold something else than they did in `before`. What is only in
    /// one of the two is none of them: a configuration that names other files is another one anyway.
    pub fn parts_changed_since(&self, before: &Self) -> Vec<PathBuf> {
        let changed =
            |path: &PathBuf, digest: &Option<[u8; 32]>| before.parts.get(path).is_some_and(|was| was != digest);
        self.parts.iter().filter(|(path, digest)| changed(path, digest)).map(|(path, _)| path.clone()).collect()
    }

    /// How the files look now.
    pub fn look(&self) -> Look {
        let listed = self.files().map(Path::to_owned);
        let found =
            self.patterns.iter().filter_map(|pattern| glob::glob(pattern).ok()).flatten().filter_map(Result::ok);
        let mut paths: Vec<PathBuf> = listed.chain(found).collect();
        paths.sort();
        paths.dedup();
        let files = paths.into_iter().map(|path| {
            let seen = std::fs::metadata(&path).ok().map(|file| Seen::of(&file));
            (path, seen)
        });
        Look { files: files.collect() }
    }
}

impl Look {
    /// Whether a file may have changed after this moment, so that a reading that began then may have missed it.
    pub fn is_newer_than(&self, moment: SystemTime) -> bool {
        let since = moment.checked_sub(GRANULARITY).unwrap_or(moment).duration_since(SystemTime::UNIX_EPOCH);
        let since = since.unwrap_or_default();
        let since = (i64::try_from(since.as_secs()).unwrap_or(i64::MAX), i64::from(since.subsec_nanos()));
        self.files.iter().any(|(_, seen)| seen.is_some_and(|seen| seen.changed > since))
    }
}

impl Seen {
    fn of(file: &std::fs::Metadata) -> Self {
        Self {
            device: file.dev(),
            inode: file.ino(),
            size: file.size(),
            modified: (file.mtime(), file.mtime_nsec()),
            changed: (file.ctime(), file.ctime_nsec()),
        }
    }
}

/// `None` for a file that is not there or that nobody compares by its content.
fn digest(path: &Path) -> Option<[u8; 32]> {
    let file = std::fs::metadata(path).ok()?;
    if !file.is_file() {
        return None;
    }
    if file.len() > COMPARED_MAX {
        let seen = format!("{:?}", Seen::of(&file));
        return Some(*blake3::hash(seen.as_bytes()).as_bytes());
    }
    Some(*blake3::hash(&std::fs::read(path).ok()?).as_bytes())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn every_way_to_change_a_file_is_seen() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::write(at("real"), "one").unwrap();
        symlink("real", at("link")).unwrap();
        let sources = Sources::new(vec![at("link")], vec![at("*.yaml").display().to_string()], vec![at("secret")]);
        let mut last = sources.look();
        assert_eq!(sources.look(), last);
        let changes: [&dyn Fn(); 6] = [
            &|| fs::write(at("real"), "three").unwrap(),
            &|| {
                fs::write(at("new"), "three").unwrap();
                fs::rename(at("new"), at("real")).unwrap();
            },
            &|| {
                fs::write(at("other"), "three").unwrap();
                symlink("other", at("link.new")).unwrap();
                fs::rename(at("link.new"), at("link")).unwrap();
            },
            &|| fs::write(at("a.yaml"), "").unwrap(),
            &|| fs::write(at("secret"), "s").unwrap(),
            &|| fs::remove_file(at("other")).unwrap(),
        ];
        for (number, change) in changes.iter().enumerate() {
            change();
            let now = sources.look();
            assert_ne!(now, last, "change {number}");
            last = now;
        }
    }

    #[test]
    fn a_part_that_holds_something_else_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::write(at("kept"), "one").unwrap();
        fs::write(at("changed"), "one").unwrap();
        let sources = || Sources::new(Vec::new(), Vec::new(), vec![at("kept"), at("changed"), at("absent")]);
        let before = sources();
        fs::write(at("changed"), "two").unwrap();
        fs::write(at("kept"), "one").unwrap();
        assert_eq!(sources().parts_changed_since(&before), [at("changed")]);
    }

    #[test]
    fn a_change_just_before_a_reading_may_have_been_missed() {
        let directory = tempfile::tempdir().unwrap();
        let began = SystemTime::now();
        fs::write(directory.path().join("f"), "").unwrap();
        let look = Sources::new(vec![directory.path().join("f")], Vec::new(), Vec::new()).look();
        assert!(look.is_newer_than(began));
        assert!(!look.is_newer_than(SystemTime::now() + Duration::from_secs(1)));
    }
}
