//! Feeds: `NewItem` in, `Page` out, and the rule by which an item gets its timestamp.

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use super::engine::{Change, EnginePage, FeedChange, ItemBody, PageRead, Position, Put, Reader, StoredItem};
use super::keys::{AgentId, CallerId, FeedId, Hash, OnceKey, QueryKey};
use super::news_id::NewsId;
use super::{Store, StoreError};
use crate::restap::{NewsDraft, NewsItem, SessionId, Since};

/// An item to append.
#[derive(Debug, Clone, Copy)]
pub struct NewItem<'a> {
    /// To this feed.
    pub feed: FeedId,
    /// Who owns the feed if this opens it: the verified caller, `None` for an anonymous one.
    pub opener: Option<CallerId>,
    /// What is said.
    pub draft: &'a NewsDraft,
    /// Under this idempotency key, a repeat gets the receipt of the first.
    pub once: Option<OnceKey>,
}

/// Says that an item is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Receipt {
    /// Its id, `news_id` on the wire.
    pub id: NewsId,
    /// Unix milliseconds.
    pub timestamp: u64,
}

/// What a reader wants.
#[derive(Debug, Clone, Copy)]
pub struct PageRequest<'a> {
    /// Of this feed.
    pub feed: FeedId,
    /// Who asks.
    pub reader: Reader,
    /// From where.
    pub since: &'a Since,
    /// At most so many items, 1 to 1,000.
    pub limit: u32,
    /// Only the items of this query.
    pub query: Option<&'a str>,
}

/// One page of a feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// Ascending.
    pub items: Vec<Item>,
    /// What the reader sends as its next `since`; 0 only where a query was asked for without a `since`.
    pub timestamp: u64,
    /// Items lie beyond the page in the direction read.
    pub more: bool,
    /// The timestamp of the oldest item that the feed keeps.
    pub oldest: Option<u64>,
}

/// One item of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Its id.
    pub id: NewsId,
    /// Unix milliseconds.
    pub timestamp: u64,
    /// It stands in the feed that was asked for; a query's answer may stand in another.
    at_home: bool,
    answer: bool,
    json: Bytes,
}

/// Items of a page, at most.
pub const PAGE_ITEMS_MAX: u32 = 1_000;

/// Items that a feed takes at once; beyond that one a millisecond.
pub(super) const BURST: u64 = 2_000;

impl Store {
    /// Appends an item. `Ok` means that it is on stable storage; `Unavailable` means that it may be, and a repeat
    /// with the same [`NewItem::once`] is safe. Dropping the future does not cancel the append.
    pub async fn append(&self, item: NewItem<'_>) -> Result<Receipt, StoreError> {
        let NewItem { feed, opener, draft, once } = item;
        let body = self.item_body(feed.agent, draft, false)?;
        let change = Change {
            feed: Some(FeedChange { feed, opener, item: Some(body) }),
            puts: once.map(|once| Put::answer(&self.keys, once, &[])).into_iter().collect(),
            ..Change::default()
        };
        match (self.engine.commit(change).await, once) {
            (Ok(committed), _) => {
                self.arrivals.announce(feed);
                Ok(self.receipt(feed, committed.timestamp.unwrap_or_default()))
            }
            (Err(StoreError::Conflict), Some(once)) => self.first_receipt(feed, once).await,
            (Err(error), _) => Err(error),
        }
    }

    /// Opens a session's feed, as a turn of talk does: its first opener owns it. Opening again changes nothing.
    pub async fn open_feed(&self, feed: FeedId, opener: Option<CallerId>) -> Result<(), StoreError> {
        let change = Change { feed: Some(FeedChange { feed, opener, item: None }), ..Change::default() };
        self.engine.commit(change).await.map(drop)
    }

    /// Reads a page (behaviour of `GET /news`). A poller that sends the page's `timestamp`, or its last item's, as
    /// its next `since` sees every item once.
    pub async fn page(&self, request: PageRequest<'_>) -> Result<Page, StoreError> {
        let from = self.position(&request)?;
        let read = PageRead {
            feed: request.feed,
            reader: request.reader,
            from,
            limit: request.limit.clamp(1, PAGE_ITEMS_MAX),
            query: request.query.map(|id| self.keys.query(id)),
        };
        let page = self.engine.page(read).await?;
        Ok(self.shown(&read, page))
    }

