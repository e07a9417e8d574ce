//! `Origin` and `Url`: where an operator says that a service is.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// Scheme, host and port of a service.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Origin {
    /// Whether the scheme is `https`.
    pub tls: bool,
    /// A name, an IPv4 address, or an IPv6 address without brackets; lower case.
    pub host: Box<str>,
    /// 80 or 443 where the URL names none.
    pub port: u16,
}

/// An origin and the path that goes in front of every request's own, as in `http://10.0.0.1:9000/v1`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Url {
    /// Where to connect.
    pub origin: Origin,
    /// Without a trailing slash; empty where the URL has no path.
    pub prefix: Box<str>,
    /// With its `?`; empty where the URL has none.
    pub query: Box<str>,
}

/// Why a text is no URL of a service.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidUrl {
    /// No `http://` or `https://` in front.
    #[error("a URL starts with http:// or https://")]
    Scheme,
    /// `http://user:password@…`.
    #[error("a URL may not hold a user or password; use `basic:` or `headers:` instead")]
    Credentials,
    /// No host, or one that HTTP can't name.
    #[error("the URL has no valid host")]
    Host,
    /// A port outside 1..65535.
    #[error("the port must be a number from 1 to 65535")]
    Port,
    /// A space, a control character, a fragment.
    #[error("the path holds a character that must be percent-encoded, or a #fragment")]
    Path,
}

impl Origin {
    /// `host` or `host:port`, as a `Host` header or `:authority` has it; the scheme's own port is left out.
    pub fn authority(&self) -> String {
        let default = if self.tls { 443 } else { 80 };
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.to_string() };
        if self.port == default { host } else { format!("{host}:{}", self.port) }
    }
}

impl Origin {
    /// The address that the host is in whatever spelling, where it is no name.
    pub fn address(&self) -> Option<IpAddr> {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.to_string() };
        match url::Host::parse(&host).ok()? {
            url::Host::Domain(_) => None,
            url::Host::Ipv4(address) => Some(address.into()),
            url::Host::Ipv6(address) => Some(address.into()),
        }
    }
}

impl FromStr for Url {
    type Err = InvalidUrl;

    fn from_str(text: &str) -> Result<Self, InvalidUrl> {
        let (scheme, rest) = text.split_once("://").ok_or(InvalidUrl::Scheme)?;
        let tls = match scheme.to_ascii_lowercase().as_str() {
            "http" => false,
            "https" => true,
            _ => return Err(InvalidUrl::Scheme),
        };
        let split = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(split);
        if authority.contains('@') {
            return Err(InvalidUrl::Credentials);
        }
        let (host, port) = host_and_port(authority)?;
        let (path, query) = match path.find('?') {
            Some(at) => path.split_at(at),
            None => (path, ""),
        };
        if [path, query].iter().any(|part| part.bytes().any(|byte| byte <= b' ' || byte == b'#' || byte >= 0x7f)) {
            return Err(InvalidUrl::Path);
        }
        Ok(Self {
            origin: Origin { tls, host, port: port.unwrap_or(if tls { 443 } else { 80 }) },
            prefix: path.trim_end_matches('/').into(),
            query: query.into(),
        })
    }
}

fn host_and_port(authority: &str) -> Result<(Box<str>, Option<u16>), InvalidUrl> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or(InvalidUrl::Host)?;
            host.parse::<std::net::Ipv6Addr>().map_err(|_| InvalidUrl::Host)?;
            match port.strip_prefix(':') {
                Some(port) => (host, Some(port)),
                None if port.is_empty() => (host, None),
                None => return Err(InvalidUrl::Host),
            }
        }
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b':');
    if host.is_empty() || host.len() > 253 || !host.bytes().all(legal) {
        return Err(InvalidUrl::Host);
    }
    let port = port.map(|port| port.parse().ok().filter(|port| *port > 0).ok_or(InvalidUrl::Port)).transpose()?;
    Ok((host.to_ascii_lowercase().into(), port))
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", if self.tls { "https" } else { "http" }, self.authority())
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}{}", self.origin, self.prefix, self.query)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_an_origin_and_a_prefix() {
        for (text, shown, prefix) in [
            ("http://127.0.0.1:5000", "http://127.0.0.1:5000", ""),
            ("HTTPS://API.Example.com/v1/", "https://api.example.com/v1", "/v1"),
            ("https://api.example.com:443", "https://api.example.com", ""),
            ("http://[::1]:8080/a?k=v", "http://[::1]:8080/a?k=v", "/a"),
        ] {
            let url: Url = text.parse().unwrap();
            assert_eq!((url.to_string().as_str(), &*url.prefix), (shown, prefix));
        }
    }

    #[test]
    fn what_is_no_url_says_why() {
        for (text, error) in [
            ("localhost:5000", InvalidUrl::Scheme),
            ("ftp://host", InvalidUrl::Scheme),
            ("http://", InvalidUrl::Host),
            ("http://a b/", InvalidUrl::Host),
            ("http://[::1", InvalidUrl::Host),
            ("http://host:0", InvalidUrl::Port),
            ("http://host:99999", InvalidUrl::Port),
            ("http://me:secret@host/", InvalidUrl::Credentials),
            ("http://host/a b", InvalidUrl::Path),
            ("http://host/#top", InvalidUrl::Path),
        ] {
            assert_eq!(text.parse::<Url>(), Err(error), "{text}");
        }
    }
}
