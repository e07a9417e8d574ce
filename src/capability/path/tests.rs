//! The normal form of paths.

use proptest::prelude::*;

use super::*;

fn normal(path: &str) -> String {
    path.parse::<NormalPath>().unwrap_or_else(|error| panic!("{path}: {error}")).as_str().to_owned()
}

fn refused(path: &str) -> InvalidPath {
    path.parse::<NormalPath>().expect_err(path)
}

#[test]
fn dot_segments_plain_or_encoded_are_resolved() {
    for (path, expected) in [
        ("/", "/"),
        ("/a/b", "/a/b"),
        ("/a/./b", "/a/b"),
        ("/a/../b", "/b"),
        ("/a/%2e%2E/b", "/b"),
        ("/a/.%2e/b", "/b"),
        ("/a/%2E/b", "/a/b"),
        ("/a/b/..", "/a/"),
        ("/a/b/.", "/a/b/"),
        ("/a/..", "/"),
        ("/./", "/"),
        ("/a/...", "/a/..."),
        ("/a/..b/.c", "/a/..b/.c"),
    ] {
        assert_eq!(normal(path), expected, "{path}");
    }
}

#[test]
fn slashes_in_a_row_are_one_and_a_trailing_one_stays() {
    for (path, expected) in [("//", "/"), ("//a///b", "/a/b"), ("/a//", "/a/"), ("/a/b/", "/a/b/"), ("/a//../b", "/b")]
    {
        assert_eq!(normal(path), expected, "{path}");
    }
}

#[test]
fn nothing_leads_above_the_root() {
    for path in ["/..", "/../", "/a/../..", "/%2e%2e/a", "/./../a", "//../a"] {
        assert_eq!(refused(path), InvalidPath::AboveRoot, "{path}");
    }
}

#[test]
fn an_encoding_is_decoded_only_where_both_spellings_mean_the_same() {
    for (path, expected) in [
        ("/%61%2D%7e%5F%2Eb", "/a-~_.b"),
        ("/a%3ab", "/a%3Ab"),
        ("/a:b;c=d,e@f!$&'()*+", "/a:b;c=d,e@f!$&'()*+"),
        ("/a%2fb", "/a%2Fb"),
        ("/100%25", "/100%25"),
        ("/%2561", "/%2561"),
        ("/%252e%252e/", "/%252e%252e/"),
        ("/S%c3%a3o%20Paulo", "/S%C3%A3o%20Paulo"),
        ("/São Paulo", "/S%C3%A3o%20Paulo"),
        ("/{a}|\"<>^`", "/%7Ba%7D%7C%22%3C%3E%5E%60"),
    ] {
        assert_eq!(normal(path), expected, "{path}");
    }
}

#[test]
fn what_can_not_be_decided_safely_is_refused() {
    for (path, error) in [
        ("", InvalidPath::NotAbsolute),
        ("a", InvalidPath::NotAbsolute),
        ("*", InvalidPath::NotAbsolute),
        ("/a\\b", InvalidPath::Backslash),
        ("/a%5cb", InvalidPath::Backslash),
        ("/..%5c..", InvalidPath::Backslash),
        ("/a\0", InvalidPath::Control),
        ("/a%00", InvalidPath::Control),
        ("/a%0d%0aX: y", InvalidPath::Control),
        ("/%7F", InvalidPath::Control),
        ("/a%", InvalidPath::BrokenEncoding),
        ("/a%2", InvalidPath::BrokenEncoding),
        ("/a%zz", InvalidPath::BrokenEncoding),
        ("/a%+1", InvalidPath::BrokenEncoding),
        ("/a%/2", InvalidPath::BrokenEncoding),
        ("/%ff", InvalidPath::NotUtf8),
        ("/%c3", InvalidPath::NotUtf8),
        ("/%c0%ae%c0%ae/", InvalidPath::NotUtf8),
        ("/%c3/%a3", InvalidPath::NotUtf8),
    ] {
        assert_eq!(refused(path), error, "{path:?}");
    }
}

#[test]
fn a_base_holds_whole_segments_only() {
    let under = |path: &str, base| {
        let path: NormalPath = path.parse().unwrap();
        path.strip_base(base).map(|rest| rest.as_str().to_owned())
    };
    assert_eq!(under("/a/b", "/a").as_deref(), Some("/b"));
    assert_eq!(under("/a", "/a").as_deref(), Some(""));
    assert_eq!(under("/a/", "/a").as_deref(), Some("/"));
    assert_eq!(under("/a/b", "").as_deref(), Some("/a/b"));
    assert_eq!(under("/ab", "/a"), None);
    assert_eq!(under("/b", "/a"), None);
}

proptest! {
    #[test]
    fn a_normal_path_is_its_own_normal_form(path in "/[a-c./%25EFef\\\\{}é ;:]{0,40}") {
        if let Ok(once) = path.parse::<NormalPath>() {
            prop_assert_eq!(once.as_str().parse::<NormalPath>(), Ok(once.clone()));
            let text = once.as_str();
            prop_assert!(text.starts_with('/') && !text.contains("//") && text.is_ascii());
            prop_assert!(text.split('/').all(|segment| segment != "." && segment != ".."));
        }
    }

    #[test]
    fn an_encoded_value_decodes_to_itself_and_is_one_segment(value in "\\PC{0,20}") {
        let mut encoded = String::new();
        push_value(&value, &mut encoded);
        prop_assert!(!encoded.contains(['/', '?', '#', ';', '&', ' ']));
        prop_assert_eq!(percent_decode_str(&encoded).decode_utf8().unwrap(), value);
    }

    #[test]
    fn no_bytes_make_it_panic(path in "\\PC{0,60}") {
        drop(path.parse::<NormalPath>());
    }
}
