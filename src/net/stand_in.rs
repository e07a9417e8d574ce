//! A service that a test plays itself, byte by byte, on a port of its own.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method};
use pingora::tls::{
    CertificateDer, PrivateKeyDer, RootCertStore, ServerConfig, TlsAcceptor, WebPkiClientVerifier, version,
};
use rustls_pki_types::pem::PemObject;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::{Client, Coding, HttpVersion, Peer, Request, Roots, Timeouts, peer, tls};

/// Nothing on loopback takes this long unless it hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

type Tls = pingora::tls::ServerTlsStream<TcpStream>;

pub(crate) struct StandIn {
    listener: TcpListener,
}

pub(crate) struct Caller<S = TcpStream> {
    pub(crate) stream: S,
}

impl StandIn {
    pub(crate) async fn start() -> Self {
        Self { listener: TcpListener::bind("127.0.0.1:0").await.unwrap() }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.listener.local_addr().unwrap()
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address())
    }

    /// The next connection.
    pub(crate) async fn accept(&self) -> Caller {
        let (stream, _) = timeout(PATIENCE, self.listener.accept()).await.expect("nobody called").unwrap();
        stream.set_nodelay(true).unwrap();
        Caller { stream }
    }

    /// The same over TLS, as 127.0.0.1, localhost and service.test; what the caller showed, or why there is none.
    pub(crate) async fn accept_tls(&self, protocols: &[&[u8]], asks: bool) -> std::io::Result<Caller<Tls>> {
        pingora::tls::install_default_crypto_provider();
        let chain =
            CertificateDer::pem_file_iter(tls_fixture("server.pem")).unwrap().collect::<Result<_, _>>().unwrap();
        let key = PrivateKeyDer::from_pem_file(tls_fixture("server.key")).unwrap();
        let builder = ServerConfig::builder_with_protocol_versions(&[&version::TLS12, &version::TLS13]);
        let builder = if asks {
            let mut store = RootCertStore::empty();
            store.add(CertificateDer::from_pem_file(tls_fixture("ca.pem")).unwrap()).unwrap();
            builder.with_client_cert_verifier(WebPkiClientVerifier::builder(Arc::new(store)).build().unwrap())
        } else {
            builder.with_no_client_auth()
        };
        let mut config = builder.with_single_cert(chain, key).unwrap();
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        let stream = self.accept().await.stream;
        Ok(Caller { stream: TlsAcceptor::from(Arc::new(config)).accept(stream).await? })
    }

    /// Whether nobody calls while something else is done.
    pub(crate) async fn is_left_alone(&self) -> bool {
        timeout(Duration::from_millis(50), self.listener.accept()).await.is_err()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Caller<S> {
    /// The next request's head and body, as they came.
    pub(crate) async fn request(&mut self) -> String {
        let mut read = Vec::new();
        loop {
            let text = String::from_utf8_lossy(&read).into_owned();
            if let Some((head, body)) = text.split_once("\r\n\r\n") {
                let length = head
                    .lines()
                    .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
                if body.len() >= length.unwrap_or(0) {
                    return text;
                }
            }
            let count =
                timeout(PATIENCE, self.stream.read_buf(&mut read)).await.expect("the request does not come").unwrap();
            assert_ne!(count, 0, "the caller left in the middle of {text:?}");
        }
    }

    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.unwrap();
        self.stream.flush().await.unwrap();
    }

    /// Waits until the caller has closed or reset the connection, and says how long it took.
    pub(crate) async fn gone(&mut self) -> Duration {
        let start = std::time::Instant::now();
        let mut buffer = [0; 4096];
        let leaves = async { while matches!(self.stream.read(&mut buffer).await, Ok(count) if count > 0) {} };
        timeout(PATIENCE, leaves).await.expect("the caller stays");
        start.elapsed()
    }
}

impl Caller {
    /// Breaks the connection off with a TCP reset.
    pub(crate) fn reset(self) {
        self.stream.set_zero_linger().unwrap();
    }
}

/// A file of the certificates that tests use.
pub(crate) fn tls_fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tls").join(name)
}

pub(crate) fn client() -> Client {
    Client::new(Roots::none())
}

pub(crate) fn settings(url: &str) -> peer::Settings {
    peer::Settings {
        origin: url.parse::<super::Url>().unwrap().origin,
        tls: tls::Settings::default(),
        version: HttpVersion::Auto,
        connect: PATIENCE,
        write: PATIENCE,
        read: PATIENCE,
    }
}

pub(crate) fn peer(client: &Client, service: &StandIn) -> Peer {
    client.peer(&settings(&service.url())).unwrap()
}

pub(crate) fn get(target: &str) -> Request {
    Request {
        method: Method::GET,
        target: target.parse().unwrap(),
        headers: HeaderMap::new(),
        body: Bytes::new(),
        coding: Coding::AsSent,
        timeouts: Timeouts { first_byte: Some(PATIENCE), idle: Some(PATIENCE) },
    }
}

pub(crate) fn post(target: &str, body: impl Into<Bytes>) -> Request {
    Request { method: Method::POST, body: body.into(), ..get(target) }
}
