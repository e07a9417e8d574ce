//! Several gateways on one shared store: PostgreSQL and Redis, each on a server of its own, alive, killed and frozen.
//!
//! `RESTAP_SOAK=60` makes the runs under load as many seconds long, with more writers and pollers.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::servers::Server;
use crate::support::{Call, Gateway, Upstream, chatting, delta, end, fixture, run, turns, until};

const KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const OTHER_KEY: &str = "AQECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const A: &str = "sess_fleet_aaaaaaaaaaa";
const AGENT: &str = "agent: {name: Fleet}\n";

/// A test for every engine that is installed.
macro_rules! on_every_engine {
    ($($test:ident)*) => {
        mod postgres {
            $(
                #[test]
                fn $test() {
                    if let Some(mut server) = crate::servers::Server::postgres(&[]) {
                        super::$test(&mut server);
                    }
                }
            )*
        }
        mod redis {
            $(
                #[test]
                fn $test() {
                    let durable = ["--appendonly", "yes", "--appendfsync", "always"];
                    if let Some(mut server) = crate::servers::Server::redis(&durable) {
                        super::$test(&mut server);
                    }
                }
            )*
        }
    };
}

on_every_engine! {
    every_poller_sees_each_item_once_in_order
    turns_of_one_session_never_interleave
    what_one_gateway_accepts_another_one_answers
    a_repeat_at_another_gateway_gets_the_first_answer
    an_item_wakes_who_waits_at_another_gateway
    nothing_acknowledged_is_lost_when_the_engine_is_killed
    a_gateway_starts_without_its_engine_and_recovers
    an_engine_that_does_not_answer_is_503_and_then_recovers
    a_gateway_with_another_key_does_not_start
}

fn file(server: &Server, agent: &str) -> String {
    file_with(server, KEY, agent)
}

fn file_with(server: &Server, key: &str, agent: &str) -> String {
    format!("store:\n  {}: {{url: \"{}\"}}\n  key: {key}\n{agent}", server.scheme(), server.url())
}

fn fleet<const N: usize>(server: &Server, agent: &str) -> [Gateway; N] {
    std::array::from_fn(|_| Gateway::start(&file(server, agent)))
}

fn seconds(short: u64) -> Duration {
    Duration::from_secs(soak().unwrap_or(short))
}

fn soak() -> Option<u64> {
    std::env::var("RESTAP_SOAK").ok()?.parse().ok()
}

/// What was acknowledged, and whether more comes.
#[derive(Default)]
struct Log {
    acknowledged: Mutex<Vec<String>>,
    refused: AtomicUsize,
    over: AtomicBool,
}

/// Posts to one gateway after the other until it is over.
fn write(gateways: &[Gateway], writer: usize, session: Option<&str>, log: &Log) {
    for number in 0.. {
        if log.over.load(Ordering::SeqCst) {
            return;
        }
        let message = format!("{writer}-{number}");
        let call = Call::post("/news", &json!({"type": "note", "message": message}));
        let answer = gateways[(writer + number) % gateways.len()].call(&session.into_iter().fold(call, Call::session));
        match answer.status {
            200 => log.acknowledged.lock().unwrap().push(message),
            503 => {
                answer.refused(503, "store_unavailable");
                assert!(answer.header("retry-after").is_some());
                log.refused.fetch_add(1, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(50));
            }
            429 => std::thread::sleep(Duration::from_millis(5)),
            _ => panic!("{}", answer.text()),
        }
    }
}

/// Follows a feed over all gateways until it is over and everything was read; returns what it has seen, in order.
fn poll(gateways: &[Gateway], poller: usize, session: Option<&str>, log: &Log) -> Vec<String> {
    let by_timestamp = poller.is_multiple_of(2);
    let (mut since, mut last, mut seen, mut turn) = (1, 0, Vec::new(), poller);
    loop {
        let over = log.over.load(Ordering::SeqCst);
        turn += 1;
        let target = format!("/news?since={since}&limit={}", 5 + poller % 3 * 50);
        let answer = gateways[turn % gateways.len()].call(&session.into_iter().fold(Call::get(&target), Call::session));
        if answer.status == 503 {
            std::thread::sleep(Duration::from_millis(50));
            continue;
        }
        let page = answer.ok();
        for item in page["items"].as_array().unwrap() {
            let timestamp = item["timestamp"].as_u64().unwrap();
            assert!(timestamp > last, "out of order, or twice");
            last = timestamp;
            seen.push(item["message"].as_str().unwrap().to_owned());
        }
        let next = if by_timestamp { page["timestamp"].as_u64().unwrap() } else { last.max(since) };
        since = next;
        if over && page["more"] == false && page["items"].as_array().unwrap().is_empty() {
            return seen;
        }
    }
}

