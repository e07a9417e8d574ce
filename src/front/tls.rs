//! TLS towards callers: certificates by host name, client certificates, and files that are read again when they change.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use pingora::tls::sign::CertifiedKey;
use pingora::tls::{
    CertificateDer, ClientHello, CryptoProvider, PrivateKeyDer, ResolvesServerCert, RootCertStore, ServerConfig,
    ServerTlsStream, TlsAcceptor, WebPkiClientVerifier, version,
};
use ring::digest::{SHA256, digest};
use rustls_pki_types::pem::PemObject;
use tokio::io::{AsyncRead, AsyncWrite};
use tracing::{info, warn};
use x509_parser::prelude::GeneralName;

/// Bytes of a file of certificates or of a key.
const FILE_MAX: u64 = 1 << 20;

/// How often files are looked at for a change.
const LOOK: Duration = Duration::from_secs(1);

/// Names of a client certificate that a caller is known by.
const NAMES_MAX: usize = 64;

/// `tls:` of a listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The certificate of callers that ask for no host, or for one that no other certificate names.
    pub first: Pair,
    /// Certificates of other hosts, chosen by the names in them.
    pub others: Vec<Pair>,
    /// The oldest version that is spoken.
    pub min: MinVersion,
    /// PEM file of the authorities that client certificates are verified by.
    pub client_ca: Option<PathBuf>,
    /// Whether a caller may come without one.
    pub client_auth: ClientAuth,
    /// How long browsers shall come by TLS alone (RFC 6797).
    pub hsts: Option<Duration>,
}

/// A certificate and its key, in PEM files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    /// The chain, the server's own certificate first.
    pub cert: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// The oldest version that is spoken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MinVersion {
    /// TLS 1.2.
    #[default]
    Tls12,
    /// TLS 1.3.
    Tls13,
}

/// Whether callers need a certificate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ClientAuth {
    /// One that is shown must be good.
    #[default]
    Optional,
    /// Without one there is no connection.
    Required,
}

/// Why certificates or keys can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} {problem}", file.display())]
pub struct Unusable {
    /// Which file.
    pub file: PathBuf,
    /// What is wrong with it.
    pub problem: String,
}

/// What speaks TLS on a listener. New connections are served with the files as they are now.
#[derive(Debug)]
pub struct Acceptor {
    settings: Settings,
    config: ArcSwap<ServerConfig>,
}

/// When a file was changed and how long it is: enough to see that it is another one.
type Stamp = Vec<Option<(SystemTime, u64)>>;

impl Acceptor {
    /// Reads and checks everything.
    pub fn open(settings: &Settings) -> Result<Arc<Self>, Unusable> {
        let config = ArcSwap::new(config(settings)?);
        Ok(Arc::new(Self { settings: settings.clone(), config }))
    }

    /// How long browsers shall come by TLS alone.
    pub(super) fn hsts(&self) -> Option<Duration> {
        self.settings.hsts
    }

    /// Shakes hands. Gives the stream and the names of the client's certificate, if it has shown one.
    pub(super) async fn accept<S>(&self, stream: S) -> io::Result<(ServerTlsStream<S>, Vec<Box<str>>)>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let stream = TlsAcceptor::from(self.config.load_full()).accept(stream).await?;
        let (_, connection) = stream.get_ref();
        let leaf = connection.peer_certificates().and_then(<[_]>::first);
        let names = leaf.map(|leaf| names(leaf)).unwrap_or_default();
        Ok((stream, names))
    }

    /// Reads the files again whenever one of them has changed. What can't be used then leaves everything as it was.
    pub async fn watch(self: Arc<Self>) {
        let mut known = self.stamp();
        loop {
            tokio::time::sleep(LOOK).await;
            let stamp = self.stamp();
            if stamp == known {
                continue;
            }
            known = stamp;
            match config(&self.settings) {
                Ok(config) => {
                    self.config.store(config);
                    info!("the certificate in {} was read again", self.settings.first.cert.display());
                }
                Err(problem) => warn!("{problem}; connections go on with the certificate that was there before"),
            }
        }
    }

    fn stamp(&self) -> Stamp {
        let pairs = std::iter::once(&self.settings.first).chain(&self.settings.others);
        let files = pairs.flat_map(|pair| [&pair.cert, &pair.key]).chain(&self.settings.client_ca);
        let stamp = |file: &PathBuf| {
            let found = fs::metadata(file).ok()?;
            Some((found.modified().ok()?, found.len()))
        };
        files.map(stamp).collect()
    }
}

