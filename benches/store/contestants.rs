//! Who is measured. Each keeps its data in a directory of its own on the same disk.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use restap_gateway::restap::{NewsDraft, SessionId, Since};
use restap_gateway::store::{self, FeedId, NewItem, PageRequest, Reader, SystemClock};
use tokio::runtime::{Builder, Runtime};

use crate::load::{FEEDS, Task};
use crate::servers::Server;

/// Behind the end of every feed.
const LATE: u64 = (1 << 53) - 1;

/// The text of an item, which then has some 300 bytes.
fn text() -> String {
    "x".repeat(240)
}

/// How many append at once where a store is filled, so that a flush serves many.
const WRITERS: usize = 512;

const KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

fn session(feed: usize) -> String {
    format!("bench-session-{feed:08}")
}

fn directory() -> tempfile::TempDir {
    // Not where temporary files may be in memory.
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// A process that ends with this value.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The gateway, asked over HTTP.
pub(crate) struct Gateway {
    address: SocketAddr,
    feeds: usize,
    process: Process,
    _directory: tempfile::TempDir,
}

impl Gateway {
    pub(crate) fn start() -> Self {
        Self::over(directory(), FEEDS)
    }

    /// With what is in the store of a directory already.
    pub(crate) fn over(directory: tempfile::TempDir, feeds: usize) -> Self {
        Self::with(directory, feeds, "")
    }

    /// One of several on the store of a server.
    pub(crate) fn on(server: &Server) -> Self {
        let (scheme, url) = (server.scheme(), server.url());
        Self::with(directory(), FEEDS, &format!("store: {{{scheme}: {{url: \"{url}\"}}, key: {KEY}}}\n"))
    }

    fn with(directory: tempfile::TempDir, feeds: usize, store: &str) -> Self {
        let file = directory.path().join("gateway.yaml");
        let rest = "listen: 127.0.0.1:0\nadmin: off\nlog: {access: false, level: error}\nagent: {name: Bench}\n";
        fs::write(&file, format!("{store}{rest}")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_restap-gateway"));
        let mut child = command.args(["serve", "-c"]).arg(&file).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("serving on http://") {
            line.clear();
            assert!(said.read_line(&mut line).unwrap() > 0, "the gateway did not start");
        }
        let address = line.trim().rsplit_once("http://").unwrap().1.parse().unwrap();
        std::thread::spawn(move || said.lines().map_while(Result::ok).for_each(|line| println!("  gateway: {line}")));
        Self { address, feeds, process: Process(child), _directory: directory }
    }

    /// What the process holds in memory, in MiB.
    pub(crate) fn resident(&self) -> f64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.0.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0
    }

    pub(crate) fn appends(&self) -> Task<'_> {
        let body = format!("{{\"type\":\"note\",\"message\":\"{}\"}}", text());
        let head = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
        self.asking("POST /news", move |feed| format!("{head}Restap-Session-Id: {}\r\n\r\n{body}", session(feed)))
    }

    pub(crate) fn reads(&self) -> Task<'_> {
        self.asking("GET /news?limit=20", |feed| format!("Restap-Session-Id: {}\r\n\r\n", session(feed)))
    }

    pub(crate) fn polls(&self) -> Task<'_> {
        self.asking("GET /news?since=9007199254740991", |feed| format!("Restap-Session-Id: {}\r\n\r\n", session(feed)))
    }

    /// What the gateway answers without looking anything up.
    pub(crate) fn statics(&self) -> Task<'_> {
        self.asking("GET /health", |_| "\r\n".to_owned())
    }

    fn asking<'a>(&self, line: &'a str, rest: impl Fn(usize) -> String + Send + Sync + 'a) -> Task<'a> {
        let address = self.address;
        let requests: Arc<Vec<String>> =
            Arc::new((0..self.feeds).map(|feed| format!("{line} HTTP/1.1\r\nHost: bench\r\n{}", rest(feed))).collect());
        Box::new(move |_| {
            let (mut connection, requests) = (Connection::open(address), requests.clone());
            Box::new(move |feed| {
                let answer = connection.ask(requests[feed].as_bytes(), is_whole_http);
                assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(answer));
            })
        })
    }
}

