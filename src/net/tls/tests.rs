use super::*;
use crate::net::stand_in::{StandIn, client, get, settings, tls_fixture as fixture};
use crate::net::{Client, ConnectError, Error as Failed, HttpVersion, peer};

fn trusting() -> Settings {
    Settings { ca: Some(fixture("ca.pem")), ..Settings::default() }
}

fn peer_settings(service: &StandIn, host: &str, tls: Settings) -> peer::Settings {
    peer::Settings { tls, ..settings(&format!("https://{host}:{}", service.address().port())) }
}

/// One request and its answer over TLS.
async fn exchange(client: &Client, service: &StandIn, settings: &peer::Settings, asks: bool) -> Result<String, Failed> {
    let peer = client.peer(settings).unwrap();
    let (answer, seen) = tokio::join!(client.send(&peer, get("/")), async {
        let mut caller = service.accept_tls(&[b"http/1.1"], asks).await.ok()?;
        let seen = caller.request().await;
        caller.send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n").await;
        Some(seen)
    });
    answer.map(|_| seen.unwrap())
}

#[tokio::test]
async fn a_service_with_an_authority_of_its_own_is_verified() {
    let (service, client) = (StandIn::start().await, client());
    for host in ["127.0.0.1", "localhost"] {
        let seen = exchange(&client, &service, &peer_settings(&service, host, trusting()), false).await.unwrap();
        assert!(seen.contains(&format!("Host: {host}:")), "{seen}");
    }
    let named = Settings { server_name: Some("service.test".into()), ..trusting() };
    exchange(&client, &service, &peer_settings(&service, "127.0.0.1", named), false).await.unwrap();
}

#[tokio::test]
async fn a_service_without_one_is_verified_against_the_systems_read_at_start_or_later() {
    let at_start = Roots::of(&fixture("ca.pem")).unwrap();
    let later = Roots { late: OnceLock::from(authorities(&fixture("ca.pem")).unwrap()), ..Roots::none() };
    let others = Roots::of(&fixture("client.pem")).unwrap();
    for (roots, verifies) in [(at_start, true), (later, true), (others, false)] {
        let (service, client) = (StandIn::start().await, Client::new(roots));
        let answer =
            exchange(&client, &service, &peer_settings(&service, "127.0.0.1", Settings::default()), false).await;
        assert_eq!(answer.is_ok(), verifies);
    }
}

#[tokio::test]
async fn another_name_or_an_unknown_authority_is_refused_with_its_reason() {
    let (service, client) = (StandIn::start().await, client());
    let other_name = Settings { server_name: Some("other.test".into()), ..trusting() };
    let other_authority = Settings { ca: Some(fixture("client.pem")), ..Settings::default() };
    for (tls, reason) in [(other_name, "not valid for name"), (other_authority, "UnknownIssuer")] {
        let refused = exchange(&client, &service, &peer_settings(&service, "127.0.0.1", tls), false).await.unwrap_err();
        let Failed::Connect { cause: ConnectError::Tls(said), .. } = &refused else { panic!("{refused:?}") };
        assert!(said.contains(reason), "{said}");
    }
}

#[tokio::test]
async fn verify_false_takes_any_certificate_also_without_any_authority() {
    let (service, client) = (StandIn::start().await, client());
    let tls = Settings { insecure: true, server_name: Some("other.test".into()), ..Settings::default() };
    exchange(&client, &service, &peer_settings(&service, "127.0.0.1", tls), false).await.unwrap();
}

#[tokio::test]
async fn connections_are_not_shared_between_peers_that_trust_differently() {
    let (service, client) = (StandIn::start().await, client());
    let verified = client.peer(&peer_settings(&service, "127.0.0.1", trusting())).unwrap();
    let other = Settings { ca: Some(fixture("client.pem")), ..Settings::default() };
    let refused = client.peer(&peer_settings(&service, "127.0.0.1", other)).unwrap();
    let (answer, _caller) = tokio::join!(client.send(&verified, get("/")), async {
        let mut caller = service.accept_tls(&[], false).await.unwrap();
        caller.request().await;
        caller.send("HTTP/1.1 204 No Content\r\n\r\n").await;
        caller
    });
    answer.unwrap();
    let (answer, _) = tokio::join!(client.send(&refused, get("/")), service.accept_tls(&[], false));
    assert!(matches!(answer.err(), Some(Failed::Connect { cause: ConnectError::Tls(_), .. })));
}

#[tokio::test]
async fn a_client_certificate_is_shown_where_it_is_asked_for() {
    let (service, client) = (StandIn::start().await, client());
    let tls = Settings { cert: Some(fixture("client.pem")), key: Some(fixture("client.key")), ..trusting() };
    exchange(&client, &service, &peer_settings(&service, "127.0.0.1", tls), true).await.unwrap();
    let refused = exchange(&client, &service, &peer_settings(&service, "127.0.0.1", trusting()), true).await;
    assert!(refused.unwrap_err().to_string().contains("client certificate"));
}

#[test]
fn a_server_name_that_no_certificate_can_hold_is_refused_at_load() {
    for (name, holds) in [("service.test", true), ("my_service.test", true), ("::1", true), ("a b", false), ("", false)]
    {
        assert_eq!(Credentials::read(&trusting(), name, &Roots::none()).is_ok(), holds, "{name}");
    }
}

