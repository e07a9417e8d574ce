mod coding;
mod names;
mod pool;
mod waits;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use tokio::io::AsyncReadExt;
use tokio::time::timeout;

use super::*;
use crate::net::stand_in::{Caller, PATIENCE, StandIn, client, get, peer, post, settings};
use crate::net::{End, HttpVersion, Timer};

const PLAIN: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

async fn text(response: &mut Response) -> Result<String, Error> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        assert!(!chunk.is_empty());
        body.extend_from_slice(&chunk);
    }
    Ok(String::from_utf8(body).unwrap())
}

/// A response whose head and first bytes are `begun`, and the service's side of its connection.
async fn answered(client: &Client, service: &StandIn, begun: &str) -> (Response, Caller) {
    let peer = peer(client, service);
    tokio::join!(async { client.send(&peer, get("/")).await.unwrap() }, async {
        let mut caller = service.accept().await;
        caller.request().await;
        caller.send(begun).await;
        caller
    })
}

#[tokio::test]
async fn a_request_goes_out_as_it_was_made() {
    let (service, client) = (StandIn::start().await, client());
    let peer = peer(&client, &service);
    let mut request = post("/a%2Fb?q=1&q", "{\"a\":1}");
    request.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    request.headers.append("x-twice", HeaderValue::from_static("1"));
    request.headers.append("x-twice", HeaderValue::from_static("2"));
    for (name, value) in
        [("connection", "close"), ("transfer-encoding", "chunked"), ("te", "trailers"), ("upgrade", "h2c")]
    {
        request.headers.insert(name, HeaderValue::from_static(value));
    }
    request.headers.insert(header::CONTENT_LENGTH, HeaderValue::from_static("999"));
    let (answer, seen) = tokio::join!(client.send(&peer, request), async {
        let mut caller = service.accept().await;
        let seen = caller.request().await;
        caller.send(PLAIN).await;
        seen
    });
    let mut response = answer.unwrap();
    assert_eq!((response.status, text(&mut response).await.unwrap().as_str()), (StatusCode::OK, "ok"));
    assert_eq!(
        seen,
        format!(
            "POST /a%2Fb?q=1&q HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nx-twice: 1\r\nx-twice: 2\r\n\
             Content-Length: 7\r\n\r\n{{\"a\":1}}",
            service.address()
        )
    );
}

#[tokio::test]
async fn a_safe_method_without_a_body_says_no_length_and_others_say_zero() {
    let (service, client) = (StandIn::start().await, client());
    let peer = peer(&client, &service);
    for (request, expected) in
        [(get("/"), None), (Request { method: Method::DELETE, ..get("/") }, Some("Content-Length: 0"))]
    {
        let (answer, seen) = tokio::join!(client.send(&peer, request), async {
            let mut caller = service.accept().await;
            let seen = caller.request().await;
            caller.send("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n").await;
            seen
        });
        answer.unwrap();
        assert_eq!(seen.lines().find(|line| line.starts_with("Content-Length")), expected);
    }
}

#[tokio::test]
async fn a_host_of_the_request_stands() {
    let (service, client) = (StandIn::start().await, client());
    let peer = peer(&client, &service);
    let mut request = get("/");
    request.headers.insert(header::HOST, HeaderValue::from_static("other.example"));
    let (answer, seen) = tokio::join!(client.send(&peer, request), async {
        let mut caller = service.accept().await;
        let seen = caller.request().await;
        caller.send(PLAIN).await;
        seen
    });
    answer.unwrap();
    assert_eq!(seen.matches("Host: ").count(), 1);
    assert!(seen.contains("Host: other.example\r\n"));
}

#[tokio::test]
async fn http_1_0_is_spoken_where_it_is_asked_for() {
    let (service, client) = (StandIn::start().await, client());
    let peer = client.peer(&peer::Settings { version: HttpVersion::Http10, ..settings(&service.url()) }).unwrap();
    let (answer, seen) = tokio::join!(client.send(&peer, post("/x", "hello")), async {
        let mut caller = service.accept().await;
        let seen = caller.request().await;
        caller.send("HTTP/1.0 200 OK\r\n\r\nold").await;
        seen
    });
    let mut response = answer.unwrap();
    assert!(seen.starts_with("POST /x HTTP/1.0\r\n") && seen.ends_with("Content-Length: 5\r\n\r\nhello"), "{seen}");
    assert_eq!(text(&mut response).await.unwrap(), "old");
    assert_eq!(response.end(), Some(End::Closed));
}

