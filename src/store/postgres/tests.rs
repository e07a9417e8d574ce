//! The engine keeps the contract, on a server of its own.

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock};

use super::*;
use crate::net::tls::Settings as Tls;
use crate::restap::{NewsDraft, SessionId};
use crate::store::contract::{self, Bench, SharedBench, TestClock, post_one, read_all, wait_until};
use crate::store::engine::Limits;
use crate::store::servers;
use crate::store::{NewItem, OnceScope, Query, Store};
use crate::yaml::Secret;

contract::hold!(bench);
contract::hold_shared!(shared);

/// A database of a server that all tests of this process share.
struct Database(String);

impl Database {
    fn new() -> Option<Self> {
        static SERVER: OnceLock<Option<servers::Server>> = OnceLock::new();
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let server =
            SERVER.get_or_init(|| servers::Server::postgres(&["fsync=off", "full_page_writes=off"])).as_ref()?;
        let name = format!("test_{}", COUNT.fetch_add(1, Ordering::Relaxed));
        server.sql(&format!("CREATE DATABASE {name}"));
        Some(Self(server.database(&name)))
    }

    fn url(&self) -> &str {
        &self.0
    }

    fn sql(&self, statement: &str) -> String {
        servers::sql(&self.0, statement)
    }

    /// Cuts all connections to it.
    fn cut(&self) {
        let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                   WHERE datname = current_database() AND pid <> pg_backend_pid()";
        self.sql(cut);
    }
}

fn bench() -> Option<Bench> {
    let database = Database::new()?;
    let clock = TestClock::new();
    let time = clock.clone();
    let open = move |limits| open(&database, limits, Some(time.clone()));
    Some(Bench { clock, open: Box::new(open), durable: true })
}

fn shared() -> Option<SharedBench> {
    let database = Arc::new(Database::new()?);
    let cut = database.clone();
    Some(SharedBench {
        engine: "postgres",
        open: Box::new(move |key| {
            let bounds = Arc::new(Bounds::new(Limits::default(), std::collections::HashMap::new()));
            try_open(&database, key, bounds, None)
        }),
        cut: Box::new(move || cut.cut()),
    })
}

fn open(database: &Database, limits: Limits, clock: Option<Arc<TestClock>>) -> Arc<Store> {
    let bounds = Arc::new(Bounds::new(limits, std::collections::HashMap::new()));
    let key = SharedKey { current: contract::key(), previous: None };
    try_open(database, &key, bounds, clock).unwrap()
}

fn try_open(
    database: &Database,
    key: &SharedKey,
    bounds: Arc<Bounds>,
    clock: Option<Arc<TestClock>>,
) -> Result<Arc<Store>, OpenError> {
    let arrivals = Arc::<Arrivals>::default();
    let clock = clock.map(|clock| clock as Arc<dyn Clock>);
    let server = Server { url: Secret::new(database.url()), tls: Tls::default() };
    let (engine, keys) = Postgres::open(&server, key, bounds.clone(), clock, arrivals.clone())?;
    Ok(Store::waking(engine, keys, bounds, arrivals))
}

#[tokio::test]
async fn tables_that_were_dropped_are_made_again() {
    let Some(database) = Database::new() else { return };
    let store = open(&database, Limits::default(), None);
    post_one(&store, "1").await.unwrap();
    database.sql("DROP SCHEMA restap CASCADE");
    // It is another store then, whose names differ: only a restart may begin it.
    wait_until(async || matches!(post_one(&store, "2").await, Err(StoreError::Unavailable(_)))).await;
    wait_until(async || store.health().await.problem.is_some_and(|problem| problem.contains("restart"))).await;
    let store = open(&database, Limits::default(), None);
    post_one(&store, "3").await.unwrap();
    assert_eq!(read_all(&store).await, ["3"]);
}

#[tokio::test]
async fn what_is_out_of_date_leaves_the_tables_without_a_write() {
    let Some(database) = Database::new() else { return };
    let clock = TestClock::new();
    let store = open(&database, Limits { agent_feeds: 10, ..Limits::default() }, Some(clock.clone()));
    let agent = store.keys().agent("a");
    let draft = NewsDraft { kind: "note".into(), query_id: Some("q".into()), ..NewsDraft::default() };
    for item in 0..200 {
        let session = SessionId::parse(&format!("session-{:0>16}", item % 20)).unwrap();
        let feed = store.keys().feed(agent, Some(&session));
        store.append(NewItem { feed, opener: None, draft: &draft, once: None }).await.unwrap();
        clock.forward(Duration::from_millis(1));
    }
    let own = store.keys().feed(agent, None);
    store.append(NewItem { feed: own, opener: None, draft: &draft, once: None }).await.unwrap();
    store.start_query(&Query::new("query".into(), agent)).await.unwrap();
    store.acquire(store.keys().query_lease(store.keys().query("query"))).await.unwrap();
    store.spend(store.keys().rate(agent, "g", None), Rate::new(1, Duration::from_secs(1))).await.unwrap();
    let sweep = |later: Duration| {
        let now = clock.unix_ms() + later.as_millis() as u64;
        while database.sql(&format!("SELECT restap.sweep({now}, '{{}}', '{{}}', 2592000000, 50)")) != "0" {}
    };
    let count = || {
        let tables = ["feed", "item", "dropped", "record", "owner", "lease", "rate"];
        tables.map(|table| database.sql(&format!("SELECT count(*) FROM restap.{table}")).parse::<u64>().unwrap())
    };
    sweep(Duration::ZERO);
    let [feeds, items, dropped, records, owners, leases, rates] = count();
    assert_eq!((feeds, dropped, records, owners, leases, rates), (10, 0, 1, 1, 1, 1));
    assert!(items < 100, "{items}");
    sweep(Duration::from_hours(24 * 31));
    assert_eq!(count(), [1, 0, 0, 0, 0, 0, 0]);
    assert_eq!(database.sql("SELECT feeds || ' ' || bytes || ' ' || (floor > 0) FROM restap.agent"), "1 0 true");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_of_many_feeds_by_two_gateways_at_once_meets_no_deadlock() {
    let Some(database) = Database::new() else { return };
    let stores = [(); 2].map(|()| open(&database, Limits::default(), None));
    let mut posts = tokio::task::JoinSet::new();
    for item in 0..400 {
        let store = stores[item % 2].clone();
        posts.spawn(async move {
            let agent = store.keys().agent(&(item % 7).to_string());
            let session = SessionId::parse(&format!("session-{:0>16}", item % 13)).unwrap();
            let draft = NewsDraft { kind: "note".into(), ..NewsDraft::default() };
            let scope = OnceScope { agent, operation: "news", caller: None, session: Some(&session) };
            let once = Some(store.keys().once(scope, &item.to_string(), b""));
            let feed = store.keys().feed(agent, Some(&session));
            store.append(NewItem { feed, opener: None, draft: &draft, once }).await.unwrap();
        });
    }
    posts.join_all().await;
    let deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
    assert_eq!(database.sql(deadlocks), "0");
    assert_eq!(database.sql("SELECT count(*) FROM restap.item"), "400");
}
