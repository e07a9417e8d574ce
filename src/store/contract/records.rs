//! Leases, answers, conversations and queries.

use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use serde_json::value::RawValue;

use super::{Bench, draft, limits, session};
use crate::restap::{NewsDraft, Since};
use crate::store::engine::{Cap, Limits, Reader};
use crate::store::follow::{Followed, Taken};
use crate::store::keys::OnceScope;
use crate::store::{
    Claim, Conversation, LEASE_RENEWAL, LEASE_TERM, NewsRead, OnceKey, PageRequest, Query, Store, StoreError, Turn,
    TurnEnd,
};

pub(crate) async fn an_item_of_anothers_news_is_taken_in_once(bench: Bench) {
    let (one, two) = (bench.store(), bench.store());
    let item = |origin: &str| NewsDraft { origin: Some(origin.into()), ..draft(origin) };
    let of = |store: &Store| Followed { feed: store.own(), agent: "http://h" };
    let start = one.cursor(of(&one)).await.unwrap();
    assert_eq!(start.since, 0);
    let Taken::Stored(first) = one.take_in(of(&one), start, &item("a"), 5).await.unwrap() else { panic!() };
    assert_eq!(first.since, 5);
    // Another gateway that stood where the first one did.
    assert_eq!(two.take_in(of(&two), start, &item("a"), 5).await, Ok(Taken::Known));
    assert_eq!(two.take_in(of(&two), start, &item("b"), 4).await, Ok(Taken::Overtaken));
    assert_eq!(two.cursor(of(&two)).await, Ok(first));
    let Taken::Stored(second) = two.take_in(of(&two), first, &item("b"), 4).await.unwrap() else { panic!() };
    assert_eq!(second.since, 5, "a reader never goes back");
    bench.clock.forward(30 * 24 * HOUR);
    assert_eq!(one.take_in(of(&one), second, &item("a"), 9).await, Ok(Taken::Known));
    assert_eq!(one.cursor(Followed { agent: "http://other", ..of(&one) }).await.unwrap().since, 0);
    let whole = PageRequest { feed: one.own(), reader: Reader::Agent, since: &Since::Newest, limit: 10, query: None };
    let page = one.page(whole).await.unwrap();
    assert!(
        page.items
            .iter()
            .all(|it| one.is_of(one.own(), &it.id.to_string()) && !one.is_of(one.session("s"), &it.id.to_string()))
    );
    assert!(!one.is_of(one.own(), "a"));
}

const HOUR: Duration = Duration::from_hours(1);

pub(crate) async fn a_lease_has_one_holder(bench: Bench) {
    let (one, two) = (bench.store(), bench.store());
    let key = one.keys().turn_lease(one.keys().conversation(one.a(), None, &session("s")));
    let lease = one.acquire(key).await.unwrap().unwrap();
    assert_eq!(two.acquire(key).await, Ok(None));
    let other = two.keys().turn_lease(two.keys().conversation(two.a(), None, &session("t")));
    assert!(two.acquire(other).await.unwrap().is_some());
    one.release(lease).await.unwrap();
    let next = two.acquire(key).await.unwrap().unwrap();
    assert_eq!(one.renew(lease).await, Ok(false), "it is held by somebody else");
    one.release(lease).await.unwrap();
    assert_eq!(two.renew(next).await, Ok(true), "nobody else can release it");
}

pub(crate) async fn a_lease_ends_by_itself(bench: Bench) {
    let store = bench.store();
    let key = store.keys().query_lease(store.keys().query("q"));
    let lease = store.acquire(key).await.unwrap().unwrap();
    for _ in 0..10 {
        bench.clock.forward(LEASE_RENEWAL);
        assert_eq!(store.renew(lease).await, Ok(true));
        assert_eq!(store.acquire(key).await, Ok(None));
    }
    bench.clock.forward(LEASE_TERM);
    assert!(store.acquire(key).await.unwrap().is_some());
    assert_eq!(store.renew(lease).await, Ok(false));
}

fn once(store: &Store, caller: &str, key: &str, body: &str) -> OnceKey {
    let caller = Some(store.keys().caller(caller));
    store.keys().once(OnceScope { agent: store.a(), operation: "talk", caller, session: None }, key, body.as_bytes())
}

