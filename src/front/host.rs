//! The host of an authority.

/// `host` of `host:port`, without the brackets of an IPv6 address; ports are never compared.
pub fn host_of(authority: &str) -> &str {
    if let Some(rest) = authority.strip_prefix('[') {
        return rest.split(']').next().unwrap_or_default();
    }
    authority.split(':').next().unwrap_or_default()
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
