use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};

use super::*;
use crate::net::stand_in::{StandIn, client, get};
use crate::net::{ConnectError, Error as Failed};
use crate::yaml::Secret;

fn settings(url: &str) -> Settings {
    Settings {
        shared: false,
        name: "api".into(),
        url: url.parse().unwrap(),
        headers: Vec::new(),
        query: Vec::new(),
        api_key: None,
        timeout: settings::Timeouts::default(),
        tls: settings::Tls::default(),
        http: settings::HttpVersion::Auto,
        cookies: settings::Cookies::Drop,
    }
}

fn upstream(settings: Settings) -> Result<Arc<Upstream>, Error> {
    let name = settings.name.clone();
    let upstreams = Upstreams::new(BTreeMap::from([(name.clone(), settings)]), &client(), None)?;
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
    let peer = upstream.peer().http_peer().await.unwrap();
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

#[tokio::test]
async fn failures_in_a_row_are_counted_until_a_success() {
    let service = StandIn::start().await;
    let upstream = upstream(settings(&service.url())).unwrap();
    for (status, expected) in [("500 Oops", 1), ("503 Later", 2), ("404 Not Found", 0), ("502 Bad", 1)] {
        let (_, ()) = tokio::join!(upstream.send(get("/")), async {
            let mut caller = service.accept().await;
            caller.request().await;
            caller.send(format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")).await;
        });
        assert_eq!(upstream.failures_in_a_row(), expected, "{status}");
    }
    drop(service);
    let refused = upstream.send(get("/")).await.err().unwrap();
    assert!(matches!(refused, Failed::Connect { cause: ConnectError::Refused, .. }));
    assert_eq!(upstream.failures_in_a_row(), 2);
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
