//! What is kept, under which key, and who waits for whom.

use std::sync::atomic::AtomicUsize;
use std::time::SystemTime;

use http::Method;
use tokio::sync::Notify;

use super::*;

fn headers(lines: &[(&str, &str)]) -> HeaderMap {
    lines.iter().map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap())).collect()
}

fn asked(path: &str, lines: &[(&str, &str)]) -> Asked {
    let headers = headers(lines);
    Asked::new(&[b"agent", path.as_bytes()], &Method::GET, &headers, Wish::of(&headers))
}

fn fresh(status: u16, lines: &[(&str, &str)]) -> Option<u64> {
    let (status, now) = (StatusCode::from_u16(status).unwrap(), SystemTime::now());
    Fresh::of(status, &headers(lines), Duration::from_secs(30), now).map(|fresh| fresh.lifetime.as_secs())
}

/// A service that counts and answers with these headers, once its gate opens.
#[derive(Clone)]
struct Service {
    lines: &'static [(&'static str, &'static str)],
    count: Arc<AtomicUsize>,
    gate: Option<Arc<Notify>>,
    fails: bool,
}

impl Service {
    fn new(lines: &'static [(&'static str, &'static str)]) -> Self {
        Self { lines, count: Arc::default(), gate: None, fails: false }
    }

    fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }
}

impl Fetch for Service {
    type Own = usize;
    type Error = &'static str;

    async fn fetch(&mut self) -> Result<Fetched<usize>, &'static str> {
        let number = self.count.fetch_add(1, Ordering::SeqCst);
        if let Some(gate) = &self.gate {
            gate.notified().await;
        }
        if self.fails {
            return Err("broken");
        }
        let headers = headers(self.lines);
        let fresh = Fresh::of(StatusCode::OK, &headers, Duration::from_secs(30), SystemTime::now());
        Ok(match fresh {
            Some(fresh) => Fetched::Shared(Answer::new(StatusCode::OK, &headers, number.to_string().as_bytes(), fresh)),
            None => Fetched::Own(number),
        })
    }
}

/// What an asker got: a letter for how, and which answer of the service.
async fn got(cache: &Cache, asked: &Asked, service: &Service) -> String {
    let text = |answer: &Answer| String::from_utf8(answer.body.to_vec()).unwrap();
    match cache.get(asked, service.clone()).await {
        Ok(Got::Hit(answer)) => format!("hit {}", text(&answer)),
        Ok(Got::Followed(answer)) => format!("followed {}", text(&answer)),
        Ok(Got::Miss(answer)) => format!("miss {}", text(&answer)),
        Ok(Got::Own(number)) => format!("own {number}"),
        Err(error) => error.to_owned(),
    }
}

#[test]
fn the_service_says_less_and_never_more_than_the_operator() {
    for (lines, expected) in [
        (&[][..], Some(30)),
        (&[("cache-control", "public, max-age=5")], Some(5)),
        (&[("cache-control", "max-age=3600")], Some(30)),
        (&[("cache-control", "max-age=5"), ("cache-control", "S-MaxAge=\"9\"")], Some(9)),
        (&[("cache-control", "max-age=9, max-age=4")], Some(4)),
        (&[("cache-control", "max-age=20"), ("age", "15")], Some(5)),
        (&[("cache-control", "max-age=20"), ("age", "20")], None),
        (&[("cache-control", "max-age=soon")], None),
        (&[("cache-control", "max-age=0")], None),
        (&[("cache-control", "s-maxage=0, max-age=60")], None),
        (&[("cache-control", "No-Store")], None),
        (&[("cache-control", "no-cache=\"x\"")], None),
        (&[("cache-control", "max-age=60, PRIVATE=\"a, b\"")], None),
        (&[("pragma", "no-cache")], None),
        (&[("expires", "0")], None),
        (&[("expires", "Sun, 06 Nov 1994 08:49:47 GMT"), ("date", "Sun, 06 Nov 1994 08:49:37 GMT")], Some(10)),
        (&[("expires", "Sun, 06 Nov 1994 08:49:37 GMT")], None),
        (&[("expires", "0"), ("cache-control", "max-age=7")], Some(7)),
        (&[("set-cookie", "a=b"), ("cache-control", "public, max-age=5")], None),
        (&[("vary", "accept, *")], None),
        (&[("vary", "accept")], Some(30)),
    ] {
        assert_eq!(fresh(200, lines), expected, "{lines:?}");
    }
    for status in 200..600 {
        let kept = fresh(status, &[]).is_some();
        assert_eq!(kept, matches!(status, 200 | 203 | 301 | 404), "{status}");
    }
}

