//! Feeds: what a reader sees, and what goes when.

use std::time::Duration;

use serde_json::json;

use super::{Bench, draft, limits, session};
use crate::restap::{NewsDraft, Since};
use crate::store::engine::{ITEM_OVERHEAD, Limits, Reader};
use crate::store::keys::OnceScope;
use crate::store::settings::{NewsSettings, Retention};
use crate::store::{NewItem, Page, PageRequest, Store, StoreError};

pub(crate) async fn an_item_is_read_back_as_it_was_posted(bench: Bench) {
    let store = bench.store();
    let draft = NewsDraft {
        kind: "reply".into(),
        message: "Grüße, \"Welt\"\n\u{1f600}".into(),
        from: Some("b".into()),
        in_reply_to: Some("q".into()),
        job_id: Some("j".into()),
        query_id: None,
        data: Some(json!({"z": [1, 2.5, null], "a": {"b": "c"}})),
        origin: Some("o".into()),
    };
    let receipt = store.append(NewItem { feed: store.own(), opener: None, draft: &draft, once: None }).await.unwrap();
    let page = store.newest(store.own()).await;
    let item = page.items[0].read().unwrap();
    assert_eq!((item.id, item.timestamp, item.draft), (receipt.id.to_string(), receipt.timestamp, draft));
    assert_eq!((page.timestamp, page.more, page.oldest), (receipt.timestamp, false, Some(receipt.timestamp)));
}

pub(crate) async fn a_feed_without_items_says_1_and_then_shows_everything(bench: Bench) {
    let store = bench.store();
    for since in [Since::Newest, Since::Time(1), Since::Time(1_800_000_000_000)] {
        let page = store.read(store.own(), since, 10).await;
        assert_eq!((page.items.len(), page.timestamp, page.more, page.oldest), (0, 1, false, None));
    }
    store.post(store.own(), "one").await;
    assert_eq!(store.read(store.own(), Since::Time(1), 10).await.messages(), ["one"]);
}

pub(crate) async fn without_since_the_newest_come_in_ascending_order(bench: Bench) {
    let store = bench.store();
    let mut times = Vec::new();
    for message in ["1", "2", "3", "4"] {
        times.push(store.post(store.own(), message).await.timestamp);
    }
    let page = store.read(store.own(), Since::Newest, 3).await;
    assert_eq!(page.messages(), ["2", "3", "4"]);
    assert_eq!((page.timestamp, page.more, page.oldest), (times[3], true, Some(times[0])));
    let page = store.read(store.own(), Since::Newest, 4).await;
    assert_eq!((page.messages().len(), page.more), (4, false));
}

pub(crate) async fn with_since_the_oldest_after_it_come(bench: Bench) {
    let store = bench.store();
    let mut times = Vec::new();
    for message in ["1", "2", "3", "4"] {
        times.push(store.post(store.own(), message).await.timestamp);
    }
    let page = store.read(store.own(), Since::Time(times[0]), 2).await;
    assert_eq!((page.messages(), page.timestamp, page.more), (vec!["2".into(), "3".into()], times[2], true));
    let page = store.read(store.own(), Since::Time(page.timestamp), 2).await;
    assert_eq!((page.messages(), page.timestamp, page.more), (vec!["4".into()], times[3], false));
    let page = store.read(store.own(), Since::Time(page.timestamp), 2).await;
    assert_eq!((page.messages().len(), page.timestamp, page.more), (0, times[3], false));
}

pub(crate) async fn a_since_above_the_last_timestamp_gets_that_timestamp(bench: Bench) {
    let store = bench.store();
    let last = store.post(store.own(), "one").await.timestamp;
    let page = store.read(store.own(), Since::Time(last + 1_000_000), 10).await;
    assert_eq!((page.items.len(), page.timestamp, page.more), (0, last, false));
}

