//! `WebUrl`: an absolute http or https URL that somebody else has chosen, in the one spelling that is judged, signed,
//! sent and shown.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use http::uri::PathAndQuery;
use url::{Host, Url};

use super::Origin;

/// Characters of a URL.
pub const URL_MAX: usize = 8192;

/// Characters of a host's name, and of each of its labels (RFC 1035 2.3.4).
const NAME_MAX: usize = 253;
const LABEL_MAX: usize = 63;

/// A URL as browsers read it (WHATWG URL), without a fragment: numbers that stand for an IPv4 address are one, names are
/// in their ASCII form, `.` and `..` are resolved, and whatever HTTP can't carry is percent-encoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebUrl {
    url: Url,
    host: WebHost,
    port: u16,
    target: PathAndQuery,
}

/// Whom a [`WebUrl`] names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WebHost {
    /// A name, lower case, as it stands in the URL.
    Name(Box<str>),
    /// A literal address.
    Address(IpAddr),
}

/// Why a text is no such URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidWebUrl {
    /// Another scheme, no host, a host or port that can't be.
    #[error("url must be an absolute http or https URL.")]
    NotHttp,
    /// More than [`URL_MAX`] characters.
    #[error("url is longer than {URL_MAX} characters.")]
    TooLong,
    /// Whatever stands before an `@` would be sent as a credential.
    #[error("url must not contain a user name or password.")]
    Credentials,
}

impl WebUrl {
    /// Where a `Location` of an answer from here leads (RFC 3986 5.2).
    pub fn join(&self, location: &str) -> Result<Self, InvalidWebUrl> {
        let location = plain(location);
        // A reference has an authority of its own after a scheme or two slashes, and is then held to the same rules.
        let bare = location.replace('\\', "/");
        let authority = match bare.split_once("//") {
            Some((before, after)) if before.is_empty() || is_scheme(before) => after,
            _ if is_scheme(location.split_inclusive(':').next().unwrap_or_default()) => {
                // `http:host` is relative in some readers and absolute in others.
                return Err(InvalidWebUrl::NotHttp);
            }
            _ => "host",
        };
        check_authority(authority)?;
        Self::of(self.url.join(&location).map_err(|_| InvalidWebUrl::NotHttp)?)
    }

    /// Scheme, host and port; the host of an IPv6 address stands without brackets.
    pub fn origin(&self) -> Origin {
        let host = match &self.host {
            WebHost::Name(name) => name.clone(),
            WebHost::Address(address) => address.to_string().into(),
        };
        Origin { tls: self.is_https(), host, port: self.port }
    }

    /// Whether it is asked over TLS.
    pub fn is_https(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// Whom it names.
    pub fn host(&self) -> &WebHost {
        &self.host
    }

    /// From 1 to 65535.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The host, and the port where it is not the scheme's own: what `Host` and `@authority` say.
    pub fn authority(&self) -> String {
        let host = self.url.host_str().unwrap_or_default();
        self.url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
    }

    /// What stands in the request line.
    pub fn target(&self) -> &PathAndQuery {
        &self.target
    }

    /// The whole of it.
    pub fn as_str(&self) -> &str {
        self.url.as_str()
    }

    fn of(mut url: Url) -> Result<Self, InvalidWebUrl> {
        url.set_fragment(None);
        if !matches!(url.scheme(), "http" | "https") {
            return Err(InvalidWebUrl::NotHttp);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(InvalidWebUrl::Credentials);
        }
        let host = match url.host() {
            Some(Host::Domain(name)) if is_name(name) => WebHost::Name(name.into()),
            Some(Host::Ipv4(address)) => WebHost::Address(address.into()),
            Some(Host::Ipv6(address)) => WebHost::Address(address.into()),
            _ => return Err(InvalidWebUrl::NotHttp),
        };
        let port = url.port_or_known_default().filter(|port| *port > 0).ok_or(InvalidWebUrl::NotHttp)?;
        let target = url::Position::BeforePath..url::Position::AfterQuery;
        let target = url[target].parse().map_err(|_| InvalidWebUrl::NotHttp)?;
        if url.as_str().len() > URL_MAX {
            return Err(InvalidWebUrl::TooLong);
        }
        Ok(Self { url, host, port, target })
    }
}

impl FromStr for WebUrl {
    type Err = InvalidWebUrl;