/// Whether the files can be used: what a configuration is checked for.
pub fn check(settings: &Settings) -> Result<(), Unusable> {
    config(settings).map(drop)
}

fn config(settings: &Settings) -> Result<Arc<ServerConfig>, Unusable> {
    pingora::tls::install_default_crypto_provider();
    let (newest, both) = ([&version::TLS13], [&version::TLS13, &version::TLS12]);
    let versions = match settings.min {
        MinVersion::Tls12 => both.as_slice(),
        MinVersion::Tls13 => newest.as_slice(),
    };
    let builder = ServerConfig::builder_with_protocol_versions(versions);
    let builder = match &settings.client_ca {
        None => builder.with_no_client_auth(),
        Some(file) => {
            let verifier = WebPkiClientVerifier::builder(Arc::new(authorities(file)?));
            let verifier = match settings.client_auth {
                ClientAuth::Optional => verifier.allow_unauthenticated(),
                ClientAuth::Required => verifier,
            };
            builder.with_client_cert_verifier(verifier.build().map_err(|error| unusable(file, error.to_string()))?)
        }
    };
    let mut hosts = Hosts { first: certified(&settings.first)?.0, others: Vec::new() };
    for pair in &settings.others {
        let (key, names) = certified(pair)?;
        if names.is_empty() {
            return Err(unusable(&pair.cert, "names no host that callers could ask for".into()));
        }
        hosts.others.extend(names.into_iter().map(|name| (name, key.clone())));
    }
    let mut config = builder.with_cert_resolver(Arc::new(hosts));
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Certificates by the name that a caller asks for.
#[derive(Debug)]
struct Hosts {
    first: Arc<CertifiedKey>,
    /// Lower case; `*.` in front is any one label.
    others: Vec<(Box<str>, Arc<CertifiedKey>)>,
}

impl Hosts {
    fn find(&self, asked: Option<&str>) -> Arc<CertifiedKey> {
        let asked = asked.unwrap_or_default().to_ascii_lowercase();
        let behind = asked.split_once('.').map(|(_, behind)| behind);
        let exact = self.others.iter().find(|(name, _)| **name == *asked);
        let wild =
            || self.others.iter().find(|(name, _)| name.strip_prefix("*.").is_some_and(|name| Some(name) == behind));
        exact.or_else(wild).map_or(&self.first, |(_, key)| key).clone()
    }
}

impl ResolvesServerCert for Hosts {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.find(hello.server_name()))
    }
}

/// The key with its chain, and the host names of its certificate.
fn certified(pair: &Pair) -> Result<(Arc<CertifiedKey>, Vec<Box<str>>), Unusable> {
    let chain = certificates(&pair.cert)?;
    let names = chain.first().map(|leaf| names(leaf)).unwrap_or_default();
    let names = names.iter().filter_map(|name| name.strip_prefix("dns:")).map(Into::into).collect();
    let bytes = read(&pair.key)?;
    let key =
        PrivateKeyDer::from_pem_slice(&bytes).map_err(|_| unusable(&pair.key, "holds no private key in PEM".into()))?;
    let provider = CryptoProvider::get_default().ok_or_else(|| unusable(&pair.key, "can't be used yet".into()))?;
    let key = CertifiedKey::from_der(chain, key, provider).map_err(|error| {
        unusable(&pair.key, format!("is not the key of {}, or of an unknown kind: {error}", pair.cert.display()))
    })?;
    Ok((Arc::new(key), names))
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, Unusable> {
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&read(file)?)
        .collect::<Result<_, _>>()
        .map_err(|error| unusable(file, format!("holds broken PEM: {error}")))?;
    match chain.as_slice() {
        [] => Err(unusable(file, "holds no certificate in PEM".into())),
        all if all.iter().all(|one| x509_parser::parse_x509_certificate(one).is_ok()) => Ok(chain),
        _ => Err(unusable(file, "holds a certificate that can't be read".into())),
    }
}

fn authorities(file: &Path) -> Result<RootCertStore, Unusable> {
    let mut store = RootCertStore::empty();
    for certificate in certificates(file)? {
        store
            .add(certificate)
            .map_err(|error| unusable(file, format!("holds an authority that can't be used: {error}")))?;
    }
    Ok(store)
}

