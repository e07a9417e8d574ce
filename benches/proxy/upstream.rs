//! The service behind all contestants: a small JSON answer, an order that comes back, and a chat that streams. Threads, so that it takes no part
//! in anybody's runtime.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

/// Pieces of a paced reply, and the time between them.
const DELTAS: usize = 50;
const PACE: Duration = Duration::from_millis(5);

/// Pieces of a reply at full speed.
const DELTAS_FAST: usize = 8;

pub(crate) fn start() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || drop(serve(stream)));
        }
    });
    address
}

/// An order of 1 KB, which the service sends back as it came.
pub(crate) fn order() -> String {
    let item = |number: usize| {
        format!(
            r#"{{"sku":"A-{number:04}","name":"A thing of wood, no. {number}","count":{number},"price":{number}.25,"tags":["wood","new"]}}"#
        )
    };
    let items: Vec<String> = (1..=10).map(item).collect();
    let order = format!(
        r#"{{"id":"9b2f","customer":{{"name":"Anna Berg","email":"anna@example.com"}},"express":false,"items":[{}]}}"#,
        items.join(",")
    );
    assert!((1000..1060).contains(&order.len()), "{}", order.len());
    order
}

/// Nanoseconds on a clock that all of this process shares.
pub(crate) fn now() -> u128 {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos()
}

fn serve(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    loop {
        let mut first = String::new();
        if reader.read_line(&mut first)? == 0 {
            return Ok(());
        }
        let (mut length, mut line) = (0, String::new());
        while reader.read_line(&mut line)? > 2 {
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap_or(0);
            }
            line.clear();
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        if first.starts_with("GET") {
            let body = r#"{"city":"Oslo","temperature":-3.5,"unit":"celsius","wind":{"speed":4.1,"from":"NNW"},"n":1}"#;
            let head =
                format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n", body.len());
            stream.write_all(format!("{head}{body}").as_bytes())?;
        } else if first.starts_with("POST /orders ") {
            let head =
                format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n", body.len());
            stream.write_all(&[head.as_bytes(), &body].concat())?;
        } else {
            let fast = body.windows(6).any(|window| window == b"\"fast\"");
            chat(&mut stream, fast)?;
        }
    }
}

/// Each delta's text is the time at which it was written.
fn chat(stream: &mut TcpStream, fast: bool) -> std::io::Result<()> {
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")?;
    for _ in 0..if fast { DELTAS_FAST } else { DELTAS } {
        if !fast {
            thread::sleep(PACE);
        }
        chunk(
            stream,
            &format!(r#"data: {{"choices":[{{"index":0,"delta":{{"content":"@{}@"}},"finish_reason":null}}]}}"#, now()),
        )?;
    }
    chunk(stream, r#"data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#)?;
    chunk(stream, "data: [DONE]")?;
    stream.write_all(b"0\r\n\r\n")
}

fn chunk(stream: &mut TcpStream, line: &str) -> std::io::Result<()> {
    stream.write_all(format!("{:x}\r\n{line}\n\n\r\n", line.len() + 2).as_bytes())
}
