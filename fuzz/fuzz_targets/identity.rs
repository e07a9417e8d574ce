//! What callers prove and what operators write of it: identities, grants, tokens and key sets. One line each: a pattern, a
//! name that is held against it, a grant, a token; the rest is a key set.
#![no_main]

use libfuzzer_sys::fuzz_target;
use restap_gateway::identity::jwt::{Expected, Keys, Token};
use restap_gateway::identity::{Grant, Pattern, Principal, Right};

fuzz_target!(|text: &str| {
    let mut lines = text.splitn(5, '\n');
    let mut next = || lines.next().unwrap_or_default();
    let (pattern, name, grant, token, keys) = (next(), next(), next(), next(), next());
    if let Ok(pattern) = pattern.parse::<Pattern>() {
        pattern.matches(&Principal::Agent { url: name.into(), thumbprint: name.into() });
        pattern.matches(&Principal::Cert { names: vec![name.into()] });
    }
    if let Ok(grant) = grant.parse::<Grant>() {
        assert!(!grant.is_pattern() || !grant.gives(Right::Rest));
        grant.gives(Right::Capability(name));
    }
    if let (Ok(token), Ok(keys)) = (Token::parse(token.as_bytes()), Keys::parse(keys.as_bytes())) {
        let audience = ["a".to_owned()];
        let expected = Expected { issuer: "i", audience: &audience, groups_claim: Some("groups") };
        let _ = token.believe(&keys, &expected, 1_800_000_000);
    }
});
