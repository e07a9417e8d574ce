//! Tokens of issuers: who they let in, keys that are rotated, and every way in which one is refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{Call, Gateway, Upstream, passing};

/// A key of the issuer.
struct Key {
    kid: &'static str,
    pair: Ed25519KeyPair,
}

impl Key {
    fn new(kid: &'static str, seed: u8) -> Self {
        Self { kid, pair: Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap() }
    }

    fn jwk(&self) -> Value {
        json!({"kty": "OKP", "crv": "Ed25519", "kid": self.kid, "x": BASE64.encode(self.pair.public_key())})
    }

    fn token(&self, change: &Value) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let mut claims = json!({
            "iss": "https://id.example.com", "aud": ["weather"], "sub": "alice", "exp": now + 600, "groups": ["team-a"],
        });
        for (name, value) in change.as_object().unwrap() {
            claims[name] = value.clone();
        }
        let header = json!({"alg": "EdDSA", "kid": self.kid});
        let signed = format!("{}.{}", BASE64.encode(header.to_string()), BASE64.encode(claims.to_string()));
        format!("{signed}.{}", BASE64.encode(self.pair.sign(signed.as_bytes())))
    }
}

fn set(keys: &[&Key]) -> String {
    json!({"keys": keys.iter().map(|key| key.jwk()).collect::<Vec<_>>()}).to_string()
}

fn guarded(upstream: &Upstream, jwks: &str) -> String {
    format!(
        "{}  access:\n    api_keys: {{ci: an-api-key-0123456789}}\n    \
         jwt: [{{issuer: https://id.example.com, audience: weather, groups_claim: groups, jwks: {jwks}}}]\n    \
         groups: {{team: [\"jwt:https://id.example.com#group=team-a\", \"api_key:ci\"]}}\n    tools: {{team: [\"any.*\"]}}\n",
        passing(upstream)
    )
}

fn by(token: &str) -> Call {
    Call::get("/x").header("Authorization", &format!("Bearer {token}"))
}

#[test]
fn a_token_lets_in_who_is_in_the_group_and_no_other() {
    let upstream = Upstream::fixed("200 OK", "", "ok");
    let directory = Arc::new(TempDir::new().unwrap());
    let key = Key::new("k1", 1);
    std::fs::write(directory.path().join("keys.json"), set(&[&key])).unwrap();
    let gateway = Gateway::start_in(directory, &guarded(&upstream, "{file: keys.json}"));
    assert_eq!(gateway.call(&by(&key.token(&json!({})))).status, 200);
    let told = upstream.last();
    assert_eq!(told.header("restap-caller-kind"), Some("jwt"));
    assert_eq!(told.header("restap-caller"), Some("https://id.example.com#sub=alice"));
    assert_eq!(told.header("authorization"), None);
    assert_eq!(gateway.call(&by("an-api-key-0123456789")).status, 200);
    gateway.call(&by(&key.token(&json!({"groups": ["team-b"]})))).refused(403, "forbidden");
    gateway.get("/x").refused(401, "unauthorized");
    let forged = Key::new("k1", 2);
    let mut refused = vec![
        forged.token(&json!({})),
        Key::new("k2", 2).token(&json!({})),
        "no.token.atall".to_owned(),
        "nothing".to_owned(),
    ];
    for change in [
        json!({"exp": 1}),
        json!({"exp": "9999999999"}),
        json!({"nbf": 9_999_999_999_u64}),
        json!({"aud": "news"}),
        json!({"iss": "https://other.example.com"}),
    ] {
        refused.push(key.token(&change));
    }
    let good = key.token(&json!({}));
    let none = BASE64.encode(r#"{"alg":"none"}"#);
    refused.push(format!("{none}.{}.", good.split('.').nth(1).unwrap()));
    for token in &refused {
        let answer = gateway.call(&by(token));
        answer.refused(401, "unauthorized");
        assert!(answer.header("www-authenticate").unwrap().contains("error=\"invalid_token\""));
    }
    assert_eq!(upstream.requests().len(), 2);
    gateway.wait_for_line("caller=jwt:https://id.example.com#sub=alice");
}

#[test]
fn keys_come_from_a_url_and_a_new_one_is_asked_for_once() {
    let upstream = Upstream::fixed("200 OK", "", "ok");
    let (old, new) = (Key::new("old", 3), Key::new("new", 4));
    let asked = Arc::new(AtomicUsize::new(0));
    let (first, counter) = (set(&[&old]), asked.clone());
    let issuer = Upstream::start(move |exchange| {
        counter.fetch_add(1, Ordering::SeqCst);
        exchange.answer("200 OK", "Content-Type: application/json", first.as_bytes());
    });
    let gateway = Gateway::start(&guarded(&upstream, &format!("{}/keys", issuer.url())));
    for _ in 0..5 {
        assert_eq!(gateway.call(&by(&old.token(&json!({})))).status, 200);
    }
    assert_eq!((asked.load(Ordering::SeqCst), issuer.last().target.as_str()), (1, "/keys"));
    // A key that nobody knows is asked for, but not by everybody who comes with one.
    for _ in 0..5 {
        gateway.call(&by(&new.token(&json!({})))).refused(401, "unauthorized");
    }
    assert!(asked.load(Ordering::SeqCst) <= 2);
}

#[test]
fn without_the_issuers_keys_nobody_is_called_a_liar() {
    let upstream = Upstream::fixed("200 OK", "", "ok");
    let gateway = Gateway::start(&guarded(&upstream, &format!("{}/keys", Upstream::unreachable())));
    let answer = gateway.call(&by(&Key::new("k1", 1).token(&json!({}))));
    answer.refused(503, "upstream_unavailable");
    assert!(answer.header("retry-after").is_some() && upstream.requests().is_empty());
    assert_eq!(gateway.call(&by("an-api-key-0123456789")).status, 200);
}
