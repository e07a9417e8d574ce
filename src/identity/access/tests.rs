//! The policy by example: groups, deny, default, tools and rates.

use super::*;
use crate::identity::api_key::ApiKey;
use crate::identity::principal::Principal;
use crate::yaml::Secret;

fn patterns(texts: &[&str]) -> Vec<Pattern> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn grants(texts: &[&str]) -> Vec<Grant> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn settings() -> Settings {
    Settings {
        api_keys: vec![ApiKey::new("ci", &Secret::new("a-key-of-this-test")).unwrap()],
        deny: patterns(&["agent:https://spam.example/**"]),
        groups: vec![
            ("partners".into(), patterns(&["agent:https://*.partner.example/**", "api_key:ci"])),
            ("friends".into(), patterns(&["agent:https://bot.partner.example/**"])),
        ],
        ..Settings::default()
    }
}

fn key(name: &str) -> Caller {
    Caller::new(vec![Principal::ApiKey(name.into())]).unwrap()
}

fn agent(url: &str) -> Caller {
    Caller::new(vec![Principal::Agent { url: url.into(), thumbprint: "t".into() }]).unwrap()
}

fn judge(settings: &Settings, caller: Option<&Caller>, right: Right<'_>) -> Verdict {
    let access = Access::new(settings);
    access.judge(access.standing(caller), caller.is_some(), right)
}

#[test]
fn without_tools_everything_but_rest_is_open_to_all_who_are_not_denied() {
    let settings = settings();
    for caller in [None, Some(key("ci")), Some(agent("https://stranger.example"))] {
        for right in [Right::Talk, Right::News, Right::NewsReceive, Right::Capability("a.b")] {
            assert_eq!(judge(&settings, caller.as_ref(), right), Verdict::Allowed);
        }
    }
    assert_eq!(judge(&settings, None, Right::Rest), Verdict::NeedsCredential);
    assert_eq!(judge(&settings, Some(&key("ci")), Right::Rest), Verdict::Forbidden);
    assert_eq!(judge(&settings, Some(&agent("https://spam.example/x")), Right::Talk), Verdict::Denied);
}

#[test]
fn rest_is_judged_alone_and_closes_nothing_else() {
    let settings = Settings { tools: vec![("partners".into(), grants(&["rest"]))], ..settings() };
    assert_eq!(judge(&settings, Some(&key("ci")), Right::Rest), Verdict::Allowed);
    assert_eq!(judge(&settings, Some(&key("other")), Right::Rest), Verdict::Forbidden);
    assert_eq!(judge(&settings, None, Right::Talk), Verdict::Allowed);
    assert!(!Access::new(&settings).restricts());
}

#[test]
fn tools_are_the_whole_list_as_soon_as_they_name_anything_else() {
    let tools = vec![
        ("partners".into(), grants(&["news", "weather.*", "rest"])),
        ("friends".into(), grants(&["orders.read"])),
        ("everyone".into(), grants(&["talk"])),
    ];
    let settings = Settings { tools, ..settings() };
    let bot = agent("https://bot.partner.example/x");
    for (caller, right, verdict) in [
        (None, Right::Talk, Verdict::Allowed),
        (None, Right::News, Verdict::NeedsCredential),
        (None, Right::Capability("weather.current"), Verdict::NeedsCredential),
        (Some(&key("ci")), Right::Capability("weather.current"), Verdict::Allowed),
        (Some(&key("ci")), Right::Capability("orders.read"), Verdict::Forbidden),
        // In a group, so not in the default one.
        (Some(&key("ci")), Right::Talk, Verdict::Forbidden),
        (Some(&key("other")), Right::Talk, Verdict::Allowed),
        (Some(&key("other")), Right::News, Verdict::Forbidden),
        // In every group that it matches.
        (Some(&bot), Right::Capability("orders.read"), Verdict::Allowed),
        (Some(&bot), Right::NewsReceive, Verdict::Allowed),
    ] {
        assert_eq!(judge(&settings, caller, right), verdict, "{caller:?} {right:?}");
    }
}

#[test]
fn without_a_default_who_is_in_no_group_may_do_nothing() {
    let settings = Settings { default: None, ..settings() };
    assert_eq!(judge(&settings, None, Right::Talk), Verdict::NeedsCredential);
    assert_eq!(judge(&settings, Some(&key("other")), Right::Talk), Verdict::Forbidden);
    assert_eq!(judge(&settings, Some(&key("ci")), Right::Talk), Verdict::Allowed);
    assert!(Access::new(&settings).restricts());
}

#[test]
fn one_bad_name_among_good_ones_is_enough_to_be_denied() {
    let both = Caller::new(vec![
        Principal::ApiKey("ci".into()),
        Principal::Agent { url: "https://spam.example/x".into(), thumbprint: "t".into() },
    ]);
    assert_eq!(judge(&settings(), both.as_ref(), Right::Talk), Verdict::Denied);
}

#[test]
fn the_most_generous_rate_of_a_callers_groups_counts() {
    let limits = |rate: &str| Limits { rate: Some(rate.parse().unwrap()), ..Limits::default() };
    let rate = vec![
        ("partners".into(), Limits { running: Some(3), ..limits("60/m") }),
        ("friends".into(), Limits { tools: vec![("a.*".parse().unwrap(), "1/h".parse().unwrap())], ..limits("2/s") }),
        ("everyone".into(), limits("1/m")),
    ];
    let access = Access::new(&Settings { rate, ..settings() });
    let told = |caller: Option<&Caller>, right| {
        let groups = access.standing(caller).groups;
        let quotas: Vec<String> = access.quotas(groups, right).map(|quota| quota.rate.to_string()).collect();
        (quotas.join(" "), access.running_max(groups))
    };
    let bot = agent("https://bot.partner.example/x");
    assert_eq!(told(None, Right::Talk), ("1/m".into(), None));
    assert_eq!(told(Some(&key("ci")), Right::Talk), ("60/m".into(), Some(3)));
    assert_eq!(told(Some(&bot), Right::Talk), ("2/s".into(), Some(3)));
    assert_eq!(told(Some(&bot), Right::Capability("a.b")), ("2/s 1/h".into(), Some(3)));
}