#[test]
fn who_has_an_answer_is_told_so() {
    let answer = headers(&[("etag", "W/\"a,b\""), ("last-modified", "Sun, 06 Nov 1994 08:49:37 GMT")]);
    for (request, expected) in [
        (&[("if-none-match", "\"x\", \"a,b\"")][..], true),
        (&[("if-none-match", "\"x\""), ("if-none-match", "W/\"a,b\"")], true),
        (&[("if-none-match", "*")], true),
        (&[("if-none-match", "\"a\", \"b\"")], false),
        (&[("if-none-match", "\"x\""), ("if-modified-since", "Sun, 06 Nov 1994 08:49:37 GMT")], false),
        (&[("if-modified-since", "Sun, 06 Nov 1994 08:49:37 GMT")], true),
        (&[("if-modified-since", "Sun, 06 Nov 1994 08:49:36 GMT")], false),
        (&[("if-modified-since", "yesterday")], false),
        (&[], false),
    ] {
        assert_eq!(is_unchanged(&headers(request), StatusCode::OK, &answer), expected, "{request:?}");
        assert!(!is_unchanged(&headers(request), StatusCode::NOT_FOUND, &answer));
    }
}

#[test]
fn what_a_caller_wants_of_a_cache_is_heard() {
    for (lines, expected) in [
        (&[][..], Wish::Any),
        (&[("cache-control", "max-age=60")], Wish::Any),
        (&[("cache-control", "No-Cache")], Wish::Anew),
        (&[("cache-control", "max-age=0")], Wish::Anew),
        (&[("cache-control", "no-cache, no-store")], Wish::Nothing),
        (&[("pragma", "no-cache")], Wish::Anew),
        (&[("pragma", "no-cache"), ("cache-control", "max-age=60")], Wish::Any),
    ] {
        assert_eq!(Wish::of(&headers(lines)), expected, "{lines:?}");
    }
}

#[tokio::test]
async fn the_same_question_is_asked_once_and_another_anew() {
    let (cache, service) = (Cache::new(1 << 20), Service::new(&[]));
    assert_eq!(got(&cache, &asked("/a", &[("accept", "x"), ("user-agent", "1")]), &service).await, "miss 0");
    assert_eq!(got(&cache, &asked("/a", &[("user-agent", "2"), ("accept", "x")]), &service).await, "hit 0");
    assert_eq!(got(&cache, &asked("/b", &[("accept", "x")]), &service).await, "miss 1");
    assert_eq!(got(&cache, &asked("/a", &[("accept", "y")]), &service).await, "miss 2");
    assert_eq!(got(&cache, &asked("/a", &[("accept", "x"), ("x-tenant", "1")]), &service).await, "miss 3");
    let anew = asked("/a", &[("accept", "x"), ("cache-control", "no-cache")]);
    assert_eq!(got(&cache, &anew, &service).await, "miss 4");
    assert_eq!(got(&cache, &asked("/a", &[("accept", "x")]), &service).await, "hit 4", "and takes its place");
}

