//! `Pattern`: an identity as an operator writes it, which verified names are held against.
//!
//! `agent:https://*.partner.example/**`, `api_key:ci`, `jwt:https://id.example.com#group=team-a`,
//! `cert:dns:edge.example.com`, `key:THUMBPRINT`, `domain:partner.example`. Patterns are anchored: `*` is one label of a
//! host or one segment of a path, `**` is any number of segments, and nothing else is a wildcard. A name is compared in
//! time that grows with its length times the pattern's, whatever it is.

use std::str::FromStr;

use super::principal::Principal;

/// Bytes of a pattern.
const PATTERN_BYTES_MAX: usize = 2048;

/// Base64url characters of a key's thumbprint (RFC 7638, SHA-256).
const THUMBPRINT_LENGTH: usize = 43;

/// An identity, or many.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pattern {
    /// Agents by URL.
    Agent(UrlPattern),
    /// An API key by its name; `None` is all of them.
    ApiKey(Option<Box<str>>),
    /// Bearers of an issuer's tokens.
    Jwt {
        /// `iss`, exactly.
        issuer: Box<str>,
        /// A claim, and the value that it must have; `None` is any.
        claim: Option<(Box<str>, Option<Box<str>>)>,
    },
    /// Client certificates.
    Cert(CertPattern),
    /// Agents by the thumbprint of their key.
    Key(Box<str>),
    /// Agents at a host or any name under it.
    Domain(Box<str>),
}

/// Agents by URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UrlPattern {
    scheme: Box<str>,
    labels: Box<[Part]>,
    port: Option<u16>,
    path: Box<[Part]>,
}

/// Client certificates by one of their names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CertPattern {
    /// A DNS name, whose labels may be `*`.
    Dns(Box<[Part]>),
    /// Any other name, as the certificate has it: `uri:…`, `cn:…`, `sha256:…`.
    Exact(Box<str>),
}

/// One label or segment of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// This text.
    Literal(Box<str>),
    /// `*`: any one.
    One,
    /// `**`: any number, none among them.
    Many,
}

/// Why a text is no pattern, and what to write.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidPattern(String);

fn invalid<T>(message: impl Into<String>) -> Result<T, InvalidPattern> {
    Err(InvalidPattern(message.into()))
}

impl FromStr for Pattern {
    type Err = InvalidPattern;

    fn from_str(text: &str) -> Result<Self, InvalidPattern> {
        if text.len() > PATTERN_BYTES_MAX {
            return invalid("an identity has 2048 bytes at most");
        }
        let Some((kind, rest)) = text.split_once(':') else { return invalid("an identity begins with its kind") };
        match kind {
            "agent" => UrlPattern::parse(rest).map(Self::Agent),
            "api_key" => api_key(rest),
            "jwt" => jwt(rest),
            "cert" => CertPattern::parse(rest).map(Self::Cert),
            "key" if rest.len() == THUMBPRINT_LENGTH && rest.bytes().all(is_base64url) => Ok(Self::Key(rest.into())),
            "key" => invalid("a key is named by its thumbprint, 43 characters of base64url"),
            "domain" if is_host(rest) => Ok(Self::Domain(rest.to_ascii_lowercase().into())),
            "domain" => invalid("a domain is a host name without wildcards: all names under it belong to it anyway"),
            _ => invalid(format!("there is no kind of identity `{kind}`")),
        }
    }
}

fn api_key(name: &str) -> Result<Pattern, InvalidPattern> {
    match name {
        "*" => Ok(Pattern::ApiKey(None)),
        "" => invalid("an API key is named as under `api_keys`"),
        _ if name.contains('*') => invalid("an API key is named exactly, or `api_key:*` for all of them"),
        _ => Ok(Pattern::ApiKey(Some(name.into()))),
    }
}

fn jwt(rest: &str) -> Result<Pattern, InvalidPattern> {
    let (issuer, claim) = match rest.split_once('#') {
        Some((issuer, claim)) => (issuer, Some(claim)),
        None => (rest, None),
    };
    if issuer.is_empty() || issuer.contains('*') {
        return invalid("a token is named by its issuer, exactly as under `jwt`");
    }
    let claim = match claim {
        None => None,
        Some(claim) => match claim.split_once('=') {
            Some((name, value)) if !name.is_empty() && !value.is_empty() => {
                Some((name.into(), (value != "*").then(|| value.into())))
            }
            _ => return invalid("behind # stands a claim and its value, such as #group=team-a or #sub=alice"),
        },
    };
    Ok(Pattern::Jwt { issuer: issuer.into(), claim })
}

