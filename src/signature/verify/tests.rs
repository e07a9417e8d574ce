//! Cases from files, and whatever else can be wrong with a signature.

use std::path::Path;

use serde_json::Value;

use super::*;
use crate::signature::{KeySet, PublicKey};

/// Cases that are not part of this package; `None` where they are not found.
fn shared(name: &str) -> Option<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/cases/signature").join(name);
    let Ok(text) = std::fs::read(&path) else {
        eprintln!("skipped: no {name}");
        return None;
    };
    Some(serde_json::from_slice(&text).unwrap())
}

fn own() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/signature.json");
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn fields(list: &Value) -> HeaderMap {
    let lines = list.as_array().unwrap().iter();
    lines
        .map(|line| {
            let name: http::HeaderName = line[0].as_str().unwrap().parse().unwrap();
            (name, line[1].as_str().unwrap().parse().unwrap())
        })
        .collect()
}

/// A request of a case file, whose `url` is absolute.
struct Sent {
    method: String,
    target: String,
    fields: HeaderMap,
    body: Vec<u8>,
}

impl Sent {
    fn read(request: &Value) -> Self {
        let url = request["url"].as_str().unwrap();
        let rest = url.strip_prefix("https://").unwrap();
        Self {
            method: request["method"].as_str().unwrap().to_owned(),
            target: rest.split_once('/').map_or_else(|| "/".to_owned(), |(_, rest)| format!("/{rest}")),
            fields: fields(&request["headers"]),
            body: request["body"].as_str().unwrap_or_default().as_bytes().to_vec(),
        }
    }

    fn request(&self) -> Request<'_> {
        Request {
            method: &self.method,
            scheme: Scheme::Https,
            authority: self.fields["host"].to_str().unwrap(),
            target: &self.target,
            fields: &self.fields,
            has_body: !self.body.is_empty(),
        }
    }
}

/// Judges a request to the end, with the keys that `keys` finds.
fn judge(
    sent: &Sent,
    profile: Profile,
    authorities: &[String],
    now: i64,
    keys: &dyn Fn(&Discovery) -> Result<KeySet, Refused>,
    nonces: &mut Nonces,
) -> Result<Option<String>, Refused> {
    let Some(claim) = Claim::read(&sent.request(), profile, authorities, now)? else { return Ok(None) };
    let set = keys(claim.discovery())?;
    let verified = claim.verify(&set)?;
    verified.check_body(&sent.body)?;
    if profile == Profile::Authenticate {
        verified.spend(nonces, now)?;
    }
    Ok(Some(verified.principal))
}

fn told(outcome: &Result<Option<String>, Refused>) -> String {
    match outcome {
        Ok(Some(principal)) => format!("verified {principal}"),
        Ok(None) => "nothing".to_owned(),
        Err(refused) => format!("refused: {}", refused.code().as_str()),
    }
}

/// The set of a case: only at its URL, never at an address that nobody may be sent to.
fn directory_of(case: &Value) -> impl Fn(&Discovery) -> Result<KeySet, Refused> {
    let directory = case["directory"].clone();
    move |discovery| {
        if discovery.url != directory["url"].as_str().unwrap() {
            return Err(Refused::unreachable("it is not a public address"));
        }
        Ok(KeySet::parse(directory.to_string().as_bytes(), discovery.directory)?)
    }
}

#[test]
fn every_case_is_judged_by_both_profiles() {
    let cases = own();
    let cases = cases["cases"].as_array().unwrap();
    assert!(cases.len() > 20);
    for case in cases {
        let (name, sent) = (case["name"].as_str().unwrap(), Sent::read(&case["request"]));
        let now = case["now"].as_i64().unwrap();
        let keys = directory_of(case);
        for profile in [Profile::Authenticate, Profile::Identify] {
            let expected = match (profile, name) {
                (Profile::Identify, "typed jwks_uri (draft-ietf-00, webagents default)") => {
                    "refused: signature_agent_invalid"
                }
                (
                    Profile::Identify,
                    "only @authority and Signature-Agent"
                    | "window over one hour"
                    | "body not covered"
                    | "same request twice",
                ) => "verified https://caller.example",
                _ => case["webagents_0_3_9"].as_str().unwrap(),
            };
            let (authorities, mut nonces) = (["gw.example".to_owned()], Nonces::default());
            let mut last = None;
            for _ in 0..case["repeat"].as_i64().unwrap_or(1) {
                last = Some(judge(&sent, profile, &authorities, now, &keys, &mut nonces));
            }
            let last = last.unwrap();
            assert_eq!(told(&last), expected, "{name}, {profile:?}: {last:?}");
        }
    }
}

