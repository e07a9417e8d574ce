//! Certificates and keys out of files: read and checked here, because Pingora panics on those that it can't read.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use pingora::protocols::tls::CaType;
use pingora::tls::{CertificateDer, ClientConfig, PrivateKeyDer, RootCertStore, ServerName, version};
use pingora::utils::tls::{CertKey, WrappedX509, parse_x509};
use rustls_pki_types::pem::{self, PemObject};

/// A larger file of certificates is refused; the bundles of today's systems have a quarter of it.
const FILE_MAX: u64 = 1 << 20;

/// Where systems keep the authorities that they trust.
const SYSTEM_BUNDLES: [&str; 6] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
    "/usr/local/share/certs/ca-root-nss.crt",
];

/// Names the system's bundle for everything that has no authorities of its own.
const SYSTEM_BUNDLE_VARIABLE: &str = "SSL_CERT_FILE";

/// A bundle without certificates. Pingora reads it in no time, where the system's takes milliseconds in every
/// connector.
const EMPTY_BUNDLE: &str = "/dev/null";

/// A certificate that signs nothing: its key was thrown away. Pingora wants an authority also where nothing is
/// verified.
const NOBODY: &[u8] = include_bytes!("tls/nobody.pem");

/// How TLS is spoken to one service.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// PEM file of the authorities to trust in place of the system's.
    pub ca: Option<PathBuf>,
    /// PEM file of the client certificate chain.
    pub cert: Option<PathBuf>,
    /// PEM file of the client certificate's key.
    pub key: Option<PathBuf>,
    /// The name to verify and to send, where it is not the URL's host.
    pub server_name: Option<String>,
    /// `verify: false`.
    pub insecure: bool,
}

