//! What callers prove and what operators write of it: identities, grants, tokens and key sets.
#![no_main]

use libfuzzer_sys::fuzz_target;
use restap_gateway::identity::jwt::{Expected, Keys, Token};
use restap_gateway::identity::{Grant, Pattern, Principal, Right};

fuzz_target!(|input: (&str, &str, &str, &[u8], &[u8])| {
    let (pattern, name, grant, token, keys) = input;
    if let Ok(pattern) = pattern.parse::<Pattern>() {
        pattern.matches(&Principal::Agent { url: name.into(), thumbprint: name.into() });
        pattern.matches(&Principal::Cert { names: vec![name.into()] });
    }
    if let Ok(grant) = grant.parse::<Grant>() {
        assert!(!grant.is_pattern() || !grant.gives(Right::Rest));
        grant.gives(Right::Capability(name));
    }
    if let (Ok(token), Ok(keys)) = (Token::parse(token), Keys::parse(keys)) {
        let audience = ["a".to_owned()];
        let _ = token.believe(&keys, &Expected { issuer: "i", audience: &audience, groups_claim: None }, 1_800_000_000);
    }
});
