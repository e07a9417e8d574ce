//! A service behind the gateway that decides about every byte it answers, one connection a thread.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;

use super::secrets;
use super::wait::{PATIENCE, Watched};

/// Bytes of a request's body that a service keeps; longer ones are counted only.
const KEPT_MAX: usize = 4 << 20;

/// A request that came.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub method: String,
    pub target: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Bytes of the body, also of those that were not kept.
    pub length: u64,
}

impl Request {
    pub(crate) fn header(&self, wanted: &str) -> Option<&str> {
        self.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value.as_str())
    }

    pub(crate) fn all(&self, wanted: &str) -> Vec<&str> {
        let named = self.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case(wanted));
        named.map(|(_, value)| value.as_str()).collect()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// The whole request as text, to search for what must not stand in it.
    pub(crate) fn text(&self) -> String {
        format!("{} {} {:?} {}", self.method, self.target, self.headers, String::from_utf8_lossy(&self.body))
    }
}

/// What happened at a service so far.
#[derive(Debug, Default)]
struct Seen {
    requests: Vec<Request>,
    accepted: usize,
    open: usize,
}

/// A running service; it ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Upstream {
    address: SocketAddr,
    seen: Arc<Watched<Seen>>,
    stopped: Arc<AtomicBool>,
}

impl Upstream {
    /// Starts a service that answers each request with `answer`. A connection is kept open as long as `answer` leaves
    /// it whole.
    pub(crate) fn start(answer: impl Fn(&mut Exchange<'_>) + Send + Sync + 'static) -> Self {
        Self::accept(move |connection| {
            while let Some(request) = connection.request() {
                answer(&mut Exchange { request, connection });
                if connection.over {
                    break;
                }
            }
        })
    }

    /// Starts a service that is asked about every connection, before a byte is read.
    pub(crate) fn accept(serve: impl Fn(&mut Incoming) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (seen, stopped) = (Arc::new(Watched::<Seen>::default()), Arc::new(AtomicBool::new(false)));
        let (serve, all, stop) = (Arc::new(serve), seen.clone(), stopped.clone());
        std::thread::spawn(move || {
            for socket in listener.incoming() {
                if stop.load(Ordering::Acquire) {
                    return;
                }
                let Ok(socket) = socket else { continue };
                let (serve, seen) = (serve.clone(), all.clone());
                seen.change(|seen| {
                    seen.accepted += 1;
                    seen.open += 1;
                });
                std::thread::spawn(move || {
                    let closing = Closing(seen.clone());
                    socket.set_read_timeout(Some(PATIENCE)).unwrap();
                    socket.set_nodelay(true).unwrap();
                    let mut incoming = Incoming { socket, buffer: Vec::new(), over: false, seen };
                    serve(&mut incoming);
                    drop(incoming);
                    drop(closing);
                });
            }
        });
        Self { address, seen, stopped }
    }

    /// A service that streams these frames of a chat completion, in one write.
    pub(crate) fn chat(frames: &str) -> Self {
        let frames = frames.to_owned();
        Self::start(move |exchange| exchange.stream(&frames))
    }

    /// A service that answers everything with one status and body.
    pub(crate) fn fixed(status: &str, headers: &str, body: &str) -> Self {
        let (status, headers, body) = (status.to_owned(), headers.to_owned(), body.to_owned());
        Self::start(move |exchange| exchange.answer(&status, &headers, body.as_bytes()))
    }

    /// An address that nobody listens on.
    pub(crate) fn unreachable() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Every request so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.seen.read(|seen| seen.requests.clone())
    }

    /// The only request.
    pub(crate) fn request(&self) -> Request {
        let mut requests = self.requests();
        assert_eq!(requests.len(), 1, "{requests:?}");
        requests.remove(0)
    }

    /// The last request.
    pub(crate) fn last(&self) -> Request {
        self.requests().pop().expect("no request came")
    }

    /// Connections that were ever accepted.
    pub(crate) fn accepted(&self) -> usize {
        self.seen.read(|seen| seen.accepted)
    }

    /// Waits until so many requests have come.
    #[track_caller]
    pub(crate) fn wait_for_requests(&self, count: usize) {
        let came = self.seen.wait(PATIENCE, |seen| (seen.requests.len() >= count).then_some(()));
        came.expect("the requests never came");
    }

    /// Whether at most so many connections are open within that time.
    pub(crate) fn open_falls_to(&self, count: usize, most: Duration) -> bool {
        self.seen.wait(most, |seen| (seen.open <= count).then_some(())).is_some()
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Release);
        // Wakes the thread that accepts.
        drop(TcpStream::connect(self.address));
        if !std::thread::panicking() {
            for request in self.requests() {
                secrets::assert_no_session_in("a request to an upstream", &request.text());
            }
        }
    }
}

