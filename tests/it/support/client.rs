//! A caller that decides about every byte it sends, and says what it got back.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use flate2::read::GzDecoder;
use serde_json::Value;

use super::secrets;
use super::sse::{Events, Frame};
use super::wait::PATIENCE;

/// A request to send.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    method: String,
    target: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Call {
    pub(crate) fn new(method: &str, target: &str) -> Self {
        Self { method: method.into(), target: target.into(), headers: Vec::new(), body: Vec::new() }
    }

    pub(crate) fn get(target: &str) -> Self {
        Self::new("GET", target)
    }

    /// A `POST` of JSON.
    pub(crate) fn post(target: &str, body: &Value) -> Self {
        Self::new("POST", target).header("Content-Type", "application/json").body(body.to_string())
    }

    /// A talk.
    pub(crate) fn talk(message: &str) -> Self {
        Self::post("/talk", &serde_json::json!({"message": message}))
    }

    /// Asks for an event stream.
    pub(crate) fn streamed(self) -> Self {
        self.header("Accept", "text/event-stream")
    }

    pub(crate) fn session(self, id: &str) -> Self {
        self.header("Restap-Session-Id", id)
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    pub(crate) fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// The same for another target.
    pub(crate) fn retarget(mut self, target: &str) -> Self {
        self.target = target.into();
        self
    }

    /// The request's bytes; `Host` and `Content-Length` are added where nothing says otherwise.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let has = |wanted: &str| self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(wanted));
        let mut lines = vec![format!("{} {} HTTP/1.1", self.method, self.target)];
        if !has("host") {
            lines.push("Host: 127.0.0.1".into());
        }
        if !has("content-length") && !has("transfer-encoding") && (!self.body.is_empty() || self.method == "POST") {
            lines.push(format!("Content-Length: {}", self.body.len()));
        }
        lines.extend(self.headers.iter().map(|(name, value)| format!("{name}: {value}")));
        for (_, id) in self.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("restap-session-id")) {
            secrets::learn_session(id);
        }
        for (name, value) in &self.headers {
            secrets::learn_header(name, value);
        }
        secrets::learn_sessions(&self.target);
        secrets::learn_sessions(&String::from_utf8_lossy(&self.body));
        [lines.join("\r\n").as_bytes(), b"\r\n\r\n", &self.body].concat()
    }
}

/// A whole answer.
#[derive(Debug, Clone)]
pub(crate) struct Response {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Response {
    /// The value of a header; fails if it stands more than once.
    pub(crate) fn header(&self, wanted: &str) -> Option<&str> {
        let mut values = self.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case(wanted));
        let value = values.next().map(|(_, value)| value.as_str());
        assert!(values.next().is_none(), "{wanted} stands more than once: {:?}", self.headers);
        value
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.header("content-type"), Some("application/json"), "{}", self.text());
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {:?}", self.text()))
    }

    /// The JSON of a 200.
    #[track_caller]
    pub(crate) fn ok(&self) -> Value {
        assert_eq!(self.status, 200, "{}", self.text());
        self.json()
    }

    /// Holds the answer to a status and an error code, and to the form that every error has.
    #[track_caller]
    pub(crate) fn refused(&self, status: u16, code: &str) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        let body = self.json();
        assert_eq!(body["error"], code, "{body}");
        assert!(body["message"].as_str().is_some_and(|message| message.len() > 10), "{body}");
        body
    }

    /// The events of a whole stream.
    #[track_caller]
    pub(crate) fn events(&self) -> Events {
        assert_eq!((self.status, self.header("content-type")), (200, Some("text/event-stream")), "{}", self.text());
        Events::parse(self.text())
    }

    pub(crate) fn gunzip(&self) -> Vec<u8> {
        assert_eq!(self.header("content-encoding"), Some("gzip"));
        let mut plain = Vec::new();
        GzDecoder::new(self.body.as_slice()).take(64 << 20).read_to_end(&mut plain).unwrap();
        plain
    }
}

/// How an answer's body is delimited, and what of it is still to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Framing {
    Length(usize),
    Chunked,
    Close,
}

/// A connection to the gateway.
#[derive(Debug)]
pub(crate) struct Connection {
    pub socket: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    pub(crate) fn open(address: SocketAddr) -> Self {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.set_nodelay(true).unwrap();
        Self { socket, buffer: Vec::new() }
    }

    pub(crate) fn patience(&self, most: Duration) {
        self.socket.set_read_timeout(Some(most)).unwrap();
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.socket.write_all(bytes.as_ref()).unwrap();
    }

    /// Sends a request and reads its answer.
    pub(crate) fn call(&mut self, call: &Call) -> Response {
        self.send(call.bytes());
        self.response(call.method == "HEAD")
    }

    /// Reads one answer, interim ones left out.
    pub(crate) fn response(&mut self, to_head: bool) -> Response {
        let mut response = self.head();
        while response.status < 200 {
            response = self.head();
        }
        let framing = framing(&response, to_head);
        response.body = match framing {
            Framing::Length(length) => self.take(length),
            Framing::Chunked => {
                let mut body = Vec::new();
                while let Some(chunk) = self.chunk() {
                    body.extend_from_slice(&chunk);
                }
                body
            }
            Framing::Close => {
                while self.fill() {}
                std::mem::take(&mut self.buffer)
            }
        };
        let body = String::from_utf8_lossy(&response.body);
        if response.status < 400 {
            secrets::learn_sessions(&body);
        } else {
            secrets::assert_none_in("an error", &body);
        }
        response
    }

