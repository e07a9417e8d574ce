//! `Response`: the head of an answer, and its body as it arrives.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode, Version, header};
use pingora::http::ResponseHeader;
use tokio::time::{Instant, timeout, timeout_at};

use super::Error;
use super::client::{Coding, Request};
use super::decode::Decoder;
use super::error::Timer;
use super::exchange::{Exchange, ready};

/// How long [`Response::release`] reads on, and how much.
const RELEASE_TIME: Duration = Duration::from_millis(250);
const RELEASE_BYTES: usize = 16 << 10;

/// A service that says for how long it keeps a connection is believed between these.
const KEEP_ALIVE_MIN: Duration = Duration::from_millis(500);
const KEEP_ALIVE_MAX: Duration = Duration::from_mins(1);

/// An answer whose head has come. Dropping it before the body's end ends the request at once: HTTP/1 closes the
/// connection, HTTP/2 resets the stream. Once the end was read, the connection is back in the pool.
pub struct Response {
    /// The status, 200 and above.
    pub status: StatusCode,
    /// All fields of the head, as they came; those about an encoding that was removed are gone.
    pub headers: HeaderMap,
    /// What it came in.
    pub version: Version,
    decoder: Option<Decoder>,
    /// Gone once the body has ended or failed.
    exchange: Option<Exchange>,
    state: State,
    ends_by: End,
    idle: Option<Duration>,
    reused: bool,
    address: Option<SocketAddr>,
    companion: Option<Box<dyn Companion>>,
}

/// Follows an answer: told when it breaks, dropped when it has ended.
pub trait Companion: Send + Sync {
    /// The answer was cut, or did not go on in time.
    fn broken(&self);
}

/// What proved the end of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Its framing: `Content-Length`, the last chunk, HTTP/2's END_STREAM, or no body at all.
    Framed,
    /// An orderly close, which is all that HTTP/1.0 has; a service that crashed may look the same.
    Closed,
}

#[derive(Debug, Clone)]
enum State {
    Open,
    Ended,
    Failed(Error),
}

impl Response {
    pub(super) fn new(mut exchange: Exchange, head: ResponseHeader, request: &Request) -> Self {
        let mut head = http::response::Parts::from(head);
        let bodiless =
            request.method == Method::HEAD || matches!(head.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        let ends_by = if bodiless { End::Framed } else { end_of(head.version, &head.headers) };
        if let Some(time) = keep_alive(&head.headers) {
            exchange.keep_for(time);
        }
        let done = exchange.is_done();
        let decodes = request.coding == Coding::Decoded && !done;
        let mut response = Self {
            ends_by,
            decoder: if decodes { Decoder::of(&mut head.headers) } else { None },
            idle: request.timeouts.idle,
            reused: exchange.is_reused(),
            address: exchange.address(),
            status: head.status,
            headers: head.headers,
            version: head.version,
            exchange: Some(exchange),
            state: State::Open,
            companion: None,
        };
        if done {
            response.settle(State::Ended);
        }
        response
    }

    /// Has somebody follow it to its end.
    pub fn accompany(&mut self, companion: Box<dyn Companion>) {
        if matches!(self.state, State::Open) {
            self.companion = Some(companion);
        }
    }

    /// The next part of the body as it arrives, never empty; `None` is the proven end, see [`Self::end`]. A body that
    /// was cut is an error, and stays one. Cancel-safe: dropping the future loses nothing.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, Error> {
        self.next(self.idle).await
    }

    /// What [`Self::chunk`] would give without waiting. For writing parts together that are there together.
    pub fn ready_chunk(&mut self) -> Option<Result<Option<Bytes>, Error>> {
        ready(self.next(None))
    }

    /// What proved the end, once it was read.
    pub fn end(&self) -> Option<End> {
        matches!(self.state, State::Ended).then_some(self.ends_by)
    }

    /// Whether the connection had served requests before.
    pub fn is_reused(&self) -> bool {
        self.reused
    }

    /// Where the connection leads.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// For who knows from the content that nothing more will come: reads the end of the framing, so that the connection
    /// can be used again. Takes 250 ms and 16 KiB at most, and then ends the request.
    pub async fn release(mut self) {
        let deadline = Instant::now() + RELEASE_TIME;
        let mut left = RELEASE_BYTES;
        while let Ok(Ok(Some(bytes))) = timeout_at(deadline, self.next(None)).await {
            match left.checked_sub(bytes.len()) {
                Some(rest) => left = rest,
                None => return,
            }
        }
    }

    async fn next(&mut self, idle: Option<Duration>) -> Result<Option<Bytes>, Error> {
        loop {
            if let State::Failed(error) = &self.state {
                return Err(error.clone());
            }
            let decoded = self.decoder.as_mut().map_or(Ok(None), Decoder::decoded);
            if let Some(bytes) = decoded.map_err(|error| self.fail(error))? {
                return Ok(Some(bytes));
            }
            let Some(exchange) = &mut self.exchange else { return Ok(None) };
            let read = match idle {
                None => exchange.body().await,
                Some(after) => {
                    timeout(after, exchange.body()).await.unwrap_or(Err(Error::Timeout { timer: Timer::Idle, after }))
                }
            };
            match (read.map_err(|error| self.fail(error))?, &mut self.decoder) {
                (Some(bytes), None) => return Ok(Some(bytes)),
                (Some(bytes), Some(decoder)) => decoder.feed(bytes),
                (None, decoder) => {
                    let rest = decoder.as_mut().map_or(Ok(None), Decoder::end).map_err(|error| self.fail(error))?;
                    self.settle(State::Ended);
                    return Ok(rest);
                }
            }
        }
    }

    fn fail(&mut self, error: Error) -> Error {
        self.settle(State::Failed(error.clone()));
        error
    }

    fn settle(&mut self, state: State) {
        if let Some(companion) = self.companion.take()
            && matches!(state, State::Failed(_))
        {
            companion.broken();
        }
        self.state = state;
        if let Some(mut exchange) = self.exchange.take() {
            exchange.finish();
        }
    }
}

/// RFC 9112 6.3, as Pingora reads it: a body whose last coding is not `chunked` ends with the connection.
fn end_of(version: Version, headers: &HeaderMap) -> End {
    let coding = headers.get_all(header::TRANSFER_ENCODING).iter().next_back();
    let framed = match coding {
        _ if version == Version::HTTP_2 => true,
        Some(coding) => coding.as_bytes().trim_ascii().to_ascii_lowercase().ends_with(b"chunked"),
        None => headers.contains_key(header::CONTENT_LENGTH),
    };
    if framed { End::Framed } else { End::Closed }
}

/// How long the connection may wait for its next request: a second less than `Keep-Alive: timeout=5` says.
fn keep_alive(headers: &HeaderMap) -> Option<Duration> {
    let mut parameters = headers.get("keep-alive")?.to_str().ok()?.split(',');
    let seconds = parameters.find_map(|parameter| parameter.trim().strip_prefix("timeout="))?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).saturating_sub(Duration::from_secs(1)).clamp(KEEP_ALIVE_MIN, KEEP_ALIVE_MAX))
}
