//! `Place`: the directory of an embedded store, who may use it, and the files that are no database.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{Access, FallocateFlags};

use crate::store::OpenError;
use crate::store::keys::Keys;
use crate::yaml::Secret;

/// The database's file in a store's directory.
pub const DATABASE: &str = "store.db";

/// The key's file beside it, where gateway.yaml has none.
pub const KEY: &str = "store.key";

const RESERVE: &str = "store.reserve";

/// Processes that may hold one store: one that serves, and one that takes over from it.
const SLOTS: [&str; 2] = ["store.1.lock", "store.2.lock"];

/// Bytes of a slot's name of its holder.
const HOLDER_BYTES: u64 = 256;

/// How long another process may take to open the store, and how often it is asked.
const LOCK_WAIT: Duration = Duration::from_secs(10);
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// Given back to a full disk: the log fits into the database then, and retention has room to work in.
const RESERVE_BYTES: u64 = 16 << 20;

/// Free bytes without which a disk is full.
const SPARE_BYTES: u64 = 4 << 20;

/// A directory that is ours to use, until this is dropped or the process ends.
#[derive(Debug)]
pub(super) struct Place {
    path: PathBuf,
    /// Locked as long as it is open.
    _slot: File,
    had_reserve: AtomicBool,
}

impl Place {
    /// Makes the directory if it is not there, and refuses one where a store can't be safe or that is in use.
    pub(super) fn take(path: &Path) -> Result<Self, OpenError> {
        let refused = |source| OpenError::directory(path, source);
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(refused)?;
        let path = path.canonicalize().map_err(refused)?;
        if let Some(kind) = network_filesystem(&path).map_err(refused)? {
            return Err(OpenError::NetworkFilesystem { path, kind });
        }
        Ok(Self { _slot: slot(&path)?, path, had_reserve: AtomicBool::new(false) })
    }

    /// Makes the steps of opening those of one process at a time: two that start at once make one key and one
    /// database. It ends when the lock is dropped.
    pub(super) fn lock(&self) -> Result<File, OpenError> {
        let refused = |source| OpenError::directory(&self.path, source);
        let directory = File::open(&self.path).map_err(refused)?;
        let begun = Instant::now();
        loop {
            match directory.try_lock() {
                Ok(()) => return Ok(directory),
                Err(TryLockError::WouldBlock) if begun.elapsed() < LOCK_WAIT => thread::sleep(LOCK_PAUSE),
                Err(error) => return Err(refused(error.into())),
            }
        }
    }

    /// Where the database is.
    pub(super) fn database(&self) -> PathBuf {
        self.path.join(DATABASE)
    }

    /// Which file the database is now: it may be deleted, or another one put in its place.
    pub(super) fn database_file(&self) -> Option<(u64, u64)> {
        fs::metadata(self.database()).ok().map(|file| (file.dev(), file.ino()))
    }

    /// Makes the database's file if it is not there, and sees that it may be used. One that is there is not opened:
    /// closing it again would end the locks that SQLite has on it in this process.
    pub(super) fn prepare_database(&self) -> Result<PathBuf, OpenError> {
        let path = self.database();
        let prepared = match private().create_new(true).open(&path) {
            Ok(_) => self.sync(),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                rustix::fs::access(&path, Access::READ_OK | Access::WRITE_OK).map_err(Into::into)
            }
            Err(error) => Err(error),
        };
        prepared.map_err(|source| OpenError::directory(&path, source))?;
        Ok(path)
    }

    /// The key of gateway.yaml, else the one beside the data, else, for a store that is new, one that is made now.
    pub(super) fn keys(&self, key: Option<&Secret>) -> Result<Keys, OpenError> {
        if let Some(key) = key {
            return Ok(Keys::parse(key)?);
        }
        let path = self.path.join(KEY);
        match fs::read_to_string(&path) {
            Ok(text) => Keys::parse(&Secret::new(text)).map_err(|source| OpenError::KeyFile { path, source }),
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(OpenError::directory(&path, error)),
            Err(_) if fs::metadata(self.database()).is_ok_and(|file| file.len() > 0) => {
                Err(OpenError::KeyMissing { path })
            }
            Err(_) => self.make_keys(&path).map_err(|source| OpenError::directory(&path, source)),
        }
    }

    /// Whole or not at all: a key that is half written would make the store unreadable for ever.
    fn make_keys(&self, path: &Path) -> io::Result<Keys> {
        let keys = Keys::random()?;
        let new = path.with_extension("key.new");
        let mut file = private().truncate(true).open(&new)?;
        writeln!(file, "{}", keys.to_secret().expose())?;
        file.sync_all()?;
        fs::rename(&new, path)?;
        self.sync()?;
        Ok(keys)
    }

    fn sync(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }

    /// Keeps some bytes of the disk back; false if there is no room for that. On a disk so small that there never was
    /// a reserve, room for a few changes is enough.
    pub(super) fn take_reserve(&self) -> io::Result<bool> {
        let path = self.path.join(RESERVE);
        if path.exists() {
            return Ok(true);
        }
        let free = free_bytes(&self.path)?;
        if free < RESERVE_BYTES + SPARE_BYTES {
            return Ok(free >= SPARE_BYTES && !self.had_reserve.load(Ordering::Relaxed));
        }
        let file = private().open(&path)?;
        // A file with holes would reserve nothing, so where blocks can't be had ahead there is no reserve.
        if rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, RESERVE_BYTES).is_err() {
            fs::remove_file(&path)?;
        }
        Ok(true)
    }

    /// Gives the kept bytes back to the disk, if there are any.
    pub(super) fn give_reserve(&self) {
        if fs::remove_file(self.path.join(RESERVE)).is_ok() {
            self.had_reserve.store(true, Ordering::Relaxed);
        }
    }
}

/// Takes one of the slots; an error names who has them.
fn slot(path: &Path) -> Result<File, OpenError> {
    let mut holders = Vec::new();
    for name in SLOTS {
        let slot = path.join(name);
        let refused = |source| OpenError::directory(&slot, source);
        let mut file = private().read(true).open(&slot).map_err(refused)?;
        match file.try_lock() {
            Ok(()) => {
                // On a full disk the slot is taken without a name.
                let _ = file.set_len(0).and_then(|()| write!(file, "{} (pid {})", program(), std::process::id()));
                return Ok(file);
            }
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                file.take(HOLDER_BYTES).read_to_string(&mut holder).map_err(refused)?;
                holders.push(if holder.is_empty() { "another process".to_owned() } else { holder });
            }
            Err(TryLockError::Error(source)) => return Err(refused(source)),
        }
    }
    Err(OpenError::InUse { path: path.to_owned(), holders: holders.join(" and ") })
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600);
    options
}

fn program() -> String {
    let name = std::env::current_exe().ok().and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    name.unwrap_or_else(|| env!("CARGO_PKG_NAME").to_owned())
}

fn free_bytes(path: &Path) -> io::Result<u64> {
    let disk = rustix::fs::statvfs(path)?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// The shared memory of a write-ahead log works on one machine's own disks only.
fn network_filesystem(path: &Path) -> io::Result<Option<&'static str>> {
    let magic = rustix::fs::statfs(path)?.f_type as u32;
    Ok(match magic {
        0x6969 => Some("NFS"),
        0x517B | 0xFF53_4D42 | 0xFE53_4D42 => Some("SMB"),
        0x0102_1997 => Some("9p"),
        _ => None,
    })
}
