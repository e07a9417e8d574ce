//! `Line`: a connection that is made again whenever it is lost.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use tokio::sync::Notify;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error, Row};

use super::{AWAY, Param, Shared, schema};
use crate::store::StoreError;
use crate::store::shared::{Backoff, Problem};

/// Two transactions met, and this one has to be made again.
pub(super) const BUSY: StoreError = StoreError::Unavailable("PostgreSQL is busy");

#[derive(Default)]
pub(super) struct Line {
    client: ArcSwapOption<Client>,
    /// It is of no use any more, though nobody has closed it.
    renew: Notify,
}

impl Line {
    pub(super) fn client(&self) -> Option<Arc<Client>> {
        self.client.load_full().filter(|client| !client.is_closed())
    }

    pub(super) async fn ask(&self, statement: &str, params: &[Param<'_>]) -> Result<Vec<Row>, StoreError> {
        let client = self.client().ok_or(AWAY)?;
        client.query_typed(statement, params).await.map_err(|error| self.failed(&error))
    }

    /// What callers get.
    fn failed(&self, error: &Error) -> StoreError {
        let Some(code) = error.code() else { return AWAY };
        if *code == SqlState::DISK_FULL {
            return StoreError::Full;
        }
        if is_collision(code) {
            return BUSY;
        }
        if [SqlState::DATA_CORRUPTED, SqlState::INDEX_CORRUPTED].contains(code) {
            tracing::error!("store: PostgreSQL: {}", full(error));
            return StoreError::Corrupt("the database".into());
        }
        // After a fail-over the old primary is read-only; a database that was dropped or restored needs our tables again.
        let elsewhere = [
            SqlState::READ_ONLY_SQL_TRANSACTION,
            SqlState::ADMIN_SHUTDOWN,
            SqlState::CRASH_SHUTDOWN,
            SqlState::CANNOT_CONNECT_NOW,
            SqlState::UNDEFINED_FUNCTION,
            SqlState::UNDEFINED_TABLE,
            SqlState::INVALID_SCHEMA_NAME,
        ];
        if elsewhere.contains(code) {
            tracing::warn!("store: PostgreSQL: {}", full(error));
            self.renew.notify_one();
            return AWAY;
        }
        tracing::error!("store: PostgreSQL: {}", full(error));
        StoreError::Unavailable("PostgreSQL refuses a statement")
    }
}

fn is_collision(code: &SqlState) -> bool {
    [SqlState::T_R_DEADLOCK_DETECTED, SqlState::T_R_SERIALIZATION_FAILURE].contains(code)
}

/// Keeps a connection for as long as the engine is open.
pub(super) async fn keep(shared: Arc<Shared>, number: usize) {
    let Some(line) = shared.line(number) else { return };
    let mut backoff = Backoff::new();
    loop {
        let problem = match shared.target.connect(|_| {}).await {
            Ok((client, mut driver)) => match schema::admit(&client, &shared).await {
                Ok(()) => {
                    backoff.reset();
                    line.client.store(Some(Arc::new(client)));
                    shared.connected();
                    tokio::select! {
                        _ = &mut driver => {}
                        () = line.renew.notified() => driver.abort(),
                    }
                    line.client.store(None);
                    Problem::Away("the connection was lost; it is made again as soon as possible".into())
                }
                Err(problem) => problem,
            },
            Err(problem) => problem,
        };
        shared.lost(problem);
        backoff.wait().await;
    }
}

/// An error with its causes: the first sentence of the library alone says nothing.
pub(super) fn full(error: &Error) -> String {
    if let Some(error) = error.as_db_error() {
        return error.message().to_owned();
    }
    let causes = std::iter::successors(std::error::Error::source(error), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| {
        let cause = cause.to_string();
        if text.ends_with(&cause) { text } else { format!("{text}: {cause}") }
    })
}
