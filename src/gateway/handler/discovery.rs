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

/// Answers one of an agent's published paths.
pub(in crate::gateway) async fn answer(
    session: &mut Session,
    ctx: &mut RequestCtx,
    (agent, route, path): (&Agent, Fixed, &str),
) -> Result<(), Failed> {
    let published = &agent.published;
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
    let mut headers = vec![(CACHE_CONTROL, MAX_AGE), (VARY, HeaderValue::from_static("Accept-Encoding"))];
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
