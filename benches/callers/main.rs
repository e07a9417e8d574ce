//! What it costs to know who is calling (an API key, and a signature whose key set is at hand), and what calls of
//! `rest_request` cost beside those of a plain client.
//!
//! `cargo bench --bench callers` prints the medians; `-- --smoke` only sees that everything runs.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a bench that can't run ends with a panic"
)]

mod tool;

use std::hint::black_box;
use std::time::{Duration, Instant};

use http::{HeaderMap, HeaderName, HeaderValue};
use restap_gateway::identity::api_key::ApiKey;
use restap_gateway::identity::{Access, Caller, Principal, Right, Settings};
use restap_gateway::signature::{Claim, Form, KeySet, Nonces, Outgoing, Profile, Request, Scheme, Signer, SigningKey};
use restap_gateway::yaml::Secret;

/// Keys of an agent with many callers.
const KEYS: usize = 20;

fn main() {
    let smoke = std::env::args().any(|argument| argument == "--smoke");
    let rounds = if smoke { 20 } else { 20_000 };
    report("an API key of 20, its groups and its right", &measure(rounds, api_key()));
    report("a signature: parsed, verified, its nonce spent", &measure(rounds, signature()));
    tool::measure(smoke);
}

/// From what stands in the header to the verdict.
fn api_key() -> impl FnMut(usize) {
    let api_keys = (0..KEYS)
        .map(|number| {
            ApiKey::new(&format!("k{number}"), &Secret::new(format!("a-key-of-this-bench-{number:08}"))).unwrap()
        })
        .collect();
    let settings = Settings {
        api_keys,
        groups: vec![(
            "partners".into(),
            vec!["api_key:k7".parse().unwrap(), "agent:https://*.a.example/**".parse().unwrap()],
        )],
        tools: vec![("partners".into(), vec!["weather.*".parse().unwrap(), "talk".parse().unwrap()])],
        ..Settings::default()
    };
    let access = Access::new(&settings);
    move |_| {
        let name = access.api_keys.find(black_box(b"a-key-of-this-bench-00000007")).unwrap();
        let caller = Caller::new(vec![Principal::ApiKey(name.into())]);
        let standing = access.standing(caller.as_ref());
        black_box(access.judge(standing, true, Right::Capability("weather.current")));
    }
}

/// From the fields of a request to a spent nonce, by the profile that lets callers in.
fn signature() -> impl FnMut(usize) {
    let key = SigningKey::from_seed([7; 32]).unwrap();
    let signer = Signer::new("https://agent.example/a".parse().unwrap(), std::slice::from_ref(&key)).unwrap();
    let now = 1_800_000_000;
    let keys = KeySet::of([key.public().clone()]);
    let outgoing = Outgoing {
        method: "GET",
        authority: "gateway.example",
        target: "/weather/oslo?units=metric",
        body: b"",
        covered: &[],
    };
    let requests: Vec<HeaderMap> = (0..1_000_u32)
        .map(|number| {
            let mut nonce =
                |bytes: &mut [u8]| bytes.iter_mut().zip(number.to_le_bytes()).for_each(|(to, from)| *to = from);
            let fields = signer.sign(&outgoing, Form::Untyped, now, &mut nonce).unwrap();
            let field = |(name, value): (&'static str, String)| {
                (HeaderName::from_static(name), HeaderValue::try_from(value).unwrap())
            };
            fields.into_iter().map(field).collect()
        })
        .collect();
    let mut nonces = Nonces::default();
    move |round| {
        let Some(fields) = requests.get(round % requests.len()) else { return };
        if round % requests.len() == 0 {
            nonces = Nonces::default();
        }
        let request = Request {
            method: "GET",
            scheme: Scheme::Https,
            authority: "gateway.example",
            target: "/weather/oslo?units=metric",
            fields,
            has_body: false,
        };
        let claim = Claim::read(&request, Profile::Authenticate, &[], now).unwrap().unwrap();
        let verified = claim.verify(&keys).unwrap();
        verified.spend(&mut nonces, now).unwrap();
    }
}

fn measure(rounds: usize, mut once: impl FnMut(usize)) -> Vec<Duration> {
    let mut took: Vec<Duration> = (0..rounds)
        .map(|round| {
            let began = Instant::now();
            once(round);
            began.elapsed()
        })
        .collect();
    took.sort_unstable();
    took
}

fn report(what: &str, took: &[Duration]) {
    let at = |part: usize| took.get(took.len() * part / 100).copied().unwrap_or_default().as_nanos() as f64 / 1000.0;
    println!("{what}: p50 {:.1} µs, p99 {:.1} µs", at(50), at(99));
}