    /// Reads a head, also an interim one.
    pub(crate) fn head(&mut self) -> Response {
        let end = loop {
            if let Some(end) = self.buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                break end + 4;
            }
            assert!(self.fill(), "the connection ended within a head: {:?}", String::from_utf8_lossy(&self.buffer));
        };
        let head = String::from_utf8(self.take(end)).unwrap();
        let mut lines = head.trim_end().split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers = lines
            .map(|line| line.split_once(": ").unwrap_or_else(|| panic!("{line:?}")))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        Response { status, headers, body: Vec::new() }
    }

    /// Reads one chunk; `None` is the last.
    pub(crate) fn chunk(&mut self) -> Option<Vec<u8>> {
        self.try_chunk().expect("the connection ended within a chunked body")
    }

    /// Reads one chunk; `Err` where the connection ends before the body does.
    pub(crate) fn try_chunk(&mut self) -> Result<Option<Vec<u8>>, Cut> {
        let line = loop {
            if let Some(end) = self.buffer.windows(2).position(|window| window == b"\r\n") {
                break self.take(end + 2);
            }
            if !self.fill() {
                return Err(Cut);
            }
        };
        let size = std::str::from_utf8(&line).unwrap().trim_end();
        let size = usize::from_str_radix(size, 16).unwrap_or_else(|_| panic!("no size of a chunk: {size:?}"));
        while self.buffer.len() < size + 2 {
            if !self.fill() {
                return Err(Cut);
            }
        }
        let mut chunk = self.take(size + 2);
        chunk.truncate(size);
        Ok((size > 0).then_some(chunk))
    }

    /// Whether nothing at all comes for so long.
    pub(crate) fn is_silent(&mut self, most: Duration) -> bool {
        self.patience(most);
        let nothing = |error: std::io::Error| error.kind() == std::io::ErrorKind::WouldBlock;
        let silent = self.buffer.is_empty() && self.socket.peek(&mut [0]).is_err_and(nothing);
        self.patience(PATIENCE);
        silent
    }

    /// Whether the other end closes without another byte.
    pub(crate) fn is_closed(&mut self) -> bool {
        self.buffer.is_empty() && !self.fill()
    }

    fn take(&mut self, length: usize) -> Vec<u8> {
        while self.buffer.len() < length {
            assert!(self.fill(), "the connection ended {} bytes early", length - self.buffer.len());
        }
        self.buffer.drain(..length).collect()
    }

    /// Reads once; `false` where the other end has closed.
    fn fill(&mut self) -> bool {
        let mut bytes = [0; 16 << 10];
        match self.socket.read(&mut bytes) {
            Ok(count) => {
                self.buffer.extend_from_slice(&bytes[..count]);
                count > 0
            }
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => false,
            Err(error) => panic!("nothing came: {error}; so far {:?}", String::from_utf8_lossy(&self.buffer)),
        }
    }
}

/// A connection ended before its answer did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cut;

fn framing(response: &Response, to_head: bool) -> Framing {
    if to_head || response.status == 204 || response.status == 304 {
        return Framing::Length(0);
    }
    match (response.header("content-length"), response.header("transfer-encoding")) {
        (Some(length), None) => Framing::Length(length.parse().unwrap()),
        (None, Some("chunked")) => Framing::Chunked,
        (None, None) => Framing::Close,
        both => panic!("an answer with two framings: {both:?}"),
    }
}

/// An event stream that is read as it comes.
#[derive(Debug)]
pub(crate) struct Stream {
    pub connection: Connection,
    text: String,
    over: bool,
}

impl Stream {
    /// Sends a request and reads the head of its answer.
    pub(crate) fn open(mut connection: Connection, call: &Call) -> Self {
        connection.send(call.bytes());
        let head = connection.head();
        assert_eq!((head.status, head.header("content-type")), (200, Some("text/event-stream")));
        Self { connection, text: String::new(), over: false }
    }

    /// The next event, keep-alives skipped; `None` at the end.
    pub(crate) fn next(&mut self) -> Option<Frame> {
        loop {
            while self.text.starts_with(':') {
                match self.text.split_once('\n') {
                    Some((_, rest)) => self.text = rest.to_owned(),
                    None => break,
                }
            }
            if let Some(end) = self.text.find("\n\n") {
                let frame: String = self.text.drain(..end + 2).collect();
                return Events::parse(&frame).frames.pop();
            }
            if !self.more() {
                assert!(self.text.is_empty(), "half a frame: {:?}", self.text);
                return None;
            }
        }
    }

    /// Everything that is still to come.
    pub(crate) fn rest(&mut self) -> Events {
        while self.more() {}
        Events::parse(&std::mem::take(&mut self.text))
    }

    fn more(&mut self) -> bool {
        if !self.over {
            match self.connection.chunk() {
                Some(chunk) => self.text.push_str(std::str::from_utf8(&chunk).unwrap()),
                None => self.over = true,
            }
        }
        !self.over
    }
}
