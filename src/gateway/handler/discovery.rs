//! What is published: the catalog, full capability documents, the skill, and where to find them. No service is asked.

use http::HeaderValue;
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, VARY};
use pingora::proxy::Session;

use crate::catalog::{Document, Selected};
use crate::gateway::ctx::RequestCtx;
use crate::gateway::error::Refusal;
use crate::gateway::live::Agent;
use crate::gateway::respond::{self, Answer, Failed};
use crate::gateway::router::{CAPABILITY_DOCUMENTS, Fixed};

/// How long a published document may be kept.
const MAX_AGE: HeaderValue = HeaderValue::from_static("public, max-age=60");

/// What a verified caller sees is asked for again each time, and kept by nobody else.
const PRIVATE: HeaderValue = HeaderValue::from_static("private, no-cache");

/// Once there are callers that are known.
const VARIES_BY_CALLER: HeaderValue =
    HeaderValue::from_static("Authorization, X-API-Key, Signature-Input, Accept-Encoding");

/// Answers one of an agent's published paths.
pub(in crate::gateway) async fn answer(
    session: &mut Session,
    ctx: &mut RequestCtx,
    (agent, route, path): (&Agent, Fixed, &str),
) -> Result<(), Failed> {
    let view = agent.view(&ctx.who);
    let published = &view.published;
    match route {
        Fixed::Catalog => send(session, ctx, &published.catalog).await,
        Fixed::Skill => send(session, ctx, &published.skill).await,
        Fixed::Root => send(session, ctx, &published.root).await,
        _ => {
            let id = path.strip_prefix(CAPABILITY_DOCUMENTS).unwrap_or_default();
            let id = percent_encoding::percent_decode_str(id).decode_utf8_lossy();
            let document = published.capability(&id).ok_or_else(|| Refusal::not_found(&agent.base_path))?;
            send(session, ctx, &document).await
        }
    }
}

/// Sends a document, or 304 to a caller that has it.
pub(in crate::gateway) async fn send(
    session: &mut Session,
    ctx: &mut RequestCtx,
    document: &Document,
) -> Result<(), Failed> {
    let selected = document.select(&session.req_header().headers);
    // What a caller may use is its own business; anonymous callers all see the same.
    let cached = if ctx.who.caller.is_some() { PRIVATE } else { MAX_AGE };
    let guarded = ctx.agent.as_ref().is_some_and(|agent| agent.guard.is_some());
    let vary = if guarded { VARIES_BY_CALLER } else { HeaderValue::from_static("Accept-Encoding") };
    let mut headers = vec![(CACHE_CONTROL, cached), (VARY, vary)];
    let (status, body) = match selected {
        Selected::NotModified(etag) => {
            headers.push((ETAG, etag.header_value()));
            (StatusCode::NOT_MODIFIED, bytes::Bytes::new())
        }
        Selected::Body { bytes, etag, gzip } => {
            headers.push((CONTENT_TYPE, HeaderValue::from_static(document.media_type())));
            headers.push((ETAG, etag.header_value()));
            if gzip {
                headers.push((CONTENT_ENCODING, HeaderValue::from_static("gzip")));
            }
            (StatusCode::OK, bytes)
        }
    };
    respond::send(session, ctx, Answer { status, headers, body, compress: false }).await
}
