//! `OPTIONS`: which methods a path takes, and whether a page of another origin may use them.

use bytes::Bytes;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ALLOW, VARY,
};
use http::{HeaderValue, StatusCode};
use pingora::proxy::Session;

use crate::gateway::ctx::RequestCtx;
use crate::gateway::respond::{self, Answer, Failed};

/// How long a browser may remember the answer, in seconds.
const MAX_AGE: HeaderValue = HeaderValue::from_static("600");

pub(in crate::gateway) async fn answer(session: &mut Session, ctx: &mut RequestCtx, allow: &str) -> Result<(), Failed> {
    let methods = HeaderValue::from_str(allow).unwrap_or(HeaderValue::from_static("OPTIONS"));
    let mut headers = vec![(ALLOW, methods.clone())];
    if ctx.cors.is_some() {
        headers.push((ACCESS_CONTROL_ALLOW_METHODS, methods));
        headers.push((ACCESS_CONTROL_MAX_AGE, MAX_AGE));
        // Nothing here rests on a header being hard to send from a page.
        if let Some(wanted) = session.req_header().headers.get(ACCESS_CONTROL_REQUEST_HEADERS) {
            headers.push((ACCESS_CONTROL_ALLOW_HEADERS, wanted.clone()));
            headers.push((VARY, HeaderValue::from_static("Access-Control-Request-Headers")));
        }
    }
    let answer = Answer { status: StatusCode::NO_CONTENT, headers, body: Bytes::new(), compress: false };
    respond::send(session, ctx, answer).await
}