impl Pattern {
    /// Whether a verified name is meant.
    pub fn matches(&self, principal: &Principal) -> bool {
        match (self, principal) {
            (Self::Agent(pattern), Principal::Agent { url, .. }) => pattern.matches(url),
            (Self::Key(key), Principal::Agent { thumbprint, .. }) => key == thumbprint,
            (Self::Domain(domain), Principal::Agent { url, .. }) => {
                let host = split_url(url).map(|(_, host, ..)| host.to_ascii_lowercase());
                host.is_some_and(|host| is_within(&host, domain))
            }
            (Self::ApiKey(wanted), Principal::ApiKey(name)) => wanted.as_ref().is_none_or(|wanted| wanted == name),
            (Self::Jwt { issuer: wanted, claim }, Principal::Jwt { issuer, subject, claims }) => {
                let has = |name: &str, value: &Option<Box<str>>| match (name, value) {
                    ("sub", None) => !subject.is_empty(),
                    ("sub", Some(value)) => value == subject,
                    _ => claims
                        .iter()
                        .any(|(claim, found)| **claim == *name && value.as_ref().is_none_or(|value| value == found)),
                };
                wanted == issuer && claim.as_ref().is_none_or(|(name, value)| has(name, value))
            }
            (Self::Cert(pattern), Principal::Cert { names }) => names.iter().any(|name| pattern.matches(name)),
            _ => false,
        }
    }
}

impl UrlPattern {
    fn parse(text: &str) -> Result<Self, InvalidPattern> {
        let Some((scheme, host, port, path)) = split_url(text) else {
            return invalid("an agent is an https:// URL, as in agent:https://*.partner.example/**");
        };
        let scheme = scheme.to_ascii_lowercase();
        if !matches!(scheme.as_str(), "https" | "http") {
            return invalid("an agent is an https:// URL, as in agent:https://*.partner.example/**");
        }
        let labels = labels(host)?;
        let port = match port {
            None => None,
            Some(port) => match port.parse() {
                Ok(port) if port != 0 => Some(port),
                _ => return invalid("a port is a number from 1 to 65535"),
            },
        };
        if path.contains(['?', '#', '\\']) {
            return invalid("an agent's URL has no query and no fragment");
        }
        let path = path.strip_suffix('/').unwrap_or(path);
        let mut segments = Vec::new();
        for segment in path.split('/').skip(1) {
            segments.push(match segment {
                "" => return invalid("an agent's URL has no empty segment"),
                "." | ".." => return invalid("an agent's URL has no `.` or `..` segment"),
                "*" => Part::One,
                "**" => Part::Many,
                _ if segment.contains('*') => return invalid("`*` stands for a whole segment, `**` for any number"),
                _ => Part::Literal(segment.into()),
            });
        }
        Ok(Self { port: explicit(port, &scheme), scheme: scheme.into(), labels, path: segments.into() })
    }

    fn matches(&self, url: &str) -> bool {
        let Some((scheme, host, port, path)) = split_url(url) else { return false };
        let scheme = scheme.to_ascii_lowercase();
        let Ok(port) = port.map(str::parse::<u16>).transpose() else { return false };
        let path = path.strip_suffix('/').unwrap_or(path);
        let host = host.to_ascii_lowercase();
        *self.scheme == *scheme
            && self.port == explicit(port, &scheme)
            && all_match(&self.labels, host.split('.'))
            && all_match(&self.path, path.split('/').skip(1))
    }
}