    /// Resolves when this process may have appended to a feed since the call. Whoever waits for an item calls it, reads
    /// a page, and only then awaits it. It is a hint: other feeds wake it too, and what another process appends to
    /// an embedded store does not, so the page is read again now and then anyway.
    pub fn arrival(&self, feed: FeedId) -> Notified<'_> {
        self.arrivals.of(feed).notified()
    }

    /// A draft as it is stored, unless its feed could not keep it.
    pub(super) fn item_body(&self, agent: AgentId, draft: &NewsDraft, answer: bool) -> Result<ItemBody, StoreError> {
        let caller_query_id = draft.data.as_ref().and_then(|data| data.get("caller_query_id")).and_then(Value::as_str);
        let mut queries: Vec<QueryKey> = [draft.query_id.as_deref(), caller_query_id, draft.in_reply_to.as_deref()]
            .into_iter()
            .flatten()
            .map(|id| self.keys.query(id))
            .collect();
        queries.sort_unstable_by_key(|query| query.0);
        queries.dedup();
        // A draft has string keys and no floats that JSON lacks, so writing it can't fail.
        let json = serde_json::to_vec(draft).unwrap_or_default().into();
        let body = ItemBody { json, queries, answer };
        let bytes_max = self.bounds.retention(agent).bytes;
        if body.weight() > bytes_max { Err(StoreError::TooLarge { bytes_max }) } else { Ok(body) }
    }

    fn receipt(&self, feed: FeedId, timestamp: u64) -> Receipt {
        Receipt { id: self.keys.news_id(feed.hash, timestamp), timestamp }
    }

    async fn first_receipt(&self, feed: FeedId, once: OnceKey) -> Result<Receipt, StoreError> {
        let (first, _) = self.first_answer(once).await?.ok_or(StoreError::Conflict)?;
        let place = first.item.ok_or(StoreError::KeyReused)?;
        Ok(self.receipt(FeedId { hash: place.feed, ..feed }, place.timestamp))
    }

    fn position(&self, request: &PageRequest<'_>) -> Result<Position, StoreError> {
        match request.since {
            Since::Newest => Ok(Position::Newest),
            Since::Time(time) => Ok(Position::After(*time)),
            Since::Item(id) => {
                if self.keys.secret().is_none() {
                    return Err(StoreError::Unavailable("it is being opened"));
                }
                let id = self.keys.read_news_id(id).ok_or(StoreError::InvalidSince)?;
                // An item of another feed is none that this one keeps: its reader begins with the oldest. The items
                // of a query may stand in any feed, there the id's time is what counts.
                let known = request.query.is_some() || id.feed == self.keys.feed_mark(request.feed.hash);
                Ok(Position::After(if known { id.timestamp } else { 0 }))
            }
        }
    }

    fn shown(&self, read: &PageRead, page: EnginePage) -> Page {
        let newest = page.items.last().map(|item| item.place.timestamp);
        let timestamp = match (read.query, read.from) {
            (Some(_), Position::After(since)) => newest.unwrap_or(since),
            (Some(_), Position::Newest) => newest.unwrap_or(0),
            (None, Position::After(_)) if page.more => newest.unwrap_or(page.last),
            (None, _) => page.last.max(1),
        };
        let items = page.items.into_iter().map(|item| self.item(read.feed, item)).collect();
        Page { items, timestamp, more: page.more, oldest: page.oldest }
    }

    fn item(&self, asked: FeedId, StoredItem { place, json, answer }: StoredItem) -> Item {
        Item {
            id: self.keys.news_id(place.feed, place.timestamp),
            timestamp: place.timestamp,
            at_home: place.feed == asked.hash,
            answer,
            json,
        }
    }
}

