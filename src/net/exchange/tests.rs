//! Over HTTP/2; what HTTP/1 does is tested with the client.

use std::time::Duration;

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream};
use http::{Response as Head, StatusCode, Version};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::net::stand_in::{Caller, PATIENCE, StandIn, client, get, post, settings};
use crate::net::{Client, End, Error, HttpVersion, Peer, peer};

type Connection = h2::server::Connection<TcpStream, Bytes>;

fn h2_peer(client: &Client, service: &StandIn) -> Peer {
    client.peer(&peer::Settings { version: HttpVersion::Http2, ..settings(&service.url()) }).unwrap()
}

async fn accept(service: &StandIn) -> Connection {
    let Caller { stream } = service.accept().await;
    timeout(PATIENCE, h2::server::handshake(stream)).await.unwrap().unwrap()
}

/// The next request; the connection itself is driven from now on.
async fn next(connection: &mut Connection) -> (http::Request<RecvStream>, SendResponse<Bytes>) {
    timeout(PATIENCE, connection.accept()).await.expect("no request comes").unwrap().unwrap()
}

fn drive(mut connection: Connection) {
    tokio::spawn(async move { while connection.accept().await.is_some() {} });
}

fn head() -> Head<()> {
    Head::builder().status(200).body(()).unwrap()
}

#[tokio::test]
async fn a_request_has_an_authority_no_host_and_one_end() {
    for body in ["", "hello"] {
        let (service, client) = (StandIn::start().await, client());
        let peer = h2_peer(&client, &service);
        let mut request = post("/a?b=c", body);
        request.headers.insert("connection", "close".parse().unwrap());
        request.headers.insert("te", "trailers".parse().unwrap());
        let (answer, (seen, received)) = tokio::join!(
            async {
                let mut response = client.send(&peer, request).await.unwrap();
                assert_eq!(response.chunk().await, Ok(Some(Bytes::from_static(b"ok"))));
                assert_eq!(response.chunk().await, Ok(None));
                response
            },
            async {
                let mut connection = accept(&service).await;
                let (request, mut respond) = next(&mut connection).await;
                drive(connection);
                let (parts, mut incoming) = request.into_parts();
                let mut received = Vec::new();
                while let Some(data) = incoming.data().await {
                    received.extend_from_slice(&data.unwrap());
                }
                respond.send_response(head(), false).unwrap().send_data("ok".into(), true).unwrap();
                (parts, received)
            }
        );
        assert_eq!((answer.status, answer.version, answer.end()), (StatusCode::OK, Version::HTTP_2, Some(End::Framed)));
        assert_eq!(seen.uri.to_string(), format!("http://{}/a?b=c", service.address()));
        assert_eq!(received, body.as_bytes());
        let names: Vec<_> = seen.headers.keys().map(http::HeaderName::as_str).collect();
        assert_eq!(names, ["content-length"]);
    }
}

#[tokio::test]
async fn a_request_without_a_body_ends_with_its_head() {
    let (service, client) = (StandIn::start().await, client());
    let peer = h2_peer(&client, &service);
    let (_answer, ended) = tokio::join!(client.send(&peer, get("/")), async {
        let mut connection = accept(&service).await;
        let (request, mut respond) = next(&mut connection).await;
        let ended = request.body().is_end_stream();
        respond.send_response(head(), true).unwrap();
        drive(connection);
        ended
    });
    assert!(ended);
}

