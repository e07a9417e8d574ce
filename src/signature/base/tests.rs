//! Hosts and targets.

use super::*;

#[test]
fn a_host_has_one_spelling() {
    for (host, normal) in [
        ("gw.example", "gw.example"),
        (" GW.Example ", "gw.example"),
        ("gw.example:443", "gw.example"),
        ("gw.example:80", "gw.example"),
        ("gw.example:8080", "gw.example:8080"),
        ("127.0.0.1:8080", "127.0.0.1:8080"),
        ("[::1]:8080", "[::1]:8080"),
        ("[2001:DB8::1]", "[2001:db8::1]"),
        ("[::1]:443", "[::1]"),
        ("a_b.example", "a_b.example"),
    ] {
        assert_eq!(normal_authority(host).as_deref(), Some(normal), "{host}");
    }
    for host in [
        "", ":80", "a:b", "a:", "a:65536", "a:1:2", "a b", "a/b", "user@a", "[::1", "[::1]x", "[::1]:", "[x]", "a..b",
        ".a", "a:-1", "a:+1", "\u{e9}",
    ] {
        assert_eq!(normal_authority(host), None, "{host}");
    }
}

#[test]
fn a_target_is_read_as_it_came_and_as_browsers_write_it() {
    let spellings = |target: &str| -> Vec<String> {
        let written = |target: &Target| match &target.query {
            Some(query) => format!("{}?{query}", target.path),
            None => target.path.clone(),
        };
        Target::spellings(target).iter().map(written).collect()
    };
    assert_eq!(spellings("/a?b=1"), ["/a?b=1"]);
    assert_eq!(spellings("/"), ["/"]);
    assert_eq!(spellings(""), ["/"]);
    assert_eq!(spellings("?a"), ["/?a"]);
    assert_eq!(spellings("/a/../b"), ["/a/../b", "/b"]);
    assert_eq!(spellings("/a b?'"), ["/a b?'", "/a%20b?%27"]);
    assert_eq!(spellings("*"), ["*"]);
    assert_eq!(spellings("/a#b"), ["/a#b"]);
    assert_eq!(spellings("//evil.example/a"), ["//evil.example/a"]);
}
