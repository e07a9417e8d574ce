//! `Job`: a call whose end becomes an item of news, as `report:` of a capability asks.
//!
//! It begins when the call is let through to the service, and ends with the last byte of its answer: then the item is
//! appended while the caller already has its answer, whom a store that fails costs nothing. Whoever has read the end of
//! an answer finds its item all the same, since readers of news first wait for what is being appended ([`Reports`]).

use std::collections::BTreeSet;
use std::fmt;
use std::io::Read;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use flate2::read::MultiGzDecoder;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use pingora::http::ResponseHeader;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tracing::warn;

use super::Gateway;
use super::drain::Running;
use super::error::Refusal;
use super::fields;
use super::live::Agent;
use crate::capability::{Capability, settings};
use crate::restap::NewsDraft;
use crate::store::settings::NewsSessions;
use crate::store::{CallerId, FeedId, NewItem, Receipt, Store, StoreError};
use crate::telemetry::Metrics;

/// The header that names a job in its call's answer.
const JOB_ID: HeaderName = HeaderName::from_static("restap-job-id");

/// Bytes of a result; an item whose answer is longer has none.
const RESULT_BYTES_MAX: usize = 64 << 10;

/// How long a reader waits for items that are being appended.
const SETTLING: Duration = Duration::from_secs(1);

/// One call under way.
pub(super) struct Job {
    id: String,
    title: String,
    agent: Arc<Agent>,
    feed: FeedId,
    /// Who owns the feed if this opens it.
    opener: Option<CallerId>,
    with_result: bool,
    to_head: bool,
    answer: Answer,
    store: Arc<Store>,
    metrics: Metrics,
    running: Running,
}

/// What the caller has been told so far.
#[derive(Default)]
struct Answer {
    status: StatusCode,
    /// Bytes that are still to come, where the head says how many.
    missing: Option<u64>,
    form: Form,
    is_gzip: bool,
    /// As it was sent, unless it is too long.
    body: Option<Vec<u8>>,
}

/// What a body can become in an item, which is JSON.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Form {
    Json,
    Text,
    /// Nothing.
    #[default]
    Bytes,
}

impl Job {
    /// Begins the job of a call, if its capability reports and its agent has news.
    pub(super) fn begin(
        gateway: &Gateway,
        (agent, capability): (&Arc<Agent>, &Capability),
        opener: Option<CallerId>,
        (method, headers): (&Method, &HeaderMap),
    ) -> Result<Option<Self>, Refusal> {
        let settings = capability.settings();
        let (Some(news), true) = (agent.news, settings.report != settings::Report::Off) else { return Ok(None) };
        let session = fields::session_header(headers)?.filter(|_| news.sessions != NewsSessions::Ignored);
        Ok(Some(Self {
            id: uuid::Uuid::new_v4().to_string(),
            title: settings.title.clone(),
            agent: agent.clone(),
            feed: gateway.store.keys().feed(agent.id, session.as_ref()),
            opener,
            with_result: session.is_some() || settings.report == settings::Report::WithResult,
            to_head: *method == Method::HEAD,
            answer: Answer::default(),
            store: gateway.store.clone(),
            metrics: gateway.metrics.clone(),
            // A process that stops gives reports the time that requests have.
            running: gateway.drain.enter(),
        }))
    }

    /// Reads the head of the answer, and names the job in it.
    pub(super) fn head(&mut self, head: &mut ResponseHeader) -> pingora::Result<()> {
        self.answer = Answer::new(head.status, &head.headers, self.to_head);
        head.insert_header(JOB_ID, &self.id)
    }

    /// Reads a part of the answer's body; true if it is known to be the last one.
    pub(super) fn body(&mut self, bytes: &[u8]) -> bool {
        let Answer { missing, body, .. } = &mut self.answer;
        if let Some(kept) = body.as_mut().filter(|_| self.with_result) {
            if kept.len() + bytes.len() > RESULT_BYTES_MAX {
                *body = None;
            } else {
                kept.extend_from_slice(bytes);
            }
        }
        *missing = missing.map(|missing| missing.saturating_sub(bytes.len() as u64));
        *missing == Some(0)
    }

