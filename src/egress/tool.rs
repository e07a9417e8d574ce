//! `Tool`: one call from its arguments to its result, hop by hop.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use http::header::LOCATION;
use serde_json::{Map, Value, json};
use tokio::time::{Instant, timeout_at};

use super::answer::{self, Body};
use super::held::Held;
use super::refused::{Code, Refused};
use super::request::Request;
use super::signing::Signing;
use crate::net::{self, Guard, Response, WebUrl};
use crate::restap::HopCount;

/// Redirects that are followed, of GET and HEAD alone.
pub const REDIRECTS_MAX: usize = 3;

/// `rest_request` of one agent.
#[derive(Clone)]
pub struct Tool {
    guard: Guard,
    signing: Signing,
    held: Arc<Held>,
}

/// What became of a call.
#[derive(Debug)]
pub struct Outcome {
    /// What its caller is told: the result object.
    pub result: Value,
    /// What the operator is told.
    pub audit: Audit,
}

/// One call for the log and the metrics. It holds no header, no body, and of a URL no more than its origin.
#[derive(Debug, Default)]
pub struct Audit {
    /// The method, once it was read.
    pub method: Option<Method>,
    /// Where it led, in this order.
    pub hops: Vec<Hop>,
    /// The last answer's.
    pub status: Option<u16>,
    /// Why there is none.
    pub refused: Option<Code>,
    /// As whom the last hop was signed, or why it was not.
    pub signed: Option<Result<String, String>>,
}

/// One service that was called, or that was not.
#[derive(Debug)]
pub struct Hop {
    /// `https://api.example.com`.
    pub origin: String,
    /// The address that was judged and connected to; the one that was refused, where it was.
    pub address: Option<String>,
}

impl std::fmt::Debug for Tool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tool").field("signing", &self.signing).finish_non_exhaustive()
    }
}

impl Tool {
    /// A tool whose requests go where `guard` lets them.
    pub fn new(guard: Guard, signing: Signing, held: Arc<Held>) -> Self {
        Self { guard, signing, held }
    }

    /// Calls a service, within the time that the arguments say. `loops` counts the gateways that the call came through.
    /// Dropping the future ends the request.
    pub async fn call(&self, arguments: &Map<String, Value>, loops: &HopCount) -> Outcome {
        let began = Instant::now();
        let mut audit = Audit::default();
        let result = match self.exchange(arguments, loops, (began, &mut audit)).await {
            Ok(mut result) => {
                result.insert("elapsed_ms".into(), json!(began.elapsed().as_millis() as u64));
                result.into()
            }
            Err(refused) => {
                audit.refused = Some(refused.code);
                refused.to_json()
            }
        };
        Outcome { result, audit }
    }

    async fn exchange(
        &self,
        arguments: &Map<String, Value>,
        loops: &HopCount,
        (began, audit): (Instant, &mut Audit),
    ) -> Result<Map<String, Value>, Refused> {
        let request = Request::parse(arguments)?;
        audit.method = Some(request.method.clone());
        self.held.check(request.texts())?;
        let seconds = request.timeout;
        let deadline = began + Duration::from_secs(seconds);
        match timeout_at(deadline, self.hops(request, loops, (deadline, audit))).await {
            Ok(result) => result,
            Err(_) => Err(Refused::late(seconds)),
        }
    }

    async fn hops(
        &self,
        mut request: Request,
        loops: &HopCount,
        (deadline, audit): (Instant, &mut Audit),
    ) -> Result<Map<String, Value>, Refused> {
        for redirects in 0..=REDIRECTS_MAX {
            let mut response = self.hop(&request, loops, (deadline, audit)).await?;
            if let Some(url) = redirect(&request, &response) {
                if redirects == REDIRECTS_MAX {
                    return Err(Refused::redirects());
                }
                self.held.check([url.as_str().as_bytes()])?;
                request.follow(url);
                continue;
            }
            let failed = |error: net::Error| Refused::hop(&error, &request.url, request.timeout);
            let body =
                if request.method == Method::HEAD { Ok(Body::default()) } else { Body::read(&mut response).await };
            let body = body.map_err(failed)?;
            audit.status = Some(response.status.as_u16());
            let mut result = Map::new();
            result.insert("ok".into(), json!(response.status.is_success()));
            result.insert("status".into(), json!(response.status.as_u16()));
            result.insert("url".into(), json!(request.url.as_str()));
            result.insert("redirects".into(), json!(redirects));
            match &audit.signed {
                Some(Ok(agent)) => {
                    result.insert("signed".into(), json!(true));
                    result.insert("signed_as".into(), json!(agent));
                }
                other => {
                    result.insert("signed".into(), json!(false));
                    let reason = other.as_ref().and_then(|signed| signed.as_ref().err());
                    result.insert("unsigned_reason".into(), json!(reason));
                }
            }
            body.describe(&request.method, &response.headers, &mut result);
            return Ok(result);
        }
        Err(Refused::redirects())
    }

    /// One service: signed, looked up, judged and called anew, on a connection of its own.
    async fn hop(
        &self,
        request: &Request,
        loops: &HopCount,
        (deadline, audit): (Instant, &mut Audit),
    ) -> Result<Response, Refused> {
        let failed = |error: &net::Error| Refused::hop(error, &request.url, request.timeout);
        let signed = self.signing.sign(request);
        let fields = match &signed {
            Ok(signed) => signed.fields.clone(),
            Err(reason) if self.signing.is_required() => {
                audit.signed = Some(Err(reason.to_string()));
                let message = format!(
                    "This request would go out unsigned ({reason}), and this tool is set to sign every request."
                );
                return Err(Refused::new(Code::NotSigned, message));
            }
            Err(_) => Vec::new(),
        };
        audit.signed = Some(signed.map(|signed| signed.agent).map_err(|reason| reason.to_string()));
        audit.hops.push(Hop { origin: request.url.origin().to_string(), address: None });
        let mut note = |address: Option<String>| {
            if let Some(hop) = audit.hops.last_mut() {
                hop.address = address;
            }
        };
        let peer = self.guard.peer(&request.url, deadline).await.map_err(|error| {
            if let net::Error::Blocked(blocked) = &error {
                note(Some(blocked.address.to_string()));
            }
            failed(&error)
        })?;
        let wire = request.hop(&loops.next(), fields);
        let wire = wire.ok_or_else(|| failed(&net::Error::Protocol("the request can't be written as HTTP")))?;
        let answered = self.guard.client().send(&peer, wire).await;
        note(match &answered {
            Ok(response) => response.address().map(|address| address.to_string()),
            Err(net::Error::Connect { address, .. }) => Some(SocketAddr::to_string(address)),
            Err(_) => None,
        });
        answered.map_err(|error| failed(&error))
    }
}

/// Where an answer sends the request on to; `None` if it is the answer itself, as it is where it leads to no URL that may
/// be called.
fn redirect(request: &Request, response: &Response) -> Option<WebUrl> {
    let follows = matches!(request.method, Method::GET | Method::HEAD);
    let redirects = matches!(response.status.as_u16(), 301 | 302 | 303 | 307 | 308);
    let location = response.headers.get(LOCATION).filter(|_| follows && redirects)?;
    let location = answer::text_of(location);
    if location.trim().is_empty() {
        return None;
    }
    request.url.join(&location).ok()
}

#[cfg(test)]
mod tests;
