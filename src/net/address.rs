//! `AddressClass`: what kind of place an IP address is.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What kind of place an address is. An IPv6 address that carries an IPv4 one (mapped, compatible, translated,
/// tunnelled) is judged by what it carries, wherever it would lead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressClass {
    /// Where a cloud hands its machines their credentials and settings.
    Metadata,
    /// This machine.
    Loopback,
    /// The local link: 169.254.0.0/16 and fe80::/10.
    LinkLocal,
    /// A network that is not routed publicly: RFC 1918, RFC 6598, unique local addresses.
    Private,
    /// Unspecified, multicast, reserved, documentation: no place that a service lives at.
    Special,
    /// Everything else.
    Public,
}

impl AddressClass {
    /// Whether nobody may be sent there by a stranger, whatever an operator allows: metadata and the local link.
    pub fn is_never_allowed(self) -> bool {
        matches!(self, Self::Metadata | Self::LinkLocal)
    }

    /// How much harm a class may do: of the classes of all addresses that one carries, the worst counts.
    fn rank(self) -> u8 {
        match self {
            Self::Metadata => 5,
            Self::LinkLocal => 4,
            Self::Loopback => 3,
            Self::Private => 2,
            Self::Special => 1,
            Self::Public => 0,
        }
    }
}

/// An address block: the leading bits, as many as counted.
type Block<T> = (T, u32);

/// One address each, or the block that a provider set aside. Beside AWS, Google, Azure and Oracle also Alibaba
/// (100.100.100.200), Oracle's older 192.0.0.192, Azure's WireServer (168.63.129.16), Amazon's container credentials
/// (169.254.170.2 and .23), Tencent (169.254.0.23) and Scaleway (169.254.42.42).
const METADATA_V4: [Block<Ipv4Addr>; 7] = [
    (Ipv4Addr::new(169, 254, 169, 0), 24),
    (Ipv4Addr::new(169, 254, 170, 0), 24),
    (Ipv4Addr::new(169, 254, 0, 23), 32),
    (Ipv4Addr::new(169, 254, 42, 42), 32),
    (Ipv4Addr::new(100, 100, 100, 200), 32),
    (Ipv4Addr::new(192, 0, 0, 192), 32),
    (Ipv4Addr::new(168, 63, 129, 16), 32),
];

/// Amazon (the whole block), Google, Oracle, Scaleway, OpenStack.
const METADATA_V6: [Block<Ipv6Addr>; 5] = [
    (Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0), 32),
    (Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254), 128),
    (Ipv6Addr::new(0xfd00, 0xc1, 0, 0, 0, 0, 0xa9fe, 0xa9fe), 128),
    (Ipv6Addr::new(0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42), 128),
    (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0xa9fe, 0xa9fe), 128),
];

const PRIVATE_V4: [Block<Ipv4Addr>; 4] = [
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    (Ipv4Addr::new(100, 64, 0, 0), 10),
];

/// The IANA special-purpose registry (RFC 6890) without what has a class of its own.
const SPECIAL_V4: [Block<Ipv4Addr>; 9] = [
    (Ipv4Addr::UNSPECIFIED, 8),
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    (Ipv4Addr::new(192, 0, 2, 0), 24),
    (Ipv4Addr::new(192, 88, 99, 0), 24),
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
    (Ipv4Addr::new(224, 0, 0, 0), 4),
    (Ipv4Addr::new(240, 0, 0, 0), 4),
];

const SPECIAL_V6: [Block<Ipv6Addr>; 9] = [
    (Ipv6Addr::UNSPECIFIED, 96),
    (Ipv6Addr::new(0, 0, 0, 0, 0xffff, 0, 0, 0), 96),
    (Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 32),
    (Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, 0), 64),
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
    (Ipv6Addr::new(0x5f00, 0, 0, 0, 0, 0, 0, 0), 16),
    (Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8),
];

