//! Waking across gateways: one connection listens, and what was appended is told to the others.
//!
//! Told is which few places have something new, never what. It is a hint that may be lost; whoever waits reads again now
//! and then.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;
use tokio_postgres::types::Type;

use super::Shared;
use crate::store::shared::Backoff;

/// What is to be told: a bit for every mark.
#[derive(Default)]
pub(super) struct News {
    marks: AtomicU64,
    more: Notify,
}

impl News {
    /// Something was appended to a feed of this mark.
    pub(super) fn tell(&self, marks: u64) {
        if marks != 0 {
            self.marks.fetch_or(marks, Ordering::Relaxed);
            self.more.notify_one();
        }
    }
}

/// Tells the others, all that has come meanwhile at once. It is not part of the append: announcing makes transactions of
/// the whole server wait for each other.
pub(super) async fn tell(shared: Arc<Shared>, news: Arc<News>) {
    loop {
        news.more.notified().await;
        let marks = format!("{:016x}", news.marks.swap(0, Ordering::Relaxed));
        // Lost when the server is away; who waits reads again.
        let _ = shared.ask("SELECT restap.announce($1)", &[(&marks, Type::TEXT)]).await;
    }
}

/// Wakes who waits here.
pub(super) async fn listen(shared: Arc<Shared>) {
    let mut backoff = Backoff::new();
    loop {
        let arrivals = shared.arrivals.clone();
        let heard = move |marks: &str| {
            let marks = u64::from_str_radix(marks, 16).unwrap_or(u64::MAX);
            (0..64).filter(|mark| marks >> mark & 1 == 1).for_each(|mark| arrivals.announce_mark(mark));
        };
        if let Ok((client, driver)) = shared.target.connect(heard).await
            && client.batch_execute("LISTEN restap_arrivals").await.is_ok()
        {
            backoff.reset();
            // What came while nobody listened.
            shared.arrivals.announce_all();
            let _ = driver.await;
        }
        backoff.wait().await;
    }
}
