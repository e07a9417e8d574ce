//! The host of an authority, and whether it is this machine's own.

use http::HeaderMap;
use http::header::{HOST, HeaderName, ORIGIN};

/// `host` of `host:port`, without the brackets of an IPv6 address; ports are never compared.
pub fn host_of(authority: &str) -> &str {
    if let Some(rest) = authority.strip_prefix('[') {
        return rest.split(']').next().unwrap_or_default();
    }
    authority.split(':').next().unwrap_or_default()
}

/// Whether a browser asks for a page of another site, or by a name that was rebound to this machine. For listeners that
/// are for this machine alone.
pub fn is_foreign(headers: &HeaderMap) -> bool {
    let text = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let hosts = headers.get_all(HOST).iter().map(|host| host.to_str().unwrap_or("?"));
    let site = headers.get("sec-fetch-site").and_then(|value| value.to_str().ok());
    let own = |authority: &str| is_own_name(host_of(authority));
    hosts.filter(|host| !host.is_empty()).any(|host| !own(host))
        || text(&ORIGIN).is_some_and(|origin| !origin.split_once("://").is_some_and(|(_, authority)| own(authority)))
        || site.is_some_and(|site| !matches!(site, "same-origin" | "none"))
}

/// Whether a name is this machine's whatever a name server says: an IP address, or `localhost`.
pub fn is_own_name(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || host.parse::<std::net::IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_and_brackets_are_left_out() {
        for (authority, host) in
            [("a.example:80", "a.example"), ("a", "a"), ("[::1]:80", "::1"), ("[::1]", "::1"), ("", "")]
        {
            assert_eq!(host_of(authority), host);
        }
    }
}