#[tokio::test]
async fn dropping_a_response_resets_its_stream_and_keeps_the_connection() {
    let (service, client) = (StandIn::start().await, client());
    let peer = h2_peer(&client, &service);
    let (response, (mut body, connection)) = tokio::join!(
        async {
            let mut response = client.send(&peer, get("/1")).await.unwrap();
            response.chunk().await.unwrap();
            response
        },
        async {
            let mut connection = accept(&service).await;
            let (_, mut respond) = next(&mut connection).await;
            let mut body = respond.send_response(head(), false).unwrap();
            body.send_data("a".into(), false).unwrap();
            // The connection works only while it is asked for requests.
            let connection = tokio::spawn(async move {
                let (request, mut respond) = next(&mut connection).await;
                respond.send_response(head(), true).unwrap();
                drive(connection);
                request.uri().path().to_owned()
            });
            (body, connection)
        }
    );
    drop(response);
    let reason =
        timeout(Duration::from_millis(250), std::future::poll_fn(|cx| body.poll_reset(cx))).await.unwrap().unwrap();
    assert_eq!(reason, Reason::CANCEL);
    let next = client.send(&peer, get("/2")).await.unwrap();
    assert!(next.is_reused());
    assert_eq!(connection.await.unwrap(), "/2");
}

#[tokio::test]
async fn dropping_a_request_before_its_answer_resets_its_stream() {
    let (service, client) = (StandIn::start().await, client());
    let peer = h2_peer(&client, &service);
    let mut respond = {
        let sending = client.send(&peer, get("/"));
        tokio::select! {
            _ = sending => panic!("nobody answered"),
            respond = async {
                let mut connection = accept(&service).await;
                let (_, respond) = next(&mut connection).await;
                drive(connection);
                respond
            } => respond,
        }
    };
    let reason =
        timeout(Duration::from_millis(250), std::future::poll_fn(|cx| respond.poll_reset(cx))).await.unwrap().unwrap();
    assert_eq!(reason, Reason::CANCEL);
}

#[tokio::test]
async fn a_stream_that_is_reset_or_whose_connection_is_lost_is_no_clean_end() {
    for lost in [false, true] {
        let (service, client) = (StandIn::start().await, client());
        let peer = h2_peer(&client, &service);
        let (read, ()) = tokio::join!(
            async {
                let mut response = client.send(&peer, get("/")).await.unwrap();
                response.chunk().await.unwrap();
                response.chunk().await
            },
            async {
                let mut connection = accept(&service).await;
                let (_, mut respond) = next(&mut connection).await;
                let mut body = respond.send_response(head(), false).unwrap();
                body.send_data("a".into(), false).unwrap();
                if lost {
                    // Long enough for what was said to leave.
                    let _ = timeout(Duration::from_millis(20), connection.accept()).await;
                } else {
                    drive(connection);
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    body.send_reset(Reason::INTERNAL_ERROR);
                }
            }
        );
        assert_eq!(read, Err(Error::Reset), "lost: {lost}");
    }
}

#[tokio::test]
async fn a_refused_stream_is_tried_once_more_on_a_new_connection() {
    let (service, client) = (StandIn::start().await, client());
    let peer = h2_peer(&client, &service);
    let (answer, ()) = tokio::join!(client.send(&peer, post("/", "hello")), async {
        let mut first = accept(&service).await;
        let (_, mut respond) = next(&mut first).await;
        respond.send_reset(Reason::REFUSED_STREAM);
        drive(first);
        let mut second = accept(&service).await;
        let (_, mut respond) = next(&mut second).await;
        respond.send_response(head(), true).unwrap();
        drive(second);
    });
    assert_eq!(answer.unwrap().status, StatusCode::OK);
}

#[tokio::test]
async fn requests_at_the_same_time_share_a_connection_and_slow_readers_starve_nobody() {
    let (service, client) = (StandIn::start().await, client());
    let peer = h2_peer(&client, &service);
    let serving = async {
        let mut connection = accept(&service).await;
        while let Some(Ok((request, mut respond))) = connection.accept().await {
            let mut body = respond.send_response(head(), false).unwrap();
            let large = request.uri().path() == "/large";
            body.send_data(vec![b'x'; if large { 1 << 20 } else { 10 }].into(), true).unwrap();
        }
    };
    let calling = async {
        let mut slow = Vec::new();
        for _ in 0..20 {
            slow.push(client.send(&peer, get("/large")).await.unwrap());
        }
        // Each of the slow ones holds a full window; another's answer still comes.
        let mut quick = client.send(&peer, get("/small")).await.unwrap();
        assert_eq!(timeout(PATIENCE, quick.chunk()).await.unwrap().unwrap().unwrap().len(), 10);
        for mut response in slow {
            let mut read = 0;
            while let Some(chunk) = timeout(PATIENCE, response.chunk()).await.unwrap().unwrap() {
                read += chunk.len();
            }
            assert_eq!(read, 1 << 20);
        }
    };
    tokio::select! {
        () = calling => {}
        () = serving => panic!("the connection ended"),
    }
    assert!(service.is_left_alone().await, "one connection serves all");
}

