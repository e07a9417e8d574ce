mod coding;
mod names;

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
async fn a_connection_is_used_again_once_its_answer_was_read_to_the_end() {
    let (service, client) = (StandIn::start().await, client());
    let peer = peer(&client, &service);
    let (_, mut caller) =
        tokio::join!(async { text(&mut client.send(&peer, get("/1")).await.unwrap()).await.unwrap() }, async {
            let mut caller = service.accept().await;
            caller.request().await;
            caller.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n").await;
            caller
        });
    let (response, seen) = tokio::join!(client.send(&peer, get("/2")), async {
        let seen = caller.request().await;
        caller.send(PLAIN).await;
        seen
    });
    assert!(response.unwrap().is_reused() && seen.starts_with("GET /2 "));
    // That one was dropped before its body was read.
    caller.gone().await;
}

#[tokio::test]
async fn a_connection_that_the_service_wants_closed_is_closed() {
    let (service, client) = (StandIn::start().await, client());
    let peer = peer(&client, &service);
    for head in ["HTTP/1.1 200 OK\r\nConnection: close", "HTTP/1.0 200 OK"] {
        let (_, mut caller) =
            tokio::join!(async { text(&mut client.send(&peer, get("/1")).await.unwrap()).await.unwrap() }, async {
                let mut caller = service.accept().await;
                caller.request().await;
                caller.send(format!("{head}\r\nContent-Length: 2\r\n\r\nok")).await;
                caller
            });
        caller.gone().await;
    }
}