/// Everything that was acknowledged was seen, and nothing twice.
fn judge(seen: &[String], log: &Log) {
    let mut count = HashMap::new();
    for message in seen {
        *count.entry(message.as_str()).or_insert(0) += 1;
    }
    assert!(count.values().all(|count| *count == 1), "an item was shown twice");
    let acknowledged = log.acknowledged.lock().unwrap();
    assert!(!acknowledged.is_empty());
    let missed: Vec<_> = acknowledged.iter().filter(|message| !count.contains_key(message.as_str())).collect();
    assert!(missed.is_empty(), "{} of {} were lost: {missed:?}", missed.len(), acknowledged.len());
}

/// Ends a run: its poller has seen everything that was acknowledged, and so does who reads it all now, which is given.
fn judge_at_the_end(poller: ScopedJoinHandle<'_, Vec<String>>, gateways: &[Gateway], log: &Log) -> Vec<String> {
    log.over.store(true, Ordering::SeqCst);
    let mut seen = poller.join().unwrap();
    let rest = Log { over: true.into(), ..Log::default() };
    let all = poll(gateways, 1, Some(A), &rest);
    // What is acknowledged last may be read after the poller has left.
    seen.extend(all.iter().filter(|message| !seen.contains(message)).cloned().collect::<Vec<_>>());
    judge(&seen, log);
    judge(&all, log);
    all
}

fn every_poller_sees_each_item_once_in_order(server: &mut Server) {
    let gateways: [Gateway; 3] = fleet(server, AGENT);
    let (writers, pollers) = if soak().is_some() { (16, 8) } else { (4, 4) };
    // One feed of an agent and one of a session, each with writers and pollers of its own.
    let logs = [(None, Log::default()), (Some(A), Log::default())];
    std::thread::scope(|scope| {
        let gateways = &gateways;
        let following: Vec<_> = (0..pollers)
            .map(|poller| {
                let (session, log) = &logs[poller / 2 % 2];
                (scope.spawn(move || poll(gateways, poller, *session, log)), log)
            })
            .collect();
        for writer in 0..writers {
            let (session, log) = &logs[writer % 2];
            scope.spawn(move || write(gateways, writer, *session, log));
        }
        std::thread::sleep(seconds(3));
        for (_, log) in &logs {
            log.over.store(true, Ordering::SeqCst);
        }
        for (poller, log) in following {
            // What is acknowledged last may be read after the poller has left.
            let mut seen = poller.join().unwrap();
            let session = if std::ptr::eq(log, &raw const logs[1].1) { Some(A) } else { None };
            let rest = Log { over: true.into(), ..Log::default() };
            for message in poll(gateways, 0, session, &rest) {
                if !seen.contains(&message) {
                    seen.push(message);
                }
            }
            judge(&seen, log);
        }
    });
    let total: usize = logs.iter().map(|(_, log)| log.acknowledged.lock().unwrap().len()).sum();
    eprintln!("{}: {total} items", server.scheme());
}

fn turns_of_one_session_never_interleave(server: &mut Server) {
    turns::never_interleave::<2>(A, |upstream| fleet(server, &chatting(&upstream.url())));
}

fn what_one_gateway_accepts_another_one_answers(server: &mut Server) {
    let upstream = Upstream::chat(&(delta("ok") + &end("stop")));
    let [one, other]: [Gateway; 2] = fleet(server, &chatting(&upstream.url()));
    let body = json!({"message": "hi", "dispatch_id": "d", "query_id": "q"});
    let accepted = one.post("/talk", &body);
    assert_eq!(accepted.status, 202);
    let again = other.post("/talk", &body);
    assert_eq!((again.status, again.json()), (202, accepted.json()));
    let id = accepted.json()["query_id"].as_str().unwrap().to_owned();
    let answered =
        || Some(other.get(&format!("/query/{id}")).ok()).filter(|query: &Value| query["status"] == "completed");
    assert_eq!(until("it is answered", answered)["message"], "ok");
    for query in [id.as_str(), "q"] {
        let page = other.get(&format!("/news?query_id={query}")).ok();
        assert_eq!(page["items"].as_array().unwrap().len(), 1, "{query}");
    }
    assert_eq!(upstream.requests().len(), 1);
}

