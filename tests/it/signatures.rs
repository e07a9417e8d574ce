//! Signed requests (Web Bot Auth): what is refused at the door. That good ones pass is held where keys can be given.

use serde_json::json;

use crate::support::{Call, Gateway, Upstream, passing};

fn guarded(upstream: &Upstream, profile: &str) -> String {
    format!(
        "{}  access:\n    web_bot_auth: {profile}\n    groups: {{bots: [\"agent:https://*.example/**\"]}}\n    tools: {{bots: [\"any.*\"], everyone: [any.get]}}\n",
        passing(upstream)
    )
}

fn signed(agent: &str, created: u64) -> Call {
    let components = "\"@method\" \"@authority\" \"@path\" \"@query\" \"signature-agent\";key=\"sig1\"";
    let keyid = "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs";
    let expires = created + 60;
    let input = format!(
        "sig1=({components});created={created};expires={expires};keyid=\"{keyid}\";alg=\"ed25519\";nonce=\"n\";tag=\"web-bot-auth\""
    );
    let signature = format!("sig1=:{}:", base64::Engine::encode(&base64::prelude::BASE64_STANDARD, [7; 64]));
    Call::get("/x")
        .header("Signature-Agent", &format!("sig1=\"{agent}\""))
        .header("Signature-Input", &input)
        .header("Signature", &signature)
}

fn now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs()
}

#[test]
fn a_signature_that_can_t_be_believed_is_refused_and_never_nobodys() {
    let upstream = Upstream::fixed("200 OK", "", "ok");
    let gateway = Gateway::start(&guarded(&upstream, "authenticate"));
    let private = "https://127.0.0.1:1/.well-known/jwks.json";
    for (call, reason) in [
        (signed(private, now()), "key_set_unreachable"),
        (signed(private, 1), "signature_expired"),
        (signed("http://a.example/.well-known/jwks.json", now()), "signature_agent_invalid"),
        (signed("data:application/json,{}", now()), "signature_agent_invalid"),
        (Call::get("/x").header("Signature-Input", "sig1=()"), "signature_malformed"),
        (Call::get("/x").header("Signature", "nonsense"), "signature_malformed"),
    ] {
        let answer = gateway.call(&call);
        let body = answer.refused(401, "unauthorized");
        assert!(body["message"].as_str().unwrap().starts_with(reason), "{body}");
        assert!(answer.header("accept-signature").unwrap().contains("web-bot-auth"));
        assert!(answer.header("www-authenticate").unwrap().starts_with("Signature "));
    }
    assert!(upstream.requests().is_empty());
    assert_eq!(gateway.get("/x").status, 200);
    gateway.post("/x", &json!({})).refused(401, "unauthorized");
    // What is open to all stays so.
    let catalog = signed(private, now());
    assert_eq!(gateway.call(&catalog.retarget("/.well-known/restap.json")).status, 200);
}

#[test]
fn where_signatures_only_name_callers_one_that_nobody_can_check_is_nobodys() {
    let upstream = Upstream::fixed("200 OK", "", "ok");
    let file = guarded(&upstream, "identify").replace("    groups: {bots: [\"agent:https://*.example/**\"]}\n", "");
    let file = file.replace("bots: [\"any.*\"], ", "");
    let gateway = Gateway::start(&file);
    assert_eq!(gateway.call(&signed("https://127.0.0.1:1/.well-known/jwks.json", now())).status, 200);
    gateway.call(&Call::get("/x").header("Signature-Input", "sig1=()")).refused(401, "unauthorized");
}

#[test]
fn while_signatures_are_off_nobody_looks_at_them() {
    let upstream = Upstream::fixed("200 OK", "", "ok");
    let gateway = Gateway::start(&passing(&upstream));
    assert_eq!(gateway.call(&Call::get("/x").header("Signature-Input", "nonsense")).status, 200);
    // They may be the service's.
    assert_eq!(upstream.last().header("signature-input"), Some("nonsense"));
}
