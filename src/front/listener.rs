//! Listeners: bound before anything runs, shared by all workers, closed before the last request ends.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pingora::apps::HttpServerApp;
use pingora::protocols::l4::socket::SocketAddr as PeerAddr;
use prometheus::IntGauge;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tracing::{debug, warn};

use super::arrival::Arrival;
use super::connection::{self, Server};
use super::downstream::{Downstream, Ends};
use super::handover::Inherited;
use super::proxy_protocol::{self, Preface};
use super::settings::Listen;
use super::way::{Trusts, Way};

/// Connections that wait in the kernel to be accepted.
const BACKLOG: i32 = 1024;

/// A listener can't be opened.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Another process has the port.
    #[error("{0} is in use by another process; stop that one, or write another `listen`")]
    InUse(String),
    /// The system refuses.
    #[error("can't listen on {0}: {1}")]
    Refused(String, io::Error),
}

/// An open socket that accepts.
#[derive(Debug)]
pub enum Listener {
    /// TCP, and the address that it really has.
    Tcp(TcpListener, SocketAddr),
    /// A unix socket and its file.
    Unix(UnixListener, PathBuf),
}

/// The file of a unix socket, taken away when this is dropped.
#[derive(Debug)]
pub struct SocketFile(PathBuf);

impl SocketFile {
    /// Leaves the file where it is: another process listens there.
    pub fn keep(mut self) {
        self.0 = PathBuf::new();
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.0.as_os_str().is_empty() {
            return;
        }
        // Somebody who has removed or replaced it meanwhile is right.
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Listener {
    /// Takes a listener over from a process before this one, or opens it at once: a port that is taken must end the
    /// start, not delay it.
    pub fn open(listen: &Listen, inherited: &mut Inherited) -> Result<Self, BindError> {
        let Some(socket) = inherited.take(listen) else { return Self::bind(listen) };
        Self::adopt(listen, socket).map_err(|error| BindError::Refused(listen.to_string(), error))
    }

    fn adopt(listen: &Listen, socket: OwnedFd) -> io::Result<Self> {
        match listen {
            Listen::Tcp(_) => {
                let listener = TcpListener::from(socket);
                listener.set_nonblocking(true)?;
                let address = listener.local_addr()?;
                Ok(Self::Tcp(listener, address))
            }
            Listen::Unix(path) => {
                let listener = UnixListener::from(socket);
                listener.set_nonblocking(true)?;
                Ok(Self::Unix(listener, path.clone()))
            }
        }
    }

    /// Opens a listener at once.
    pub fn bind(listen: &Listen) -> Result<Self, BindError> {
        match listen {
            Listen::Tcp(address) => bind_tcp(*address).map_err(|error| match error.kind() {
                io::ErrorKind::AddrInUse => BindError::InUse(address.to_string()),
                _ => BindError::Refused(address.to_string(), error),
            }),
            Listen::Unix(path) => bind_unix(path).map_err(|error| match error.kind() {
                io::ErrorKind::AddrInUse => BindError::InUse(format!("unix:{}", path.display())),
                _ => BindError::Refused(format!("unix:{}", path.display()), error),
            }),
        }
    }

    /// What a caller would type.
    pub fn url(&self, way: &Way) -> String {
        let scheme = if way.tls.is_some() { "https" } else { "http" };
        match self {
            Self::Tcp(_, address) if address.ip().is_unspecified() => {
                format!("{scheme}://localhost:{}", address.port())
            }
            Self::Tcp(_, address) => format!("{scheme}://{address}"),
            Self::Unix(_, path) => format!("unix:{}", path.display()),
        }
    }

    /// Where it is on TCP.
    pub fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(_, address) => Some(*address),
            Self::Unix(..) => None,
        }
    }

    /// Closes this handle; what is left of a unix socket is its file.
    pub fn into_file(self) -> Option<SocketFile> {
        match self {
            Self::Tcp(..) => None,
            Self::Unix(_, path) => Some(SocketFile(path)),
        }
    }

    /// Another handle on the same socket, for another worker.
    pub fn share(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Tcp(listener, address) => Self::Tcp(listener.try_clone()?, *address),
            Self::Unix(listener, path) => Self::Unix(listener.try_clone()?, path.clone()),
        })
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(listener, _) => listener.as_fd(),
            Self::Unix(listener, _) => listener.as_fd(),
        }
    }
}

fn bind_tcp(address: SocketAddr) -> io::Result<Listener> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, ipproto, listen, socket_with, sockopt};
    let family = if address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
    // A restart must not wait for the old process's last connections.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if address.is_ipv6() && address.ip().is_unspecified() {
        sockopt::set_ipv6_v6only(&socket, false)?;
    }
    bind(&socket, &address)?;
    listen(&socket, BACKLOG)?;
    let listener = TcpListener::from(socket);
    let address = listener.local_addr()?;
    Ok(Listener::Tcp(listener, address))
}

fn bind_unix(path: &Path) -> io::Result<Listener> {
    let left_over = std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    // The file of a process that was killed stays; one that somebody answers on is in use.
    if left_over && UnixStream::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused) {
        std::fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    listener.set_nonblocking(true)?;
    Ok(Listener::Unix(listener, path.to_owned()))
}

/// What every accept loop of the process shares.
pub struct Door<A> {
    /// What serves them.
    pub server: Server<A>,
    /// One permit a connection.
    pub connections: Arc<Semaphore>,
    /// Counts the connections that are open.
    pub open: IntGauge,
    /// Whose PROXY headers count.
    pub trusts: Trusts,
}

