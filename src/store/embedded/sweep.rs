//! `Sweep`: retention for those who do not write. It walks over all feeds, round and round, a slice at a time.

use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::batch::{Batch, Upkeep};
use super::fault::Fault;
use super::feeds::Feed;
use super::{rates, records, retention};
use crate::store::engine::Bounds;

/// How long a slice may hold up those who write.
const SLICE: Duration = Duration::from_millis(5);

/// Feeds that a slice looks at.
const FEEDS: usize = 500;

/// Items or records that are removed before the time is looked at.
const STEP: usize = 32;

/// Where the walk is.
#[derive(Debug, Default)]
pub(super) struct Sweep {
    cursor: u64,
    pending: bool,
}

/// What a slice has found to do.
#[derive(Debug)]
pub(super) struct Due {
    feeds: Vec<u64>,
    litter: bool,
    expired: bool,
    full: bool,
    /// The highest timestamp of the feeds that were looked at.
    pub(super) newest: u64,
}

impl Due {
    pub(super) fn is_empty(&self) -> bool {
        self.feeds.is_empty() && !self.litter && !self.expired && !self.full
    }
}

impl Sweep {
    /// Whether there is more to do at once.
    pub(super) fn is_pending(&self) -> bool {
        self.pending
    }

    /// Looks at the next feeds, without writing.
    pub(super) fn look(
        &mut self,
        connection: &Connection,
        bounds: &Bounds,
        upkeep: &mut Upkeep,
        now: u64,
    ) -> Result<Due, Fault> {
        if self.cursor == 0 {
            retention::dropped(connection, FEEDS)?.into_iter().for_each(|feed| upkeep.litter(feed));
        }
        let next = Feed::after(connection, self.cursor, FEEDS)?;
        self.cursor = next.last().filter(|_| next.len() == FEEDS).map_or(0, |feed| feed.id);
        let mut due = Vec::new();
        for feed in &next {
            if retention::has_litter(connection, feed)? {
                upkeep.litter(feed.id);
            }
            if feed.is_over(bounds.retention(feed.agent), now) || is_idle(feed, bounds, now) {
                due.push(feed.id);
            }
        }
        Ok(Due {
            feeds: due,
            litter: !upkeep.litter.is_empty(),
            expired: records::anything_expired(connection, now)?,
            full: rates::any_full(connection, now)?,
            newest: next.iter().map(Feed::last).max().unwrap_or(0),
        })
    }

    /// Does as much of it as the time of a slice allows.
    pub(super) fn clear(&mut self, batch: &mut Batch<'_>, due: &Due) -> Result<(), Fault> {
        let begun = Instant::now();
        for id in &due.feeds {
            // Another process may have changed it since then.
            let Some(mut feed) = Feed::get(batch.connection, *id)? else { continue };
            batch.expire(&mut feed)?;
            if is_idle(&feed, batch.bounds, batch.now) {
                batch.drop_feed(&feed)?;
            }
            if begun.elapsed() > SLICE {
                break;
            }
        }
        let mut pending = true;
        while pending && begun.elapsed() < SLICE {
            pending = batch.remove(STEP)? == STEP
                || (due.expired && batch.drop_expired(STEP)? == STEP)
                || (due.full && batch.drop_full(STEP)? == STEP);
        }
        self.pending = pending;
        Ok(())
    }
}

/// Whether nobody would miss a feed: it keeps nothing and nothing came for as long as items are kept.
fn is_idle(feed: &Feed, bounds: &Bounds, now: u64) -> bool {
    let age = bounds.retention(feed.agent).age.as_millis() as u64;
    !feed.own && feed.is_empty() && feed.used_ms.saturating_add(age) < now
}
