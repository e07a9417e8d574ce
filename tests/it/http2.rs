//! HTTP/2 without TLS, on either side of the gateway.

use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::client::SendRequest;
use rustix::process::Signal;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

use crate::support::{Events, Gate, Gateway, PATIENCE, Upstream, chatting, delta, end, passing};

/// A connection that is driven in the background.
async fn connect(gateway: &Gateway) -> (SendRequest<Bytes>, tokio::task::JoinHandle<Result<(), h2::Error>>) {
    let socket = TcpStream::connect(gateway.address()).await.unwrap();
    // A stalled stream may fill its own window, not the connection's.
    let mut settings = h2::client::Builder::new();
    let (client, connection) = settings.initial_connection_window_size(1 << 20).handshake(socket).await.unwrap();
    (client.ready().await.unwrap(), tokio::spawn(connection))
}

fn request(gateway: &Gateway, method: &str, path: &str) -> http::request::Builder {
    http::Request::builder().method(method).uri(format!("http://{}{path}", gateway.address()))
}

/// The head of a talk that asks for a stream, and its body.
fn talk(gateway: &Gateway) -> (http::Request<()>, Bytes) {
    let head = request(gateway, "POST", "/talk").header("content-type", "application/json");
    (head.header("accept", "text/event-stream").body(()).unwrap(), Bytes::from_static(b"{\"message\": \"hi\"}"))
}

/// Sends one request whole and reads its whole answer.
async fn call(client: &mut SendRequest<Bytes>, request: http::Request<()>, body: Bytes) -> http::Response<Vec<u8>> {
    let (response, mut sending) = client.send_request(request, body.is_empty()).unwrap();
    if !body.is_empty() {
        sending.send_data(body, true).unwrap();
    }
    let (head, mut stream) = response.await.unwrap().into_parts();
    let mut whole = Vec::new();
    while let Some(part) = stream.data().await {
        let part = part.unwrap();
        stream.flow_control().release_capacity(part.len()).unwrap();
        whole.extend_from_slice(&part);
    }
    http::Response::from_parts(head, whole)
}

fn within<T>(work: impl Future<Output = T>) -> T {
    Runtime::new().unwrap().block_on(async { tokio::time::timeout(PATIENCE, work).await.unwrap() })
}

/// A service whose stream waits until its gateway leaves.
fn endless() -> Upstream {
    Upstream::start(|exchange| {
        exchange.open_stream();
        exchange.send(delta("Half"));
        exchange.wait_until_left();
    })
}

#[test]
fn a_caller_may_speak_http2_without_tls() {
    let upstream = Upstream::start(|exchange| match exchange.request.method.as_str() {
        "GET" => exchange.answer("200 OK", "Content-Type: text/plain\r\nConnection: keep-alive", b"passed"),
        "PUT" => {
            let body = exchange.request.body.clone();
            exchange.answer("200 OK", "", &body);
        }
        _ => exchange.stream(&(delta("Hi") + &end("stop"))),
    });
    let file = format!(
        "{}  upstream: {}\n  capabilities: [{{id: get, method: GET, endpoint: '/any/{{*path}}'}}, \
         {{id: put, method: PUT, endpoint: '/any/{{*path}}'}}]\n",
        chatting(&upstream.url()),
        upstream.url()
    );
    let gateway = Gateway::start(&file);
    let none = Bytes::new;
    within(async {
        // All on one connection.
        let (mut client, _driving) = connect(&gateway).await;
        let get = |path: &str| request(&gateway, "GET", path).body(()).unwrap();
        let catalog = call(&mut client, get("/.well-known/restap.json"), none()).await;
        assert_eq!((catalog.status().as_u16(), catalog.version()), (200, http::Version::HTTP_2));
        let passed = call(&mut client, get("/any/thing?x=1"), none()).await;
        assert_eq!((passed.status().as_u16(), passed.body().as_slice()), (200, b"passed".as_slice()));
        let put = request(&gateway, "PUT", "/any/thing").body(()).unwrap();
        assert_eq!(call(&mut client, put, Bytes::from_static(b"sent")).await.body(), b"sent");
        let (head, body) = talk(&gateway);
        let stream = call(&mut client, head, body).await;
        assert_eq!(stream.headers().get("connection"), None, "HTTP/2 has no such header");
        assert_eq!(Events::parse(std::str::from_utf8(stream.body()).unwrap()).text(), "Hi");
        assert_eq!(call(&mut client, get("/nothing"), none()).await.status(), 404);
        let head = request(&gateway, "HEAD", "/.well-known/restap.json").body(()).unwrap();
        assert!(call(&mut client, head, none()).await.body().is_empty());
    });
    assert_eq!(upstream.requests()[0].target, "/any/thing?x=1");
}

