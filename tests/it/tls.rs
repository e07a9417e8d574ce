//! TLS towards callers: versions, hosts, client certificates, files that change, redirects, and proxies in front.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use pingora::tls::{CertificateDer, ClientConfig, PrivateKeyDer, RootCertStore, TlsConnector, version};
use rustls_pki_types::ServerName;
use rustls_pki_types::pem::PemObject;
use serde_json::json;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{Call, Gateway, PATIENCE, Upstream, fixture, until};

/// A caller that speaks TLS.
#[derive(Clone)]
struct Caller {
    authority: &'static str,
    host: &'static str,
    /// Certificate and key to show.
    shows: Option<&'static str>,
    only_1_2: bool,
    /// Sent before the handshake.
    first: Vec<u8>,
}

impl Default for Caller {
    fn default() -> Self {
        Self { authority: "ca.pem", host: "localhost", shows: None, only_1_2: false, first: Vec::new() }
    }
}

impl Caller {
    /// Asks once; the whole answer, or why there is none.
    fn ask(&self, address: SocketAddr, call: &Call) -> Result<String, String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let bytes = call.clone().header("Connection", "close").bytes();
        runtime.block_on(async {
            tokio::time::timeout(PATIENCE, self.exchange(address, &bytes)).await.expect("it takes too long")
        })
    }

    async fn exchange(&self, address: SocketAddr, bytes: &[u8]) -> Result<String, String> {
        pingora::tls::install_default_crypto_provider();
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(fixture(self.authority)).unwrap()).unwrap();
        let versions = if self.only_1_2 { vec![&version::TLS12] } else { vec![&version::TLS12, &version::TLS13] };
        let builder = ClientConfig::builder_with_protocol_versions(&versions).with_root_certificates(roots);
        let config = match self.shows {
            None => builder.with_no_client_auth(),
            Some(name) => {
                let chain = vec![CertificateDer::from_pem_file(fixture(&format!("{name}.pem"))).unwrap()];
                let key = PrivateKeyDer::from_pem_file(fixture(&format!("{name}.key"))).unwrap();
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        };
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        stream.write_all(&self.first).await.unwrap();
        let name = ServerName::try_from(self.host).unwrap();
        let connector = TlsConnector::from(Arc::new(config));
        let mut stream = connector.connect(name, stream).await.map_err(|error| error.to_string())?;
        stream.write_all(bytes).await.map_err(|error| error.to_string())?;
        let mut answer = Vec::new();
        let read = stream.read_to_end(&mut answer).await;
        let answer = String::from_utf8(answer).unwrap();
        match read {
            Ok(_) => Ok(answer),
            Err(_) if !answer.is_empty() => Ok(answer),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// A listener with the server's certificate and these keys more.
fn listening(more: &str) -> String {
    let (cert, key) = (fixture("server.pem"), fixture("server.key"));
    format!("listen: {{address: \"127.0.0.1:0\", tls: {{cert: {}, key: {}{more}}}}}\n", cert.display(), key.display())
}

fn service() -> Upstream {
    Upstream::start(|exchange| exchange.json(&json!({"ok": true})))
}

fn agent(upstream: &Upstream, access: &str) -> String {
    format!(
        "agent:\n  name: Secure\n  talk: off\n  upstream: {}\n  capabilities: [{{id: any.get, endpoint: '/{{*path}}'}}]\n{access}",
        upstream.url()
    )
}

#[test]
fn a_caller_that_speaks_tls_is_served_and_its_service_is_told_so() {
    let upstream = service();
    let gateway = Gateway::start(&(listening(", hsts: 365d") + &agent(&upstream, "")));
    let caller = Caller::default();
    let answer = caller.ask(gateway.address(), &Call::get("/x")).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with(r#"{"ok":true}"#), "{answer}");
    assert!(answer.to_ascii_lowercase().contains("strict-transport-security: max-age=31536000\r\n"), "{answer}");
    assert_eq!(upstream.last().header("x-forwarded-proto"), Some("https"));
    let old = Caller { only_1_2: true, ..Caller::default() };
    assert!(old.ask(gateway.address(), &Call::get("/health")).unwrap().starts_with("HTTP/1.1 200"));
    // Whoever does not trust the authority, or asks for another host, learns so from the certificate.
    for stranger in
        [Caller { authority: "callers-ca.pem", ..Caller::default() }, Caller { host: "a.example", ..Caller::default() }]
    {
        assert!(stranger.ask(gateway.address(), &Call::get("/health")).unwrap_err().contains("certificate"));
    }
}

#[test]
fn a_caller_without_tls_is_told_to_come_with_it() {
    let upstream = service();
    let gateway = Gateway::start(&(listening("") + &agent(&upstream, "")));
    let mut connection = gateway.connect();
    connection.send(Call::get("/x").bytes());
    let refused = connection.response(false).refused(400, "bad_request");
    assert!(refused["message"].as_str().unwrap().contains("https://"));
    assert!(connection.is_closed() && upstream.requests().is_empty());
}

#[test]
fn the_oldest_version_is_the_operators_choice() {
    let upstream = service();
    let gateway = Gateway::start(&(listening(", min: \"1.3\"") + &agent(&upstream, "")));
    let old = Caller { only_1_2: true, ..Caller::default() };
    assert!(old.ask(gateway.address(), &Call::get("/health")).is_err());
    assert!(Caller::default().ask(gateway.address(), &Call::get("/health")).unwrap().starts_with("HTTP/1.1 200"));
}

#[test]
fn each_host_is_served_with_the_certificate_that_names_it() {
    let upstream = service();
    let others =
        format!(", others: [{{cert: {}, key: {}}}]", fixture("hosts.pem").display(), fixture("hosts.key").display());
    let gateway = Gateway::start(&(listening(&others) + &agent(&upstream, "")));
    for (host, authority) in
        [("localhost", "ca.pem"), ("other.example", "callers-ca.pem"), ("any.wild.example", "callers-ca.pem")]
    {
        let caller = Caller { authority, host, ..Caller::default() };
        assert!(caller.ask(gateway.address(), &Call::get("/health")).unwrap().starts_with("HTTP/1.1 200"), "{host}");
    }
}

#[test]
fn a_client_certificate_says_who_calls() {
    let upstream = service();
    let access = "  access:\n    groups: {edges: [\"cert:dns:*.example.com\"]}\n    tools: {edges: [\"any.*\"]}\n";
    let ca = format!(", client_ca: {}", fixture("callers-ca.pem").display());
    let gateway = Gateway::start(&(listening(&ca) + &agent(&upstream, access)));
    let status =
        |caller: &Caller| caller.ask(gateway.address(), &Call::get("/x")).map(|answer| answer[9..12].to_owned());
    assert_eq!(status(&Caller { shows: Some("edge"), ..Caller::default() }), Ok("200".into()));
    let told = upstream.last();
    assert_eq!(
        (told.header("restap-caller-kind"), told.header("restap-caller")),
        (Some("cert"), Some("dns:edge.example.com"))
    );
    gateway.wait_for_line("caller=cert:dns:edge.example.com");
    assert_eq!(status(&Caller::default()), Ok("401".into()));
    // Verified, and in no group.
    assert_eq!(status(&Caller { shows: Some("hosts"), ..Caller::default() }), Ok("403".into()));
    // Not verified: there is no connection at all.
    assert!(status(&Caller { shows: Some("client"), ..Caller::default() }).is_err());
    assert_eq!(upstream.requests().len(), 1);
}

#[test]
fn where_a_client_certificate_is_required_nobody_comes_without() {
    let upstream = service();
    let ca = format!(", client_ca: {}, client_auth: required", fixture("callers-ca.pem").display());
    let gateway = Gateway::start(&(listening(&ca) + &agent(&upstream, "")));
    assert!(Caller::default().ask(gateway.address(), &Call::get("/health")).is_err());
    let edge = Caller { shows: Some("edge"), ..Caller::default() };
    assert!(edge.ask(gateway.address(), &Call::get("/health")).unwrap().starts_with("HTTP/1.1 200"));
}

#[test]
fn a_certificate_that_changes_is_served_to_the_next_caller_and_a_broken_one_is_not() {
    let upstream = service();
    let directory = Arc::new(TempDir::new().unwrap());
    let put = |name: &str, from: &str| {
        let fresh = directory.path().join("fresh");
        std::fs::copy(fixture(from), &fresh).unwrap();
        std::fs::rename(fresh, directory.path().join(name)).unwrap();
    };
    put("tls.pem", "server.pem");
    put("tls.key", "server.key");
    let file =
        "listen: {address: \"127.0.0.1:0\", tls: {cert: tls.pem, key: tls.key}}\n".to_owned() + &agent(&upstream, "");
    let gateway = Gateway::start_in(directory.clone(), &file);
    let (before, after) =
        (Caller::default(), Caller { host: "other.example", authority: "callers-ca.pem", ..Caller::default() });
    let works = |caller: &Caller| caller.ask(gateway.address(), &Call::get("/health")).is_ok();
    assert!(works(&before) && !works(&after));
    put("tls.pem", "edge.key");
    gateway.wait_for_line("connections go on with the certificate that was there before");
    assert!(works(&before));
    put("tls.key", "hosts.key");
    put("tls.pem", "hosts.pem");
    until("the other certificate is served", || works(&after).then_some(()));
    assert!(!works(&before));
}

#[test]
fn who_comes_without_tls_is_sent_to_it() {
    let upstream = service();
    let tls = listening("");
    let tls = tls.trim().strip_prefix("listen: ").unwrap();
    let file = format!("listen: [{{address: \"127.0.0.1:0\", https_redirect: true}}, {tls}]\n{}", agent(&upstream, ""));
    let gateway = Gateway::start(&file);
    let mut connection = gateway.connect();
    connection.send(Call::post("/x?a=b", &json!({"secret": true})).header("Host", "localhost:1").bytes());
    let answer = connection.response(false);
    assert_eq!((answer.status, answer.header("connection")), (308, Some("close")));
    let location = answer.header("location").unwrap();
    let (port, target) = location.strip_prefix("https://localhost:").unwrap().split_once('/').unwrap();
    assert_eq!(target, "x?a=b");
    assert!(connection.is_closed() && upstream.requests().is_empty());
    let address = SocketAddr::new(gateway.address().ip(), port.parse().unwrap());
    assert!(Caller::default().ask(address, &Call::get("/x")).unwrap().starts_with("HTTP/1.1 200"));
}

#[test]
fn a_trusted_proxy_says_whose_connection_it_passes_on() {
    let upstream = service();
    let v2 = [b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c".as_slice(), &[203, 0, 113, 9, 10, 0, 0, 1, 0, 80, 0, 80]].concat();
    let v1 = b"PROXY TCP4 203.0.113.9 10.0.0.1 80 80\r\n".to_vec();
    let plain = Gateway::start(&format!("trusted_proxies: [127.0.0.1]\n{}", agent(&upstream, "")));
    for header in [&v1, &v2] {
        let mut connection = plain.connect();
        connection
            .send([header.as_slice(), &Call::get("/x").header("X-Forwarded-For", "198.51.100.1").bytes()].concat());
        assert_eq!(connection.response(false).status, 200);
        // What the caller itself claims is not believed: it is the caller's connection now.
        assert_eq!(upstream.last().header("x-forwarded-for"), Some("203.0.113.9"));
        plain.wait_for_line("203.0.113.9 GET /x");
        assert_eq!(connection.call(&Call::get("/again")).status, 200);
    }
    // A proxy need not say anything.
    assert_eq!(plain.get("/x").status, 200);
    assert_eq!(upstream.last().header("x-forwarded-for"), Some("127.0.0.1"));
    let tls = Gateway::start(&format!("trusted_proxies: [127.0.0.1]\n{}{}", listening(""), agent(&upstream, "")));
    for first in [v1.clone(), v2, Vec::new()] {
        let caller = Caller { first, ..Caller::default() };
        assert!(caller.ask(tls.address(), &Call::get("/x")).unwrap().starts_with("HTTP/1.1 200"));
    }
    // From anybody else it is no HTTP.
    let strict = Gateway::start(&agent(&upstream, ""));
    let mut connection = strict.connect();
    connection.send([v1.as_slice(), &Call::get("/x").bytes()].concat());
    connection.response(false).refused(400, "bad_request");
    // A broken header is nobody's.
    let mut connection = plain.connect();
    connection.send("PROXY TCP4 nobody 10.0.0.1 80 80\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(connection.is_closed());
}

#[test]
fn a_handshake_that_never_ends_times_out() {
    let upstream = service();
    let file = format!("limits: {{header_timeout: 300ms}}\n{}{}", listening(""), agent(&upstream, ""));
    let gateway = Gateway::start(&file);
    for bytes in [b"".as_slice(), b"\x16", b"\x16\x03\x01\x02\x00\x01"] {
        let mut connection = gateway.connect();
        connection.send(bytes);
        connection.patience(Duration::from_secs(20));
        assert!(connection.is_closed());
    }
}
