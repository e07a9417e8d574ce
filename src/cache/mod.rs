//! `Cache`: answers of services, kept for other callers who ask the same (RFC 9111, as a shared cache).
//!
//! Bounded by bytes over all agents. Who asks what is being asked already waits for that answer; where it turns out to be
//! for one caller alone, or its asker leaves, nobody is left waiting.

mod asked;
mod freshness;

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::StatusCode;
use http::header::{AGE, HeaderMap, HeaderName, HeaderValue};
use moka::Expiry;

pub use asked::{Asked, Wish, digest};
pub use freshness::{Fresh, is_unchanged};

use asked::Key;

/// What an entry weighs beside its body and its headers: keys and counters.
const ENTRY_BYTES: usize = 512;

/// One answer may take this part of the cache.
const SHARE_OF_ONE: u64 = 16;

/// How long a question is known to have no answer to share. Meanwhile nobody waits for another's answer to it.
const UNSHARED_FOR: Duration = Duration::from_secs(10);

/// How long it is known what a question's answers vary by. They themselves may end sooner.
const VARIES_FOR: Duration = Duration::from_hours(1);

/// How long one waits for an answer that another has asked for, before one asks too.
const FOLLOWING_MAX: Duration = Duration::from_secs(30);

/// The answers that are kept. Cheap to share in an `Arc`.
pub struct Cache {
    kept: moka::future::Cache<Key, Kept>,
    bytes_max: u64,
}

/// An answer that is kept.
#[derive(Debug)]
pub struct Answer {
    /// Its status.
    pub status: StatusCode,
    /// The service's headers.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Bytes,
    /// How old it was when it came.
    age: Duration,
    came: Instant,
    lifetime: Duration,
}

/// What asking the service came to.
#[derive(Debug)]
pub enum Fetched<P> {
    /// An answer for everybody who asks the same.
    Shared(Answer),
    /// One for its asker alone.
    Own(P),
}

/// What somebody who asked gets.
#[derive(Debug)]
pub enum Got<P> {
    /// An answer that was kept before; nobody was asked.
    Hit(Arc<Answer>),
    /// The answer to a question that another was asking already.
    Followed(Arc<Answer>),
    /// The service's answer, kept now.
    Miss(Arc<Answer>),
    /// The service's answer, for this asker alone.
    Own(P),
}

#[derive(Debug, Clone)]
enum Kept {
    Answer(Arc<Answer>),
    /// The answers are kept by these headers of their questions too.
    Varies(Arc<[HeaderName]>),
    /// There was none to share lately.
    Nothing,
}

/// Tells when an entry ends.
struct Ends;

impl Cache {
    /// A cache of so many bytes.
    pub fn new(bytes_max: u64) -> Self {
        let kept = moka::future::Cache::builder()
            .max_capacity(bytes_max)
            .weigher(|_, kept: &Kept| kept.weight())
            .expire_after(Ends)
            .build();
        Self { kept, bytes_max }
    }

    /// What it was made with.
    pub fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// The largest body that is kept, in bytes.
    pub fn body_max(&self) -> u64 {
        self.bytes_max / SHARE_OF_ONE
    }

    /// The bytes that are kept by now.
    pub fn bytes(&self) -> u64 {
        self.kept.weighted_size()
    }

    /// An answer that is kept, or else what `fetch` gives. `fetch` runs once or not at all; a failure of one is one for all
    /// who wait for it. Dropping the future of who asks lets the next one ask.
    pub async fn get<F: Fetch>(&self, asked: &Asked, mut fetch: F) -> Result<Got<F::Own>, F::Error> {
        if asked.wish() == Wish::Anew {
            return self.ask(asked, &mut fetch).await;
        }
        let mut key = asked.key();
        // A question, and the same with the headers that its answers vary by.
        for _ in 0..2 {
            match self.kept.get(&key).await {
                Some(Kept::Answer(answer)) => return Ok(Got::Hit(answer)),
                Some(Kept::Nothing) => break,
                Some(Kept::Varies(names)) => {
                    key = asked.key_with(&names);
                    continue;
                }
                None => {}
            }
            let mut own = None;
            let began = AtomicBool::new(false);
            let found = {
                let asking = self.kept.try_get_with(key, async {
                    began.store(true, Ordering::Relaxed);
                    match fetch.fetch().await? {
                        Fetched::Shared(answer) => {
                            let answer = Arc::new(answer);
                            own = Some(Got::Miss(answer.clone()));
                            Ok(self.place(asked, key, answer).await)
                        }
                        Fetched::Own(answer) => {
                            own = Some(Got::Own(answer));
                            Ok(Kept::Nothing)
                        }
                    }
                });
                let mut asking = pin!(asking);
                let found = tokio::select! {
                    biased;
                    found = &mut asking => Some(found),
                    () = tokio::time::sleep(FOLLOWING_MAX) => None,
                };
                match found {
                    None if began.load(Ordering::Relaxed) => Some(asking.await),
                    found => found,
                }
            };
            if let Some(own) = own {
                // Else a burst of large answers would be over the bound until somebody counts.
                self.kept.run_pending_tasks().await;
                return Ok(own);
            }
            match found.transpose().map_err(|error| F::Error::clone(&error))? {
                Some(Kept::Answer(answer)) => return Ok(Got::Followed(answer)),
                Some(Kept::Varies(names)) => key = asked.key_with(&names),
                Some(Kept::Nothing) | None => break,
            }
        }
        self.ask(asked, &mut fetch).await
    }

