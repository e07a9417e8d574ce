//! Signing keys: made once, published, rotated without a restart.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use restap_gateway::signature::{ContentDigest, KeySet, SigningKey};
use ring::signature::{ED25519, UnparsedPublicKey};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{Call, Gateway, Response, run, until};

const ONE: &str = "public_url: https://gw.example\n\
                   agent: {name: One, rest: {listen: '127.0.0.1:0', token: token-of-one}}\n";

const MANY: &str = "public_url: https://gw.example:8443\n\
                    agents:\n  a: {rest: {listen: '127.0.0.1:0', token: token-of-a}}\n\
                    \x20 b: {rest: {listen: '127.0.0.1:0', token: token-of-b}}\n\
                    \x20 never: {rest: {listen: '127.0.0.1:0', token: token-of-never, sign: never}}\n\
                    \x20 plain: {}\n\
                    \x20 host: {host: own.example, rest: {listen: '127.0.0.1:0', token: token-of-host}}\n";

const KEY_SET: &str = "/.well-known/jwks.json";
const DIRECTORY: &str = "/.well-known/http-message-signatures-directory";

/// The keys of a set, whatever its media type.
fn listed(response: &Response) -> Vec<Value> {
    let set: Value = serde_json::from_slice(&response.body).unwrap();
    set["keys"].as_array().unwrap().clone()
}

