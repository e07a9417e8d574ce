//! The database file: how a connection is set up, and the schema with its versions.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, OptionalExtension as _, TransactionBehavior};

use super::fault::{Fault, FaultKind};
use crate::store::keys::{Hash, Keys};

/// `application_id`, so that `file` and we know the database: "rgst".
const APPLICATION_ID: i32 = 0x7267_7374;

/// Every version's step from the one before. A released step is never changed.
const MIGRATIONS: &[&str] = &[include_str!("schema.sql"), include_str!("rates.sql")];

/// How long a statement waits for another process.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Free pages that are kept for what comes next.
const FREE_PAGES: usize = 1024;

/// Statements that stay compiled.
const STATEMENTS: usize = 64;

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// The one that writes.
    Writer,
    /// One of those that read pages and move the log into the database.
    Reader,
}

/// Why a file is no database of ours.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unusable {
    #[error(transparent)]
    Fault(#[from] Fault),
    #[error("it is the database of another program; move it away, or set store.embedded.path to another directory")]
    Foreign,
    #[error("a newer version of restap-gateway has written it; run that version, or move the data away")]
    Newer,
    #[error("it was made with another key; use that one, or move the data away to begin anew")]
    OtherKey,
}

impl From<rusqlite::Error> for Unusable {
    fn from(error: rusqlite::Error) -> Self {
        Self::Fault(error.into())
    }
}

impl Unusable {
    /// Whether only the disk is full.
    pub(super) fn for_want_of_room(&self) -> bool {
        matches!(self, Self::Fault(fault) if fault.kind == FaultKind::Full)
    }
}

/// Opens a connection to a file that exists.
pub(super) fn connect(path: &Path, role: Role) -> Result<Connection, Fault> {
    // A connection stays with its thread, so SQLite need not lock it.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    // Only a file without pages takes this, and on any other it would be a write.
    if connection.pragma_query_value(None, "page_count", |row| row.get::<_, u64>(0))? == 0 {
        connection.execute_batch("PRAGMA auto_vacuum = INCREMENTAL")?;
    }
    connection.execute_batch("PRAGMA journal_mode = WAL; PRAGMA temp_store = MEMORY")?;
    connection.execute_batch(match role {
        // The log is moved by a reader, early and in passing; the writer's own limit is for when that is stuck.
        Role::Writer => {
            "PRAGMA synchronous = FULL; PRAGMA cache_size = -4000; PRAGMA wal_autocheckpoint = 2000;
             PRAGMA journal_size_limit = 67108864;"
        }
        Role::Reader => {
            "PRAGMA synchronous = FULL; PRAGMA cache_size = -1000; PRAGMA wal_autocheckpoint = 0;
             PRAGMA query_only = ON;"
        }
    })?;
    Ok(connection)
}

/// Brings the schema to our version, and refuses a database that is not ours or was made with another key.
pub(super) fn migrate(connection: &mut Connection, keys: &Keys) -> Result<(), Unusable> {
    let number = |connection: &Connection, pragma| connection.pragma_query_value(None, pragma, |row| row.get(0));
    let application: i32 = number(connection, "application_id")?;
    let version = number(connection, "user_version")?;
    if application != APPLICATION_ID && !(application == 0 && version == 0 && is_empty(connection)?) {
        return Err(Unusable::Foreign);
    }
    let steps = usize::try_from(version).ok().and_then(|version| MIGRATIONS.get(version..)).ok_or(Unusable::Newer)?;
    if !steps.is_empty() {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for step in steps {
            transaction.execute_batch(step)?;
        }
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", MIGRATIONS.len())?;
        transaction
            .execute("INSERT INTO meta(name, value) VALUES ('key', ?1) ON CONFLICT DO NOTHING", [keys.fingerprint()])?;
        transaction.commit()?;
    }
    let key: Option<Hash> =
        connection.query_row("SELECT value FROM meta WHERE name = 'key'", [], |row| row.get(0)).optional()?;
    if key == Some(keys.fingerprint()) { Ok(()) } else { Err(Unusable::OtherKey) }
}

/// How many feeds there are.
pub(super) fn feeds(connection: &Connection) -> Result<u64, Fault> {
    Ok(connection.prepare_cached("SELECT coalesce(sum(feeds), 0) FROM agent")?.query_row([], |row| row.get(0))?)
}

/// Bytes of all items.
pub(super) fn item_bytes(connection: &Connection) -> Result<u64, Fault> {
    Ok(connection.prepare_cached("SELECT coalesce(sum(bytes), 0) FROM agent")?.query_row([], |row| row.get(0))?)
}

/// Gives up to so many pages that are free within the database back to the disk, once they are a good part of it.
pub(super) fn shrink(connection: &Connection, pages: usize) -> Result<(), Fault> {
    let number = |pragma| connection.pragma_query_value(None, pragma, |row| row.get::<_, usize>(0));
    let (free, all) = (number("freelist_count")?, number("page_count")?);
    if free > FREE_PAGES && free > all / 4 {
        let mut vacuum = connection.prepare(&format!("PRAGMA incremental_vacuum({pages})"))?;
        let mut freed = vacuum.query([])?;
        while freed.next()?.is_some() {}
    }
    Ok(())
}

fn is_empty(connection: &Connection) -> Result<bool, Fault> {
    Ok(connection.query_row("SELECT count(*) = 0 FROM sqlite_schema", [], |row| row.get(0))?)
}
