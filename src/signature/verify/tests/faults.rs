//! Everything that can be wrong with a signature, one fault at a time.

use proptest::prelude::*;

use super::*;
use crate::signature::sign::sign_components;
use crate::signature::{AgentUrl, Form, InvalidKeySet as Why, Outgoing, Signer, SigningKey};

const NOW: i64 = 1_790_000_000;
const AGENT: &str = "sig1=\"https://caller.example/.well-known/jwks.json\"";
const MEMBER: &str = "\"https://caller.example/.well-known/jwks.json\"";

fn key() -> SigningKey {
    SigningKey::from_seed([3; 32]).unwrap()
}

/// A request that is signed as told, whether that is right or not.
struct Forge {
    method: &'static str,
    host: &'static str,
    target: &'static str,
    /// Identifier and value of every component.
    components: Vec<(String, String)>,
    parameters: Vec<(&'static str, String)>,
    /// Further fields, `Signature-Agent` among them.
    fields: Vec<(&'static str, String)>,
    body: &'static [u8],
    /// What becomes of the two fields of the signature.
    input: fn(String) -> String,
    signature: fn(String) -> String,
}

impl Forge {
    fn good() -> Self {
        let quoted = |name: &str| format!("\"{name}\"");
        Self {
            method: "GET",
            host: "gw.example",
            target: "/cap/x?a=1",
            components: vec![
                (quoted("@method"), "GET".into()),
                (quoted("@authority"), "gw.example".into()),
                (quoted("@path"), "/cap/x".into()),
                (quoted("@query"), "?a=1".into()),
                ("\"signature-agent\";key=\"sig1\"".into(), MEMBER.into()),
            ],
            parameters: vec![
                ("created", NOW.to_string()),
                ("expires", (NOW + 60).to_string()),
                ("keyid", format!("\"{}\"", key().thumbprint())),
                ("alg", quoted("ed25519")),
                ("nonce", quoted("n")),
                ("tag", quoted("web-bot-auth")),
            ],
            fields: vec![("signature-agent", AGENT.into())],
            body: b"",
            input: |text| text,
            signature: |text| text,
        }
    }

    fn parameter(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.parameters.retain(|(known, _)| *known != name);
        self.parameters.push((name, value.into()));
        self
    }

    fn without(mut self, name: &str) -> Self {
        self.parameters.retain(|(known, _)| *known != name);
        self
    }

    fn component(mut self, identifier: &str, value: &str) -> Self {
        self.components.push((identifier.into(), value.into()));
        self
    }

    fn uncovered(mut self, name: &str) -> Self {
        self.components.retain(|(identifier, _)| !identifier.starts_with(&format!("\"{name}\"")));
        self
    }

    fn field(mut self, name: &'static str, value: &str) -> Self {
        self.fields.push((name, value.into()));
        self
    }

    /// With this `Signature-Agent`, of which the signature covers the component of this identifier and value.
    fn agent(mut self, field: &str, identifier: &str, value: &str) -> Self {
        self.fields.retain(|(name, _)| *name != "signature-agent");
        self.field("signature-agent", field).uncovered("signature-agent").component(identifier, value)
    }

    /// With this value of its member, parameters included.
    fn member(self, value: &str) -> Self {
        self.agent(&format!("sig1={value}"), "\"signature-agent\";key=\"sig1\"", value)
    }

    fn posting(mut self, body: &'static [u8]) -> Self {
        let digest = ContentDigest::field_of(body);
        (self.method, self.body) = ("POST", body);
        self.components[0].1 = "POST".into();
        self.field("content-digest", &digest).component("\"content-digest\"", &digest)
    }

    fn sent(&self) -> Sent {
        let components: Vec<(String, &str)> =
            self.components.iter().map(|(identifier, value)| (identifier.clone(), value.as_str())).collect();
        let parameters: Vec<String> = self.parameters.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let (input, bytes) = sign_components(&key(), &components, &parameters.join(";")).unwrap();
        let bytes = base64::Engine::encode(&base64::prelude::BASE64_STANDARD, bytes);
        let mut lines = vec![
            ("host", self.host.to_owned()),
            ("signature-input", (self.input)(format!("sig1={input}"))),
            ("signature", (self.signature)(format!("sig1=:{bytes}:"))),
        ];
        lines.extend(self.fields.clone());
        Sent {
            method: self.method.to_owned(),
            target: self.target.to_owned(),
            fields: lines
                .into_iter()
                .map(|(name, value)| (http::HeaderName::from_static(name), value.parse().unwrap()))
                .collect(),
            body: self.body.to_vec(),
        }
    }

    fn judged(&self, profile: Profile) -> String {
        self.judged_at(profile, NOW)
    }

    fn judged_at(&self, profile: Profile, now: i64) -> String {
        let keys = |_: &Discovery| Ok(KeySet::of([key().public().clone()]));
        told(&judge(&self.sent(), profile, &["gw.example".to_owned()], now, &keys, &mut Nonces::default()))
    }
}

const GOOD: &str = "verified https://caller.example";
const MALFORMED: &str = "refused: signature_malformed";
const PARAMS: &str = "refused: signature_params_invalid";
const EXPIRED: &str = "refused: signature_expired";
const COVERAGE: &str = "refused: signature_coverage_insufficient";
const AGENT_INVALID: &str = "refused: signature_agent_invalid";
const INVALID: &str = "refused: signature_invalid";
const AUTHORITY: &str = "refused: signature_authority_mismatch";
const DIGEST: &str = "refused: content_digest_mismatch";

/// Holds what both profiles make of a request.
fn hold(name: &str, forge: &Forge, authenticate: &str, identify: &str) {
    assert_eq!(forge.judged(Profile::Authenticate), authenticate, "{name}, authenticate");
    assert_eq!(forge.judged(Profile::Identify), identify, "{name}, identify");
}

#[test]
fn parameters_are_what_they_must_be() {
    let good = Forge::good;
    hold("as it should be", &good(), GOOD, GOOD);
    hold("posting", &good().posting(b"{}"), GOOD, GOOD);
    for name in ["created", "expires", "keyid"] {
        hold(name, &good().without(name), PARAMS, PARAMS);
        hold(name, &good().parameter(name, "?1"), PARAMS, PARAMS);
        hold(name, &good().parameter(name, "token"), PARAMS, PARAMS);
        hold(name, &good().parameter(name, "\"\""), PARAMS, PARAMS);
        hold(name, &good().parameter(name, ":AAAA:"), PARAMS, PARAMS);
    }
    hold("no alg", &good().without("alg"), GOOD, GOOD);
    hold("no nonce", &good().without("nonce"), PARAMS, GOOD);
    hold("no tag", &good().without("tag"), MALFORMED, "nothing");
    hold("another tag", &good().parameter("tag", "\"other\""), MALFORMED, "nothing");
    hold("a token as tag", &good().parameter("tag", "web-bot-auth"), MALFORMED, MALFORMED);
    for alg in ["\"rsa-pss-sha512\"", "ed25519", "\"Ed25519\"", "\"hmac-sha256\"", "\"\"", "1"] {
        hold(alg, &good().parameter("alg", alg), PARAMS, PARAMS);
    }
    for nonce in ["\"\"", "1", "token", ":AAAA:", &format!("\"{}\"", "n".repeat(257))] {
        hold(nonce, &good().parameter("nonce", nonce), PARAMS, PARAMS);
    }
    hold("a long nonce", &good().parameter("nonce", format!("\"{}\"", "n".repeat(256))), GOOD, GOOD);
    hold("a decimal", &good().parameter("created", format!("{NOW}.0")), MALFORMED, MALFORMED);
    hold("a date", &good().parameter("created", format!("@{NOW}")), MALFORMED, MALFORMED);
    hold("16 digits", &good().parameter("expires", "1234567890123456"), MALFORMED, MALFORMED);
    let mut twice = good();
    twice.parameters.push(("nonce", "\"other\"".into()));
    hold("a parameter twice", &twice, MALFORMED, MALFORMED);
    hold("an unknown one", &good().parameter("ext", "\"v\""), GOOD, GOOD);
    hold("padding in the keyid", &good().parameter("keyid", format!("\"{}=\"", key().thumbprint())), PARAMS, PARAMS);
}

#[test]
fn a_signature_is_valid_for_a_while() {
    let of = |created: i64, expires: i64| {
        Forge::good().parameter("created", created.to_string()).parameter("expires", expires.to_string())
    };
    hold("created in a minute", &of(NOW + 60, NOW + 120), GOOD, GOOD);
    hold("created later than that", &of(NOW + 61, NOW + 120), EXPIRED, EXPIRED);
    hold("expired a minute ago", &of(NOW - 120, NOW - 60), GOOD, GOOD);
    hold("expired before that", &of(NOW - 120, NOW - 61), EXPIRED, EXPIRED);
    hold("no time at all", &of(NOW, NOW), PARAMS, PARAMS);
    hold("backwards", &of(NOW, NOW - 1), PARAMS, PARAMS);
    hold("an hour", &of(NOW, NOW + 3600), GOOD, GOOD);
    hold("more than an hour", &of(NOW, NOW + 3601), PARAMS, GOOD);
    hold("before there was time", &of(-999_999_999_999_999, 999_999_999_999_999), PARAMS, GOOD);
    hold("the end of time", &of(999_999_999_999_998, 999_999_999_999_999), EXPIRED, EXPIRED);
    assert_eq!(Forge::good().judged_at(Profile::Identify, i64::MIN + 100), EXPIRED);
}

#[test]
fn enough_is_signed_and_nothing_twice() {
    let good = Forge::good;
    for name in ["@method", "@path", "@query"] {
        hold(name, &good().uncovered(name), COVERAGE, GOOD);
    }
    hold("no host", &good().uncovered("@authority"), COVERAGE, COVERAGE);
    let by_uri = good().uncovered("@authority").component("\"@target-uri\"", "https://gw.example/cap/x?a=1");
    hold("the URI in place of the host", &by_uri, COVERAGE, GOOD);
    let mut nothing = good();
    nothing.components.clear();
    hold("nothing", &nothing, COVERAGE, COVERAGE);
    hold("nobody", &good().uncovered("signature-agent"), COVERAGE, COVERAGE);
    hold("the method twice", &good().component("\"@method\"", "GET"), MALFORMED, MALFORMED);
    hold("nobody twice", &good().component("\"signature-agent\";key=\"sig1\"", MEMBER), COVERAGE, COVERAGE);
    hold("both forms", &good().component("\"signature-agent\"", AGENT), COVERAGE, COVERAGE);
    for (identifier, value) in [
        ("\"@status\"", "200"),
        ("\"@signature-params\"", ""),
        ("\"@unknown\"", ""),
        ("\"@method\";req", "GET"),
        ("\"@method\";key=\"a\"", "GET"),
        ("\"host\";sf", "gw.example"),
        ("\"host\";bs", ":Z3cuZXhhbXBsZQ==:"),
        ("\"host\";tr", "gw.example"),
        ("\"host\";req", "gw.example"),
        ("\"host\";key=\"a\"", "gw.example"),
        ("\"Host\"", "gw.example"),
        ("\"absent\"", ""),
        ("\"\"", ""),
        ("host", "gw.example"),
        ("1", "1"),
    ] {
        hold(identifier, &good().component(identifier, value), MALFORMED, MALFORMED);
    }
    for (identifier, value) in [("\"@request-target\"", "/cap/x?a=1"), ("\"@query-param\";name=\"a\"", "1")] {
        hold(identifier, &good().component(identifier, value), MALFORMED, GOOD);
    }
    for name in ["b", "A"] {
        let forge = good().component(&format!("\"@query-param\";name=\"{name}\""), "1");
        hold(name, &forge, MALFORMED, MALFORMED);
    }
    hold("the scheme", &good().component("\"@scheme\"", "https"), GOOD, GOOD);
    hold("another scheme", &good().component("\"@scheme\"", "http"), INVALID, INVALID);
}

#[test]
fn fields_are_signed_as_they_came() {
    let good = Forge::good;
    let two = good().field("x-list", " a").field("x-list", "b  ").component("\"x-list\"", "a, b");
    hold("two lines", &two, GOOD, GOOD);
    hold("an empty field", &good().field("x", "").component("\"x\"", ""), GOOD, GOOD);
    let inner = good().field("x", "a=(1  2);p, b").component("\"x\";key=\"a\"", "(1 2);p");
    hold("a member that is a list", &inner, GOOD, GOOD);
    hold("a bare member", &good().field("x", "a=1, b").component("\"x\";key=\"b\"", "?1"), GOOD, GOOD);
    hold("changed", &good().field("x", "2").component("\"x\"", "1"), INVALID, INVALID);
    let twice = good().field("x", "a=1, a=2").component("\"x\";key=\"a\"", "2");
    hold("a member twice", &twice, MALFORMED, MALFORMED);
    let mut latin = good().component("\"x\"", "\u{e9}").sent();
    latin.fields.insert("x", http::HeaderValue::from_bytes(b"\xe9").unwrap());
    let refused = Claim::read(&latin.request(), Profile::Identify, &[], NOW).unwrap_err();
    assert_eq!(refused.code(), Code::Malformed);
}

#[test]
fn the_host_and_the_target_have_one_spelling() {
    let at = |host| Forge { host, ..Forge::good() };
    for host in ["gw.example", "GW.Example", "gw.example:443", "gw.example:80"] {
        hold(host, &at(host), GOOD, GOOD);
    }
    for host in ["other.example", "gw.example:8443", "gw.example.", "gw.example:", "user@gw.example", "gw example", ""]
    {
        hold(host, &at(host), AUTHORITY, AUTHORITY);
    }
    for (target, path, query) in [
        ("/", "/", "?"),
        ("/?", "/", "?"),
        ("/a?b?c", "/a", "?b?c"),
        ("/a/../b/./c", "/b/c", "?"),
        ("/a/../b", "/a/../b", "?"),
        ("/%7euser/%2e", "/%7euser/", "?"),
        ("/q?x='", "/q", "?x='"),
        ("/q?x='", "/q", "?x=%27"),
        ("/a|b", "/a|b", "?"),
        ("/p?a=1&a=2&b", "/p", "?a=1&a=2&b"),
    ] {
        let mut forge = Forge { target, ..Forge::good() };
        forge.components[2].1 = path.into();
        forge.components[3].1 = query.into();
        hold(target, &forge, GOOD, GOOD);
    }
    for (target, path, query) in [("/", "", "?"), ("/a", "/a/", "?"), ("/a?b=1", "/a", "?b=2"), ("/a?b", "/a", "b")] {
        let mut forge = Forge { target, ..Forge::good() };
        forge.components[2].1 = path.into();
        forge.components[3].1 = query.into();
        hold(target, &forge, INVALID, INVALID);
    }
    hold("another method", &Forge { method: "DELETE", ..Forge::good() }, INVALID, INVALID);
}

#[test]
fn a_body_is_the_one_that_was_signed() {
    let good = || Forge::good().posting(b"{}");
    hold("another body", &Forge { body: b"{ }", ..good() }, DIGEST, DIGEST);
    hold("no body", &Forge { body: b"", ..good() }, DIGEST, DIGEST);
    hold("not signed", &good().uncovered("content-digest"), COVERAGE, GOOD);
    let digest = |field: &str| {
        let mut forge = Forge::good().posting(b"{}").uncovered("content-digest");
        forge.fields.retain(|(name, _)| *name != "content-digest");
        forge.field("content-digest", field).component("\"content-digest\"", field)
    };
    let right = ContentDigest::field_of(b"{}");
    hold("md5 alone", &digest("md5=:AAAA:"), DIGEST, DIGEST);
    hold("md5 beside", &digest(&format!("md5=:AAAA:, {right}")), GOOD, GOOD);
    hold("one of two wrong", &digest(&format!("{right}, sha-512=:AAAA:")), DIGEST, DIGEST);
    hold("unreadable", &digest("sha-256=abc"), DIGEST, DIGEST);
    hold("empty", &digest(""), DIGEST, DIGEST);
}

#[test]
fn the_two_fields_belong_together() {
    let input = |input: fn(String) -> String| Forge { input, ..Forge::good() };
    let signature = |signature: fn(String) -> String| Forge { signature, ..Forge::good() };
    for (name, forge) in [
        ("unclosed", input(|text| text.replace(')', ""))),
        ("no dictionary", input(|_| "not a dictionary (".into())),
        ("empty", input(|_| String::new())),
        ("no list", input(|_| "sig1=1".into())),
        ("a label twice", input(|text| format!("{text}, {text}"))),
        ("one too many", input(|text| format!("{text}, {}", text.replacen("sig1", "sig2", 1)))),
        ("a comma at the end", input(|text| text + ",")),
        ("a tab in a list", input(|text| text.replace("\" \"", "\"\t\""))),
        ("huge", input(|text| format!("{text};x=\"{}\"", "x".repeat(8192)))),
        ("another label", signature(|text| text.replacen("sig1", "sig9", 1))),
        ("one without input", signature(|text| text + ", other=:AAAA:")),
        ("a label twice", signature(|text| format!("{text}, {text}"))),
        ("a string", signature(|_| "sig1=\"AAAA\"".into())),
        ("a list", signature(|text| text.replacen("=:", "=(:", 1) + ")")),
        ("63 bytes", signature(|_| format!("sig1=:{}:", "AAAA".repeat(21)))),
        ("no padding", signature(|text| text.replace("==:", ":"))),
        ("empty", signature(|_| "sig1=::".into())),
        ("urlsafe", signature(|_| format!("sig1=:{}_w==:", "AAAA".repeat(21)))),
    ] {
        hold(name, &forge, MALFORMED, MALFORMED);
    }
    // Not what was signed, but in canonical form it is.
    hold("white space", &input(|text| text.replacen("=(", "=(  ", 1).replace(';', "; ")), GOOD, GOOD);
    hold(
        "another order",
        &input(|text| text.replace("\"@method\" \"@authority\"", "\"@authority\" \"@method\"")),
        INVALID,
        INVALID,
    );
    hold("wrong", &signature(|_| format!("sig1=:{}AA==:", "AAAA".repeat(21))), INVALID, INVALID);
    for name in ["signature", "signature-input"] {
        let mut sent = Forge::good().sent();
        sent.fields.remove(name);
        let refused = Claim::read(&sent.request(), Profile::Identify, &[], NOW).unwrap_err();
        assert_eq!(refused.code(), Code::Malformed, "{name}");
    }
    let mut sent = Forge::good().sent();
    sent.fields.append("signature", "sig2=:AAAA:".parse().unwrap());
    assert_eq!(Claim::read(&sent.request(), Profile::Identify, &[], NOW).unwrap_err().code(), Code::Malformed);
    sent.fields.remove("signature");
    sent.fields.remove("signature-input");
    assert!(Claim::read(&sent.request(), Profile::Authenticate, &[], NOW).unwrap().is_none());
}

#[test]
fn who_signs_is_named_in_one_way() {
    let good = Forge::good;
    let untyped = |url: &str| good().member(&format!("\"{url}\""));
    hold("the origin", &untyped("https://caller.example"), GOOD, GOOD);
    hold("the origin and a slash", &untyped("https://caller.example/"), GOOD, GOOD);
    let below = "verified https://caller.example/agents/a";
    hold("below", &untyped("https://caller.example/agents/a/.well-known/jwks.json"), below, below);
    hold(
        "a port",
        &untyped("https://caller.example:8443"),
        "verified https://caller.example:8443",
        "verified https://caller.example:8443",
    );
    hold(
        "the directory",
        &untyped("https://caller.example/.well-known/http-message-signatures-directory"),
        AGENT_INVALID,
        GOOD,
    );
    hold("any path", &untyped("https://caller.example/keys"), AGENT_INVALID, "verified https://caller.example/keys");
    hold("a query", &untyped("https://caller.example/keys?v=1"), AGENT_INVALID, "verified https://caller.example/keys");
    hold("dots", &untyped("https://caller.example/a/../.well-known/jwks.json"), AGENT_INVALID, GOOD);
    hold("capitals", &untyped("https://Caller.Example/.well-known/jwks.json"), GOOD, GOOD);
    for url in [
        "http://caller.example/.well-known/jwks.json",
        "data:application/json,{}",
        "https://user@caller.example/.well-known/jwks.json",
        "https://@caller.example/.well-known/jwks.json",
        "https://caller.example/.well-known/jwks.json#a",
        "https:///.well-known/jwks.json",
        "//caller.example/.well-known/jwks.json",
        "/.well-known/jwks.json",
        "caller.example",
        "https://",
        "https://caller example/",
        "https://caller.example:99999/",
        "",
        &format!("https://caller.example/{}", "x".repeat(2048)),
    ] {
        hold(url, &untyped(url), AGENT_INVALID, AGENT_INVALID);
    }
    let jwks = "\"https://caller.example/.well-known/jwks.json\"";
    hold("typed", &good().member(&format!("{jwks};type=jwks_uri")), GOOD, AGENT_INVALID);
    hold("a typed directory", &good().member("\"https://caller.example\";type=directory"), GOOD, AGENT_INVALID);
    for parameters in
        ["type=directory", "type=cimd", "type=other", "type=\"jwks_uri\"", "type", "x=1", "type=jwks_uri;x"]
    {
        hold(parameters, &good().member(&format!("{jwks};{parameters}")), AGENT_INVALID, AGENT_INVALID);
    }
    for value in ["token", "1", "?1", ":AAAA:", "(\"https://caller.example\")"] {
        hold(value, &good().member(value), AGENT_INVALID, AGENT_INVALID);
    }
    let keyed = "\"signature-agent\";key=\"other\"";
    let other = "other=\"https://caller.example\"";
    hold("another key than the label", &good().agent(other, keyed, "\"https://caller.example\""), GOOD, GOOD);
    hold("no such member", &good().agent(AGENT, keyed, MEMBER), AGENT_INVALID, AGENT_INVALID);
    hold("the whole dictionary", &good().agent(AGENT, "\"signature-agent\"", AGENT), COVERAGE, COVERAGE);
    let lone = "\"https://caller.example\"";
    hold("a lone string", &good().agent(lone, "\"signature-agent\"", lone), GOOD, GOOD);
    hold("a lone string by key", &good().agent(lone, "\"signature-agent\";key=\"sig1\"", lone), COVERAGE, COVERAGE);
    let path = "\"https://caller.example/a\"";
    hold("a lone string with a path", &good().agent(path, "\"signature-agent\"", path), AGENT_INVALID, AGENT_INVALID);
    for field in ["\"https://caller.example", "a=1, a=2", "", "\"https://caller.example\";x", "\"a\", \"b\""] {
        hold(field, &good().agent(field, "\"signature-agent\"", field), MALFORMED, MALFORMED);
    }
    let mut nobody = good();
    nobody.fields.clear();
    hold("no Signature-Agent", &nobody, AGENT_INVALID, AGENT_INVALID);
    let refused = Claim::read(&nobody.sent().request(), Profile::Identify, &[], NOW).unwrap_err();
    assert_eq!(refused.outcome(), crate::signature::Outcome::Unverified);
}

#[test]
fn two_keys_sign_beside_each_other_and_both_must_hold() {
    let keys = [key(), SigningKey::from_seed([4; 32]).unwrap()];
    let agent: AgentUrl = "https://caller.example/agents/a".parse().unwrap();
    for form in [Form::Untyped, Form::Typed, Form::Legacy] {
        let signer = Signer::new(agent.clone(), &keys).unwrap();
        let outgoing = Outgoing { method: "POST", authority: "gw.example", target: "/talk", body: b"{}", covered: &[] };
        let mut random = 0;
        let added = signer
            .sign(&outgoing, form, NOW, &mut |bytes| {
                random += 1;
                bytes.fill(random);
            })
            .unwrap();
        let mut lines = vec![("host", "gw.example".to_owned())];
        lines.extend(added);
        let sent = Sent {
            method: "POST".to_owned(),
            target: "/talk".to_owned(),
            fields: lines
                .into_iter()
                .map(|(name, value)| (http::HeaderName::from_static(name), value.parse().unwrap()))
                .collect(),
            body: b"{}".to_vec(),
        };
        let with = |keys: &[SigningKey]| {
            let keys: Vec<_> = keys.iter().map(|key| key.public().clone()).collect();
            let keys = move |_: &Discovery| Ok(KeySet::of(keys.clone()));
            told(&judge(&sent, Profile::Authenticate, &["gw.example".to_owned()], NOW, &keys, &mut Nonces::default()))
        };
        let principal = if form == Form::Legacy { "https://caller.example" } else { "https://caller.example/agents/a" };
        assert_eq!(with(&keys), format!("verified {principal}"));
        assert_eq!(with(&keys[..1]), "refused: signature_key_unknown");
        let claim = Claim::read(&sent.request(), Profile::Authenticate, &[], NOW).unwrap().unwrap();
        assert!(!claim.finds_its_keys_in(&KeySet::default()));
    }
    let input = |text: String| {
        let second = text.replacen("sig1", "sig2", 1);
        format!("{text}, {second}, {}", text.replacen("sig1", "sig3", 1))
    };
    let signature = |text: String| {
        let second = text.replacen("sig1", "sig2", 1);
        format!("{text}, {second}, {}", text.replacen("sig1", "sig3", 1))
    };
    hold("three", &Forge { input, signature, ..Forge::good() }, MALFORMED, MALFORMED);
}

#[test]
fn every_wrong_set_of_keys_is_told_from_the_others() {
    let jwk = key().public().to_jwk();
    let with = |name: &str, value: Value| {
        let mut jwk = jwk.clone();
        jwk[name] = value;
        serde_json::json!({ "keys": [jwk] }).to_string()
    };
    let read = |document: &str| KeySet::parse(document.as_bytes(), false);
    assert!(read(&serde_json::json!({ "keys": [jwk, jwk] }).to_string()).is_ok());
    for usable in [with("alg", "EdDSA".into()), with("key_ops", serde_json::json!(["verify"])), with("kid", 1.into())] {
        assert!(read(&usable).is_ok(), "{usable}");
    }
    assert_eq!(KeySet::parse(with("kid", "other".into()).as_bytes(), true), Err(Why::Kid));
    for (document, why) in [
        (with("use", "enc".into()), Why::Empty),
        (with("alg", "RS256".into()), Why::Empty),
        (with("key_ops", serde_json::json!(["sign"])), Why::Empty),
        (with("crv", "X25519".into()), Why::Empty),
        (with("kty", "RSA".into()), Why::Empty),
        (with("x", "AAAA".into()), Why::Empty),
        (with("x", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA".into()), Why::Empty),
        ("{\"keys\":[]}".to_owned(), Why::Empty),
        ("{\"keys\":[1,null,{}]}".to_owned(), Why::Empty),
        ("{\"keys\":{}}".to_owned(), Why::NoKeys),
        ("[]".to_owned(), Why::NoKeys),
        ("{".to_owned(), Why::NotJson),
        (String::new(), Why::NotJson),
        (serde_json::json!({ "keys": vec![jwk.clone(); 17] }).to_string(), Why::TooMany),
        (" ".repeat(64 * 1024 + 1), Why::TooLarge),
    ] {
        assert_eq!(read(&document), Err(why), "{document}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Whatever bytes the fields have, they are judged, and never believed.
    #[test]
    fn no_bytes_end_in_a_panic_or_in_belief(
        input in "[ -~]{0,200}",
        signature in "[ -~]{0,120}",
        agent in prop::collection::vec(prop::num::u8::ANY, 0..120),
        target in "/[ -~]{0,40}",
        host in "[ -~]{0,40}",
        now in prop::num::i64::ANY,
    ) {
        let mut fields = HeaderMap::new();
        let value = |bytes: &[u8]| http::HeaderValue::from_bytes(bytes).unwrap_or(http::HeaderValue::from_static(""));
        fields.insert("signature-input", value(input.as_bytes()));
        fields.insert("signature", value(signature.as_bytes()));
        fields.insert("signature-agent", value(&agent));
        let sent = Sent { method: "GET".into(), target, fields, body: Vec::new() };
        let request = Request { authority: &host, ..Request { authority: "", ..sent_request(&sent) } };
        for profile in [Profile::Authenticate, Profile::Identify] {
            prop_assert!(!matches!(Claim::read(&request, profile, &[], now / 2), Ok(Some(_))));
        }
    }

    /// Any one byte of a signed request that is changed makes it another request.
    #[test]
    fn a_changed_byte_is_never_believed(at in 0..2000usize, to in 0x20..0x7fu8, which in 0..3usize) {
        let mut sent = Forge::good().sent();
        let name = ["signature-input", "signature", "signature-agent"][which];
        let mut bytes = sent.fields[name].as_bytes().to_vec();
        let at = at % bytes.len();
        prop_assume!(bytes[at] != to);
        bytes[at] = to;
        sent.fields.insert(name, http::HeaderValue::from_bytes(&bytes).unwrap());
        let keys = |_: &Discovery| Ok(KeySet::of([key().public().clone()]));
        let outcome = judge(&sent, Profile::Authenticate, &[], NOW, &keys, &mut Nonces::default());
        prop_assert!(!matches!(outcome, Ok(Some(_))), "{outcome:?}");
    }
}

fn sent_request(sent: &Sent) -> Request<'_> {
    Request {
        method: &sent.method,
        scheme: Scheme::Https,
        authority: "",
        target: &sent.target,
        fields: &sent.fields,
        has_body: false,
    }
}
