//! The operators' listener: liveness, readiness and metrics for whoever reaches it, and what changes something for operators.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use http::header::{ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, WWW_AUTHENTICATE};
use http::{HeaderMap, Method, StatusCode};
use pingora::apps::{HttpPersistentSettings, HttpServerApp, ReusedHttpStream};
use pingora::http::ResponseHeader;
use pingora::protocols::http::ServerSession;
use pingora::server::ShutdownWatch;
use serde_json::{Value, json};

use crate::front::{Listen, is_foreign};
use crate::restap::ErrorCode;
use crate::telemetry::{Health, Metrics, Phase};
use crate::yaml::Secret;

/// What the listener shows.
#[derive(Clone)]
pub struct Admin {
    /// Everything that is counted.
    pub metrics: Metrics,
    /// Where the process is in its life.
    pub health: Arc<Health>,
    /// The process that it is about.
    pub operator: Arc<dyn Operator>,
    /// Where it listens: on loopback, pages of other sites are kept out; elsewhere, whoever has no token.
    pub listen: Listen,
}

/// What the listener asks of the process.
#[async_trait]
pub trait Operator: Send + Sync {
    /// Why the store can't be used now; `None` while it can.
    fn store_problem(&self) -> Option<String>;
    /// What `/ready` says of the configuration.
    fn configuration(&self) -> Value;
    /// `admin.token`.
    fn token(&self) -> Option<Arc<Secret>>;
    /// Reads the configuration again. An error is what `check --format json` prints of it.
    async fn reload(&self) -> Result<Value, Value>;
    /// Has the installed program take over: the pid of its process. An error is why it does not.
    async fn upgrade(&self) -> Result<u32, String>;
}

/// What a request is allowed to do.
enum Admitted {
    Read,
    Reload,
    Upgrade,
}

/// One answer.
struct Answer {
    status: StatusCode,
    /// The methods that the path takes, where another one was used.
    allow: Option<&'static str>,
    content_type: &'static str,
    body: Vec<u8>,
}

impl Admin {
    async fn answer(&self, method: &Method, path: &str, headers: &HeaderMap) -> Answer {
        match self.admit(method, path, headers) {
            Ok(Admitted::Read) => self.read(path),
            Ok(Admitted::Reload) => match self.operator.reload().await {
                Ok(done) => json_answer(StatusCode::OK, &done),
                Err(problems) => json_answer(StatusCode::BAD_REQUEST, &problems),
            },
            Ok(Admitted::Upgrade) => match self.operator.upgrade().await {
                Ok(pid) => json_answer(StatusCode::OK, &json!({"status": "upgraded", "pid": pid})),
                Err(why) => refuse(ErrorCode::BadRequest, &format!("no other process takes over: {why}")),
            },
            Err(refusal) => refusal,
        }
    }

    fn admit(&self, method: &Method, path: &str, headers: &HeaderMap) -> Result<Admitted, Answer> {
        if self.listen.is_loopback() && is_foreign(headers) {
            let message = "this listener is for this machine alone; ask it by IP address or localhost";
            return Err(refuse(ErrorCode::Forbidden, message));
        }
        if matches!(path, "/live" | "/ready" | "/metrics") {
            return match *method {
                Method::GET | Method::HEAD => Ok(Admitted::Read),
                _ => Err(wrong_method("GET, HEAD", "this path takes GET")),
            };
        }
        if !self.listen.is_loopback() && !self.knows(headers) {
            let message = match self.operator.token() {
                Some(_) => "this needs `Authorization: Bearer` with admin.token",
                None => "this needs admin.token, which gateway.yaml does not set, or a listener on loopback",
            };
            return Err(refuse(ErrorCode::Unauthorized, message));
        }
        match (path, method) {
            ("/reload", &Method::POST) => Ok(Admitted::Reload),
            ("/upgrade", &Method::POST) => Ok(Admitted::Upgrade),
            ("/reload" | "/upgrade", _) => Err(wrong_method("POST", "this path takes POST")),
            _ => {
                Err(refuse(ErrorCode::NotFound, "the admin listener has /live, /ready, /metrics, /reload and /upgrade"))
            }
        }
    }