#[test]
fn a_member_that_must_be_ignored_names_nobody() {
    let cases = own();
    let case = &cases["cases"][0];
    let outcome = Claim::read(&Sent::read(&case["request"]).request(), Profile::Identify, &[], 1_790_000_005);
    assert_eq!(outcome.unwrap_err().outcome(), super::super::Outcome::Unverified);
}

#[test]
fn requests_that_must_not_verify_do_not() {
    let Some(vectors) = shared("negative-vectors.json") else { return };
    let key = KeySet::of(PublicKey::from_x("JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs"));
    for case in vectors["cases"].as_array().unwrap() {
        let (id, now) = (case["id"].as_str().unwrap(), case["now"].as_i64().unwrap());
        let keys = |discovery: &Discovery| {
            if discovery.url == "https://signature-agent.test/.well-known/http-message-signatures-directory" {
                Ok(key.clone())
            } else {
                Err(Refused::unreachable("it answered 404"))
            }
        };
        let outcome = judge(&Sent::read(&case["request"]), Profile::Identify, &[], now, &keys, &mut Nonces::default());
        let outcome = match &outcome {
            Ok(Some(_)) => "verified",
            Ok(None) => "nothing",
            Err(refused) if refused.outcome() == super::super::Outcome::Unverified => "unverified",
            Err(_) => "invalid",
        };
        assert_eq!(outcome, case["expect"]["outcome"].as_str().unwrap(), "{id}");
    }
}

#[test]
fn inbound_requests_of_webagents_are_judged_as_it_judges_them() {
    let Some(vectors) = shared("webagents/verify-cases.json") else { return };
    let own_authority = [vectors["authority"].as_str().unwrap().to_owned()];
    for case in vectors["cases"].as_array().unwrap() {
        let request = &case["request"];
        let lines = request["headers"].as_object().unwrap().iter();
        let sent = Sent {
            method: request["method"].as_str().unwrap().to_owned(),
            target: request["target"].as_str().unwrap().to_owned(),
            fields: lines
                .map(|(name, value)| {
                    (name.parse::<http::HeaderName>().unwrap(), value.as_str().unwrap().parse().unwrap())
                })
                .collect(),
            body: base64::Engine::decode(&base64::prelude::BASE64_STANDARD, request["body"].as_str().unwrap()).unwrap(),
        };
        let listed = match case.get("keys") {
            Some(keys) => keys.clone(),
            None => Value::Array(vec![vectors["signerKey"].clone()]),
        };
        let identifier = std::cell::RefCell::new(String::new());
        let keys = |discovery: &Discovery| {
            identifier.replace(discovery.url.clone());
            let document = serde_json::json!({ "keys": listed }).to_string();
            Ok(KeySet::parse(document.as_bytes(), discovery.directory)?)
        };
        let (now, mut nonces) = (case["now"].as_i64().unwrap(), Nonces::default());
        let mut last = None;
        for _ in 0..case["repeat"].as_i64().unwrap_or(1) {
            last = Some(judge(&sent, Profile::Authenticate, &own_authority, now, &keys, &mut nonces));
        }
        let expected = match case["expect"]["code"].as_str() {
            Some(code) => format!("refused: {code}"),
            None => format!("verified {}", case["expect"]["principal"].as_str().unwrap()),
        };
        assert_eq!(told(last.as_ref().unwrap()), expected, "{}", case["name"]);
        if let Some(expected) = case["expect"]["identifier"].as_str() {
            assert_eq!(*identifier.borrow(), expected);
        }
    }
}

