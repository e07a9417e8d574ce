//! `Fault`: what went wrong below SQL, and what that means for the store.

use rusqlite::ErrorCode as Code;
use rusqlite::ffi;

use crate::store::StoreError;

/// A failure of the engine, as opposed to a refusal.
#[derive(Debug, thiserror::Error)]
#[error("{problem}: {source}")]
pub(super) struct Fault {
    pub(super) kind: FaultKind,
    problem: &'static str,
    source: rusqlite::Error,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FaultKind {
    /// The disk has no room.
    Full,
    /// Another process writes for too long.
    Busy,
    /// The file is not what it was, or never was a store.
    Damaged,
    /// The disk or the file system failed or refuses to write; nothing that was not synced can be trusted.
    Disk,
}

impl From<rusqlite::Error> for Fault {
    fn from(source: rusqlite::Error) -> Self {
        let code = source.sqlite_error().map(|error| (error.code, error.extended_code));
        let (kind, problem) = match code {
            Some((Code::DiskFull, _) | (_, ffi::SQLITE_IOERR_SHMSIZE)) => (FaultKind::Full, "the disk is full"),
            Some((Code::DatabaseBusy | Code::DatabaseLocked, _)) => {
                (FaultKind::Busy, "another process has locked the database")
            }
            Some((_, ffi::SQLITE_READONLY_DBMOVED)) => (FaultKind::Disk, "the database is no longer in its place"),
            Some((Code::ReadOnly, _)) => (FaultKind::Disk, "the database can't be written"),
            Some((_, ffi::SQLITE_IOERR_FSYNC)) => (FaultKind::Disk, "the disk did not keep what was written"),
            Some((Code::SystemIoFailure | Code::CannotOpen, _)) => (FaultKind::Disk, "the disk failed"),
            // Without a code it is a value of another type or size than we write.
            Some((Code::DatabaseCorrupt | Code::NotADatabase, _)) | None => {
                (FaultKind::Damaged, "the database is damaged")
            }
            Some(_) => (FaultKind::Disk, "the database failed"),
        };
        Self { kind, problem, source }
    }
}

impl Fault {
    /// The database was deleted or moved away, which SQLite itself does not notice while it writes to its log.
    pub(super) fn moved() -> Self {
        rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_READONLY_DBMOVED), None).into()
    }

    /// What operators read.
    pub(super) fn advice(&self) -> String {
        match self.kind {
            FaultKind::Full => "the disk is full; free some space, reads go on meanwhile".to_owned(),
            FaultKind::Damaged => format!("{self}; stop the gateway and restore the last backup"),
            FaultKind::Busy | FaultKind::Disk => format!("{self}; it is tried again, reads go on meanwhile"),
        }
    }

    /// What callers get.
    pub(super) fn to_error(&self) -> StoreError {
        match self.kind {
            FaultKind::Full => StoreError::Full,
            FaultKind::Damaged => StoreError::Corrupt("the database".into()),
            FaultKind::Busy | FaultKind::Disk => StoreError::Unavailable(self.problem),
        }
    }
}

/// Why a change or a read came to nothing.
#[derive(Debug)]
pub(super) enum Failure {
    /// It may not be done; whatever else is in the transaction goes on.
    Refused(StoreError),
    /// It could not be done, nor anything else in the transaction.
    Broken(Fault),
}

impl From<StoreError> for Failure {
    fn from(refusal: StoreError) -> Self {
        Self::Refused(refusal)
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Self::Broken(fault)
    }
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Broken(error.into())
    }
}

impl Failure {
    /// What callers get.
    pub(super) fn into_error(self) -> StoreError {
        match self {
            Self::Refused(error) => error,
            Self::Broken(fault) => fault.to_error(),
        }
    }
}
