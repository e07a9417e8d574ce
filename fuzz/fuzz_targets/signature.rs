//! Signed requests: any three fields are a claim, nothing, or a refusal. One line each: `Signature-Input`, `Signature`,
//! `Signature-Agent`, `Content-Digest`; the rest is a key set.
#![no_main]

use http::{HeaderMap, HeaderValue};
use libfuzzer_sys::fuzz_target;
use restap_gateway::signature::{Claim, KeySet, Profile, Request, Scheme};

/// When the seeds were signed.
const NOW: i64 = 1_790_000_000;

fuzz_target!(|bytes: &[u8]| {
    let mut parts = bytes.splitn(5, |byte| *byte == b'\n');
    let mut headers = HeaderMap::new();
    for name in ["signature-input", "signature", "signature-agent", "content-digest"] {
        let value = parts.next().unwrap_or_default();
        if let Some(value) = HeaderValue::from_bytes(value).ok().filter(|value| !value.is_empty()) {
            headers.append(name, value);
        }
    }
    let document = parts.next().unwrap_or_default();
    for directory in [true, false] {
        let _ = KeySet::parse(document, directory);
    }
    for profile in [Profile::Authenticate, Profile::Identify] {
        for has_body in [true, false] {
            let request = Request {
                method: "GET",
                scheme: Scheme::Https,
                authority: "gw.example",
                target: "/cap/x?a=1",
                fields: &headers,
                has_body,
            };
            let claim = Claim::read(&request, profile, &[], NOW);
            if let (Ok(Some(claim)), Ok(keys)) = (claim, KeySet::parse(document, false)) {
                let _ = claim.verify(&keys).map(|verified| verified.check_body(b"{}"));
            }
        }
    }
});
