//! What is signed, byte for byte.

use std::path::Path;

use serde_json::Value;

use super::*;

/// Vectors that are not part of this package; `None` where they are not found.
fn vectors(name: &str) -> Option<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/cases/signature/webagents").join(name);
    let Ok(text) = std::fs::read(&path) else {
        eprintln!("skipped: no {name}");
        return None;
    };
    Some(serde_json::from_slice(&text).unwrap())
}

fn form(name: &str) -> Form {
    match name {
        "dictionary-typed" => Form::Typed,
        "dictionary-untyped" => Form::Untyped,
        "legacy-string" => Form::Legacy,
        other => panic!("{other}"),
    }
}

/// Signs what a vector's file says, and holds it against the fields that the vector has.
fn hold(file: &Value, form: Form, request: (&str, &str, &str), covered: &[(&str, &str)], expected: &Value) {
    let key = SigningKey::parse(&file["key"]["privateJwk"].to_string()).unwrap();
    let signer = Signer::new(file["agentUrl"].as_str().unwrap().parse().unwrap(), &[key]).unwrap();
    let url = Url::parse(request.1).unwrap();
    let target = match url.query() {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_owned(),
    };
    let outgoing = Outgoing {
        method: request.0,
        authority: url.authority(),
        target: &target,
        body: request.2.as_bytes(),
        covered,
    };
    let now = file["params"]["created"].as_i64().unwrap();
    let added = signer.sign(&outgoing, form, now, &mut |bytes| (0..).zip(bytes).for_each(|(n, byte)| *byte = n));
    let mut signed = 0;
    for (name, value) in added.unwrap() {
        assert_eq!(Some(value.as_str()), expected[name].as_str(), "{name} of {request:?}");
        signed += 1;
    }
    let unsigned = covered.iter().filter(|(name, _)| expected.get(name).is_some()).count();
    assert_eq!(signed + unsigned, expected.as_object().unwrap().len());
}

#[test]
fn all_forms_are_signed_as_others_sign_them() {
    let Some(file) = vectors("vectors.json") else { return };
    let request = &file["request"];
    let request = (request["method"].as_str().unwrap(), request["url"].as_str().unwrap(), "{}");
    for vector in file["vectors"].as_array().unwrap() {
        hold(&file, form(vector["form"].as_str().unwrap()), request, &[], &vector["headers"]);
    }
}

#[test]
fn further_fields_are_signed_too() {
    let Some(file) = vectors("vectors-covered-headers.json") else { return };
    let request = &file["request"];
    let covered: Vec<(&str, &str)> = file["coveredHeaders"]
        .as_array()
        .unwrap()
        .iter()
        .map(|name| {
            let name = name.as_str().unwrap();
            (name, request["headers"][name].as_str().unwrap())
        })
        .collect();
    let request = (request["method"].as_str().unwrap(), request["url"].as_str().unwrap(), "{}");
    for vector in file["vectors"].as_array().unwrap() {
        let mut expected = vector["headers"].clone();
        for (name, _) in &covered {
            expected.as_object_mut().unwrap().remove(*name);
        }
        hold(&file, form(vector["form"].as_str().unwrap()), request, &covered, &expected);
    }
}

#[test]
fn the_target_is_signed_as_it_is_sent() {
    let Some(file) = vectors("vectors-request-target.json") else { return };
    for case in file["cases"].as_array().unwrap() {
        let request = &case["request"];
        let request =
            (request["method"].as_str().unwrap(), request["url"].as_str().unwrap(), request["body"].as_str().unwrap());
        hold(&file, Form::Typed, request, &[], &case["headers"]);
    }
}

#[test]
fn an_agents_address_is_public_and_spelled_in_one_way() {
    for (text, canonical) in [
        ("https://Agent.Example:443/agents/mini/", "https://agent.example/agents/mini"),
        ("https://agent.example", "https://agent.example"),
        ("https://agent.example:8443//", "https://agent.example:8443"),
        ("https://[2001:DB8::1]/a", "https://[2001:db8::1]/a"),
    ] {
        let agent: AgentUrl = text.parse().unwrap();
        assert_eq!(agent.to_string(), canonical);
        assert_eq!(agent.key_set(), format!("{canonical}/.well-known/jwks.json"));
    }
    for (text, why) in [
        ("agent.example", InvalidAgentUrl::Syntax),
        ("ftp://agent.example", InvalidAgentUrl::Syntax),
        ("https://user@agent.example", InvalidAgentUrl::Syntax),
        ("https://agent.example/?a", InvalidAgentUrl::Syntax),
        ("https://agent.example/#a", InvalidAgentUrl::Syntax),
        ("https://localhost:8443", InvalidAgentUrl::Loopback),
        ("https://a.localhost", InvalidAgentUrl::Loopback),
        ("http://127.0.0.1:8080", InvalidAgentUrl::Loopback),
        ("https://[::1]", InvalidAgentUrl::Loopback),
        ("https://[::ffff:127.0.0.1]", InvalidAgentUrl::Loopback),
        ("http://agent.example", InvalidAgentUrl::NotHttps),
    ] {
        assert_eq!(text.parse::<AgentUrl>(), Err(why), "{text}");
    }
}

#[test]
fn nothing_signs_without_a_key() {
    assert!(Signer::new("https://agent.example".parse().unwrap(), &[]).is_none());
}
