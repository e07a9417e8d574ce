//! `Guard`: where a URL that a stranger has chosen may lead. Every hop is judged on its own, by the addresses that are
//! then connected to.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use super::address::{self, AddressClass};
use super::allowed::Allowed;
use super::error::{Blocked, Timer};
use super::resolve::localhost;
use super::tls::{self, Credentials};
use super::web_url::WebHost;
use super::{Client, Error, Peer, WebUrl};

/// Lookups at a time. The system's can't be called off: one that hangs goes on after its request has ended, and so does
/// its thread.
const LOOKUPS_MAX: usize = 64;

/// What a guard lets through besides the public internet. Where this process listens it lets nobody, see
/// [`Client::listens_at`].
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Private addresses that may be called. Metadata and the local link are called never.
    pub allow_private: Vec<Allowed>,
    /// PEM file of the authorities to trust in place of the system's.
    pub ca: Option<PathBuf>,
}

/// Resolves a stranger's URL, judges every address that its host has, and makes a peer of exactly these. One address
/// that may not be called refuses the whole name, so that no resolver can mix an inner address among public ones.
#[derive(Clone)]
pub struct Guard {
    client: Client,
    allow_private: Arc<[Allowed]>,
    credentials: Credentials,
    lookups: Arc<Semaphore>,
}

impl Guard {
    pub(super) fn new(client: Client, settings: Settings) -> Result<Self, tls::Error> {
        Ok(Self {
            credentials: Credentials::trusting(settings.ca.as_deref(), client.roots())?,
            client,
            allow_private: settings.allow_private.into(),
            lookups: Arc::new(Semaphore::new(LOOKUPS_MAX)),
        })
    }

    /// The client that its peers are for.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The service that a URL names, for one request: at the addresses that were judged, on a connection of its own, in
    /// HTTP/1.1. The lookup has until `deadline`, and so have the connection and its TLS later.
    pub async fn peer(&self, url: &WebUrl, deadline: Instant) -> Result<Peer, Error> {
        let addresses = self.admit(url, deadline).await?;
        Peer::judged(url.origin(), addresses, &self.credentials, deadline)
    }

    /// The addresses that a URL's host has, if all of them may be called: IPv4 first, then by value, none twice.
    pub(crate) async fn admit(&self, url: &WebUrl, deadline: Instant) -> Result<Vec<SocketAddr>, Error> {
        let (name, mut ips) = match url.host() {
            WebHost::Address(address) => (None, vec![*address]),
            WebHost::Name(name) => match localhost(name) {
                // The machine's own choice of its two addresses is no resolver's trick: those that are allowed count.
                Some(both) => {
                    let judged = both.map(|ip| (ip, self.judge(ip, url.port())));
                    let own = judged.iter().any(|(_, unfit)| *unfit == Some(Unfit::Own));
                    let fit: Vec<_> = judged.iter().filter(|(_, unfit)| unfit.is_none()).map(|(ip, _)| *ip).collect();
                    (Some(name), if own || fit.is_empty() { both.to_vec() } else { fit })
                }
                None => (Some(name), self.look_up(name, url.port(), deadline).await?),
            },
        };
        ips.sort_by_key(|ip| (ip.is_ipv6(), *ip));
        ips.dedup();
        let unfit = ips.iter().find_map(|ip| Some((*ip, self.judge(*ip, url.port())?)));
        if let Some((address, reason)) = unfit {
            let name = name.cloned();
            return Err(Error::Blocked(Blocked { name, address, own: reason == Unfit::Own }));
        }
        Ok(ips.into_iter().map(|ip| SocketAddr::new(ip, url.port())).collect())
    }

    async fn look_up(&self, name: &str, port: u16, deadline: Instant) -> Result<Vec<IpAddr>, Error> {
        let began = Instant::now();
        let late = || Error::Timeout { timer: Timer::Total, after: deadline.saturating_duration_since(began) };
        let unresolved = |reason: String| Error::Resolve { host: name.into(), reason: reason.into() };
        let permit = timeout_at(deadline, Arc::clone(&self.lookups).acquire_owned()).await.map_err(|_| late())?;
        let (resolver, host) = (Arc::clone(self.client.resolver()), name.to_owned());
        let lookup = tokio::spawn(async move {
            let _until_it_ends = permit;
            resolver.resolve(&host, port).await
        });
        let answer = timeout_at(deadline, lookup).await.map_err(|_| late())?;
        let addresses =
            answer.map_err(|error| unresolved(error.to_string()))?.map_err(|error| unresolved(error.to_string()))?;
        if addresses.is_empty() {
            return Err(unresolved("the name has no address".into()));
        }
        Ok(addresses.iter().map(SocketAddr::ip).collect())
    }

    /// Why an address may not be called, if so.
    fn judge(&self, ip: IpAddr, port: u16) -> Option<Unfit> {
        let class = AddressClass::of(ip);
        if class.is_never_allowed() {
            return Some(Unfit::Class);
        }
        if class != AddressClass::Public && !self.allow_private.iter().any(|allowed| allowed.holds(ip, port)) {
            return Some(Unfit::Class);
        }
        self.is_own(ip, port).then_some(Unfit::Own)
    }

    /// Whether a connection would come back to this process.
    fn is_own(&self, ip: IpAddr, port: u16) -> bool {
        let ip = address::effective(ip);
        self.client.own_listeners().iter().filter(|own| own.port() == port).any(|own| {
            let own = own.ip().to_canonical();
            // The unspecified address leads to loopback.
            own == ip || ip.is_unspecified() || own.is_unspecified() && is_of_this_machine(ip)
        })
    }
}

/// Why an address may not be called.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unfit {
    Class,
    Own,
}

/// Whether the machine has this address: then it would also be the one that it calls from. Nothing is sent to find out.
fn is_of_this_machine(ip: IpAddr) -> bool {
    let any = match ip {
        IpAddr::V4(_) => "0.0.0.0:0",
        IpAddr::V6(_) => "[::]:0",
    };
    let calls_from = || {
        let socket = UdpSocket::bind(any)?;
        socket.connect((ip, 9))?;
        socket.local_addr()
    };
    ip.is_loopback() || calls_from().is_ok_and(|from| from.ip() == ip)
}

#[cfg(test)]
mod tests;
