//! The embedded engine keeps the contract, and what only it promises.

// Without a loader that takes the shim there is nothing to write the record down.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod powerloss;

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use super::batch::{Batch, Upkeep};
use super::sweep::Sweep;
use super::*;
use crate::restap::{NewsDraft, SessionId, Since};
use crate::store::contract::{self, Bench, TestClock};
use crate::store::engine::{Limits, Reader};
use crate::store::settings::{NewsSettings, Retention};
use crate::store::{
    Conversation, FeedId, NewItem, PageRequest, Query, Receipt, Settings, Store, SystemClock, Turn, TurnEnd, settings,
};

contract::hold!(bench);

fn bench() -> Bench {
    let clock = TestClock::new();
    let directory = tempfile::tempdir().unwrap();
    let time = clock.clone();
    let open = move |limits| open(&directory.path().join("data"), limits, time.clone());
    Bench { clock, open: Box::new(open), durable: true }
}

fn open(path: &Path, limits: Limits, clock: Arc<dyn Clock>) -> Arc<Store> {
    let bounds = Arc::new(Bounds::new(limits, HashMap::new()));
    // A store that was dropped lets go of its place when its thread has ended.
    let deadline = Instant::now() + Duration::from_secs(30);
    let taken = loop {
        match Taken::take(path, Some(&contract::key())) {
            Err(_) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(5)),
            taken => break taken.unwrap(),
        }
    };
    contract::store(taken.open(bounds.clone(), clock).unwrap(), bounds)
}

/// As gateway.yaml opens it, with the key beside the data.
fn serve(path: &Path) -> Result<Arc<Store>, OpenError> {
    let engine = settings::Engine::Embedded { path: path.to_owned(), max_size: 1 << 30 };
    crate::store::open(
        &Settings { engine, key: None, previous_key: None },
        &[("a", NewsSettings::default())],
        Arc::new(SystemClock),
    )
}

fn refusal(path: &Path) -> String {
    serve(path).map(drop).unwrap_err().to_string()
}

fn own(store: &Store) -> FeedId {
    store.keys().feed(store.keys().agent("a"), None)
}

async fn post(store: &Store, feed: FeedId, message: &str) -> Result<Receipt, StoreError> {
    let draft = NewsDraft { kind: "note".into(), message: message.into(), ..NewsDraft::default() };
    store.append(NewItem { feed, opener: None, draft: &draft, once: None }).await
}

async fn read(store: &Store, feed: FeedId, since: Since) -> Result<Vec<(String, u64)>, StoreError> {
    let page = PageRequest { feed, reader: Reader::Agent, since: &since, limit: 1000, query: None };
    let items = store.page(page).await?.items;
    Ok(items.iter().map(|item| (item.read().unwrap().draft.message, item.timestamp)).collect())
}

/// The directory of a store that holds one item and is closed.
async fn used() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data");
    let store = serve(&path).unwrap();
    post(&store, own(&store), "kept").await.unwrap();
    store.close().await;
    (directory, path)
}

#[tokio::test]
async fn what_is_made_is_private_and_the_key_is_made_once() {
    let (_directory, path) = used().await;
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o700);
    for file in fs::read_dir(&path).unwrap() {
        assert_eq!(mode(&file.unwrap().path()), 0o600);
    }
    let key = fs::read_to_string(path.join("store.key")).unwrap();
    let store = serve(&path).unwrap();
    assert_eq!(read(&store, own(&store), Since::Newest).await.unwrap()[0].0, "kept");
    assert_eq!(fs::read_to_string(path.join("store.key")).unwrap(), key);
}

#[tokio::test]
async fn a_closed_store_is_a_database_without_a_log() {
    let (_directory, path) = used().await;
    assert!(!path.join("store.db-wal").exists());
}

#[tokio::test]
async fn another_key_is_refused() {
    let (_directory, path) = used().await;
    assert!(Taken::take(&path, Some(&contract::key())).unwrap().open(bounds(), TestClock::new()).is_err());
    fs::write(path.join("store.key"), "c2hvcnQ=").unwrap();
    assert!(refusal(&path).contains("restore the file from a backup"));
    fs::remove_file(path.join("store.key")).unwrap();
    assert!(refusal(&path).contains("store.key is missing"));
    assert!(!path.join("store.key").exists(), "no new key is made beside data");
}

