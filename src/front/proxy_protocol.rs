//! The PROXY protocol, versions 1 and 2: how a load balancer in front says whose connection it passes on.
//!
//! It is only looked for on connections of trusted proxies. No HTTP request and no TLS handshake begins like it, so that a
//! proxy may send it or not.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

/// What version 2 begins with.
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";

/// What version 1 begins with.
const PREFIX: &[u8] = b"PROXY ";

/// Bytes of a line of version 1, its end included.
const LINE_MAX: usize = 107;

/// Bytes behind the fixed part of version 2: addresses, and whatever else a balancer says.
const REST_MAX: usize = 2048;

/// What a connection begins with.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Preface {
    /// Not with a header: these bytes were read and are the caller's.
    Absent(Vec<u8>),
    /// With a header; `None` where the proxy speaks for itself.
    From(Option<SocketAddr>),
}

/// Reads what a trusted proxy sends first. It never reads beyond the header. An error is a header that is broken.
pub(super) async fn read(stream: &mut TcpStream) -> io::Result<Preface> {
    let mut first = [0];
    // Nothing is taken from a caller whose first byte tells already that it is one.
    if stream.peek(&mut first).await? == 0 || (first != [b'P'] && first != [b'\r']) {
        return Ok(Preface::Absent(Vec::new()));
    }
    let mut seen = Vec::new();
    loop {
        match judge(&seen) {
            Judged::More(count) => {
                // As many bytes as surely belong to the header, unless the connection ends before.
                let begun = seen.len();
                seen.resize(begun + count, 0);
                let fresh = seen.get_mut(begun..).unwrap_or_default();
                let read = stream.read(fresh).await?;
                seen.truncate(begun + read);
                if read == 0 {
                    return Ok(Preface::Absent(seen));
                }
            }
            Judged::Absent => return Ok(Preface::Absent(seen)),
            Judged::From(source) => return Ok(Preface::From(source)),
            Judged::Broken => return Err(io::Error::new(io::ErrorKind::InvalidData, "a broken PROXY header")),
        }
    }
}

/// What the bytes so far are.
#[derive(Debug, PartialEq, Eq)]
enum Judged {
    /// The beginning of a header, which has at least so many bytes more.
    More(usize),
    Absent,
    From(Option<SocketAddr>),
    Broken,
}

fn judge(seen: &[u8]) -> Judged {
    let begins = |whole: &[u8]| whole.starts_with(seen) || seen.starts_with(whole);
    if seen.is_empty() {
        return Judged::More(1);
    }
    if begins(PREFIX) {
        return line(seen);
    }
    if begins(SIGNATURE) {
        return binary(seen);
    }
    Judged::Absent
}

/// Version 1: one line of text.
fn line(seen: &[u8]) -> Judged {
    match seen.strip_suffix(b"\r\n") {
        None if seen.len() >= LINE_MAX => Judged::Broken,
        // The shortest line is `PROXY UNKNOWN`; then one byte at a time, since what follows is not ours.
        None => Judged::More(PREFIX.len().saturating_sub(seen.len()).max(1)),
        Some(line) => parse_line(line).unwrap_or(Judged::Broken),
    }
}

fn parse_line(line: &[u8]) -> Option<Judged> {
    let mut words = std::str::from_utf8(line).ok()?.split(' ').skip(1);
    let family = words.next()?;
    if family == "UNKNOWN" {
        return Some(Judged::From(None));
    }
    let (source, target) = (words.next()?.parse::<IpAddr>().ok()?, words.next()?.parse::<IpAddr>().ok()?);
    let (port, target_port) = (port(words.next()?)?, port(words.next()?)?);
    let fits = match family {
        "TCP4" => source.is_ipv4() && target.is_ipv4(),
        "TCP6" => source.is_ipv6() && target.is_ipv6(),
        _ => false,
    };
    let _ = target_port;
    (fits && words.next().is_none()).then(|| Judged::From(Some(SocketAddr::new(source, port))))
}

