//! The engine keeps the contract, on a server of its own.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::net::tls::Settings as Tls;
use crate::restap::{NewsDraft, SessionId};
use crate::store::contract::{self, Bench, SharedBench, TestClock, post_one, read_all, wait_until};
use crate::store::engine::Limits;
use crate::store::servers;
use crate::store::{NewItem, Query, Store};
use crate::yaml::Secret;

contract::hold!(bench);
contract::hold_shared!(shared);

/// Databases of a server.
const DATABASES: usize = 1000;

/// A database of a server that all tests of this process share.
#[derive(Clone, Copy)]
struct Database(usize);

fn server() -> Option<&'static servers::Server> {
    static SERVER: OnceLock<Option<servers::Server>> = OnceLock::new();
    let databases = DATABASES.to_string();
    SERVER.get_or_init(|| servers::Server::redis(&["--databases", &databases])).as_ref()
}

impl Database {
    fn new() -> Option<Self> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        server().map(|_| Self(COUNT.fetch_add(1, Ordering::Relaxed)))
    }

    fn url(self) -> String {
        format!("{}/{}", server().unwrap().url(), self.0)
    }

    /// Cuts all connections to a server.
    fn cut(url: &str) {
        for kind in ["normal", "pubsub"] {
            let _: usize = ask(url, &format!("CLIENT KILL TYPE {kind}"));
        }
    }
}

fn bench() -> Option<Bench> {
    let database = Database::new()?;
    let clock = TestClock::new();
    let time = clock.clone();
    let open = move |limits| open(database, limits, Some(time.clone()));
    Some(Bench { clock, open: Box::new(open), durable: true })
}

fn shared() -> Option<SharedBench> {
    // One that is cut off is nobody else's.
    let server = Arc::new(servers::Server::redis(&["--appendonly", "yes", "--appendfsync", "always"])?);
    let (url, cut) = (server.url(), server.clone());
    Some(SharedBench {
        engine: "redis",
        open: Box::new(move |key| {
            let bounds = Arc::new(Bounds::new(Limits::default(), std::collections::HashMap::new()));
            try_open(&url, key, bounds, None)
        }),
        cut: Box::new(move || Database::cut(&cut.url())),
    })
}

fn open(database: Database, limits: Limits, clock: Option<Arc<TestClock>>) -> Arc<Store> {
    let bounds = Arc::new(Bounds::new(limits, std::collections::HashMap::new()));
    let key = SharedKey { current: contract::key(), previous: None };
    try_open(&database.url(), &key, bounds, clock).unwrap()
}

fn try_open(
    url: &str,
    key: &SharedKey,
    bounds: Arc<Bounds>,
    clock: Option<Arc<TestClock>>,
) -> Result<Arc<Store>, OpenError> {
    let arrivals = Arc::<Arrivals>::default();
    let clock = clock.map(|clock| clock as Arc<dyn Clock>);
    let server = Server { url: Secret::new(url), tls: Tls::default() };
    let (engine, keys) = Redis::open(&server, key, bounds.clone(), clock, arrivals.clone())?;
    Ok(Store::waking(engine, keys, bounds, arrivals))
}

/// Asks a server, as `redis-cli` does.
fn ask<T: redis::FromRedisValue>(url: &str, command: &str) -> T {
    let mut words = command.split(' ');
    let mut asked = redis::cmd(words.next().unwrap());
    for word in words {
        asked.arg(word);
    }
    asked.query(&mut redis::Client::open(url).unwrap().get_connection().unwrap()).unwrap()
}

#[tokio::test]
async fn what_is_out_of_date_leaves_the_server_without_a_write() {
    let Some(database) = Database::new() else { return };
    let clock = TestClock::new();
    let store = open(database, Limits { agent_feeds: 10, ..Limits::default() }, Some(clock.clone()));
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
    let url = database.url();
    let keys = |pattern: &str| ask::<Vec<String>>(&url, &format!("KEYS {{restap}}:{pattern}")).len();
    assert_eq!([keys("f:*"), keys("i:*"), keys("x:*"), keys("r:*")], [10, 10, 10, 1]);

    clock.forward(Duration::from_hours(24 * 31));
    let scripts = Scripts::default();
    let mut connection = redis::Client::open(url.as_str()).unwrap().get_connection().unwrap();
    let now = clock.unix_ms();
    let mut sweep =
        || scripts.sweep.arg(now).arg(7).arg(30 * 24 * 3600 * 1000_u64).invoke::<u64>(&mut connection).unwrap();
    while sweep() > 0 {}
    // The agent's own feed stays and knows where it was.
    assert_eq!([keys("f:*"), keys("i:*"), keys("x:*"), keys("r:*"), keys("o*")], [1, 1, 0, 0, 0]);
    let facts: Vec<String> = ask(&url, &format!("HMGET {{restap}}:a:{} feeds bytes", hex(agent.0)));
    assert_eq!(facts, ["1", "0"]);
    assert_eq!(ask::<u64>(&url, "HGET {restap}:t bytes"), 0);
}

#[tokio::test]
async fn a_server_that_is_full_refuses_items_and_keeps_reading() {
    let Some(server) = servers::Server::redis(&["--appendonly", "yes", "--appendfsync", "always"]) else { return };
    let bounds = Arc::new(Bounds::new(Limits::default(), std::collections::HashMap::new()));
    let key = SharedKey { current: contract::key(), previous: None };
    let store = try_open(&server.url(), &key, bounds, None).unwrap();
    post_one(&store, "1").await.unwrap();
    let _: String = ask(&server.url(), "CONFIG SET maxmemory 1");
    assert_eq!(post_one(&store, "2").await, Err(StoreError::Full));
    assert_eq!(read_all(&store).await, ["1"]);
    let _: String = ask(&server.url(), "CONFIG SET maxmemory 0");
    post_one(&store, "3").await.unwrap();
    assert_eq!(read_all(&store).await, ["1", "3"]);
}

#[tokio::test]
async fn a_server_that_became_a_replica_is_left_until_it_is_a_primary() {
    let Some(server) = servers::Server::redis(&["--appendonly", "yes", "--appendfsync", "always"]) else { return };
    let bounds = Arc::new(Bounds::new(Limits::default(), std::collections::HashMap::new()));
    let key = SharedKey { current: contract::key(), previous: None };
    let store = try_open(&server.url(), &key, bounds, None).unwrap();
    post_one(&store, "1").await.unwrap();
    let _: String = ask(&server.url(), "REPLICAOF 127.0.0.1 1");
    wait_until(async || {
        let refused = matches!(post_one(&store, "2").await, Err(StoreError::Unavailable(_)));
        refused && store.health().await.problem.is_some_and(|problem| problem.contains("replica"))
    })
    .await;
    let _: String = ask(&server.url(), "REPLICAOF NO ONE");
    wait_until(async || post_one(&store, "3").await.is_ok()).await;
    assert_eq!(read_all(&store).await, ["1", "3"]);
}