/// Counts a connection out.
struct Closing(Arc<Watched<Seen>>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.change(|seen| seen.open -= 1);
    }
}

/// A connection that a service has accepted.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub socket: TcpStream,
    buffer: Vec<u8>,
    over: bool,
    seen: Arc<Watched<Seen>>,
}

impl Incoming {
    /// Reads a request whole; `None` where the connection ends.
    pub(crate) fn request(&mut self) -> Option<Request> {
        let mut request = self.head()?;
        if request.header("expect").is_some() {
            self.socket.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").ok()?;
        }
        if request.header("transfer-encoding").is_some() {
            loop {
                let size = self.line()?;
                let size = usize::from_str_radix(size.trim(), 16).unwrap();
                let chunk = self.take(size + 2)?;
                request.length += size as u64;
                if request.body.len() < KEPT_MAX {
                    request.body.extend_from_slice(&chunk[..size]);
                }
                if size == 0 {
                    break;
                }
            }
        } else {
            let mut left: usize = request.header("content-length").map_or(0, |length| length.parse().unwrap());
            request.length = left as u64;
            while left > 0 {
                let part = self.take(left.min(64 << 10))?;
                left -= part.len();
                if request.body.len() < KEPT_MAX {
                    request.body.extend_from_slice(&part);
                }
            }
        }
        self.seen.change(|seen| seen.requests.push(request.clone()));
        Some(request)
    }

    /// Reads a request's head, and leaves its body where it is.
    pub(crate) fn head(&mut self) -> Option<Request> {
        let mut words = self.line()?;
        words.truncate(words.trim_end().len());
        let mut words = words.split(' ').map(str::to_owned);
        let (method, target) = (words.next()?, words.next()?);
        let mut headers = Vec::new();
        loop {
            let line = self.line()?;
            let line = line.trim_end();
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':')?;
            headers.push((name.to_owned(), value.trim().to_owned()));
        }
        Some(Request { method, target, headers, body: Vec::new(), length: 0 })
    }

    fn line(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                return String::from_utf8(self.buffer.drain(..=end).collect()).ok();
            }
            self.fill()?;
        }
    }

    fn take(&mut self, length: usize) -> Option<Vec<u8>> {
        while self.buffer.len() < length {
            self.fill()?;
        }
        Some(self.buffer.drain(..length).collect())
    }

    fn fill(&mut self) -> Option<()> {
        let mut bytes = [0; 16 << 10];
        let count = self.socket.read(&mut bytes).ok().filter(|count| *count > 0)?;
        self.buffer.extend_from_slice(&bytes[..count]);
        Some(())
    }

    /// Ends the connection with RST, which says that what came is not all.
    pub(crate) fn reset(&mut self) {
        rustix::net::sockopt::set_socket_linger(&self.socket, Some(Duration::ZERO)).unwrap();
        self.over = true;
    }
}

/// A request and its answer under way.
#[derive(Debug)]
pub(crate) struct Exchange<'c> {
    pub request: Request,
    pub connection: &'c mut Incoming,
}

impl Exchange<'_> {
    /// Sends bytes as they are; a gateway that has left is no failure here.
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        if self.connection.socket.write_all(bytes.as_ref()).is_err() {
            self.connection.over = true;
        }
    }

    /// A complete answer with a length. `headers` are whole lines without their last CRLF.
    pub(crate) fn answer(&mut self, status: &str, headers: &str, body: &[u8]) {
        let headers = if headers.is_empty() { String::new() } else { format!("{headers}\r\n") };
        let head = format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n", body.len());
        let body = if self.request.method == "HEAD" { b"" } else { body };
        self.send([head.as_bytes(), body].concat());
    }

    pub(crate) fn json(&mut self, body: &Value) {
        self.answer("200 OK", "Content-Type: application/json", body.to_string().as_bytes());
    }

    /// The head of an event stream that ends with its connection.
    pub(crate) fn open_stream(&mut self) {
        self.connection.over = true;
        self.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n");
    }

    /// A whole event stream, chunked, on a connection that stays usable.
    pub(crate) fn stream(&mut self, frames: &str) {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
        let body = format!("{:x}\r\n{frames}\r\n", frames.len());
        self.send(format!("{head}{}0\r\n\r\n", if frames.is_empty() { "" } else { &body }));
    }

    /// Closes after this answer.
    pub(crate) fn close(&mut self) {
        self.connection.over = true;
    }

    /// Resets the connection.
    pub(crate) fn reset(&mut self) {
        self.connection.reset();
    }

    /// Waits until the gateway closes the connection; `false` if it does not.
    pub(crate) fn wait_until_left(&mut self) -> bool {
        self.connection.over = true;
        let mut bytes = [0; 1024];
        loop {
            match self.connection.socket.read(&mut bytes) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) => return error.kind() == std::io::ErrorKind::ConnectionReset,
            }
        }
    }
}
