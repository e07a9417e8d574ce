use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};

use super::*;
use crate::net::stand_in::{StandIn, client, get};
use crate::net::{Error as Failed, Request};
use crate::yaml::Secret;

fn settings(url: &str) -> Settings {
    Settings::at("api", url.parse().unwrap())
}

fn upstream(settings: Settings) -> Result<Arc<Upstream>, Error> {
    let name = settings.name.clone();
    let upstreams = Upstreams::new(BTreeMap::from([(name.clone(), settings)]), &client(), None, None)?;
    Ok(Arc::clone(upstreams.get(&name).unwrap()))
}

#[test]
fn each_kind_of_use_has_its_patience_and_what_is_set_holds_for_both() {
    let minutes = Duration::from_mins;
    let default = upstream(settings("http://127.0.0.1")).unwrap();
    let expected = Timeouts {
        connect: Duration::from_secs(5),
        first_byte: minutes(1),
        idle: minutes(1),
        progress: minutes(1),
        total: None,
    };
    assert_eq!(default.timeouts(Kind::Capability), expected);
    let expected = Timeouts { first_byte: minutes(5), idle: minutes(2), progress: minutes(5), ..expected };
    assert_eq!(default.timeouts(Kind::Talk), expected);

    let second = Duration::from_secs(1);
    let timeout = settings::Timeouts {
        connect: Some(second),
        first_byte: Some(second * 2),
        idle: Some(second * 3),
        progress: Some(second * 4),
        total: Some(second * 5),
    };
    let set = upstream(Settings { timeout, ..settings("http://127.0.0.1") }).unwrap();
    for kind in [Kind::Capability, Kind::Talk] {
        let Timeouts { connect, first_byte, idle, progress, total } = set.timeouts(kind);
        assert_eq!([connect, first_byte, idle, progress, total.unwrap()], [1, 2, 3, 4, 5].map(|count| second * count));
    }
}

#[tokio::test]
async fn pingoras_proxy_is_given_every_timer() {
    let upstream = upstream(settings("http://127.0.0.1:81")).unwrap();
    let peer = upstream.pick(None, &[]).unwrap().peer().http_peer().await.unwrap();
    assert_eq!(peer._address.to_string(), "127.0.0.1:81");
    let options = &peer.options;
    assert_eq!(options.total_connection_timeout, Some(Duration::from_secs(5)));
    assert_eq!(
        (options.read_timeout, options.write_timeout),
        (Some(Duration::from_mins(1)), Some(Duration::from_mins(1)))
    );
    assert!(options.idle_timeout.is_some());
}

#[test]
fn configured_headers_replace_the_callers() {
    let headers = [("x-key", "k3y"), ("x-tag", "a"), ("x-tag", "b")];
    let headers = headers.map(|(name, value)| (HeaderName::from_static(name), Secret::new(value))).to_vec();
    let upstream = upstream(Settings { headers, ..settings("http://127.0.0.1") }).unwrap();
    let mut sent = HeaderMap::new();
    for name in ["x-key", "x-key", "x-tag", "x-other"] {
        sent.append(name, HeaderValue::from_static("the caller's"));
    }
    upstream.set_headers(&mut sent);
    let of = |name| sent.get_all(name).iter().map(|value| value.to_str().unwrap()).collect::<Vec<_>>();
    assert_eq!((of("x-key"), of("x-tag"), of("x-other")), (vec!["k3y"], vec!["a", "b"], vec!["the caller's"]));
    assert!(!format!("{sent:?}").contains("k3y"));
}

#[test]
fn a_secret_that_no_header_can_carry_is_named_and_not_shown() {
    let headers = vec![(HeaderName::from_static("x-key"), Secret::new("k3y\r\nX: y"))];
    let error = upstream(Settings { headers, ..settings("http://127.0.0.1") }).err().unwrap();
    assert_eq!(
        error.to_string(),
        "upstream `api`: the value of header `x-key` holds a character that no header can carry"
    );
    assert!(!format!("{error:?}").contains("k3y"));
}

#[test]
fn a_certificate_that_can_not_be_read_names_the_upstream_and_the_file() {
    let tls = settings::Tls { ca: Some("/nowhere/ca.pem".into()), ..settings::Tls::default() };
    let error = upstream(Settings { tls, ..settings("https://127.0.0.1") }).err().unwrap().to_string();
    assert!(error.starts_with("upstream `api`: /nowhere/ca.pem can't be read: "), "{error}");
}

/// Answers so many requests with this status, and tells how many came.
fn answering(service: StandIn, status: &'static str) -> Arc<AtomicUsize> {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    tokio::spawn(async move {
        loop {
            let mut caller = service.accept().await;
            caller.request().await;
            counted.fetch_add(1, Ordering::Relaxed);
            caller.send(format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")).await;
        }
    });
    count
}

fn served_by(urls: &[String]) -> Settings {
    let servers = urls.iter().map(|url| settings::Server { url: url.parse().unwrap(), weight: 1 }).collect();
    Settings { servers, ..settings(&urls[0]) }
}

#[tokio::test]
async fn a_server_that_can_not_be_reached_is_none_of_the_callers_business() {
    let (well, gone) = (StandIn::start().await, StandIn::start().await);
    let urls = [gone.url(), well.url()];
    drop(gone);
    let asked = answering(well, "200 OK");
    let upstream = upstream(served_by(&urls)).unwrap();
    for _ in 0..20 {
        assert_eq!(upstream.send(get("/")).await.unwrap().status, 200);
    }
    assert_eq!(asked.load(Ordering::Relaxed), 20);
}

#[tokio::test]
async fn what_is_safe_is_sent_again_within_its_budget() {
    let bad = StandIn::start().await;
    let url = bad.url();
    let asked = answering(bad, "503 Later");
    let when = [settings::When::Status(503)];
    let once = upstream(settings(&url)).unwrap();
    assert_eq!(once.send(get("/")).await.unwrap().status, 503);
    assert_eq!(asked.swap(0, Ordering::Relaxed), 1);
    let twice =
        upstream(Settings { retry: Some(settings::Retry { attempts: 2, when: when.to_vec() }), ..settings(&url) })
            .unwrap();
    assert_eq!(twice.send(get("/")).await.unwrap().status, 503);
    assert_eq!(asked.swap(0, Ordering::Relaxed), 2);
    let post = Request { method: http::Method::POST, ..get("/") };
    assert_eq!(twice.send(post).await.unwrap().status, 503);
    assert_eq!(asked.swap(0, Ordering::Relaxed), 1);
}

#[tokio::test]
async fn an_upstream_that_does_nothing_but_fail_is_left_alone_and_tried_again() {
    let gone = StandIn::start().await;
    let url = gone.url();
    drop(gone);
    let upstream = upstream(settings(&url)).unwrap();
    for _ in 0..20 {
        assert!(matches!(upstream.send(get("/")).await, Err(Failed::Connect { .. })));
    }
    let refused = upstream.send(get("/")).await.err().unwrap();
    assert!(
        matches!(refused, Failed::Unavailable { retry_after } if retry_after <= Duration::from_secs(1)),
        "{refused}"
    );
}

#[test]
fn the_systems_authorities_are_needed_for_https_alone() {
    let own = settings::Tls { ca: Some("ca.pem".into()), ..settings::Tls::default() };
    let http = settings("http://127.0.0.1");
    let https = settings("https://127.0.0.1");
    let own = Settings { tls: own, ..https.clone() };
    assert!(!need_system_roots([&http, &own]));
    assert!(need_system_roots([&http, &own, &https]));
}
