//! `Resolve`: from a host's name to its addresses, kept fresh while it is used and off the request's path after the
//! first time.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;
use tokio::time::Instant;

use super::{AddressClass, Error};

/// Up to this age an answer is used as it is.
const FRESH: Duration = Duration::from_secs(15);
/// Up to this age an answer is used while a lookup runs in the background; an older one is waited for.
const STALE: Duration = Duration::from_mins(1);
/// How long a request waits for a lookup while an older answer is at hand.
const PATIENCE: Duration = Duration::from_secs(1);
/// No name is looked up more often than this, also when it fails.
const BETWEEN_LOOKUPS: Duration = Duration::from_secs(1);
/// How long an address that refused a connection is tried last.
const AVOIDED: Duration = Duration::from_secs(30);
/// More addresses than this of one name are ignored.
const ADDRESSES_MAX: usize = 16;

/// Looks names up. Literal addresses and `localhost` never come here.
#[async_trait]
pub trait Resolve: Send + Sync + 'static {
    /// The addresses of `host`, each with `port`.
    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>>;
}

/// What the system knows: its hosts file and its name servers.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

#[async_trait]
impl Resolve for SystemResolver {
    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        Ok(tokio::net::lookup_host((host, port)).await?.collect())
    }
}

/// The addresses of one host, in the order in which to try them.
pub(super) struct Addresses {
    source: Source,
    /// Where the next request begins, so that all addresses get their share.
    turn: AtomicUsize,
    avoided: Mutex<Vec<(SocketAddr, Instant)>>,
}

enum Source {
    Fixed(Arc<[SocketAddr]>),
    Looked(Arc<Name>),
}

impl Addresses {
    pub(super) fn new(host: &str, port: u16, resolver: &Arc<dyn Resolve>) -> Self {
        let fixed = |ips: &[IpAddr]| Source::Fixed(ips.iter().map(|ip| SocketAddr::new(*ip, port)).collect());
        let source = if let Ok(ip) = host.parse() {
            fixed(&[ip])
        } else if let Some(both) = localhost(host) {
            fixed(&both)
        } else {
            let (known, _) = watch::channel(Known::default());
            Source::Looked(Arc::new(Name { host: host.into(), port, resolver: Arc::clone(resolver), known }))
        };
        Self { source, turn: AtomicUsize::new(0), avoided: Mutex::default() }
    }

    /// These, whatever name they were found by.
    pub(super) fn fixed(addresses: Vec<SocketAddr>) -> Self {
        Self { source: Source::Fixed(addresses.into()), turn: AtomicUsize::new(0), avoided: Mutex::default() }
    }

    /// All addresses that may be connected to, never none. Looks the name up if its addresses are unknown or old; the
    /// caller bounds the wait.
    pub(super) async fn candidates(&self) -> Result<Vec<SocketAddr>, Error> {
        let found = match &self.source {
            Source::Fixed(addresses) => Arc::clone(addresses),
            Source::Looked(name) => name.addresses().await?,
        };
        let mut allowed: Vec<_> = found.iter().copied().filter(is_allowed).collect();
        if allowed.len() > 1 {
            let turn = self.turn.fetch_add(1, Ordering::Relaxed) % allowed.len();
            allowed.rotate_left(turn);
            let mut avoided = self.avoided.lock().unwrap_or_else(PoisonError::into_inner);
            avoided.retain(|(_, since)| since.elapsed() < AVOIDED);
            allowed.sort_by_key(|address| avoided.iter().any(|(other, _)| other == address));
        }
        match found.first() {
            Some(first) if allowed.is_empty() => Err(Error::Forbidden(first.ip())),
            _ => Ok(allowed),
        }
    }

