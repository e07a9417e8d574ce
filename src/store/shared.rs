//! What the engines on a server of their own have in common: a thread for their connections, a key that several gateways
//! know, and a state that comes and goes.

mod host;
mod rotation;
mod status;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::keys::{Hash, Keys};
use super::settings::SharedKey;
use super::{OpenError, StoreError};

pub(super) use host::{CLOSED, Host};
pub(super) use rotation::{Kept, Rotation};
pub(super) use status::Status;

/// How long a caller waits. What it asked for may still be done. Tests say nothing about a machine that is busy.
pub(super) const DEADLINE: Duration = Duration::from_secs(if cfg!(test) { 60 } else { 5 });

/// How long a start waits to learn whether the server takes our key; a server that is away is waited for later.
pub(super) const START_WAIT: Duration = Duration::from_secs(5);

/// How long a new connection may take.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long bytes of ours may stay unacknowledged before a connection is given up.
pub(super) const SILENCE: Duration = Duration::from_secs(10);

/// Pauses between tries to connect: the first, and the longest.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(3);

/// How often what is out of date is looked for, and how much is removed at once.
pub(super) const SWEEP_EVERY: Duration = Duration::from_secs(10);
pub(super) const SWEEP_SLICE: i32 = 50;

/// Bytes of a page, which has at least one item. What lies beyond is `more`.
pub(super) const PAGE_BYTES_MAX: usize = 8 << 20;

/// Why a server can't be used for now.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Problem {
    /// Nothing was heard of it yet.
    #[error("it is being opened")]
    Opening,
    /// It will be tried again.
    #[error("{0}")]
    Away(String),
    /// It can be reached, and nothing but the operator changes this.
    #[error("{0}")]
    Refused(String),
}

/// Pauses that become longer.
pub(super) struct Backoff(Duration);

impl Backoff {
    pub(super) fn new() -> Self {
        Self(PAUSE)
    }

    pub(super) fn reset(&mut self) {
        self.0 = PAUSE;
    }

    pub(super) async fn wait(&mut self) {
        tokio::time::sleep(self.0).await;
        self.0 = (2 * self.0).min(PAUSE_MAX);
    }
}

/// The keys of a shared engine: those of gateway.yaml, and the names that they lead to once the server is reached.
#[derive(Debug, Clone)]
pub(super) struct SharedKeys {
    pub(super) names: Keys,
    current: Keys,
    previous: Option<Keys>,
}

impl SharedKeys {
    pub(super) fn read(key: &SharedKey) -> Result<Self, OpenError> {
        let previous = key.previous.as_ref().map(Keys::parse).transpose()?;
        Ok(Self { names: Keys::locked(), current: Keys::parse(&key.current)?, previous })
    }

    /// What the engine has to change so that it knows our key; `Refused` if it knows another one.
    pub(super) fn rotate(&self, kept: &[Kept]) -> Result<Rotation, Problem> {
        let rotation = Rotation::of(&self.current, self.previous.as_ref(), kept).ok_or_else(|| {
            Problem::Refused(
                "it was made with another store.key; use that one, or name it as store.previous_key to change to a new one"
                    .into(),
            )
        })?;
        Ok(rotation)
    }

    /// Takes the secret that all names are made with.
    pub(super) fn unlock(&self, secret: [u8; 32]) -> Result<(), Problem> {
        if self.names.unlock(secret) {
            return Ok(());
        }
        Err(Problem::Refused("it holds another store than before; restart the gateway to use this one".into()))
    }
}

/// Waits a little for the first connection: a server that takes another key is no use to start with, one that is away is
/// waited for while the gateway runs.
pub(super) fn first_answer(host: &Host, status: &Status, engine: &'static str) -> Result<(), OpenError> {
    let (answer, answered) = std::sync::mpsc::channel();
    let mut watched = status.watch();
    host.spawn(async move {
        let heard = watched.wait_for(|problem| *problem != Some(Problem::Opening));
        let heard = tokio::time::timeout(START_WAIT, heard).await;
        let _ = answer.send(heard.ok().and_then(|heard| heard.ok()?.clone()));
    });
    match answered.recv() {
        Ok(Some(Problem::Refused(problem))) => Err(OpenError::Server { engine, problem }),
        _ => Ok(()),
    }
}

/// What waits for the server, within a bound.
#[derive(Clone)]
pub(super) struct Waiting {
    places: Arc<Semaphore>,
    places_max: u32,
    bytes: Arc<Semaphore>,
}

/// Held while something waits.
pub(super) struct Place {
    _place: OwnedSemaphorePermit,
    _bytes: OwnedSemaphorePermit,
}

impl Waiting {
    pub(super) fn new(places: u32, bytes: usize) -> Self {
        let (waiting, bytes) = (Arc::new(Semaphore::new(places as usize)), Arc::new(Semaphore::new(bytes)));
        Self { places: waiting, places_max: places, bytes }
    }

    /// A place for so many bytes, or none at once.
    pub(super) fn take(&self, bytes: usize) -> Option<Place> {
        let place = self.places.clone().try_acquire_owned().ok()?;
        let bytes = self.bytes.clone().try_acquire_many_owned(u32::try_from(bytes).ok()?).ok()?;
        Some(Place { _place: place, _bytes: bytes })
    }

    /// Waits until nothing waits any more, within the deadline.
    pub(super) async fn drain(&self) {
        let _ = tokio::time::timeout(DEADLINE, self.places.acquire_many(self.places_max)).await;
    }
}

/// Refuses what was named before the server was reached for the first time.
pub(super) fn named(hashes: impl IntoIterator<Item = Hash>) -> Result<(), StoreError> {
    if hashes.into_iter().any(|hash| hash == Hash::default()) {
        return Err(StoreError::Unavailable("it is being opened"));
    }
    Ok(())
}