impl AddressClass {
    /// The class of an address.
    pub fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Self::of_v4(address),
            IpAddr::V6(address) => Self::of_v6(address),
        }
    }

    fn of_v4(address: Ipv4Addr) -> Self {
        let within =
            |blocks: &[Block<Ipv4Addr>]| blocks.iter().any(|(network, bits)| same_start_v4(address, *network, *bits));
        if within(&METADATA_V4) {
            Self::Metadata
        } else if address.is_loopback() {
            Self::Loopback
        } else if address.is_link_local() {
            Self::LinkLocal
        } else if within(&PRIVATE_V4) {
            Self::Private
        } else if within(&SPECIAL_V4) {
            Self::Special
        } else {
            Self::Public
        }
    }

    fn of_v6(address: Ipv6Addr) -> Self {
        let within =
            |blocks: &[Block<Ipv6Addr>]| blocks.iter().any(|(network, bits)| same_start_v6(address, *network, *bits));
        if within(&METADATA_V6) {
            return Self::Metadata;
        }
        if address.is_loopback() {
            return Self::Loopback;
        }
        let carried: Vec<Self> = carried_v4(address).into_iter().map(Self::of_v4).collect();
        let own = if address.is_unicast_link_local() {
            Self::LinkLocal
        } else if address.is_unique_local() || same_start_v6(address, Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0), 10) {
            Self::Private
        } else if within(&SPECIAL_V6) && !leads_to_carried(address) {
            Self::Special
        } else {
            Self::Public
        };
        carried.into_iter().chain([own]).max_by_key(|class| class.rank()).unwrap_or(own)
    }
}

/// Whether the network takes what is sent to this address to the IPv4 address in it, so that a public one makes it
/// public: mapped, 6to4, and NAT64 by the well-known prefix.
fn leads_to_carried(address: Ipv6Addr) -> bool {
    matches!(address.segments(), [0, 0, 0, 0, 0, 0xffff, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] | [0x2002, ..])
}

/// The IPv4 address that a mapped or 6to4 address is another spelling of, else the address itself.
pub fn effective(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else { return address };
    match v6.segments() {
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x2002, high, low, ..] => v4(high, low).into(),
        _ => address,
    }
}

/// The IPv4 addresses that an IPv6 address may stand for, in all of the known ways.
fn carried_v4(address: Ipv6Addr) -> Vec<Ipv4Addr> {
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => Vec::new(),
        // Teredo (RFC 4380): the server's address, and the client's with every bit turned over.
        [0x2001, 0, server_high, server_low, .., high, low] => vec![v4(!high, !low), v4(server_high, server_low)],
        // NAT64 by the local prefix (RFC 8215): where in it the address stands depends on how long a prefix the network
        // chose (RFC 6052 2.2). Bits 64 to 71 are never part of it.
        [0x64, 0xff9b, 1, third, fourth, fifth, sixth, last] => {
            let (third_low, fourth_low) = (third & 0xff, fourth & 0xff);
            vec![
                v4(sixth, last),
                v4(third, fourth_low << 8 | fifth >> 8),
                v4(third_low << 8 | fourth_low, fifth),
                v4(fourth_low << 8 | fifth >> 8, fifth << 8 | sixth >> 8),
            ]
        }
        // Compatible (RFC 4291 2.5.5.1), mapped (2.5.5.2), translated (RFC 2765), NAT64 by the well-known prefix (RFC
        // 6052), ISATAP under any prefix (RFC 5214), 6to4 (RFC 3056).
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [.., 0 | 0x200, 0x5efe, high, low]
        | [0x2002, high, low, ..] => vec![v4(high, low)],
        _ => Vec::new(),
    }
}

fn v4(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low))
}

fn same_start_v4(address: Ipv4Addr, network: Ipv4Addr, bits: u32) -> bool {
    (address.to_bits() ^ network.to_bits()).leading_zeros() >= bits
}

