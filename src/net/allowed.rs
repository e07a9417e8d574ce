//! `Allowed`: a private address that a stranger's URL may lead to all the same.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use super::cidr::{Cidr, InvalidCidr};
use super::{AddressClass, address};

/// An address or a block of them, on any port or on one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowed {
    block: Cidr,
    port: Option<u16>,
}

/// Why a text is no such entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidAllowed {
    /// Names are no entries: whoever answers for one would choose the address.
    #[error("neither an address nor a block of them")]
    Syntax,
    /// A block that is none.
    #[error(transparent)]
    Block(InvalidCidr),
    /// Outside 1..65535.
    #[error("a port is a number from 1 to 65535")]
    Port,
    /// `[::1]`, whose brackets ask for a port.
    #[error("brackets are for an address with a port, such as [::1]:8080")]
    Brackets,
}

impl Allowed {
    /// Whether a connection to this address and port is meant. An IPv6 address that is another spelling of an IPv4 one is
    /// meant by either.
    pub fn holds(&self, ip: IpAddr, port: u16) -> bool {
        let held = self.block.contains(ip) || self.block.contains(address::effective(ip));
        held && self.port.is_none_or(|own| own == port)
    }

    /// Whether it allows nothing: metadata and the local link are called never.
    pub fn is_futile(&self) -> bool {
        AddressClass::of(self.block.network).is_never_allowed()
    }
}

impl FromStr for Allowed {
    type Err = InvalidAllowed;

    fn from_str(text: &str) -> Result<Self, InvalidAllowed> {
        if let Some(rest) = text.strip_prefix('[') {
            let (block, rest) = rest.split_once(']').ok_or(InvalidAllowed::Syntax)?;
            // The prefix stands inside of the brackets or behind them.
            let (prefix, port) = rest.rsplit_once(':').ok_or(InvalidAllowed::Brackets)?;
            let block: Cidr = format!("{block}{prefix}").parse().map_err(block_error)?;
            if block.network.is_ipv4() {
                return Err(InvalidAllowed::Syntax);
            }
            return Ok(Self { block, port: Some(port_of(port)?) });
        }
        // A colon is an IPv6 address's own, unless a dot says that the address is IPv4 or the prefix stands before it.
        let colon = text.rfind(':').filter(|at| {
            let before = text.get(..*at).unwrap_or_default();
            before.contains('/') || !before.contains(':')
        });
        let (block, port) = match colon.and_then(|at| text.split_at_checked(at)) {
            Some((block, port)) => (block, Some(port_of(port.trim_start_matches(':'))?)),
            None => (text, None),
        };
        Ok(Self { block: block.parse().map_err(block_error)?, port })
    }
}

fn block_error(error: InvalidCidr) -> InvalidAllowed {
    match error {
        InvalidCidr::Syntax => InvalidAllowed::Syntax,
        error => InvalidAllowed::Block(error),
    }
}

fn port_of(text: &str) -> Result<u16, InvalidAllowed> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|port| digits && *port > 0).ok_or(InvalidAllowed::Port)
}

impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.port, self.block.network) {
            (None, _) => self.block.fmt(f),
            (Some(port), IpAddr::V4(_)) => write!(f, "{}:{port}", self.block),
            (Some(port), IpAddr::V6(_)) => write!(f, "[{}]:{port}", self.block),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_an_address_or_a_block_with_or_without_a_port() {
        for (text, shown) in [
            ("127.0.0.1", "127.0.0.1/32"),
            ("127.0.0.1:8080", "127.0.0.1/32:8080"),
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("10.0.0.0/8:443", "10.0.0.0/8:443"),
            ("::1", "::1/128"),
            ("[::1]:8080", "[::1/128]:8080"),
            ("fd00::/8", "fd00::/8"),
            ("fd00::/8:80", "[fd00::/8]:80"),
            ("[fd00::/8]:80", "[fd00::/8]:80"),
            ("[fd00::]/8:80", "[fd00::/8]:80"),
            ("::ffff:10.0.0.1", "::ffff:10.0.0.1/128"),
        ] {
            assert_eq!(text.parse::<Allowed>().map(|allowed| allowed.to_string()).as_deref(), Ok(shown), "{text}");
        }
    }

    #[test]
    fn what_is_no_entry_says_why() {
        let within = InvalidAllowed::Block(InvalidCidr::HostBits("10.0.0.0/8".parse().unwrap()));
        for (text, why) in [
            ("", InvalidAllowed::Syntax),
            ("*", InvalidAllowed::Syntax),
            ("localhost", InvalidAllowed::Syntax),
            ("::1:8080x", InvalidAllowed::Syntax),
            ("[127.0.0.1]:80", InvalidAllowed::Syntax),
            ("[::1]", InvalidAllowed::Brackets),
            ("127.0.0.1:0", InvalidAllowed::Port),
            ("127.0.0.1:70000", InvalidAllowed::Port),
            ("127.0.0.1:+80", InvalidAllowed::Port),
            ("localhost:8080", InvalidAllowed::Syntax),
            ("127.0.0.1:", InvalidAllowed::Port),
            ("10.0.0.0/33", InvalidAllowed::Block(InvalidCidr::Prefix(32))),
            ("10.0.0.1/8", within),
        ] {
            assert_eq!(text.parse::<Allowed>(), Err(why), "{text}");
        }
    }

    #[test]
    fn an_entry_holds_every_spelling_of_its_addresses() {
        let holds = |entry: &str, ip: &str, port| entry.parse::<Allowed>().unwrap().holds(ip.parse().unwrap(), port);
        assert!(holds("10.0.0.0/8", "::ffff:10.1.2.3", 1));
        assert!(holds("10.0.0.0/8", "2002:a01:203::9", 1));
        assert!(holds("2002::/16", "2002:a01:203::9", 1));
        assert!(holds("127.0.0.1:80", "127.0.0.1", 80));
        assert!(!holds("127.0.0.1:80", "127.0.0.1", 81));
        assert!(!holds("10.0.0.0/8", "64:ff9b::a01:203", 1), "a translator may stand anywhere");
        assert!(!holds("::/0", "10.0.0.1", 1));
    }

    #[test]
    fn an_entry_that_allows_nothing_is_known() {
        for (text, futile) in
            [("169.254.0.0/16", true), ("fe80::/10", true), ("169.254.169.254", true), ("0.0.0.0/0", false)]
        {
            assert_eq!(text.parse::<Allowed>().unwrap().is_futile(), futile, "{text}");
        }
    }
}