    fn from_str(text: &str) -> Result<Self, InvalidWebUrl> {
        let text = text.trim();
        let rest = ["http://", "https://"].iter().find_map(|scheme| {
            let (start, rest) = text.split_at_checked(scheme.len())?;
            start.eq_ignore_ascii_case(scheme).then_some(rest)
        });
        let rest = rest.ok_or(InvalidWebUrl::NotHttp)?;
        if text.chars().count() > URL_MAX {
            return Err(InvalidWebUrl::TooLong);
        }
        check_authority(&plain(rest))?;
        Self::of(Url::parse(text).map_err(|_| InvalidWebUrl::NotHttp)?)
    }
}

impl fmt::Display for WebUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for WebHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(address) => f.write_str(&shown(*address)),
        }
    }
}

/// An address as a URL spells it: pieces of an IPv6 address in hexadecimal alone, also where they carry IPv4.
pub(super) fn shown(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => Host::<&str>::Ipv6(address).to_string().trim_matches(['[', ']']).to_owned(),
    }
}

/// Browsers drop these wherever they stand.
fn plain(text: &str) -> String {
    text.trim_matches(|c: char| c <= ' ').replace(['\t', '\r', '\n'], "")
}

fn is_scheme(text: &str) -> bool {
    text.strip_suffix(':').is_some_and(|name| {
        name.starts_with(|c: char| c.is_ascii_alphabetic())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
    })
}

/// What stands between `//` and the path: never empty, and without an `@`, after which other readers of URLs see another
/// host.
fn check_authority(rest: &str) -> Result<(), InvalidWebUrl> {
    let authority = rest.split(['/', '\\', '?', '#']).next().unwrap_or_default();
    if authority.is_empty() {
        return Err(InvalidWebUrl::NotHttp);
    }
    if authority.contains('@') { Err(InvalidWebUrl::Credentials) } else { Ok(()) }
}

