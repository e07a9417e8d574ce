use std::collections::HashMap;
use std::io;
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;

use super::super::Resolve;
use super::super::stand_in::{PATIENCE, StandIn};
use super::super::{Bounds, Roots, Rules};
use super::*;

/// Answers each name with a list of answers, one after the other; the last one again and again.
#[derive(Default)]
struct Names {
    answers: Mutex<HashMap<String, Vec<Vec<IpAddr>>>>,
    asked: Mutex<Vec<String>>,
    hangs: bool,
}

impl Names {
    fn of(answers: &[(&str, &[&[&str]])]) -> Arc<Self> {
        let ips = |answer: &&[&str]| answer.iter().map(|ip| ip.parse().unwrap()).collect();
        let answers = answers.iter().map(|(name, answers)| ((*name).to_owned(), answers.iter().map(ips).collect()));
        Arc::new(Self { answers: Mutex::new(answers.collect()), ..Self::default() })
    }

    fn asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

#[async_trait]
impl Resolve for Names {
    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        self.asked.lock().unwrap().push(host.to_owned());
        if self.hangs {
            std::future::pending::<()>().await;
        }
        let mut answers = self.answers.lock().unwrap();
        let answers = answers.get_mut(host.trim_end_matches('.')).ok_or_else(|| io::Error::other("no such name"))?;
        let answer = if answers.len() > 1 { answers.remove(0) } else { answers[0].clone() };
        Ok(answer.into_iter().map(|ip| SocketAddr::new(ip, port)).collect())
    }
}

fn guard(names: &Arc<Names>, allow: &[&str], own: &[&str]) -> Guard {
    let client = Client::with_resolver(Roots::none(), Arc::clone(names) as Arc<dyn Resolve>);
    let settings = Settings { allow_private: allow.iter().map(|entry| entry.parse().unwrap()).collect(), ca: None };
    client.listens_at(own.iter().map(|address| address.parse().unwrap()).collect());
    client.guard(settings).unwrap()
}

async fn admit(guard: &Guard, url: &str) -> Result<Vec<String>, String> {
    let url = url.parse::<WebUrl>().unwrap();
    let admitted = guard.admit(&url, Instant::now() + PATIENCE).await;
    admitted.map(|all| all.iter().map(ToString::to_string).collect()).map_err(|error| error.to_string())
}

const RULES: Rules = Rules { bounds: Bounds { bytes: 1000, time: PATIENCE }, redirects: 2, accept: "*/*" };

#[tokio::test]
async fn one_address_that_is_not_public_refuses_the_whole_name() {
    let names = Names::of(&[
        ("mixed.test", &[&["93.184.216.34", "10.0.0.5"]]),
        ("mapped.test", &[&["::ffff:10.0.0.5"]]),
        ("good.test", &[&["2606:4700::1", "93.184.216.35", "93.184.216.34", "93.184.216.35"]]),
    ]);
    let guard = guard(&names, &[], &[]);
    let blocked = |name: &str, ip: &str| {
        Err(format!("{name} resolves to {ip}, which is not a public address, so it is not called."))
    };
    assert_eq!(admit(&guard, "http://mixed.test/").await, blocked("mixed.test", "10.0.0.5"));
    assert_eq!(admit(&guard, "http://mapped.test/").await, blocked("mapped.test", "::ffff:a00:5"));
    assert_eq!(
        admit(&guard, "http://good.test:81/").await.unwrap(),
        ["93.184.216.34:81", "93.184.216.35:81", "[2606:4700::1]:81"]
    );
    assert_eq!(
        admit(&guard, "http://[::1]/").await,
        Err("::1 is not a public address, so it is not called.".to_owned())
    );
}

#[tokio::test]
async fn localhost_is_asked_of_nobody_and_allowed_by_either_address() {
    let names = Names::of(&[]);
    let open = guard(&names, &["127.0.0.1"], &[]);
    assert_eq!(admit(&open, "http://api.localhost.:8/").await.unwrap(), ["127.0.0.1:8"]);
    let shut = guard(&names, &[], &[]);
    assert_eq!(
        admit(&shut, "http://LOCALHOST/").await,
        Err("localhost resolves to 127.0.0.1, which is not a public address, so it is not called.".to_owned())
    );
    assert_eq!(names.asked(), 0);
}

