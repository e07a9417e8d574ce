//! Idempotency: a request with a key runs once, and its answer is given again for a day.

use std::time::Duration;

use bytes::Bytes;
use uuid::Uuid;

use super::engine::{Change, Put, Record, RecordKey, RecordKind};
use super::keys::{Hash, Keys, OnceKey};
use super::lease::Lease;
use super::{Store, StoreError};

/// How long an answer is kept.
pub const ANSWER_TTL: Duration = Duration::from_hours(24);

/// Whether a request with an idempotency key may run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// It is the first: run it, renew the lease meanwhile, then keep its answer, or release the lease to free the key.
    First(Lease),
    /// The first one still runs.
    Running,
    /// It ran: this was its answer.
    Answered(Bytes),
    /// The key was used with another body.
    Reused,
}

impl Store {
    /// Asks for the right to run.
    pub async fn claim(&self, key: OnceKey) -> Result<Claim, StoreError> {
        let lease = Lease::new(self.keys.once_lease(key));
        if let Some(digest) = self.engine.acquire(lease, key.digest).await? {
            return Ok(if digest == key.digest { Claim::Running } else { Claim::Reused });
        }
        // The first one may have kept its answer just before its lease ended, so this is read under ours.
        let claim = match self.first_answer(key).await {
            Ok(None) => return Ok(Claim::First(lease)),
            Ok(Some((_, answer))) => Ok(Claim::Answered(answer)),
            Err(StoreError::KeyReused) => Ok(Claim::Reused),
            Err(error) => Err(error),
        };
        self.release(lease).await?;
        claim
    }

    /// Keeps the answer of a request that ran, and ends its lease. A turn does this with
    /// [`TurnEnd::answer`](super::TurnEnd::answer).
    pub async fn keep_answer(&self, key: OnceKey, lease: Lease, answer: &[u8]) -> Result<(), StoreError> {
        let change =
            Change { puts: vec![Put::answer(&self.keys, key, answer)], releases: vec![lease], ..Change::default() };
        self.engine.commit(change).await.map(drop)
    }

    /// The record and the answer that are kept under a key; `KeyReused` if its body was another.
    pub(super) async fn first_answer(&self, key: OnceKey) -> Result<Option<(Record, Bytes)>, StoreError> {
        let Some(record) = self.engine.record(record_key(key)).await?.filter(|record| !record.expired) else {
            return Ok(None);
        };
        let (digest, rest) = record.body.split_first_chunk::<{ size_of::<Hash>() }>().ok_or_else(corrupt)?;
        if *digest != key.digest {
            return Err(StoreError::KeyReused);
        }
        let (id, veiled) = rest.split_first_chunk::<{ size_of::<Uuid>() }>().ok_or_else(corrupt)?;
        let mut answer = veiled.to_vec();
        self.keys.veil(&Uuid::from_bytes(*id).to_string(), &mut answer);
        Ok(Some((record, answer.into())))
    }
}

impl Put {
    /// An answer may hold a session id, so it is kept veiled, behind the digest of the body that it answers.
    pub(super) fn answer(keys: &Keys, key: OnceKey, answer: &[u8]) -> Self {
        let (id, mut veiled) = (Uuid::new_v4(), answer.to_vec());
        keys.veil(&id.to_string(), &mut veiled);
        let body = [&key.digest, id.as_bytes().as_slice(), &veiled].concat().into();
        Self { key: record_key(key), owner: key.bucket, expect: 0, body, ttl: ANSWER_TTL }
    }
}

fn record_key(key: OnceKey) -> RecordKey {
    RecordKey { kind: RecordKind::Answer, hash: key.hash }
}

fn corrupt() -> StoreError {
    StoreError::Corrupt("a kept answer".into())
}
