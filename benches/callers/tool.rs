//! What the tool costs: calls through `rest_request`, beside a client that sends the same requests to the same server
//! itself. Each request has a connection of its own in both, so that a plain client pays the same handshakes.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pingora::tls::{
    CertificateDer, ClientConfig, PrivateKeyDer, RootCertStore, ServerConfig, TlsAcceptor, TlsConnector,
};
use rustls_pki_types::ServerName;
use rustls_pki_types::pem::PemObject;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Who calls at the same time.
const CALLERS: usize = 8;

const BODY: &str = r#"{"city":"Oslo","temperature":-3.5,"unit":"celsius","wind":{"speed":4.1,"from":"NNW"},"n":1}"#;

/// Who sends the requests.
enum Way {
    Plain(SocketAddr),
    PlainTls(SocketAddr, TlsConnector),
    /// The tool's listener, and the request that is sent there.
    Tool(SocketAddr, String),
}

/// Prints a line for each way: requests a second, and how long one takes.
pub(crate) fn measure(smoke: bool) {
    pingora::tls::install_default_crypto_provider();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (plain, over_tls) = runtime.block_on(async { (serve(None).await, serve(Some(acceptor())).await) });
    let (silent, signing) = (Gateway::start("never"), Gateway::start("always"));
    let http = format!("http://localhost:{}/weather", plain.port());
    let https = format!("https://localhost:{}/weather", over_tls.port());
    let ways = [
        ("http, a plain client", Way::Plain(plain)),
        ("http, the tool, not signed", silent.call(&http)),
        ("https, a plain client", Way::PlainTls(over_tls, connector())),
        ("https, the tool, not signed", silent.call(&https)),
        ("https, the tool, signed", signing.call(&https)),
    ];
    let (rounds, period) = if smoke { (1, Duration::from_millis(200)) } else { (5, Duration::from_secs(3)) };
    let mut all: Vec<Vec<[f64; 3]>> = ways.iter().map(|_| Vec::new()).collect();
    for _ in 0..rounds {
        for ((_, way), seen) in ways.iter().zip(&mut all) {
            seen.push(runtime.block_on(load(way, period)));
        }
    }
    println!("one request a connection, {CALLERS} at a time; medians of {rounds} rounds of {} ms", period.as_millis());
    for ((name, _), mut seen) in ways.iter().zip(all) {
        let mut median = |of: usize| {
            seen.sort_by(|one, other| one[of].total_cmp(&other[of]));
            seen[seen.len() / 2][of]
        };
        println!("  {name:<28} {:>7.0}/s  p50 {:>7.0} µs  p99 {:>7.0} µs", median(0), median(1), median(2));
    }
}

/// Requests a second, and the median and 99th percentile of one in microseconds.
async fn load(way: &Way, period: Duration) -> [f64; 3] {
    let began = Instant::now();
    let callers = (0..CALLERS).map(|_| {
        let way = match way {
            Way::Plain(address) => Way::Plain(*address),
            Way::PlainTls(address, connector) => Way::PlainTls(*address, connector.clone()),
            Way::Tool(address, request) => Way::Tool(*address, request.clone()),
        };
        tokio::spawn(async move { way.call(began + period).await })
    });
    let mut took = Vec::new();
    for caller in callers.collect::<Vec<_>>() {
        took.extend(caller.await.unwrap());
    }
    let rate = took.len() as f64 / began.elapsed().as_secs_f64();
    took.sort_unstable();
    let at = |part: usize| took.get(took.len() * part / 100).copied().unwrap_or_default().as_nanos() as f64 / 1000.0;
    [rate, at(50), at(99)]
}