#[test]
fn parts_of_a_question_do_not_run_into_each_other() {
    let key =
        |place: &[&[u8]], lines: &[(&str, &str)]| Asked::new(place, &Method::GET, &headers(lines), Wish::Any).key();
    let keys = [
        key(&[b"ab", b"c"], &[]),
        key(&[b"a", b"bc"], &[]),
        key(&[b"a", b"b", b"c"], &[]),
        key(&[b"a", b"b"], &[("c", "")]),
        key(&[b"a", b"b"], &[("x", "1"), ("x", "2")]),
        key(&[b"a", b"b"], &[("x", "2"), ("x", "1")]),
    ];
    let different: std::collections::HashSet<_> = keys.iter().collect();
    assert_eq!(different.len(), keys.len());
    let asked = |agents: &[&str]| {
        let lines: Vec<_> = agents.iter().map(|agent| ("user-agent", *agent)).collect();
        asked("/", &lines).key_with(&[header("user-agent"), header("via")])
    };
    let varied = [asked(&[]), asked(&[""]), asked(&["a"]), asked(&["a", ""]), asked(&["a", "b"])];
    assert_eq!(varied.iter().collect::<std::collections::HashSet<_>>().len(), varied.len());
}

fn header(name: &str) -> HeaderName {
    name.parse().unwrap()
}

#[tokio::test]
async fn answers_that_vary_are_told_apart_by_what_they_vary_by() {
    let (cache, service) = (Cache::new(1 << 20), Service::new(&[("vary", "Accept, User-Agent")]));
    let (one, two) = (asked("/a", &[("user-agent", "1")]), asked("/a", &[("user-agent", "2")]));
    assert_eq!(got(&cache, &one, &service).await, "miss 0");
    assert_eq!(got(&cache, &two, &service).await, "miss 1");
    assert_eq!(got(&cache, &one, &service).await, "hit 0");
    assert_eq!(got(&cache, &two, &service).await, "hit 1");
    let other = Service { lines: &[("vary", "origin")], ..service };
    let three = asked("/a", &[("user-agent", "3")]);
    assert_eq!(got(&cache, &three, &other).await, "miss 2", "they vary by something else now");
    assert_eq!(got(&cache, &three, &other).await, "hit 2");
    assert_eq!(got(&cache, &asked("/a", &[("origin", "https://a")]), &other).await, "miss 3");
    assert_eq!(got(&cache, &one, &other).await, "hit 2");
}

/// Starts so many askers, and waits until the first has asked and the others have had their chance to.
async fn crowd(cache: &Arc<Cache>, service: &Service, askers: usize) -> Vec<tokio::task::JoinHandle<String>> {
    let mut crowd = Vec::new();
    for _ in 0..askers {
        let (cache, service) = (cache.clone(), service.clone());
        crowd.push(tokio::spawn(async move { got(&cache, &asked("/a", &[]), &service).await }));
        for _ in 0..16 {
            tokio::task::yield_now().await;
        }
    }
    crowd
}

async fn results(crowd: Vec<tokio::task::JoinHandle<String>>) -> Vec<String> {
    let mut results = Vec::new();
    for asker in crowd {
        results.push(asker.await.unwrap_or_else(|_| "left".to_owned()));
    }
    results
}

#[tokio::test]
async fn who_asks_what_is_being_asked_waits_for_that_answer() {
    let cache = Arc::new(Cache::new(1 << 20));
    let service = Service { gate: Some(Arc::default()), ..Service::new(&[]) };
    let crowd = crowd(&cache, &service, 4).await;
    assert_eq!(service.count(), 1);
    service.gate.as_ref().unwrap().notify_one();
    assert_eq!(results(crowd).await, ["miss 0", "followed 0", "followed 0", "followed 0"]);
}

#[tokio::test]
async fn when_who_asked_leaves_the_next_one_asks() {
    let cache = Arc::new(Cache::new(1 << 20));
    let service = Service { gate: Some(Arc::default()), ..Service::new(&[]) };
    let crowd = crowd(&cache, &service, 3).await;
    crowd[0].abort();
    while service.count() < 2 {
        tokio::task::yield_now().await;
    }
    service.gate.as_ref().unwrap().notify_one();
    let mut results = results(crowd).await;
    results.sort();
    assert_eq!(results, ["followed 1", "left", "miss 1"]);
}

