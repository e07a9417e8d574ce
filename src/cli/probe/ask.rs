//! `Asker`: one request and its whole answer, within bounds that a hostile server can't stretch.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use tokio::time::{Instant, timeout_at};

use super::super::Fault;
use super::super::agent::Agent;
use crate::net::{Client, Coding, Error, Peer, REDIRECTS_MAX, Request, Response, Timeouts, redirect};
use crate::probe::{Answer, Flaw, Reply};
use crate::restap::{SESSION_HEADER, SessionId};
use crate::sse::Decoder;

/// Bytes of an answer that are read.
const BYTES_MAX: usize = 8 << 20;

/// How long a stream is listened to after its `done`, for what must not follow.
const AFTER_DONE: Duration = Duration::from_millis(500);

/// The whole probe takes as long as so many answers may take; what is left then is not asked.
const ANSWERS: u32 = 5;

pub(super) struct Asker<'a> {
    agent: &'a Agent,
    client: &'a Client,
    peer: &'a Peer,
    headers: HeaderMap,
    timeout: Duration,
    end: Instant,
}

/// What is asked.
pub(super) struct Ask<'a> {
    method: Method,
    path: &'a str,
    accept: Option<&'static str>,
    session: Option<&'a SessionId>,
    /// In place of a session, in the header.
    malformed: Option<&'static str>,
    body: Option<String>,
}

impl<'a> Ask<'a> {
    pub(super) fn get(path: &'a str) -> Self {
        Self { method: Method::GET, path, accept: None, session: None, malformed: None, body: None }
    }

    pub(super) fn post(path: &'a str, body: &impl ToString) -> Self {
        Self { method: Method::POST, body: Some(body.to_string()), ..Self::get(path) }
    }

    pub(super) fn accept(self, accept: &'static str) -> Self {
        Self { accept: Some(accept), ..self }
    }

    pub(super) fn session(self, session: Option<&'a SessionId>) -> Self {
        Self { session, ..self }
    }

    pub(super) fn malformed(self, id: &'static str) -> Self {
        Self { malformed: Some(id), ..self }
    }
}

impl<'a> Asker<'a> {
    pub(super) fn new(
        agent: &'a Agent,
        client: &'a Client,
        peer: &'a Peer,
        headers: HeaderMap,
        timeout: Duration,
    ) -> Self {
        Self { agent, client, peer, headers, timeout, end: Instant::now() + timeout * ANSWERS }
    }

    /// Whether the base URL is `https://` or leads to this machine.
    pub(super) fn is_private(&self) -> bool {
        let origin = self.peer.origin();
        origin.tls || &*origin.host == "localhost" || origin.address().is_some_and(|it| it.is_loopback())
    }

    pub(super) async fn ask(&self, ask: Ask<'_>) -> Reply {
        let deadline = Instant::now() + self.timeout;
        if Instant::now() > self.end {
            return Reply::NotAsked("the time for the whole probe is over");
        }
        let request = match self.request(ask) {
            Ok(request) => request,
            Err(Fault(why)) => return Reply::Failed(why),
        };
        match timeout_at(deadline, self.send(request)).await {
            Ok(Ok(response)) => Reply::Came(self.read(response, deadline).await),
            Ok(Err(error)) => Reply::Failed(error.to_string()),
            Err(_) => Reply::Failed(format!("there was no answer within {} s", self.timeout.as_secs())),
        }
    }

    fn request(&self, ask: Ask<'_>) -> Result<Request, Fault> {
        let mut headers = self.headers.clone();
        if let Some(accept) = ask.accept {
            headers.insert(ACCEPT, HeaderValue::from_static(accept));
        }
        if ask.body.is_some() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        let session = ask.session.map(SessionId::expose).or(ask.malformed);
        if let Some(value) = session {
            let value = HeaderValue::from_str(value).map_err(Fault::new)?;
            headers.insert(HeaderName::from_static(SESSION_HEADER), value);
        }
        Ok(Request {
            method: ask.method,
            target: self.agent.target(ask.path)?,
            headers,
            body: Bytes::from(ask.body.unwrap_or_default()),
            coding: Coding::Decoded,
            timeouts: Timeouts::default(),
        })
    }

    /// Sends it. A GET follows redirects within the origin, as a client would.
    async fn send(&self, mut request: Request) -> Result<Response, Error> {
        let mut left = REDIRECTS_MAX;
        loop {
            let response = self.client.send(self.peer, request.clone()).await?;
            if request.method != Method::GET {
                return Ok(response);
            }
            let target: Option<PathAndQuery> =
                redirect(self.peer.origin(), &request.target, response.status, &response.headers)?;
            let Some(target) = target else { return Ok(response) };
            left = left.checked_sub(1).ok_or(Error::Redirect("too often"))?;
            request.target = target;
        }
    }

    async fn read(&self, mut response: Response, deadline: Instant) -> Answer {
        let media_type = response.headers.get(CONTENT_TYPE).map_or(b"".as_slice(), HeaderValue::as_bytes);
        let content_type = String::from_utf8_lossy(media_type).to_ascii_lowercase();
        let mut answer = Answer { status: response.status.as_u16(), content_type, ..Answer::default() };
        let mut listener = Done { decoder: answer.says_stream().then(|| Decoder::new(BYTES_MAX)), heard: false };
        let mut deadline = deadline;
        loop {
            match timeout_at(deadline, response.chunk()).await {
                // What has said that it is done may leave the connection open.
                Err(_) if listener.heard => return answer,
                Err(_) => answer.flaw = Some(Flaw::TooSlow(self.timeout.as_secs())),
                Ok(Ok(None)) => return answer,
                Ok(Ok(Some(chunk))) if answer.body.len() + chunk.len() > BYTES_MAX => {
                    answer.flaw = Some(Flaw::TooLong(BYTES_MAX));
                }
                Ok(Ok(Some(chunk))) => {
                    answer.body.extend_from_slice(&chunk);
                    if !listener.heard && listener.hears(&chunk) {
                        deadline = deadline.min(Instant::now() + AFTER_DONE);
                    }
                    continue;
                }
                Ok(Err(error)) => answer.flaw = Some(Flaw::Cut(error.to_string())),
            }
            return answer;
        }
    }
}

/// Whether a stream has said `done`.
struct Done {
    decoder: Option<Decoder>,
    heard: bool,
}

impl Done {
    fn hears(&mut self, mut bytes: &[u8]) -> bool {
        let Some(decoder) = &mut self.decoder else { return false };
        while let Ok(Some(frame)) = decoder.next(&mut bytes) {
            self.heard |= frame.name.as_deref() == Some("done");
        }
        self.heard
    }
}
