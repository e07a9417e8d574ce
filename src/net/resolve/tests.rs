use std::collections::VecDeque;

use tokio::sync::Semaphore;
use tokio::time::{advance, timeout};

use super::*;

/// Answers as a test says, in this order; the last answer again and again.
struct Script {
    answers: Mutex<VecDeque<Result<Vec<SocketAddr>, &'static str>>>,
    asked: AtomicUsize,
    /// Each lookup takes one.
    permits: Semaphore,
}

impl Script {
    fn new(answers: &[Result<&[&str], &'static str>]) -> Arc<Self> {
        let parse = |addresses: &&[&str]| addresses.iter().map(|address| address.parse().unwrap()).collect();
        let answers = answers.iter().map(|answer| answer.as_ref().map(parse).map_err(|error| *error)).collect();
        let permits = Semaphore::new(1000);
        Arc::new(Self { answers: Mutex::new(answers), asked: AtomicUsize::new(0), permits })
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl Resolve for Script {
    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        assert_eq!((host, port), ("service.test", 80));
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.permits.acquire().await.unwrap().forget();
        let mut answers = self.answers.lock().unwrap();
        let answer = if answers.len() > 1 { answers.pop_front() } else { answers.front().cloned() };
        match answer.expect("the resolver broke") {
            Ok(addresses) => Ok(addresses),
            Err(reason) => Err(io::Error::other(reason)),
        }
    }
}

fn named(script: &Arc<Script>) -> Addresses {
    Addresses::new("service.test", 80, &(Arc::clone(script) as Arc<dyn Resolve>))
}

async fn found(addresses: &Addresses) -> Vec<String> {
    let mut found: Vec<_> = addresses.candidates().await.unwrap().iter().map(ToString::to_string).collect();
    found.sort();
    found
}

#[tokio::test]
async fn literals_and_localhost_are_never_looked_up() {
    let script = Script::new(&[]);
    for (host, expected) in [
        ("127.0.0.1", &["127.0.0.1:80"][..]),
        ("::1", &["[::1]:80"]),
        ("localhost", &["127.0.0.1:80", "[::1]:80"]),
        ("LocalHost.", &["127.0.0.1:80", "[::1]:80"]),
        ("api.localhost", &["127.0.0.1:80", "[::1]:80"]),
    ] {
        let addresses = Addresses::new(host, 80, &(Arc::clone(&script) as Arc<dyn Resolve>));
        assert_eq!(found(&addresses).await, expected, "{host}");
    }
    assert_eq!(script.asked(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_used_for_a_while_then_renewed_in_the_background() {
    let script = Script::new(&[Ok(&["10.0.0.1:80"]), Ok(&["10.0.0.2:80"])]);
    let addresses = named(&script);
    assert_eq!(found(&addresses).await, ["10.0.0.1:80"]);
    advance(FRESH / 2).await;
    assert_eq!(found(&addresses).await, ["10.0.0.1:80"]);
    assert_eq!(script.asked(), 1);
    advance(FRESH).await;
    assert_eq!(found(&addresses).await, ["10.0.0.1:80"], "nobody waits for the new answer");
    tokio::task::yield_now().await;
    assert_eq!(found(&addresses).await, ["10.0.0.2:80"]);
    assert_eq!(script.asked(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_old_answer_is_renewed_before_it_is_used() {
    let script = Script::new(&[Ok(&["10.0.0.1:80"]), Ok(&["10.0.0.2:80"])]);
    let addresses = named(&script);
    found(&addresses).await;
    advance(STALE * 10).await;
    assert_eq!(found(&addresses).await, ["10.0.0.2:80"]);
}

#[tokio::test(start_paused = true)]
async fn the_last_good_answer_outlives_a_resolver_that_fails_or_hangs() {
    let script = Script::new(&[Ok(&["10.0.0.1:80"]), Err("no name server"), Ok(&[]), Ok(&["10.0.0.2:80"])]);
    let addresses = named(&script);
    found(&addresses).await;
    for _ in 0..2 {
        advance(STALE * 10).await;
        assert_eq!(found(&addresses).await, ["10.0.0.1:80"]);
    }
    script.permits.forget_permits(1000);
    advance(STALE * 10).await;
    let start = Instant::now();
    assert_eq!(found(&addresses).await, ["10.0.0.1:80"]);
    assert_eq!(start.elapsed(), PATIENCE);
    script.permits.add_permits(1);
    tokio::task::yield_now().await;
    assert_eq!(found(&addresses).await, ["10.0.0.2:80"]);
    assert_eq!(script.asked(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_name_that_never_resolved_is_an_error_and_is_not_asked_for_by_every_request() {
    let script = Script::new(&[Err("no such host"), Ok(&["10.0.0.1:80"])]);
    let addresses = named(&script);
    for _ in 0..3 {
        let error = addresses.candidates().await.unwrap_err();
        assert_eq!(error.to_string(), "`service.test` can't be resolved: no such host");
    }
    assert_eq!(script.asked(), 1);
    advance(BETWEEN_LOOKUPS).await;
    assert_eq!(found(&addresses).await, ["10.0.0.1:80"]);
}

#[tokio::test(start_paused = true)]
async fn a_slow_resolver_is_asked_once_whoever_waits_and_leaves() {
    let script = Script::new(&[Ok(&["10.0.0.1:80"])]);
    script.permits.forget_permits(1000);
    let addresses = named(&script);
    for _ in 0..5 {
        assert!(timeout(BETWEEN_LOOKUPS * 3, addresses.candidates()).await.is_err());
    }
    script.permits.add_permits(1);
    assert_eq!(found(&addresses).await, ["10.0.0.1:80"]);
    assert_eq!(script.asked(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_resolver_that_breaks_leaves_nobody_waiting() {
    let addresses = named(&Script::new(&[]));
    let answer = timeout(PATIENCE, addresses.candidates()).await.unwrap();
    assert!(matches!(answer, Err(Error::Resolve { .. })));
}

#[tokio::test(start_paused = true)]
async fn addresses_take_turns_and_one_that_failed_comes_last_for_a_while() {
    let script = Script::new(&[Ok(&["10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80"])]);
    let addresses = named(&script);
    let mut firsts = Vec::new();
    for _ in 0..6 {
        firsts.push(addresses.candidates().await.unwrap()[0].ip().to_string());
    }
    assert_eq!(firsts, ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.1", "10.0.0.2", "10.0.0.3"]);
    addresses.avoid("10.0.0.2:80".parse().unwrap());
    for _ in 0..6 {
        assert_eq!(addresses.candidates().await.unwrap()[2].ip().to_string(), "10.0.0.2");
    }
    advance(AVOIDED).await;
    let mut lasts = Vec::new();
    for _ in 0..3 {
        lasts.push(addresses.candidates().await.unwrap()[2].ip().to_string());
    }
    lasts.sort();
    assert_eq!(lasts, ["10.0.0.1", "10.0.0.2", "10.0.0.3"]);
}

#[tokio::test(start_paused = true)]
async fn metadata_addresses_are_left_out_whatever_a_name_server_says() {
    let script = Script::new(&[Ok(&["169.254.169.254:80", "10.0.0.1:80"]), Ok(&["[::ffff:169.254.169.254]:80"])]);
    let addresses = named(&script);
    assert_eq!(found(&addresses).await, ["10.0.0.1:80"]);
    advance(STALE).await;
    assert_eq!(addresses.candidates().await, Err(Error::Forbidden("::ffff:169.254.169.254".parse().unwrap())));
}

#[tokio::test(start_paused = true)]
async fn addresses_that_nothing_answers_at_are_asked_for_again() {
    let script = Script::new(&[Ok(&["10.0.0.1:80"]), Ok(&["10.0.0.2:80"])]);
    let addresses = named(&script);
    found(&addresses).await;
    advance(BETWEEN_LOOKUPS).await;
    addresses.avoid("10.0.0.1:80".parse().unwrap());
    assert_eq!(found(&addresses).await, ["10.0.0.2:80"]);
}

#[tokio::test(start_paused = true)]
async fn more_addresses_than_the_limit_are_ignored() {
    let many: Vec<String> = (0..100).map(|last| format!("10.0.0.{last}:80")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let addresses = named(&Script::new(&[Ok(&many)]));
    assert_eq!(addresses.candidates().await.unwrap().len(), ADDRESSES_MAX);
}
