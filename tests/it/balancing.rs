//! Several servers of one service: killed, hung, slow, flapping, back again.

use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::{Call, Gateway, Upstream, delta, end, until};

/// An upstream of these servers, its other keys, and two capabilities: one that passes, and one that is seen whole.
fn balanced(servers: &[&str], more: &str) -> String {
    let servers: Vec<String> = servers.iter().map(|url| format!("{{url: '{url}'}}")).collect();
    format!(
        "upstreams:\n  api: {{servers: [{}], {more}}}\nagent:\n  name: Balanced\n  talk: off\n  upstream: api\n  capabilities:\n    \
         - {{id: passed, method: GET, endpoint: '/passed/{{*path}}'}}\n    \
         - {{id: posted, method: POST, endpoint: '/posted'}}\n    \
         - {{id: seen, method: POST, endpoint: /seen, input_schema: {{type: object}}}}\n",
        servers.join(", ")
    )
}

fn server() -> Upstream {
    Upstream::fixed("200 OK", "", "{}")
}

/// A server that answers with a status that can be changed, and counts.
#[derive(Clone, Default)]
struct Flapping {
    down: Arc<AtomicBool>,
    asked: Arc<AtomicUsize>,
}

impl Flapping {
    fn start(&self) -> Upstream {
        let this = self.clone();
        Upstream::start(move |exchange| {
            this.asked.fetch_add(1, Ordering::AcqRel);
            let status = if this.down.load(Ordering::Acquire) { "503 Down" } else { "200 OK" };
            exchange.answer(status, "", b"{}");
        })
    }

    fn set(&self, down: bool) {
        self.down.store(down, Ordering::Release);
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Acquire)
    }
}

#[test]
fn requests_take_turns_and_each_server_is_called_by_its_own_name() {
    let servers = [server(), server(), server()];
    let urls: Vec<String> = servers.iter().map(Upstream::url).collect();
    let gateway = Gateway::start(&balanced(&urls.iter().map(String::as_str).collect::<Vec<_>>(), ""));
    for _ in 0..6 {
        assert_eq!(gateway.get("/passed/a").status, 200);
        assert_eq!(gateway.post("/seen", &json!({})).status, 200);
    }
    for server in &servers {
        let requests = server.requests();
        assert_eq!(requests.len(), 4);
        let authority = server.address().to_string();
        assert!(requests.iter().all(|request| request.header("host") == Some(&authority)), "{requests:?}");
    }
}

#[test]
fn a_server_that_is_gone_costs_no_caller_anything() {
    let (well, gone) = (server(), Upstream::unreachable());
    let gateway = Gateway::start(&balanced(&[&gone, &well.url()], ""));
    for _ in 0..20 {
        assert_eq!(gateway.get("/passed/a").status, 200);
        // Nothing of it was sent, so that even a POST can go elsewhere.
        assert_eq!(gateway.post("/posted", &json!({})).status, 200);
        assert_eq!(gateway.post("/seen", &json!({})).status, 200);
    }
    assert_eq!(well.requests().len(), 60);
    gateway.wait_for_line("is left out for 10 s");
    let metrics = gateway.admin("/metrics").1;
    assert!(
        metrics.contains(&format!("restap_upstream_server_up{{server=\"{gone}\",upstream=\"api\"}} 0")),
        "{metrics}"
    );
    // A reload that leaves the upstream alone leaves what is known of its servers alone.
    let file = format!("public_url: http://127.0.0.1\n{}", balanced(&[&gone, &well.url()], ""));
    assert_eq!(gateway.reload(&file).0, 200);
    let before = gateway.logs().matches("is left out").count();
    (0..10).for_each(|_| assert_eq!(gateway.get("/passed/a").status, 200));
    assert_eq!(gateway.logs().matches("is left out").count(), before);
}

#[test]
fn talks_and_their_sessions_stay_at_one_server() {
    let servers: Vec<Upstream> = (0..3).map(|_| Upstream::chat(&(delta("hi") + &end("stop")))).collect();
    let list: Vec<String> = servers.iter().map(|server| format!("{{url: '{}'}}", server.url())).collect();
    let gateway = Gateway::start(&format!(
        "upstreams: {{llm: {{servers: [{}], balance: consistent}}}}\nagent: {{name: T, talk: {{upstream: llm, model: m}}}}\n",
        list.join(", ")
    ));
    for session in 0..12 {
        let before: Vec<usize> = servers.iter().map(|server| server.requests().len()).collect();
        for _ in 0..3 {
            gateway.call(&Call::talk("hi").session(&format!("session_{session:016}"))).ok();
        }
        let grown = servers.iter().zip(before).filter(|(server, before)| server.requests().len() > *before).count();
        assert_eq!(grown, 1);
    }
    assert!(servers.iter().filter(|server| !server.requests().is_empty()).count() > 1);
}