pub(crate) async fn an_id_reads_on_behind_its_item(bench: Bench) {
    let store = bench.store();
    let first = store.post(store.own(), "1").await;
    let second = store.post(store.own(), "2").await;
    assert!(first.id.to_string() < second.id.to_string());
    let page = store.read(store.own(), Since::Item(first.id.to_string()), 10).await;
    assert_eq!((page.messages(), page.timestamp), (vec!["2".into()], second.timestamp));
    let page = store.read(store.own(), Since::Item(second.id.to_string()), 10).await;
    assert_eq!((page.messages().len(), page.timestamp), (0, second.timestamp));

    // Of another feed of ours, even of the same millisecond: nothing may be passed over.
    let elsewhere = store.post(store.session("s"), "x").await;
    assert_eq!(elsewhere.timestamp, first.timestamp);
    assert_ne!(elsewhere.id, first.id);
    assert_eq!(store.read(store.own(), Since::Item(elsewhere.id.to_string()), 10).await.messages(), ["1", "2"]);
}

pub(crate) async fn an_invented_id_is_refused(bench: Bench) {
    let store = bench.store();
    let id = store.post(store.own(), "1").await.id.to_string();
    let forged =
        id.strip_suffix('0').map_or_else(|| format!("{}0", id.split_at(id.len() - 1).0), |id| format!("{id}1"));
    for bad in ["x", "news_", &forged, &id.to_uppercase(), &format!("{id}0"), &format!("news_{}", "é".repeat(17))] {
        let read = store.try_read(store.own(), Since::Item(bad.to_owned()), 10).await;
        assert_eq!(read, Err(StoreError::InvalidSince), "{bad}");
    }
}

pub(crate) async fn an_id_of_a_dropped_item_reads_from_the_oldest_kept(bench: Bench) {
    let store = bench.store();
    store.retain(Retention { items: 3, ..Retention::default() });
    let first = store.post(store.own(), "0").await.id.to_string();
    for message in 1..6 {
        store.post(store.own(), &message.to_string()).await;
    }
    assert_eq!(store.read(store.own(), Since::Item(first), 10).await.messages(), ["3", "4", "5"]);
}

pub(crate) async fn timestamps_rise_whatever_the_clock_does(bench: Bench) {
    let store = bench.store();
    let mut last = 0;
    for step in 0..6 {
        match step {
            2 => bench.clock.back(Duration::from_hours(1)),
            4 => bench.clock.forward(Duration::from_hours(48)),
            5 => bench.clock.back(Duration::from_hours(47)),
            _ => {}
        }
        let timestamp = store.post(store.own(), "x").await.timestamp;
        assert!(timestamp > last);
        last = timestamp;
    }
    assert_eq!(store.newest(store.own()).await.items.len(), 6);
}

pub(crate) async fn a_burst_is_taken_and_then_one_item_a_millisecond(bench: Bench) {
    let store = bench.store();
    let mut posts = tokio::task::JoinSet::new();
    for _ in 0..2_100 {
        let store = store.clone();
        posts.spawn(async move { store.try_post(store.own(), "x").await });
    }
    let (taken, refused): (Vec<_>, Vec<_>) = posts.join_all().await.into_iter().partition(Result::is_ok);
    assert_eq!((taken.len(), refused.len()), (2_000, 100));
    assert!(refused.iter().all(|refused| *refused == Err(StoreError::TooFast)));
    assert_eq!(store.try_post(store.own(), "x").await, Err(StoreError::TooFast));
    store.post(store.session("other"), "x").await;
    bench.clock.forward(Duration::from_millis(3));
    for _ in 0..3 {
        store.post(store.own(), "x").await;
    }
    assert_eq!(store.try_post(store.own(), "x").await, Err(StoreError::TooFast));
    // A clock that steps back is no fault of those who post.
    bench.clock.back(Duration::from_hours(1));
    for _ in 0..100 {
        store.post(store.own(), "x").await;
    }
}