#[tokio::test]
async fn a_failure_is_one_for_all_who_wait_and_is_not_kept() {
    let cache = Arc::new(Cache::new(1 << 20));
    let service = Service { gate: Some(Arc::default()), fails: true, ..Service::new(&[]) };
    let crowd = crowd(&cache, &service, 3).await;
    service.gate.as_ref().unwrap().notify_one();
    assert_eq!(results(crowd).await, ["broken", "broken", "broken"]);
    assert_eq!(service.count(), 1);
    let well = Service { gate: None, fails: false, ..service };
    assert_eq!(got(&cache, &asked("/a", &[]), &well).await, "miss 1");
}

#[tokio::test]
async fn an_answer_for_one_alone_sends_the_others_to_ask_at_once() {
    let cache = Arc::new(Cache::new(1 << 20));
    let gate = Arc::new(Notify::new());
    let service = Service { gate: Some(gate.clone()), ..Service::new(&[("cache-control", "private")]) };
    let crowd = crowd(&cache, &service, 3).await;
    assert_eq!(service.count(), 1);
    gate.notify_one();
    while service.count() < 3 {
        tokio::task::yield_now().await;
    }
    // All of them at a time, not one after another.
    gate.notify_waiters();
    gate.notify_one();
    let mut results = results(crowd).await;
    results.sort();
    assert_eq!(results, ["own 0", "own 1", "own 2"]);
    let shared = Service { lines: &[], gate: None, ..service };
    assert_eq!(got(&cache, &asked("/a", &[]), &shared).await, "miss 3", "it may be shared again");
    assert_eq!(got(&cache, &asked("/a", &[]), &shared).await, "hit 3");
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_another_for_ever() {
    let cache = Arc::new(Cache::new(1 << 20));
    let service = Service { gate: Some(Arc::default()), ..Service::new(&[]) };
    let stuck = crowd(&cache, &service, 1).await;
    let quick = Service { gate: None, ..service.clone() };
    assert_eq!(got(&cache, &asked("/a", &[]), &quick).await, "miss 1");
    stuck[0].abort();
}

#[tokio::test]
async fn what_is_kept_is_bounded_by_its_bytes() {
    struct Large;
    impl Fetch for Large {
        type Own = ();
        type Error = ();

        async fn fetch(&mut self) -> Result<Fetched<()>, ()> {
            let fresh = Fresh { age: Duration::ZERO, lifetime: Duration::from_mins(1) };
            Ok(Fetched::Shared(Answer::new(StatusCode::OK, &HeaderMap::new(), &[0; 4096], fresh)))
        }
    }
    let cache = Cache::new(64 << 10);
    assert_eq!(cache.body_max(), 4096);
    for number in 0..200 {
        cache.get(&asked(&format!("/{number}"), &[]), Large).await.unwrap();
        assert!(cache.bytes() <= 64 << 10, "{}", cache.bytes());
    }
    assert!(cache.bytes() > 32 << 10);
}

#[tokio::test]
async fn an_answer_ends_with_its_time_and_says_its_age() {
    struct Brief;
    impl Fetch for Brief {
        type Own = ();
        type Error = ();

        async fn fetch(&mut self) -> Result<Fetched<()>, ()> {
            let fresh = Fresh { age: Duration::from_secs(7), lifetime: Duration::from_millis(20) };
            Ok(Fetched::Shared(Answer::new(StatusCode::OK, &HeaderMap::new(), b"", fresh)))
        }
    }
    let cache = Cache::new(64 << 10);
    let Ok(Got::Miss(answer)) = cache.get(&asked("/", &[]), Brief).await else { panic!("asked at once") };
    assert_eq!(answer.aged_headers()[AGE], "7");
    std::thread::sleep(Duration::from_millis(25));
    assert!(matches!(cache.get(&asked("/", &[]), Brief).await, Ok(Got::Miss(_))));
}
