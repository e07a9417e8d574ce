//! Signing keys on disk: made once, never overwritten, two while they are rotated.
//!
//! An agent's key is a file `AGENT.ed25519.jwk.json`, which its owner alone may read. While keys are rotated the one
//! before it lies beside it (`….previous.jwk.json`), or the one after it (`….next.jwk.json`). Whatever is done to them
//! is done so that a reader finds a whole key at every moment.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::rand::{GetRandomFlags, getrandom};

use crate::signature::{InvalidSigningKey, KeySet, SigningKey};

/// Bytes of a key file that are read; one has 200 or so.
const FILE_MAX: u64 = 16 * 1024;

/// The key files of one agent.
#[derive(Debug, Clone)]
pub struct Keyring {
    directory: PathBuf,
    name: String,
}

/// The keys that an agent has now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Held {
    current: Option<SigningKey>,
    previous: Option<SigningKey>,
    next: Option<SigningKey>,
}

/// Why keys can't be read or made.
#[derive(Debug, thiserror::Error)]
pub enum KeyringError {
    /// The file holds something else. It is never replaced.
    #[error("{path}: {problem}; it is never replaced: move it away if it is of no use", path = .0.display(), problem = .1)]
    Invalid(PathBuf, InvalidSigningKey),
    /// There is a key already.
    #[error("{path} is there already: keys are made once; `keys rotate` makes the next one", path = .0.display())]
    Exists(PathBuf),
    /// There is nothing to rotate.
    #[error("there is no key to rotate: `keys new` makes the first one")]
    Nothing,
    /// The last rotation is not over.
    #[error("{path} is still used: two keys are the most that an agent has; once all who check its signatures have read \
             the new key set, end the rotation with `keys rotate --finish`", path = .0.display())]
    Rotating(PathBuf),
    /// The next key lies ready.
    #[error("{path} is there already: `keys rotate` puts it to use", path = .0.display())]
    Staged(PathBuf),
    /// There is no rotation.
    #[error("no rotation is under way: there is no {path}", path = .0.display())]
    NotRotating(PathBuf),
    /// The system.
    #[error("{path}: {error}", path = .0.display(), error = .1)]
    System(PathBuf, io::Error),
}

impl Keyring {
    /// The files of the agent of this key of gateway.yaml, in this directory.
    pub fn new(directory: &Path, agent: &str) -> Self {
        Self { directory: directory.to_owned(), name: percent_encoding::utf8_percent_encode(agent, &NAME).to_string() }
    }

    /// The keys; none where there are no files.
    pub fn read(&self) -> Result<Held, KeyringError> {
        let next = read(&self.next())?;
        let (current, previous) = (read(&self.current())?, read(&self.previous())?);
        // Between the two steps of a rotation a key stands under two names.
        let previous = previous.filter(|previous| Some(previous) != current.as_ref());
        let next = next.filter(|next| Some(next) != current.as_ref());
        Ok(Held { current, previous, next })
    }

    /// Makes the first key.
    pub fn make(&self) -> Result<Held, KeyringError> {
        write_new(&self.current(), &random_key(&self.directory)?)?;
        self.read()
    }

    /// The keys, of which the first is made if there is none. Of two processes that do so one makes it, and both use it.
    pub fn read_or_make(&self) -> Result<Held, KeyringError> {
        let held = self.read()?;
        if held.current.is_some() {
            return Ok(held);
        }
        match self.make() {
            Err(KeyringError::Exists(_)) => self.read(),
            made => made,
        }
    }

    /// Makes the next key, which is published and does not sign yet.
    pub fn stage(&self) -> Result<Held, KeyringError> {
        let held = self.not_rotating()?;
        if held.next.is_some() {
            return Err(KeyringError::Staged(self.next()));
        }
        write_new(&self.next(), &random_key(&self.directory)?)?;
        self.read()
    }

    /// Puts the next key to use, which is made if none lies ready; the one before it signs beside it.
    pub fn rotate(&self) -> Result<Held, KeyringError> {
        let held = self.not_rotating()?;
        if held.next.is_none() {
            write_new(&self.next(), &random_key(&self.directory)?)?;
        }
        match fs::hard_link(self.current(), self.previous()) {
            // A rotation that was cut here goes on.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            linked => linked.map_err(|error| KeyringError::System(self.previous(), error))?,
        }
        fs::rename(self.next(), self.current()).map_err(|error| KeyringError::System(self.current(), error))?;
        sync(&self.directory)?;
        self.read()
    }