impl Way {
    /// Calls until a moment; how long each call took.
    async fn call(self, end: Instant) -> Vec<Duration> {
        let direct = b"GET /weather HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        let mut took = Vec::new();
        // The agent's program keeps its connection to the tool.
        let mut kept = match &self {
            Self::Tool(address, _) => Some(connect(*address).await),
            _ => None,
        };
        while Instant::now() < end {
            let began = Instant::now();
            let answer = match (&self, &mut kept) {
                (Self::Tool(_, request), Some(kept)) => exchange(kept, request.as_bytes()).await,
                (Self::PlainTls(address, connector), _) => {
                    let name = ServerName::try_from("localhost").unwrap();
                    exchange(&mut connector.connect(name, connect(*address).await).await.unwrap(), direct).await
                }
                (Self::Plain(address) | Self::Tool(address, _), _) => {
                    exchange(&mut connect(*address).await, direct).await
                }
            };
            assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("celsius"), "{answer}");
            took.push(began.elapsed());
        }
        took
    }
}

async fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// Sends a request and reads an answer that has a length.
async fn exchange(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), request: &[u8]) -> String {
    stream.write_all(request).await.unwrap();
    stream.flush().await.unwrap();
    let mut answer = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&answer);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let head = head.to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
            if body.len() >= length.parse().unwrap() {
                return text.into_owned();
            }
        }
        assert!(stream.read_buf(&mut answer).await.unwrap() > 0, "the answer broke off: {answer:?}");
    }
}

/// A server on the loopback, with TLS or without.
async fn serve(tls: Option<TlsAcceptor>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let tls = tls.clone();
            tokio::spawn(async move {
                stream.set_nodelay(true)?;
                match tls {
                    Some(tls) => answer(tls.accept(stream).await?).await,
                    None => answer(stream).await,
                }
            });
        }
    });
    address
}

async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> std::io::Result<()> {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        if stream.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
    }
    let head = format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n", BODY.len());
    stream.write_all(format!("{head}{BODY}").as_bytes()).await?;
    stream.shutdown().await
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tls").join(name)
}

fn acceptor() -> TlsAcceptor {
    let chain = CertificateDer::pem_file_iter(fixture("server.pem")).unwrap().collect::<Result<_, _>>().unwrap();
    let key = PrivateKeyDer::from_pem_file(fixture("server.key")).unwrap();
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key).unwrap();
    TlsAcceptor::from(Arc::new(config))
}

fn connector() -> TlsConnector {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(fixture("ca.pem")).unwrap()).unwrap();
    TlsConnector::from(Arc::new(ClientConfig::builder().with_root_certificates(roots).with_no_client_auth()))
}

/// A gateway with the tool, ended with this value.
struct Gateway {
    process: Child,
    tool: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Gateway {
    fn start(sign: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("gateway.yaml");
        let text = format!(
            "listen: 127.0.0.1:0\nadmin: off\nstore: {{memory: {{}}}}\nlog: {{access: false}}\npublic_url: https://a.example\n\
             agent: {{name: A, talk: off, rest: {{listen: 127.0.0.1:0, token: token-of-the-bench, sign: {sign}, \
             allow_private: [127.0.0.1], tls: {{ca: {}}}}}}}\n",
            fixture("ca.pem").display()
        );
        fs::write(&file, text).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_restap-gateway"));
        command.args(["serve", "-c"]).arg(&file).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut said = BufReader::new(process.stderr.take().unwrap());
        let mut line = String::new();
        let (mut tool, mut serving) = (None, false);
        while tool.is_none() || !serving {
            line.clear();
            assert!(said.read_line(&mut line).unwrap() > 0, "the gateway did not start");
            serving |= line.contains("serving on http://");
            let address = line.trim().split_once("rest_request is served on http://");
            tool = tool.or_else(|| address.map(|(_, address)| address.parse().unwrap()));
        }
        // What it says of each call is read, as whoever keeps its log does.
        std::thread::spawn(move || said.lines().map_while(Result::ok).for_each(drop));
        Self { process, tool: tool.unwrap(), _folder: folder }
    }

    fn call(&self, url: &str) -> Way {
        let body = format!(r#"{{"method":"GET","url":"{url}"}}"#);
        Way::Tool(
            self.tool,
            format!(
                "POST /rest_request HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer token-of-the-bench\r\n\
                 Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            ),
        )
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