#[test]
fn health_checks_take_a_server_out_and_bring_it_back() {
    let (first, second) = (Flapping::default(), Flapping::default());
    let servers = [first.start(), second.start()];
    let urls = [servers[0].url(), servers[1].url()];
    let gateway = Gateway::start(&balanced(&[&urls[0], &urls[1]], "health: {path: /healthz, interval: 50ms}"));
    let checked = |one: &Upstream| one.requests().iter().any(|request| request.target == "/healthz");
    until("both are checked", || servers.iter().all(checked).then_some(()));
    first.set(true);
    gateway.wait_for_line(&format!("{} is down: its health check fails", urls[0]));
    for _ in 0..10 {
        assert_eq!(gateway.get("/passed/a").status, 200);
    }
    second.set(true);
    gateway.wait_for_line(&format!("{} is down: its health check fails", urls[1]));
    for call in [Call::get("/passed/a"), Call::post("/seen", &json!({}))] {
        let answer = gateway.call(&call);
        answer.refused(503, "upstream_unavailable");
        assert!(answer.header("retry-after").is_some());
    }
    first.set(false);
    gateway.wait_for_line(&format!("{} is back", urls[0]));
    assert_eq!(gateway.get("/passed/a").status, 200);
}

#[test]
fn a_service_that_does_nothing_but_fail_is_left_alone_and_comes_back_by_itself() {
    let flapping = Flapping::default();
    flapping.set(true);
    let upstream = flapping.start();
    let gateway = Gateway::start(&balanced(&[&upstream.url()], ""));
    for _ in 0..20 {
        assert_eq!(gateway.get("/passed/a").status, 503);
    }
    gateway.wait_for_line("not asked for 1 s, as it does nothing but fail");
    // Now nothing reaches the service but one request at a time, later each time.
    let refused = until("the breaker answers", || {
        let answer = gateway.post("/seen", &json!({}));
        answer.header("retry-after").is_some().then_some(answer)
    });
    refused.refused(503, "upstream_unavailable");
    let before = flapping.asked();
    for _ in 0..50 {
        assert_eq!(gateway.post("/seen", &json!({})).status, 503);
    }
    assert!(flapping.asked() <= before + 3, "{}", flapping.asked());
    flapping.set(false);
    until("it is back", || (gateway.get("/passed/a").status == 200).then_some(()));
    for _ in 0..20 {
        assert_eq!(gateway.get("/passed/a").status, 200);
    }
}

#[test]
fn retries_stay_within_their_budget_however_many_callers_there_are() {
    let flapping = Flapping::default();
    flapping.set(true);
    let upstream = flapping.start();
    let gateway =
        Gateway::start(&balanced(&[&upstream.url()], "retry: {attempts: 3, when: [connect, timeout, 502, 503]}"));
    assert_eq!(gateway.get("/passed/a").status, 503);
    assert_eq!(flapping.asked(), 3);
    let statuses: Vec<u16> = (0..200).map(|_| gateway.get("/passed/a").status).collect();
    assert!(statuses.iter().all(|status| *status == 503));
    // The budget of ten, a fifth of what was asked, and then the breaker.
    assert!(flapping.asked() <= 201 + 10 + 40, "{}", flapping.asked());
    let posts = flapping.asked();
    flapping.set(false);
    until("it is back", || (gateway.get("/passed/a").status == 200).then_some(()));
    flapping.set(true);
    let before = flapping.asked();
    assert!(before > posts);
    gateway.post("/posted", &json!({}));
    assert_eq!(flapping.asked(), before + 1);
}

