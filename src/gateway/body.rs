//! Reads a request's body whole, bounded in bytes and in time.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use pingora::proxy::Session;

use super::ctx::RequestCtx;
use super::error::Refusal;
use super::respond::Failed;
use crate::restap::ErrorCode;

/// Reads the body. `limit` is in bytes; the whole of it must be there within `deadline`.
pub(super) async fn read(
    session: &mut Session,
    ctx: &RequestCtx,
    limit: u64,
    deadline: Duration,
) -> Result<Bytes, Failed> {
    // Whoever had to know who calls may have read it already.
    if let Some(whole) = &ctx.whole {
        return if whole.len() as u64 > limit { Err(too_large(limit).into()) } else { Ok(whole.clone()) };
    }
    if declared_length(session).is_some_and(|length| length > limit) {
        return Err(too_large(limit).into());
    }
    if expects_continue(session) {
        session.downstream_session.write_continue_response().await.map_err(Failed::gone)?;
    }
    match tokio::time::timeout(deadline, collect(session, limit)).await {
        Ok(read) => read,
        Err(_) => Err(timed_out().into()),
    }
}

async fn collect(session: &mut Session, limit: u64) -> Result<Bytes, Failed> {
    let mut first: Option<Bytes> = None;
    let mut rest = BytesMut::new();
    let mut length = 0;
    while let Some(chunk) = session.downstream_session.read_request_body().await.map_err(Failed::reading)? {
        length += chunk.len() as u64;
        if length > limit {
            return Err(too_large(limit).into());
        }
        // Most bodies come in one piece, which then is not copied.
        match &first {
            None => first = Some(chunk),
            Some(head) => {
                if rest.is_empty() {
                    rest.extend_from_slice(head);
                }
                rest.extend_from_slice(&chunk);
            }
        }
    }
    Ok(if rest.is_empty() { first.unwrap_or_default() } else { rest.freeze() })
}

/// What `Content-Length` says, if the request has one.
pub(super) fn declared_length(session: &Session) -> Option<u64> {
    session.req_header().headers.get(http::header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Whether the caller sends its body only after a `100 Continue`.
pub(super) fn expects_continue(session: &Session) -> bool {
    let expect = session.req_header().headers.get(http::header::EXPECT);
    expect.is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue"))
}

pub(super) fn too_large(limit: u64) -> Refusal {
    Refusal::new(ErrorCode::PayloadTooLarge, format!("the body is over the limit of {limit} bytes; send less"))
}

fn timed_out() -> Refusal {
    Refusal::new(ErrorCode::RequestTimeout, "the body did not arrive in time; send it again")
}
