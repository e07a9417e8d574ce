use super::*;
use crate::net::stand_in::{PATIENCE, StandIn, client, get, peer, post};

const BOUNDS: Bounds = Bounds { bytes: 1000, time: PATIENCE };

/// Answers one request a connection, in this order, and gives what was asked for.
async fn serve(service: &StandIn, answers: &[&str]) -> Vec<String> {
    let mut seen = Vec::new();
    for answer in answers {
        let mut caller = service.accept().await;
        let request = caller.request().await;
        seen.push(request.lines().next().unwrap().to_owned());
        caller.send(answer.replace("SERVICE", &service.url()).replacen("\r\n", "\r\nConnection: close\r\n", 1)).await;
    }
    seen
}

fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

fn redirect_to(location: &str) -> String {
    format!("HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 4\r\n\r\ngone")
}

#[tokio::test]
async fn a_document_comes_whole_whatever_its_status() {
    let (service, client) = (StandIn::start().await, client());
    let peer = peer(&client, &service);
    for status in [200, 404, 500] {
        let answer = format!("HTTP/1.1 {status} Whatever\r\nContent-Type: text/plain\r\n\r\nhello world");
        let answers = [answer.as_str()];
        let (fetched, _) = tokio::join!(client.fetch(&peer, post("/a?b", "x"), BOUNDS), serve(&service, &answers));
        let document = fetched.unwrap();
        assert_eq!((document.status.as_u16(), &*document.body), (status, b"hello world".as_slice()));
        assert_eq!(
            (document.target.as_str(), document.headers["content-type"].as_bytes()),
            ("/a?b", b"text/plain".as_slice())
        );
    }
}

#[tokio::test]
async fn a_document_over_the_limit_is_refused_however_it_is_sent() {
    let (service, client) = (StandIn::start().await, client());
    let peer = peer(&client, &service);
    let large = "x".repeat(1001);
    for answer in [ok(&large), format!("HTTP/1.1 200 OK\r\n\r\n{large}")] {
        let answers = [answer.as_str()];
        let (fetched, _) = tokio::join!(client.fetch(&peer, get("/"), BOUNDS), serve(&service, &answers));
        assert_eq!(fetched.unwrap_err(), Error::TooLarge { limit: 1000 });
    }
    let answer = ok(&"x".repeat(1000));
    let answers = [answer.as_str()];
    let (fetched, _) = tokio::join!(client.fetch(&peer, get("/"), BOUNDS), serve(&service, &answers));
    assert_eq!(fetched.unwrap().body.len(), 1000);
}

#[tokio::test]
async fn a_document_that_trickles_meets_the_deadline() {
    let (service, client) = (StandIn::start().await, client());
    let peer = peer(&client, &service);
    let bounds = Bounds { time: Duration::from_millis(100), ..BOUNDS };
    let trickle = async {
        let mut caller = service.accept().await;
        caller.send("HTTP/1.1 200 OK\r\n\r\n").await;
        loop {
            caller.send("x").await;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let fetched = tokio::select! {
        fetched = client.fetch(&peer, get("/"), bounds) => fetched,
        () = trickle => unreachable!(),
    };
    assert_eq!(fetched.unwrap_err(), Error::Timeout { timer: Timer::Total, after: Duration::from_millis(100) });
}

#[tokio::test]
async fn redirects_within_the_origin_are_followed() {
    let (service, client) = (StandIn::start().await, client());
    let peer = peer(&client, &service);
    for (location, target) in [
        ("/b/c?d=1#part", "/b/c?d=1"),
        ("other", "/docs/other"),
        ("SERVICE/absolute", "/absolute"),
        ("//HOST/without-scheme", "/without-scheme"),
    ] {
        let location = location.replace("HOST", &service.address().to_string());
        let answers = [redirect_to(&location), ok("here")];
        let answers = [answers[0].as_str(), answers[1].as_str()];
        let (fetched, seen) = tokio::join!(client.fetch(&peer, get("/docs/start"), BOUNDS), serve(&service, &answers));
        let document = fetched.unwrap();
        assert_eq!((document.target.as_str(), &*document.body), (target, b"here".as_slice()));
        assert_eq!(seen, ["GET /docs/start HTTP/1.1", &format!("GET {target} HTTP/1.1")]);
    }
}

#[tokio::test]
async fn redirects_to_another_origin_are_not_followed() {
    let (service, client) = (StandIn::start().await, client());
    let peer = peer(&client, &service);
    let port = service.address().port();
    for location in [
        format!("http://localhost:{port}/"),
        format!("https://127.0.0.1:{port}/"),
        "http://127.0.0.1/".to_owned(),
        "//example.com/".to_owned(),
        format!("http://127.0.0.1:{port}@example.com/"),
    ] {
        let answer = redirect_to(&location);
        let answers = [answer.as_str()];
        let (fetched, _) = tokio::join!(client.fetch(&peer, get("/"), BOUNDS), serve(&service, &answers));
        assert_eq!(fetched.unwrap_err(), Error::Redirect("to another origin"), "{location}");
    }
    for location in ["http://", "http://[x/", "/a b"] {
        let answer = redirect_to(location);
        let answers = [answer.as_str()];
        let (fetched, _) = tokio::join!(client.fetch(&peer, get("/"), BOUNDS), serve(&service, &answers));
        assert_eq!(fetched.unwrap_err(), Error::Redirect("to something that is no URL"), "{location}");
    }
    assert!(service.is_left_alone().await);
}

#[tokio::test]
async fn a_fourth_redirect_and_one_of_a_post_are_not_followed() {
    let (service, client) = (StandIn::start().await, client());
    let peer = peer(&client, &service);
    let answer = redirect_to("/again");
    let answers = [answer.as_str(); 4];
    let (fetched, _) = tokio::join!(client.fetch(&peer, get("/"), BOUNDS), serve(&service, &answers));
    assert_eq!(fetched.unwrap_err(), Error::Redirect("too often"));
    let (fetched, _) = tokio::join!(client.fetch(&peer, post("/", "x"), BOUNDS), serve(&service, &answers[..1]));
    assert_eq!(fetched.unwrap().status, StatusCode::FOUND);
}

#[tokio::test]
async fn a_document_that_is_small_only_while_it_is_compressed_is_refused() {
    use std::io::Write;

    let (service, client) = (StandIn::start().await, client());
    let peer = peer(&client, &service);
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(&vec![b'x'; 100_000]).unwrap();
    let body = encoder.finish().unwrap();
    assert!(body.len() < BOUNDS.bytes);
    let (fetched, ()) = tokio::join!(client.fetch(&peer, get("/"), BOUNDS), async {
        let mut caller = service.accept().await;
        caller.request().await;
        caller.send(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n").await;
        caller.send(&body).await;
    });
    assert_eq!(fetched.unwrap_err(), Error::TooLarge { limit: 1000 });
}