fn port(text: &str) -> Option<u16> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// Version 2: a signature, four bytes, and as many more as the last two of these say.
fn binary(seen: &[u8]) -> Judged {
    let Some((fixed, rest)) = seen.split_at_checked(SIGNATURE.len() + 4) else {
        return Judged::More(SIGNATURE.len() + 4 - seen.len());
    };
    let (Some([version, family, high, low]), Some(_)) = (fixed.last_chunk::<4>(), fixed.strip_prefix(SIGNATURE)) else {
        return Judged::Broken;
    };
    let length = usize::from(u16::from_be_bytes([*high, *low]));
    if length > REST_MAX {
        return Judged::Broken;
    }
    if rest.len() < length {
        return Judged::More(length - rest.len());
    }
    match (version, family) {
        (0x21, 0x11 | 0x12) => match rest.first_chunk::<12>() {
            Some([a, b, c, d, _, _, _, _, high, low, ..]) => {
                let address = IpAddr::V4(Ipv4Addr::new(*a, *b, *c, *d));
                Judged::From(Some(SocketAddr::new(address, u16::from_be_bytes([*high, *low]))))
            }
            None => Judged::Broken,
        },
        (0x21, 0x21 | 0x22) => match (rest.first_chunk::<16>(), rest.get(32..34), rest.len() >= 36) {
            (Some(address), Some([high, low]), true) => {
                let address = IpAddr::V6(Ipv6Addr::from(*address));
                Judged::From(Some(SocketAddr::new(address, u16::from_be_bytes([*high, *low]))))
            }
            _ => Judged::Broken,
        },
        // The balancer itself, as in a health check; unix sockets, and what is not specified.
        (0x20, _) | (0x21, 0x00 | 0x31 | 0x32) => Judged::From(None),
        _ => Judged::Broken,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn v2(version: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let length = u16::try_from(rest.len()).unwrap().to_be_bytes();
        [SIGNATURE.as_slice(), &[version, family], &length, rest].concat()
    }

    fn address(text: &str) -> Judged {
        Judged::From(Some(text.parse().unwrap()))
    }

    #[test]
    fn a_line_of_version_1_names_the_caller() {
        assert_eq!(judge(b"PROXY TCP4 203.0.113.9 10.0.0.1 56324 443\r\n"), address("203.0.113.9:56324"));
        assert_eq!(judge(b"PROXY TCP6 2001:db8::1 ::1 1 443\r\n"), address("[2001:db8::1]:1"));
        assert_eq!(judge(b"PROXY UNKNOWN\r\n"), Judged::From(None));
        assert_eq!(judge(b"PROXY UNKNOWN ffff:: ffff:: 1 2\r\n"), Judged::From(None));
        for broken in [
            "PROXY TCP4 203.0.113.9 10.0.0.1 56324\r\n",
            "PROXY TCP4 ::1 10.0.0.1 1 2\r\n",
            "PROXY TCP4 203.0.113.9 10.0.0.1 1 2 3\r\n",
            "PROXY TCP4 203.0.113.9 10.0.0.1 +1 2\r\n",
            "PROXY TCP4 203.0.113.9 10.0.0.1 99999 2\r\n",
            "PROXY  TCP4 203.0.113.9 10.0.0.1 1 2\r\n",
            "PROXY UDP4 203.0.113.9 10.0.0.1 1 2\r\n",
            "PROXY \r\n",
        ] {
            assert_eq!(judge(broken.as_bytes()), Judged::Broken, "{broken:?}");
        }
        assert_eq!(judge(&[b"PROXY ".as_slice(), &[b'a'; 200]].concat()), Judged::Broken);
    }

    #[test]
    fn a_header_of_version_2_names_the_caller() {
        let four = [203, 0, 113, 9, 10, 0, 0, 1, 0xdc, 0x04, 0x01, 0xbb];
        assert_eq!(judge(&v2(0x21, 0x11, &four)), address("203.0.113.9:56324"));
        assert_eq!(judge(&v2(0x21, 0x11, &[four.as_slice(), &[4, 0, 1, 9]].concat())), address("203.0.113.9:56324"));
        let mut six = [0; 36];
        (six[15], six[33]) = (1, 7);
        assert_eq!(judge(&v2(0x21, 0x21, &six)), address("[::1]:7"));
        assert_eq!(judge(&v2(0x20, 0, &[])), Judged::From(None));
        assert_eq!(judge(&v2(0x21, 0x31, &[0; 216])), Judged::From(None));
        for broken in [
            v2(0x11, 0x11, &four),
            v2(0x22, 0x11, &four),
            v2(0x21, 0x11, &four[..11]),
            v2(0x21, 0x21, &four),
            v2(0x21, 0x99, &four),
        ] {
            assert_eq!(judge(&broken), Judged::Broken);
        }
        assert_eq!(judge(&[SIGNATURE.as_slice(), &[0x21, 0x11, 0xff, 0xff]].concat()), Judged::Broken);
    }

    #[test]
    fn what_begins_otherwise_is_the_callers() {
        for bytes in [
            "GET / HTTP/1.1\r\n",
            "\u{16}\u{3}\u{1}",
            "\r\nGET / HTTP/1.1",
            "P",
            "POST / HTTP/1.1",
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        ] {
            let judged = judge(bytes.as_bytes());
            assert!(judged == Judged::Absent || bytes == "P", "{bytes:?}: {judged:?}");
        }
    }

    proptest! {
        /// A header is found wherever it is cut, and never are bytes asked for that are not its own.
        #[test]
        fn a_header_is_read_to_its_end_and_not_beyond(
            ports in any::<(u16, u16)>(), addresses in any::<([u8; 4], [u8; 4])>(), binary in any::<bool>(), most in 1_usize..9,
        ) {
            let (from, to) = (Ipv4Addr::from(addresses.0), Ipv4Addr::from(addresses.1));
            let header = if binary {
                let ports = [ports.0.to_be_bytes(), ports.1.to_be_bytes()].concat();
                v2(0x21, 0x11, &[addresses.0.as_slice(), &addresses.1, &ports].concat())
            } else {
                format!("PROXY TCP4 {from} {to} {} {}\r\n", ports.0, ports.1).into_bytes()
            };
            let mut seen = Vec::new();
            let found = loop {
                match judge(&seen) {
                    Judged::More(count) => {
                        prop_assert!(seen.len() + count <= header.len());
                        let upto = seen.len() + count.min(most);
                        seen.extend_from_slice(&header[seen.len()..upto]);
                    }
                    other => break other,
                }
            };
            prop_assert_eq!(found, Judged::From(Some(SocketAddr::new(from.into(), ports.0))));
            prop_assert_eq!(seen.len(), header.len());
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..64), binary in any::<bool>()) {
            judge(&bytes);
            let head: &[u8] = if binary { SIGNATURE } else { PREFIX };
            judge(&[head, &bytes].concat());
        }
    }
}