    /// Asks without waiting for anybody.
    async fn ask<F: Fetch>(&self, asked: &Asked, fetch: &mut F) -> Result<Got<F::Own>, F::Error> {
        match fetch.fetch().await? {
            Fetched::Own(answer) => Ok(Got::Own(answer)),
            Fetched::Shared(answer) => {
                let answer = Arc::new(answer);
                let kept = self.place(asked, asked.key(), answer.clone()).await;
                self.kept.insert(asked.key(), kept).await;
                self.kept.run_pending_tasks().await;
                Ok(Got::Miss(answer))
            }
        }
    }

    /// Keeps an answer wherever else it belongs, and gives what stands at `key` then.
    async fn place(&self, asked: &Asked, key: Key, answer: Arc<Answer>) -> Kept {
        let names = Asked::varying(&answer.headers);
        let own = asked.key_with(&names);
        let varies = (!names.is_empty()).then(|| Kept::Varies(names.into()));
        if own == key {
            return Kept::Answer(answer);
        }
        self.kept.insert(own, Kept::Answer(answer)).await;
        match varies {
            Some(varies) if key == asked.key() => varies,
            // It varies by something else since.
            Some(varies) => {
                self.kept.insert(asked.key(), varies).await;
                Kept::Nothing
            }
            None => Kept::Nothing,
        }
    }
}

/// Asks a service; more than once only where nobody else's answer was of use.
pub trait Fetch: Send {
    /// An answer for this asker alone.
    type Own: Send;
    /// Why there is none. All who wait for it are told.
    type Error: Clone + Send + Sync + 'static;

    /// Asks it.
    fn fetch(&mut self) -> impl Future<Output = Result<Fetched<Self::Own>, Self::Error>> + Send;
}

impl Answer {
    /// An answer that came now.
    pub fn new(status: StatusCode, headers: &HeaderMap, body: &[u8], fresh: Fresh) -> Self {
        // What came may lie within a buffer many times as large.
        let copied = |value: &HeaderValue| HeaderValue::from_bytes(value.as_bytes()).unwrap_or_else(|_| value.clone());
        Self {
            status,
            headers: headers.iter().map(|(name, value)| (name.clone(), copied(value))).collect(),
            body: Bytes::copy_from_slice(body),
            age: fresh.age,
            came: Instant::now(),
            lifetime: fresh.lifetime,
        }
    }

    /// Its headers with its `Age` by now.
    pub fn aged_headers(&self) -> HeaderMap {
        let mut headers = self.headers.clone();
        let age = self.age.saturating_add(self.came.elapsed());
        headers.insert(AGE, HeaderValue::from(age.as_secs()));
        headers
    }

    fn weight(&self) -> usize {
        let headers: usize = self.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 64).sum();
        self.body.len() + headers
    }
}

impl Kept {
    fn weight(&self) -> u32 {
        let own = match self {
            Self::Answer(answer) => answer.weight(),
            Self::Varies(_) | Self::Nothing => 0,
        };
        u32::try_from(own + ENTRY_BYTES).unwrap_or(u32::MAX)
    }

    fn lasts(&self) -> Duration {
        match self {
            Self::Answer(answer) => answer.lifetime.saturating_sub(answer.came.elapsed()),
            Self::Varies(_) => VARIES_FOR,
            Self::Nothing => UNSHARED_FOR,
        }
    }
}

impl Expiry<Key, Kept> for Ends {
    fn expire_after_create(&self, _: &Key, kept: &Kept, _: Instant) -> Option<Duration> {
        Some(kept.lasts())
    }

    fn expire_after_update(&self, _: &Key, kept: &Kept, _: Instant, _: Option<Duration>) -> Option<Duration> {
        Some(kept.lasts())
    }
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cache").field("bytes_max", &self.bytes_max).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