impl CertPattern {
    fn parse(text: &str) -> Result<Self, InvalidPattern> {
        let help = "a certificate is named by dns:NAME, uri:URI, cn:NAME or sha256:HEX";
        match text.split_once(':') {
            Some(("dns", name)) => labels(name).map(Self::Dns),
            Some(("sha256", digest)) => {
                let digest: String = digest.chars().filter(|c| *c != ':').collect();
                if digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                    Ok(Self::Exact(format!("sha256:{}", digest.to_ascii_lowercase()).into()))
                } else {
                    invalid("a certificate's digest is 64 hexadecimal digits: SHA-256 of its DER")
                }
            }
            Some(("uri" | "cn", name)) if name.contains('*') => {
                invalid("only the labels of a DNS name may be `*`; a URI and a common name stand as they are")
            }
            Some(("uri" | "cn", name)) if !name.is_empty() => Ok(Self::Exact(text.into())),
            _ => invalid(help),
        }
    }

    fn matches(&self, name: &str) -> bool {
        match self {
            Self::Exact(wanted) => **wanted == *name,
            Self::Dns(wanted) => name
                .strip_prefix("dns:")
                .is_some_and(|name| all_match(wanted, name.to_ascii_lowercase().trim_end_matches('.').split('.'))),
        }
    }
}

/// Labels of a host, lower case, each of them whole or `*`; an address in brackets is one label.
fn labels(host: &str) -> Result<Box<[Part]>, InvalidPattern> {
    let host = host.to_ascii_lowercase();
    let address = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    if address.is_some_and(|address| address.parse::<std::net::Ipv6Addr>().is_ok()) {
        return Ok([Part::Literal(host.into())].into());
    }
    let label = |label: &str| match label {
        "*" => Ok(Part::One),
        "**" => invalid("`**` has no place in a host: `*` is one label, and domain:NAME is a host with all under it"),
        _ if label.contains('*') => invalid("`*` stands for a whole label of a host, as in *.partner.example"),
        _ if is_label(label) => Ok(Part::Literal(label.into())),
        _ => invalid(format!("{label:?} is no label of a host; write other letters than ASCII as xn--…")),
    };
    host.split('.').map(label).collect()
}

/// Whether all of a pattern matches all of the parts. Only the last `**` is ever taken up again, so that the work is
/// bounded by the product of both lengths.
fn all_match<'a>(pattern: &[Part], parts: impl Iterator<Item = &'a str>) -> bool {
    let parts: Vec<&str> = parts.collect();
    let (mut at, mut part) = (0, 0);
    let mut again: Option<(usize, usize)> = None;
    while part < parts.len() {
        match pattern.get(at) {
            Some(Part::Many) => {
                again = Some((at + 1, part));
                at += 1;
                continue;
            }
            Some(wanted) if parts.get(part).is_some_and(|part| wanted.takes(part)) => {
                at += 1;
                part += 1;
                continue;
            }
            _ => {}
        }
        let Some((behind, taken)) = again else { return false };
        again = Some((behind, taken + 1));
        (at, part) = (behind, taken + 1);
    }
    pattern.iter().skip(at).all(|part| *part == Part::Many)
}

impl Part {
    fn takes(&self, part: &str) -> bool {
        match self {
            Self::Literal(literal) => **literal == *part,
            Self::One => !part.is_empty(),
            Self::Many => true,
        }
    }
}

/// Whether a part of a dotted or slashed name matches; for the ids of capabilities.
pub(super) fn parts_match<'a>(pattern: &[Part], parts: impl Iterator<Item = &'a str>) -> bool {
    all_match(pattern, parts)
}

/// Scheme, host, port and path of an absolute URL without a user.
fn split_url(url: &str) -> Option<(&str, &str, Option<&str>, &str)> {
    let (scheme, rest) = url.split_once("://")?;
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len()));
    if authority.is_empty() || authority.contains('@') {
        return None;
    }
    let (host, port) = match authority.strip_prefix('[') {
        Some(_) => {
            let (host, port) = authority.split_at(authority.find(']')? + 1);
            match port.strip_prefix(':') {
                Some(port) => (host, Some(port)),
                None if port.is_empty() => (host, None),
                None => return None,
            }
        }
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    (!host.is_empty()).then_some((scheme, host, port, path))
}

/// A port that is not the scheme's own.
fn explicit(port: Option<u16>, scheme: &str) -> Option<u16> {
    port.filter(|port| !matches!((scheme, port), ("https", 443) | ("http", 80)))
}

fn is_within(host: &str, domain: &str) -> bool {
    host == domain || host.strip_suffix(domain).is_some_and(|before| before.ends_with('.'))
}

fn is_host(host: &str) -> bool {
    host.len() <= 253 && host.split('.').all(is_label)
}

fn is_label(label: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=63).contains(&label.len()) && label.bytes().all(legal)
}

fn is_base64url(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')
}

#[cfg(test)]
mod tests;
