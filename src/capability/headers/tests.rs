//! Which headers go on, in both directions.

use http::Method;

use super::super::fixture::{capability, headers, lines, params, service, service_with_key, settings, table};
use super::super::settings::Validate;
use super::super::{Found, Settings};
use super::*;
use crate::yaml::Secret;

/// A request to `GET /w/{city}` of a service at `http://api:9000/v1`, by an unknown peer.
struct Request {
    settings: Settings,
    service: Service,
    proxy: Proxy,
    peer: Option<&'static str>,
    caller: Option<Caller<'static>>,
    traceparent: Option<&'static str>,
    path: &'static str,
}

impl Default for Request {
    fn default() -> Self {
        Self {
            settings: settings("it", "GET /w/{city}"),
            service: service("http://api:9000/v1"),
            proxy: Proxy::Unknown,
            peer: Some("192.0.2.7"),
            caller: None,
            traceparent: None,
            path: "/w/Paris",
        }
    }
}

impl Request {
    fn send(&self, sent: &[&str]) -> Result<String, InvalidPath> {
        let capability = Capability::new(self.settings.clone()).unwrap();
        let sent = headers(sent);
        let request_id = HeaderValue::from_static("r-1");
        let traceparent = self.traceparent.map(HeaderValue::from_static);
        let arrival = Arrival {
            peer: self.peer.map(|peer| peer.parse().unwrap()),
            proxy: self.proxy,
            scheme: Scheme::Https,
            host: "agents.example.com:8443",
            request_id: &request_id,
            traceparent: traceparent.as_ref(),
            caller: self.caller,
            hops: &HopCount::read(&sent).unwrap(),
        };
        let params = params(&capability, self.path);
        request_headers(&capability, &self.service, &params, &arrival, &sent).map(|headers| lines(&headers))
    }

    /// What arrives of a header, one line each time.
    fn arrives(&self, sent: &[&str], name: &str) -> Vec<String> {
        let prefix = format!("{name}: ");
        self.send(sent).unwrap().lines().filter_map(|line| line.strip_prefix(&prefix).map(str::to_owned)).collect()
    }
}

#[test]
fn the_service_gets_its_own_host_and_who_asked_through_whom() {
    let sent = Request::default().send(&[]).unwrap();
    assert_eq!(
        sent,
        "cdn-loop: restap-gateway\n\
         forwarded: for=192.0.2.7;host=\"agents.example.com:8443\";proto=https\n\
         host: api:9000\n\
         x-forwarded-for: 192.0.2.7\n\
         x-forwarded-host: agents.example.com:8443\n\
         x-forwarded-proto: https\n\
         x-request-id: r-1\n"
    );
}

#[test]
fn what_belongs_to_the_connection_stays_on_it() {
    let sent = [
        "connection: keep-alive, X-Private, content-length, host",
        "keep-alive: timeout=5",
        "proxy-connection: keep-alive",
        "proxy-authorization: Basic eA==",
        "te: trailers",
        "trailer: x-sum",
        "transfer-encoding: chunked",
        "upgrade: h2c",
        "http2-settings: x",
        "x-private: 1",
        "x_underscore: 1",
        "host: elsewhere",
        "content-length: 3",
        "x-public: 1",
    ];
    let arrived = Request::default().send(&sent).unwrap();
    let own = Request::default().send(&[]).unwrap();
    let kept: Vec<_> = arrived.lines().filter(|line| !own.contains(line)).collect();
    assert_eq!(kept, ["content-length: 3", "x-public: 1"]);
}

#[test]
fn what_callers_may_ask_for_passes() {
    for line in [
        "accept: text/csv",
        "accept-encoding: br",
        "range: bytes=0-1",
        "if-none-match: \"x\"",
        "if-range: \"x\"",
        "if-match: *",
        "expect: 100-continue",
        "content-type: application/x-www-form-urlencoded",
        "user-agent: curl/8",
        "idempotency-key: 1",
        "signature-input: sig=()",
    ] {
        assert!(Request::default().send(&[line]).unwrap().contains(line), "{line}");
    }
}

#[test]
fn a_body_that_is_seen_whole_is_not_waited_for_again() {
    let mut request = Request::default();
    request.settings.input_schema = Some(std::sync::Arc::new(true.into()));
    assert_eq!(request.arrives(&["expect: 100-continue"], "expect"), [""; 0]);
}