fn bounds() -> Arc<Bounds> {
    Arc::new(Bounds::new(Limits::default(), HashMap::new()))
}

#[tokio::test]
async fn a_third_process_is_refused_by_name_and_pid() {
    let (_directory, path) = used().await;
    let first = serve(&path).unwrap();
    let _second = serve(&path).unwrap();
    let refusal = refusal(&path);
    assert_eq!(refusal.matches(&format!("(pid {})", std::process::id())).count(), 2, "{refusal}");
    assert!(refusal.contains("restap_gateway"), "{refusal}");
    first.close().await;
    serve(&path).unwrap();
}

#[tokio::test]
async fn a_path_that_is_no_directory_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    fs::write(&path, "").unwrap();
    let refusal = refusal(&path.join("data"));
    assert!(refusal.contains("can't be used") && refusal.contains("store.embedded.path"), "{refusal}");
}

#[tokio::test]
async fn a_damaged_file_is_refused_and_left_alone() {
    let (_directory, path) = used().await;
    let database = path.join("store.db");
    fs::write(&database, "this is no database, but it is long enough to be taken for one".repeat(100)).unwrap();
    let refusal = refusal(&path);
    assert!(refusal.contains("store.db can't be used: the database is damaged"), "{refusal}");
    assert!(fs::read_to_string(&database).unwrap().starts_with("this is no database"));
}

#[tokio::test]
async fn a_database_of_another_program_or_a_newer_version_is_refused() {
    let (_directory, path) = used().await;
    let change = |sql| Connection::open(path.join("store.db")).unwrap().execute_batch(sql).unwrap();
    change("PRAGMA user_version = 99");
    assert!(refusal(&path).contains("newer version"));
    change("PRAGMA application_id = 7");
    assert!(refusal(&path).contains("another program"));
}

#[tokio::test]
async fn a_flipped_bit_is_reported_and_never_served() {
    let (_directory, path) = used().await;
    let database = path.join("store.db");
    let mut bytes = fs::read(&database).unwrap();
    let text = br#""message":"kept""#;
    let at = bytes.windows(text.len()).position(|window| window == text).unwrap();
    bytes[at + 12] ^= 1;
    fs::write(&database, bytes).unwrap();
    let store = serve(&path).unwrap();
    assert_eq!(read(&store, own(&store), Since::Newest).await, Err(StoreError::Corrupt("a news item".into())));
    let other = store.keys().feed(store.keys().agent("b"), None);
    post(&store, other, "others are served").await.unwrap();
}

#[tokio::test]
async fn no_file_holds_a_session_id() {
    let directory = tempfile::tempdir().unwrap();
    let store = serve(directory.path()).unwrap();
    let secret = "canary-session-0123456789";
    let session = SessionId::parse(secret).unwrap();
    let agent = store.keys().agent("a");
    let feed = store.keys().feed(agent, Some(&session));
    post(&store, feed, "x").await.unwrap();
    let conversation = store.keys().conversation(agent, None, &session);
    let mut kept = Conversation::default();
    kept.push(Turn { user: "u".into(), assistant: "a".into() }, 10);
    let ttl = Duration::from_hours(1);
    store.keep_conversation(conversation, &kept, TurnEnd { ttl, ..TurnEnd::default() }).await.unwrap();
    store.acquire(store.keys().turn_lease(conversation)).await.unwrap();
    let mut query = Query::new("query".into(), agent);
    (query.feed, query.session) = (Some((feed, None)), Some(session));
    store.start_query(&query).await.unwrap();
    for file in fs::read_dir(directory.path()).unwrap() {
        let bytes = fs::read(file.unwrap().path()).unwrap();
        assert!(!bytes.windows(secret.len()).any(|window| window == secret.as_bytes()));
    }
    let again = store.query(agent, "query").await.unwrap().unwrap();
    assert_eq!(again.session.unwrap().expose(), secret);
}

