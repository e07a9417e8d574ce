//! The smallest HTTP/1.1 server that the two services of the demo need: blocking, one thread a connection.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

/// Bytes of a head line, and of a body, that the demo's services read.
const LINE_BYTES_MAX: u64 = 16 << 10;
const BODY_BYTES_MAX: u64 = 1 << 20;

/// Header fields of a request.
const FIELDS_MAX: usize = 200;

/// A request of which only these three things matter here.
#[derive(Debug)]
pub(super) struct Request {
    pub method: String,
    pub path: String,
    pub body: Vec<u8>,
}

/// Where a service writes its answer.
#[derive(Debug)]
pub(super) struct Responder<'a>(&'a mut TcpStream);

impl Responder<'_> {
    /// A whole JSON answer.
    pub(super) fn json(&mut self, status: &str, body: &serde_json::Value) -> io::Result<()> {
        let body = body.to_string();
        let head =
            format!("HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n", body.len());
        self.0.write_all(format!("{head}{body}").as_bytes())
    }

    /// The head of an event stream.
    pub(super) fn open_events(&mut self) -> io::Result<()> {
        self.0.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
    }

    /// One event.
    pub(super) fn event(&mut self, data: &str) -> io::Result<()> {
        let frame = format!("data: {data}\n\n");
        self.0.write_all(format!("{:x}\r\n{frame}\r\n", frame.len()).as_bytes())
    }

    /// The end of the stream.
    pub(super) fn close_events(&mut self) -> io::Result<()> {
        self.0.write_all(b"0\r\n\r\n")
    }
}

/// Serves until the process ends.
pub(super) fn serve(listener: TcpListener, answer: fn(&Request, &mut Responder<'_>) -> io::Result<()>) {
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || {
                // A caller that leaves or breaks HTTP ends its own connection only.
                let _ = connection(stream, answer);
            });
        }
    });
}

fn connection(mut stream: TcpStream, answer: fn(&Request, &mut Responder<'_>) -> io::Result<()>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    while let Some(request) = read(&mut reader)? {
        answer(&request, &mut Responder(&mut stream))?;
    }
    Ok(())
}

fn read(reader: &mut BufReader<TcpStream>) -> io::Result<Option<Request>> {
    let first = line(reader)?;
    let mut words = first.split_ascii_whitespace();
    let (Some(method), Some(path)) = (words.next(), words.next()) else { return Ok(None) };
    let mut length = 0;
    for _ in 0..FIELDS_MAX {
        let field = line(reader)?;
        match field.split_once(':') {
            None => break,
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.trim().parse().map_err(io::Error::other)?;
            }
            Some(_) => {}
        }
    }
    let mut body = Vec::new();
    reader.take(length.min(BODY_BYTES_MAX)).read_to_end(&mut body)?;
    Ok(Some(Request { method: method.to_owned(), path: path.to_owned(), body }))
}

fn line(reader: &mut BufReader<TcpStream>) -> io::Result<String> {
    let mut line = String::new();
    reader.take(LINE_BYTES_MAX).read_line(&mut line)?;
    Ok(line.trim_end().to_owned())
}
