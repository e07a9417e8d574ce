//! The agents' public keys, so that everybody can check what they sign. No service is asked.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName};
use http::{HeaderValue, StatusCode};
use pingora::proxy::Session;

use crate::gateway::ctx::RequestCtx;
use crate::gateway::error::Refusal;
use crate::gateway::live::Agent;
use crate::gateway::respond::{self, Answer, Failed};
use crate::restap::ErrorCode;
use crate::signature::{DIRECTORY_MEDIA_TYPE, KeySet, SigningKey, sign_directory};

/// How long a key set may be kept: as long as a new key should be published before it alone signs.
const MAX_AGE: HeaderValue = HeaderValue::from_static("public, max-age=3600");

/// Seconds for which the signature of a directory is valid: whoever has kept it for as long as it may still finds it
/// signed for as long again.
const DIRECTORY_LIFETIME: i64 = 7200;

/// `{base}/.well-known/jwks.json`.
pub(in crate::gateway) async fn answer(
    session: &mut Session,
    ctx: &mut RequestCtx,
    agent: &Agent,
) -> Result<(), Failed> {
    let body = document(&agent.keys.published())?;
    let headers = vec![(CACHE_CONTROL, MAX_AGE), (CONTENT_TYPE, HeaderValue::from_static("application/json"))];
    respond::send(session, ctx, Answer { status: StatusCode::OK, headers, body: body.into(), compress: false }).await
}

/// `/.well-known/http-message-signatures-directory` of an agent or, where that is at the origin or there is none, of
/// all agents of the origin.
pub(in crate::gateway) async fn answer_directory(
    session: &mut Session,
    ctx: &mut RequestCtx,
    agent: Option<&Arc<Agent>>,
) -> Result<(), Failed> {
    let live = ctx.live.clone();
    let keys = match agent {
        Some(agent) if !agent.base_path.is_empty() => agent.keys.published(),
        Some(agent) => live.keys_of_origin(agent.host.as_deref()),
        None => live.keys_of_origin(None),
    };
    let body = document(&keys)?;
    let mut headers = vec![(CACHE_CONTROL, MAX_AGE), (CONTENT_TYPE, HeaderValue::from_static(DIRECTORY_MEDIA_TYPE))];
    let request = session.req_header();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok().and_then(|now| i64::try_from(now.as_secs()).ok());
    if let (Some(authority), Some(now)) = (live.own_authority(agent, &request.headers, &request.uri), now) {
        let signed = sign_directory(&keys, &authority, body.as_bytes(), now, DIRECTORY_LIFETIME);
        for (name, value) in signed.map_err(|_| Refusal::internal())? {
            let value = HeaderValue::try_from(value).map_err(|_| Refusal::internal())?;
            headers.push((HeaderName::from_static(name), value));
        }
    }
    // Not compressed: the digest that is signed is that of these bytes.
    let answer = Answer { status: StatusCode::OK, headers, body: Bytes::from(body), compress: false };
    respond::send(session, ctx, answer).await
}

fn document(keys: &[SigningKey]) -> Result<String, Failed> {
    if keys.is_empty() {
        let message = "no key is published here; agents that sign their requests have one";
        return Err(Refusal::new(ErrorCode::NotFound, message).into());
    }
    Ok(KeySet::of(keys.iter().map(|key| key.public().clone())).to_json())
}
