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

/// Cases that others have made for the same vocabulary, where they lie beside the repository.
fn cases(name: &str) -> Option<serde_json::Value> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/cases/signature/webagents").join(name);
    let Ok(text) = std::fs::read_to_string(&path) else {
        eprintln!("skipped: {name} is not here");
        return None;
    };
    Some(serde_json::from_str(&text).unwrap())
}

fn texts(value: &serde_json::Value) -> Vec<&str> {
    value.as_array().into_iter().flatten().map(|text| text.as_str().unwrap()).collect()
}

/// `agent:` and `key:` of one caller, as a verified signature brings them.
fn signer(principals: &[&str]) -> Option<Caller> {
    let url = principals.iter().find_map(|name| name.strip_prefix("agent:"))?;
    let thumbprint = principals.iter().find_map(|name| name.strip_prefix("key:")).unwrap_or("none");
    Caller::new(vec![Principal::Agent { url: url.into(), thumbprint: thumbprint.into() }])
}

#[test]
fn policies_of_others_are_judged_as_they_judge_them() {
    let Some(file) = cases("policy.json") else { return };
    let mut held = 0;
    for case in file["cases"].as_array().unwrap() {
        let principals = texts(&case["principals"]);
        // Users of a platform, its channels and its owners are nobody here.
        if principals.iter().any(|name| !name.starts_with("agent:") && !name.starts_with("key:"))
            || case["tier"].is_string()
        {
            continue;
        }
        let policy = &file["policies"][case["policy"].as_str().unwrap_or("open")];
        let known = |list: &serde_json::Value| -> Vec<Pattern> {
            texts(list).into_iter().filter_map(|text| text.parse().ok()).collect()
        };
        let groups: Vec<(String, Vec<Pattern>)> =
            policy["groups"].as_object().unwrap().iter().map(|(name, list)| (name.clone(), known(list))).collect();
        let default = policy["default"].as_str().filter(|name| *name != "none").map(str::to_owned);
        let settings = Settings { deny: known(&policy["deny"]), groups, default, ..Settings::default() };
        let access = Access::new(&settings);
        let caller = signer(&principals);
        let standing = access.standing(caller.as_ref());
        let allowed = access.judge(standing, caller.is_some(), Right::Talk) == Verdict::Allowed;
        assert_eq!(allowed, case["expect"]["allow"].as_bool().unwrap(), "{case}");
        if allowed {
            let mut names: Vec<&str> = access.of(standing.groups).map(|group| &*group.name).collect();
            let mut expected = texts(&case["expect"]["groups"]);
            names.sort_unstable();
            expected.sort_unstable();
            assert_eq!(names, expected, "{case}");
        }
        held += 1;
    }
    assert!(held >= 15, "only {held} cases apply");
    for case in file["bad"].as_array().unwrap() {
        for text in texts(&case["access"]["deny"]).into_iter().filter(|_| case["access"]["deny"].is_array()) {
            assert!(text.parse::<Pattern>().is_err(), "{text}");
        }
    }
}

#[test]
fn scopes_of_others_are_grants_to_groups() {
    let Some(file) = cases("scope_allows.json") else { return };
    let mut held = 0;
    for case in file["cases"].as_array().unwrap() {
        let required = match &case["required"] {
            serde_json::Value::String(one) => vec![one.as_str()],
            list => texts(list),
        };
        let caller = texts(&case["caller"]);
        // Owners and users of a platform are nobody here; an empty list is everybody, as no `tools` are.
        let is_group = |scope: &&str| scope.starts_with("group:");
        if required.is_empty()
            || !required.iter().all(is_group)
            || caller.iter().any(|scope| matches!(*scope, "owner" | "admin"))
        {
            continue;
        }
        let member = vec!["api_key:ci".parse::<Pattern>().unwrap()];
        let name = |scope: &str| scope.trim_start_matches("group:").to_owned();
        let groups =
            caller.iter().copied().filter(|scope| is_group(scope)).map(|scope| (name(scope), member.clone())).collect();
        let tools = required.iter().map(|scope| (name(scope), grants(&["a.b"]))).collect();
        let settings = Settings { groups, tools, default: None, ..settings() };
        let allowed = judge(&settings, Some(&key("ci")), Right::Capability("a.b")) == Verdict::Allowed;
        assert_eq!(allowed, case["allowed"].as_bool().unwrap(), "{case}");
        held += 1;
    }
    assert!(held >= 4, "only {held} cases apply");
}