    /// The call is over: the item is appended, for which nobody waits. `whole` is false where the answer broke off or
    /// its caller left.
    pub(super) fn end(self, whole: bool) {
        let number = self.agent.reports.begin();
        tokio::spawn(async move {
            let outcome = match self.append(whole).await {
                Ok(_) => "stored",
                Err(error) => {
                    warn!(agent = %self.agent.key, "a report could not be stored: {error}");
                    error.code().as_str()
                }
            };
            self.metrics.news_append(&self.agent.key, outcome);
            self.agent.reports.end(number);
            drop(self.running);
        });
    }

    async fn append(&self, whole: bool) -> Result<Receipt, StoreError> {
        let result = if whole { self.answer.result().filter(|_| self.with_result) } else { None };
        let has_result = result.is_some();
        let appended = self.store.append(self.item(&self.draft(whole, result))).await;
        match appended {
            // What a feed keeps may be less than a result.
            Err(StoreError::TooLarge { .. }) if has_result => {
                self.store.append(self.item(&self.draft(whole, None))).await
            }
            appended => appended,
        }
    }

    fn item<'a>(&self, draft: &'a NewsDraft) -> NewItem<'a> {
        NewItem { feed: self.feed, opener: self.opener, draft, once: None }
    }

    fn draft(&self, whole: bool, result: Option<Value>) -> NewsDraft {
        let status = self.answer.status.as_u16();
        let (kind, message) = match (whole, status >= 400) {
            (true, false) => ("job.completed", format!("{} has completed", self.title)),
            (true, true) => ("job.failed", format!("{} has failed with status {status}", self.title)),
            (false, _) => ("job.failed", format!("{} broke off before its end", self.title)),
        };
        let mut data = json!({"query_id": self.id});
        if let (Some(result), Some(data)) = (result, data.as_object_mut()) {
            data.insert("result".to_owned(), result);
        }
        NewsDraft {
            kind: kind.to_owned(),
            message,
            job_id: Some(self.id.clone()),
            query_id: Some(self.id.clone()),
            data: Some(data),
            ..NewsDraft::default()
        }
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Answer {
    fn new(status: StatusCode, headers: &HeaderMap, to_head: bool) -> Self {
        let text =
            |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().trim();
        let bodiless = to_head || status == StatusCode::NO_CONTENT || status == StatusCode::NOT_MODIFIED;
        let coding = text(CONTENT_ENCODING).to_ascii_lowercase();
        Self {
            status,
            missing: if bodiless { Some(0) } else { text(CONTENT_LENGTH).parse().ok() },
            // A coding that is not read here leaves bytes.
            form: match coding.as_str() {
                "" | "identity" | "gzip" | "x-gzip" => Form::of(headers.get(CONTENT_TYPE)),
                _ => Form::Bytes,
            },
            is_gzip: coding.ends_with("gzip"),
            body: (!bodiless).then(Vec::new),
        }
    }

    /// The body as JSON; none where it is too long or is neither JSON nor text.
    fn result(&self) -> Option<Value> {
        let body = self.body.as_deref().filter(|body| !body.is_empty() && self.form != Form::Bytes)?;
        let mut plain = Vec::new();
        let most = RESULT_BYTES_MAX as u64 + 1;
        let read = if self.is_gzip {
            MultiGzDecoder::new(body).take(most).read_to_end(&mut plain)
        } else {
            body.take(most).read_to_end(&mut plain)
        };
        read.ok().filter(|read| *read <= RESULT_BYTES_MAX)?;
        match self.form {
            // What calls itself JSON and is none is text all the same.
            Form::Json => {
                serde_json::from_slice(&plain).ok().or_else(|| String::from_utf8(plain).ok().map(Value::String))
            }
            Form::Text => String::from_utf8(plain).ok().map(Value::String),
            Form::Bytes => None,
        }
    }
}

impl Form {
    fn of(media_type: Option<&HeaderValue>) -> Self {
        let media_type = media_type.and_then(|value| value.to_str().ok()).unwrap_or_default().to_ascii_lowercase();
        match media_type.split(';').next().unwrap_or_default().trim() {
            json if json == "application/json" || json.ends_with("+json") => Self::Json,
            "application/xml" | "application/yaml" | "application/x-www-form-urlencoded" | "application/x-ndjson" => {
                Self::Text
            }
            text if text.starts_with("text/") || text.ends_with("+xml") || text.ends_with("+yaml") => Self::Text,
            _ => Self::Bytes,
        }
    }
}

/// The reports of an agent that are being appended. Their number is bounded by what the store lets wait.
#[derive(Debug, Default)]
pub(super) struct Reports {
    appending: Mutex<Appending>,
    settled: Notify,
}

#[derive(Debug, Default)]
struct Appending {
    next: u64,
    running: BTreeSet<u64>,
}

impl Reports {
    /// Waits for those that had begun by now, though not for long.
    pub(super) async fn settle(&self) {
        let next = self.lock().next;
        let settled = async {
            loop {
                let settled = self.settled.notified();
                if self.lock().running.first().is_none_or(|first| *first >= next) {
                    return;
                }
                settled.await;
            }
        };
        // A reader that does not see an item now sees it with its next poll.
        let _ = tokio::time::timeout(SETTLING, settled).await;
    }

    fn begin(&self) -> u64 {
        let mut appending = self.lock();
        let number = appending.next;
        appending.next += 1;
        appending.running.insert(number);
        number
    }

    fn end(&self, number: u64) {
        self.lock().running.remove(&number);
        self.settled.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, Appending> {
        self.appending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn result(media_type: &str, coding: &str, body: &[u8]) -> Option<Value> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, media_type.parse().unwrap());
        headers.insert(CONTENT_ENCODING, coding.parse().unwrap());
        Answer { body: Some(body.to_vec()), ..Answer::new(StatusCode::OK, &headers, false) }.result()
    }

    fn gzip(plain: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(plain).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn json_is_a_value_text_is_a_string_and_bytes_are_nothing() {
        assert_eq!(result("application/json; charset=utf-8", "", b"{\"a\":1}"), Some(json!({"a": 1})));
        assert_eq!(result("application/problem+json", "identity", b"[1]"), Some(json!([1])));
        assert_eq!(result("application/json", "gzip", &gzip(b"\"zipped\"")), Some(json!("zipped")));
        assert_eq!(result("application/json", "", b"not json"), Some(json!("not json")));
        assert_eq!(result("text/plain", "", "grün".as_bytes()), Some(json!("grün")));
        assert_eq!(result("application/xml", "", b"<a/>"), Some(json!("<a/>")));
        for (media_type, coding, body) in [
            ("image/png", "", b"png".as_slice()),
            ("text/plain", "", b"\xff"),
            ("text/plain", "br", b"plain"),
            ("text/plain", "gzip", b"no gzip"),
            ("text/plain", "", b""),
        ] {
            assert_eq!(result(media_type, coding, body), None, "{media_type} {coding}");
        }
    }

    #[test]
    fn a_result_is_bounded_also_when_it_was_small_on_the_wire() {
        let just = vec![b'x'; RESULT_BYTES_MAX];
        assert!(result("text/plain", "", &just).is_some() && result("text/plain", "gzip", &gzip(&just)).is_some());
        assert_eq!(result("text/plain", "gzip", &gzip(&vec![b'x'; RESULT_BYTES_MAX + 1])), None);
        assert_eq!(result("text/plain", "gzip", &gzip(&vec![0; 64 << 20])), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_waits_for_reports_that_had_begun_and_not_for_later_ones() {
        let reports = Arc::new(Reports::default());
        reports.settle().await;
        let first = reports.begin();
        let reader = tokio::spawn({
            let reports = reports.clone();
            async move { reports.settle().await }
        });
        tokio::task::yield_now().await;
        let _second = reports.begin();
        assert!(!reader.is_finished());
        let began = tokio::time::Instant::now();
        reports.end(first);
        reader.await.unwrap();
        assert!(began.elapsed() < SETTLING);
        reports.settle().await;
        assert!(began.elapsed() >= SETTLING, "one that never ends is waited for a second");
    }
}