#[test]
fn rules_of_the_front_door_hold_over_http2() {
    let gateway =
        Gateway::start("public_url: https://agents.example.com\nlimits: {body: 1KiB}\nagent: {name: Two, talk: off}\n");
    within(async {
        let (mut client, _driving) = connect(&gateway).await;
        let refused = |response: http::Response<Vec<u8>>| {
            let body: serde_json::Value = serde_json::from_slice(response.body()).unwrap();
            (response.status().as_u16(), body["error"].as_str().unwrap().to_owned())
        };
        let foreign = http::Request::builder().uri("http://evil.example/health").body(()).unwrap();
        assert_eq!(refused(call(&mut client, foreign, Bytes::new()).await), (421, "misdirected".into()));
        let post = || request(&gateway, "POST", "/news").header("content-type", "application/json");
        let long = Bytes::from(format!("{{\"type\": \"{}\"}}", "x".repeat(2_000)));
        let over = call(&mut client, post().body(()).unwrap(), long).await;
        assert_eq!(refused(over), (413, "payload_too_large".into()));
        let id = "sess_0123456789abcdef";
        let twice = post().header("restap-session-id", id).header("restap-session-id", id).body(()).unwrap();
        let body = Bytes::from_static(b"{\"type\": \"t\"}");
        assert_eq!(refused(call(&mut client, twice, body).await), (400, "invalid_session_id".into()));
        let lengths = post().header("content-length", "13").header("content-length", "13").body(()).unwrap();
        let body = Bytes::from_static(b"{\"type\": \"t\"}");
        assert_eq!(refused(call(&mut client, lengths, body).await), (400, "bad_request".into()));
        let above = request(&gateway, "GET", "/%2e%2e/x").body(()).unwrap();
        assert_eq!(refused(call(&mut client, above, Bytes::new()).await), (400, "invalid_path".into()));
    });
}

#[test]
fn a_caller_that_resets_its_http2_stream_ends_the_upstream_and_nothing_else() {
    let upstream = endless();
    let gateway = Gateway::start(&chatting(&upstream.url()));
    within(async {
        let (mut client, _driving) = connect(&gateway).await;
        let (head, body) = talk(&gateway);
        let (response, mut sending) = client.send_request(head, false).unwrap();
        sending.send_data(body, true).unwrap();
        let mut stream = response.await.unwrap().into_body();
        stream.data().await.unwrap().unwrap();
        sending.send_reset(h2::Reason::CANCEL);
        drop((stream, sending));
        let health = request(&gateway, "GET", "/health").body(()).unwrap();
        assert_eq!(call(&mut client, health, Bytes::new()).await.status(), 200);
        let left = tokio::task::block_in_place(|| upstream.open_falls_to(0, Duration::from_millis(250)));
        assert!(left, "the upstream is still open");
    });
}

#[test]
fn a_slow_reader_of_http2_stops_its_upstream_and_no_other_stream() {
    let full = Gate::default();
    let told = full.clone();
    let upstream = Upstream::start(move |exchange| {
        exchange.open_stream();
        exchange.connection.socket.set_write_timeout(Some(Duration::from_millis(700))).unwrap();
        let frame = delta(&"x".repeat(8 << 10));
        for _ in 0..4096 {
            if std::io::Write::write_all(&mut exchange.connection.socket, frame.as_bytes()).is_err() {
                told.open();
                break;
            }
        }
        exchange.wait_until_left();
    });
    let gateway = Gateway::start(&chatting(&upstream.url()));
    within(async {
        let (mut client, _driving) = connect(&gateway).await;
        let before = gateway.memory();
        let (head, body) = talk(&gateway);
        let (response, mut sending) = client.send_request(head, false).unwrap();
        sending.send_data(body, true).unwrap();
        let stalled = response.await.unwrap().into_body();
        // The other streams of the connection go on.
        for _ in 0..20 {
            let health = request(&gateway, "GET", "/health").body(()).unwrap();
            assert_eq!(call(&mut client, health, Bytes::new()).await.status(), 200);
        }
        tokio::task::block_in_place(|| full.wait());
        assert!(gateway.memory() < before + (16 << 20));
        sending.send_reset(h2::Reason::CANCEL);
        drop((stalled, sending));
        let left = tokio::task::block_in_place(|| upstream.open_falls_to(0, PATIENCE));
        assert!(left);
    });
}

#[test]
fn an_idle_http2_connection_does_not_hold_up_the_end() {
    let mut gateway = Gateway::start("agent: {name: Two}\n");
    within(async {
        let (mut client, driving) = connect(&gateway).await;
        let health = request(&gateway, "GET", "/health").body(()).unwrap();
        assert_eq!(call(&mut client, health, Bytes::new()).await.status(), 200);
        let began = Instant::now();
        gateway.signal(Signal::TERM);
        assert_eq!(tokio::task::block_in_place(|| gateway.exited()).code(), Some(0));
        assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
        drop(driving.await);
    });
}

