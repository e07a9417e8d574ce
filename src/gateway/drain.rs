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
    idle: Notify,
    /// No new requests.
    stopping: watch::Sender<bool>,
    /// What still runs must end now.
    cut: watch::Sender<bool>,
}

/// One request that runs; dropping it counts it out.
#[derive(Debug)]
pub(crate) struct Running(Arc<Shared>);

impl Drain {
    pub(crate) fn new() -> Self {
        let shared = Shared {
            running: AtomicUsize::new(0),
            idle: Notify::new(),
            stopping: watch::Sender::new(false),
            cut: watch::Sender::new(false),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Counts a request in.
    pub(crate) fn enter(&self) -> Running {
        self.shared.running.fetch_add(1, Ordering::AcqRel);
        Running(self.shared.clone())
    }

    /// Becomes `true` when no new requests are wanted.
    pub(crate) fn stopping(&self) -> watch::Receiver<bool> {
        self.shared.stopping.subscribe()
    }

    /// Becomes `true` when a request that still runs must end.
    pub(crate) fn cut(&self) -> watch::Receiver<bool> {
        self.shared.cut.subscribe()
    }

    /// Stops: nothing new, then waits for what runs, at most for `patience` or until `hurry` says so; what then still
    /// runs is cut.
    pub(crate) async fn finish(&self, patience: Duration, hurry: impl Future<Output = ()>) {
        self.shared.stopping.send_replace(true);
        tokio::select! {
            () = self.idle() => return,
            () = tokio::time::sleep(patience) => {}
            () = hurry => {}
        }
        self.shared.cut.send_replace(true);
        let _ = tokio::time::timeout(FAREWELL, self.idle()).await;
    }

    async fn idle(&self) {
        loop {
            let notified = self.shared.idle.notified();
            if self.shared.running.load(Ordering::Acquire) == 0 {
                return;
            }
            notified.await;
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.0.running.fetch_sub(1, Ordering::AcqRel) == 1 {
            // `notify_one` keeps its permit for a waiter that has not begun to wait yet.
            self.0.idle.notify_one();
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