pub(crate) async fn a_session_has_a_feed_of_its_own(bench: Bench) {
    let store = bench.store();
    store.post(store.own(), "public").await;
    store.post(store.session("s"), "secret").await;
    assert_eq!(store.newest(store.own()).await.messages(), ["public"]);
    let page = store.newest(store.session("s")).await;
    assert_eq!(page.messages(), ["secret"]);
    let shown: serde_json::Value = serde_json::from_slice(&page.to_json(Some(&session("s")))).unwrap();
    assert_eq!(shown["items"][0]["session_id"], session("s").expose());
    assert!(store.newest(store.session("t")).await.items.is_empty());
    let elsewhere = store.keys().feed(store.keys().agent("b"), Some(&session("s")));
    assert!(store.newest(elsewhere).await.items.is_empty());
}

pub(crate) async fn a_feed_that_a_verified_caller_opened_is_read_by_that_caller_only(bench: Bench) {
    let store = bench.store();
    let (alice, bob) = (store.keys().caller("alice"), store.keys().caller("bob"));
    let feed = store.session("s");
    let post = |opener| {
        let store = store.clone();
        async move { store.append(NewItem { feed, opener, draft: &draft("x"), once: None }).await.unwrap() }
    };
    post(Some(alice)).await;
    post(Some(bob)).await;
    post(None).await;
    let read = |reader| {
        let store = store.clone();
        let request = PageRequest { feed, reader, since: &Since::Newest, limit: 10, query: None };
        async move { store.page(request).await.map(|page| page.items.len()) }
    };
    assert_eq!(read(Reader::Caller(Some(alice))).await, Ok(3));
    assert_eq!(read(Reader::Agent).await, Ok(3));
    assert_eq!(read(Reader::Caller(Some(bob))).await, Err(StoreError::NotOwner));
    assert_eq!(read(Reader::Caller(None)).await, Err(StoreError::NotOwner));

    store.append(NewItem { feed: store.own(), opener: Some(alice), draft: &draft("x"), once: None }).await.unwrap();
    assert_eq!(store.newest(store.own()).await.items.len(), 1, "nobody owns an agent's own feed");
}

pub(crate) async fn a_turn_of_talk_opens_a_feed_too(bench: Bench) {
    let store = bench.store();
    let (alice, feed) = (store.keys().caller("alice"), store.session("s"));
    store.open_feed(feed, None).await.unwrap();
    store.open_feed(feed, Some(alice)).await.unwrap();
    let page = store.newest(feed).await;
    assert_eq!((page.items.len(), page.timestamp, page.oldest), (0, 1, None));
    store.append(NewItem { feed, opener: Some(alice), draft: &draft("x"), once: None }).await.unwrap();
    assert_eq!(store.newest(feed).await.items.len(), 1, "it was opened by an anonymous caller");
}

pub(crate) async fn retention_bounds_the_items(bench: Bench) {
    let store = bench.store();
    store.retain(Retention { items: 20, ..Retention::default() });
    for message in 0..100 {
        store.post(store.own(), &message.to_string()).await;
        let page = store.newest(store.own()).await;
        assert!(page.items.len() <= 22);
        assert!(page.items.len() >= 20.min(message + 1));
        assert_eq!(page.oldest, page.items.first().map(|item| item.timestamp));
    }
}

pub(crate) async fn retention_bounds_the_bytes(bench: Bench) {
    let store = bench.store();
    let bytes = 10_000;
    store.retain(Retention { bytes, ..Retention::default() });
    for step in 0..60 {
        let size = step * 37 % 1500;
        store.post(store.own(), &"x".repeat(size)).await;
        let page = store.newest(store.own()).await;
        assert!(weight(&page) <= bytes + bytes / 10);
        assert!(page.items.len() >= 4.min(step + 1), "it keeps what it may");
    }
}

fn weight(page: &Page) -> u64 {
    let shown = page.items.iter().map(|item| serde_json::to_vec(&item.read().unwrap().draft).unwrap().len() as u64);
    shown.map(|bytes| bytes + ITEM_OVERHEAD).sum()
}