#[test]
fn credentials_of_the_gateway_and_overrides_go_on_only_where_they_are_named() {
    let lines = [
        "authorization: Bearer x",
        "cookie: a=b",
        "restap-session-id: 0123456789abcdef",
        "x-api-key: x",
        "x-http-method-override: DELETE",
        "x-original-url: /admin",
        "proxy: http://evil.example",
    ];
    for line in lines {
        let (name, value) = line.split_once(": ").unwrap();
        let mut request = Request::default();
        assert_eq!(request.arrives(&lines, name), [""; 0], "{line}");
        request.settings.route.forward_headers = vec![name.parse().unwrap()];
        assert_eq!(request.arrives(&lines, name), [value], "{line}");
    }
}

#[test]
fn a_caller_never_says_who_it_is() {
    let forged = ["restap-caller: root", "restap-caller-kind: jwt", "restap-anything: 1"];
    let mut request = Request::default();
    request.settings.route.forward_headers = vec![CALLER, CALLER_KIND];
    assert!(!request.send(&forged).unwrap().lines().any(|line| line.starts_with("restap-")));
    request.caller = Some(Caller { kind: "jwt", name: "é\n 50%" });
    assert_eq!(request.arrives(&forged, "restap-caller"), ["%C3%A9%0A%2050%25"]);
    assert_eq!(request.arrives(&forged, "restap-caller-kind"), ["jwt"]);
}

#[test]
fn an_unknown_peers_word_on_the_caller_is_replaced() {
    let forged = [
        "forwarded: for=10.0.0.1",
        "x-forwarded-for: 10.0.0.1",
        "x-forwarded-for: 10.0.0.2",
        "x-forwarded-host: evil",
        "x-forwarded-proto: http",
        "x-forwarded-port: 1",
        "x-forwarded-prefix: /evil",
        "x-real-ip: 10.0.0.1",
        "true-client-ip: 10.0.0.1",
    ];
    assert_eq!(Request::default().send(&forged).unwrap(), Request::default().send(&[]).unwrap());
}

#[test]
fn a_trusted_proxys_word_is_continued() {
    let said = [
        "forwarded: for=203.0.113.9;proto=https",
        "x-forwarded-for: 203.0.113.9",
        "x-forwarded-for: 10.0.0.2",
        "x-forwarded-host: public.example.com",
        "x-forwarded-proto: http",
        "x-forwarded-port: 443",
        "x-real-ip: 203.0.113.9",
    ];
    let request = Request { proxy: Proxy::Trusted, peer: Some("2001:db8::1"), ..Request::default() };
    assert_eq!(
        request.arrives(&said, "forwarded"),
        ["for=203.0.113.9;proto=https, for=\"[2001:db8::1]\";host=\"agents.example.com:8443\";proto=https"]
    );
    assert_eq!(request.arrives(&said, "x-forwarded-for"), ["203.0.113.9, 10.0.0.2, 2001:db8::1"]);
    assert_eq!(request.arrives(&said, "x-forwarded-host"), ["public.example.com"]);
    assert_eq!(request.arrives(&said, "x-forwarded-proto"), ["http"]);
    assert_eq!(request.arrives(&said, "x-forwarded-port"), ["443"]);
    assert_eq!(request.arrives(&[], "x-forwarded-host"), ["agents.example.com:8443"]);
}

#[test]
fn a_peer_on_a_unix_socket_has_no_address() {
    let request = Request { peer: None, ..Request::default() };
    assert_eq!(request.arrives(&[], "forwarded"), ["for=unknown;host=\"agents.example.com:8443\";proto=https"]);
    assert_eq!(request.arrives(&[], "x-forwarded-for"), [""; 0]);
}

#[test]
fn the_vendors_state_goes_with_its_own_trace_only() {
    const OURS: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let continued = ["traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-aaaaaaaaaaaaaaaa-01", "tracestate: v=1"];
    let another = ["traceparent: 00-00000000000000000000000000000001-aaaaaaaaaaaaaaaa-01", "tracestate: v=1"];
    let request = Request { traceparent: Some(OURS), ..Request::default() };
    assert_eq!(request.arrives(&continued, "traceparent"), [OURS]);
    assert_eq!(request.arrives(&continued, "tracestate"), ["v=1"]);
    assert_eq!(request.arrives(&another, "traceparent"), [OURS]);
    assert_eq!(request.arrives(&another, "tracestate"), [""; 0]);
    assert!(!Request::default().send(&another).unwrap().contains("trace"));
}