#[tokio::test]
async fn reading_never_writes() {
    let (_directory, path) = used().await;
    let store = serve(&path).unwrap();
    let watch = Connection::open(path.join("store.db")).unwrap();
    let version = || watch.query_row("PRAGMA data_version", [], |row| row.get::<_, i64>(0)).unwrap();
    let agent = store.keys().agent("a");
    let session = SessionId::parse("a-session-nobody-knows").unwrap();
    store.health().await;
    let before = version();
    read(&store, own(&store), Since::Time(1)).await.unwrap();
    read(&store, store.keys().feed(agent, Some(&session)), Since::Newest).await.unwrap();
    store.conversation(store.keys().conversation(agent, None, &session)).await.unwrap();
    store.query(agent, "unknown").await.unwrap();
    store.health().await;
    assert_eq!(version(), before);
    post(&store, own(&store), "written").await.unwrap();
    assert_ne!(version(), before, "the test would notice");
}

#[tokio::test]
async fn a_copy_of_a_store_in_use_is_a_store() {
    let (directory, path) = used().await;
    let store = serve(&path).unwrap();
    post(&store, own(&store), "live").await.unwrap();
    let copy = directory.path().join("copy");
    fs::create_dir(&copy).unwrap();
    backup(&path, &copy.join("store.db")).unwrap();
    fs::copy(path.join("store.key"), copy.join("store.key")).unwrap();
    post(&store, own(&store), "later").await.unwrap();
    assert_eq!(check(&copy).unwrap(), Vec::<String>::new());
    let copied = serve(&copy).unwrap();
    let items = read(&copied, own(&copied), Since::Newest).await.unwrap();
    assert_eq!(items.iter().map(|(message, _)| message.as_str()).collect::<Vec<_>>(), ["kept", "live"]);
    assert_eq!(fs::metadata(copy.join("store.db")).unwrap().permissions().mode() & 0o777, 0o600);
    let refused = backup(&path, &copy.join("store.db")).unwrap_err().to_string();
    assert!(refused.contains("store.db can't be written: File exists"), "{refused}");
    assert!(matches!(check(directory.path()), Err(InspectError::Missing(_))));
}

#[tokio::test]
async fn a_check_finds_what_was_changed() {
    let (_directory, path) = used().await;
    let store = serve(&path).unwrap();
    store.start_query(&Query::new("query".into(), store.keys().agent("a"))).await.unwrap();
    assert_eq!(check(&path).unwrap(), Vec::<String>::new());
    let change = |sql| Connection::open(path.join("store.db")).unwrap().execute_batch(sql).unwrap();
    change("UPDATE item SET json = x'7b7d'; UPDATE record SET version = 9; UPDATE feed SET last = 1");
    assert_eq!(
        check(&path).unwrap(),
        [
            "1 news items are not what was written",
            "1 records are not what was written",
            "1 feeds have items above their last timestamp"
        ]
    );
}

/// Sweeps until nothing is left to do.
fn sweep(path: &Path, bounds: &Bounds, now: u64) {
    let mut connection = database::connect(&path.join("store.db"), Role::Writer).unwrap();
    let (mut sweep, mut upkeep) = (Sweep::default(), Upkeep::default());
    loop {
        let due = sweep.look(&connection, bounds, &mut upkeep, now).unwrap();
        if due.is_empty() && !sweep.is_pending() {
            return;
        }
        let transaction = connection.transaction().unwrap();
        let mut batch = Batch::new(&transaction, bounds, &mut upkeep, now).unwrap();
        sweep.clear(&mut batch, &due).unwrap();
        batch.finish().unwrap();
        transaction.commit().unwrap();
    }
}

fn count(path: &Path) -> BTreeMap<&'static str, u64> {
    let connection = Connection::open(path.join("store.db")).unwrap();
    let tables = ["agent", "feed", "item", "item_query", "dropped", "owner", "record", "lease", "rate"];
    let rows = |table| connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap();
    tables.into_iter().map(|table| (table, rows(table))).collect()
}

