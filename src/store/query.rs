//! Asynchronous talk: a query is stored before it is accepted, and its answer is kept as long as news are.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::engine::{Change, FeedChange, Put, RecordKey, RecordKind};
use super::keys::{AgentId, CallerId, FeedId, Hash};
use super::lease::Lease;
use super::{Store, StoreError};
use crate::restap::{NewsDraft, SessionId};

/// A query that is accepted. Whoever runs it holds its [`query_lease`](super::Keys::query_lease); one that is
/// processing while its lease is free has lost its runner.
#[derive(Debug, Clone)]
pub struct Query {
    /// Ours, a UUIDv4: a bearer secret for the answer.
    pub id: String,
    /// Whose talk it is.
    pub agent: AgentId,
    /// Where its answer is posted, and who owns that feed if the answer opens it; `None` is nowhere.
    pub feed: Option<(FeedId, Option<CallerId>)>,
    /// The session of the turn.
    pub session: Option<SessionId>,
    /// The id by which the caller knows it.
    pub caller_query_id: Option<String>,
    /// The answer as the gateway wrote it, one JSON value; `None` while it runs.
    pub answer: Option<Box<RawValue>>,
    version: u64,
}

impl Query {
    /// One that has not been stored yet.
    pub fn new(id: String, agent: AgentId) -> Self {
        Self { id, agent, feed: None, session: None, caller_query_id: None, answer: None, version: 0 }
    }
}

impl Store {
    /// Stores a query; on return it is safe to say that it is accepted.
    pub async fn start_query(&self, query: &Query) -> Result<(), StoreError> {
        let change = Change { puts: vec![self.put_query(query)], ..Change::default() };
        self.engine.commit(change).await.map(drop)
    }

    /// Stores the answer, and posts it to the query's feed. `Conflict` if somebody else has already done so,
    /// `TooLarge` if the feed can't keep it.
    pub async fn finish_query(&self, query: &Query, item: &NewsDraft, lease: Lease) -> Result<(), StoreError> {
        let body = self.item_body(query.agent, item, true)?;
        let change = Change {
            feed: query.feed.map(|(feed, opener)| FeedChange { feed, opener, item: Some(body) }),
            puts: vec![self.put_query(query)],
            releases: vec![lease],
        };
        self.engine.commit(change).await?;
        if let Some((feed, _)) = query.feed {
            self.arrivals.announce(feed);
        }
        Ok(())
    }

    /// The query of this id, if it is this agent's.
    pub async fn query(&self, agent: AgentId, id: &str) -> Result<Option<Query>, StoreError> {
        let Some(record) = self.engine.record(self.query_record(id)).await?.filter(|record| !record.expired) else {
            return Ok(None);
        };
        let corrupt = || StoreError::Corrupt("a query".into());
        let stored: StoredQuery = serde_json::from_slice(&record.body).map_err(|_| corrupt())?;
        if stored.agent != agent.0 {
            return Ok(None);
        }
        let session = stored.session.map(|veiled| self.unveil_session(id, &veiled).ok_or_else(corrupt)).transpose()?;
        Ok(Some(Query {
            id: id.to_owned(),
            agent,
            feed: stored.feed.map(|(hash, own, opener)| (FeedId { agent, hash, own }, opener.map(CallerId))),
            session,
            caller_query_id: stored.caller_query_id,
            answer: stored.answer,
            version: record.version,
        }))
    }

    fn put_query(&self, query: &Query) -> Put {
        let stored = StoredQuery {
            agent: query.agent.0,
            feed: query.feed.map(|(feed, opener)| (feed.hash, feed.own, opener.map(|opener| opener.0))),
            session: query.session.as_ref().map(|session| {
                let mut text = session.expose().as_bytes().to_vec();
                self.keys.veil(&query.id, &mut text);
                BASE64_STANDARD_NO_PAD.encode(text)
            }),
            caller_query_id: query.caller_query_id.clone(),
            answer: query.answer.clone(),
        };
        Put {
            key: self.query_record(&query.id),
            owner: query.agent.0,
            expect: query.version,
            body: serde_json::to_vec(&stored).unwrap_or_default().into(),
            ttl: self.bounds.retention(query.agent).age,
        }
    }

    fn query_record(&self, id: &str) -> RecordKey {
        RecordKey { kind: RecordKind::Query, hash: self.keys.query(id).0 }
    }

    fn unveil_session(&self, id: &str, veiled: &str) -> Option<SessionId> {
        let mut text = BASE64_STANDARD_NO_PAD.decode(veiled).ok()?;
        self.keys.veil(id, &mut text);
        SessionId::parse(std::str::from_utf8(&text).ok()?).ok()
    }
}

/// The body of a query's record.
#[derive(Serialize, Deserialize)]
struct StoredQuery {
    agent: Hash,
    feed: Option<(Hash, bool, Option<Hash>)>,
    session: Option<String>,
    caller_query_id: Option<String>,
    answer: Option<Box<RawValue>>,
}
