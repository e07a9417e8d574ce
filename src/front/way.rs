//! `Way`: what a listener is, beside its address: TLS, or a redirect to where TLS is.

use std::net::IpAddr;
use std::sync::Arc;

use super::tls::{self, Acceptor, Unusable};

/// What a listener is, as it is written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// It speaks TLS.
    pub tls: Option<tls::Settings>,
    /// It sends everybody to `https://`.
    pub https_redirect: bool,
}

/// The same, opened.
#[derive(Debug, Clone, Default)]
pub struct Way {
    /// What speaks TLS.
    pub tls: Option<Arc<Acceptor>>,
    /// Where callers are sent to instead of being served.
    pub redirect: Option<Redirect>,
}

/// Where `https://` is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Redirect {
    /// `None` is the scheme's own.
    pub port: Option<u16>,
}

/// Whether an address is a proxy whose word on its callers counts.
pub type Trusts = Arc<dyn Fn(IpAddr) -> bool + Send + Sync>;

impl Way {
    /// Reads certificates and keys. `https` is the port at which TLS is served, for those who are sent there.
    pub fn open(settings: &Settings, https: Option<u16>) -> Result<Self, Unusable> {
        let tls = settings.tls.as_ref().map(Acceptor::open).transpose()?;
        let port = https.filter(|port| *port != 443);
        Ok(Self { tls, redirect: settings.https_redirect.then_some(Redirect { port }) })
    }
}

impl Redirect {
    /// Where a judged head asks to go, under `https://`; `None` where it names no host.
    pub(super) fn location(self, head: &[u8]) -> Option<String> {
        let head = std::str::from_utf8(head).ok()?;
        let mut lines = head.split("\r\n");
        let target = lines.next()?.split(' ').nth(1)?;
        let host = lines.find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("host").then(|| value.trim())
        })?;
        let name = super::host_of(host);
        // What stands in a Location must be one host and nothing else.
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b':');
        if name.is_empty() || !name.bytes().all(legal) {
            return None;
        }
        let name = if name.contains(':') { format!("[{name}]") } else { name.to_owned() };
        let port = self.port.map(|port| format!(":{port}")).unwrap_or_default();
        Some(format!("https://{name}{port}{target}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_leads_to_the_same_host_and_target() {
        let to = |port: Option<u16>, head: &str| Redirect { port }.location(head.as_bytes());
        let head = |host: &str| format!("GET /a?b=c HTTP/1.1\r\nX: y\r\nhost: {host}\r\n\r\n");
        assert_eq!(to(None, &head("a.example:80")).unwrap(), "https://a.example/a?b=c");
        assert_eq!(to(Some(8443), &head("a.example")).unwrap(), "https://a.example:8443/a?b=c");
        assert_eq!(to(None, &head("[::1]:80")).unwrap(), "https://[::1]/a?b=c");
        for host in ["", "a;b", "a'b", "a,b.example", "(a)"] {
            assert_eq!(to(None, &head(host)), None, "{host}");
        }
        assert_eq!(to(None, "GET / HTTP/1.0\r\n\r\n"), None);
    }
}
