//! What a capability's mapping makes of a request and of an answer; what is large is done off the workers.

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_TYPE, HeaderMap};
use http::{Method, StatusCode};
use serde_json::Value;
use tokio::sync::Semaphore;
use tracing::warn;

use super::serving::Asking;
use super::whole::Whole;
use super::{Call, too_long};
use crate::capability::receive::{Came, Made, Receiver, Unusable};
use crate::capability::send::{NotSent, Sent, Unsendable};
use crate::capability::validate::{Part, Refused, Violation};
use crate::capability::{Effort, JqError, Limit, Variables};
use crate::gateway::error::Refusal;
use crate::net;
use crate::restap::ErrorCode;

/// Bytes of a body that a worker maps itself; others wait meanwhile.
const INLINE_BYTES_MAX: usize = 64 << 10;

/// Large mappings at a time; each may hold some 100 MiB.
static LARGE: Semaphore = Semaphore::const_new(4);

/// Characters of what a mapping says of its input.
const SAID_MAX: usize = 300;

/// What goes to the service in place of a body.
pub(super) async fn send(call: &Call, value: Value, bytes: usize, variables: &Variables) -> Result<Sent, Refusal> {
    let capability = &call.capability;
    if bytes <= INLINE_BYTES_MAX {
        match capability.sender().send(&value, variables, Effort::Brief) {
            Err(NotSent::Mapping(JqError::Limit(Limit::Steps))) => {}
            done => return done.map_err(|problem| not_sent(call, problem)),
        }
    }
    let (capability, variables) = (capability.clone(), variables.clone());
    let done = large(move || capability.sender().send(&value, &variables, Effort::Full)).await?;
    done.map_err(|problem| not_sent(call, problem))
}

async fn large<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Refusal> {
    let _turn = LARGE.acquire().await.map_err(|_| Refusal::internal())?;
    tokio::task::spawn_blocking(work).await.map_err(|_| Refusal::internal())
}

fn not_sent(call: &Call, problem: NotSent) -> Refusal {
    let violation = match problem {
        NotSent::Unsendable(Unsendable { path, message }) => {
            Violation { location: Part::Body, path, keyword: "type".to_owned(), message }
        }
        NotSent::Mapping(problem) => {
            warn!(capability = call.capability.id(), "the mapping of a request failed");
            let said: String = problem.to_string().chars().filter(|it| !it.is_control()).take(SAID_MAX).collect();
            let message = format!("does not fit this capability: {said}");
            Violation { location: Part::Body, path: String::new(), keyword: "transform".to_owned(), message }
        }
    };
    let refused = Refused::Input(vec![violation]);
    let message = refused.to_string();
    let Refused::Input(violations) = refused else { return Refusal::internal() };
    let details = serde_json::to_value(violations).ok().map(Box::new);
    Refusal { details, ..Refusal::new(ErrorCode::InvalidInput, message) }
}

/// Whether an answer is read whole.
pub(super) fn reads(call: &Call, method: &Method, response: &net::Response) -> bool {
    let receiver = call.capability.receiver();
    let bodiless = *method == Method::HEAD || super::is_bodiless(response.status);
    // What is mapped may make an answer where there is none.
    let answered = *method != Method::HEAD && (!bodiless || call.capability.maps());
    answered && receiver.maps() && !receiver.passes(response.status, &response.headers)
}

/// Reads an answer whole and gives what the mapping makes of it.
pub(super) async fn answer(asking: &Asking<'_>, mut response: net::Response) -> Result<Whole, Refusal> {
    let call = asking.call;
    let limit = call.capability.settings().route.response_body.unwrap_or(asking.limit);
    let mut body = BytesMut::new();
    while let Some(bytes) = asking.chunk(&mut response).await? {
        if (body.len() + bytes.len()) as u64 > limit {
            return Err(too_long());
        }
        body.extend_from_slice(&bytes);
    }
    let body = body.freeze();
    let made = make(call, response.status, &response.headers, &body, asking.variables.clone()).await?;
    for violation in &made.warned {
        let Violation { path, message, .. } = violation;
        warn!(capability = call.capability.id(), "an answer breaks output_schema: `{path}` {message}");
    }
    let mut headers = response.headers;
    Receiver::clean(&mut headers);
    headers.remove(CONTENT_TYPE);
    if let Some(media_type) = made.media_type {
        headers.insert(CONTENT_TYPE, media_type);
    }
    Ok(Whole { status: made.status, headers, body: made.body.map_or(body, Bytes::from) })
}

async fn make(
    call: &Call,
    status: StatusCode,
    headers: &HeaderMap,
    body: &Bytes,
    variables: Variables,
) -> Result<Made, Refusal> {
    if body.len() <= INLINE_BYTES_MAX {
        match call.capability.receiver().make(&Came { status, headers, body }, &variables, Effort::Brief) {
            Err(Unusable::Mapping(JqError::Limit(Limit::Steps))) => {}
            made => return made.map_err(|problem| unusable(call, problem)),
        }
    }
    let (capability, headers, body) = (call.capability.clone(), headers.clone(), body.clone());
    let made = large(move || {
        capability.receiver().make(&Came { status, headers: &headers, body: &body }, &variables, Effort::Full)
    });
    made.await?.map_err(|problem| unusable(call, problem))
}

fn unusable(call: &Call, problem: Unusable) -> Refusal {
    let id = call.capability.id();
    match problem {
        Unusable::Broken(_) => {
            warn!(capability = id, "{problem}");
            Refusal::new(ErrorCode::InvalidOutput, format!("{problem}; try again later"))
        }
        Unusable::Output(violations) => {
            let places: Vec<_> = violations.iter().map(|it| format!("`{}` {}", it.path, it.message)).collect();
            warn!(capability = id, "an answer breaks output_schema: {}", places.join(", "));
            let details = serde_json::to_value(violations).ok().map(Box::new);
            let message = "the service's answer breaks this capability's schema; it was not passed on";
            Refusal { details, ..Refusal::new(ErrorCode::InvalidOutput, message) }
        }
        // What it says may hold values of the answer.
        Unusable::Mapping(problem) => {
            let kind = match problem {
                JqError::Limit(limit) => limit.to_string(),
                JqError::Failed(_) => "failed".to_owned(),
                JqError::Nothing => "gave no value".to_owned(),
            };
            warn!(capability = id, "the mapping of an answer {kind}");
            let message = "the service's answer does not fit this capability's mapping";
            Refusal::new(ErrorCode::InvalidOutput, message)
        }
        Unusable::Schema(problem) => {
            warn!(capability = id, "{problem}");
            Refusal::internal()
        }
    }
}
