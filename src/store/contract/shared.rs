//! What only engines promise that several gateways share.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::restap::{NewsDraft, SessionId, Since};
use crate::store::engine::Reader;
use crate::store::settings::SharedKey;
use crate::store::{FeedId, Keys, NewItem, OpenError, PageRequest, Receipt, Store, StoreError};

/// One shared engine under test.
pub(crate) struct SharedBench {
    pub(in crate::store) engine: &'static str,
    /// Opens the store once more, as another gateway.
    pub(in crate::store) open: Box<Open>,
    /// Cuts all connections to it.
    pub(in crate::store) cut: Box<dyn Fn()>,
}

type Open = dyn Fn(&SharedKey) -> Result<Arc<Store>, OpenError> + Sync;

/// Makes a test of every function; `$bench` is a function that returns a [`SharedBench`], or `None` where the server is
/// not installed.
macro_rules! hold_shared {
    ($bench:path) => {
        $crate::store::contract::hold_shared! { $bench:
            a_new_key_finds_what_the_old_one_named_and_another_key_is_refused
            gateways_that_start_at_once_make_one_store
            a_lost_connection_is_made_again
            an_append_of_one_gateway_wakes_who_waits_at_another
            closing_finishes_what_was_accepted
        }
    };
    ($bench:path: $($test:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                if let Some(bench) = $bench() {
                    $crate::store::contract::$test(bench).await;
                }
            }
        )*
    };
}
pub(in crate::store) use hold_shared;

fn key(current: u8, previous: Option<u8>) -> SharedKey {
    let secret = |byte| Keys::of([byte; 32]).to_secret();
    SharedKey { current: secret(current), previous: previous.map(secret) }
}

fn feed(store: &Store) -> FeedId {
    let session = SessionId::parse("session-0123456789").unwrap();
    store.keys().feed(store.keys().agent("a"), Some(&session))
}

/// Posts to one session's feed.
pub(in crate::store) async fn post_one(store: &Store, message: &str) -> Result<Receipt, StoreError> {
    let draft = NewsDraft { kind: "note".into(), message: message.into(), ..NewsDraft::default() };
    store.append(NewItem { feed: feed(store), opener: None, draft: &draft, once: None }).await
}

/// Reads that feed.
pub(in crate::store) async fn read_all(store: &Store) -> Vec<String> {
    let since = Since::Time(1);
    let request = PageRequest { feed: feed(store), reader: Reader::Agent, since: &since, limit: 1000, query: None };
    store.page(request).await.unwrap().items.iter().map(|item| item.read().unwrap().draft.message).collect()
}

/// Waits for what happens in its own time.
pub(in crate::store) async fn wait_until(mut done: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !done().await {
        assert!(Instant::now() < deadline, "it never happened");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub(crate) async fn a_new_key_finds_what_the_old_one_named_and_another_key_is_refused(bench: SharedBench) {
    let open = |current, previous| (bench.open)(&key(current, previous));
    let refused = |current, previous| match open(current, previous) {
        Err(OpenError::Server { engine, problem }) => engine == bench.engine && problem.contains("another store.key"),
        _ => false,
    };
    let old = open(1, None).unwrap();
    post_one(&old, "1").await.unwrap();
    assert!(refused(2, None) && refused(2, Some(3)));
    let new = open(2, Some(1)).unwrap();
    assert_eq!(read_all(&new).await, ["1"]);
    post_one(&new, "2").await.unwrap();
    post_one(&old, "3").await.unwrap();
    assert_eq!(read_all(&open(1, None).unwrap()).await, ["1", "2", "3"], "one of the old gateways starts again");
    assert_eq!(read_all(&open(2, None).unwrap()).await, ["1", "2", "3"]);
    assert!(refused(1, None), "the change is over");
}

pub(crate) async fn gateways_that_start_at_once_make_one_store(bench: SharedBench) {
    let stores = std::thread::scope(|scope| {
        let starts: Vec<_> = (0..4).map(|_| scope.spawn(|| (bench.open)(&key(1, None)).unwrap())).collect();
        starts.into_iter().map(|start| start.join().unwrap()).collect::<Vec<_>>()
    });
    for store in &stores {
        wait_until(async || store.health().await.writable).await;
        post_one(store, "x").await.unwrap();
    }
    assert_eq!(read_all(&stores[0]).await.len(), 4);
}

pub(crate) async fn a_lost_connection_is_made_again(bench: SharedBench) {
    let store = (bench.open)(&key(1, None)).unwrap();
    post_one(&store, "1").await.unwrap();
    for round in 0..3 {
        (bench.cut)();
        wait_until(async || post_one(&store, &format!("again {round}")).await.is_ok()).await;
        wait_until(async || store.health().await.writable).await;
    }
    let read = read_all(&store).await;
    assert!(["1", "again 0", "again 1", "again 2"].iter().all(|message| read.iter().any(|read| read == message)));
}

pub(crate) async fn an_append_of_one_gateway_wakes_who_waits_at_another(bench: SharedBench) {
    let [one, other] = [(); 2].map(|()| (bench.open)(&key(1, None)).unwrap());
    post_one(&one, "first").await.unwrap();
    // Listening begins some time after the start.
    wait_until(async || {
        let arrival = other.arrival(feed(&other));
        tokio::pin!(arrival);
        arrival.as_mut().enable();
        post_one(&one, "x").await.unwrap();
        tokio::time::timeout(Duration::from_millis(200), arrival).await.is_ok()
    })
    .await;
}

pub(crate) async fn closing_finishes_what_was_accepted(bench: SharedBench) {
    let store = (bench.open)(&key(1, None)).unwrap();
    let mut posts = tokio::task::JoinSet::new();
    for item in 0..50 {
        let store = store.clone();
        posts.spawn(async move { post_one(&store, &item.to_string()).await });
    }
    tokio::task::yield_now().await;
    store.close().await;
    let accepted = posts.join_all().await.into_iter().flatten().count();
    let again = (bench.open)(&key(1, None)).unwrap();
    assert_eq!(read_all(&again).await.len(), accepted);
    assert_eq!(post_one(&store, "late").await, Err(StoreError::Unavailable("it is closed")));
}