/// Several at once: each thread asks one of them.
pub(crate) fn together(mut tasks: Vec<Task<'_>>) -> Task<'_> {
    if tasks.len() == 1 {
        return tasks.remove(0);
    }
    Box::new(move |number| tasks[number % tasks.len()](number))
}

/// A socket and what came over it.
struct Connection {
    socket: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    fn open(address: SocketAddr) -> Self {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_nodelay(true).unwrap();
        Self { socket, buffer: Vec::new() }
    }

    fn ask(&mut self, request: &[u8], is_whole: fn(&[u8]) -> bool) -> &[u8] {
        self.socket.write_all(request).unwrap();
        self.buffer.clear();
        let mut part = [0; 16 << 10];
        while !is_whole(&self.buffer) {
            let read = self.socket.read(&mut part).unwrap();
            assert!(read > 0, "the answer broke off: {}", String::from_utf8_lossy(&self.buffer));
            self.buffer.extend_from_slice(&part[..read]);
        }
        &self.buffer
    }
}

fn is_whole_http(bytes: &[u8]) -> bool {
    let Some(head) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { return false };
    let text = String::from_utf8_lossy(&bytes[..head]).to_ascii_lowercase();
    let length = text.split("content-length:").nth(1).unwrap().lines().next().unwrap().trim();
    bytes.len() >= head + 4 + length.parse::<usize>().unwrap()
}

/// The store alone, asked in this process.
pub(crate) struct Store {
    opened: Arc<store::Store>,
    feeds: Arc<Vec<FeedId>>,
    directory: tempfile::TempDir,
}

impl Store {
    pub(crate) fn open() -> Self {
        Self::with(FEEDS)
    }

    pub(crate) fn with(feeds: usize) -> Self {
        let directory = directory();
        let settings = store::Settings::beside(directory.path());
        let store = store::open(&settings, &[], Arc::new(SystemClock)).unwrap();
        // The name that an agent at the origin has in its store.
        let agent = store.keys().agent("agent");
        let feed = |feed| store.keys().feed(agent, Some(&SessionId::parse(&session(feed)).unwrap()));
        let feeds = Arc::new((0..feeds).map(feed).collect());
        Self { opened: store, feeds, directory }
    }

    /// Appends so many items, in turn to every feed, and closes it.
    pub(crate) fn fill(self, items: usize) -> tempfile::TempDir {
        let runtime = Builder::new_multi_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let writers: Vec<_> = (0..WRITERS)
                .map(|writer| {
                    let (store, feeds) = (self.opened.clone(), self.feeds.clone());
                    tokio::spawn(async move {
                        let draft = NewsDraft { kind: "note".into(), message: text(), ..NewsDraft::default() };
                        for item in (writer..items).step_by(WRITERS) {
                            let feed = feeds[item % feeds.len()];
                            store.append(NewItem { feed, opener: None, draft: &draft, once: None }).await.unwrap();
                        }
                    })
                })
                .collect();
            for writer in writers {
                writer.await.unwrap();
            }
            self.opened.close().await;
        });
        self.directory
    }

    pub(crate) fn appends(&self) -> Task<'_> {
        let draft = NewsDraft { kind: "note".into(), message: text(), ..NewsDraft::default() };
        self.doing(move |runtime, store, feed| {
            let item = NewItem { feed, opener: None, draft: &draft, once: None };
            runtime.block_on(store.append(item)).unwrap();
        })
    }

    pub(crate) fn reads(&self) -> Task<'_> {
        self.doing(|runtime, store, feed| page(runtime, store, feed, &Since::Newest))
    }

    pub(crate) fn polls(&self) -> Task<'_> {
        self.doing(|runtime, store, feed| page(runtime, store, feed, &Since::Time(LATE)))
    }

    fn doing(&self, act: impl Fn(&Runtime, &store::Store, FeedId) + Send + Sync + 'static) -> Task<'_> {
        let act = Arc::new(act);
        Box::new(move |_| {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            let (act, store, feeds) = (act.clone(), self.opened.clone(), self.feeds.clone());
            Box::new(move |feed| act(&runtime, &store, feeds[feed]))
        })
    }
}