#[test]
fn an_open_http2_stream_is_waited_for() {
    let gate = Gate::default();
    let held = gate.clone();
    let upstream = Upstream::start(move |exchange| {
        exchange.open_stream();
        exchange.send(delta("first "));
        held.wait();
        exchange.send(delta("last") + &end("stop"));
    });
    let mut gateway = Gateway::start(&chatting(&upstream.url()));
    within(async {
        let (mut client, _driving) = connect(&gateway).await;
        let (head, body) = talk(&gateway);
        let (response, mut sending) = client.send_request(head, false).unwrap();
        sending.send_data(body, true).unwrap();
        let mut stream = response.await.unwrap().into_body();
        let mut text = stream.data().await.unwrap().unwrap().to_vec();
        gateway.signal(Signal::TERM);
        gateway.wait_for_line("stopping");
        gate.open();
        while let Some(part) = stream.data().await {
            text.extend_from_slice(&part.unwrap());
        }
        assert_eq!(Events::parse(std::str::from_utf8(&text).unwrap()).text(), "first last");
        assert_eq!(tokio::task::block_in_place(|| gateway.exited()).code(), Some(0));
    });
}

#[test]
fn requests_that_are_reset_at_once_do_no_harm() {
    let upstream = endless();
    let gateway = Gateway::start(&chatting(&upstream.url()));
    within(async {
        let (mut client, _driving) = connect(&gateway).await;
        for _ in 0..300 {
            let (head, _) = talk(&gateway);
            client = match client.ready().await {
                Ok(ready) => ready,
                // Turned away for it, which is as well.
                Err(_) => break,
            };
            let Ok((_, mut sending)) = client.send_request(head, false) else { break };
            sending.send_reset(h2::Reason::CANCEL);
        }
    });
    gateway.get("/health").ok();
    assert!(upstream.open_falls_to(0, Duration::from_secs(5)));
}

#[test]
fn a_service_may_speak_http2_without_tls() {
    let runtime = Runtime::new().unwrap();
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    runtime.spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut connection = h2::server::handshake(socket).await.unwrap();
                while let Some(Ok((request, mut respond))) = connection.accept().await {
                    let talks = request.uri().path().ends_with("/chat/completions");
                    let body =
                        if talks { delta("over h2") + &end("stop") } else { "h2 ".to_owned() + request.uri().path() };
                    let media_type = if talks { "text/event-stream" } else { "text/plain" };
                    let head = http::Response::builder().header("content-type", media_type).body(()).unwrap();
                    respond.send_response(head, false).unwrap().send_data(body.into(), true).unwrap();
                }
            });
        }
    });
    let gateway = Gateway::start(&format!(
        "upstreams: {{two: {{url: 'http://{address}', http: '2'}}}}\n\
         agent: {{name: T, upstream: two, talk: {{upstream: two, dialect: openai-chat, model: m}}, \
         capabilities: [{{id: a, method: GET, endpoint: '/x/{{y}}'}}]}}\n"
    ));
    assert_eq!(gateway.get("/x/1").text(), "h2 /x/1");
    assert_eq!(gateway.stream("hi").events().text(), "over h2");
    assert_eq!(gateway.talk("hi").ok()["reply"], "over h2");
}

#[test]
fn a_streamed_body_that_stops_coming_over_http2_ends_its_request_and_no_other() {
    let upstream = Upstream::accept(|incoming| {
        let Some(request) = incoming.head() else { return };
        if request.method == "POST" {
            // Nothing is answered before the body's end, which never comes.
            let mut rest = Vec::new();
            let _ = std::io::Read::read_to_end(&mut incoming.socket, &mut rest);
        } else {
            let _ = std::io::Write::write_all(&mut incoming.socket, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        }
    });
    let gateway = Gateway::start(&format!("limits: {{body_timeout: 400ms}}\n{}", passing(&upstream)));
    within(async {
        let (mut client, _driving) = connect(&gateway).await;
        let head = request(&gateway, "POST", "/upload").header("content-type", "application/octet-stream");
        let (response, mut sending) = client.send_request(head.body(()).unwrap(), false).unwrap();
        let began = Instant::now();
        for _ in 0..4 {
            sending.send_data(Bytes::from_static(&[7; 1000]), false).unwrap();
            tokio::time::sleep(Duration::from_millis(150)).await;
        }
        let other = request(&gateway, "GET", "/other").body(()).unwrap();
        assert_eq!(call(&mut client, other, Bytes::new()).await.body(), b"ok");
        let error = response.await.expect_err("the stream is reset");
        assert!(error.is_reset(), "{error}");
        assert!(began.elapsed() >= Duration::from_millis(850), "a body that goes on is not cut");
        let other = request(&gateway, "GET", "/other").body(()).unwrap();
        assert_eq!(call(&mut client, other, Bytes::new()).await.body(), b"ok", "its connection goes on");
        let left = tokio::task::block_in_place(|| upstream.open_falls_to(1, PATIENCE));
        assert!(left, "the service is asked no more");
    });
    assert!(gateway.wait_for_line(" POST /upload 408 ").contains("error=request_timeout"));
}
