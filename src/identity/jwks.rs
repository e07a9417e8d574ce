//! `Jwks`: the keys of an issuer, out of a file or from a URL, kept and read again so that keys can be rotated.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use http::uri::PathAndQuery;
use http::{HeaderMap, Method, StatusCode};
use tokio::sync::Mutex;
use tokio::time::Instant;
use tracing::warn;

use super::jwt::{KEY_SET_MAX, Keys, Token};
use crate::net::{Bounds, Client, Coding, Peer, Request, Timeouts};

/// How long keys are used before they are asked for again.
const FRESH: Duration = Duration::from_mins(5);

/// How long they are used while nobody gives newer ones.
const KEPT: Duration = Duration::from_hours(24);

/// The shortest time between two questions: tokens with keys that nobody knows must not become a flood of them.
const PAUSE: Duration = Duration::from_secs(10);

/// What a question may take.
const BOUNDS: Bounds = Bounds { bytes: KEY_SET_MAX, time: Duration::from_secs(5) };

/// Where keys are.
pub enum Place {
    /// A file.
    File(PathBuf),
    /// A URL that the operator has written.
    Url(Client, Box<Peer>, PathAndQuery),
}

impl std::fmt::Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
            Self::Url(..) => f.debug_tuple("Url").finish_non_exhaustive(),
        }
    }
}

/// The keys of one issuer.
#[derive(Debug)]
pub struct Jwks {
    issuer: String,
    place: Place,
    kept: ArcSwapOption<Kept>,
    /// When it was asked last; whoever holds it asks.
    asked: Mutex<Option<Instant>>,
}

#[derive(Debug)]
struct Kept {
    keys: Keys,
    at: Instant,
}

/// There are no keys that a token could be judged by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the issuer's keys can't be had now")]
pub struct NoKeys;

impl Jwks {
    /// Nothing is read before it is needed.
    pub fn new(issuer: &str, place: Place) -> Self {
        Self { issuer: issuer.to_owned(), place, kept: ArcSwapOption::empty(), asked: Mutex::new(None) }
    }

    /// The keys to judge a token by: those that are kept, unless they are old or the token is signed by none of them.
    pub async fn keys_for(&self, token: &Token<'_>) -> Result<Keys, NoKeys> {
        if let Some(keys) = self.good_for(token) {
            return Ok(keys);
        }
        let mut asked = self.asked.lock().await;
        // Whoever was asked meanwhile has brought them.
        if let Some(keys) = self.good_for(token) {
            return Ok(keys);
        }
        if asked.is_none_or(|asked| asked.elapsed() >= PAUSE) {
            match self.read().await {
                Ok(keys) => self.kept.store(Some(Arc::new(Kept { keys, at: Instant::now() }))),
                Err(problem) => warn!("the keys of {} could not be read: {problem}", self.issuer),
            }
            *asked = Some(Instant::now());
        }
        let kept = self.kept.load();
        let kept = kept.as_ref().filter(|kept| kept.at.elapsed() < KEPT);
        kept.map(|kept| kept.keys.clone()).ok_or(NoKeys)
    }

    fn good_for(&self, token: &Token<'_>) -> Option<Keys> {
        let kept = self.kept.load();
        let kept = kept.as_ref().filter(|kept| kept.at.elapsed() < FRESH && kept.keys.may_have_signed(token))?;
        Some(kept.keys.clone())
    }

    async fn read(&self) -> Result<Keys, String> {
        let document = match &self.place {
            Place::File(path) => {
                let path = path.clone();
                let read = tokio::task::spawn_blocking(move || std::fs::read(path)).await;
                read.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?
            }
            Place::Url(client, peer, target) => {
                let request = Request {
                    method: Method::GET,
                    target: target.clone(),
                    headers: HeaderMap::new(),
                    body: Bytes::new(),
                    coding: Coding::Decoded,
                    timeouts: Timeouts::default(),
                };
                let document = client.fetch(peer, request, BOUNDS).await.map_err(|error| error.to_string())?;
                if document.status != StatusCode::OK {
                    return Err(format!("it answered {}", document.status.as_u16()));
                }
                document.body.to_vec()
            }
        };
        if document.len() > KEY_SET_MAX {
            return Err(format!("it is larger than {KEY_SET_MAX} bytes"));
        }
        Keys::parse(&document).map_err(|error| error.to_string())
    }
}