/// Why certificates or keys can't be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file can't be read.
    #[error("{} can't be read: {source}", file.display())]
    File {
        /// Which one.
        file: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// What the file holds can't be used.
    #[error("{} {problem}", file.display())]
    Content {
        /// Which one.
        file: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// Nothing on this system says whom to trust.
    #[error("no bundle of certificate authorities: install the system's, or set {SYSTEM_BUNDLE_VARIABLE} or `tls.ca`")]
    NoSystemBundle,
    /// A certificate without a key or a key without a certificate.
    #[error("a client certificate needs both `tls.cert` and `tls.key`")]
    Half,
    /// A server name that no certificate can hold.
    #[error("`{0}` can't be verified as a server's name; `tls.server_name` says which to verify")]
    ServerName(String),
}

/// The authorities that peers without a `ca` of their own trust.
#[derive(Debug)]
pub struct Roots {
    /// What Pingora's connectors read when they are made; they take UTF-8 alone.
    file: String,
    /// For peers that need the system's authorities when the connectors were made without.
    late: OnceLock<Arc<CaType>>,
}

impl Roots {
    /// The system's authorities: `SSL_CERT_FILE`, else the bundle where systems keep it.
    pub fn system() -> Result<Self, Error> {
        Self::of(&system_bundle()?)
    }

    fn of(bundle: &Path) -> Result<Self, Error> {
        authorities(bundle)?;
        let unnameable = || Error::Content { file: bundle.into(), problem: "has a name that is not UTF-8".into() };
        let file = bundle.to_str().ok_or_else(unnameable)?.to_owned();
        Ok(Self { file, late: OnceLock::new() })
    }

    /// No authorities, which makes for a fast start where no service is called over TLS. A peer that needs the system's
    /// after all, after a reload, brings them along with each connection.
    pub fn none() -> Self {
        Self { file: EMPTY_BUNDLE.into(), late: OnceLock::new() }
    }

    /// The file for `ServerConf.ca_file` and `ConnectorOptions.ca_file`, checked so that Pingora does not panic on it.
    pub fn file(&self) -> &str {
        &self.file
    }

    fn is_empty(&self) -> bool {
        self.file == EMPTY_BUNDLE
    }

    /// The system's authorities, unless the connectors know them already.
    fn late(&self) -> Result<Option<Arc<CaType>>, Error> {
        if !self.is_empty() {
            return Ok(None);
        }
        if let Some(late) = self.late.get() {
            return Ok(Some(Arc::clone(late)));
        }
        let late = authorities(&system_bundle()?)?;
        Ok(Some(Arc::clone(self.late.get_or_init(|| late))))
    }
}

/// What a client of another library needs to speak TLS as our own does: TLS 1.2 or 1.3, and the authorities of `ca` or the
/// system's.
pub fn client_config(settings: &Settings) -> Result<ClientConfig, Error> {
    pingora::tls::install_default_crypto_provider();
    let bundle = match &settings.ca {
        Some(file) => file.clone(),
        None => system_bundle()?,
    };
    let config = ClientConfig::builder_with_protocol_versions(&[&version::TLS12, &version::TLS13]);
    Ok(config.with_root_certificates(bundle_of(&bundle)?.0).with_no_client_auth())
}

/// The authorities of `ca` or the system's as PEM, for a client of another library that reads them itself.
pub fn bundle(settings: &Settings) -> Result<Vec<u8>, Error> {
    pingora::tls::install_default_crypto_provider();
    let bundle = match &settings.ca {
        Some(file) => file.clone(),
        None => system_bundle()?,
    };
    authorities(&bundle)?;
    read(&bundle)
}

/// Whether a service with these settings is verified against the system's authorities.
pub fn needs_system_roots(settings: &Settings) -> bool {
    settings.ca.is_none() && !settings.insecure
}

/// What a peer's connections need besides its address.
#[derive(Clone)]
pub(super) struct Credentials {
    /// Trusted in place of the connector's.
    pub(super) ca: Option<Arc<CaType>>,
    /// Shown when the service asks who calls.
    pub(super) client: Option<Arc<CertKey>>,
}

impl Credentials {
    pub(super) fn none() -> Self {
        Self { ca: None, client: None }
    }

    /// Whom to trust where the server's name is not known yet.
    pub(super) fn trusting(ca: Option<&Path>, roots: &Roots) -> Result<Self, Error> {
        pingora::tls::install_default_crypto_provider();
        let ca = match ca {
            Some(file) => Some(authorities(file)?),
            None => roots.late()?,
        };
        Ok(Self { ca, client: None })
    }

    pub(super) fn read(settings: &Settings, server_name: &str, roots: &Roots) -> Result<Self, Error> {
        pingora::tls::install_default_crypto_provider();
        if !can_be_verified(server_name) {
            return Err(Error::ServerName(server_name.to_owned()));
        }
        let ca = match &settings.ca {
            Some(file) => Some(authorities(file)?),
            None if settings.insecure => Some(nobody()?),
            None => roots.late()?,
        };
        let client = match (&settings.cert, &settings.key) {
            (Some(cert), Some(key)) => Some(Arc::new(client_certificate(cert, key)?)),
            (None, None) => None,
            _ => return Err(Error::Half),
        };
        Ok(Self { ca, client })
    }
}

/// Whether a certificate can hold this name. Pingora puts a hyphen in place of an underscore, as hosts behind wildcard
/// certificates have them.
pub(super) fn can_be_verified(server_name: &str) -> bool {
    ServerName::try_from(server_name.replace('_', "-")).is_ok()
}

fn system_bundle() -> Result<PathBuf, Error> {
    if let Some(file) = std::env::var_os(SYSTEM_BUNDLE_VARIABLE).filter(|file| !file.is_empty()) {
        return Ok(file.into());
    }
    SYSTEM_BUNDLES.iter().map(PathBuf::from).find(|file| file.is_file()).ok_or(Error::NoSystemBundle)
}

fn authorities(file: &Path) -> Result<Arc<CaType>, Error> {
    Ok(bundle_of(file)?.1.into_iter().map(|der| WrappedX509::new(der, parse_x509)).collect::<Vec<_>>().into())
}

/// Reads a bundle as strictly as Pingora does, which takes certificates and nothing else.
fn bundle_of(file: &Path) -> Result<(RootCertStore, Vec<Vec<u8>>), Error> {
    let pem = read(file)?;
    let problem = |problem: String| Error::Content { file: file.into(), problem };
    let mut store = RootCertStore::empty();
    let mut authorities = Vec::new();
    for (number, section) in (1..).zip(<(pem::SectionKind, Vec<u8>)>::pem_slice_iter(&pem)) {
        let (kind, der) = section.map_err(|error| problem(format!("holds broken PEM at part {number}: {error}")))?;
        if kind != pem::SectionKind::Certificate {
            return Err(problem(format!("holds something other than a certificate at part {number}")));
        }
        let readable = store.add(CertificateDer::from(der.as_slice())).is_ok() && is_certificate(&der);
        if !readable {
            return Err(problem(format!("holds a certificate that can't be read at part {number}")));
        }
        authorities.push(der);
    }
    if authorities.is_empty() {
        return Err(problem("holds no certificate in PEM".into()));
    }
    Ok((store, authorities))
}

fn client_certificate(cert: &Path, key: &Path) -> Result<CertKey, Error> {
    let problem = |file: &Path, problem: &str| Error::Content { file: file.into(), problem: problem.into() };
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&read(cert)?)
        .collect::<Result<_, _>>()
        .map_err(|error| problem(cert, &format!("holds broken PEM: {error}")))?;
    if chain.is_empty() {
        return Err(problem(cert, "holds no certificate in PEM"));
    }
    if !chain.iter().all(|certificate| is_certificate(certificate)) {
        return Err(problem(cert, "holds a certificate that can't be read"));
    }
    let der = PrivateKeyDer::from_pem_slice(&read(key)?).map_err(|_| problem(key, "holds no private key in PEM"))?;
    // Pingora keeps the key's bytes alone and has to recognise its kind again.
    let der = PrivateKeyDer::try_from(der.secret_der().to_vec())
        .map_err(|_| problem(key, "holds a key of an unknown kind"))?;
    let bytes = der.secret_der().to_vec();
    ClientConfig::builder_with_protocol_versions(&[&version::TLS12, &version::TLS13])
        .with_root_certificates(RootCertStore::empty())
        .with_client_auth_cert(chain.clone(), der)
        .map_err(|error| problem(key, &format!("is not the key of {}: {error}", cert.display())))?;
    Ok(CertKey::new(chain.iter().map(|certificate| certificate.to_vec()).collect(), bytes))
}

fn nobody() -> Result<Arc<CaType>, Error> {
    let broken = |error: String| Error::Content { file: "nobody.pem".into(), problem: error };
    let der = CertificateDer::from_pem_slice(NOBODY).map_err(|error| broken(error.to_string()))?;
    Ok([WrappedX509::new(der.to_vec(), parse_x509)].into())
}

/// Whether the parser that Pingora trusts blindly takes it.
fn is_certificate(der: &[u8]) -> bool {
    x509_parser::parse_x509_certificate(der).is_ok()
}

fn read(file: &Path) -> Result<Vec<u8>, Error> {
    let failed = |source| Error::File { file: file.into(), source };
    let size = fs::metadata(file).map_err(failed)?.len();
    if size > FILE_MAX {
        return Err(Error::Content { file: file.into(), problem: format!("is larger than {FILE_MAX} bytes") });
    }
    fs::read(file).map_err(failed)
}

#[cfg(test)]
mod tests;