fn a_repeat_at_another_gateway_gets_the_first_answer(server: &mut Server) {
    let gateways: [Gateway; 2] = fleet(server, AGENT);
    let post = |gateway: &Gateway, message: &str| {
        let call = Call::post("/news", &json!({"type": "note", "message": message})).session(A);
        gateway.call(&call.header("Idempotency-Key", "once"))
    };
    let answers: Vec<_> = std::thread::scope(|scope| {
        let (gateways, post) = (&gateways, &post);
        let posts: Vec<_> = (0..8).map(|number| scope.spawn(move || post(&gateways[number % 2], "x").ok())).collect();
        posts.into_iter().map(|post| post.join().unwrap()).collect()
    });
    assert!(answers.iter().all(|answer| answer == &answers[0]), "{answers:?}");
    post(&gateways[1], "y").refused(422, "idempotency_key_reused");
    let page = gateways[1].call(&Call::get("/news").session(A)).ok();
    assert_eq!(page["items"].as_array().unwrap().len(), 1);
}

fn an_item_wakes_who_waits_at_another_gateway(server: &mut Server) {
    let [one, other]: [Gateway; 2] = fleet(server, AGENT);
    let mut since = 1;
    for round in 0..4 {
        let message = format!("round {round}");
        let target = format!("/news?since={since}");
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| other.call(&Call::get(&target).header("Prefer", "wait=60")).ok());
            one.post("/news", &json!({"type": "note", "message": message})).ok();
            let page = waiting.join().unwrap();
            assert_eq!(page["items"][0]["message"], message.as_str());
            since = page["timestamp"].as_u64().unwrap();
        });
    }
}

fn nothing_acknowledged_is_lost_when_the_engine_is_killed(server: &mut Server) {
    let gateways: [Gateway; 2] = fleet(server, AGENT);
    let log = Log::default();
    let rounds = soak().map_or(2, |seconds| seconds / 3);
    std::thread::scope(|scope| {
        let (gateways, log) = (&gateways, &log);
        for writer in 0..6 {
            scope.spawn(move || write(gateways, writer, Some(A), log));
        }
        let poller = scope.spawn(move || poll(gateways, 0, Some(A), log));
        for round in 0..rounds {
            let acknowledged = || log.acknowledged.lock().unwrap().len();
            let before = acknowledged();
            until("writers write", || (acknowledged() > before + 50).then_some(()));
            let refused = log.refused.load(Ordering::SeqCst);
            server.kill();
            until("writers are refused", || (log.refused.load(Ordering::SeqCst) > refused).then_some(()));
            if round == 0 {
                until("it is not ready", || (gateways[0].admin("/ready").0 == 503).then_some(()));
                assert_eq!(gateways[0].get("/.well-known/restap.json").status, 200);
                assert_eq!(gateways[0].get("/health").status, 200);
                assert_eq!(gateways[0].get("/news").refused(503, "store_unavailable")["items"], json!([]));
            }
            server.start();
            let before = acknowledged();
            until("writers write again", || (acknowledged() > before).then_some(()));
        }
        until("it is ready", || (gateways[0].admin("/ready").0 == 200).then_some(()));
        let all = judge_at_the_end(poller, gateways, log);
        eprintln!("{}: {} items, {rounds} kills", server.scheme(), all.len());
    });
}

fn a_gateway_starts_without_its_engine_and_recovers(server: &mut Server) {
    server.kill();
    let gateway = Gateway::start(&file(server, AGENT));
    assert_eq!(gateway.admin("/ready").0, 503);
    gateway.post("/news", &json!({"type": "note"})).refused(503, "store_unavailable");
    gateway.get("/news?since_id=news_0").refused(503, "store_unavailable");
    assert_eq!(gateway.get("/.well-known/restap.json").status, 200);
    server.start();
    until("it is ready", || (gateway.admin("/ready").0 == 200).then_some(()));
    gateway.post("/news", &json!({"type": "note", "message": "x"})).ok();
    assert_eq!(gateway.get("/news").ok()["items"][0]["message"], "x");
}

fn an_engine_that_does_not_answer_is_503_and_then_recovers(server: &mut Server) {
    let gateway = Gateway::start(&file(server, AGENT));
    gateway.post("/news", &json!({"type": "note", "message": "before"})).ok();
    server.freeze(true);
    let began = Instant::now();
    gateway.post("/news", &json!({"type": "note", "message": "perhaps"})).refused(503, "store_unavailable");
    assert!(began.elapsed() < Duration::from_secs(20));
    until("it is not ready", || (gateway.admin("/ready").0 == 503).then_some(()));
    server.freeze(false);
    let posted =
        || Some(gateway.post("/news", &json!({"type": "note", "message": "after"}))).filter(|a| a.status == 200);
    until("it is written again", posted);
    until("it is ready", || (gateway.admin("/ready").0 == 200).then_some(()));
    let page = gateway.get("/news").ok();
    let said: Vec<_> = page["items"].as_array().unwrap().iter().map(|item| item["message"].as_str().unwrap()).collect();
    // What the engine had not answered is stored or not, and may be so after what came later.
    let known: Vec<_> = said.iter().filter(|message| **message != "perhaps").collect();
    assert_eq!(known, [&"before", &"after"]);
    assert!(said.len() <= 3, "a 503 is at most one item: {said:?}");
}