fn thumbprints(response: &Response) -> Vec<String> {
    assert_eq!(response.status, 200, "{}", response.text());
    // What others can use of it.
    KeySet::parse(response.body.as_slice(), true).unwrap();
    listed(response).iter().map(|key| key["kid"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_first_key_is_made_once_and_published_for_all_to_read() {
    let gateway = Gateway::start(ONE);
    let directory = gateway.directory();
    let file = directory.path().join("keys/agent.ed25519.jwk.json");
    let made = fs::read_to_string(&file).unwrap();
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let key = SigningKey::parse(&made).unwrap();

    let published = gateway.get(KEY_SET);
    assert_eq!(published.json(), json!({"keys": [key.public().to_jwk()]}));
    assert_eq!(published.header("content-type"), Some("application/json"));
    assert_eq!(published.header("cache-control"), Some("public, max-age=3600"));
    assert_eq!(published.header("access-control-allow-origin"), Some("*"));
    assert!(!published.text().contains("\"d\""));
    assert_eq!(gateway.post(KEY_SET, &json!({})).status, 405);
    drop(gateway);

    let again = Gateway::start_in(directory, ONE);
    assert_eq!(thumbprints(&again.get(KEY_SET)), [key.thumbprint().as_str()]);
    assert_eq!(fs::read_to_string(&file).unwrap(), made);
}

#[test]
fn each_agent_has_a_key_of_its_own_and_the_origin_lists_those_of_all() {
    let gateway = Gateway::start(MANY);
    let of = |agent: &str| thumbprints(&gateway.get(&format!("/agents/{agent}{KEY_SET}")));
    let (a, b) = (of("a"), of("b"));
    assert!(a.len() == 1 && b.len() == 1 && a != b);
    for agent in ["never", "plain"] {
        assert_eq!(gateway.get(&format!("/agents/{agent}{KEY_SET}")).status, 404);
        assert_eq!(gateway.get(&format!("/agents/{agent}{DIRECTORY}")).status, 404);
    }
    assert!(!gateway.directory().path().join("keys/never.ed25519.jwk.json").exists());
    assert_eq!(thumbprints(&gateway.get(DIRECTORY)), [a.clone(), b].concat());
    assert_eq!(thumbprints(&gateway.get(&format!("/agents/a{DIRECTORY}"))), a);
    assert_eq!(gateway.get(KEY_SET).status, 404);
    let own = gateway.call(&Call::get(DIRECTORY).header("Host", "own.example"));
    assert_eq!(thumbprints(&own).len(), 1);
    assert_ne!(thumbprints(&own), a);
}

/// Holds every signature of a directory by the keys that stand in it.
fn hold_signed(directory: &Response, authority: &str) {
    let digest = directory.header("content-digest").unwrap();
    assert_eq!(digest, ContentDigest::field_of(&directory.body));
    let inputs = directory.header("signature-input").unwrap().split(", ");
    let signatures = directory.header("signature").unwrap().split(", ");
    let keys = listed(directory);
    let mut held = 0;
    for ((input, signature), key) in inputs.zip(signatures).zip(&keys) {
        let (label, parameters) = input.split_once('=').unwrap();
        let signature = signature.strip_prefix(&format!("{label}=:")).unwrap().strip_suffix(':').unwrap();
        let base = format!(
            "\"@authority\";req: {authority}\n\"content-digest\": {digest}\n\"@signature-params\": {parameters}"
        );
        assert!(parameters.starts_with("(\"@authority\";req \"content-digest\");created="), "{parameters}");
        assert!(parameters.contains(&format!("keyid={};", key["kid"])), "{parameters}");
        assert!(parameters.ends_with("tag=\"http-message-signatures-directory\""), "{parameters}");
        let public = base64::prelude::BASE64_URL_SAFE_NO_PAD.decode(key["x"].as_str().unwrap()).unwrap();
        let signature = BASE64_STANDARD.decode(signature).unwrap();
        UnparsedPublicKey::new(&ED25519, public).verify(base.as_bytes(), &signature).unwrap();
        held += 1;
    }
    assert_eq!(held, keys.len());
}

#[test]
fn the_directory_is_signed_for_our_own_hosts_and_no_other() {
    let gateway = Gateway::start(MANY);
    for (host, authority, path) in [
        ("gw.example:8443", "gw.example:8443", DIRECTORY.to_owned()),
        ("GW.example:8443", "gw.example:8443", format!("/agents/a{DIRECTORY}")),
        ("own.example", "own.example", DIRECTORY.to_owned()),
        ("own.example:443", "own.example", DIRECTORY.to_owned()),
    ] {
        let directory = gateway.call(&Call::get(&path).header("Host", host));
        assert_eq!(directory.header("content-type"), Some("application/http-message-signatures-directory+json"));
        assert_eq!(directory.header("access-control-allow-origin"), Some("*"));
        hold_signed(&directory, authority);
    }
    for host in ["gw.example", "127.0.0.1", "localhost:8443", "own.example:8443"] {
        let directory = gateway.call(&Call::get(DIRECTORY).header("Host", host));
        assert_eq!((directory.status, directory.header("signature")), (200, None), "{host}");
    }
}

#[test]
fn keys_are_rotated_while_the_gateway_runs() {
    let gateway = Gateway::start(ONE);
    let directory: Arc<TempDir> = gateway.directory();
    let keys = |arguments: &[&str]| {
        let finished = run(directory.path(), None, &[&["keys"], arguments].concat());
        assert_eq!(finished.code, Some(0), "{finished:?}");
        finished.stdout
    };
    let first = thumbprints(&gateway.get(KEY_SET));
    assert_eq!(keys(&["show"]), format!("agent  current   {}\n", first[0]));

    let told = keys(&["rotate"]);
    let published = || thumbprints(&gateway.get(KEY_SET));
    until("both keys are published", || (published().len() == 2).then_some(()));
    let both = thumbprints(&gateway.get(KEY_SET));
    assert_eq!(both[1], first[0]);
    assert_eq!(told, format!("agent  current   {}\nagent  previous  {}\n", both[0], both[1]));
    let shown: Value = serde_json::from_str(&keys(&["show", "agent", "--json"])).unwrap();
    assert_eq!(shown[0]["agent"], "agent");
    assert_eq!(shown[0]["keys"][1]["jwk"]["kid"], first[0].as_str());
    assert!(!shown.to_string().contains("\"d\""));
    hold_signed(&gateway.call(&Call::get(DIRECTORY).header("Host", "gw.example")), "gw.example");

    keys(&["rotate", "--finish"]);
    until("the first key is published no longer", || (published() == both[..1]).then_some(()));
    keys(&["rotate", "--stage"]);
    until("the next key is published", || (published().len() == 2).then_some(()));
    assert_eq!(thumbprints(&gateway.get(KEY_SET))[0], both[0]);
}

#[test]
fn keys_are_never_overwritten() {
    let directory = TempDir::new().unwrap();
    let keys = |arguments: &[&str]| run(directory.path(), Some(MANY), &[&["keys"], arguments].concat());
    let made = keys(&["new", "a"]);
    assert_eq!(made.code, Some(0), "{made:?}");
    let file = directory.path().join("keys/a.ed25519.jwk.json");
    let text = fs::read(&file).unwrap();
    let again = keys(&["new", "a"]);
    assert_eq!(again.code, Some(1));
    assert!(again.stderr.contains("keys rotate"), "{again:?}");
    // Those that have none are given one.
    assert_eq!(keys(&["new"]).stdout.lines().count(), 4);
    assert_eq!(fs::read(&file).unwrap(), text);
    let unknown = keys(&["show", "z"]);
    assert!(unknown.code == Some(1) && unknown.stderr.contains("there is no agent `z`"), "{unknown:?}");

    fs::write(&file, "no key").unwrap();
    let broken = run(directory.path(), Some(MANY), &["check"]);
    assert_eq!(broken.code, Some(1));
    assert!(broken.stderr.contains("a.ed25519.jwk.json") && broken.stderr.contains("never replaced"), "{broken:?}");
    assert_eq!(keys(&["new", "a"]).code, Some(1));
    assert_eq!(fs::read(&file).unwrap(), b"no key");
}