pub(crate) async fn retention_bounds_the_age(bench: Bench) {
    let store = bench.store();
    let age = Duration::from_secs(100);
    store.retain(Retention { age, ..Retention::default() });
    for message in 0..200 {
        store.post(store.own(), &message.to_string()).await;
        bench.clock.forward(Duration::from_secs(1));
    }
    let kept = store.newest(store.own()).await.items.len();
    assert!((100..=111).contains(&kept), "{kept}");
    bench.clock.forward(Duration::from_hours(1));
    store.post(store.own(), "new").await;
    assert_eq!(store.newest(store.own()).await.messages(), ["new"]);
}

pub(crate) async fn a_smaller_retention_holds_from_the_next_write_on(bench: Bench) {
    let store = bench.store();
    for message in 0..500 {
        store.post(store.own(), &message.to_string()).await;
    }
    store.retain(Retention { items: 10, ..Retention::default() });
    store.post(store.own(), "last").await;
    let page = store.newest(store.own()).await;
    assert!(page.items.len() <= 11);
    assert_eq!(page.messages().last().unwrap(), "last");
    assert_eq!(page.oldest, page.items.first().map(|item| item.timestamp));
}

pub(crate) async fn an_item_that_no_feed_could_keep_is_refused(bench: Bench) {
    let store = bench.store();
    store.retain(Retention { bytes: 1000, ..Retention::default() });
    store.post(store.own(), "kept").await;
    let refused = store.try_post(store.own(), &"x".repeat(1000)).await;
    assert_eq!(refused, Err(StoreError::TooLarge { bytes_max: 1000 }));
    assert_eq!(store.newest(store.own()).await.messages(), ["kept"]);
}

pub(crate) async fn the_least_recently_used_session_feed_goes_first(bench: Bench) {
    let store = (bench.open)(Limits { agent_feeds: 4, ..limits() });
    for (count, name) in ["own", "1", "2", "3", "1", "4", "5"].into_iter().enumerate() {
        let feed = if name == "own" { store.own() } else { store.session(name) };
        store.post(feed, &count.to_string()).await;
        bench.clock.forward(Duration::from_millis(1));
    }
    assert_eq!(store.newest(store.own()).await.items.len(), 1);
    for (name, items) in [("1", 2), ("2", 0), ("3", 0), ("4", 1), ("5", 1)] {
        assert_eq!(store.newest(store.session(name)).await.items.len(), items, "{name}");
    }
}

pub(crate) async fn a_dropped_feed_begins_again_above_what_it_was(bench: Bench) {
    let store = (bench.open)(Limits { agent_feeds: 2, ..limits() });
    store.post(store.own(), "x").await;
    bench.clock.forward(Duration::from_hours(1));
    let first = store.post(store.session("1"), "x").await;
    bench.clock.back(Duration::from_hours(2));
    store.post(store.session("2"), "x").await;
    let page = store.read(store.session("1"), Since::Time(first.timestamp), 10).await;
    assert_eq!((page.items.len(), page.timestamp), (0, 1), "it is a feed that had no item yet");
    let again = store.post(store.session("1"), "again").await;
    assert!(again.timestamp > first.timestamp);
    assert_eq!(store.read(store.session("1"), Since::Time(first.timestamp), 10).await.messages(), ["again"]);
    assert_eq!(store.read(store.session("1"), Since::Item(first.id.to_string()), 10).await.messages(), ["again"]);
    let other = store.keys().feed(store.keys().agent("b"), Some(&session("1")));
    assert!(store.post(other, "x").await.timestamp < first.timestamp, "another agent is not concerned");
}

