//! Bodies that are compressed although nobody asked for it.

use super::*;

#[tokio::test]
async fn a_body_that_is_compressed_unasked_is_decoded_as_it_comes() {
    use std::io::Write;

    let (service, client) = (StandIn::start().await, client());
    let peer = peer(&client, &service);
    let request = Request { coding: Coding::Decoded, ..get("/") };
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(b"data: one\n\n").unwrap();
    encoder.flush().unwrap();
    let first = std::mem::take(encoder.get_mut());
    encoder.write_all(b"data: two\n\n").unwrap();
    let second = encoder.finish().unwrap();
    for whole in [true, false] {
        let (answer, (mut caller, seen)) = tokio::join!(client.send(&peer, request.clone()), async {
            let mut caller = service.accept().await;
            let seen = caller.request().await;
            let head = "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nConnection: close\r\n";
            caller.send(format!("{head}Content-Length: {}\r\n\r\n", first.len() + second.len())).await;
            caller.send(&first).await;
            (caller, seen)
        });
        let mut response = answer.unwrap();
        assert!(seen.to_lowercase().contains("\naccept-encoding: identity\r\n"));
        assert!(
            !response.headers.contains_key(header::CONTENT_ENCODING)
                && !response.headers.contains_key(header::CONTENT_LENGTH)
        );
        assert_eq!(response.chunk().await, Ok(Some(Bytes::from_static(b"data: one\n\n"))));
        assert_eq!(response.end(), None);
        if whole {
            caller.send(&second).await;
            assert_eq!(text(&mut response).await.as_deref(), Ok("data: two\n\n"));
            assert_eq!(response.end(), Some(End::Framed));
        } else {
            drop(caller);
            assert_eq!(response.chunk().await, Err(Error::Truncated));
        }
    }
}

#[tokio::test]
async fn a_gzip_that_is_cut_within_whole_framing_is_truncated() {
    let (service, client) = (StandIn::start().await, client());
    let peer = peer(&client, &service);
    let request = Request { coding: Coding::Decoded, ..get("/") };
    let (answer, _caller) = tokio::join!(client.send(&peer, request), async {
        let mut caller = service.accept().await;
        caller.request().await;
        caller.send(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x8b\x08\x00").await;
        caller
    });
    assert_eq!(text(&mut answer.unwrap()).await, Err(Error::Truncated));
}