#[tokio::test]
async fn an_unread_response_holds_one_window() {
    let (service, client) = (StandIn::start().await, client());
    let peer = h2_peer(&client, &service);
    let (_response, sent) = tokio::join!(client.send(&peer, get("/")), async {
        let mut connection = accept(&service).await;
        let (_, mut respond) = next(&mut connection).await;
        drive(connection);
        let mut body = respond.send_response(head(), false).unwrap();
        let mut sent = 0;
        loop {
            body.reserve_capacity(16 << 10);
            let granted = timeout(Duration::from_millis(200), std::future::poll_fn(|cx| body.poll_capacity(cx))).await;
            let Ok(Some(Ok(size))) = granted else { return sent };
            body.send_data(vec![b'x'; size].into(), false).unwrap();
            sent += size;
            assert!(sent < 16 << 20, "nothing stops the service");
        }
    });
    assert_eq!(sent, 128 << 10);
}

#[tokio::test]
async fn a_service_without_http_2_is_told_from_a_broken_one() {
    let (service, client) = (StandIn::start().await, client());
    let peer = h2_peer(&client, &service);
    let (answer, ()) = tokio::join!(client.send(&peer, get("/")), async {
        let mut caller = service.accept().await;
        caller.send("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").await;
    });
    let error = answer.err().unwrap();
    assert!(matches!(error, Error::Protocol(_) | Error::Reset), "{error:?}");
}

#[tokio::test]
async fn interim_answers_are_passed_over() {
    let (service, client) = (StandIn::start().await, client());
    let peer = h2_peer(&client, &service);
    let (answer, ()) = tokio::join!(client.send(&peer, get("/")), async {
        let mut connection = accept(&service).await;
        let (_, mut respond) = next(&mut connection).await;
        respond.send_informational(Head::builder().status(103).body(()).unwrap()).unwrap();
        respond.send_response(head(), true).unwrap();
        drive(connection);
    });
    assert_eq!(answer.unwrap().status, StatusCode::OK);
}

#[tokio::test]
async fn an_answer_that_comes_before_the_body_was_sent_is_heard() {
    let (service, client) = (StandIn::start().await, client());
    let peer = h2_peer(&client, &service);
    let (answer, ()) = tokio::join!(client.send(&peer, post("/", vec![b'x'; 1 << 20])), async {
        let mut connection = accept(&service).await;
        let (request, mut respond) = next(&mut connection).await;
        respond.send_response(Head::builder().status(413).body(()).unwrap(), true).unwrap();
        drop((request, respond));
        drive(connection);
    });
    assert_eq!(answer.unwrap().status, StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_is_reset_while_the_body_is_sent_is_an_error() {
    for _ in 0..20 {
        let (service, client) = (StandIn::start().await, client());
        let peer = h2_peer(&client, &service);
        let serving = tokio::spawn(async move {
            let Caller { stream } = service.accept().await;
            let mut windows = h2::server::Builder::new();
            windows.initial_window_size(32 << 20).initial_connection_window_size(32 << 20);
            let mut connection = windows.handshake(stream).await.unwrap();
            let (request, mut respond) = next(&mut connection).await;
            respond.send_reset(Reason::INTERNAL_ERROR);
            drop(request);
            while connection.accept().await.is_some() {}
        });
        let answer = client.send(&peer, post("/", vec![b'x'; 16 << 20])).await;
        assert_eq!(answer.err(), Some(Error::Reset));
        serving.abort();
    }
}
