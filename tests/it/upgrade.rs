//! Another process takes over: no request is lost, and one that can't start changes nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::{Call, Gate, Gateway, Upstream, chatting, delta, end, run};

/// A process that a test has to end, as nobody else does.
struct Successor(u32);

impl Drop for Successor {
    fn drop(&mut self) {
        let pid = Pid::from_raw(i32::try_from(self.0).unwrap()).unwrap();
        let _ = kill_process(pid, Signal::TERM);
    }
}

/// Has another process take over.
fn upgrade(gateway: &Gateway) -> Result<Successor, String> {
    let (status, body) = gateway.admin_with("POST", "/upgrade");
    let body: Value = serde_json::from_str(&body).unwrap();
    match status {
        200 => Ok(Successor(u32::try_from(body["pid"].as_u64().unwrap()).unwrap())),
        _ => Err(body["message"].as_str().unwrap().to_owned()),
    }
}

const EMBEDDED: &str = "store: {embedded: {path: data}}\n";

#[test]
fn a_stream_goes_on_in_the_old_process_and_requests_in_the_new_one() {
    let gate = Gate::default();
    let held = gate.clone();
    let upstream = Upstream::start(move |exchange| {
        exchange.open_stream();
        exchange.send(delta("first"));
        held.wait();
        exchange.send(delta("last") + &end("stop"));
    });
    let mut gateway = Gateway::start(&format!("{EMBEDDED}{}", chatting(&upstream.url())));
    gateway.post("/news", &json!({"type": "note", "message": "kept"})).ok();
    let mut stream = gateway.open(&Call::talk("hi").streamed());
    assert_eq!(stream.next().unwrap().event, "message.start");
    let successor = upgrade(&gateway).unwrap();
    assert_ne!(successor.0, gateway.pid());
    // The same addresses, and the same store.
    assert_eq!(gateway.get("/news").ok()["items"][0]["message"], "kept");
    gateway.post("/news", &json!({"type": "note", "message": "new"})).ok();
    gateway.wait_for_line("stopping: open requests have 3600 s to end");
    assert_eq!(gateway.admin("/ready").0, 200);
    // Both hold the store, and a third one is told who they are.
    let refused = upgrade(&gateway).err().unwrap();
    for pid in [gateway.pid(), successor.0] {
        assert!(refused.contains(&format!("pid {pid}")), "{refused}");
    }
    gate.open();
    assert_eq!(stream.rest().names(), ["message.delta", "message.delta", "message.end", "done"]);
    assert_eq!(gateway.child_exited().code(), Some(0));
    assert_eq!(gateway.get("/news").ok()["items"][1]["message"], "new");
    let socket = gateway.directory().path().join("admin.sock");
    assert!(socket.exists());
    drop(successor);
    gateway.exited();
    assert!(!socket.exists());
}

#[test]
fn a_process_that_can_not_start_changes_nothing() {
    let gateway = Gateway::start("agent: {name: One}\n");
    gateway.write("agent: {nome: Two}\n");
    let refused = upgrade(&gateway).err().unwrap();
    assert!(refused.contains("its configuration can't be used"), "{refused}");
    gateway.wait_for_line("no other process takes over, this one goes on");
    assert_eq!(gateway.get("/health").ok()["agent"], "One");
    assert_eq!(gateway.admin("/ready").0, 200);
}

#[test]
fn sigusr2_and_the_command_do_the_same() {
    let mut gateway = Gateway::start("agent: {name: One}\n");
    gateway.write("agent: {name: Two}\n");
    gateway.signal(Signal::USR2);
    let line = gateway.wait_for_line("has taken over");
    let pid = line.split("process ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    let second = Successor(pid);
    assert_eq!(gateway.child_exited().code(), Some(0));
    assert_eq!(gateway.get("/health").ok()["agent"], "Two");
    let finished = run(gateway.directory().path(), None, &["upgrade"]);
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let pid = finished.stdout.split(' ').nth(1).unwrap().parse().unwrap();
    let third = Successor(pid);
    assert_eq!(gateway.get("/health").ok()["agent"], "Two");
    drop((second, third));
    gateway.exited();
}

#[test]
fn what_a_reload_can_not_change_an_upgrade_can() {
    let mut gateway = Gateway::start("agent: {name: One}\n");
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    gateway.write(&format!("listen: 127.0.0.1:{port}\nagent: {{name: Two}}\n"));
    let successor = upgrade(&gateway).unwrap();
    gateway.child_exited();
    let mut moved = crate::support::Connection::open(([127, 0, 0, 1], port).into());
    assert_eq!(moved.call(&Call::get("/health")).ok()["agent"], "Two");
    assert!(std::net::TcpStream::connect(gateway.address()).is_err());
    drop(successor);
    gateway.exited();
}

/// As many streams as `STREAMS` says, else enough to see that none is lost.
fn streams() -> usize {
    std::env::var("STREAMS").ok().and_then(|count| count.parse().ok()).unwrap_or(150)
}

#[test]
fn open_streams_survive_reloads_and_an_upgrade_without_losing_a_frame() {
    const ROUNDS: usize = 20;
    let rounds: Vec<Gate> = (0..=ROUNDS).map(|_| Gate::default()).collect();
    let held = rounds.clone();
    let upstream = Upstream::start(move |exchange| {
        exchange.open_stream();
        for (number, gate) in held.iter().enumerate() {
            exchange.send(delta(&format!("{number} ")));
            gate.wait();
        }
        exchange.send(end("stop"));
    });
    let file = |round: usize| format!("{EMBEDDED}{}  description: round {round}\n", chatting(&upstream.url()));
    let mut gateway = Gateway::start(&file(0));
    let open: Vec<_> = (0..streams()).map(|_| gateway.open(&Call::talk("hi").streamed())).collect();
    let mut open = open;
    for stream in &mut open {
        assert_eq!(stream.next().unwrap().event, "message.start");
    }
    let over = Arc::new(AtomicBool::new(false));
    let address = gateway.address();
    let callers: Vec<_> = (0..2)
        .map(|_| {
            let over = over.clone();
            std::thread::spawn(move || {
                let mut asked = 0;
                while !over.load(Ordering::Acquire) {
                    crate::support::Connection::open(address).call(&Call::get("/health")).ok();
                    asked += 1;
                }
                asked
            })
        })
        .collect();
    for (round, gate) in rounds.iter().enumerate().take(ROUNDS) {
        assert_eq!(gateway.reload(&file(round + 1)).0, 200);
        gate.open();
    }
    let successor = upgrade(&gateway).unwrap();
    rounds[ROUNDS].open();
    let whole = (0..=ROUNDS).fold(String::new(), |whole, number| whole + &format!("{number} "));
    for mut stream in open {
        let rest = stream.rest();
        assert_eq!(rest.text(), whole);
        assert_eq!(rest.names().last_chunk(), Some(&["message.end", "done"]));
    }
    assert_eq!(gateway.child_exited().code(), Some(0));
    over.store(true, Ordering::Release);
    let asked: usize = callers.into_iter().map(|caller| caller.join().expect("a request saw an error")).sum();
    assert!(asked > 20, "{asked}");
    assert_eq!(gateway.get("/.well-known/restap.json").ok()["agent"]["description"], format!("round {ROUNDS}"));
    drop(successor);
    gateway.exited();
}