#[tokio::test]
async fn http_2_is_used_where_it_is_negotiated_and_named_where_it_is_missing() {
    let (service, client) = (StandIn::start().await, client());
    let peer = client.peer(&peer_settings(&service, "127.0.0.1", trusting())).unwrap();
    let (answer, ()) = tokio::join!(client.send(&peer, get("/")), async {
        let caller = service.accept_tls(&[b"h2", b"http/1.1"], false).await.unwrap();
        let mut connection = h2::server::handshake(caller.stream).await.unwrap();
        let (request, mut respond) = connection.accept().await.unwrap().unwrap();
        assert_eq!(request.uri().scheme_str(), Some("https"));
        respond.send_response(http::Response::new(()), true).unwrap();
        tokio::spawn(async move { while connection.accept().await.is_some() {} });
    });
    assert_eq!(answer.unwrap().version, http::Version::HTTP_2);

    let only = peer::Settings { version: HttpVersion::Http2, ..peer_settings(&service, "127.0.0.1", trusting()) };
    let peer = client.peer(&only).unwrap();
    let (answer, _) = tokio::join!(client.send(&peer, get("/")), service.accept_tls(&[b"http/1.1"], false));
    assert!(answer.is_err());
}

#[tokio::test]
async fn a_body_that_ends_with_the_connection_needs_the_tls_close() {
    let (service, client) = (StandIn::start().await, client());
    let peer = client.peer(&peer_settings(&service, "127.0.0.1", trusting())).unwrap();
    for closes in [true, false] {
        let (end, ()) = tokio::join!(
            async {
                let mut response = client.send(&peer, get("/")).await.unwrap();
                response.chunk().await.unwrap();
                response.chunk().await
            },
            async {
                let mut caller = service.accept_tls(&[], false).await.unwrap();
                caller.request().await;
                caller.send("HTTP/1.1 200 OK\r\n\r\nhello").await;
                if closes {
                    tokio::io::AsyncWriteExt::shutdown(&mut caller.stream).await.unwrap();
                }
            }
        );
        assert_eq!(end, if closes { Ok(None) } else { Err(Failed::Truncated) });
    }
}

#[tokio::test]
async fn a_service_without_tls_is_a_failed_handshake() {
    let (service, client) = (StandIn::start().await, client());
    let peer = client.peer(&peer_settings(&service, "127.0.0.1", trusting())).unwrap();
    let (answer, ()) = tokio::join!(client.send(&peer, get("/")), async {
        service.accept().await.send("HTTP/1.1 400 Bad Request\r\n\r\n").await;
    });
    assert!(matches!(answer.err(), Some(Failed::Connect { cause: ConnectError::Tls(_), .. })));
}

#[tokio::test]
async fn a_handshake_that_hangs_meets_the_connect_timer() {
    let (service, client) = (StandIn::start().await, client());
    let within = std::time::Duration::from_millis(50);
    let settings = peer::Settings { connect: within, ..peer_settings(&service, "127.0.0.1", trusting()) };
    let peer = client.peer(&settings).unwrap();
    let (answer, _caller) = tokio::join!(client.send(&peer, get("/")), service.accept());
    assert!(matches!(answer.err(), Some(Failed::Connect { cause: ConnectError::Timeout(_), .. })));
}

#[test]
fn files_that_pingora_would_panic_on_are_named_with_what_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, content: &str| {
        let file = folder.path().join(name);
        fs::write(&file, content).unwrap();
        file
    };
    let good = fs::read_to_string(fixture("ca.pem")).unwrap();
    let key = fs::read_to_string(fixture("client.key")).unwrap();
    let cut = good.split_at(good.len() / 2).0;
    let broken = good.replace("\nMI", "\nAA");
    for (content, problem) in [
        ("", "holds no certificate in PEM"),
        ("hello", "holds no certificate in PEM"),
        (cut, "holds broken PEM at part 1"),
        (&broken, "holds a certificate that can't be read at part 1"),
        (&format!("{good}{broken}"), "holds a certificate that can't be read at part 2"),
        (&format!("{good}{key}"), "holds something other than a certificate at part 2"),
    ] {
        let error = authorities(&write("ca.pem", content)).unwrap_err().to_string();
        assert!(error.contains("ca.pem") && error.contains(problem), "{error}");
    }
    let missing = authorities(&folder.path().join("missing.pem")).unwrap_err();
    assert!(matches!(missing, Error::File { .. }));
    let large = write("large.pem", &"x".repeat(FILE_MAX as usize + 1));
    assert!(authorities(&large).unwrap_err().to_string().contains("larger than 1048576 bytes"));

    let (cert, own) = (fixture("client.pem"), fixture("client.key"));
    for (cert, key, problem) in [
        (cert.clone(), fixture("server.key"), "is not the key of"),
        (cert.clone(), cert.clone(), "holds no private key"),
        (own.clone(), own.clone(), "holds no certificate"),
        (write("broken.pem", &broken), own.clone(), "can't be read"),
        (write("cut.pem", cut), own, "holds broken PEM"),
    ] {
        let error = client_certificate(&cert, &key).unwrap_err().to_string();
        assert!(error.contains(problem), "{error}");
    }
    let half = Settings { cert: Some(cert), ..Settings::default() };
    assert!(matches!(Credentials::read(&half, "localhost", &Roots::none()), Err(Error::Half)));
}

#[test]
fn the_systems_authorities_are_needed_where_nothing_else_is_said() {
    assert!(needs_system_roots(&Settings::default()));
    assert!(!needs_system_roots(&trusting()));
    assert!(!needs_system_roots(&Settings { insecure: true, ..Settings::default() }));
}