    /// Ends a rotation: the key before the current one is deleted.
    pub fn finish(&self) -> Result<Held, KeyringError> {
        if self.read()?.previous.is_none() {
            return Err(KeyringError::NotRotating(self.previous()));
        }
        fs::remove_file(self.previous()).map_err(|error| KeyringError::System(self.previous(), error))?;
        self.read()
    }

    /// Every file that may be there.
    pub fn files(&self) -> [PathBuf; 3] {
        [self.current(), self.previous(), self.next()]
    }

    /// Where the key is that signs.
    pub fn current(&self) -> PathBuf {
        self.file("")
    }

    fn previous(&self) -> PathBuf {
        self.file(".previous")
    }

    fn next(&self) -> PathBuf {
        self.file(".next")
    }

    fn file(&self, kind: &str) -> PathBuf {
        self.directory.join(format!("{}.ed25519{kind}.jwk.json", self.name))
    }

    fn not_rotating(&self) -> Result<Held, KeyringError> {
        let held = self.read()?;
        match held {
            Held { current: None, .. } => Err(KeyringError::Nothing),
            Held { previous: Some(_), .. } => Err(KeyringError::Rotating(self.previous())),
            held => Ok(held),
        }
    }
}

impl Held {
    /// Those that sign, the current one first.
    pub fn signing(&self) -> Vec<SigningKey> {
        self.current.iter().chain(&self.previous).cloned().collect()
    }

    /// Those that are published, the current one first.
    pub fn published(&self) -> Vec<SigningKey> {
        self.current.iter().chain(&self.previous).chain(&self.next).cloned().collect()
    }

    /// What is published.
    pub fn key_set(&self) -> KeySet {
        KeySet::of(self.published().iter().map(|key| key.public().clone()))
    }

    /// Each with what it is: `current`, `previous` or `next`.
    pub fn named(&self) -> Vec<(&'static str, SigningKey)> {
        [("current", &self.current), ("previous", &self.previous), ("next", &self.next)]
            .into_iter()
            .filter_map(|(name, key)| Some((name, key.clone()?)))
            .collect()
    }

    /// Whether there is no key that signs.
    pub fn is_empty(&self) -> bool {
        self.current.is_none()
    }
}

/// What stands in a file's name as it is: nothing that leads to another directory or to the name of another kind of key.
const NAME: percent_encoding::AsciiSet = percent_encoding::NON_ALPHANUMERIC.remove(b'-').remove(b'_');

fn read(path: &Path) -> Result<Option<SigningKey>, KeyringError> {
    let failed = |error| KeyringError::System(path.to_owned(), error);
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(failed)?,
    };
    let mut text = String::new();
    match file.take(FILE_MAX).read_to_string(&mut text) {
        Err(error) if error.kind() != io::ErrorKind::InvalidData => Err(failed(error)),
        // What is no text is no key either.
        _ => SigningKey::parse(&text).map(Some).map_err(|error| KeyringError::Invalid(path.to_owned(), error)),
    }
}

fn random_key(directory: &Path) -> Result<SigningKey, KeyringError> {
    let failed = |error| KeyringError::System(directory.to_owned(), error);
    let mut seed = [0; 32];
    let filled = getrandom(&mut seed, GetRandomFlags::empty()).map_err(|error| failed(error.into()))?;
    if filled != seed.len() {
        return Err(failed(io::ErrorKind::UnexpectedEof.into()));
    }
    SigningKey::from_seed(seed).map_err(|error| KeyringError::Invalid(directory.to_owned(), error))
}

/// Writes a file that is not there yet: whole, for the owner alone, and for good.
fn write_new(path: &Path, key: &SigningKey) -> Result<(), KeyringError> {
    let failed = |error| KeyringError::System(path.to_owned(), error);
    let directory = path.parent().unwrap_or(Path::new("."));
    DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
    let draft = directory.join(format!(".{}.jwk.json", uuid::Uuid::new_v4()));
    let written = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft).and_then(|mut file| {
        file.write_all(key.to_file().as_bytes())?;
        file.sync_all()
    });
    // A link, not a rename: it takes no other file's place.
    let linked = written.and_then(|()| fs::hard_link(&draft, path));
    let removed = fs::remove_file(&draft);
    match linked {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(KeyringError::Exists(path.to_owned()));
        }
        linked => linked.and(removed).map_err(failed)?,
    }
    sync(directory)
}

