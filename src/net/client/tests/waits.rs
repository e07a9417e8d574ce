//! Waiting: for a service that is slow or says nothing, and for a reader that is.

use super::*;

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
