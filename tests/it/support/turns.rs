//! Turns of one session over several gateways: never two at once, and each knows those before it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Call, Gateway, Upstream, delta, end};

const TURNS_EACH: usize = 4;

/// Starts gateways before a chat service that counts who asks it together, and talks with all of them at once.
pub(crate) fn never_interleave<const N: usize>(session: &str, start: impl FnOnce(&Upstream) -> [Gateway; N]) {
    let running = AtomicUsize::new(0);
    let together = Arc::new(AtomicUsize::new(0));
    let seen = together.clone();
    let upstream = Upstream::start(move |exchange| {
        if running.fetch_add(1, Ordering::SeqCst) > 0 {
            seen.fetch_add(1, Ordering::SeqCst);
        }
        exchange.open_stream();
        exchange.send(delta("a"));
        exchange.send(delta("b"));
        running.fetch_sub(1, Ordering::SeqCst);
        exchange.send(end("stop"));
    });
    let gateways = start(&upstream);
    std::thread::scope(|scope| {
        for gateway in &gateways {
            for number in 0..TURNS_EACH {
                scope.spawn(move || gateway.call(&Call::talk(&format!("turn {number}")).session(session)).ok());
            }
        }
    });
    assert_eq!(together.load(Ordering::SeqCst), 0, "two turns of one session at once");
    let lengths: Vec<usize> =
        upstream.requests().iter().map(|request| request.json()["messages"].as_array().unwrap().len()).collect();
    let grown: Vec<usize> = (0..N * TURNS_EACH).map(|turn| 1 + 2 * turn).collect();
    assert_eq!(lengths, grown, "each turn saw all that came before it");
}