fn a_gateway_with_another_key_does_not_start(server: &mut Server) {
    drop(Gateway::start(&file(server, AGENT)));
    let directory = TempDir::new().unwrap();
    let listen = format!("listen: 127.0.0.1:0\nadmin: off\n{}", file_with(server, OTHER_KEY, AGENT));
    let refused = run(directory.path(), Some(&listen), &["serve"]);
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.stderr.contains("another store.key") && refused.stderr.contains("previous_key"),
        "{}",
        refused.stderr
    );
    let rotated = format!("{OTHER_KEY}\n  previous_key: {KEY}");
    drop(Gateway::start(&file_with(server, &rotated, AGENT)));
    drop(Gateway::start(&file_with(server, OTHER_KEY, AGENT)));
}

#[test]
fn unsafe_settings_of_postgresql_are_named_in_the_log() {
    let settings = ["fsync=off", "full_page_writes=off", "synchronous_commit=off"];
    let Some(server) = Server::postgres(&settings) else { return };
    let gateway = Gateway::start(&file(&server, AGENT));
    for setting in settings {
        gateway.wait_for_line(setting);
    }
}

#[test]
fn unsafe_settings_of_redis_are_named_in_the_log() {
    let Some(server) = Server::redis(&["--appendonly", "no"]) else { return };
    Gateway::start(&file(&server, AGENT)).wait_for_line("appendonly=no");
    let settings = ["--appendonly", "yes", "--appendfsync", "everysec", "--maxmemory-policy", "allkeys-lru"];
    let Some(server) = Server::redis(&settings) else { return };
    let gateway = Gateway::start(&file(&server, AGENT));
    for setting in ["appendfsync=everysec", "maxmemory-policy=allkeys-lru"] {
        gateway.wait_for_line(setting);
    }
}

/// The file of a gateway whose store is at `url` and is known by this authority.
fn encrypted(server: &Server, url: &str, ca: &str) -> String {
    let ca = fixture(ca);
    let (scheme, ca) = (server.scheme(), ca.to_str().unwrap());
    format!("store:\n  {scheme}: {{url: \"{url}\", tls: {{ca: {ca}}}}}\n  key: {KEY}\n{AGENT}")
}

fn speaks_tls(server: &Server, url: &str) {
    let gateway = Gateway::start(&encrypted(server, url, "ca.pem"));
    gateway.post("/news", &json!({"type": "note", "message": "x"})).ok();
    assert_eq!(gateway.get("/news").ok()["items"][0]["message"], "x");
    // One that another authority has named is nobody's store.
    let stranger = Gateway::start(&encrypted(server, url, "callers-ca.pem"));
    stranger.post("/news", &json!({"type": "note"})).refused(503, "store_unavailable");
    assert!(stranger.wait_for_line("the store can't be used").contains("certificate"), "{}", stranger.logs());
}

#[test]
fn postgres_is_spoken_to_over_tls_and_its_certificate_is_verified() {
    let Some(server) = Server::postgres_tls(&fixture("server.pem"), &fixture("server.key")) else { return };
    speaks_tls(&server, &format!("postgres://restap@localhost:{}/postgres?sslmode=verify-full", server.port()));
}

#[test]
fn redis_is_spoken_to_over_tls_and_its_certificate_is_verified() {
    let Some(server) = Server::redis_tls(&fixture("server.pem"), &fixture("server.key")) else { return };
    speaks_tls(&server, &format!("rediss://localhost:{}", server.port()));
}

#[test]
fn nothing_acknowledged_is_lost_when_a_standby_of_postgres_takes_over() {
    let Some(mut primary) = Server::postgres(&[]) else { return };
    let standby = primary.standby();
    let url = format!("postgres://restap@127.0.0.1:{},127.0.0.1:{}/postgres", primary.port(), standby.port());
    let text = format!("store:\n  postgres: {{url: \"{url}\"}}\n  key: {KEY}\n{AGENT}");
    let gateways: [Gateway; 2] = std::array::from_fn(|_| Gateway::start(&text));
    let log = Log::default();
    std::thread::scope(|scope| {
        let (gateways, log) = (&gateways, &log);
        for writer in 0..6 {
            scope.spawn(move || write(gateways, writer, Some(A), log));
        }
        let poller = scope.spawn(move || poll(gateways, 0, Some(A), log));
        let acknowledged = || log.acknowledged.lock().unwrap().len();
        until("writers write", || (acknowledged() > 100).then_some(()));
        primary.kill();
        standby.promote();
        let before = acknowledged();
        until("writers write again", || (acknowledged() > before + 100).then_some(()));
        judge_at_the_end(poller, gateways, log);
    });
}
