//! Writes answers: one JSON body, prepared bytes, or a stream of events.

use std::io::{self, Write};
use std::time::Duration;

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use http::header::{
    ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue,
    RETRY_AFTER, TRANSFER_ENCODING, VARY,
};
use http::{StatusCode, Version};
use pingora::http::ResponseHeader;
use pingora::proxy::Session;
use pingora::{Error, ErrorType};

use super::body;
use super::ctx::RequestCtx;
use super::error::Refusal;
use crate::restap::ErrorCode;
use crate::restap::accept::accepts_gzip;

/// Bodies shorter than this are not worth compressing.
const GZIP_BYTES_MIN: usize = 256;

/// Bytes of a refused body that are read, so that the caller gets the answer rather than a reset.
const DRAIN_BYTES_MAX: usize = 256 << 10;

/// How long that may take.
const DRAIN: Duration = Duration::from_millis(500);

/// How a handler ends without an answer.
#[derive(Debug)]
pub(super) enum Failed {
    /// The caller is to be told.
    Refused(Box<Refusal>),
    /// The caller is gone, or its connection is of no more use.
    Gone(Box<Error>),
}

impl Failed {
    /// Writing failed.
    pub(super) fn gone(error: Box<Error>) -> Self {
        Self::Gone(error.into_down())
    }

    /// Reading a body failed: the caller left, was too slow, or broke HTTP.
    pub(super) fn reading(error: Box<Error>) -> Self {
        match unreadable(&error) {
            Some(refusal) => refusal.into(),
            None => Self::gone(error),
        }
    }
}

/// What a caller is told whose body can't be read; `None` where it is gone.
pub(super) fn unreadable(error: &Error) -> Option<Refusal> {
    match error.etype() {
        ErrorType::ReadTimedout => {
            Some(Refusal::new(ErrorCode::RequestTimeout, "the body did not arrive in time; send it again"))
        }
        _ if is_malformed(error) => Some(Refusal::new(ErrorCode::BadRequest, "the body breaks its chunked coding")),
        _ => None,
    }
}

/// Whether our own judge of chunked bodies, or Pingora's reader, refused the bytes.
fn is_malformed(error: &Error) -> bool {
    let refused = error.root_cause().downcast_ref::<io::Error>();
    refused.is_some_and(|error| error.kind() == io::ErrorKind::InvalidData)
        || matches!(error.etype(), ErrorType::Custom(_) | ErrorType::CustomCode(..))
}

impl<E: Into<Refusal>> From<E> for Failed {
    fn from(error: E) -> Self {
        Self::Refused(Box::new(error.into()))
    }
}

/// A complete answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub status: StatusCode,
    pub headers: Vec<(HeaderName, HeaderValue)>,
    pub body: Bytes,
    /// Whether the body may be compressed; one that was prepared decides for itself.
    pub compress: bool,
}

impl Answer {
    /// JSON, not to be kept by anybody.
    pub(super) fn json(body: impl Into<Bytes>) -> Self {
        let headers = vec![
            (CONTENT_TYPE, HeaderValue::from_static("application/json")),
            (CACHE_CONTROL, HeaderValue::from_static("no-store")),
        ];
        Self { status: StatusCode::OK, headers, body: body.into(), compress: true }
    }

    fn compress(&mut self, accepted: bool) {
        if !self.compress || self.body.len() < GZIP_BYTES_MIN {
            return;
        }
        self.headers.push((VARY, HeaderValue::from_static("Accept-Encoding")));
        let mut encoder = GzEncoder::new(Vec::with_capacity(self.body.len() / 2), Compression::fast());
        if accepted
            && encoder.write_all(&self.body).is_ok()
            && let Ok(body) = encoder.finish()
        {
            self.body = body.into();
            self.headers.push((CONTENT_ENCODING, HeaderValue::from_static("gzip")));
        }
    }
}