fn page(runtime: &Runtime, store: &store::Store, feed: FeedId, since: &Since) {
    let request = PageRequest { feed, reader: Reader::Agent, since, limit: 20, query: None };
    let page = runtime.block_on(store.page(request)).unwrap();
    std::hint::black_box(page.to_json(None));
}

/// Redis, with every append on the disk before it is acknowledged.
pub(crate) struct Redis {
    address: SocketAddr,
    _process: Process,
    _directory: tempfile::TempDir,
}

impl Redis {
    /// `None` where it is not installed.
    pub(crate) fn start() -> Option<Self> {
        let directory = directory();
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut command = Command::new("redis-server");
        let settings = ["--bind", "127.0.0.1", "--save", "", "--appendonly", "yes", "--appendfsync", "always"];
        command.args(settings).arg("--port").arg(address.port().to_string()).arg("--dir").arg(directory.path());
        let process = Process(command.stdout(Stdio::null()).spawn().ok()?);
        let deadline = Instant::now() + Duration::from_secs(10);
        while TcpStream::connect(address).is_err() {
            assert!(Instant::now() < deadline, "redis-server did not start");
            std::thread::yield_now();
        }
        Some(Self { address, _process: process, _directory: directory })
    }

    pub(crate) fn appends(&self) -> Task<'_> {
        self.asking(|feed| vec!["XADD".into(), session(feed), "*".into(), "b".into(), text()])
    }

    pub(crate) fn reads(&self) -> Task<'_> {
        self.asking(|feed| ["XREVRANGE", &session(feed), "+", "-", "COUNT", "20"].map(str::to_owned).to_vec())
    }

    pub(crate) fn polls(&self) -> Task<'_> {
        self.asking(|feed| ["XRANGE", &session(feed), "(9007199254740991-0", "+"].map(str::to_owned).to_vec())
    }

    fn asking(&self, words: fn(usize) -> Vec<String>) -> Task<'_> {
        let address = self.address;
        let command = move |feed| {
            let words = words(feed);
            let words = words.iter().fold(format!("*{}\r\n", words.len()), |command, word| {
                format!("{command}${}\r\n{word}\r\n", word.len())
            });
            words.into_bytes()
        };
        let commands: Arc<Vec<Vec<u8>>> = Arc::new((0..FEEDS).map(command).collect());
        Box::new(move |_| {
            let (mut connection, commands) = (Connection::open(address), commands.clone());
            Box::new(move |feed| {
                let answer = connection.ask(&commands[feed], |bytes| value(bytes).is_some());
                assert!(!answer.starts_with(b"-"), "{}", String::from_utf8_lossy(answer));
            })
        })
    }
}

/// What is left behind the first value of an answer; `None` while it is not whole.
fn value(bytes: &[u8]) -> Option<&[u8]> {
    let end = bytes.windows(2).position(|window| window == b"\r\n")?;
    let (line, rest) = (&bytes[..end], &bytes[end + 2..]);
    let number = || std::str::from_utf8(&line[1..]).unwrap().parse::<usize>().unwrap();
    match line[0] {
        b'$' => rest.get(number() + 2..),
        b'*' => (0..number()).try_fold(rest, |rest, _| value(rest)),
        _ => Some(rest),
    }
}

/// A file that is appended to and synced.
pub(crate) struct Disk(tempfile::TempDir);

impl Disk {
    pub(crate) fn open() -> Self {
        Self(directory())
    }

    pub(crate) fn appends(&self) -> Task<'_> {
        Box::new(|number| {
            let mut file = File::create(self.0.path().join(number.to_string())).unwrap();
            Box::new(move |_| {
                file.write_all(&[b'x'; 300]).unwrap();
                file.sync_data().unwrap();
            })
        })
    }
}