#[test]
fn a_retry_reaches_another_server_and_its_caller_sees_one_answer() {
    let (down, well) = (Flapping::default(), Flapping::default());
    down.set(true);
    let servers = [down.start(), well.start()];
    let urls = [servers[0].url(), servers[1].url()];
    let gateway = Gateway::start(&balanced(&[&urls[0], &urls[1]], "retry: {attempts: 2, when: [503]}"));
    for _ in 0..20 {
        assert_eq!(gateway.get("/passed/a").status, 200);
    }
    let metrics = gateway.admin("/metrics").1;
    assert!(metrics.contains(r#"restap_upstream_retries_total{upstream="api"} 5"#), "{metrics}");
    assert_eq!((down.asked(), well.asked()), (5, 20));
}

#[test]
fn a_server_that_hangs_is_left_out_and_the_others_go_on() {
    let hung = Upstream::start(|exchange| {
        exchange.wait_until_left();
    });
    let well = server();
    let gateway = Gateway::start(&balanced(
        &[&hung.url(), &well.url()],
        "timeout: {first_byte: 150ms, idle: 150ms}, retry: {attempts: 2, when: [timeout]}",
    ));
    let mut slowest = Duration::ZERO;
    for _ in 0..30 {
        let began = Instant::now();
        assert_eq!(gateway.get("/passed/a").status, 200);
        slowest = slowest.max(began.elapsed());
    }
    assert_eq!(hung.requests().len(), 5);
    assert!(slowest < Duration::from_secs(5), "{slowest:?}");
    gateway.wait_for_line("is left out for");
}

/// A server on this address that answers until it is told to stop.
fn on(address: SocketAddr, stop: &Arc<AtomicBool>) -> std::thread::JoinHandle<()> {
    let listener = TcpListener::bind(address).unwrap();
    listener.set_nonblocking(true).unwrap();
    let stop = stop.clone();
    std::thread::spawn(move || {
        while !stop.load(Ordering::Acquire) {
            let Ok((mut socket, _)) = listener.accept() else {
                std::thread::sleep(Duration::from_millis(1));
                continue;
            };
            socket.set_nonblocking(false).unwrap();
            std::thread::spawn(move || {
                let mut head = [0; 4096];
                let _ = std::io::Read::read(&mut socket, &mut head);
                let _ = socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}");
            });
        }
    })
}

#[test]
fn servers_that_are_killed_and_started_under_load_cost_nobody_an_answer() {
    let well = server();
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://{address}");
    let gateway =
        Arc::new(Gateway::start(&balanced(&[&url, &well.url()], "retry: {attempts: 3, when: [connect, 502]}")));
    let over = Arc::new(AtomicBool::new(false));
    let callers: Vec<_> = (0..4)
        .map(|_| {
            let (gateway, over) = (gateway.clone(), over.clone());
            std::thread::spawn(move || {
                let mut statuses = Vec::new();
                while !over.load(Ordering::Acquire) {
                    statuses.push(gateway.get("/passed/a").status);
                }
                statuses
            })
        })
        .collect();
    for _ in 0..5 {
        let stop = Arc::new(AtomicBool::new(false));
        let server = on(address, &stop);
        std::thread::sleep(Duration::from_millis(100));
        stop.store(true, Ordering::Release);
        server.join().unwrap();
        std::thread::sleep(Duration::from_millis(100));
    }
    over.store(true, Ordering::Release);
    let statuses: Vec<u16> = callers.into_iter().flat_map(|caller| caller.join().unwrap()).collect();
    // One that was accepted and never answered may be lost; the next ones are not.
    let failed = statuses.iter().filter(|status| **status != 200).count();
    assert!(statuses.len() > 100 && failed * 50 < statuses.len(), "{failed} of {}", statuses.len());
}

#[test]
fn a_file_about_servers_teaches() {
    for (keys, message) in [
        ("servers: []", "the list is empty"),
        ("servers: [{url: 'http://a/v1'}, {url: 'http://b/v2'}]", "differ in host and port alone"),
        ("servers: [{url: 'http://a'}, {url: 'http://a'}]", "stands in the list twice"),
        ("url: 'http://a', servers: [{url: 'http://b'}]", "`url` already says where the service is"),
        ("bearer: x", "neither `url` nor `servers`"),
        ("url: 'http://a', balance: least_conn", "`balance` does nothing here"),
        ("url: 'http://a', retry: {attempts: 1, when: [503]}", "2 to 5"),
        ("url: 'http://a', retry: {when: [500]}", "connect, timeout, 502, 503, 504"),
        ("url: 'http://a', health: {path: healthz}", "a path such as /healthz"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let file = format!(
            "upstreams: {{api: {{{keys}}}}}\nagent: {{name: A, upstream: api, capabilities: [{{id: a, endpoint: /a}}]}}\n"
        );
        let checked = crate::support::run(directory.path(), Some(&file), &["check"]);
        assert_eq!(checked.code, Some(1), "{keys}");
        assert!(checked.stderr.contains(message), "{keys}: {}", checked.stderr);
    }
}
