//! `Cidr`: a block of addresses.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// A block of addresses, such as `10.0.0.0/8`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cidr {
    /// The first address.
    pub network: IpAddr,
    /// Leading bits that count.
    pub prefix: u8,
}

/// The text is no block of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidCidr {
    /// No address, or no number after the slash.
    #[error("not a block of addresses")]
    Syntax,
    /// More bits than the address has.
    #[error("an address has no more than {0} bits")]
    Prefix(u8),
    /// Bits are set that do not count.
    #[error("the block that holds this address begins at {0}")]
    HostBits(Cidr),
}

impl Cidr {
    /// Whether the block holds an address. An IPv4 address inside of IPv6 counts as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        let bits = |address: IpAddr| match address {
            IpAddr::V4(address) => (u128::from(address.to_bits()) << 96, 4),
            IpAddr::V6(address) => (address.to_bits(), 6),
        };
        let ((network, family), (address, other)) = (bits(self.network), bits(address.to_canonical()));
        family == other && (network ^ address).checked_shr(128 - u32::from(self.prefix)).unwrap_or(0) == 0
    }

    fn new(address: IpAddr, prefix: u8) -> Self {
        let network = match address {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
                IpAddr::V4((address.to_bits() & mask).into())
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
                IpAddr::V6((address.to_bits() & mask).into())
            }
        };
        Self { network, prefix }
    }
}

impl FromStr for Cidr {
    type Err = InvalidCidr;

    fn from_str(text: &str) -> Result<Self, InvalidCidr> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| InvalidCidr::Syntax)?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            None => bits,
            Some(prefix) => match prefix.parse() {
                Ok(prefix) if prefix <= bits => prefix,
                Ok(_) => return Err(InvalidCidr::Prefix(bits)),
                Err(_) => return Err(InvalidCidr::Syntax),
            },
        };
        let block = Self::new(address, prefix);
        if block.network == address { Ok(block) } else { Err(InvalidCidr::HostBits(block)) }
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_an_address_and_the_bits_that_count() {
        for (text, shown) in
            [("10.0.0.0/8", "10.0.0.0/8"), ("127.0.0.1", "127.0.0.1/32"), ("fd00::/8", "fd00::/8"), ("::/0", "::/0")]
        {
            assert_eq!(text.parse::<Cidr>().unwrap().to_string(), shown);
        }
        let within: Cidr = "10.0.0.0/8".parse().unwrap();
        for (text, error) in [
            ("10.0.0.1/8", InvalidCidr::HostBits(within)),
            ("10.0.0.0/33", InvalidCidr::Prefix(32)),
            ("10.0.0/8", InvalidCidr::Syntax),
            ("10.0.0.0/", InvalidCidr::Syntax),
            ("proxy", InvalidCidr::Syntax),
        ] {
            assert_eq!(text.parse::<Cidr>(), Err(error), "{text}");
        }
    }

    #[test]
    fn a_block_holds_its_addresses_and_no_others() {
        let holds = |block: &str, address: &str| block.parse::<Cidr>().unwrap().contains(address.parse().unwrap());
        for (block, address) in [
            ("10.0.0.0/8", "10.255.0.1"),
            ("10.0.0.0/8", "::ffff:10.1.2.3"),
            ("0.0.0.0/0", "203.0.113.9"),
            ("127.0.0.1", "127.0.0.1"),
            ("fd00::/8", "fd12::1"),
            ("::/0", "2001:db8::1"),
        ] {
            assert!(holds(block, address), "{block} {address}");
        }
        for (block, address) in [
            ("10.0.0.0/8", "11.0.0.1"),
            ("127.0.0.1", "127.0.0.2"),
            ("0.0.0.0/0", "::1"),
            ("::/0", "1.2.3.4"),
            ("fd00::/8", "fe00::1"),
        ] {
            assert!(!holds(block, address), "{block} {address}");
        }
    }
}
