//! What an operator does with an embedded store from outside, also while gateways use it: a copy, and a check.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use super::database::BUSY_TIMEOUT;
use super::{checksum, place};
use crate::store::engine::{RecordKey, RecordKind};

/// Why a store can't be copied or checked.
#[derive(Debug, thiserror::Error)]
pub enum InspectError {
    /// There is no store.
    #[error("there is no store in {}", .0.display())]
    Missing(PathBuf),
    /// The database can't be read, or the copy not written.
    #[error("the store can't be read, or the copy can't be written: {0}")]
    Database(#[from] rusqlite::Error),
    /// The copy can't be made; nothing is overwritten.
    #[error("{} can't be written: {source}", path.display())]
    Copy {
        /// The copy.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

/// Copies the store in a directory to a new file, as it is at one moment, and tells its bytes. The copy is of use with
/// the store's key only.
pub fn backup(directory: &Path, to: &Path) -> Result<u64, InspectError> {
    let refused = |source| InspectError::Copy { path: to.to_owned(), source };
    let connection = open(directory)?;
    // What SQLite fills is an empty file that nobody else can read.
    let copy = File::options().write(true).create_new(true).mode(0o600).open(to).map_err(refused)?;
    let name = to.to_str().ok_or(io::ErrorKind::InvalidFilename.into()).map_err(refused);
    let copied = name
        .and_then(|name| Ok(connection.execute("VACUUM INTO ?1", [name])?))
        .and_then(|_| kept(&copy, to).map_err(refused));
    if copied.is_err() {
        // Half a copy is worse than none, and would be in the way of the next.
        let _ = fs::remove_file(to);
    }
    copied
}

/// Has the disk keep a new file, and its name.
fn kept(copy: &File, to: &Path) -> io::Result<u64> {
    copy.sync_all()?;
    let directory = to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(directory)?.sync_all()?;
    Ok(copy.metadata()?.len())
}

/// Looks for damage in the store in a directory, and returns a sentence for each one.
pub fn check(directory: &Path) -> Result<Vec<String>, InspectError> {
    let connection = open(directory)?;
    let transaction = connection.unchecked_transaction()?;
    let mut problems = Vec::new();
    let mut structure = transaction.prepare("PRAGMA integrity_check(10)")?;
    let found = structure.query_map([], |row| row.get::<_, String>(0))?.collect::<Result<Vec<_>, _>>()?;
    problems.extend(found.into_iter().filter(|found| found != "ok").map(|found| format!("the database: {found}")));
    for (what, bad) in [("news items", items(&transaction)?), ("records", records(&transaction)?)] {
        if bad > 0 {
            problems.push(format!("{bad} {what} are not what was written"));
        }
    }
    let late = "SELECT count(*) FROM feed WHERE last < (SELECT max(timestamp) FROM item WHERE item.feed = feed.id)";
    let late: u64 = transaction.query_row(late, [], |row| row.get(0))?;
    if late > 0 {
        problems.push(format!("{late} feeds have items above their last timestamp"));
    }
    Ok(problems)
}

fn open(directory: &Path) -> Result<Connection, InspectError> {
    let path = directory.join(place::DATABASE);
    if !path.exists() {
        return Err(InspectError::Missing(directory.to_owned()));
    }
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    Ok(connection)
}

fn items(connection: &Connection) -> Result<usize, rusqlite::Error> {
    let mut statement = connection.prepare("SELECT feed, timestamp, checksum, json FROM item")?;
    let mut rows = statement.query([])?;
    let mut bad = 0;
    while let Some(row) = rows.next()? {
        let (feed, timestamp, written): (_, _, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        bad += usize::from(written != checksum::of_item(feed, timestamp, row.get_ref(3)?.as_blob()?));
    }
    Ok(bad)
}

fn records(connection: &Connection) -> Result<usize, rusqlite::Error> {
    let mut statement = connection.prepare("SELECT kind, hash, version, checksum, body FROM record")?;
    let mut rows = statement.query([])?;
    let mut bad = 0;
    while let Some(row) = rows.next()? {
        let kind: u8 = row.get(0)?;
        let kinds = [RecordKind::Conversation, RecordKind::Answer, RecordKind::Query, RecordKind::Follow];
        let (hash, version, written): (_, _, i64) = (row.get(1)?, row.get(2)?, row.get(3)?);
        let body = row.get_ref(4)?.as_blob()?;
        let is_whole = kinds
            .into_iter()
            .find(|known| *known as u8 == kind)
            .is_some_and(|kind| written == checksum::of_record(RecordKey { kind, hash }, version, body));
        bad += usize::from(!is_whole);
    }
    Ok(bad)
}