#[tokio::test]
async fn our_own_listeners_are_never_called() {
    let names = Names::of(&[]);
    let everything = ["0.0.0.0/0", "::/0"];
    let any = guard(&names, &everything, &["[::]:8080"]);
    for url in [
        "http://127.0.0.1:8080/",
        "http://[::1]:8080/",
        "http://0.0.0.0:8080/",
        "http://localhost:8080/",
        "http://127.9.9.9:8080/",
        "http://[::ffff:127.0.0.1]:8080/",
        "http://[2002:7f00:1::]:8080/",
    ] {
        let refused = admit(&any, url).await.unwrap_err();
        assert!(refused.contains("this gateway itself listens"), "{url} {refused}");
    }
    assert!(admit(&any, "http://127.0.0.1:8081/").await.is_ok());
    let one = guard(&names, &everything, &["127.0.0.1:8080"]);
    assert!(admit(&one, "http://127.0.0.1:8080/").await.is_err());
    assert!(admit(&one, "http://[::1]:8080/").await.is_ok());
    assert!(admit(&one, "http://0.0.0.0:8080/").await.is_err());
}

#[tokio::test]
async fn the_connection_goes_to_the_address_that_was_judged_and_each_request_is_judged_anew() {
    let service = StandIn::start().await;
    let names = Names::of(&[("rebind.test", &[&["127.0.0.1"], &["127.0.0.1"], &["10.0.0.9"]])]);
    let guard = guard(&names, &["127.0.0.1"], &[]);
    let url: WebUrl = format!("http://rebind.test:{}/a?b", service.address().port()).parse().unwrap();
    for expected in 1..=2 {
        let answer = async {
            let mut caller = service.accept().await;
            let request = caller.request().await;
            assert!(request.starts_with("GET /a?b HTTP/1.1\r\nHost: rebind.test:"), "{request}");
            assert!(request.to_ascii_lowercase().contains("connection: close\r\n"), "{request}");
            caller.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await;
            caller.gone().await;
        };
        let (found, ()) = tokio::join!(guard.fetch(&url, RULES), answer);
        assert_eq!(found.unwrap().document.body, "ok");
        assert_eq!(names.asked(), expected, "one lookup a request");
    }
    let refused = guard.fetch(&url, RULES).await.unwrap_err();
    assert!(matches!(refused, Error::Blocked(_)), "{refused}");
    assert!(service.is_left_alone().await);
}

#[tokio::test]
async fn every_hop_is_judged_anew() {
    let service = StandIn::start().await;
    let port = service.address().port();
    let names = Names::of(&[("a.test", &[&["127.0.0.1"], &["127.0.0.2"]]), ("b.test", &[&["127.0.0.1"]])]);
    let guard = guard(&names, &["127.0.0.1"], &[]);
    let cases = [
        (
            format!("http://a.test:{port}/again"),
            "a.test resolves to 127.0.0.2, which is not a public address, so it is not called.",
        ),
        ("http://169.254.169.254/".to_owned(), "169.254.169.254 is not a public address, so it is not called."),
        ("ftp://b.test/".to_owned(), "the service redirects to something that is no URL"),
        (format!("http://u@b.test:{port}/"), "the service redirects to something that is no URL"),
        ("/loop".to_owned(), "the service redirects too often"),
    ];
    for (location, expected) in cases {
        let start = if location.contains("a.test") { "a.test" } else { "b.test" };
        let url: WebUrl = format!("http://{start}:{port}/").parse().unwrap();
        let answer = async {
            loop {
                let mut caller = service.accept().await;
                caller.request().await;
                caller.send(format!("HTTP/1.1 302 F\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n")).await;
            }
        };
        let refused =
            tokio::select! { found = guard.fetch(&url, RULES) => found.unwrap_err(), () = answer => unreachable!() };
        assert_eq!(refused.to_string(), expected, "{location}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lookup_that_hangs_ends_with_the_deadline_and_no_more_than_so_many_hang() {
    let names = Arc::new(Names { hangs: true, ..Names::default() });
    let guard = guard(&names, &[], &[]);
    let url: WebUrl = "https://slow.test/".parse().unwrap();
    let rules = Rules { bounds: Bounds { bytes: 1, time: Duration::from_secs(1) }, ..RULES };
    for _ in 0..LOOKUPS_MAX + 2 {
        let refused = guard.fetch(&url, rules).await.unwrap_err();
        assert!(matches!(refused, Error::Timeout { timer: Timer::Total, .. }), "{refused}");
    }
    assert_eq!(names.asked(), LOOKUPS_MAX);
}

#[tokio::test]
async fn a_document_is_bounded() {
    let service = StandIn::start().await;
    let guard = guard(&Names::of(&[]), &["127.0.0.1"], &[]);
    let url: WebUrl = service.url().parse().unwrap();
    let answer = async {
        let mut caller = service.accept().await;
        caller.request().await;
        caller.send(format!("HTTP/1.1 200 OK\r\n\r\n{}", "a".repeat(1001))).await;
    };
    let (found, ()) = tokio::join!(guard.fetch(&url, RULES), answer);
    assert_eq!(found.unwrap_err(), Error::TooLarge { limit: 1000 });
}