#[tokio::test]
async fn interim_answers_are_passed_over() {
    let (service, client) = (StandIn::start().await, client());
    let peer = peer(&client, &service);
    let (answer, _caller) = tokio::join!(client.send(&peer, get("/")), async {
        let mut caller = service.accept().await;
        caller.request().await;
        caller.send("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 20").await;
        tokio::task::yield_now().await;
        caller.send("1 Created\r\nContent-Length: 2\r\n\r\nok").await;
        caller
    });
    let mut response = answer.unwrap();
    assert_eq!((response.status.as_u16(), text(&mut response).await.unwrap().as_str()), (201, "ok"));
    assert!(!response.headers.contains_key("link"));
}

#[tokio::test]
async fn endless_interim_answers_and_an_unasked_switch_are_refused() {
    let (service, client) = (StandIn::start().await, client());
    let peer = peer(&client, &service);
    for head in
        ["HTTP/1.1 102 Processing\r\n\r\n".repeat(100), "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n".into()]
    {
        let (answer, mut caller) = tokio::join!(client.send(&peer, get("/")), async {
            let mut caller = service.accept().await;
            caller.request().await;
            caller.send(&head).await;
            caller
        });
        assert!(matches!(answer, Err(Error::Protocol(_))));
        caller.gone().await;
    }
}

#[tokio::test]
async fn a_body_comes_whole_however_it_is_cut() {
    let (service, client) = (StandIn::start().await, client());
    let peer = peer(&client, &service);
    for (answer, end) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello world", End::Framed),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
             6\r\nhello \r\n5;ext=1\r\nworld\r\n0\r\nTrailer: x\r\n\r\n",
            End::Framed,
        ),
        ("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello world", End::Closed),
    ] {
        for step in [1, 2, 3, 7, 1000] {
            let (response, ()) = tokio::join!(
                async {
                    let mut response = client.send(&peer, get("/")).await.unwrap();
                    assert_eq!(response.end(), None);
                    assert_eq!(text(&mut response).await.unwrap(), "hello world", "{answer} by {step}");
                    // Asked again after its end, it has ended.
                    assert_eq!(response.chunk().await, Ok(None));
                    response
                },
                async {
                    let mut caller = service.accept().await;
                    caller.request().await;
                    for part in answer.as_bytes().chunks(step) {
                        caller.send(part).await;
                        tokio::task::yield_now().await;
                    }
                }
            );
            assert_eq!(response.end(), Some(end));
            assert!(!response.is_reused());
        }
    }
}