#[test]
fn the_vectors_of_the_draft_verify() {
    let Some(vectors) = shared("ietf/draft-ietf-webbotauth-01-ed25519.json") else { return };
    for case in vectors.as_array().unwrap().iter().filter(|case| case.get("response").is_none()) {
        let key = KeySet::of(PublicKey::from_x(case["key"]["x"].as_str().unwrap()));
        let sent = Sent::read(&case["request"]);
        let now = case["now"].as_i64().unwrap();
        let claim = Claim::read(&sent.request(), Profile::Identify, &[], now).unwrap().unwrap();
        assert_eq!(claim.labels[0].bases, [case["signature_base"].as_str().unwrap()], "{}", case["id"]);
        assert_eq!(claim.discovery().principal, "https://signature-agent.test");
        claim.verify(&key).unwrap();
        // A century, and no method: not enough to let somebody in.
        let refused = Claim::read(&sent.request(), Profile::Authenticate, &[], now).unwrap_err();
        assert!(matches!(refused.code(), Code::Params | Code::Coverage), "{refused:?}");
    }
}

#[test]
fn the_vectors_of_earlier_drafts_verify_where_they_name_somebody() {
    for name in ["cloudflare/web_bot_auth_architecture_v1.json", "cloudflare/web_bot_auth_architecture_v2.json"] {
        let Some(vectors) = shared(name) else { continue };
        for case in vectors.as_array().unwrap() {
            let mut lines = vec![("host", "example.com"), ("signature", case["signature"].as_str().unwrap())];
            lines.push(("signature-input", case["signature_input"].as_str().unwrap()));
            lines.extend(case["signature_agent"].as_str().map(|agent| ("signature-agent", agent)));
            let fields =
                lines.into_iter().map(|(name, value)| (http::HeaderName::from_static(name), value.parse().unwrap()));
            let sent = Sent {
                method: "GET".to_owned(),
                target: "/path/to/resource".to_owned(),
                fields: fields.collect(),
                body: Vec::new(),
            };
            let outcome = Claim::read(&sent.request(), Profile::Identify, &[], 1_735_689_660);
            match (case["key"]["kty"].as_str().unwrap(), case.get("signature_agent")) {
                ("OKP", Some(_)) => {
                    let key = KeySet::of(PublicKey::from_x(case["key"]["x"].as_str().unwrap()));
                    outcome.unwrap().unwrap().verify(&key).unwrap();
                }
                // RSA.
                ("RSA", _) => assert_eq!(outcome.unwrap_err().code(), Code::Params),
                _ => assert_eq!(outcome.unwrap_err().code(), Code::Agent),
            }
        }
    }
}

#[test]
fn b_2_6_has_this_base_and_is_no_signature_of_an_agent() {
    let Some(vectors) = shared("ietf/rfc9421-b26.json") else { return };
    let case = &vectors[0];
    let sent = Sent::read(&case["request"]);
    assert!(Claim::read(&sent.request(), Profile::Identify, &[], 1_618_884_473).unwrap().is_none());
    let refused = Claim::read(&sent.request(), Profile::Authenticate, &[], 1_618_884_473).unwrap_err();
    assert_eq!(refused.code(), Code::Malformed);
    let (_, input, signature) = labels(&sent.fields).unwrap().remove(0);
    let targets = Target::spellings(&sent.target);
    let message = Message {
        method: "POST",
        scheme: Scheme::Https,
        authority: "example.com",
        target: &targets[0],
        fields: &sent.fields,
        rare: true,
    };
    let base = signature_base(&input, &message).unwrap();
    assert_eq!(base, case["signature_base"].as_str().unwrap());
    let key = PublicKey::from_x(case["key"]["x"].as_str().unwrap()).unwrap();
    assert!(key.verifies(base.as_bytes(), &signature));
}

mod faults;
