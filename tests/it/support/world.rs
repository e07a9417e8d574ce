//! A network of its own for a test. Inside, addresses that are public everywhere else are ours and names are what we say,
//! so that agents reach each other as they do on the internet while no packet leaves the machine.

use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use pingora::tls::{CertificateDer, PrivateKeyDer, ServerConfig, TlsAcceptor};
use rustix::process::geteuid;
use rustls_pki_types::pem::PemObject;
use tempfile::TempDir;
use tokio::io::copy_bidirectional;

/// Hosts of agents, of which each has an address, and a certificate of `callers-ca.pem`.
const HOSTS: [(&str, &str); 3] =
    [("a.wild.example", "45.45.45.1"), ("b.wild.example", "45.45.45.2"), ("c.wild.example", "45.45.45.3")];

/// Set inside.
const INSIDE: &str = "RESTAP_TEST_NETWORK";

/// Makes the network, then becomes what stands behind it.
const MAKE: &str = "hosts=$1; shift; ip link set lo up && mount --bind \"$hosts\" /etc/hosts || exit 77; \
     for address in 45.45.45.1 45.45.45.2 45.45.45.3; do ip addr add $address/32 dev lo || exit 77; done; exec \"$@\"";

/// The network that a test runs in.
#[derive(Debug)]
pub(crate) struct World {
    hosts: [(&'static str, &'static str); 3],
}

impl World {
    /// `Some` inside. Outside this runs the test of that name inside, holds it to its outcome, and gives `None`, as where a
    /// network can't be had.
    pub(crate) fn enter(test: &str) -> Option<Self> {
        if std::env::var_os(INSIDE).is_some() {
            return Some(Self { hosts: HOSTS });
        }
        let directory = TempDir::new().unwrap();
        let hosts = directory.path().join("hosts");
        let lines = HOSTS.map(|(name, address)| format!("{address} {name}\n")).concat();
        std::fs::write(&hosts, format!("127.0.0.1 localhost\n{lines}")).unwrap();
        let inside = || {
            let mut command = Command::new("unshare");
            command.args(["--net", "--mount"]);
            if !geteuid().is_root() {
                command.args(["--map-current-user", "--keep-caps"]);
            }
            command.args(["sh", "-c", MAKE, "make"]).arg(&hosts).env(INSIDE, "1").stdin(Stdio::null());
            command
        };
        let can = inside().arg("true").stderr(Stdio::null()).status();
        if !can.is_ok_and(|status| status.success()) {
            eprintln!("skipped: a network of its own needs unshare, ip and the right to use them");
            return None;
        }
        let ran = inside()
            .arg(std::env::current_exe().unwrap())
            .args([test, "--exact", "--nocapture", "--test-threads=1"])
            .output()
            .unwrap();
        let (stdout, stderr) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
        assert!(ran.status.success() && stdout.contains("1 passed"), "{test}, inside:\n{stdout}\n{stderr}");
        for line in stderr.lines().filter(|line| line.starts_with("skipped")) {
            eprintln!("{line}");
        }
        None
    }

    /// The address of one of the hosts.
    fn address(&self, host: &str) -> &'static str {
        self.hosts.iter().find(|(name, _)| *name == host).unwrap().1
    }

    /// `listen` and `public_url` of a gateway that is such a host's, with TLS.
    pub(crate) fn at(&self, host: &str) -> String {
        format!(
            "public_url: https://{host}\nlisten: {{address: \"{}:443\", tls: {{cert: {}, key: {}}}}}\n",
            self.address(host),
            fixture("hosts.pem").display(),
            fixture("hosts.key").display()
        )
    }

    /// Ends TLS for such a host and passes everything on.
    pub(crate) fn terminate(&self, host: &str, service: SocketAddr) {
        terminate((self.address(host), 443), "hosts", service);
    }
}

/// Ends TLS at an address and passes everything on, as a proxy in front of a service does. Says where it listens.
pub(crate) fn terminate(at: impl ToSocketAddrs, certificate: &str, service: SocketAddr) -> SocketAddr {
    pingora::tls::install_default_crypto_provider();
    let chain = CertificateDer::pem_file_iter(fixture(&format!("{certificate}.pem"))).unwrap();
    let key = PrivateKeyDer::from_pem_file(fixture(&format!("{certificate}.key"))).unwrap();
    let builder = ServerConfig::builder().with_no_client_auth();
    let config = builder.with_single_cert(chain.collect::<Result<_, _>>().unwrap(), key).unwrap();
    let listener = TcpListener::bind(at).unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            let acceptor = TlsAcceptor::from(Arc::new(config));
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let mut caller = acceptor.accept(stream).await?;
                    let mut service = tokio::net::TcpStream::connect(service).await?;
                    service.set_nodelay(true)?;
                    copy_bidirectional(&mut caller, &mut service).await
                });
            }
        });
    });
    address
}

/// The authority that all hosts are trusted by.
pub(crate) fn authority() -> String {
    fixture("callers-ca.pem").display().to_string()
}

pub(crate) fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tls").join(name)
}