async fn first(store: &Store, key: OnceKey) -> crate::store::Lease {
    match store.claim(key).await.unwrap() {
        Claim::First(lease) => lease,
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn a_request_with_a_key_runs_once(bench: Bench) {
    let store = bench.store();
    let key = once(&store, "c", "k", "body");
    let lease = first(&store, key).await;
    assert_eq!(store.claim(key).await, Ok(Claim::Running));
    assert_eq!(store.claim(once(&store, "c", "k", "other")).await, Ok(Claim::Reused));
    first(&store, once(&store, "d", "k", "body")).await;
    store.keep_answer(key, lease, b"answer").await.unwrap();
    let store = bench.store();
    assert_eq!(store.claim(key).await, Ok(Claim::Answered(Bytes::from_static(b"answer"))));
    assert_eq!(store.claim(once(&store, "c", "k", "other")).await, Ok(Claim::Reused));
    assert_eq!(store.claim(key).await, Ok(Claim::Answered(Bytes::from_static(b"answer"))));
}

pub(crate) async fn a_key_is_free_again_after_an_error(bench: Bench) {
    let store = bench.store();
    let lease = first(&store, once(&store, "c", "k", "body")).await;
    store.release(lease).await.unwrap();
    let lease = first(&store, once(&store, "c", "k", "other")).await;
    // Nor does one that died keep it.
    bench.clock.forward(LEASE_TERM);
    first(&store, once(&store, "c", "k", "body")).await;
    assert_eq!(store.renew(lease).await, Ok(false));
}

pub(crate) async fn an_answer_is_kept_for_a_day(bench: Bench) {
    let store = bench.store();
    let key = once(&store, "c", "k", "body");
    let lease = first(&store, key).await;
    store.keep_answer(key, lease, b"answer").await.unwrap();
    bench.clock.forward(Duration::from_hours(24) - Duration::from_millis(1));
    assert!(matches!(store.claim(key).await, Ok(Claim::Answered(_))));
    bench.clock.forward(Duration::from_millis(1));
    let lease = first(&store, once(&store, "c", "k", "other")).await;
    store.keep_answer(once(&store, "c", "k", "other"), lease, b"new").await.unwrap();
    assert_eq!(store.claim(key).await, Ok(Claim::Reused));
}

pub(crate) async fn answers_are_capped_by_caller(bench: Bench) {
    let store = (bench.open)(Limits { answers: Cap { records: 3, bytes: 1000 }, ..limits() });
    let keep = |caller: &'static str, key: usize, size: usize| {
        let store = store.clone();
        async move {
            let key = once(&store, caller, &key.to_string(), "body");
            let lease = first(&store, key).await;
            store.keep_answer(key, lease, &vec![b'x'; size]).await.unwrap();
        }
    };
    let kept = |caller: &'static str, key: usize| {
        let store = store.clone();
        async move { store.claim(once(&store, caller, &key.to_string(), "body")).await.unwrap() }
    };
    keep("d", 0, 10).await;
    for key in 0..5 {
        keep("c", key, 10).await;
    }
    assert!(matches!(kept("c", 1).await, Claim::First(_)));
    assert!(matches!(kept("c", 2).await, Claim::Answered(_)));
    assert!(matches!(kept("d", 0).await, Claim::Answered(_)), "another caller is not concerned");
    keep("c", 5, 950).await;
    assert!(matches!(kept("c", 5).await, Claim::Answered(_)));
    assert!(matches!(kept("c", 3).await, Claim::First(_)));
}

fn turn(user: &str) -> Turn {
    Turn { user: user.into(), assistant: format!("re: {user}") }
}

fn end() -> TurnEnd {
    TurnEnd { ttl: HOUR, ..TurnEnd::default() }
}

pub(crate) async fn a_conversation_is_read_back(bench: Bench) {
    let store = bench.store();
    let id = store.keys().conversation(store.a(), None, &session("s"));
    let mut conversation = store.conversation(id).await.unwrap();
    assert!(conversation.is_new() && conversation.turns.is_empty());
    conversation.push(turn("1"), 2);
    conversation.upstream = Some("thread_7".into());
    conversation.news = NewsRead { session: 5, agent: 7 };
    let lease = store.acquire(store.keys().turn_lease(id)).await.unwrap();
    let key = once(&store, "c", "k", "body");
    let running = first(&store, key).await;
    let answer = Some((key, running, Bytes::from_static(b"answer")));
    store.keep_conversation(id, &conversation, TurnEnd { lease, answer, ..end() }).await.unwrap();

    let store = bench.store();
    let mut read = store.conversation(id).await.unwrap();
    assert_eq!(
        (&read.turns, &read.upstream, read.news),
        (&conversation.turns, &conversation.upstream, conversation.news)
    );
    assert!(store.acquire(store.keys().turn_lease(id)).await.unwrap().is_some(), "the lease ended with the turn");
    assert_eq!(store.claim(key).await, Ok(Claim::Answered(Bytes::from_static(b"answer"))));
    for user in ["2", "3"] {
        read.push(turn(user), 2);
        store.keep_conversation(id, &read, end()).await.unwrap();
        read = store.conversation(id).await.unwrap();
    }
    assert_eq!(read.turns, [turn("2"), turn("3")]);
    let other = store.keys().conversation(store.a(), Some(store.keys().caller("c")), &session("s"));
    assert_eq!(store.conversation(other).await, Ok(Conversation::default()), "the same id of another caller");
}

