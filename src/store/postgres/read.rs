//! Reads: each is one statement, and so one snapshot.

use bytes::Bytes;
use tokio_postgres::types::Type;

use super::{Param, Shared, column, hash, int, unreadable};
use crate::store::StoreError;
use crate::store::engine::{EnginePage, ItemPlace, PageRead, Position, Reader, Record, RecordKey, StoredItem};
use crate::store::keys::CallerId;
use crate::store::shared::PAGE_BYTES_MAX;

pub(super) async fn page(shared: &Shared, read: &PageRead) -> Result<EnginePage, StoreError> {
    let (anybody, caller) = match read.reader {
        Reader::Agent => (true, None),
        Reader::Caller(caller) => (false, caller),
    };
    let caller = caller.as_ref().map(|CallerId(hash)| hash.as_slice());
    let (since, newest) = match read.from {
        Position::After(since) => (int(since), false),
        Position::Newest => (0, true),
    };
    let (limit, bytes) = (i64::from(read.limit), int(PAGE_BYTES_MAX as u64));
    let query = read.query.as_ref().map(|query| query.0.as_slice());
    let params: [Param<'_>; 9] = [
        (&read.feed.hash.as_slice(), Type::BYTEA),
        (&read.feed.agent.0.as_slice(), Type::BYTEA),
        (&anybody, Type::BOOL),
        (&caller, Type::BYTEA),
        (&since, Type::INT8),
        (&newest, Type::BOOL),
        (&limit, Type::INT8),
        (&query, Type::BYTEA),
        (&bytes, Type::INT8),
    ];
    let statement = "SELECT verdict, ts, answer, json, last, oldest, home
                     FROM restap.page($1, $2, $3, $4, $5, $6, $7, $8, $9)";
    let rows = shared.ask(statement, &params).await?;
    let (head, items) = rows.split_first().ok_or_else(unreadable)?;
    if column::<i32>(head, 0)? == 1 {
        return Err(StoreError::NotOwner);
    }
    let mut page = EnginePage {
        last: column::<i64>(head, 4)? as u64,
        oldest: column::<Option<i64>>(head, 5)?.map(|oldest| oldest as u64),
        ..EnginePage::default()
    };
    let home: Option<&[u8]> = column(head, 6)?;
    for row in items {
        if column::<i32>(row, 0)? == 2 {
            page.more = true;
            break;
        }
        let place = ItemPlace { feed: hash(home.ok_or_else(unreadable)?)?, timestamp: column::<i64>(row, 1)? as u64 };
        let json = Bytes::copy_from_slice(column(row, 3)?);
        page.items.push(StoredItem { place, answer: column(row, 2)?, json });
    }
    if newest {
        page.items.reverse();
    }
    Ok(page)
}

pub(super) async fn record(shared: &Shared, key: RecordKey) -> Result<Option<Record>, StoreError> {
    let given = shared.given();
    let kind = key.kind as i16;
    let params: [Param<'_>; 3] = [(&key.hash.as_slice(), Type::BYTEA), (&kind, Type::INT2), (&given, Type::INT8)];
    let statement = "SELECT version, body, item_feed, item_ts, expires_ms <= restap.now_ms($3) FROM restap.record
                     WHERE hash = $1 AND kind = $2";
    let rows = shared.ask(statement, &params).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let (feed, timestamp): (Option<&[u8]>, Option<i64>) = (column(row, 2)?, column(row, 3)?);
    let place = feed
        .zip(timestamp)
        .map(|(feed, timestamp)| hash(feed).map(|feed| ItemPlace { feed, timestamp: timestamp as u64 }));
    Ok(Some(Record {
        version: column::<i64>(row, 0)? as u64,
        body: Bytes::copy_from_slice(column(row, 1)?),
        item: place.transpose()?,
        expired: column(row, 4)?,
    }))
}

/// Bytes of all items, how far the newest timestamp lies ahead of the server's clock, and how many feeds there are.
pub(super) async fn facts(shared: &Shared) -> Result<(u64, u64, u64), StoreError> {
    let given = shared.given();
    let statement = "SELECT coalesce(sum(bytes), 0)::bigint, greatest(coalesce(max(newest), 0) - restap.now_ms($1), 0),
                     coalesce(sum(feeds), 0)::bigint FROM restap.agent";
    let rows = shared.ask(statement, &[(&given, Type::INT8)]).await?;
    let row = rows.first().ok_or_else(unreadable)?;
    Ok((column::<i64>(row, 0)? as u64, column::<i64>(row, 1)? as u64, column::<i64>(row, 2)? as u64))
}
