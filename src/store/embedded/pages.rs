//! Pages in SQL: reading a feed in one snapshot.

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::checksum;
use super::fault::{Failure, Fault};
use super::feeds::Feed;
use crate::store::StoreError;
use crate::store::engine::{EnginePage, ItemPlace, PageRead, Position, QueryAnswer, RecordKind, StoredItem};
use crate::store::keys::{AgentId, QueryKey};

/// Bytes of a page, which has at least one item. What lies beyond is `more`.
const PAGE_BYTES_MAX: usize = 8 << 20;

/// Reads a page. The connection has a transaction open, so all of it is one snapshot.
pub(super) fn page(connection: &Connection, read: &PageRead) -> Result<EnginePage, Failure> {
    let asked = Feed::find(connection, read.feed.hash)?;
    let may_read = |feed: &Feed| read.reader.may_read(feed.owner);
    asked.as_ref().map(may_read).transpose()?;
    let around = EnginePage {
        last: asked.as_ref().map_or(0, Feed::last),
        oldest: asked.as_ref().filter(|feed| !feed.is_empty()).map(Feed::first),
        ..EnginePage::default()
    };
    let (feed, wanted) = match read.query {
        None => (asked, Wanted::All),
        Some(query) => match answer(connection, query, read.feed.agent)? {
            QueryAnswer::Unknown => (asked, Wanted::Naming(query)),
            QueryAnswer::Nowhere => return Ok(around),
            QueryAnswer::At(place) => {
                let home = Feed::find(connection, place.feed)?;
                home.as_ref().map(may_read).transpose()?;
                (home, Wanted::At(place.timestamp))
            }
        },
    };
    let Some(feed) = feed.filter(|feed| !feed.is_empty()) else { return Ok(around) };
    let (items, more) = items(connection, &feed, read, wanted)?;
    Ok(EnginePage { items, more, ..around })
}

/// Which items of a feed.
#[derive(Clone, Copy)]
enum Wanted {
    All,
    Naming(QueryKey),
    At(u64),
}

macro_rules! select_items {
    ($which:literal) => {
        concat!("SELECT timestamp, answer, checksum, json FROM ", $which, " LIMIT ?3")
    };
}

/// Up to `limit` items in ascending order, and whether there are more in the direction read.
fn items(
    connection: &Connection,
    feed: &Feed,
    read: &PageRead,
    wanted: Wanted,
) -> Result<(Vec<StoredItem>, bool), Failure> {
    let (since, backwards) = match read.from {
        Position::After(since) => (since, false),
        Position::Newest => (0, true),
    };
    let above = since.max(feed.first().saturating_sub(1));
    if above >= feed.last() {
        return Ok((Vec::new(), false));
    }
    let sql = match (wanted, backwards) {
        (Wanted::All, false) => select_items!("item WHERE feed = ?1 AND timestamp > ?2 ORDER BY timestamp"),
        (Wanted::All, true) => select_items!("item WHERE feed = ?1 AND timestamp > ?2 ORDER BY timestamp DESC"),
        (Wanted::At(_), _) => select_items!("item WHERE feed = ?1 AND timestamp > ?2 AND timestamp = ?4"),
        (Wanted::Naming(_), false) => select_items!(
            "item_query CROSS JOIN item USING (feed, timestamp)
             WHERE feed = ?1 AND query = ?4 AND timestamp > ?2 ORDER BY timestamp"
        ),
        (Wanted::Naming(_), true) => select_items!(
            "item_query CROSS JOIN item USING (feed, timestamp)
             WHERE feed = ?1 AND query = ?4 AND timestamp > ?2 ORDER BY timestamp DESC"
        ),
    };
    let limit = read.limit as usize;
    let mut statement = connection.prepare_cached(sql)?;
    statement.raw_bind_parameter(1, feed.id)?;
    statement.raw_bind_parameter(2, above)?;
    statement.raw_bind_parameter(3, limit + 1)?;
    match wanted {
        Wanted::All => {}
        Wanted::Naming(query) => statement.raw_bind_parameter(4, query.0)?,
        Wanted::At(timestamp) => statement.raw_bind_parameter(4, timestamp)?,
    }
    let mut rows = statement.raw_query();
    let (mut items, mut bytes, mut more) = (Vec::new(), 0, false);
    while let Some(row) = rows.next()? {
        let json = row.get_ref(3)?.as_blob().map_err(rusqlite::Error::from)?;
        bytes += json.len();
        more = items.len() == limit || (bytes > PAGE_BYTES_MAX && !items.is_empty());
        if more {
            break;
        }
        let timestamp = row.get(0)?;
        if row.get::<_, i64>(2)? != checksum::of_item(feed.id, timestamp, json) {
            return Err(StoreError::Corrupt("a news item".into()).into());
        }
        let place = ItemPlace { feed: feed.hash, timestamp };
        items.push(StoredItem { place, answer: row.get(1)?, json: Bytes::copy_from_slice(json) });
    }
    if backwards {
        items.reverse();
    }
    Ok((items, more))
}

fn answer(connection: &Connection, query: QueryKey, agent: AgentId) -> Result<QueryAnswer, Fault> {
    let found = connection
        .prepare_cached(
            "SELECT item_feed, item_timestamp FROM record JOIN owner ON owner.id = record.owner
             WHERE record.hash = ?1 AND record.kind = ?2 AND owner.hash = ?3",
        )?
        .query_row(params![query.0, RecordKind::Query as u8, agent.0], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    Ok(match found {
        None => QueryAnswer::Unknown,
        Some((Some(feed), Some(timestamp))) => QueryAnswer::At(ItemPlace { feed, timestamp }),
        Some(_) => QueryAnswer::Nowhere,
    })
}