impl<A> Clone for Door<A> {
    fn clone(&self) -> Self {
        Self {
            server: self.server.clone(),
            connections: self.connections.clone(),
            open: self.open.clone(),
            trusts: self.trusts.clone(),
        }
    }
}

impl<A: HttpServerApp + Send + Sync + 'static> Door<A> {
    /// Accepts until the process stops. Must run inside a worker's runtime, which then serves the connections.
    pub async fn accept(self, listener: Listener, way: Way) -> io::Result<()> {
        let mut shutdown = self.server.shutdown.clone();
        let stopping = async move { shutdown.wait_for(|stopping| *stopping).await.is_ok() };
        let accepting = async {
            match listener {
                Listener::Tcp(listener, local) => {
                    self.accept_tcp(tokio::net::TcpListener::from_std(listener)?, local, &way).await
                }
                Listener::Unix(listener, _) => {
                    self.accept_unix(tokio::net::UnixListener::from_std(listener)?, &way).await
                }
            }
        };
        tokio::select! {
            result = accepting => result,
            _ = stopping => Ok(()),
        }
    }

    async fn accept_tcp(&self, listener: tokio::net::TcpListener, local: SocketAddr, way: &Way) -> io::Result<()> {
        loop {
            let permit = self.permit().await?;
            match listener.accept().await {
                Ok((stream, peer)) => {
                    // Frames must leave when they are written.
                    let _ = stream.set_nodelay(true);
                    let trusted = (self.trusts)(peer.ip().to_canonical());
                    let (server, way) = (self.server.clone(), way.clone());
                    self.spawn(permit, greet_tcp(server, way, stream, (peer, local), trusted));
                }
                Err(error) => pause(&error).await,
            }
        }
    }

    async fn accept_unix(&self, listener: tokio::net::UnixListener, way: &Way) -> io::Result<()> {
        loop {
            let permit = self.permit().await?;
            match listener.accept().await {
                Ok((stream, _)) => {
                    let id = stream.as_raw_fd();
                    let (server, way) = (self.server.clone(), way.clone());
                    self.spawn(permit, greet(server, way, stream, (id, (None, None)), Vec::new()));
                }
                Err(error) => pause(&error).await,
            }
        }
    }

    /// At the cap nothing is accepted: callers wait in the kernel's queue for a connection to end.
    async fn permit(&self) -> io::Result<OwnedSemaphorePermit> {
        self.connections.clone().acquire_owned().await.map_err(io::Error::other)
    }

    fn spawn(&self, permit: OwnedSemaphorePermit, serving: impl Future<Output = ()> + Send + 'static) {
        let open = Open::count(&self.open);
        tokio::spawn(async move {
            let _held = (permit, open);
            serving.await;
        });
    }
}

/// Learns from a trusted proxy whose connection it is, and that TLS is spoken where it must be.
async fn greet_tcp<A: HttpServerApp + Send + Sync + 'static>(
    server: Server<A>,
    way: Way,
    mut stream: TcpStream,
    (peer, local): (SocketAddr, SocketAddr),
    trusted: bool,
) {
    let patience = server.header_timeout();
    let (mut peer, mut begun) = (peer, Vec::new());
    if trusted {
        match tokio::time::timeout(patience, proxy_protocol::read(&mut stream)).await {
            Ok(Ok(Preface::From(source))) => peer = source.unwrap_or(peer),
            Ok(Ok(Preface::Absent(bytes))) => begun = bytes,
            Ok(Err(error)) => return debug!("a proxy's connection is closed: {error}"),
            Err(_) => return,
        }
    }
    let id = stream.as_raw_fd();
    let ends = (Some(PeerAddr::Inet(peer)), Some(PeerAddr::Inet(local)));
    if way.tls.is_some() {
        let mut first = [0];
        match tokio::time::timeout(patience, stream.peek(&mut first)).await {
            Ok(Ok(1)) if begun.is_empty() && first == [HANDSHAKE] => {}
            Ok(Ok(1)) => return Downstream::new(stream, id, ends).refuse(&connection::needs_tls()).await,
            _ => return,
        }
    }
    greet(server, way, stream, (id, ends), begun).await;
}

/// Shakes hands where TLS is spoken, then serves.
async fn greet<A, S>(server: Server<A>, way: Way, stream: S, (id, ends): (i32, Ends), begun: Vec<u8>)
where
    A: HttpServerApp + Send + Sync + 'static,
    S: AsyncRead + AsyncWrite + Unpin + Send + Sync + 'static,
{
    let Some(tls) = &way.tls else {
        return server.serve(Downstream::new(stream, id, ends).begun(&begun), way.redirect).await;
    };
    match tokio::time::timeout(server.header_timeout(), tls.accept(stream)).await {
        Ok(Ok((stream, names))) => {
            let arrival = Arrival { tls: true, names, hsts: tls.hsts() };
            // A state machine of its own size: connections without TLS do not carry it.
            Box::pin(server.serve(Downstream::new(stream, id, ends).arrived(arrival), way.redirect)).await;
        }
        Ok(Err(error)) => debug!("no TLS with a caller: {error}"),
        Err(_) => debug!("no TLS with a caller: it took too long"),
    }
}

/// The first byte of a TLS handshake (RFC 8446, section 5.1).
const HANDSHAKE: u8 = 22;

/// Counts a connection down also where serving it panics.
struct Open(IntGauge);

impl Open {
    fn count(gauge: &IntGauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Out of descriptors, usually: others must end before this can go on.
async fn pause(error: &io::Error) {
    warn!("can't accept a connection: {error}");
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
}