pub(crate) async fn two_turns_at_once_do_not_overwrite_each_other(bench: Bench) {
    let store = bench.store();
    let id = store.keys().conversation(store.a(), None, &session("s"));
    let keep = |mut conversation: Conversation, user: &'static str| {
        let store = store.clone();
        conversation.push(turn(user), 10);
        async move { store.keep_conversation(id, &conversation, end()).await }
    };
    let read = store.conversation(id).await.unwrap();
    assert_eq!(keep(read.clone(), "1").await, Ok(()));
    assert_eq!(keep(read, "2").await, Err(StoreError::Conflict));
    let read = store.conversation(id).await.unwrap();
    assert_eq!(keep(read.clone(), "3").await, Ok(()));
    assert_eq!(keep(read, "4").await, Err(StoreError::Conflict));
    assert_eq!(store.conversation(id).await.unwrap().turns, [turn("1"), turn("3")]);
}

pub(crate) async fn a_conversation_that_rested_for_too_long_is_new(bench: Bench) {
    let store = bench.store();
    let id = store.keys().conversation(store.a(), None, &session("s"));
    let mut conversation = store.conversation(id).await.unwrap();
    conversation.push(turn("1"), 10);
    store.keep_conversation(id, &conversation, end()).await.unwrap();
    // A turn that takes longer than the rest is no rest.
    let mut long = store.conversation(id).await.unwrap();
    bench.clock.forward(HOUR);
    let mut fresh = store.conversation(id).await.unwrap();
    assert!(fresh.turns.is_empty());
    long.push(turn("2"), 10);
    store.keep_conversation(id, &long, end()).await.unwrap();
    assert_eq!(store.conversation(id).await.unwrap().turns, [turn("1"), turn("2")]);
    bench.clock.forward(HOUR);
    fresh = store.conversation(id).await.unwrap();
    fresh.push(turn("3"), 10);
    store.keep_conversation(id, &fresh, end()).await.unwrap();
    assert_eq!(store.conversation(id).await.unwrap().turns, [turn("3")]);
}

pub(crate) async fn conversations_are_capped_and_the_oldest_go_first(bench: Bench) {
    let store = (bench.open)(Limits { conversations: Cap { records: 3, bytes: 100_000 }, ..limits() });
    let id = |name: usize| store.keys().conversation(store.a(), None, &session(&name.to_string()));
    let keep = |name: usize, text: String| {
        let (store, id) = (store.clone(), id(name));
        async move {
            let mut conversation = store.conversation(id).await.unwrap();
            conversation.push(turn(&text), 10);
            store.keep_conversation(id, &conversation, end()).await.unwrap();
        }
    };
    for name in [0, 1, 2, 0, 3] {
        keep(name, "x".into()).await;
    }
    assert_eq!(store.conversation(id(0)).await.unwrap().turns.len(), 2);
    assert_eq!(store.conversation(id(1)).await.unwrap().turns.len(), 0);
    keep(4, "x".repeat(49_000)).await;
    assert_eq!(store.conversation(id(4)).await.unwrap().turns.len(), 1);
    assert_eq!(store.conversation(id(2)).await.unwrap().turns.len(), 0);
    // A turn that began before its conversation was dropped is still kept.
    let old = store.conversation(id(0)).await.unwrap();
    for name in 5..8 {
        keep(name, "x".into()).await;
    }
    assert!(store.conversation(id(0)).await.unwrap().turns.is_empty());
    store.keep_conversation(id(0), &old, end()).await.unwrap();
    assert_eq!(store.conversation(id(0)).await.unwrap().turns.len(), 2);
}

fn query(store: &Store, id: &str, name: &str) -> Query {
    let mut query = Query::new(id.into(), store.a());
    query.session = Some(session(name));
    query.caller_query_id = Some("theirs".into());
    query.feed = Some((store.session(name), None));
    query
}

fn completed(query: &Query) -> NewsDraft {
    NewsDraft {
        kind: "query.completed".into(),
        query_id: Some(query.id.clone()),
        data: Some(json!({"query_id": query.id, "caller_query_id": "theirs", "result": {"result": "text"}})),
        ..draft("text")
    }
}

fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.into()).unwrap()
}

async fn find(
    store: &Store,
    feed: crate::store::FeedId,
    reader: Reader,
    id: &str,
) -> Result<crate::store::Page, StoreError> {
    store.page(PageRequest { feed, reader, since: &Since::Newest, limit: 10, query: Some(id) }).await
}

