//! `Listen`: an address to listen on.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// `127.0.0.1:8080`, `:8080` for every address of the machine, or `unix:/path`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Listen {
    /// TCP.
    Tcp(SocketAddr),
    /// A unix socket.
    Unix(PathBuf),
}

/// The text is no address to listen on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an address is IP:PORT such as 127.0.0.1:8080, :PORT for every address of the machine, or unix:/path")]
pub struct InvalidListen;

impl Listen {
    /// Whether only this machine reaches it.
    pub fn is_loopback(&self) -> bool {
        match self {
            Self::Tcp(address) => address.ip().to_canonical().is_loopback(),
            Self::Unix(_) => true,
        }
    }
}

impl FromStr for Listen {
    type Err = InvalidListen;

    fn from_str(text: &str) -> Result<Self, InvalidListen> {
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.is_empty() { Err(InvalidListen) } else { Ok(Self::Unix(path.into())) };
        }
        let text = if text.starts_with(':') { format!("[::]{text}") } else { text.to_owned() };
        text.parse().map(Self::Tcp).map_err(|_| InvalidListen)
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) if address.ip().is_unspecified() && address.is_ipv6() => {
                write!(f, ":{}", address.port())
            }
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_as_it_is_shown() {
        for text in ["127.0.0.1:8080", ":8080", "[::1]:80", "unix:/run/gateway.sock", "0.0.0.0:0"] {
            assert_eq!(text.parse::<Listen>().unwrap().to_string(), text);
        }
        for text in ["", "8080", "unix:", "host:80", "127.0.0.1", "127.0.0.1:99999"] {
            assert_eq!(text.parse::<Listen>(), Err(InvalidListen), "{text}");
        }
    }

    #[test]
    fn only_loopback_and_unix_sockets_are_private_to_the_machine() {
        for (text, loopback) in
            [("127.0.0.1:1", true), ("[::1]:1", true), ("unix:/a", true), (":1", false), ("10.0.0.1:1", false)]
        {
            assert_eq!(text.parse::<Listen>().unwrap().is_loopback(), loopback, "{text}");
        }
    }
}