    /// Nothing answered at `address`: it is tried last for a while. Once nothing answered at any, the name is asked for
    /// again.
    pub(super) fn avoid(&self, address: SocketAddr) {
        let mut avoided = self.avoided.lock().unwrap_or_else(PoisonError::into_inner);
        avoided.retain(|(other, since)| *other != address && since.elapsed() < AVOIDED);
        if avoided.len() >= ADDRESSES_MAX {
            avoided.remove(0);
        }
        avoided.push((address, Instant::now()));
        if let Source::Looked(name) = &self.source {
            let is_avoided = |address: &SocketAddr| avoided.iter().any(|(other, _)| other == address);
            name.known.send_if_modified(|known| {
                if known.addresses.iter().flat_map(|known| known.iter()).all(is_avoided) {
                    known.resolved = None;
                }
                false
            });
        }
    }
}

/// RFC 6761 6.3: these names are this machine's, whatever a name server says.
pub(super) fn localhost(host: &str) -> Option<[IpAddr; 2]> {
    let host = host.strip_suffix('.').unwrap_or(host);
    let named = host.eq_ignore_ascii_case("localhost") || host.to_ascii_lowercase().ends_with(".localhost");
    named.then_some([Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()])
}

fn is_allowed(address: &SocketAddr) -> bool {
    AddressClass::of(address.ip()) != AddressClass::Metadata
}

/// A name and the last that is known of it.
struct Name {
    host: Box<str>,
    port: u16,
    resolver: Arc<dyn Resolve>,
    known: watch::Sender<Known>,
}

#[derive(Default)]
struct Known {
    /// The last good answer; empty until there is one.
    addresses: Option<Arc<[SocketAddr]>>,
    /// When it came; `None` if it is not to be trusted.
    resolved: Option<Instant>,
    /// When the last lookup began.
    asked: Option<Instant>,
    /// What the last lookup said, if it failed.
    failure: Option<Box<str>>,
    running: bool,
}

impl Name {
    async fn addresses(self: &Arc<Self>) -> Result<Arc<[SocketAddr]>, Error> {
        let age = self.known.borrow().resolved.map(|at| at.elapsed());
        if age.is_none_or(|age| age >= FRESH) {
            self.look_up();
        }
        if age.is_none_or(|age| age >= STALE) {
            let mut watcher = self.known.subscribe();
            let finished = watcher.wait_for(|known| !known.running);
            if self.known.borrow().addresses.is_some() {
                // Whatever comes of it: the last good answer is better than none.
                let _ = tokio::time::timeout(PATIENCE, finished).await;
            } else {
                let _ = finished.await;
            }
        }
        let known = self.known.borrow();
        match (&known.addresses, &known.failure) {
            (Some(addresses), _) => Ok(Arc::clone(addresses)),
            (None, reason) => {
                let reason = reason.clone().unwrap_or_else(|| "the lookup did not end".into());
                Err(Error::Resolve { host: self.host.clone(), reason })
            }
        }
    }

    /// Starts a lookup, unless one runs or has just run. It goes on when the request that wanted it is gone, so that a
    /// slow name server is asked once and not by every request.
    fn look_up(self: &Arc<Self>) {
        let started = self.known.send_if_modified(|known| {
            let due = !known.running && known.asked.is_none_or(|at| at.elapsed() >= BETWEEN_LOOKUPS);
            if due {
                known.running = true;
                known.asked = Some(Instant::now());
            }
            due
        });
        if !started {
            return;
        }
        let name = Arc::clone(self);
        tokio::spawn(async move {
            let ended = Ended(&name.known);
            let answer = name.resolver.resolve(&name.host, name.port).await;
            name.known.send_modify(|known| known.take(answer));
            drop(ended);
        });
    }
}

impl Known {
    fn take(&mut self, answer: io::Result<Vec<SocketAddr>>) {
        match answer {
            Ok(mut addresses) if !addresses.is_empty() => {
                addresses.truncate(ADDRESSES_MAX);
                self.addresses = Some(addresses.into());
                self.resolved = Some(Instant::now());
                self.failure = None;
            }
            Ok(_) => self.failure = Some("the name has no address".into()),
            Err(error) => self.failure = Some(error.to_string().into()),
        }
    }
}

/// Wakes the requests that wait for a lookup, also when the lookup was cut short.
struct Ended<'a>(&'a watch::Sender<Known>);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|known| known.running = false);
    }
}

#[cfg(test)]
mod tests;