#[test]
fn what_the_upstream_and_the_route_set_stands_in_place_of_the_callers() {
    let mut request = Request {
        service: service_with_key("http://api", "authorization", "k", "Bearer secret"),
        ..Request::default()
    };
    request.settings.route.headers =
        vec![(HeaderName::from_static("x-city"), "in {city}".to_owned()), (header::HOST, "virtual.example".to_owned())];
    request.settings.route.forward_headers = vec![header::AUTHORIZATION];
    let sent = ["authorization: Bearer mine", "authorization: Bearer other", "x-city: Rome", "x-city: Oslo"];
    assert_eq!(request.arrives(&sent, "authorization"), ["Bearer secret"]);
    assert_eq!(request.arrives(&sent, "x-city"), ["in Paris"]);
    assert_eq!(request.arrives(&sent, "host"), ["virtual.example"]);
    request.path = "/w/Krak%C3%B3w";
    assert_eq!(request.send(&sent), Err(InvalidPath::NoHeaderValue));
}

#[test]
fn a_secret_is_not_shown_when_headers_are_printed() {
    let service = service_with_key("http://api", "x-key", "k", "hunter2");
    let capability = capability("GET /w");
    let (request_id, hops) = (HeaderValue::from_static("r"), HopCount::default());
    let arrival = Arrival {
        peer: None,
        proxy: Proxy::Unknown,
        scheme: Scheme::Http,
        host: "h",
        request_id: &request_id,
        traceparent: None,
        caller: None,
        hops: &hops,
    };
    let sent = request_headers(&capability, &service, &params(&capability, "/w"), &arrival, &HeaderMap::new()).unwrap();
    assert_eq!(sent["x-key"], "hunter2");
    assert!(!format!("{sent:?}").contains("hunter2"));
}

/// What the caller gets of an answer's headers.
fn answer(service: &Service, status: u16, sent: &[&str]) -> Result<String, UnsolicitedUpgrade> {
    let mut entry = settings("it", "GET /w/{city}");
    entry.validate_request = Validate::Off;
    let table = table([entry]);
    let Found::Capability(capability, params) = table.find(&"/w/Paris".parse().unwrap(), &Method::GET) else {
        panic!()
    };
    let target = capability.target(service, &params, &Method::GET, None);
    let back = Return { table: &table, capability, service, target: &target, base: "/agents/w" };
    response_headers(&back, StatusCode::from_u16(status).unwrap(), &headers(sent)).map(|headers| lines(&headers))
}

#[test]
fn what_says_too_much_or_speaks_for_the_origin_does_not_reach_callers() {
    let sent = [
        "connection: close, x-private",
        "x-private: 1",
        "keep-alive: timeout=5",
        "proxy-authenticate: Basic",
        "trailer: x",
        "transfer-encoding: chunked",
        "set-cookie: a=b",
        "alt-svc: h3",
        "strict-transport-security: max-age=1",
        "clear-site-data: \"*\"",
        "access-control-allow-origin: *",
        "access-control-anything: *",
        "server: legacy/1",
        "x-powered-by: x",
        "restap-job-id: forged",
        "x-request-id: theirs",
        "content-type: text/plain",
        "content-length: 5",
        "etag: \"x\"",
        "link: </a>; rel=next",
        "link: </b>; rel=prev",
        "retry-after: 3",
        "www-authenticate: Bearer",
        "content-disposition: attachment",
    ];
    assert_eq!(
        answer(&service("http://api"), 200, &sent).unwrap(),
        "content-disposition: attachment\n\
         content-length: 5\n\
         content-type: text/plain\n\
         etag: \"x\"\n\
         link: </a>; rel=next\n\
         link: </b>; rel=prev\n\
         retry-after: 3\n\
         www-authenticate: Bearer\n"
    );
}

#[test]
fn cookies_pass_where_the_upstream_says_so() {
    let headers: &[(HeaderName, Secret)] = &[];
    let open = Service::new(&"http://api".parse().unwrap(), headers, &[], CookiePolicy::Pass).unwrap();
    assert_eq!(answer(&open, 200, &["set-cookie: a", "set-cookie: b"]).unwrap(), "set-cookie: a\nset-cookie: b\n");
}

#[test]
fn an_answer_without_a_body_has_no_length() {
    for status in [103, 204] {
        assert_eq!(answer(&service("http://api"), status, &["content-length: 3"]).unwrap(), "", "{status}");
    }
    assert_eq!(answer(&service("http://api"), 304, &["content-length: 3"]).unwrap(), "content-length: 3\n");
}

#[test]
fn nobody_switches_protocols_unasked() {
    assert_eq!(answer(&service("http://api"), 101, &[]), Err(UnsolicitedUpgrade));
}

#[test]
fn a_location_is_ours_again() {
    let location = answer(&service("http://api:9000"), 201, &["location: http://api:9000/w/Rome"]).unwrap();
    assert_eq!(location, "location: /agents/w/w/Rome\n");
}