impl From<&Refusal> for Answer {
    fn from(refusal: &Refusal) -> Self {
        let mut answer = Self::json(refusal.body().to_string());
        answer.status = refusal.code.status();
        if let Some(seconds) = refusal.retry_after {
            answer.headers.push((RETRY_AFTER, seconds.into()));
        }
        if let Some(allow) = refusal.allow.as_ref().and_then(|allow| HeaderValue::from_str(allow).ok()) {
            answer.headers.push((ALLOW, allow));
        }
        answer.headers.extend(refusal.challenges.iter().cloned());
        answer
    }
}

/// Writes a complete answer. The connection stays usable.
pub(super) async fn send(session: &mut Session, ctx: &mut RequestCtx, mut answer: Answer) -> Result<(), Failed> {
    answer.compress(accepts_gzip(&session.req_header().headers));
    let mut head = ResponseHeader::build(answer.status, Some(answer.headers.len() + 8)).map_err(Failed::gone)?;
    for (name, value) in answer.headers {
        head.append_header(name, value).map_err(Failed::gone)?;
    }
    let bodyless = answer.status == StatusCode::NO_CONTENT || answer.status == StatusCode::NOT_MODIFIED;
    if !bodyless {
        head.insert_header(CONTENT_LENGTH, answer.body.len()).map_err(Failed::gone)?;
    }
    ctx.finish_head(&mut head).map_err(Failed::gone)?;
    let empty = bodyless || answer.body.is_empty() || session.req_header().method == http::Method::HEAD;
    session.write_response_header(Box::new(head), empty).await.map_err(Failed::gone)?;
    ctx.told(if empty { &[] } else { &answer.body }, true);
    if !empty {
        session.write_response_body(Some(answer.body), true).await.map_err(Failed::gone)?;
    }
    Ok(())
}

/// Tells the caller why its request fails. Closes the connection if the rest of its body is not worth reading.
pub(super) async fn refuse(session: &mut Session, ctx: &mut RequestCtx, refusal: &Refusal) -> Result<(), Failed> {
    let waits = body::expects_continue(session) && session.body_bytes_read() == 0;
    let unread = !session.downstream_session.is_body_done();
    let long = body::declared_length(session).is_none_or(|length| length > DRAIN_BYTES_MAX as u64);
    let close = unread && (waits || long);
    if close {
        session.set_keepalive(None);
    }
    ctx.refused = Some(refusal.code);
    send(session, ctx, refusal.into()).await?;
    if close && !waits {
        let _ = tokio::time::timeout(DRAIN, drain(session)).await;
    }
    Ok(())
}

async fn drain(session: &mut Session) {
    while let Ok(Some(_)) = session.downstream_session.read_request_body().await {
        if session.body_bytes_read() > DRAIN_BYTES_MAX {
            break;
        }
    }
}

/// Writes the head of an event stream.
pub(super) async fn open_stream(session: &mut Session, ctx: &mut RequestCtx) -> Result<(), Failed> {
    let mut head = ResponseHeader::build(StatusCode::OK, Some(12)).map_err(Failed::gone)?;
    let mut put = |name: HeaderName, value: &'static str| head.insert_header(name, value).map_err(Failed::gone);
    put(CONTENT_TYPE, "text/event-stream")?;
    put(CACHE_CONTROL, "no-cache")?;
    put(HeaderName::from_static("x-accel-buffering"), "no")?;
    match session.req_header().version {
        Version::HTTP_11 => {
            put(TRANSFER_ENCODING, "chunked")?;
            if session.get_keepalive().is_some() {
                put(CONNECTION, "keep-alive")?;
            }
        }
        // HTTP/1.0 knows no chunks: the end of the connection ends the stream.
        Version::HTTP_10 => session.set_keepalive(None),
        _ => {}
    }
    ctx.finish_head(&mut head).map_err(Failed::gone)?;
    session.write_response_header(Box::new(head), false).await.map_err(Failed::gone)
}

/// Writes frames of an open stream and flushes them.
pub(super) async fn write_frames(session: &mut Session, frames: Bytes, last: bool) -> Result<(), Failed> {
    session.write_response_body(Some(frames), last).await.map_err(Failed::gone)
}

/// Ends a request whose caller is gone, or whose answer broke off.
pub(super) fn gone() -> Failed {
    Failed::Gone(Error::new_down(ErrorType::ConnectionClosed))
}
