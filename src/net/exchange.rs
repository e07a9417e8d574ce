//! `Exchange`: one request and its answer on one connection, which is given back clean or closed, whatever happens.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, StatusCode, Uri, Version, header};
use pingora::connectors::http::Connector;
use pingora::http::{RequestHeader, ResponseHeader};
use pingora::protocols::http::client::HttpSession;
use pingora::upstreams::peer::HttpPeer;
use pingora::{ErrorType, RetryType};
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::client::{Coding, Request};
use super::error::Timer;
use super::{Error, HttpVersion, Peer};

/// A request's body leaves in parts of this size, and after each it is seen whether the answer is already there.
const WRITE_PART: usize = 64 << 10;

/// How long an answer may take that was perhaps sent before the service stopped reading the request. One that neither
/// reads on nor closes is heard when the write timer has run out.
const EARLY_ANSWER: Duration = Duration::from_millis(500);

/// Interim answers (1xx) before the answer.
pub const INTERIM_MAX: usize = 16;

/// Bytes of names and values in an answer's head. Pingora itself stops at 1 MiB and 255 fields.
const HEAD_MAX: usize = 64 << 10;

/// Fields about a connection: they are never sent, as each connection has its own (RFC 9110 7.6.1), and HTTP/2 forbids
/// them.
const CONNECTION_FIELDS: [HeaderName; 7] = [
    header::CONNECTION,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::TE,
    header::TRAILER,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

pub(super) struct Exchange {
    connector: Arc<Connector>,
    peer: HttpPeer,
    /// Gone once the connection was given back.
    session: Option<HttpSession>,
    /// Whether the connection has served requests before, and may therefore be dead.
    reused: bool,
    /// How far the request got.
    sent: Sent,
    /// An answer that came before the request was sent.
    early: Option<Box<ResponseHeader>>,
    /// How long the connection may wait in the pool.
    keep: Option<Duration>,
    /// Whether it is closed after this request.
    once: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sent {
    Nothing,
    Head,
    All,
}

/// A failed exchange.
pub(super) struct Failure {
    pub(super) error: Error,
    /// The service has not looked at the request: its pooled connection was dead, or it said so. It may be sent once
    /// more.
    pub(super) again: bool,
}

impl Exchange {
    /// Takes a connection of the pool or opens one; no timer of its own.
    pub(super) async fn open(connector: &Arc<Connector>, peer: HttpPeer) -> pingora::Result<Self> {
        let (session, reused) = connector.get_http_session(&peer).await?;
        Ok(Self {
            connector: Arc::clone(connector),
            keep: peer.options.idle_timeout,
            peer,
            session: Some(session),
            reused,
            sent: Sent::Nothing,
            early: None,
            once: false,
        })
    }

    /// Under which peer an HTTP/1 connection is pooled from now on. One of HTTP/2 is pooled from its first request on,
    /// so it stays where it was opened.
    pub(super) fn keep_as(&mut self, peer: HttpPeer) {
        if matches!(self.session, Some(HttpSession::H1(_))) {
            self.peer = peer;
        }
    }

    /// No other request gets the connection.
    pub(super) fn keep_never(&mut self) {
        self.once = true;
    }

    /// How long the connection may wait in the pool, where the service has said so.
    pub(super) fn keep_for(&mut self, time: Duration) {
        self.keep = Some(time);
    }

    pub(super) fn is_reused(&self) -> bool {
        self.reused
    }

    /// Where the connection leads.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.peer._address.as_inet().copied()
    }

    /// Sends the request and reads the answer's head, past interim ones.
    pub(super) async fn head(&mut self, peer: &Peer, request: &Request) -> Result<Box<ResponseHeader>, Failure> {
        let failure = match self.send(peer, request).await {
            Ok(()) => return self.answer_within(request.timeouts.first_byte).await,
            Err(failure) if self.sent == Sent::Nothing => return Err(failure),
            Err(failure) => failure,
        };
        // A service that refuses a body may answer and stop reading it.
        match self.answer_within(Some(EARLY_ANSWER)).await {
            Ok(head) => Ok(head),
            Err(answer) => Err(Failure { again: failure.again || answer.again, error: failure.error }),
        }
    }

    /// The next part of the body; `None` is its proven end. Cancel-safe: a read that was dropped loses nothing.
    pub(super) async fn body(&mut self) -> Result<Option<Bytes>, Error> {
        let Some(session) = &mut self.session else { return Ok(None) };
        loop {
            match session.read_response_body().await {
                // Framing between two parts.
                Ok(Some(bytes)) if bytes.is_empty() => {}
                Ok(bytes) => return Ok(bytes),
                Err(error) => return Err(broken(&error)),
            }
        }
    }

    /// Whether the answer has no body, or none left.
    pub(super) fn is_done(&mut self) -> bool {
        self.session.as_mut().is_none_or(HttpSession::response_done)
    }

    /// Gives the connection back, or ends the request at once if its answer is not complete: HTTP/1 closes the
    /// connection, HTTP/2 resets the stream alone.
    pub(super) fn finish(&mut self) {
        let Some(session) = self.session.take() else { return };
        let half_sent = self.sent != Sent::All && matches!(session, HttpSession::H1(_));
        if self.once || half_sent || Handle::try_current().is_err() {
            // Dropping closes. Without a runtime the process is about to end.
            return;
        }
        // Pingora waits only where it closes, and a close that would wait is dropped with its connection, which closes
        // it too.
        let release = pin!(self.connector.release_http_session(session, &self.peer, self.keep));
        let _ = release.poll(&mut Context::from_waker(Waker::noop()));
    }

    async fn send(&mut self, peer: &Peer, request: &Request) -> Result<(), Failure> {
        let Some(session) = &mut self.session else { return Ok(()) };
        let reused = self.reused;
        let failed = |error: Box<pingora::Error>| Failure::of(&error, reused);
        let late = |_| Failure::from(Error::Timeout { timer: Timer::Write, after: peer.write });
        let h2 = matches!(session, HttpSession::H2(_));
        if peer.version == HttpVersion::Http2 && !h2 {
            return Err(Error::Protocol("it does not offer HTTP/2").into());
        }
        let head = Box::new(request_head(peer, request, h2)?);
        match session {
            HttpSession::H2(stream) => stream.write_request_header(head, request.body.is_empty()).map_err(failed)?,
            HttpSession::H1(_) | HttpSession::Custom(()) => {
                timeout(peer.write, session.write_request_header(head)).await.map_err(late)?.map_err(failed)?;
            }
        }
        self.sent = Sent::Head;
        let mut rest = request.body.clone();
        while !rest.is_empty() {
            let part = rest.split_to(WRITE_PART.min(rest.len()));
            let last = rest.is_empty();
            timeout(peer.write, session.write_request_body(part, last)).await.map_err(late)?.map_err(failed)?;
            if last {
                break;
            }
            match ready(session.read_response_header()) {
                None => {}
                Some(Ok(())) => {
                    self.early = session.response_header().map(|head| Box::new(head.clone()));
                    if self.early.as_ref().is_some_and(|head| !head.status.is_informational()) {
                        return Ok(());
                    }
                }
                Some(Err(error)) => {
                    // Pingora panics when it is asked for a head again after it failed.
                    self.session = None;
                    return Err(failed(error));
                }
            }
        }
        timeout(peer.write, session.finish_request_body()).await.map_err(late)?.map_err(failed)?;
        self.sent = Sent::All;
        Ok(())
    }

    async fn answer_within(&mut self, limit: Option<Duration>) -> Result<Box<ResponseHeader>, Failure> {
        match limit {
            None => self.answer().await,
            Some(after) => timeout(after, self.answer())
                .await
                .unwrap_or_else(|_| Err(Error::Timeout { timer: Timer::FirstByte, after }.into())),
        }
    }

    async fn answer(&mut self) -> Result<Box<ResponseHeader>, Failure> {
        for _ in 0..=INTERIM_MAX {
            let head = match self.early.take() {
                Some(head) => head,
                None => self.next_head().await?,
            };
            let bytes: usize = head.headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
            if bytes > HEAD_MAX {
                return Err(Error::Protocol("the head of its answer is over 64 KiB").into());
            }
            if head.status == StatusCode::SWITCHING_PROTOCOLS {
                return Err(Error::Protocol("it switched protocols unasked").into());
            }
            if !head.status.is_informational() {
                return Ok(head);
            }
        }
        Err(Error::Protocol("too many interim answers").into())
    }

    async fn next_head(&mut self) -> Result<Box<ResponseHeader>, Failure> {
        let Some(session) = &mut self.session else { return Err(Error::Reset.into()) };
        session.read_response_header().await.map_err(|error| Failure::of(&error, self.reused))?;
        let head = session.response_header().ok_or(Error::Protocol("an answer without a head"))?;
        Ok(Box::new(head.clone()))
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.finish();
    }
}

impl Failure {
    fn of(error: &pingora::Error, reused: bool) -> Self {
        let again = match (error.retry, error.etype()) {
            (RetryType::Decided(true), kind) => *kind == ErrorType::H2Error,
            (RetryType::ReusedOnly, _) => reused && !is_mid_head(error),
            (RetryType::Decided(false), kind) => reused && *kind == ErrorType::WriteError,
        };
        Self { error: broken(error), again }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { error, again: false }
    }
}

/// The first result of a future, if it has one without waiting. The future may be dropped at any point.
pub(super) fn ready<F: Future>(future: F) -> Option<F::Output> {
    // Out of its turn, a ready future may pretend to wait (tokio's cooperative budget); not so when unconstrained.
    let future = pin!(tokio::task::unconstrained(future));
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

/// What is sent: the request's own fields without those about a connection, `Host` or `:authority`, and
/// `Content-Length`.
fn request_head(peer: &Peer, request: &Request, h2: bool) -> Result<RequestHeader, Error> {
    let unwritable = || Error::Protocol("the request can't be written as HTTP");
    let target = request.target.as_str();
    let mut head =
        RequestHeader::build_no_case(request.method.clone(), target.as_bytes(), Some(request.headers.len() + 2))
            .map_err(|_| unwritable())?;
    let host = match request.headers.get(header::HOST) {
        Some(host) => host.clone(),
        None => HeaderValue::from_str(&peer.origin.authority()).map_err(|_| unwritable())?,
    };
    if h2 {
        let scheme = if peer.origin.tls { "https" } else { "http" };
        let uri = Uri::builder().scheme(scheme).authority(host.as_bytes()).path_and_query(target).build();
        head.set_uri(uri.map_err(|_| unwritable())?);
        head.set_version(Version::HTTP_2);
    } else {
        head.set_version(if peer.version == HttpVersion::Http10 { Version::HTTP_10 } else { Version::HTTP_11 });
        head.insert_header(header::HOST, host).map_err(|_| unwritable())?;
    }
    for (name, value) in &request.headers {
        if *name != header::HOST && *name != header::CONTENT_LENGTH && !CONNECTION_FIELDS.contains(name) {
            head.append_header(name.clone(), value.clone()).map_err(|_| unwritable())?;
        }
    }
    if peer.is_for_one_request() && !h2 {
        head.insert_header(header::CONNECTION, "close").map_err(|_| unwritable())?;
    }
    if request.coding == Coding::Decoded && !request.headers.contains_key(header::ACCEPT_ENCODING) {
        head.insert_header(header::ACCEPT_ENCODING, "identity").map_err(|_| unwritable())?;
    }
    let bare = request.method.is_safe() || (request.method == Method::DELETE && peer.is_for_one_request());
    if !request.body.is_empty() || !bare {
        let length = HeaderValue::from(request.body.len());
        head.insert_header(header::CONTENT_LENGTH, length).map_err(|_| unwritable())?;
    }
    Ok(head)
}

/// What a failure on a connection means. Nothing of Pingora's own text is kept: it may quote the answer.
fn broken(error: &pingora::Error) -> Error {
    match error.etype() {
        ErrorType::ConnectionClosed => Error::Truncated,
        ErrorType::ReadError if io_kind(error) == Some(io::ErrorKind::UnexpectedEof) => Error::Truncated,
        ErrorType::ReadError if io_kind(error) == Some(io::ErrorKind::InvalidData) => {
            Error::Protocol("it broke TLS off, perhaps for want of a client certificate")
        }
        ErrorType::InvalidHTTPHeader => Error::Protocol("the head of its answer can't be read"),
        ErrorType::H2Downgrade => Error::Protocol("it wants HTTP/1.1, which `http: \"1.1\"` gives it"),
        ErrorType::InvalidH2 => Error::Protocol("its HTTP/2 frames can't be read"),
        ErrorType::Custom("InvalidChunk") => Error::Protocol("its chunks can't be read"),
        _ => Error::Reset,
    }
}

fn io_kind(error: &pingora::Error) -> Option<io::ErrorKind> {
    let cause = error.cause.as_ref()?.downcast_ref::<io::Error>()?;
    Some(cause.kind())
}

/// Whether a part of the head had come when the connection broke: then the service has looked at the request. Pingora
/// counts these bytes in its text alone; a test holds it to that.
fn is_mid_head(error: &pingora::Error) -> bool {
    let context = error.context.as_ref().map_or("", |context| context.as_str());
    context.contains("bytes already read: ") && !context.ends_with("bytes already read: 0")
}

#[cfg(test)]
mod tests;