impl Page {
    /// The body of `GET /news`. `session` is the id that the request carried: the store knows only its hash.
    pub fn to_json(&self, session: Option<&SessionId>) -> Vec<u8> {
        let items: usize = self.items.iter().map(|item| item.json.len() + 256).sum();
        let mut out = Vec::with_capacity(items + 96);
        out.extend_from_slice(br#"{"items":["#);
        for (index, item) in self.items.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            item.write_json(session, &mut out);
        }
        out.extend_from_slice(format!(r#"],"timestamp":{},"more":{}"#, self.timestamp, self.more).as_bytes());
        if let Some(oldest) = self.oldest {
            out.extend_from_slice(format!(r#","oldest":{oldest}"#).as_bytes());
        }
        out.push(b'}');
        out
    }
}

impl Item {
    /// The item as values.
    pub fn read(&self) -> Result<NewsItem, StoreError> {
        let draft = serde_json::from_slice(&self.json).map_err(|_| StoreError::Corrupt("a news item".into()))?;
        Ok(NewsItem { id: self.id.to_string(), timestamp: self.timestamp, draft })
    }

    /// Whether it is the answer of a query, which the gateway itself has written.
    pub fn is_answer(&self) -> bool {
        self.answer
    }

    /// A stored draft is one JSON object with at least `type`, so it is taken into the answer as it is.
    fn write_json(&self, session: Option<&SessionId>, out: &mut Vec<u8>) {
        let session = session.filter(|_| self.at_home);
        out.extend_from_slice(format!(r#"{{"id":"{}","timestamp":{}"#, self.id, self.timestamp).as_bytes());
        let answer = session.filter(|_| self.answer).and_then(|session| self.with_session(session));
        let json = answer.as_deref().unwrap_or(&self.json);
        if let [b'{', fields @ .., b'}'] = json
            && !fields.is_empty()
        {
            out.push(b',');
            out.extend_from_slice(fields);
        }
        if let Some(session) = session {
            // The grammar of a session id needs no escape in JSON.
            out.extend_from_slice(format!(r#","session_id":"{}""#, session.expose()).as_bytes());
        }
        out.push(b'}');
    }

    /// A query's answer in its own session's feed names the session where its clients look for it.
    fn with_session(&self, session: &SessionId) -> Option<Vec<u8>> {
        let mut draft: Value = serde_json::from_slice(&self.json).ok()?;
        let result = draft.pointer_mut("/data/result")?.as_object_mut()?;
        result.insert("sessionId".into(), session.expose().into());
        serde_json::to_vec(&draft).ok()
    }
}

/// Wakes those who wait for items, without a place for each feed: feeds share a few.
pub(super) struct Arrivals([Notify; MARKS]);

const MARKS: usize = 64;

impl Default for Arrivals {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Notify::new()))
    }
}

impl Arrivals {
    fn of(&self, feed: FeedId) -> &Notify {
        self.at(mark(feed.hash))
    }

    fn at(&self, mark: u8) -> &Notify {
        // Of 64 notifies there is always one at an index below 64.
        self.0.get(usize::from(mark) % MARKS).unwrap_or(&self.0[0])
    }

    /// Something was appended.
    pub(super) fn announce(&self, feed: FeedId) {
        self.of(feed).notify_waiters();
    }

    /// Something was appended to a feed of this [`mark`], perhaps by another gateway.
    pub(super) fn announce_mark(&self, mark: u8) {
        self.at(mark).notify_waiters();
    }

    /// Something may have been appended anywhere.
    pub(super) fn announce_all(&self) {
        self.0.iter().for_each(Notify::notify_waiters);
    }
}

/// Which of the few places a feed waits at: all that gateways tell one another of it.
pub(super) fn mark(feed: Hash) -> u8 {
    let [first, ..] = feed;
    first % MARKS as u8
}

/// Gives out the timestamps of one feed. Correctness depends on the order of calls alone, never on the clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ticker {
    /// The last timestamp given out; 0 if none yet.
    pub last: u64,
    /// Up to which millisecond the feed's rate is used up.
    pub spent: u64,
}

impl Ticker {
    /// The timestamp of the next item. `floor` is the highest of any dropped feed of the agent: this feed may be
    /// one of them, come back.
    pub fn next(&mut self, now: u64, floor: u64) -> Result<u64, StoreError> {
        let ahead = now + BURST;
        // More than a burst ahead can only mean that the clock stepped back: that is no fault of the callers.
        let spent = if self.spent > ahead { now } else { self.spent.max(now) };
        if spent == ahead {
            return Err(StoreError::TooFast);
        }
        let last = if self.last == 0 { floor } else { self.last };
        *self = Self { last: now.max(last + 1), spent: spent + 1 };
        Ok(self.last)
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use proptest::prelude::*;

    use super::*;

    fn page() -> Page {
        let item = |timestamp, json: &'static str, answer, at_home| Item {
            id: NewsId { timestamp, feed: 1, seal: 2 },
            timestamp,
            at_home,
            answer,
            json: Bytes::from_static(json.as_bytes()),
        };
        let answer = r#"{"type":"query.completed","message":"m","data":{"result":{"result":"m"}}}"#;
        Page {
            items: vec![
                item(5, r#"{"type":"note","message":""}"#, false, true),
                item(6, answer, true, true),
                item(7, answer, true, false),
            ],
            timestamp: 7,
            more: true,
            oldest: Some(4),
        }
    }

    #[test]
    fn a_page_is_the_body_of_an_answer() {
        let shown = |page: Page| String::from_utf8(page.to_json(None)).unwrap().replace("},", "},\n");
        expect![[r#"
            {"items":[{"id":"news_0000000000000500000001000000000002","timestamp":5,"type":"note","message":""},
            {"id":"news_0000000000000600000001000000000002","timestamp":6,"type":"query.completed","message":"m","data":{"result":{"result":"m"}}},
            {"id":"news_0000000000000700000001000000000002","timestamp":7,"type":"query.completed","message":"m","data":{"result":{"result":"m"}}}],"timestamp":7,"more":true,"oldest":4}"#]].assert_eq(&shown(page()));
        let empty = Page { items: Vec::new(), timestamp: 1, more: false, oldest: None };
        expect![[r#"{"items":[],"timestamp":1,"more":false}"#]].assert_eq(&shown(empty));
    }

    #[test]
    fn a_scoped_page_shows_the_session_where_it_belongs() {
        let session = SessionId::parse("0123456789abcdef").unwrap();
        let shown = String::from_utf8(page().to_json(Some(&session))).unwrap().replace("},", "},\n");
        expect![[r#"
            {"items":[{"id":"news_0000000000000500000001000000000002","timestamp":5,"type":"note","message":"","session_id":"0123456789abcdef"},
            {"id":"news_0000000000000600000001000000000002","timestamp":6,"type":"query.completed","message":"m","data":{"result":{"result":"m","sessionId":"0123456789abcdef"}},
            "session_id":"0123456789abcdef"},
            {"id":"news_0000000000000700000001000000000002","timestamp":7,"type":"query.completed","message":"m","data":{"result":{"result":"m"}}}],"timestamp":7,"more":true,"oldest":4}"#]].assert_eq(&shown);
    }

    proptest! {
        #[test]
        fn timestamps_rise_at_every_call_and_follow_the_clock(
            steps in prop::collection::vec((0..2_000_i64, prop::bool::weighted(0.1)), 1..200),
            floor in 0..2_000_000_000_000_u64,
        ) {
            let (mut ticker, mut now, mut last) = (Ticker::default(), 1_700_000_000_000_u64, floor);
            for (step, back) in steps {
                now = now.saturating_add_signed(if back { -step * 1000 } else { step });
                if let Ok(timestamp) = ticker.next(now, floor) {
                    prop_assert!(timestamp == now.max(last + 1));
                    last = timestamp;
                }
            }
        }
    }

    #[test]
    fn a_thousand_items_a_second_are_taken_for_ever() {
        let mut ticker = Ticker::default();
        for now in 1_000..60_000 {
            assert_eq!(ticker.next(now, 0), Ok(now));
        }
        let burst = (0..2 * BURST).filter(|_| ticker.next(60_000, 0).is_ok()).count();
        assert_eq!(burst as u64, BURST);
    }
}