#[tokio::test]
async fn a_response_that_is_dropped_midway_ends_the_request_at_once() {
    let (service, client) = (StandIn::start().await, client());
    let (mut response, mut caller) =
        answered(&client, &service, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n").await;
    assert_eq!(response.chunk().await, Ok(Some(Bytes::from_static(b"ok"))));
    drop(response);
    assert!(caller.gone().await < Duration::from_millis(250));
}

#[tokio::test]
async fn a_request_that_is_dropped_before_its_answer_ends_at_once() {
    let (service, client) = (StandIn::start().await, client());
    let peer = peer(&client, &service);
    let mut caller = {
        let sending = client.send(&peer, post("/", "hello"));
        tokio::select! {
            _ = sending => panic!("nobody answered"),
            caller = async { let mut caller = service.accept().await; caller.request().await; caller } => caller,
        }
    };
    assert!(caller.gone().await < Duration::from_millis(250));
}

#[tokio::test]
async fn release_reads_the_end_of_the_framing_and_keeps_the_connection() {
    let (service, client) = (StandIn::start().await, client());
    let peer = peer(&client, &service);
    let (mut response, mut caller) =
        answered(&client, &service, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\n[DONE]\r\n").await;
    assert_eq!(response.chunk().await, Ok(Some(Bytes::from_static(b"[DONE]"))));
    tokio::join!(response.release(), caller.send("0\r\n\r\n"));
    let (next, ()) = tokio::join!(client.send(&peer, get("/")), async {
        caller.request().await;
        caller.send(PLAIN).await;
    });
    assert!(next.unwrap().is_reused());
}

#[tokio::test]
async fn release_gives_up_on_a_service_that_goes_on() {
    let (service, client) = (StandIn::start().await, client());
    let peer = peer(&client, &service);
    for goes_on in [true, false] {
        let (response, mut caller) = tokio::join!(async { client.send(&peer, get("/")).await.unwrap() }, async {
            let mut caller = service.accept().await;
            caller.request().await;
            caller.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").await;
            if goes_on {
                caller.send(format!("8000\r\n{}\r\n", "x".repeat(0x8000))).await;
            }
            caller
        });
        tokio::join!(response.release(), async {
            assert!(caller.gone().await < Duration::from_secs(1));
        });
    }
}

#[tokio::test]
async fn what_is_there_is_read_without_waiting_and_what_is_not_is_not_lost() {
    let (service, client) = (StandIn::start().await, client());
    let (mut response, mut caller) =
        answered(&client, &service, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").await;
    assert!(response.ready_chunk().is_none());
    caller.send("1\r\na\r\n1\r\nb\r\n1\r\nc\r\n").await;
    assert_eq!(response.chunk().await, Ok(Some(Bytes::from_static(b"a"))));
    let mut rest = Vec::new();
    while let Some(read) = response.ready_chunk() {
        rest.extend_from_slice(&read.unwrap().unwrap());
    }
    assert_eq!(rest, b"bc");
    // Reads that were given up lose nothing, also in the middle of a chunk's head.
    let mut whole = Vec::new();
    for byte in "1\r\nd\r\n10\r\n0123456789abcdef\r\n0\r\n\r\n".bytes() {
        caller.send([byte]).await;
        if let Ok(Ok(Some(part))) = timeout(Duration::from_millis(1), response.chunk()).await {
            whole.extend_from_slice(&part);
        }
    }
    while let Some(part) = response.chunk().await.unwrap() {
        whole.extend_from_slice(&part);
    }
    assert_eq!(whole, b"d0123456789abcdef");
}

#[tokio::test]
async fn a_service_that_takes_connections_and_says_nothing_meets_the_first_byte_timer() {
    let (service, client) = (StandIn::start().await, client());
    let peer = peer(&client, &service);
    for begun in ["", "HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 200 OK\r\nX"] {
        let mut request = get("/");
        request.timeouts.first_byte = Some(Duration::from_millis(50));
        let (answer, mut caller) = tokio::join!(client.send(&peer, request), async {
            let mut caller = service.accept().await;
            caller.request().await;
            caller.send(begun).await;
            caller
        });
        assert_eq!(answer.err(), Some(Error::Timeout { timer: Timer::FirstByte, after: Duration::from_millis(50) }));
        caller.gone().await;
    }
}

#[tokio::test]
async fn silence_in_a_body_meets_the_idle_timer_and_a_slow_reader_does_not() {
    let (service, client) = (StandIn::start().await, client());
    let peer = peer(&client, &service);
    let mut request = get("/");
    request.timeouts.idle = Some(Duration::from_millis(50));
    let (answer, mut caller) = tokio::join!(client.send(&peer, request), async {
        let mut caller = service.accept().await;
        caller.request().await;
        caller.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello").await;
        caller
    });
    let mut response = answer.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(response.chunk().await, Ok(Some(Bytes::from_static(b"hello"))));
    let timed_out = Error::Timeout { timer: Timer::Idle, after: Duration::from_millis(50) };
    assert_eq!(response.chunk().await, Err(timed_out));
    caller.gone().await;
}

#[tokio::test]
async fn a_service_that_stops_reading_meets_the_write_timer() {
    let (service, client) = (StandIn::start().await, client());
    let peer = client.peer(&peer::Settings { write: Duration::from_millis(100), ..settings(&service.url()) }).unwrap();
    let (answer, _caller) = tokio::join!(client.send(&peer, post("/", vec![b'x'; 64 << 20])), service.accept());
    assert_eq!(answer.err(), Some(Error::Timeout { timer: Timer::Write, after: Duration::from_millis(100) }));
}

#[tokio::test]
async fn an_answer_that_comes_before_the_body_was_sent_is_heard() {
    let (service, client) = (StandIn::start().await, client());
    let peer = peer(&client, &service);
    for closes in [false, true] {
        let (answer, ()) = tokio::join!(
            async {
                let mut response = client.send(&peer, post("/", vec![b'x'; 32 << 20])).await?;
                let body = text(&mut response).await?;
                Ok::<_, Error>((response.status.as_u16(), body))
            },
            async {
                let mut caller = service.accept().await;
                caller.stream.read_exact(&mut [0; 1000]).await.unwrap();
                caller.send("HTTP/1.1 413 Payload Too Large\r\nContent-Length: 9\r\n\r\ntoo large").await;
                if !closes {
                    // It reads on, and the rest is not sent.
                    let mut rest = Vec::new();
                    let _ = caller.stream.read_to_end(&mut rest).await;
                    assert!(rest.len() < 16 << 20, "{} bytes were sent after the answer", rest.len());
                }
            }
        );
        assert_eq!(answer, Ok((413, "too large".to_owned())), "closes: {closes}");
    }
}

#[tokio::test]
async fn a_pooled_connection_that_died_costs_one_more_try() {
    let (service, client) = (StandIn::start().await, client());
    let peer = peer(&client, &service);
    for round in 0..20 {
        let (_, mut caller) =
            tokio::join!(async { text(&mut client.send(&peer, get("/1")).await.unwrap()).await.unwrap() }, async {
                let mut caller = service.accept().await;
                caller.request().await;
                caller.send(PLAIN).await;
                caller
            });
        // It dies when the next request is already on its way.
        let (answer, seen) = tokio::join!(client.send(&peer, post("/2", "hello")), async {
            caller.request().await;
            if round % 2 == 0 {
                drop(caller);
            } else {
                caller.reset();
            }
            let mut caller = service.accept().await;
            let seen = caller.request().await;
            caller.send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok").await;
            seen
        });
        let mut response = answer.unwrap();
        assert!(!response.is_reused() && seen.ends_with("hello"));
        text(&mut response).await.unwrap();
    }
}

#[tokio::test]
async fn a_request_whose_answer_had_begun_is_never_sent_again() {
    let (service, client) = (StandIn::start().await, client());
    let peer = peer(&client, &service);
    let (_, mut caller) =
        tokio::join!(async { text(&mut client.send(&peer, get("/1")).await.unwrap()).await.unwrap() }, async {
            let mut caller = service.accept().await;
            caller.request().await;
            caller.send(PLAIN).await;
            caller
        });
    let (answer, ()) = tokio::join!(client.send(&peer, post("/2", "hello")), async {
        caller.request().await;
        caller.send("HTTP/1.1 200 OK\r\nCont").await;
        drop(caller);
    });
    assert_eq!(answer.err(), Some(Error::Truncated));
    assert!(service.is_left_alone().await);
}

#[tokio::test]
async fn a_new_connection_that_dies_is_not_tried_again() {
    let (service, client) = (StandIn::start().await, client());
    let peer = peer(&client, &service);
    let (answer, ()) = tokio::join!(client.send(&peer, get("/")), async {
        let mut caller = service.accept().await;
        caller.request().await;
    });
    assert_eq!(answer.err(), Some(Error::Truncated));
    assert!(service.is_left_alone().await);
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

#[tokio::test]
async fn a_slow_reader_makes_the_service_wait() {
    let (service, client) = (StandIn::start().await, client());
    let (mut response, mut caller) = answered(&client, &service, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n").await;
    let mut written = 0;
    let part = vec![b'x'; 64 << 10];
    while let Ok(sent) =
        timeout(Duration::from_millis(200), tokio::io::AsyncWriteExt::write(&mut caller.stream, &part)).await
    {
        written += sent.unwrap();
        assert!(written < 64 << 20, "nothing stops the service");
    }
    let mut read = 0;
    while read < written {
        let chunk = timeout(PATIENCE, response.chunk()).await.unwrap().unwrap().unwrap();
        assert!(chunk.len() <= 64 << 10);
        read += chunk.len();
    }
}

#[tokio::test]
async fn requests_at_the_same_time_share_a_client() {
    let service = Arc::new(StandIn::start().await);
    let client = client();
    let peer = Arc::new(peer(&client, &service));
    let serving = tokio::spawn({
        let service = Arc::clone(&service);
        async move {
            for _ in 0..50 {
                let mut caller = service.accept().await;
                tokio::spawn(async move {
                    let seen = caller.request().await;
                    let path = seen.split(' ').nth(1).unwrap().to_owned();
                    let head =
                        format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", path.len());
                    caller.send(head + &path).await;
                });
            }
        }
    });
    let requests = (0..50).map(|number| {
        let (client, peer) = (client.clone(), Arc::clone(&peer));
        tokio::spawn(async move {
            let mut response = client.send(&peer, get(&format!("/{number}"))).await.unwrap();
            assert_eq!(text(&mut response).await.unwrap(), format!("/{number}"));
        })
    });
    for request in requests.collect::<Vec<_>>() {
        request.await.unwrap();
    }
    serving.await.unwrap();
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
