//! Many at once: writers and pollers together, while the clock does what clocks do.

use std::time::Duration;

use tokio::task::JoinSet;

use super::Bench;
use crate::restap::Since;
use crate::store::{FeedId, PageRequest, Reader, Store};

const WRITERS: usize = 16;
const ITEMS: usize = 40;

/// Two of each kind for each of two feeds.
const POLLERS: usize = 8;

const LAST: &str = "the last one";

pub(crate) async fn a_clock_set_back_an_hour_in_mid_run_changes_nothing(bench: Bench) {
    let store = bench.store();
    let feeds = [store.own(), store.session("crowd")];
    let mut pollers = JoinSet::new();
    for poller in 0..POLLERS {
        let (store, feed) = (store.clone(), feeds[poller % 2]);
        pollers.spawn(async move { (poller % 2, poll(&store, feed, poller % 4 < 2).await) });
    }
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let (store, clock) = (store.clone(), bench.clock.clone());
        writers.spawn(async move {
            for item in 0..ITEMS {
                clock.forward(Duration::from_millis(1));
                if (writer, item) == (WRITERS / 2, ITEMS / 2) {
                    clock.back(Duration::from_hours(1));
                }
                store.post(feeds[item % 2], &format!("{writer}-{item}")).await;
            }
        });
    }
    writers.join_all().await;
    for feed in feeds {
        store.post(feed, LAST).await;
    }
    for (which, seen) in pollers.join_all().await {
        let mut messages: Vec<_> = seen.iter().map(|(message, _)| message.as_str()).collect();
        assert_eq!(messages.pop(), Some(LAST));
        messages.sort_unstable();
        let mut posted: Vec<_> = (0..WRITERS * ITEMS)
            .filter(|item| item % ITEMS % 2 == which)
            .map(|item| format!("{}-{}", item / ITEMS, item % ITEMS))
            .collect();
        posted.sort_unstable();
        assert_eq!(messages, posted, "each once");
        assert!(seen.windows(2).all(|pair| pair[0].1 < pair[1].1), "in order");
    }
}

/// Reads a feed as a client does, until its last item.
async fn poll(store: &Store, feed: FeedId, by_timestamp: bool) -> Vec<(String, u64)> {
    let (mut since, mut seen) = (1, Vec::<(String, u64)>::new());
    while seen.last().is_none_or(|(message, _)| message != LAST) {
        let request = PageRequest { feed, reader: Reader::Agent, since: &Since::Time(since), limit: 7, query: None };
        let page = store.page(request).await.unwrap();
        seen.extend(page.messages().into_iter().zip(page.items.iter().map(|item| item.timestamp)));
        since = if by_timestamp { page.timestamp } else { seen.last().map_or(since, |(_, timestamp)| *timestamp) };
        tokio::task::yield_now().await;
    }
    seen
}