pub(crate) async fn a_query_is_kept_and_answered_in_its_feed(bench: Bench) {
    let store = bench.store();
    let started = query(&store, "ours-1", "s");
    store.start_query(&started).await.unwrap();
    assert!(store.query(store.keys().agent("b"), "ours-1").await.unwrap().is_none(), "another agent's");
    assert!(store.query(store.a(), "ours-2").await.unwrap().is_none());
    let mut running = store.query(store.a(), "ours-1").await.unwrap().unwrap();
    assert!(running.answer.is_none());
    assert_eq!(running.session, Some(session("s")));
    assert_eq!(running.caller_query_id.as_deref(), Some("theirs"));
    assert_eq!(running.feed, started.feed);
    assert!(find(&store, store.own(), Reader::Caller(None), "ours-1").await.unwrap().items.is_empty());

    let lease = store.acquire(store.keys().query_lease(store.keys().query("ours-1"))).await.unwrap().unwrap();
    running.answer = Some(raw(r#"{"status":"completed","message":"text"}"#));
    store.finish_query(&running, &completed(&running), lease).await.unwrap();
    let store = bench.store();
    let done = store.query(store.a(), "ours-1").await.unwrap().unwrap();
    assert_eq!(done.answer.unwrap().get(), r#"{"status":"completed","message":"text"}"#);

    let shown = |page: crate::store::Page, scope: Option<&str>| -> serde_json::Value {
        serde_json::from_slice(&page.to_json(scope.map(session).as_ref())).unwrap()
    };
    let scoped = shown(store.newest(store.session("s")).await, Some("s"));
    assert_eq!(scoped["items"][0]["data"]["result"], json!({"result": "text", "sessionId": session("s").expose()}));
    assert_eq!(scoped["items"][0]["session_id"], session("s").expose());
    // By our id it is found from any feed of the agent, without its session; by theirs only in its own.
    for (feed, scope) in [(store.own(), None), (store.session("t"), Some("t"))] {
        let page = find(&store, feed, Reader::Caller(None), "ours-1").await.unwrap();
        let shown = shown(page, scope);
        assert_eq!(shown["items"][0]["data"]["result"], json!({"result": "text"}));
        assert_eq!(shown["items"][0].get("session_id"), None);
        assert!(find(&store, feed, Reader::Caller(None), "theirs").await.unwrap().items.is_empty());
    }
    let home = find(&store, store.session("s"), Reader::Caller(None), "theirs").await.unwrap();
    assert_eq!(home.items.len(), 1);
    // An item that names it but is not its answer is not found by our id.
    let forged = NewsDraft { query_id: Some("ours-1".into()), ..draft("forged") };
    let item = crate::store::NewItem { feed: store.own(), opener: None, draft: &forged, once: None };
    store.append(item).await.unwrap();
    assert_eq!(find(&store, store.own(), Reader::Caller(None), "ours-1").await.unwrap().messages(), ["text"]);
    let after = Since::Item(home.items[0].id.to_string());
    let request = PageRequest {
        feed: store.own(),
        reader: Reader::Caller(None),
        since: &after,
        limit: 10,
        query: Some("ours-1"),
    };
    let page = store.page(request).await.unwrap();
    assert_eq!((page.items.len(), page.timestamp), (0, home.items[0].timestamp));

    bench.clock.forward(Duration::from_hours(31 * 24));
    assert!(store.query(store.a(), "ours-1").await.unwrap().is_none(), "kept as long as news are");
}

pub(crate) async fn a_query_is_answered_once(bench: Bench) {
    let store = bench.store();
    store.start_query(&query(&store, "ours", "s")).await.unwrap();
    let mut running = store.query(store.a(), "ours").await.unwrap().unwrap();
    running.answer = Some(raw("1"));
    let key = store.keys().query_lease(store.keys().query("ours"));
    let lease = store.acquire(key).await.unwrap().unwrap();
    store.finish_query(&running, &completed(&running), lease).await.unwrap();
    let late = store.acquire(key).await.unwrap().unwrap();
    assert_eq!(store.finish_query(&running, &completed(&running), late).await, Err(StoreError::Conflict));
    assert_eq!(store.newest(store.session("s")).await.items.len(), 1);
}

pub(crate) async fn the_answer_of_a_query_belongs_to_the_owner_of_its_feed(bench: Bench) {
    let store = bench.store();
    let alice = store.keys().caller("alice");
    let mut started = query(&store, "ours", "s");
    started.feed = Some((store.session("s"), Some(alice)));
    store.start_query(&started).await.unwrap();
    let running = store.query(store.a(), "ours").await.unwrap().unwrap();
    let lease = store.acquire(store.keys().query_lease(store.keys().query("ours"))).await.unwrap().unwrap();
    store.finish_query(&running, &completed(&running), lease).await.unwrap();
    let by = |reader| find(&store, store.own(), reader, "ours");
    assert_eq!(by(Reader::Caller(Some(alice))).await.unwrap().items.len(), 1);
    assert_eq!(by(Reader::Caller(None)).await, Err(StoreError::NotOwner));
    assert_eq!(by(Reader::Agent).await.unwrap().items.len(), 1);
}
