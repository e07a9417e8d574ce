//! Tokens that are believed, and every way in which one is not.

use proptest::prelude::*;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair};
use serde_json::json;

use super::*;

const NOW: u64 = 1_800_000_000;

fn encode(bytes: impl AsRef<[u8]>) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

fn ed25519() -> Ed25519KeyPair {
    Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap()
}

fn keys() -> Keys {
    let x = encode(ed25519().public_key());
    let jwk = json!({"kty": "OKP", "crv": "Ed25519", "x": x, "kid": "k1", "use": "sig"});
    Keys::parse(json!({"keys": [{"kty": "oct", "k": "AAAA"}, jwk]}).to_string().as_bytes()).unwrap()
}

fn signed(header: &Value, claims: &Value) -> String {
    let signed = format!("{}.{}", encode(header.to_string()), encode(claims.to_string()));
    let signature = encode(ed25519().sign(signed.as_bytes()));
    format!("{signed}.{signature}")
}

fn claims(change: &Value) -> Value {
    let mut claims = json!({
        "iss": "https://id.example", "aud": "weather", "sub": "alice", "exp": NOW + 60, "nbf": NOW - 60,
        "groups": ["team-a", "team-b"], "azp": "app", "scope": "read write",
    });
    for (name, value) in change.as_object().unwrap() {
        if value.is_null() {
            claims.as_object_mut().unwrap().remove(name);
        } else {
            claims[name] = value.clone();
        }
    }
    claims
}

fn expected(audience: &[String]) -> Expected<'_> {
    Expected { issuer: "https://id.example", audience, groups_claim: Some("groups") }
}

fn believe(text: &str) -> Result<Believed, Refused> {
    Token::parse(text.as_bytes())?.believe(&keys(), &expected(&["weather".to_owned()]), NOW)
}

fn header() -> Value {
    json!({"alg": "EdDSA", "kid": "k1"})
}

#[test]
fn a_token_of_the_issuer_is_believed_and_says_who_and_in_which_groups() {
    let believed = believe(&signed(&header(), &claims(&json!({})))).unwrap();
    assert_eq!(believed.subject, "alice");
    for (name, value) in [("group", "team-a"), ("group", "team-b"), ("azp", "app"), ("scope", "write")] {
        assert!(believed.claims.contains(&(name.into(), value.into())), "{name}={value}: {believed:?}");
    }
    for change in [
        json!({"aud": ["other", "weather"]}),
        json!({"nbf": null}),
        json!({"exp": NOW as f64 + 0.5}),
        json!({"exp": NOW - 59}),
    ] {
        assert!(believe(&signed(&header(), &claims(&change))).is_ok(), "{change}");
    }
    assert!(believe(&signed(&json!({"alg": "EdDSA"}), &claims(&json!({})))).is_ok());
}

#[test]
fn a_claim_called_group_is_no_group() {
    let believed = believe(&signed(&header(), &claims(&json!({"groups": null, "group": "admins"})))).unwrap();
    assert!(!believed.claims.iter().any(|(name, _)| &**name == "group"), "{believed:?}");
}

#[test]
fn what_a_token_must_say_it_must_say() {
    for (change, reason) in [
        (json!({"exp": null}), "`exp` is missing"),
        (json!({"exp": NOW - 60}), "has expired"),
        (json!({"exp": "9999999999"}), "no number"),
        (json!({"nbf": "0"}), "no number"),
        (json!({"nbf": [1]}), "no number"),
        (json!({"nbf": NOW + 61}), "not valid yet"),
        (json!({"iss": "https://id.example/"}), "another issuer"),
        (json!({"iss": null}), "another issuer"),
        (json!({"aud": null}), "another audience"),
        (json!({"aud": "weather2"}), "another audience"),
        (json!({"aud": {"weather": true}}), "another audience"),
        (json!({"aud": []}), "another audience"),
    ] {
        let refused = believe(&signed(&header(), &claims(&change))).unwrap_err();
        assert!(refused.0.contains(reason), "{change}: {refused}");
    }
}

#[test]
fn a_signature_is_the_issuers_by_the_algorithm_of_its_key() {
    for (header, reason) in [
        (json!({"alg": "none"}), "not taken"),
        (json!({"alg": "HS256", "kid": "k1"}), "not taken"),
        (json!({"alg": "eddsa", "kid": "k1"}), "not taken"),
        (json!({"kid": "k1"}), "not taken"),
        (json!({"alg": "RS256", "kid": "k1"}), "does not publish"),
        (json!({"alg": "ES256", "kid": "k1"}), "does not publish"),
        (json!({"alg": "EdDSA", "kid": "k2"}), "does not publish"),
        (json!({"alg": "EdDSA", "kid": 1}), "three parts"),
        (json!({"alg": "EdDSA", "kid": "k1", "crit": ["exp"]}), "extensions"),
    ] {
        let refused = believe(&signed(&header, &claims(&json!({})))).unwrap_err();
        assert!(refused.0.contains(reason), "{header}: {refused}");
    }
    let good = signed(&header(), &claims(&json!({})));
    let (front, signature) = good.rsplit_once('.').unwrap();
    let (head, _) = front.split_once('.').unwrap();
    let other = encode(claims(&json!({"sub": "root"})).to_string());
    for forged in [
        format!("{head}.{other}.{signature}"),
        format!("{front}."),
        format!("{front}.{}", encode([0; 64])),
        front.to_owned(),
        format!("{good}.x"),
        String::new(),
    ] {
        assert!(believe(&forged).is_err(), "{forged}");
    }
    assert_eq!(believe(&"a".repeat(TOKEN_MAX + 1)), Err(Refused("is longer than 16 KiB")));
}

#[test]
fn a_key_of_a_curve_verifies_and_a_set_without_keys_is_none() {
    let random = SystemRandom::new();
    let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
    let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document.as_ref(), &random).unwrap();
    let point = pair.public_key().as_ref();
    let jwk =
        json!({"kty": "EC", "crv": "P-256", "x": encode(&point[1..33]), "y": encode(&point[33..]), "alg": "ES256"});
    let keys = Keys::parse(json!({"keys": [jwk]}).to_string().as_bytes()).unwrap();
    let signed = format!("{}.{}", encode(json!({"alg": "ES256"}).to_string()), encode(claims(&json!({})).to_string()));
    let text = format!("{signed}.{}", encode(pair.sign(&random, signed.as_bytes()).unwrap()));
    let token = Token::parse(text.as_bytes()).unwrap();
    assert!(token.believe(&keys, &expected(&["weather".to_owned()]), NOW).is_ok());
    for (document, error) in [
        ("", InvalidKeys::Syntax),
        ("[]", InvalidKeys::Syntax),
        (r#"{"keys":[]}"#, InvalidKeys::Empty),
        (r#"{"keys":[{"kty":"oct","k":"AAAA"}]}"#, InvalidKeys::Empty),
        (r#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"AAAA"}]}"#, InvalidKeys::Empty),
    ] {
        assert_eq!(Keys::parse(document.as_bytes()).unwrap_err(), error, "{document}");
    }
}

proptest! {
    #[test]
    fn no_text_is_believed_or_makes_reading_panic(text in "[A-Za-z0-9_.-]{0,80}") {
        prop_assert!(believe(&text).is_err());
    }
}
