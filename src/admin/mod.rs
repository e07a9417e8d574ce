//! The operators' listener: liveness, readiness, metrics. All of it is read-only.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, HOST, ORIGIN};
use http::{HeaderMap, HeaderName, Method, StatusCode};
use pingora::apps::{HttpPersistentSettings, HttpServerApp, ReusedHttpStream};
use pingora::http::ResponseHeader;
use pingora::protocols::http::ServerSession;
use pingora::server::ShutdownWatch;
use serde_json::json;

use crate::front::Listen;
use crate::restap::ErrorCode;
use crate::telemetry::{Health, Metrics, Phase};

/// What the listener shows.
#[derive(Clone)]
pub struct Admin {
    /// Everything that is counted.
    pub metrics: Metrics,
    /// Where the process is in its life.
    pub health: Arc<Health>,
    /// Why the store can't be used now; `None` while it can.
    pub store: Arc<dyn Fn() -> Option<String> + Send + Sync>,
    /// Where it listens: on loopback, pages of other sites are kept out.
    pub listen: Listen,
}

/// One answer.
struct Answer {
    status: StatusCode,
    content_type: &'static str,
    body: Vec<u8>,
}

impl Admin {
    fn answer(&self, method: &Method, path: &str, headers: &HeaderMap) -> Answer {
        if self.listen.is_loopback() && is_foreign(headers) {
            return refuse(
                ErrorCode::Forbidden,
                "this listener is for this machine alone; ask it by IP address or localhost",
            );
        }
        let known = matches!(path, "/live" | "/ready" | "/metrics");
        match (path, method) {
            (_, &Method::GET | &Method::HEAD) if known => self.read(path),
            _ if known => refuse(ErrorCode::MethodNotAllowed, "this path takes GET"),
            _ => refuse(ErrorCode::NotFound, "the admin listener has /live, /ready and /metrics"),
        }
    }

    fn read(&self, path: &str) -> Answer {
        match path {
            "/live" => json_answer(StatusCode::OK, &json!({"status": "ok"})),
            "/metrics" => Answer {
                status: StatusCode::OK,
                content_type: "text/plain; version=0.0.4; charset=utf-8",
                body: self.metrics.render(),
            },
            _ => self.ready(),
        }
    }

    fn ready(&self) -> Answer {
        let phase = match self.health.phase() {
            Phase::Starting => "starting",
            Phase::Draining => "draining",
            Phase::Serving => "serving",
        };
        let store = (self.store)();
        let ready = phase == "serving" && store.is_none();
        let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        json_answer(status, &json!({"ready": ready, "phase": phase, "store": store.as_deref().unwrap_or("ok")}))
    }
}

fn json_answer(status: StatusCode, body: &serde_json::Value) -> Answer {
    Answer { status, content_type: "application/json", body: body.to_string().into_bytes() }
}

fn refuse(code: ErrorCode, message: &str) -> Answer {
    json_answer(code.status(), &json!({"error": code, "message": message}))
}

/// Whether a browser asks for a page of another site, or by a name that was rebound to this machine.
fn is_foreign(headers: &HeaderMap) -> bool {
    let text = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let host = text(&HOST).unwrap_or_default();
    let site = headers.get("sec-fetch-site").and_then(|value| value.to_str().ok());
    let own = |authority: &str| is_own_name(crate::front::host_of(authority));
    !(host.is_empty() || own(host))
        || text(&ORIGIN).is_some_and(|origin| !origin.split_once("://").is_some_and(|(_, authority)| own(authority)))
        || site.is_some_and(|site| !matches!(site, "same-origin" | "none"))
}

fn is_own_name(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || host.parse::<std::net::IpAddr>().is_ok()
}

#[async_trait]
impl HttpServerApp for Admin {
    async fn process_new_http(
        self: &Arc<Self>,
        mut session: ServerSession,
        shutdown: &ShutdownWatch,
    ) -> Option<ReusedHttpStream> {
        if !session.read_request().await.ok()? {
            return None;
        }
        if *shutdown.borrow() {
            session.set_keepalive(None);
        }
        let request = session.req_header();
        let answer = self.answer(&request.method, request.uri.path(), &request.headers);
        let mut head = ResponseHeader::build(answer.status, Some(4)).ok()?;
        head.insert_header(CONTENT_TYPE, answer.content_type).ok()?;
        head.insert_header(CACHE_CONTROL, "no-store").ok()?;
        head.insert_header(CONTENT_LENGTH, answer.body.len()).ok()?;
        if answer.status == StatusCode::METHOD_NOT_ALLOWED {
            head.insert_header(ALLOW, "GET, HEAD").ok()?;
        }
        let body = if request.method == Method::HEAD { Bytes::new() } else { answer.body.into() };
        session.write_response_header(Box::new(head)).await.ok()?;
        session.write_response_body(body, true).await.ok()?;
        let settings = HttpPersistentSettings::for_session(&session);
        Some(ReusedHttpStream::from_reusable_stream(session.finish().await.ok()??, settings))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admin(listen: &str) -> Admin {
        let health = Arc::new(Health::default());
        health.set(Phase::Serving);
        Admin { metrics: Metrics::new().unwrap(), health, store: Arc::new(|| None), listen: listen.parse().unwrap() }
    }

    fn get(admin: &Admin, path: &str, headers: &[(&'static str, &str)]) -> StatusCode {
        let headers =
            headers.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect();
        admin.answer(&Method::GET, path, &headers).status
    }

    #[test]
    fn readiness_follows_the_phase_and_the_store() {
        let mut admin = admin("127.0.0.1:1");
        assert_eq!(get(&admin, "/ready", &[]), StatusCode::OK);
        admin.health.set(Phase::Draining);
        assert_eq!(get(&admin, "/ready", &[]), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(get(&admin, "/live", &[]), StatusCode::OK);
        admin.health.set(Phase::Serving);
        admin.store = Arc::new(|| Some("the disk is full".to_owned()));
        assert_eq!(get(&admin, "/ready", &[]), StatusCode::SERVICE_UNAVAILABLE);
    }

    #[test]
    fn on_loopback_a_foreign_page_is_forbidden() {
        let admin = admin("127.0.0.1:1");
        for headers in [
            [("host", "evil.example")].as_slice(),
            &[("host", "localhost:9901"), ("origin", "https://evil.example")],
            &[("host", "127.0.0.1"), ("sec-fetch-site", "cross-site")],
            &[("host", "127.0.0.1"), ("origin", "null")],
        ] {
            assert_eq!(get(&admin, "/metrics", headers), StatusCode::FORBIDDEN, "{headers:?}");
        }
        for headers in
            [[("host", "localhost:9901")].as_slice(), &[("host", "[::1]:9901"), ("origin", "http://127.0.0.1:9901")]]
        {
            assert_eq!(get(&admin, "/metrics", headers), StatusCode::OK, "{headers:?}");
        }
    }

    #[test]
    fn elsewhere_every_host_may_read() {
        assert_eq!(get(&admin("0.0.0.0:1"), "/metrics", &[("host", "gateway.internal:9901")]), StatusCode::OK);
    }
}
