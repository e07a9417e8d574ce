//! The `web-bot-auth` crate verifies what is signed here, and what it signs is verified here.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::HeaderMap;
use indexmap::IndexMap;
use web_bot_auth::WebBotAuthVerifier;
use web_bot_auth::components::{
    CoveredComponent, DerivedComponent, HTTPField, HTTPFieldParameters, HTTPFieldParametersSet,
};
use web_bot_auth::keyring::{Algorithm, KeyRing, Thumbprintable};
use web_bot_auth::message_signatures::{MessageSigner, SignedMessage, UnsignedMessage};

use super::*;

const SEED: [u8; 32] = [5; 32];
const MEMBER: &str = "\"https://caller.example/.well-known/jwks.json\"";

fn key() -> SigningKey {
    SigningKey::from_seed(SEED).unwrap()
}

fn now() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()).unwrap()
}

/// A signed request, as the crate asks for its parts.
struct Message {
    fields: Vec<(&'static str, String)>,
}

impl SignedMessage for Message {
    fn lookup_component(&self, name: &CoveredComponent) -> Vec<String> {
        let field = |wanted: &str| self.fields.iter().find(|(name, _)| *name == wanted).map(|(_, value)| value.clone());
        let value = match name {
            CoveredComponent::Derived(DerivedComponent::Method { .. }) => Some("POST".to_owned()),
            CoveredComponent::Derived(DerivedComponent::Authority { .. }) => Some("gw.example".to_owned()),
            CoveredComponent::Derived(DerivedComponent::Path { .. }) => Some("/talk".to_owned()),
            CoveredComponent::Derived(DerivedComponent::Query { .. }) => Some("?a=1".to_owned()),
            CoveredComponent::HTTP(HTTPField { name, parameters }) => match parameters.0.as_slice() {
                [HTTPFieldParameters::Key(key)] => field(name).and_then(|value| {
                    let member = value.split(", ").find_map(|member| member.strip_prefix(&format!("{key}=")))?;
                    Some(member.to_owned())
                }),
                _ => field(name),
            },
            CoveredComponent::Derived(_) => None,
        };
        value.into_iter().collect()
    }
}

#[test]
fn it_verifies_what_we_sign() {
    let signer = Signer::new("https://caller.example".parse().unwrap(), &[key()]).unwrap();
    let outgoing = Outgoing { method: "POST", authority: "gw.example", target: "/talk?a=1", body: b"{}", covered: &[] };
    for form in [Form::Untyped, Form::Typed, Form::Legacy] {
        let fields = signer.sign(&outgoing, form, now(), &mut |bytes| bytes.fill(7)).unwrap();
        let jwk: Thumbprintable = serde_json::from_value(key().public().to_jwk()).unwrap();
        assert_eq!(jwk.b64_thumbprint(), key().thumbprint().as_str());
        let keys = || KeyRing::from_iter([(jwk.b64_thumbprint(), (Algorithm::Ed25519, jwk.public_key().unwrap()))]);
        let read = |fields: &[(&'static str, String)]| WebBotAuthVerifier::parse(&Message { fields: fields.to_vec() });
        read(&fields).unwrap().verify(&keys(), None).unwrap();
        let mut changed = fields;
        changed[0].1 = ContentDigest::field_of(b"{ }");
        assert!(read(&changed).unwrap().verify(&keys(), None).is_err());
    }
}

/// A request that the crate signs.
#[derive(Default)]
struct Unsigned {
    input: String,
    signature: String,
}

impl UnsignedMessage for Unsigned {
    fn fetch_components_to_cover(&self) -> IndexMap<CoveredComponent, String> {
        let parameters = HTTPFieldParametersSet(vec![HTTPFieldParameters::Key("a".to_owned())]);
        let agent = HTTPField { name: "signature-agent".to_owned(), parameters };
        IndexMap::from_iter([
            (CoveredComponent::Derived(DerivedComponent::Authority { req: false }), "gw.example".to_owned()),
            (CoveredComponent::Derived(DerivedComponent::Method { req: false }), "GET".to_owned()),
            (CoveredComponent::Derived(DerivedComponent::Path { req: false }), "/".to_owned()),
            (CoveredComponent::Derived(DerivedComponent::Query { req: false }), "?".to_owned()),
            (CoveredComponent::HTTP(agent), MEMBER.to_owned()),
        ])
    }

    fn register_header_contents(&mut self, input: String, signature: String) {
        (self.input, self.signature) = (input, signature);
    }
}

#[test]
fn what_it_signs_is_verified() {
    let signer =
        MessageSigner { keyid: key().thumbprint().to_string(), nonce: "n".to_owned(), tag: "web-bot-auth".to_owned() };
    let mut message = Unsigned::default();
    let minutes = Duration::from_mins(5);
    signer.generate_signature_headers_content(&mut message, minutes, Algorithm::Ed25519, &SEED).unwrap();
    let mut fields = HeaderMap::new();
    fields.insert("signature-agent", format!("a={MEMBER}").parse().unwrap());
    fields.insert("signature-input", format!("b={}", message.input).parse().unwrap());
    fields.insert("signature", format!("b={}", message.signature).parse().unwrap());
    let request = |method| Request {
        method,
        scheme: Scheme::Https,
        authority: "gw.example",
        target: "/",
        fields: &fields,
        has_body: false,
    };
    for profile in [Profile::Identify, Profile::Authenticate] {
        let verified = |method| {
            let claim = Claim::read(&request(method), profile, &[], now()).unwrap().unwrap();
            claim.verify(&KeySet::of([key().public().clone()]))
        };
        assert_eq!(verified("GET").unwrap().principal, "https://caller.example");
        assert_eq!(verified("PUT").unwrap_err().code(), Code::Invalid);
    }
}
