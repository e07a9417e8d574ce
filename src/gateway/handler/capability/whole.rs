//! `Whole`: an answer that is there whole, and how its caller gets it.

use bytes::Bytes;
use http::header::{self, CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode};
use pingora::proxy::Session;

use super::{ProxiedCall, caller_head, is_bodiless};
use crate::gateway::ctx::RequestCtx;
use crate::gateway::live::Agent;
use crate::gateway::respond::Failed;

/// What says something of a body, and nothing where there is none.
const OF_BODIES: [HeaderName; 6] = [
    header::CONTENT_ENCODING,
    header::CONTENT_LANGUAGE,
    CONTENT_LENGTH,
    header::CONTENT_RANGE,
    header::CONTENT_TYPE,
    header::TRANSFER_ENCODING,
];

/// An answer of a service, or what a mapping made of it.
#[derive(Debug)]
pub(super) struct Whole {
    pub status: StatusCode,
    /// The service's own, to be looked through before a caller sees them.
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Whole {
    /// What a caller is told who has the answer already.
    pub(super) fn unchanged(mut headers: HeaderMap) -> Self {
        for name in &OF_BODIES {
            headers.remove(name);
        }
        Self { status: StatusCode::NOT_MODIFIED, headers, body: Bytes::new() }
    }

    /// Writes it.
    pub(super) async fn write(
        self,
        session: &mut Session,
        ctx: &mut RequestCtx,
        (agent, proxied): (&Agent, &ProxiedCall),
    ) -> Result<(), Failed> {
        let mut head = caller_head(agent, proxied, self.status, &self.headers)?;
        let to_head = *proxied.target.method() == Method::HEAD;
        let bodiless = to_head || is_bodiless(self.status);
        if !bodiless {
            head.insert_header(CONTENT_LENGTH, HeaderValue::from(self.body.len())).map_err(Failed::gone)?;
        }
        ctx.finish_head(&mut head).map_err(Failed::gone)?;
        let empty = bodiless || self.body.is_empty();
        ctx.told(if empty { &[] } else { &self.body }, true);
        session.write_response_header(Box::new(head), empty).await.map_err(Failed::gone)?;
        if !empty {
            session.write_response_body(Some(self.body), true).await.map_err(Failed::gone)?;
        }
        Ok(())
    }
}
