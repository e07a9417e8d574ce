//! Patterns by example, and that no name makes them slow or lets them match more than they say.

use proptest::prelude::*;

use super::*;

fn agent(url: &str) -> Principal {
    Principal::Agent { url: url.into(), thumbprint: "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs".into() }
}

fn matches(pattern: &str, principal: &Principal) -> bool {
    pattern.parse::<Pattern>().unwrap().matches(principal)
}

#[test]
fn an_agent_pattern_is_anchored_and_a_star_is_one_label_or_segment() {
    for (pattern, url, expected) in [
        ("agent:https://*.partner.example/**", "https://bot.partner.example", true),
        ("agent:https://*.partner.example/**", "https://bot.partner.example/a/b/c", true),
        ("agent:https://*.partner.example/**", "HTTPS://BOT.Partner.Example/a", true),
        ("agent:https://*.partner.example/**", "https://partner.example/a", false),
        ("agent:https://*.partner.example/**", "https://a.b.partner.example/a", false),
        ("agent:https://*.partner.example/**", "https://bot.partner.example.evil.example/a", false),
        ("agent:https://*.partner.example/**", "https://evilpartner.example/a", false),
        ("agent:https://*.partner.example/**", "http://bot.partner.example/a", false),
        ("agent:https://*.partner.example/**", "https://bot.partner.example:8443/a", false),
        ("agent:https://*.partner.example:8443/**", "https://bot.partner.example:8443/a", true),
        ("agent:https://a.example:443/**", "https://a.example/a", true),
        ("agent:https://a.example/agents/x", "https://a.example/agents/x", true),
        ("agent:https://a.example/agents/x", "https://a.example/agents/x/", true),
        ("agent:https://a.example/agents/x", "https://a.example/agents/x/sub", false),
        ("agent:https://a.example/agents/x", "https://a.example/agents/X", false),
        ("agent:https://a.example/agents/*", "https://a.example/agents/x", true),
        ("agent:https://a.example/agents/*", "https://a.example/agents", false),
        ("agent:https://a.example/agents/*", "https://a.example/agents/x/y", false),
        ("agent:https://a.example/**/x", "https://a.example/x", true),
        ("agent:https://a.example/**/x", "https://a.example/a/x/b/x", true),
        ("agent:https://a.example/**/x", "https://a.example/a/x/b", false),
        ("agent:https://a.example", "https://a.example/", true),
        ("agent:https://a.example", "https://a.example/a", false),
        ("agent:https://a.example/**", "https://user@a.example/", false),
        ("agent:https://[::1]/**", "https://[::1]/a", true),
        ("domain:partner.example", "https://api.partner.example/agents/x", true),
        ("domain:partner.example", "https://partner.example", true),
        ("domain:partner.example", "https://evilpartner.example/agents/x", false),
        ("key:NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs", "https://anywhere.example", true),
        ("key:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "https://anywhere.example", false),
    ] {
        assert_eq!(matches(pattern, &agent(url)), expected, "{pattern} {url}");
    }
}

#[test]
fn keys_tokens_and_certificates_match_by_what_was_proven_of_them() {
    let key = Principal::ApiKey("ci".into());
    let jwt = Principal::Jwt {
        issuer: "https://id.example.com".into(),
        subject: "alice".into(),
        claims: vec![("group".into(), "team-a".into()), ("azp".into(), "app".into())],
    };
    let names = vec!["dns:edge.example.com".into(), "cn:edge".into(), format!("sha256:{}", "ab".repeat(32)).into()];
    let cert = Principal::Cert { names };
    for (pattern, principal, expected) in [
        ("api_key:ci", &key, true),
        ("api_key:*", &key, true),
        ("api_key:c", &key, false),
        ("jwt:https://id.example.com", &jwt, true),
        ("jwt:https://id.example.com/", &jwt, false),
        ("jwt:https://id.example.com#group=team-a", &jwt, true),
        ("jwt:https://id.example.com#group=team", &jwt, false),
        ("jwt:https://id.example.com#group=*", &jwt, true),
        ("jwt:https://id.example.com#sub=alice", &jwt, true),
        ("jwt:https://id.example.com#sub=bob", &jwt, false),
        ("jwt:https://id.example.com#azp=app", &jwt, true),
        ("jwt:https://id.example.com#role=*", &jwt, false),
        ("cert:dns:edge.example.com", &cert, true),
        ("cert:dns:EDGE.example.com", &cert, true),
        ("cert:dns:*.example.com", &cert, true),
        ("cert:dns:*.com", &cert, false),
        ("cert:cn:edge", &cert, true),
        ("cert:uri:edge", &cert, false),
        ("api_key:edge", &cert, false),
        ("cert:dns:ci", &key, false),
    ] {
        assert_eq!(matches(pattern, principal), expected, "{pattern}");
    }
    let digest = format!("cert:sha256:{}", ["AB"; 32].join(":"));
    assert!(matches(&digest, &cert));
}

#[test]
fn what_is_no_identity_is_refused() {
    for text in [
        "",
        "ci",
        "user:alice",
        "https://x.example",
        "agent:ftp://x.example",
        "agent:x.example",
        "agent:https://",
        "agent:https://x*.example/**",
        "agent:https://**.example/",
        "agent:https://x.example/a*",
        "agent:https://x.example//a",
        "agent:https://x.example/a?b",
        "agent:https://x.example/a#b",
        "agent:https://x.example/../a",
        "agent:https://u@x.example/",
        "agent:https://x.example:0/",
        "agent:https://x.example:99999/",
        "agent:https://x example/",
        "api_key:",
        "api_key:c*",
        "jwt:",
        "jwt:https://id#group",
        "jwt:https://id#=a",
        "jwt:https://*",
        "cert:edge.example.com",
        "cert:dns:",
        "cert:dns:a..b",
        "cert:uri:*",
        "cert:sha256:abc",
        "key:short",
        "domain:*.x.example",
        "domain:",
    ] {
        assert!(text.parse::<Pattern>().is_err(), "{text}");
    }
    assert!(format!("agent:https://x.example/{}", "a".repeat(3000)).parse::<Pattern>().is_err());
}

proptest! {
    /// A pattern without wildcards matches itself alone.
    #[test]
    fn a_literal_matches_nothing_but_itself(
        one in "[a-z]{1,4}(\\.[a-z]{1,4}){0,2}(/[a-z]{1,3}){0,3}",
        other in "[a-z]{1,4}(\\.[a-z]{1,4}){0,2}(/[a-z]{1,3}){0,3}",
    ) {
        let pattern = format!("agent:https://{one}");
        let (itself, another) = (agent(&format!("https://{one}")), agent(&format!("https://{other}")));
        prop_assert!(matches(&pattern, &itself));
        prop_assert_eq!(matches(&pattern, &another), one == other);
    }

    /// The matcher says what the obvious, slow one says.
    #[test]
    fn stars_match_as_the_plain_definition_has_it(
        pattern in prop::collection::vec(prop_oneof![Just("*"), Just("**"), Just("a"), Just("b")], 0..8),
        parts in prop::collection::vec(prop_oneof![Just("a"), Just("b")], 0..8),
    ) {
        fn plain(pattern: &[&str], parts: &[&str]) -> bool {
            match (pattern, parts) {
                ([], []) => true,
                (["**", rest @ ..], _) => {
                    plain(rest, parts) || parts.split_first().is_some_and(|(_, parts)| plain(pattern, parts))
                }
                (["*", rest @ ..], [_, parts @ ..]) => plain(rest, parts),
                ([first, rest @ ..], [part, parts @ ..]) if first == part => plain(rest, parts),
                _ => false,
            }
        }
        let compiled: Vec<Part> = pattern
            .iter()
            .map(|part| match *part {
                "*" => Part::One,
                "**" => Part::Many,
                literal => Part::Literal(literal.into()),
            })
            .collect();
        prop_assert_eq!(all_match(&compiled, parts.iter().copied()), plain(&pattern, &parts));
    }

    /// No text makes reading or matching panic.
    #[test]
    fn any_text_is_a_pattern_or_an_error(text in "(agent:https://|jwt:|cert:|domain:)?\\PC{0,64}", name in "\\PC{0,64}") {
        if let Ok(pattern) = text.parse::<Pattern>() {
            pattern.matches(&agent(&name));
            pattern.matches(&Principal::Cert { names: vec![name.as_str().into()] });
        }
    }
}

#[test]
fn a_name_made_to_be_slow_is_not() {
    let pattern = format!("agent:https://a.example/{}b", "**/a/".repeat(200));
    let url = format!("https://a.example{}", "/a".repeat(4000));
    let began = std::time::Instant::now();
    assert!(!matches(&pattern, &agent(&url)));
    assert!(began.elapsed() < std::time::Duration::from_secs(2), "{:?}", began.elapsed());
}
