//! News under fire: a process that is killed again and again, and many that write and read at once.
//!
//! Short here; `RESTAP_TEST_KILLS=200` and `RESTAP_TEST_SECONDS=60` are what they were written for.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{Call, Connection, Gateway, PATIENCE};

const FILE: &str = "admin: off\nlog: {access: false}\nstore: {embedded: {path: data}}\n\
    agent: {name: News, news: {retention: {items: 1000000, bytes: 1GiB}}}\n";

/// Writers of the killed process, and the sessions that they write to.
const WRITERS: usize = 64;
const SESSIONS: usize = 8;

/// Acknowledged items before a process is killed.
const ACKNOWLEDGED: usize = 150;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

fn session(number: usize) -> String {
    format!("sess_endurance_{number:04}")
}

/// Posts over a connection that may end at any moment; true if the item was acknowledged.
fn try_post(socket: &mut TcpStream, session: &str, message: &str) -> Option<()> {
    let call = Call::post("/news", &json!({"type": "n", "message": message})).session(session);
    socket.write_all(&call.bytes()).ok()?;
    let mut answer = Vec::new();
    let mut part = [0; 4096];
    loop {
        let read = socket.read(&mut part).ok().filter(|read| *read > 0)?;
        answer.extend_from_slice(&part[..read]);
        let text = String::from_utf8_lossy(&answer);
        if text.starts_with("HTTP/1.1 200 ") && text.ends_with("successfully\"}") {
            return Some(());
        }
        assert!(!text.contains("\r\n\r\n{\"error\""), "{text}");
    }
}

fn write_until_killed(address: SocketAddr, writer: usize, round: u64, count: &AtomicUsize) -> Vec<(usize, String)> {
    let mut acknowledged = Vec::new();
    let Ok(mut socket) = TcpStream::connect(address) else { return acknowledged };
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    for item in 0.. {
        let (which, message) = ((writer + item) % SESSIONS, format!("{round}-{writer}-{item}"));
        if try_post(&mut socket, &session(which), &message).is_none() {
            break;
        }
        acknowledged.push((which, message));
        count.fetch_add(1, Ordering::SeqCst);
    }
    acknowledged
}

/// A feed that is read on and on.
#[derive(Default)]
struct Feed {
    since: u64,
    items: Vec<(u64, String)>,
}

impl Feed {
    fn read_on(&mut self, connection: &mut Connection, session: &str) {
        loop {
            let since = self.since.max(1);
            let call = Call::get(&format!("/news?since={since}&limit=1000")).session(session);
            let page = connection.call(&call).ok();
            self.since = page["timestamp"].as_u64().unwrap();
            self.items.extend(page["items"].as_array().unwrap().iter().map(item));
            if page["more"] == false {
                return;
            }
        }
    }
}

fn item(item: &Value) -> (u64, String) {
    (item["timestamp"].as_u64().unwrap(), item["message"].as_str().unwrap().to_owned())
}

#[test]
fn a_process_that_is_killed_again_and_again_loses_nothing_that_it_has_acknowledged() {
    let directory = Arc::new(TempDir::new().unwrap());
    let mut feeds: Vec<Feed> = (0..SESSIONS).map(|_| Feed::default()).collect();
    let mut acknowledged: HashMap<(usize, String), usize> = HashMap::new();
    for round in 0..number("RESTAP_TEST_KILLS", 5) {
        let mut gateway = Gateway::start_in(directory.clone(), FILE);
        let (address, count) = (gateway.address(), AtomicUsize::new(0));
        let written = std::thread::scope(|scope| {
            let write = |writer| {
                let count = &count;
                scope.spawn(move || write_until_killed(address, writer, round, count))
            };
            let writers: Vec<_> = (0..WRITERS).map(write).collect();
            let began = Instant::now();
            while count.load(Ordering::SeqCst) < ACKNOWLEDGED {
                assert!(began.elapsed() < PATIENCE, "{count:?} items were acknowledged");
                std::thread::yield_now();
            }
            gateway.kill();
            writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect::<Vec<_>>()
        });
        assert!(written.len() >= ACKNOWLEDGED);
        acknowledged.extend(written.into_iter().map(|item| (item, 0)));
    }
    let gateway = Gateway::start_in(directory, FILE);
    let mut connection = gateway.connect();
    for (which, feed) in feeds.iter_mut().enumerate() {
        feed.read_on(&mut connection, &session(which));
        assert!(feed.items.windows(2).all(|pair| pair[0].0 < pair[1].0), "timestamps rise");
        for (_, message) in &feed.items {
            // One that was not acknowledged may be there all the same.
            if let Some(seen) = acknowledged.get_mut(&(which, message.clone())) {
                *seen += 1;
            }
        }
    }
    let wrong: Vec<_> = acknowledged.iter().filter(|(_, seen)| **seen != 1).take(5).collect();
    assert!(wrong.is_empty(), "lost or there twice: {wrong:?} of {}", acknowledged.len());
}