/// What a certificate says of its owner: `dns:`, `uri:`, `cn:`, and the digest of it all.
fn names(certificate: &[u8]) -> Vec<Box<str>> {
    let Ok((_, parsed)) = x509_parser::parse_x509_certificate(certificate) else { return Vec::new() };
    let mut names: Vec<Box<str>> = Vec::new();
    let alternatives = parsed.subject_alternative_name().ok().flatten();
    for name in alternatives.iter().flat_map(|names| &names.value.general_names) {
        match name {
            GeneralName::DNSName(name) => names.push(format!("dns:{}", name.to_ascii_lowercase()).into()),
            GeneralName::URI(uri) => names.push(format!("uri:{uri}").into()),
            _ => {}
        }
    }
    names.extend(
        parsed.subject().iter_common_name().filter_map(|name| Some(format!("cn:{}", name.as_str().ok()?).into())),
    );
    names.truncate(NAMES_MAX);
    let digest = digest(&SHA256, certificate);
    let mut hex = String::from("sha256:");
    for byte in digest.as_ref() {
        for half in [byte >> 4, byte & 15] {
            hex.extend(char::from_digit(u32::from(half), 16));
        }
    }
    names.push(hex.into());
    names
}

fn read(file: &Path) -> Result<Vec<u8>, Unusable> {
    let failed = |error: io::Error| unusable(file, format!("can't be read: {error}"));
    if fs::metadata(file).map_err(failed)?.len() > FILE_MAX {
        return Err(unusable(file, format!("is larger than {FILE_MAX} bytes")));
    }
    fs::read(file).map_err(failed)
}

fn unusable(file: &Path, problem: String) -> Unusable {
    Unusable { file: file.into(), problem }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixture(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tls").join(name)
    }

    fn pair(cert: &str, key: &str) -> Pair {
        Pair { cert: fixture(cert), key: fixture(key) }
    }

    fn settings(first: Pair) -> Settings {
        Settings {
            first,
            others: Vec::new(),
            min: MinVersion::default(),
            client_ca: None,
            client_auth: ClientAuth::default(),
            hsts: None,
        }
    }

    #[test]
    fn what_can_t_be_used_is_told_with_its_file() {
        assert_eq!(check(&settings(pair("server.pem", "server.key"))), Ok(()));
        for (cert, key, file, problem) in [
            ("missing.pem", "server.key", "missing.pem", "can't be read"),
            ("server.key", "server.key", "server.key", "holds no certificate"),
            ("server.pem", "missing.key", "missing.key", "can't be read"),
            ("server.pem", "server.pem", "server.pem", "holds no private key"),
            ("server.pem", "client.key", "client.key", "is not the key of"),
        ] {
            let unusable = check(&settings(pair(cert, key))).unwrap_err();
            assert!(unusable.file.ends_with(file) && unusable.problem.starts_with(problem), "{unusable}");
        }
        let clients = |file| Settings { client_ca: Some(fixture(file)), ..settings(pair("server.pem", "server.key")) };
        assert_eq!(check(&clients("ca.pem")), Ok(()));
        assert!(check(&clients("server.key")).is_err());
    }

    #[test]
    fn a_certificate_is_known_by_its_names_and_its_digest() {
        let certificate = CertificateDer::from_pem_file(fixture("client.pem")).unwrap();
        let names = names(&certificate);
        let digest = names.last().unwrap();
        assert!(digest.starts_with("sha256:") && digest.len() == 71, "{names:?}");
        assert!(super::names(b"no certificate").is_empty());
    }

    #[test]
    fn a_host_is_served_with_the_certificate_that_names_it() {
        pingora::tls::install_default_crypto_provider();
        let key = || certified(&pair("server.pem", "server.key")).unwrap().0;
        let (first, exact, wild) = (key(), key(), key());
        let others = vec![("*.b.example".into(), wild.clone()), ("a.b.example".into(), exact.clone())];
        let hosts = Hosts { first: first.clone(), others };
        for (asked, expected) in [
            (None, &first),
            (Some("other.example"), &first),
            (Some("b.example"), &first),
            (Some("x.y.b.example"), &first),
            (Some("A.B.example"), &exact),
            (Some("c.b.example"), &wild),
        ] {
            assert!(Arc::ptr_eq(&hosts.find(asked), expected), "{asked:?}");
        }
    }
}
