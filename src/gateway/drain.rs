//! `Drain`: how a process ends without losing a request.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, watch};

/// How long streams have to write their `error` and `done` once they are cut.
const FAREWELL: Duration = Duration::from_secs(2);

/// Counts what runs, and says when to stop.
#[derive(Debug, Clone)]
pub(crate) struct Drain {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    running: AtomicUsize,
    /// Of these, the ones whose bytes only pass: they have no farewell to write.
    passing: AtomicUsize,
    idle: Notify,
    /// No new requests.
    stopping: watch::Sender<bool>,
    /// What still runs must end now.
    cut: watch::Sender<bool>,
}

/// One request that runs; dropping it counts it out.
#[derive(Debug)]
pub(crate) struct Running {
    shared: Arc<Shared>,
    passing: bool,
}

impl Drain {
    pub(crate) fn new() -> Self {
        let shared = Shared {
            running: AtomicUsize::new(0),
            passing: AtomicUsize::new(0),
            idle: Notify::new(),
            stopping: watch::Sender::new(false),
            cut: watch::Sender::new(false),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Counts a request in.
    pub(crate) fn enter(&self) -> Running {
        self.shared.running.fetch_add(1, Ordering::AcqRel);
        Running { shared: self.shared.clone(), passing: false }
    }

    /// Becomes `true` when no new requests are wanted.
    pub(crate) fn stopping(&self) -> watch::Receiver<bool> {
        self.shared.stopping.subscribe()
    }

    /// Becomes `true` when a request that still runs must end.
    pub(crate) fn cut(&self) -> watch::Receiver<bool> {
        self.shared.cut.subscribe()
    }

    /// Nothing new; [`Self::finish`] is to follow.
    pub(crate) fn stop(&self) {
        self.shared.stopping.send_replace(true);
    }

    /// Stops: nothing new, then waits for what runs, at most for `patience` or until `hurry` says so; what then still
    /// runs is cut.
    pub(crate) async fn finish(&self, patience: Duration, hurry: impl Future<Output = ()>) {
        self.stop();
        tokio::select! {
            () = self.falls_to(|_| 0) => return,
            () = tokio::time::sleep(patience) => {}
            () = hurry => {}
        }
        self.shared.cut.send_replace(true);
        let passing = |shared: &Shared| shared.passing.load(Ordering::Acquire);
        let _ = tokio::time::timeout(FAREWELL, self.falls_to(passing)).await;
    }

    async fn falls_to(&self, left: fn(&Shared) -> usize) {
        loop {
            let notified = self.shared.idle.notified();
            if self.shared.running.load(Ordering::Acquire) <= left(&self.shared) {
                return;
            }
            notified.await;
        }
    }
}

impl Running {
    /// From now on bytes only pass: at the end of patience nothing can be said to its caller that it would understand.
    pub(crate) fn pass(&mut self) {
        if !std::mem::replace(&mut self.passing, true) {
            self.shared.passing.fetch_add(1, Ordering::AcqRel);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.passing {
            self.shared.passing.fetch_sub(1, Ordering::AcqRel);
        }
        let left = self.shared.running.fetch_sub(1, Ordering::AcqRel) - 1;
        if left == 0 || *self.shared.cut.borrow() {
            // `notify_one` keeps its permit for a waiter that has not begun to wait yet.
            self.shared.idle.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_idle_process_ends_at_once() {
        let drain = Drain::new();
        drain.finish(Duration::from_hours(1), std::future::pending()).await;
        assert!(*drain.stopping().borrow());
        assert!(!*drain.cut().borrow());
    }

    #[tokio::test(start_paused = true)]
    async fn what_only_passes_has_no_farewell() {
        let drain = Drain::new();
        let mut running = drain.enter();
        running.pass();
        let began = tokio::time::Instant::now();
        drain.finish(Duration::from_millis(10), std::future::pending()).await;
        assert!(began.elapsed() < FAREWELL);
        drop(running);
    }

    #[tokio::test]
    async fn what_runs_is_waited_for_and_cut_when_patience_ends() {
        let drain = Drain::new();
        let running = drain.enter();
        let mut cut = drain.cut();
        let request = tokio::spawn(async move {
            let _running = running;
            cut.wait_for(|cut| *cut).await.is_ok()
        });
        drain.finish(Duration::from_millis(10), std::future::pending()).await;
        assert!(request.await.unwrap());
    }
}
