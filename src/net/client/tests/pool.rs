//! Connections: which of them serve another request, and what is sent once more.

use super::*;

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