pub(crate) async fn bytes_of_an_agent_are_capped_and_its_own_feed_stays(bench: Bench) {
    let store = (bench.open)(Limits { agent_bytes: 10_000, ..limits() });
    store.post(store.own(), "own").await;
    for name in 0..30 {
        store.post(store.session(&name.to_string()), &"x".repeat(900)).await;
        bench.clock.forward(Duration::from_millis(1));
    }
    let mut kept = 0;
    for name in 0..30 {
        let items = store.newest(store.session(&name.to_string())).await.items.len();
        kept += items;
        assert!(items == 0 || name >= 20, "the oldest go first");
    }
    assert!((8..=10).contains(&kept), "{kept}");
    assert_eq!(store.newest(store.own()).await.messages(), ["own"]);
    // Its own feed alone can be too much: then its oldest items go.
    for _ in 0..30 {
        store.post(store.own(), &"x".repeat(900)).await;
    }
    let page = store.newest(store.own()).await;
    assert!(weight(&page) <= 10_000 && page.items.len() >= 8);
    assert_eq!(page.oldest, page.items.first().map(|item| item.timestamp));
}

pub(crate) async fn bytes_of_the_store_are_capped_for_the_heaviest_agent(bench: Bench) {
    let store = (bench.open)(Limits { bytes: 10_000, ..limits() });
    let small = store.keys().feed(store.keys().agent("b"), Some(&session("b")));
    store.post(small, "small").await;
    for name in 0..30 {
        store.post(store.session(&name.to_string()), &"x".repeat(900)).await;
        bench.clock.forward(Duration::from_millis(1));
    }
    assert_eq!(store.newest(small).await.messages(), ["small"]);
    assert!(store.health().await.bytes <= 10_000);
    assert!(store.newest(store.session("0")).await.items.is_empty());
    assert_eq!(store.newest(store.session("29")).await.items.len(), 1);
}

pub(crate) async fn items_of_a_query_are_found_by_all_that_names_it(bench: Bench) {
    let store = bench.store();
    let named = [
        NewsDraft { query_id: Some("q".into()), in_reply_to: Some("q".into()), ..draft("by query_id") },
        NewsDraft { data: Some(json!({"caller_query_id": "q"})), ..draft("by caller_query_id") },
        NewsDraft { in_reply_to: Some("q".into()), ..draft("by in_reply_to") },
    ];
    let mut times = Vec::new();
    for named in &named {
        store.post(store.own(), "other").await;
        let item = NewItem { feed: store.own(), opener: None, draft: named, once: None };
        times.push(store.append(item).await.unwrap().timestamp);
    }
    let of = |since, limit, query| {
        let store = store.clone();
        let feed = store.own();
        async move {
            query_page(&store, PageRequest { feed, reader: Reader::Caller(None), since: &since, limit, query }).await
        }
    };
    let page = of(Since::Newest, 10, Some("q")).await;
    assert_eq!(page.messages(), ["by query_id", "by caller_query_id", "by in_reply_to"]);
    assert_eq!((page.timestamp, page.more), (times[2], false));
    let page = of(Since::Newest, 2, Some("q")).await;
    assert_eq!((page.messages(), page.more), (vec!["by caller_query_id".into(), "by in_reply_to".into()], true));
    let page = of(Since::Time(times[0]), 1, Some("q")).await;
    assert_eq!((page.messages(), page.timestamp, page.more), (vec!["by caller_query_id".into()], times[1], true));
    let page = of(Since::Time(times[2]), 1, Some("q")).await;
    assert_eq!((page.items.len(), page.timestamp, page.more), (0, times[2], false));
    let page = of(Since::Newest, 10, Some("unknown")).await;
    assert_eq!((page.items.len(), page.timestamp, page.more), (0, 0, false));

    store.retain(Retention { items: 1, ..Retention::default() });
    store.post(store.own(), "last").await;
    assert!(of(Since::Newest, 10, Some("q")).await.items.is_empty(), "what is dropped is not found");
}

async fn query_page(store: &Store, request: PageRequest<'_>) -> Page {
    store.page(request).await.unwrap()
}