    /// Whether the request carries the token. Digests are compared, so that the time says nothing of the token.
    fn knows(&self, headers: &HeaderMap) -> bool {
        let mut sent = headers.get_all(AUTHORIZATION).iter().filter_map(|value| value.as_bytes().split_at_checked(7));
        let (Some(token), Some((scheme, sent)), None) = (self.operator.token(), sent.next(), sent.next()) else {
            return false;
        };
        scheme.eq_ignore_ascii_case(b"Bearer ")
            && blake3::hash(sent.trim_ascii()) == blake3::hash(token.expose().as_bytes())
    }

    fn read(&self, path: &str) -> Answer {
        match path {
            "/live" => json_answer(StatusCode::OK, &json!({"status": "ok"})),
            "/metrics" => Answer {
                status: StatusCode::OK,
                allow: None,
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
        let store = self.operator.store_problem();
        let ready = phase == "serving" && store.is_none();
        let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        let (store, configuration) = (store.as_deref().unwrap_or("ok"), self.operator.configuration());
        json_answer(status, &json!({"ready": ready, "phase": phase, "store": store, "configuration": configuration}))
    }
}

fn json_answer(status: StatusCode, body: &Value) -> Answer {
    Answer { status, allow: None, content_type: "application/json", body: body.to_string().into_bytes() }
}

fn wrong_method(allow: &'static str, message: &str) -> Answer {
    Answer { allow: Some(allow), ..refuse(ErrorCode::MethodNotAllowed, message) }
}

fn refuse(code: ErrorCode, message: &str) -> Answer {
    json_answer(code.status(), &json!({"error": code, "message": message}))
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
        let (method, headers) = (request.method.clone(), request.headers.clone());
        let path = request.uri.path().to_owned();
        if method != Method::GET && method != Method::HEAD {
            // Nobody reads its body.
            session.set_keepalive(None);
        }
        let answer = self.answer(&method, &path, &headers).await;
        let mut head = ResponseHeader::build(answer.status, Some(5)).ok()?;
        head.insert_header(CONTENT_TYPE, answer.content_type).ok()?;
        head.insert_header(CACHE_CONTROL, "no-store").ok()?;
        head.insert_header(CONTENT_LENGTH, answer.body.len()).ok()?;
        if let Some(allow) = answer.allow {
            head.insert_header(ALLOW, allow).ok()?;
        }
        if answer.status == StatusCode::UNAUTHORIZED {
            head.insert_header(WWW_AUTHENTICATE, "Bearer").ok()?;
        }
        let body = if method == Method::HEAD { Bytes::new() } else { answer.body.into() };
        session.write_response_header(Box::new(head)).await.ok()?;
        session.write_response_body(body, true).await.ok()?;
        let settings = HttpPersistentSettings::for_session(&session);
        Some(ReusedHttpStream::from_reusable_stream(session.finish().await.ok()??, settings))
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderName;

    use super::*;

    #[derive(Default)]
    struct Process {
        store: Option<String>,
        token: Option<Arc<Secret>>,
        refused: bool,
    }

    #[async_trait]
    impl Operator for Process {
        fn store_problem(&self) -> Option<String> {
            self.store.clone()
        }

        fn configuration(&self) -> Value {
            json!({})
        }

        fn token(&self) -> Option<Arc<Secret>> {
            self.token.clone()
        }

        async fn reload(&self) -> Result<Value, Value> {
            if self.refused { Err(json!([])) } else { Ok(json!({})) }
        }

        async fn upgrade(&self) -> Result<u32, String> {
            if self.refused { Err("no".into()) } else { Ok(1) }
        }
    }

    fn admin(listen: &str, process: Process) -> Admin {
        let health = Arc::new(Health::default());
        health.set(Phase::Serving);
        let metrics = Metrics::new().unwrap();
        Admin { metrics, health, operator: Arc::new(process), listen: listen.parse().unwrap() }
    }

    async fn ask(admin: &Admin, method: Method, path: &str, headers: &[(&'static str, &str)]) -> StatusCode {
        let headers = headers.iter().fold(HeaderMap::new(), |mut all, (name, value)| {
            all.append(HeaderName::from_static(name), value.parse().unwrap());
            all
        });
        admin.answer(&method, path, &headers).await.status
    }

    async fn get(admin: &Admin, path: &str, headers: &[(&'static str, &str)]) -> StatusCode {
        ask(admin, Method::GET, path, headers).await
    }

    #[tokio::test]
    async fn readiness_follows_the_phase_and_the_store() {
        let ready = admin("127.0.0.1:1", Process::default());
        assert_eq!(get(&ready, "/ready", &[]).await, StatusCode::OK);
        ready.health.set(Phase::Draining);
        assert_eq!(get(&ready, "/ready", &[]).await, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(get(&ready, "/live", &[]).await, StatusCode::OK);
        let full = admin("127.0.0.1:1", Process { store: Some("the disk is full".into()), ..Process::default() });
        assert_eq!(get(&full, "/ready", &[]).await, StatusCode::SERVICE_UNAVAILABLE);
    }

    #[tokio::test]
    async fn on_loopback_a_foreign_page_is_forbidden() {
        let admin = admin("127.0.0.1:1", Process::default());
        for headers in [
            [("host", "evil.example")].as_slice(),
            &[("host", "localhost:9901"), ("origin", "https://evil.example")],
            &[("host", "127.0.0.1"), ("sec-fetch-site", "cross-site")],
            &[("host", "127.0.0.1"), ("origin", "null")],
        ] {
            assert_eq!(get(&admin, "/metrics", headers).await, StatusCode::FORBIDDEN, "{headers:?}");
            assert_eq!(ask(&admin, Method::POST, "/reload", headers).await, StatusCode::FORBIDDEN, "{headers:?}");
        }
        for headers in
            [[("host", "localhost:9901")].as_slice(), &[("host", "[::1]:9901"), ("origin", "http://127.0.0.1:9901")]]
        {
            assert_eq!(get(&admin, "/metrics", headers).await, StatusCode::OK, "{headers:?}");
            assert_eq!(ask(&admin, Method::POST, "/reload", headers).await, StatusCode::OK, "{headers:?}");
        }
    }

    #[tokio::test]
    async fn elsewhere_every_host_may_read_and_the_token_opens_the_rest() {
        let open = admin("0.0.0.0:1", Process::default());
        assert_eq!(get(&open, "/metrics", &[("host", "gateway.internal:9901")]).await, StatusCode::OK);
        assert_eq!(ask(&open, Method::POST, "/reload", &[]).await, StatusCode::UNAUTHORIZED);
        assert_eq!(get(&open, "/secrets", &[]).await, StatusCode::UNAUTHORIZED);
        let token = Some(Arc::new(Secret::new("t-123")));
        let closed = admin("0.0.0.0:1", Process { token, ..Process::default() });
        let reload = async |headers: &[(&'static str, &str)]| ask(&closed, Method::POST, "/reload", headers).await;
        for headers in [
            [].as_slice(),
            &[("authorization", "Bearer t-12")],
            &[("authorization", "Bearer t-1234")],
            &[("authorization", "Basic t-123")],
            &[("authorization", "t-123")],
            &[("authorization", "Bearer")],
            &[("authorization", "Bearer t-123"), ("authorization", "Bearer t-123")],
        ] {
            assert_eq!(reload(headers).await, StatusCode::UNAUTHORIZED, "{headers:?}");
        }
        assert_eq!(reload(&[("authorization", "Bearer t-123")]).await, StatusCode::OK);
        assert_eq!(reload(&[("authorization", "bearer t-123")]).await, StatusCode::OK);
    }

    #[tokio::test]
    async fn a_reload_takes_post_and_a_refused_one_is_a_bad_request() {
        let admin = admin("unix:admin.sock", Process { refused: true, ..Process::default() });
        for path in ["/reload", "/upgrade"] {
            assert_eq!(ask(&admin, Method::POST, path, &[]).await, StatusCode::BAD_REQUEST);
        }
        for method in [Method::GET, Method::HEAD, Method::PUT] {
            assert_eq!(ask(&admin, method, "/reload", &[]).await, StatusCode::METHOD_NOT_ALLOWED);
        }
        assert_eq!(ask(&admin, Method::POST, "/live", &[]).await, StatusCode::METHOD_NOT_ALLOWED);
    }
}