#[tokio::test]
async fn a_cut_body_is_told_from_a_whole_one() {
    let (service, client) = (StandIn::start().await, client());
    let peer = peer(&client, &service);
    for head in ["Content-Length: 100", "Transfer-Encoding: chunked"] {
        for body in ["", "5\r\nhello", "5\r\nhello\r\n", "5\r\nhello\r\n0\r\n"] {
            let (response, ()) = tokio::join!(
                async {
                    let mut response = client.send(&peer, get("/")).await.unwrap();
                    assert_eq!(text(&mut response).await, Err(Error::Truncated), "{head} {body:?}");
                    assert_eq!(response.chunk().await, Err(Error::Truncated), "it stays an error");
                    response
                },
                async {
                    let mut caller = service.accept().await;
                    caller.request().await;
                    caller.send(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n{body}")).await;
                }
            );
            assert_eq!(response.end(), None);
        }
    }
}

#[tokio::test]
async fn a_reset_is_an_error_in_every_framing() {
    let (service, client) = (StandIn::start().await, client());
    let peer = peer(&client, &service);
    for head in ["Content-Length: 100", "Transfer-Encoding: chunked", "Connection: close"] {
        let (read, ()) = tokio::join!(
            async {
                let mut response = client.send(&peer, get("/")).await.unwrap();
                response.chunk().await.unwrap();
                response.chunk().await
            },
            async {
                let mut caller = service.accept().await;
                caller.request().await;
                caller.send(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n3\r\nabc\r\n")).await;
                tokio::time::sleep(Duration::from_millis(20)).await;
                caller.reset();
            }
        );
        assert_eq!(read, Err(Error::Reset), "{head}");
    }
}

#[tokio::test]
async fn what_is_no_http_is_refused_without_quoting_it() {
    let (service, client) = (StandIn::start().await, client());
    let peer = peer(&client, &service);
    for answer in [
        "SSH-2.0-OpenSSH_9.2\r\n".to_owned(),
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\nX: secret\r\n\r\n".into(),
        "HTTP/1.1 200 OK\r\nX\0: secret\r\n\r\n".into(),
        format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "secret".repeat(20_000)),
    ] {
        let (sent, ()) = tokio::join!(client.send(&peer, get("/")), async {
            let mut caller = service.accept().await;
            caller.request().await;
            let _ = tokio::io::AsyncWriteExt::write_all(&mut caller.stream, answer.as_bytes()).await;
        });
        let error = sent.err().unwrap();
        assert!(matches!(error, Error::Protocol(_)), "{error:?}");
        assert!(!error.to_string().contains("secret"));
    }
}

#[tokio::test]
async fn broken_chunks_are_refused() {
    let (service, client) = (StandIn::start().await, client());
    let peer = peer(&client, &service);
    for body in ["zz\r\nhello\r\n0\r\n\r\n", "5\r\nhelloxx0\r\n\r\n", "ffffffffffffffffff\r\nx"] {
        let (read, _caller) = tokio::join!(
            async {
                let mut response = client.send(&peer, get("/")).await.unwrap();
                text(&mut response).await
            },
            async {
                let mut caller = service.accept().await;
                caller.request().await;
                caller.send(format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{body}")).await;
                caller
            }
        );
        assert!(matches!(read, Err(Error::Protocol(_))), "{read:?}");
    }
}

#[tokio::test]
async fn an_answer_without_a_body_is_over_at_its_head() {
    let (service, client) = (StandIn::start().await, client());
    let peer = peer(&client, &service);
    for (method, head) in [
        (Method::HEAD, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"),
        (Method::GET, "HTTP/1.1 204 No Content\r\n\r\n"),
        (Method::GET, "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n"),
        (Method::GET, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
    ] {
        let request = Request { method, ..get("/") };
        let (answer, mut caller) = tokio::join!(client.send(&peer, request), async {
            let mut caller = service.accept().await;
            caller.request().await;
            caller.send(head).await;
            caller
        });
        let mut response = answer.unwrap();
        assert_eq!(response.end(), Some(End::Framed));
        assert_eq!(response.chunk().await, Ok(None));
        // Its connection serves the next request; which then has to be closed.
        let (next, ()) = tokio::join!(client.send(&peer, get("/next")), async {
            caller.request().await;
            caller.send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n").await;
        });
        assert!(next.unwrap().is_reused());
    }
}

#[tokio::test]
async fn a_closed_port_is_refused_and_nothing_was_sent() {
    let client = client();
    let peer = client.peer(&settings(&StandIn::start().await.url())).unwrap();
    let error = client.send(&peer, get("/")).await.err().unwrap();
    assert!(matches!(error, Error::Connect { cause: ConnectError::Refused, .. }), "{error:?}");
    assert!(error.is_unsent());
    assert!(error.to_string().ends_with("connection refused"), "{error}");
}

#[tokio::test]
async fn metadata_addresses_are_never_connected_to() {
    let client = client();
    for host in ["169.254.169.254", "[::ffff:169.254.169.254]", "[fd00:ec2::254]"] {
        let peer = client.peer(&settings(&format!("http://{host}"))).unwrap();
        assert!(matches!(client.send(&peer, get("/")).await.err(), Some(Error::Forbidden(_))), "{host}");
        assert!(matches!(peer.http_peer().await, Err(Error::Forbidden(_))), "{host}");
    }
}

#[test]
fn a_request_shows_what_it_holds() {
    // What is marked as sensitive stays hidden.
    let mut headers = HeaderMap::new();
    let mut secret = HeaderValue::from_static("s3cret");
    secret.set_sensitive(true);
    headers.insert(header::AUTHORIZATION, secret);
    assert!(!format!("{:?}", Request { headers, ..get("/") }).contains("s3cret"));
}