/// Whether a resolver can be asked for it.
fn is_name(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    name.len() <= NAME_MAX && name.split('.').all(|label| (1..=LABEL_MAX).contains(&label.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Result<String, InvalidWebUrl> {
        text.parse::<WebUrl>().map(|url| url.to_string())
    }

    #[test]
    fn a_url_has_one_spelling() {
        for (text, spelt) in [
            (" HTTPS://API.Example.com:443/a/../b?q=1 2#top ", "https://api.example.com/b?q=1%202"),
            ("http://0x7f.1", "http://127.0.0.1/"),
            ("http://0177.0.0.01/", "http://127.0.0.1/"),
            ("http://２130706433/", "http://127.0.0.1/"),
            ("http://[::FFFF:127.0.0.1]/", "http://[::ffff:7f00:1]/"),
            ("http://b\u{fc}cher.example/", "http://xn--bcher-kva.example/"),
            ("http://exa\tmple.com\n/a\\b", "http://example.com/a/b"),
            ("http://example.com\\@10.0.0.1/", "http://example.com/@10.0.0.1/"),
            ("http://example.com/?a@b#c@d", "http://example.com/?a@b"),
            ("http://example.com./%2e%2e/x%2fy", "http://example.com./x%2fy"),
            ("http://a_b.example:65535/", "http://a_b.example:65535/"),
        ] {
            assert_eq!(url(text).as_deref(), Ok(spelt), "{text}");
        }
    }

    #[test]
    fn what_readers_of_urls_disagree_about_is_refused() {
        use InvalidWebUrl::{Credentials, NotHttp, TooLong};
        let long = format!("http://example.com/{}", "a".repeat(URL_MAX));
        let grows = format!("http://example.com/{}", "\u{20ac}".repeat(URL_MAX / 2));
        let label = format!("http://{}.example/", "a".repeat(64));
        let name = format!("http://{}example/", "abcdefg.".repeat(40));
        for (text, why) in [
            ("", NotHttp),
            ("example.com", NotHttp),
            ("//example.com/", NotHttp),
            ("ftp://example.com/", NotHttp),
            ("ht\ntp://example.com/", NotHttp),
            ("http:example.com", NotHttp),
            ("http:/example.com", NotHttp),
            ("http:\\\\example.com\\", NotHttp),
            ("http:///example.com/", NotHttp),
            ("http://\\example.com/", NotHttp),
            ("http://\t/example.com/", NotHttp),
            ("http://?x", NotHttp),
            ("http://:80/", NotHttp),
            ("http://example.com:0/", NotHttp),
            ("http://example.com:65536/", NotHttp),
            ("http://example.com:8o/", NotHttp),
            ("http://exa mple.com/", NotHttp),
            ("http://example.com%00.test/", NotHttp),
            ("http://example.com%2f.test/", NotHttp),
            ("http://[::1%25lo]/", NotHttp),
            ("http://256.1.1.1/", NotHttp),
            ("http://1.2.3.4.5/", NotHttp),
            ("http://a..b/", NotHttp),
            (&label, NotHttp),
            (&name, NotHttp),
            ("http://user@example.com/", Credentials),
            ("http://@example.com/", Credentials),
            ("http://:@example.com/", Credentials),
            ("http://a:b@c@example.com/", Credentials),
            ("http://us\ter@example.com/", Credentials),
            (&long, TooLong),
            (&grows, TooLong),
        ] {
            assert_eq!(url(text), Err(why), "{text}");
        }
    }

    #[test]
    fn a_location_is_held_to_the_same_rules() {
        let here: WebUrl = "https://example.com/a/b?q".parse().unwrap();
        for (location, leads) in [
            ("/next", "https://example.com/next"),
            ("next#x", "https://example.com/a/next"),
            ("?p", "https://example.com/a/b?p"),
            ("", "https://example.com/a/b?q"),
            ("//other.test/x", "https://other.test/x"),
            ("\\\\other.test/x", "https://other.test/x"),
            ("http://2130706433/", "http://127.0.0.1/"),
            ("/x?u=http://a@b/", "https://example.com/x?u=http://a@b/"),
            ("x//y@z", "https://example.com/a/x//y@z"),
        ] {
            assert_eq!(here.join(location).map(|url| url.to_string()).as_deref(), Ok(leads), "{location}");
        }
        for location in [
            "ftp://example.com/",
            "file:///etc/passwd",
            "http://u:p@example.com/",
            "//@example.com/",
            "http:x",
            "javascript:1",
            "http://256.256.256.256/",
            "https:///x",
            "///other.test/",
        ] {
            assert!(here.join(location).is_err(), "{location}");
        }
    }

    #[test]
    fn the_parts_are_those_that_go_onto_the_wire() {
        let url: WebUrl = "https://[2001:DB8::1]:8443/a?b".parse().unwrap();
        assert_eq!(url.authority(), "[2001:db8::1]:8443");
        assert_eq!(url.origin().authority(), url.authority());
        assert_eq!(url.target().as_str(), "/a?b");
        assert_eq!(url.host().to_string(), "2001:db8::1");
        assert_eq!("http://a:80/".parse::<WebUrl>().unwrap().authority(), "a");
    }

    proptest::proptest! {
        #[test]
        fn whatever_is_read_is_read_alike_once_more(text in "https?://[a-z0-9.:@\\[\\]%/\\\\?#\\t é１]{0,40}") {
            if let Ok(url) = text.parse::<WebUrl>() {
                proptest::prop_assert_eq!(url.to_string().parse::<WebUrl>(), Ok(url));
            }
        }
    }
}