fn sync(directory: &Path) -> Result<(), KeyringError> {
    File::open(directory)
        .and_then(|directory| directory.sync_all())
        .map_err(|error| KeyringError::System(directory.to_owned(), error))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn names(held: &Held) -> Vec<&'static str> {
        held.named().iter().map(|(name, _)| *name).collect()
    }

    #[test]
    fn a_key_is_made_once_for_its_owner_alone() {
        let directory = tempfile::tempdir().unwrap();
        let keys = directory.path().join("deep/keys");
        let keyring = Keyring::new(&keys, "billing");
        assert!(keyring.read().unwrap().is_empty());
        let held = keyring.read_or_make().unwrap();
        assert_eq!(keyring.read_or_make().unwrap(), held);
        assert!(matches!(keyring.make(), Err(KeyringError::Exists(_))));
        assert_eq!(Keyring::new(&keys, "billing").read().unwrap(), held);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&keys.join("billing.ed25519.jwk.json")), 0o600);
        assert_eq!(mode(&keys), 0o700);
        assert_eq!(fs::read_dir(&keys).unwrap().count(), 1);
    }

    #[test]
    fn two_keys_sign_while_they_are_rotated_and_never_three() {
        let directory = tempfile::tempdir().unwrap();
        let keyring = Keyring::new(directory.path(), "agent");
        assert!(matches!(keyring.rotate(), Err(KeyringError::Nothing)));
        let first = keyring.make().unwrap();
        let rotated = keyring.rotate().unwrap();
        assert_eq!(names(&rotated), ["current", "previous"]);
        assert_eq!(rotated.signing()[1..], first.signing());
        assert!(matches!(keyring.rotate(), Err(KeyringError::Rotating(_))));
        assert!(matches!(keyring.stage(), Err(KeyringError::Rotating(_))));
        let finished = keyring.finish().unwrap();
        assert_eq!(finished.signing(), rotated.signing()[..1]);
        assert!(matches!(keyring.finish(), Err(KeyringError::NotRotating(_))));
        assert_eq!(names(&keyring.rotate().unwrap()), ["current", "previous"]);
    }

    #[test]
    fn a_key_can_be_published_before_it_signs() {
        let directory = tempfile::tempdir().unwrap();
        let keyring = Keyring::new(directory.path(), "agent");
        let first = keyring.make().unwrap();
        let staged = keyring.stage().unwrap();
        assert_eq!(names(&staged), ["current", "next"]);
        assert_eq!(staged.signing(), first.signing());
        assert!(matches!(keyring.stage(), Err(KeyringError::Staged(_))));
        let rotated = keyring.rotate().unwrap();
        assert_eq!(names(&rotated), ["current", "previous"]);
        assert_eq!(rotated.signing()[0], staged.published()[1]);
        assert_eq!(rotated.signing()[1..], first.signing());
    }

    #[test]
    fn a_rotation_that_was_cut_goes_on() {
        let directory = tempfile::tempdir().unwrap();
        let keyring = Keyring::new(directory.path(), "agent");
        let first = keyring.make().unwrap();
        fs::hard_link(keyring.current(), keyring.previous()).unwrap();
        assert_eq!(keyring.read().unwrap(), first);
        let rotated = keyring.rotate().unwrap();
        assert_eq!(rotated.signing()[1..], first.signing());
    }

    #[test]
    fn what_is_no_key_is_never_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let keyring = Keyring::new(directory.path(), "agent");
        for text in [&b""[..], b"{}", b"\xff\xff", b"secret text"] {
            fs::write(keyring.current(), text).unwrap();
            let error = keyring.read_or_make().unwrap_err().to_string();
            assert!(error.contains("agent.ed25519.jwk.json") && !error.contains("secret text"), "{error}");
            assert!(matches!(keyring.make(), Err(KeyringError::Exists(_))));
            assert_eq!(fs::read(keyring.current()).unwrap(), text);
        }
    }

    #[test]
    fn no_agents_name_leads_elsewhere() {
        for (agent, file) in [
            ("a", "keys/a.ed25519.jwk.json"),
            ("../a", "keys/%2E%2E%2Fa.ed25519.jwk.json"),
            ("a.ed25519.previous", "keys/a%2Eed25519%2Eprevious.ed25519.jwk.json"),
        ] {
            assert_eq!(Keyring::new(Path::new("keys"), agent).current(), Path::new(file));
        }
    }

    #[test]
    fn of_many_that_make_the_first_key_one_does_and_all_use_it() {
        let directory = tempfile::tempdir().unwrap();
        let made: Vec<Held> = std::thread::scope(|scope| {
            let make = || Keyring::new(directory.path(), "agent").read_or_make().unwrap();
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(make)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(made.iter().all(|held| *held == made[0]));
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
