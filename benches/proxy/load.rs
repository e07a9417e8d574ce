//! The callers: keep-alive connections that send one request after the other, and what they see.

use std::fmt;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use crate::contestant::Contestant;
use crate::upstream::now;

/// How callers behave.
pub(crate) enum Load {
    /// As many requests as go.
    Requests { connections: usize },
    /// Streams, of which each delta's way is timed.
    Stream { connections: usize },
}

/// What was seen in one period, or the median of several.
#[derive(Clone, Copy, Default)]
pub(crate) struct Measured {
    /// Requests a second.
    pub(crate) rate: f64,
    /// Of a request, or of a delta's way from the service to the caller, in microseconds.
    p50: f64,
    p99: f64,
    /// From sending a request to its first delta, in microseconds; 0 where there is none.
    first: f64,
    /// CPU of the contestant a request, in microseconds.
    cpu: f64,
}

impl Load {
    pub(crate) fn run(&self, contestant: &Contestant, request: &str, period: Duration) -> Measured {
        let (connections, streamed) = match self {
            Self::Requests { connections } => (*connections, false),
            Self::Stream { connections } => (*connections, true),
        };
        let before = contestant.cpu();
        let began = Instant::now();
        let callers: Vec<_> = (0..connections)
            .map(|number| {
                // Each writer of news has a feed of its own: one feed takes a thousand items a second.
                let request = request.replace("CALLER", &format!("{number:032}"));
                let address = contestant.address;
                thread::spawn(move || Caller::new(address).call(request.as_bytes(), streamed, period))
            })
            .collect();
        let mut seen = Seen::default();
        for caller in callers {
            seen.add(caller.join().unwrap());
        }
        let (took, cpu) = (began.elapsed().as_secs_f64(), contestant.cpu() - before);
        seen.ways.sort_unstable_by(f64::total_cmp);
        seen.firsts.sort_unstable_by(f64::total_cmp);
        Measured {
            rate: seen.requests as f64 / took,
            p50: at(&seen.ways, 0.5),
            p99: at(&seen.ways, 0.99),
            first: at(&seen.firsts, 0.5),
            cpu: cpu * 1e6 / seen.requests.max(1) as f64,
        }
    }
}

fn at(sorted: &[f64], share: f64) -> f64 {
    sorted.get(((sorted.len() as f64 * share) as usize).min(sorted.len().saturating_sub(1))).copied().unwrap_or(0.0)
}

/// All that one caller saw, times in microseconds.
#[derive(Default)]
struct Seen {
    requests: usize,
    ways: Vec<f64>,
    firsts: Vec<f64>,
}

impl Seen {
    fn add(&mut self, other: Self) {
        self.requests += other.requests;
        self.ways.extend(other.ways);
        self.firsts.extend(other.firsts);
    }
}

struct Caller {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Caller {
    fn new(address: std::net::SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, buffer: Vec::with_capacity(64 << 10) }
    }

    fn call(mut self, request: &[u8], streamed: bool, period: Duration) -> Seen {
        let mut seen = Seen::default();
        let end = Instant::now() + period;
        while Instant::now() < end {
            let sent = now();
            self.stream.write_all(request).unwrap();
            self.answer(streamed.then_some((sent, &mut seen)));
            seen.requests += 1;
            if !streamed {
                seen.ways.push((now() - sent) as f64 / 1000.0);
            }
        }
        seen
    }

    /// Reads one answer to its end; of a stream, notes how old each delta is when it comes.
    fn answer(&mut self, mut stream: Option<(u128, &mut Seen)>) {
        self.buffer.clear();
        let (mut searched, mut first) = (0, true);
        loop {
            let mut part = [0; 16 << 10];
            let read = self.stream.read(&mut part).unwrap();
            assert!(read > 0, "the answer broke off: {}", String::from_utf8_lossy(&self.buffer));
            self.buffer.extend_from_slice(&part[..read]);
            if let Some((sent, seen)) = &mut stream {
                let arrived = now();
                while let Some((stamp, next)) = delta(&self.buffer, searched) {
                    searched = next;
                    seen.ways.push((arrived - stamp) as f64 / 1000.0);
                    if std::mem::replace(&mut first, false) {
                        seen.firsts.push((arrived - *sent) as f64 / 1000.0);
                    }
                }
            }
            if is_whole(&self.buffer) {
                assert!(self.buffer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&self.buffer));
                return;
            }
        }
    }
}

/// The next `@time@` behind `from`, and where the search goes on.
fn delta(bytes: &[u8], from: usize) -> Option<(u128, usize)> {
    let open = from + bytes[from..].iter().position(|byte| *byte == b'@')? + 1;
    let close = open + bytes[open..].iter().position(|byte| *byte == b'@')?;
    Some((std::str::from_utf8(&bytes[open..close]).ok()?.parse().ok()?, close + 1))
}

fn is_whole(bytes: &[u8]) -> bool {
    let Some(head) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { return false };
    let text = String::from_utf8_lossy(&bytes[..head]).to_ascii_lowercase();
    match text.split("content-length:").nth(1) {
        Some(rest) => {
            let length: usize = rest.lines().next().unwrap().trim().parse().unwrap();
            bytes.len() >= head + 4 + length
        }
        None => bytes.ends_with(b"0\r\n\r\n"),
    }
}

impl Measured {
    pub(crate) fn median(mut all: Vec<Self>) -> Option<Self> {
        let mut middle = |of: fn(&mut Self) -> &mut f64| {
            all.sort_by(|a, b| of(&mut a.clone()).total_cmp(of(&mut b.clone())));
            let at = all.len() / 2;
            all.get_mut(at).map(|measured| *of(measured))
        };
        Some(Self {
            rate: middle(|measured| &mut measured.rate)?,
            p50: middle(|measured| &mut measured.p50)?,
            p99: middle(|measured| &mut measured.p99)?,
            first: middle(|measured| &mut measured.first)?,
            cpu: middle(|measured| &mut measured.cpu)?,
        })
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:>9.0}/s  p50 {:>7.0} us  p99 {:>8.0} us  CPU {:>6.1} us",
            self.rate, self.p50, self.p99, self.cpu
        )?;
        if self.first > 0.0 { write!(f, "  first delta {:>6.0} us", self.first) } else { Ok(()) }
    }
}
