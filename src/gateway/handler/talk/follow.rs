//! A RESTAP agent behind the gateway that answers later is followed: its query, else its news.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use crate::net::{self, Bounds, Coding, Timeouts};
use crate::restap::{ErrorCode, SESSION_HEADER};
use crate::talk::Failure;
use crate::talk::follow::{self, Followed};
use crate::upstream::Upstream;

/// For one question.
const BOUNDS: Bounds = Bounds { bytes: 8 << 20, time: Duration::from_secs(30) };

/// What a query is asked for with.
pub(super) struct Query {
    pub upstream: Arc<Upstream>,
    pub id: String,
    /// Where the agent is on its service: what stands before its `/talk`.
    pub base: String,
    /// Those of the talk, credential and hops among them.
    pub headers: HeaderMap,
    /// The agent's own session, in whose feed the answer may stand.
    pub session: Option<HeaderValue>,
}

impl Query {
    /// Asks until the answer is there. It has no end of its own: the turn's progress timer is.
    pub(super) async fn follow(self) -> Result<String, Failure> {
        for looks in 0.. {
            tokio::time::sleep(follow::pause(looks)).await;
            match self.look().await {
                Followed::Processing => {}
                Followed::Completed(text) => return Ok(text),
                Followed::Failed(reason) => {
                    // The id is the agent's business with the gateway.
                    let reason = reason.replace(&self.id, "…");
                    let message = format!("the agent behind the gateway failed: {reason}");
                    return Err(Failure::new(ErrorCode::UpstreamError, message));
                }
            }
        }
        std::future::pending().await
    }

    /// Its own page, then the agent's news, then those of the session.
    async fn look(&self) -> Followed {
        let id = utf8_percent_encode(&self.id, NON_ALPHANUMERIC);
        let query = self.ask(&format!("{}/query/{id}", self.base), None).await;
        let mut followed = query.as_ref().map_or(Followed::Processing, follow::query);
        for session in std::iter::once(None).chain(self.session.as_ref().map(Some)) {
            if followed != Followed::Processing {
                break;
            }
            let page = self.ask(&format!("{}/news?limit=1000&query_id={id}", self.base), session).await;
            followed = page.map_or(Followed::Processing, |page| follow::news(&page, &self.id));
        }
        followed
    }

    /// One question; `None` where the agent has no such path, or fails for the moment.
    async fn ask(&self, path: &str, session: Option<&HeaderValue>) -> Option<Value> {
        let mut headers = self.headers.clone();
        headers.extend(session.map(|session| (HeaderName::from_static(SESSION_HEADER), session.clone())));
        let request = net::Request {
            method: Method::GET,
            target: self.upstream.target(path).ok()?,
            headers,
            body: Bytes::new(),
            coding: Coding::Decoded,
            timeouts: Timeouts::default(),
        };
        let document = self.upstream.fetch(request, BOUNDS).await.ok()?;
        document.status.is_success().then(|| serde_json::from_slice(&document.body).ok())?
    }
}