#[tokio::test]
async fn what_is_out_of_date_leaves_the_disk_without_a_write() {
    let directory = tempfile::tempdir().unwrap();
    let clock = TestClock::new();
    let store = open(directory.path(), Limits { agent_feeds: 10, ..Limits::default() }, clock.clone());
    let agent = store.keys().agent("a");
    let draft = NewsDraft { kind: "note".into(), query_id: Some("q".into()), ..NewsDraft::default() };
    let session = |name: usize| SessionId::parse(&format!("session-{name:0>16}")).unwrap();
    for item in 0..200 {
        let feed = store.keys().feed(agent, Some(&session(item % 20)));
        store.append(NewItem { feed, opener: None, draft: &draft, once: None }).await.unwrap();
        clock.forward(Duration::from_millis(1));
    }
    post(&store, own(&store), "own").await.unwrap();
    store.start_query(&Query::new("query".into(), agent)).await.unwrap();
    store.acquire(store.keys().query_lease(store.keys().query("query"))).await.unwrap();
    store.spend(store.keys().rate(agent, "everyone", None), Rate::new(1, Duration::from_hours(1))).await.unwrap();
    store.close().await;

    let bounds = bounds();
    sweep(directory.path(), &bounds, clock.unix_ms());
    let kept = count(directory.path());
    assert_eq!((kept["feed"], kept["dropped"]), (10, 0));
    // Nine session feeds of those that were used last; each was dropped once meanwhile or not at all.
    assert_eq!(kept["item"], kept["item_query"] + 1);
    assert!(kept["item"] < 100, "items of dropped feeds are removed");
    assert_eq!((kept["record"], kept["lease"], kept["rate"]), (1, 1, 1));

    clock.forward(Duration::from_hours(24 * 31));
    sweep(directory.path(), &bounds, clock.unix_ms());
    let kept = count(directory.path());
    let expected = [
        ("agent", 1),
        ("dropped", 0),
        ("feed", 1),
        ("item", 0),
        ("item_query", 0),
        ("lease", 0),
        ("owner", 0),
        ("rate", 0),
        ("record", 0),
    ];
    assert_eq!(kept, BTreeMap::from(expected));
    let connection = Connection::open(directory.path().join("store.db")).unwrap();
    let left = connection
        .query_row("SELECT feeds, bytes, floor > 0 FROM agent", [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
    assert_eq!(left.unwrap(), (1_u64, 0_u64, true));
    drop(connection);

    let store = open(directory.path(), Limits::default(), clock);
    let page = PageRequest { feed: own(&store), reader: Reader::Agent, since: &Since::Newest, limit: 1, query: None };
    let page = store.page(page).await.unwrap();
    assert!(page.timestamp > 1 && page.oldest.is_none(), "the feed still knows where it was");
    post(&store, own(&store), "new").await.unwrap();
    assert_eq!(read(&store, own(&store), Since::Time(page.timestamp)).await.unwrap()[0].0, "new");
}

#[tokio::test]
async fn a_full_disk_refuses_items_and_keeps_reading_and_recovers() {
    let directory = tempfile::tempdir().unwrap();
    let taken = Taken::take(directory.path(), Some(&contract::key())).unwrap();
    let (connection, bounds) = (taken.connect().unwrap(), bounds());
    connection.pragma_update(None, "max_page_count", 400).unwrap();
    let store = contract::store(taken.start(connection, bounds.clone(), Arc::new(SystemClock)).unwrap(), bounds);
    let mut posted = 0;
    let refused = loop {
        match post(&store, own(&store), &"x".repeat(4000)).await {
            Ok(_) => posted += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(refused, StoreError::Full);
    assert_eq!(read(&store, own(&store), Since::Newest).await.unwrap().len(), posted);
    let health = store.health().await;
    assert!(health.readable && !health.writable);
    assert!(health.problem.unwrap().contains("disk is full"));

    let retention = Retention { items: 10, ..Retention::default() };
    store.configure(&[("a", NewsSettings { retention, ..NewsSettings::default() })]);
    wait_until(async || post(&store, own(&store), "again").await.is_ok()).await;
    wait_until(async || store.health().await.writable).await;
    assert!(read(&store, own(&store), Since::Newest).await.unwrap().len() <= 11);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_acknowledged_into_a_file_that_is_no_longer_there() {
    let directory = tempfile::tempdir().unwrap();
    let store = serve(directory.path()).unwrap();
    let feed = own(&store);
    post(&store, feed, "kept").await.unwrap();
    let (database, away) = (directory.path().join("store.db"), directory.path().join("away.db"));
    fs::rename(&database, &away).unwrap();
    let refused = post(&store, feed, "lost").await.unwrap_err();
    assert!(matches!(refused, StoreError::Unavailable(_)), "{refused}");
    assert!(!store.health().await.writable);
    fs::rename(&away, &database).unwrap();
    wait_until(async || post(&store, feed, "kept again").await.is_ok()).await;
}

async fn wait_until(mut done: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !done().await {
        assert!(Instant::now() < deadline, "it never happened");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn what_retention_has_freed_is_given_back_to_the_disk() {
    let (_directory, path) = used().await;
    let store = serve(&path).unwrap();
    for _ in 0..20 {
        post(&store, own(&store), &"x".repeat(300_000)).await.unwrap();
    }
    store.close().await;
    let connection = database::connect(&path.join("store.db"), Role::Writer).unwrap();
    let pages = || connection.query_row("PRAGMA page_count", [], |row| row.get::<_, usize>(0)).unwrap();
    let before = pages();
    database::shrink(&connection, 100).unwrap();
    assert_eq!(pages(), before, "nothing is free");
    connection.execute_batch("DELETE FROM item").unwrap();
    database::shrink(&connection, 100).unwrap();
    assert_eq!(pages(), before - 100);
}

#[test]
fn two_that_start_at_once_make_one_store() {
    let directory = tempfile::tempdir().unwrap();
    let stores = std::thread::scope(|scope| {
        let starts = [(); 2].map(|()| scope.spawn(|| serve(&directory.path().join("data")).unwrap()));
        starts.map(|start| start.join().unwrap())
    });
    let [one, two] = stores.map(|store| own(&store));
    assert_eq!(one, two);
}

#[tokio::test]
async fn a_full_queue_refuses_at_once_and_what_was_taken_is_written() {
    let (_directory, path) = used().await;
    let store = serve(&path).unwrap();
    let other = Connection::open(path.join("store.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let agents = (0..10).map(|agent| store.keys().agent(&agent.to_string()));
    let feeds: Vec<_> = agents.map(|agent| store.keys().feed(agent, None)).collect();
    let mut posts = tokio::task::JoinSet::new();
    for item in 0..6_000 {
        let (store, feed) = (store.clone(), feeds[item % feeds.len()]);
        posts.spawn(async move { post(&store, feed, "x").await });
    }
    let refused = posts.join_next().await.unwrap().unwrap();
    assert_eq!(refused, Err(queue::OVERLOADED));
    other.execute_batch("ROLLBACK").unwrap();
    let taken = posts.join_all().await.into_iter().flatten().count();
    let mut stored = 0;
    for feed in feeds {
        stored += read(&store, feed, Since::Newest).await.unwrap().len();
    }
    assert!(taken >= 4_000 && stored == taken, "{taken} {stored}");
}

/// A test of this file in another process, where [`child`] says so.
fn in_child(test: &str, path: &Path) -> Command {
    let name = format!("{}::{test}", module_path!().split_once("::").unwrap().1);
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", &name, "--nocapture"]).env(CHILD, path).stdout(Stdio::piped()).stderr(Stdio::null());
    command
}

const CHILD: &str = "RESTAP_STORE_TEST_DIRECTORY";

/// Set for a child that is to lose what it has acknowledged.
const UNSYNCED: &str = "RESTAP_STORE_TEST_UNSYNCED";

/// Whether this is such a child: the mistake that the power-loss test must notice.
pub(super) fn syncs_nothing() -> bool {
    std::env::var_os(UNSYNCED).is_some()
}

const FEEDS: usize = 8;

fn feed(store: &Store, feed: usize) -> FeedId {
    let session = SessionId::parse(&format!("session-{feed:0>16}")).unwrap();
    store.keys().feed(store.keys().agent("a"), Some(&session))
}

/// In a child: posts so many items to every feed, says what was stored and what was refused, and dies.
/// Elsewhere it does nothing.
async fn child(items: usize) {
    let Some(path) = std::env::var_os(CHILD) else { return };
    let store = serve(Path::new(&path)).unwrap();
    let mut posters = tokio::task::JoinSet::new();
    for which in 0..FEEDS {
        let store = store.clone();
        posters.spawn(async move {
            let (mut tried, mut taken) = (0, 0);
            while taken < items {
                tried += 1;
                // Leases are written without a flush, between what is flushed.
                let _ = store.acquire(store.keys().query_lease(store.keys().query(&format!("{which} {tried}")))).await;
                let message = format!("{}-{tried}", std::process::id());
                match post(&store, feed(&store, which), &message).await {
                    Ok(receipt) => {
                        println!("\nstored {which} {message} {}", receipt.timestamp);
                        taken += 1;
                    }
                    Err(error) => {
                        println!("\nrefused {error}");
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                }
            }
        });
    }
    posters.join_all().await;
    // As a crash would: nothing is closed.
    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL).unwrap();
}

/// What a child says.
fn stored(line: &str) -> Option<(usize, (String, u64))> {
    let mut words = line.strip_prefix("stored ")?.split(' ');
    let which = words.next()?.parse().ok()?;
    Some((which, (words.next()?.to_owned(), words.next()?.parse().ok()?)))
}

#[tokio::test]
async fn acknowledged_items_survive_a_killed_process() {
    child(usize::MAX).await;
    let (_directory, path) = used().await;
    let mut acknowledged = vec![Vec::new(); FEEDS];
    for _ in 0..8 {
        let mut child = in_child("acknowledged_items_survive_a_killed_process", &path).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // Killed in the middle of things; what it had said by then counts.
        let mut said = 0;
        while let Some(Ok(line)) = lines.next() {
            if let Some((which, item)) = stored(&line) {
                acknowledged[which].push(item);
                said += 1;
                if said == 200 {
                    child.kill().unwrap();
                }
            }
        }
        child.wait().unwrap();
        assert!(said >= 200);
    }
    let store = serve(&path).unwrap();
    for (which, acknowledged) in acknowledged.into_iter().enumerate() {
        let mut items = Vec::new();
        while let since = items.last().map_or(1, |(_, timestamp)| *timestamp)
            && let page = read(&store, feed(&store, which), Since::Time(since)).await.unwrap()
            && !page.is_empty()
        {
            items.extend(page);
        }
        assert!(items.windows(2).all(|pair| pair[0].1 < pair[1].1));
        for item in acknowledged {
            assert!(items.contains(&item), "{item:?}");
        }
    }
}

#[tokio::test]
async fn two_processes_on_one_file_show_pollers_every_item_once() {
    child(usize::MAX).await;
    let (_directory, path) = used().await;
    let store = serve(&path).unwrap();
    let mut child = in_child("two_processes_on_one_file_show_pollers_every_item_once", &path).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let theirs = tokio::task::spawn_blocking(move || {
        let acknowledged: Vec<_> = lines.map_while(Result::ok).filter_map(|line| stored(&line)).take(1_500).collect();
        child.kill().unwrap();
        child.wait().unwrap();
        acknowledged
    });
    let mut pollers = tokio::task::JoinSet::new();
    for which in 0..FEEDS {
        for by_timestamp in [true, false] {
            let store = store.clone();
            pollers.spawn(async move { (which, poll(&store, feed(&store, which), by_timestamp).await) });
        }
    }
    let mut acknowledged = Vec::new();
    for item in 0..600 {
        let message = format!("ours-{item}");
        if let Ok(receipt) = post(&store, feed(&store, item % FEEDS), &message).await {
            acknowledged.push((item % FEEDS, (message, receipt.timestamp)));
        }
    }
    acknowledged.extend(theirs.await.unwrap());
    for which in 0..FEEDS {
        post(&store, feed(&store, which), "end").await.unwrap();
    }
    for (which, seen) in pollers.join_all().await {
        assert!(seen.windows(2).all(|pair| pair[0].1 < pair[1].1), "nothing twice");
        for (_, item) in acknowledged.iter().filter(|(feed, _)| *feed == which) {
            assert!(seen.binary_search_by_key(&item.1, |(_, timestamp)| *timestamp).is_ok_and(|at| seen[at] == *item));
        }
    }
}

/// Reads a feed as a client does, until its last item.
async fn poll(store: &Store, feed: FeedId, by_timestamp: bool) -> Vec<(String, u64)> {
    let (mut since, mut seen) = (1, Vec::<(String, u64)>::new());
    while seen.last().is_none_or(|(message, _)| message != "end") {
        let request = PageRequest { feed, reader: Reader::Agent, since: &Since::Time(since), limit: 7, query: None };
        let page = store.page(request).await.unwrap();
        seen.extend(page.items.iter().map(|item| (item.read().unwrap().draft.message, item.timestamp)));
        since = if by_timestamp { page.timestamp } else { seen.last().map_or(since, |(_, timestamp)| *timestamp) };
    }
    seen
}