/// Reads a feed as a client does, until its last item: by the page's timestamp or by its last item's, with or without
/// waiting.
fn poll(gateway: &Gateway, session: Option<&str>, by_timestamp: bool, waits: bool) -> Vec<(u64, String)> {
    let mut connection = gateway.connect();
    let (mut since, mut seen) = (1, Vec::new());
    while seen.last().is_none_or(|(_, message)| message != "end") {
        let call = Call::get(&format!("/news?since={since}&limit=50"));
        let call = session.into_iter().fold(call, Call::session);
        let call = if waits { call.header("Prefer", "wait=5") } else { call };
        let page = connection.call(&call).ok();
        seen.extend(page["items"].as_array().unwrap().iter().map(item));
        since = if by_timestamp {
            page["timestamp"].as_u64().unwrap()
        } else {
            seen.last().map_or(since, |(timestamp, _): &(u64, String)| *timestamp)
        };
    }
    seen
}

#[test]
fn sixteen_writers_and_eight_pollers_of_every_kind_see_every_item_once_and_in_order() {
    let gateway = Gateway::start(FILE);
    let session = session(0);
    let feeds = [None, Some(session.as_str())];
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (gateway, over) = (&gateway, &over);
        let pollers: Vec<_> = (0..8)
            .map(|poller| {
                let feed = feeds[poller % 2];
                (poller % 2, scope.spawn(move || poll(gateway, feed, poller / 2 % 2 == 0, poller / 4 == 0)))
            })
            .collect();
        let writers: Vec<_> = (0..16)
            .map(|writer| {
                scope.spawn(move || {
                    let mut connection = gateway.connect();
                    let mut posted = Vec::new();
                    while !over.load(Ordering::Acquire) {
                        let message = format!("{writer}-{}", posted.len());
                        let call = Call::post("/news", &json!({"type": "n", "message": message}));
                        let call = feeds[writer % 2].into_iter().fold(call, Call::session);
                        match connection.call(&call) {
                            answer if answer.status == 429 => std::thread::yield_now(),
                            answer => {
                                answer.ok();
                                posted.push(message);
                            }
                        }
                    }
                    (writer % 2, posted)
                })
            })
            .collect();
        std::thread::sleep(Duration::from_secs(number("RESTAP_TEST_SECONDS", 2)));
        over.store(true, Ordering::Release);
        let posted: Vec<_> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
        for feed in feeds {
            let call = Call::post("/news", &json!({"type": "n", "message": "end"}));
            gateway.call(&feed.into_iter().fold(call, Call::session)).ok();
        }
        for (which, poller) in pollers {
            let seen = poller.join().unwrap();
            assert!(seen.windows(2).all(|pair| pair[0].0 < pair[1].0), "in order");
            let mut seen: Vec<String> = seen.into_iter().map(|(_, message)| message).collect();
            let mut all: Vec<String> =
                posted.iter().filter(|(feed, _)| *feed == which).flat_map(|(_, posted)| posted.clone()).collect();
            all.push("end".into());
            seen.sort();
            all.sort();
            assert_eq!(seen.len(), all.len());
            assert!(seen == all && all.len() > 16, "each once: {}", all.len());
        }
    });
}
