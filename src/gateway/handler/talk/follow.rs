//! A RESTAP agent behind the gateway that answers later is followed: its query, else its news.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use crate::net::{self, Bounds, Coding, Timeouts};
use crate::restap::{ErrorCode, hop_count};
use crate::talk::Failure;
use crate::talk::follow::{self, Followed};
use crate::upstream::Upstream;

/// For one question.
const BOUNDS: Bounds = Bounds { bytes: 8 << 20, time: Duration::from_secs(30) };

/// Asks until the answer is there. It has no end of its own: the turn's progress timer is.
pub(super) async fn follow(upstream: Arc<Upstream>, query_id: String, hops: HeaderValue) -> Result<String, Failure> {
    let id = utf8_percent_encode(&query_id, NON_ALPHANUMERIC).to_string();
    let query = format!("/query/{id}");
    let news = format!("/news?limit=1000&query_id={id}");
    for looks in 0.. {
        tokio::time::sleep(follow::pause(looks)).await;
        let mut followed = match ask(&upstream, &query, &hops).await {
            Some(body) => follow::query(&body),
            None => Followed::Processing,
        };
        if followed == Followed::Processing
            && let Some(page) = ask(&upstream, &news, &hops).await
        {
            followed = follow::news(&page, &query_id);
        }
        match followed {
            Followed::Processing => {}
            Followed::Completed(text) => return Ok(text),
            Followed::Failed(reason) => {
                let message = format!("the agent behind the gateway failed: {reason}");
                return Err(Failure::new(ErrorCode::UpstreamError, message));
            }
        }
    }
    std::future::pending().await
}

/// One question; `None` where the agent has no such path, or fails for the moment.
async fn ask(upstream: &Upstream, path: &str, hops: &HeaderValue) -> Option<Value> {
    let mut headers = HeaderMap::from_iter([(hop_count::HEADER, hops.clone())]);
    upstream.set_headers(&mut headers);
    let request = net::Request {
        method: Method::GET,
        target: upstream.target(path).ok()?,
        headers,
        body: Bytes::new(),
        coding: Coding::Decoded,
        timeouts: Timeouts::default(),
    };
    let document = upstream.fetch(request, BOUNDS).await.ok()?;
    document.status.is_success().then(|| serde_json::from_slice(&document.body).ok())?
}
