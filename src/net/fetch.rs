//! `fetch`: a whole small document from an origin that an operator named.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::uri::{PathAndQuery, Uri};
use http::{HeaderMap, Method, StatusCode, header};
use tokio::time::timeout;

use super::error::Timer;
use super::{Client, Coding, Error, Peer, Request};

/// Redirects that are followed.
const REDIRECTS_MAX: usize = 3;

/// What a fetch may take.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Bytes of the body.
    pub bytes: usize,
    /// From the call until the last byte, redirects among it.
    pub time: Duration,
}

/// A document, whatever its status.
#[derive(Debug, Clone)]
pub struct Document {
    /// The status of the last answer; 300 and above is not an error here.
    pub status: StatusCode,
    /// Its head.
    pub headers: HeaderMap,
    /// Its whole body.
    pub body: Bytes,
    /// Where it came from, after redirects.
    pub target: PathAndQuery,
}

impl Client {
    /// Sends a request and reads its whole answer, decoded; `bounds` count what is decoded. Redirects of GET and HEAD
    /// are followed within the origin, three at most.
    pub async fn fetch(&self, peer: &Peer, request: Request, bounds: Bounds) -> Result<Document, Error> {
        match timeout(bounds.time, self.fetch_unhurried(peer, request, bounds.bytes)).await {
            Ok(fetched) => fetched,
            Err(_) => Err(Error::Timeout { timer: Timer::Total, after: bounds.time }),
        }
    }

    async fn fetch_unhurried(&self, peer: &Peer, mut request: Request, limit: usize) -> Result<Document, Error> {
        request.coding = Coding::Decoded;
        for _ in 0..=REDIRECTS_MAX {
            let mut response = self.send(peer, request.clone()).await?;
            let follows = matches!(request.method, Method::GET | Method::HEAD);
            if follows && let Some(target) = redirect(peer, &request.target, response.status, &response.headers)? {
                request.target = target;
                response.release().await;
                continue;
            }
            let mut body = BytesMut::new();
            while let Some(chunk) = response.chunk().await? {
                if body.len() + chunk.len() > limit {
                    return Err(Error::TooLarge { limit });
                }
                body.extend_from_slice(&chunk);
            }
            let body = body.freeze();
            return Ok(Document { status: response.status, headers: response.headers, body, target: request.target });
        }
        Err(Error::Redirect("too often"))
    }
}

/// Where a redirect leads within the origin of `peer`; `None` if the answer is no redirect.
fn redirect(
    peer: &Peer,
    from: &PathAndQuery,
    status: StatusCode,
    headers: &HeaderMap,
) -> Result<Option<PathAndQuery>, Error> {
    let redirects = matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308);
    let Some(location) = headers.get(header::LOCATION).filter(|_| redirects) else { return Ok(None) };
    let broken = Error::Redirect("to something that is no URL");
    let location = location.to_str().map_err(|_| broken.clone())?;
    let location = location.split_once('#').map_or(location, |(before, _)| before);
    let uri: Uri = match location {
        // Without its first slash it stands beside the document (RFC 3986 5.2).
        relative if !relative.starts_with('/') && !relative.contains("://") => {
            let folder = from.path().rsplit_once('/').map_or("", |(folder, _)| folder);
            format!("{folder}/{relative}")
        }
        same_scheme if same_scheme.starts_with("//") => {
            format!("{}:{same_scheme}", if peer.origin().tls { "https" } else { "http" })
        }
        location => location.to_owned(),
    }
    .parse()
    .map_err(|_| broken.clone())?;
    if uri.scheme().is_some() && !is_within(peer, &uri) {
        return Err(Error::Redirect("to another origin"));
    }
    uri.path_and_query().cloned().map(Some).ok_or(broken)
}

fn is_within(peer: &Peer, uri: &Uri) -> bool {
    let origin = peer.origin();
    let port = uri.port_u16().unwrap_or(if uri.scheme_str() == Some("https") { 443 } else { 80 });
    let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    uri.scheme_str() == Some(if origin.tls { "https" } else { "http" })
        && port == origin.port
        && host.eq_ignore_ascii_case(&origin.host)
}

#[cfg(test)]
mod tests;