pub(crate) async fn a_repeat_with_the_same_key_gets_the_first_receipt(bench: Bench) {
    let store = bench.store();
    let scope =
        OnceScope { agent: store.a(), operation: "news", caller: Some(store.keys().caller("c")), session: None };
    let append = |message: &'static str| {
        let store = store.clone();
        let once = store.keys().once(scope, "key", message.as_bytes());
        async move {
            store.append(NewItem { feed: store.own(), opener: None, draft: &draft(message), once: Some(once) }).await
        }
    };
    let (first, at_once) = tokio::join!(append("one"), append("one"));
    assert_eq!(first, at_once);
    bench.clock.forward(Duration::from_hours(23));
    assert_eq!(append("one").await, first);
    assert_eq!(append("two").await, Err(StoreError::KeyReused));
    assert_eq!(store.newest(store.own()).await.messages(), ["one"]);
    bench.clock.forward(Duration::from_hours(2));
    assert_ne!(append("two").await, first);

    let anonymous = OnceScope { caller: None, ..scope };
    let of = |body: &[u8]| store.keys().once(anonymous, "key", body).hash;
    assert_ne!(of(b"one"), of(b"two"), "nobody finds another's answer by guessing a key");
}

pub(crate) async fn every_append_of_many_at_once_gets_its_own_time(bench: Bench) {
    let store = bench.store();
    let mut posts = tokio::task::JoinSet::new();
    for _ in 0..500 {
        let store = store.clone();
        posts.spawn(async move { store.post(store.own(), "x").await.timestamp });
    }
    let mut times = posts.join_all().await;
    times.sort_unstable();
    let page = store.newest(store.own()).await;
    assert_eq!(page.items.iter().map(|item| item.timestamp).collect::<Vec<_>>(), times);
    assert!(times.windows(2).all(|pair| pair[0] < pair[1]));
}

pub(crate) async fn an_append_whose_caller_left_is_still_made(bench: Bench) {
    let store = bench.store();
    let feed = store.own();
    for _ in 0..10 {
        let mut append = Box::pin(store.try_post(feed, "x"));
        let _ = poll_once(&mut append).await;
        drop(append);
    }
    store.post(feed, "x").await;
    assert_eq!(store.newest(feed).await.items.len(), 11);
}

/// Lets a future begin.
async fn poll_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    std::future::poll_fn(|context| {
        std::task::Poll::Ready(match std::pin::Pin::new(&mut *future).poll(context) {
            std::task::Poll::Ready(output) => Some(output),
            std::task::Poll::Pending => None,
        })
    })
    .await
}

pub(crate) async fn an_arrival_wakes_who_waits(bench: Bench) {
    let store = bench.store();
    let mut arrival = Box::pin(store.arrival(store.own()));
    assert_eq!(poll_once(&mut arrival).await, None);
    let missed = store.arrival(store.own());
    store.post(store.own(), "x").await;
    arrival.await;
    missed.await;
}

pub(crate) async fn a_closed_store_is_unavailable(bench: Bench) {
    let store = bench.store();
    store.post(store.own(), "x").await;
    store.close().await;
    assert!(matches!(store.try_post(store.own(), "x").await, Err(StoreError::Unavailable(_))));
    assert!(matches!(store.try_read(store.own(), Since::Newest, 1).await, Err(StoreError::Unavailable(_))));
    let health = store.health().await;
    assert!(!health.readable && !health.writable && health.problem.is_some());
    store.close().await;
    if bench.durable {
        let store = bench.store();
        assert_eq!(store.newest(store.own()).await.items.len(), 1);
    }
}

pub(crate) async fn two_handles_see_the_same(bench: Bench) {
    let (one, two) = (bench.store(), bench.store());
    let mut last = 0;
    for round in 0..20 {
        let (writer, reader) = if round % 2 == 0 { (&one, &two) } else { (&two, &one) };
        let timestamp = writer.post(writer.own(), &round.to_string()).await.timestamp;
        assert!(timestamp > last);
        let page = reader.read(reader.own(), Since::Time(last.max(1)), 10).await;
        assert_eq!((page.messages(), page.timestamp), (vec![round.to_string()], timestamp));
        last = timestamp;
    }
    one.configure(&[("a", NewsSettings::default())]);
}
