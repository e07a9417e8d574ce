//! News of an agent elsewhere, each item stored once: where its reader stands, and which items it has stored, change
//! together with the feed. Several gateways may read for one agent; whoever is second is told so.

use std::time::Duration;

use super::engine::{Change, FeedChange, Put, RecordKey, RecordKind};
use super::keys::{FeedId, Hash};
use super::{Store, StoreError};
use crate::restap::NewsDraft;

/// How long a reader that stores nothing finds where it stood.
const CURSOR_TTL: Duration = Duration::from_hours(24 * 3650);

/// How long an item is known that its agent shows again; the last [`Cap`](super::engine::Cap) of an agent's.
const ITEM_TTL: Duration = Duration::from_hours(24 * 90);

/// Where a reader stands in the news of another agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    /// Unix milliseconds of the agent's own; 0 before the first item.
    pub since: u64,
    version: u64,
}

/// Whose news go into which feed.
#[derive(Debug, Clone, Copy)]
pub struct Followed<'a> {
    /// Where they are stored.
    pub feed: FeedId,
    /// Names the agent that they are of.
    pub agent: &'a str,
}

/// What became of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// It is stored, and this is where its reader stands now.
    Stored(Cursor),
    /// It was stored before.
    Known,
    /// Another gateway has read on meanwhile: the reader looks where it stands.
    Overtaken,
}

impl Store {
    /// Where the reader stands.
    pub async fn cursor(&self, followed: Followed<'_>) -> Result<Cursor, StoreError> {
        let record = self.engine.record(self.cursor_key(followed)).await?.filter(|record| !record.expired);
        let Some(record) = record else { return Ok(Cursor { since: 0, version: 0 }) };
        let since = record.body.as_ref().try_into().map(u64::from_be_bytes);
        let since = since.map_err(|_| StoreError::Corrupt("the place of a reader of news".into()))?;
        Ok(Cursor { since, version: record.version })
    }

    /// Stores an item, unless it has been, and moves the reader on to `since`. The item's `origin` says which it is.
    pub async fn take_in(
        &self,
        followed: Followed<'_>,
        cursor: Cursor,
        draft: &NewsDraft,
        since: u64,
    ) -> Result<Taken, StoreError> {
        let origin = draft.origin.as_deref().unwrap_or_default();
        let item =
            RecordKey { kind: RecordKind::Follow, hash: self.keys.followed(followed.feed, &[origin.as_bytes()]) };
        if self.engine.record(item).await?.is_some_and(|record| !record.expired) {
            return Ok(Taken::Known);
        }
        let body = self.item_body(followed.feed.agent, draft, false)?;
        let owner: Hash = followed.feed.agent.0;
        let next = Cursor { since: since.max(cursor.since), version: cursor.version + 1 };
        let puts = vec![
            Put { key: item, owner, expect: 0, body: b"1".as_slice().into(), ttl: ITEM_TTL },
            Put {
                key: self.cursor_key(followed),
                owner,
                expect: cursor.version,
                body: next.since.to_be_bytes().to_vec().into(),
                ttl: CURSOR_TTL,
            },
        ];
        let feed = FeedChange { feed: followed.feed, opener: None, item: Some(body) };
        match self.engine.commit(Change { feed: Some(feed), puts, ..Change::default() }).await {
            Ok(_) => {
                self.arrivals.announce(followed.feed);
                Ok(Taken::Stored(next))
            }
            Err(StoreError::Conflict) => Ok(Taken::Overtaken),
            Err(error) => Err(error),
        }
    }

    /// Whether an id is that of an item of this feed.
    pub fn is_of(&self, feed: FeedId, id: &str) -> bool {
        self.keys.read_news_id(id).is_some_and(|id| id.feed == self.keys.feed_mark(feed.hash))
    }

    fn cursor_key(&self, followed: Followed<'_>) -> RecordKey {
        let hash = self.keys.followed(followed.feed, &[b"cursor", followed.agent.as_bytes()]);
        RecordKey { kind: RecordKind::Follow, hash }
    }
}
