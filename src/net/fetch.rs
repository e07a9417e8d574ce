//! `fetch`: a whole small document, from an origin that an operator named or from where a stranger's URL leads.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::uri::{PathAndQuery, Uri};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use tokio::time::{Instant, timeout, timeout_at};

use super::error::Timer;
use super::{Client, Coding, Error, Guard, Origin, Peer, Request, Response, Timeouts, WebUrl};
use crate::restap::{HopCount, hop_count};

/// Redirects that are followed.
pub const REDIRECTS_MAX: usize = 3;

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
            if follows
                && let Some(target) = redirect(peer.origin(), &request.target, response.status, &response.headers)?
            {
                request.target = target;
                response.release().await;
                continue;
            }
            let body = whole(&mut response, limit).await?;
            return Ok(Document { status: response.status, headers: response.headers, body, target: request.target });
        }
        Err(Error::Redirect("too often"))
    }
}

/// What a stranger's URL led to.
#[derive(Debug, Clone)]
pub struct Found {
    /// The answer, whatever its status; a redirect among them where none was to be followed.
    pub document: Document,
    /// Where it came from, after redirects.
    pub url: WebUrl,
}

/// How a stranger's document is fetched.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// What it may take.
    pub bounds: Bounds,
    /// Redirects to follow, to wherever the guard lets them lead. From https none is followed to http.
    pub redirects: usize,
    /// What `Accept` says.
    pub accept: &'static str,
}

impl Guard {
    /// Gets the document at a URL that came out of a request, a signature or another document. Each hop is looked up,
    /// judged and connected to anew; nothing of ours is sent along.
    pub async fn fetch(&self, url: &WebUrl, rules: Rules) -> Result<Found, Error> {
        let deadline = Instant::now() + rules.bounds.time;
        match timeout_at(deadline, self.fetch_until(url.clone(), rules, deadline)).await {
            Ok(found) => found,
            Err(_) => Err(Error::Timeout { timer: Timer::Total, after: rules.bounds.time }),
        }
    }

    async fn fetch_until(&self, mut url: WebUrl, rules: Rules, deadline: Instant) -> Result<Found, Error> {
        for hop in 0..=rules.redirects {
            let peer = self.peer(&url, deadline).await?;
            let mut response = self.client().send(&peer, stranger_request(&url, rules.accept)).await?;
            let location = match response.status.as_u16() {
                301 | 302 | 303 | 307 | 308 if rules.redirects > 0 => response.headers.get(header::LOCATION),
                _ => None,
            };
            if let Some(location) = location {
                if hop == rules.redirects {
                    return Err(Error::Redirect("too often"));
                }
                let leads = location.to_str().ok().and_then(|location| url.join(location).ok());
                let leads = leads.ok_or(Error::Redirect("to something that is no URL"))?;
                if url.is_https() && !leads.is_https() {
                    return Err(Error::Redirect("from https to http"));
                }
                url = leads;
                continue;
            }
            let body = whole(&mut response, rules.bounds.bytes).await?;
            let document =
                Document { status: response.status, headers: response.headers, body, target: url.target().clone() };
            return Ok(Found { document, url });
        }
        Err(Error::Redirect("too often"))
    }
}

fn stranger_request(url: &WebUrl, accept: &'static str) -> Request {
    let headers = [
        (header::USER_AGENT, HeaderValue::from_static(super::USER_AGENT)),
        (header::ACCEPT, HeaderValue::from_static(accept)),
        (hop_count::HEADER, HopCount::default().next()),
    ];
    Request {
        method: Method::GET,
        target: url.target().clone(),
        headers: headers.into_iter().collect(),
        body: Bytes::new(),
        coding: Coding::Decoded,
        // The whole fetch has a deadline.
        timeouts: Timeouts::default(),
    }
}

async fn whole(response: &mut Response, limit: usize) -> Result<Bytes, Error> {
    let mut body = BytesMut::new();
    while let Some(chunk) = response.chunk().await? {
        if body.len() + chunk.len() > limit {
            return Err(Error::TooLarge { limit });
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body.freeze())
}

/// Where a redirect leads within the origin; `None` if the answer is no redirect.
pub fn redirect(
    origin: &Origin,
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
            format!("{}:{same_scheme}", if origin.tls { "https" } else { "http" })
        }
        location => location.to_owned(),
    }
    .parse()
    .map_err(|_| broken.clone())?;
    if uri.scheme().is_some() && !is_within(origin, &uri) {
        return Err(Error::Redirect("to another origin"));
    }
    uri.path_and_query().cloned().map(Some).ok_or(broken)
}

fn is_within(origin: &Origin, uri: &Uri) -> bool {
    let port = uri.port_u16().unwrap_or(if uri.scheme_str() == Some("https") { 443 } else { 80 });
    let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    uri.scheme_str() == Some(if origin.tls { "https" } else { "http" })
        && port == origin.port
        && host.eq_ignore_ascii_case(&origin.host)
}

#[cfg(test)]
mod tests;