fn same_start_v6(address: Ipv6Addr, network: Ipv6Addr, bits: u32) -> bool {
    (address.to_bits() ^ network.to_bits()).leading_zeros() >= bits
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(text: &str) -> AddressClass {
        AddressClass::of(text.parse().unwrap())
    }

    #[test]
    fn metadata_addresses_are_known_in_every_spelling() {
        for text in [
            "169.254.169.254",
            "169.254.170.2",
            "169.254.170.23",
            "169.254.0.23",
            "169.254.42.42",
            "100.100.100.200",
            "192.0.0.192",
            "168.63.129.16",
            "fd00:ec2::254",
            "fd00:ec2::23",
            "fd20:ce::254",
            "fd00:c1::a9fe:a9fe",
            "fd00:42::42",
            "fe80::a9fe:a9fe",
            "::ffff:169.254.169.254",
            "::169.254.169.254",
            "::ffff:0:169.254.169.254",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::a9fe:a9fe",
            "64:ff9b:1:2:3:4:a9fe:a9fe",
            "64:ff9b:1:a9fe:a9:fe00::",
            "64:ff9b:1:a9:fe:a9fe::",
            "64:ff9b:1::a9:fea9:fe00:0",
            "2001:0:a9fe:a9fe::1",
            "2001:db8::200:5efe:a9fe:a9fe",
            "2002:a9fe:a9fe::1",
            "2001:0:4136:e378:8000:63bf:5601:5601",
            "2001:db8::5efe:a9fe:a9fe",
            "fe80::200:5efe:a9fe:a9fe",
            "::ffff:168.63.129.16",
        ] {
            assert_eq!(class(text), AddressClass::Metadata, "{text}");
        }
    }

    #[test]
    fn every_other_address_has_its_class() {
        for (text, expected) in [
            ("127.0.0.1", AddressClass::Loopback),
            ("127.255.255.254", AddressClass::Loopback),
            ("::1", AddressClass::Loopback),
            ("::ffff:127.0.0.1", AddressClass::Loopback),
            ("::ffff:0:127.0.0.1", AddressClass::Loopback),
            ("169.254.1.1", AddressClass::LinkLocal),
            ("fe80::1", AddressClass::LinkLocal),
            ("10.0.0.1", AddressClass::Private),
            ("172.31.255.255", AddressClass::Private),
            ("192.168.1.1", AddressClass::Private),
            ("100.64.0.1", AddressClass::Private),
            ("fd12:3456::1", AddressClass::Private),
            ("fec0::1", AddressClass::Private),
            ("2002:a00:1::", AddressClass::Private),
            ("64:ff9b::10.0.0.1", AddressClass::Private),
            ("0.0.0.0", AddressClass::Special),
            ("::", AddressClass::Special),
            ("255.255.255.255", AddressClass::Special),
            ("224.0.0.1", AddressClass::Special),
            ("ff02::1", AddressClass::Special),
            ("192.0.2.1", AddressClass::Special),
            ("2001:db8::1", AddressClass::Special),
            ("8.8.8.8", AddressClass::Public),
            ("172.32.0.1", AddressClass::Public),
            ("100.128.0.1", AddressClass::Public),
            ("2606:4700::1111", AddressClass::Public),
            ("2002:808:808::1", AddressClass::Public),
            ("::ffff:8.8.8.8", AddressClass::Public),
            ("64:ff9b::8.8.8.8", AddressClass::Public),
            ("2606:4700::5efe:8.8.8.8", AddressClass::Public),
            ("64:ff9b:1::8.8.8.8", AddressClass::Special),
            ("64:ff9b:2::8.8.8.8", AddressClass::Special),
            ("::8.8.8.8", AddressClass::Special),
            ("::ffff:0:8.8.8.8", AddressClass::Special),
            ("2001:0:808:808:8000:63bf:f7f7:f7f7", AddressClass::Special),
            ("2606:4700::5efe:10.0.0.1", AddressClass::Private),
        ] {
            assert_eq!(class(text), expected, "{text}");
        }
    }
}
