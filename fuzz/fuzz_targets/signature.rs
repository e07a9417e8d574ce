//! Signed requests: any three fields are a claim, nothing, or a refusal.
#![no_main]

use http::{HeaderMap, HeaderValue};
use libfuzzer_sys::fuzz_target;
use restap_gateway::signature::{Claim, KeySet, Profile, Request, Scheme};

fuzz_target!(|input: (bool, &[u8], &[u8], &[u8], &str)| {
    let (strict, fields, signature, agent, document) = input;
    let mut headers = HeaderMap::new();
    for (name, value) in [("signature-input", fields), ("signature", signature), ("signature-agent", agent)] {
        if let Ok(value) = HeaderValue::from_bytes(value) {
            headers.append(name, value);
        }
    }
    let request = Request {
        method: "POST", scheme: Scheme::Https, authority: "a.example", target: "/x?y", fields: &headers, has_body: true,
    };
    let profile = if strict { Profile::Authenticate } else { Profile::Identify };
    let claim = Claim::read(&request, profile, &[], 1_800_000_000);
    if let (Ok(Some(claim)), Ok(keys)) = (claim, KeySet::parse(document.as_bytes(), false)) {
        let _ = claim.verify(&keys);
    }
});
