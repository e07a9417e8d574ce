//! The tool and the `webagents` package across real connections: it verifies what `rest_request` sent, and a gateway lets in
//! whom it signs for.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::signatures::{Webagents, now};
use super::support::world::{authority, fixture, terminate};
use super::support::{Call, Connection, Gateway, Request, Upstream, World, passing};

const TOKEN: &str = "token-of-the-agent-that-calls";

const REQUESTS: [(&str, &str, &str); 5] = [
    ("GET", "/", ""),
    ("GET", "/agents/a/search?q=a%20b&k=%7e", ""),
    ("POST", "/talk", "{\"message\": \"hï\"}"),
    ("PUT", "/things/%C3%A9?", "text"),
    ("DELETE", "/things/1", ""),
];

/// What the package makes of a request.
fn judged(webagents: &mut Webagents, request: &Request, (authority, keys): (&str, &Value)) -> String {
    let fields: Vec<[&str; 2]> = request.headers.iter().map(|(name, value)| [name.as_str(), value.as_str()]).collect();
    let answer = webagents
        .ask(&json!({"verify": {"method": request.method, "target": request.target, "fields": fields,
        "body": BASE64_STANDARD.encode(&request.body), "authority": authority, "now": now(), "keys": keys}}));
    answer["principal"].as_str().or(answer["code"].as_str()).unwrap().to_owned()
}

#[test]
fn webagents_verifies_what_the_tool_sent() {
    let Some(mut webagents) = Webagents::start() else { return };
    let recorder = Upstream::fixed("200 OK", "", "ok");
    let authority = format!("localhost:{}", terminate("127.0.0.1:0", "server", recorder.address()).port());
    for form in ["untyped", "typed", "legacy"] {
        let gateway = Gateway::start(&format!(
            "public_url: https://caller.example\nagents: {{scout: {{talk: off, rest: {{listen: 127.0.0.1:0, token: {TOKEN}, \
             signature_agent: {form}, allow_private: [127.0.0.1], tls: {{ca: {}}}}}}}}}\n",
            fixture("ca.pem").display()
        ));
        let line = gateway.wait_for_line("rest_request is served on http://");
        let agent_side = line.rsplit_once("http://").unwrap().1.trim().parse().unwrap();
        let key_set = match form {
            "legacy" => "/.well-known/http-message-signatures-directory",
            _ => "/agents/scout/.well-known/jwks.json",
        };
        let published: Value = serde_json::from_slice(&gateway.get(key_set).body).unwrap();
        let principal = if form == "legacy" { "https://caller.example" } else { "https://caller.example/agents/scout" };
        for (method, target, body) in REQUESTS {
            let mut arguments = json!({"method": method, "url": format!("https://{authority}{target}")});
            if !body.is_empty() {
                arguments["body"] = body.into();
            }
            let call = Call::post("/rest_request", &arguments).header("Authorization", &format!("Bearer {TOKEN}"));
            let result = Connection::open(agent_side).call(&call).ok();
            assert_eq!((&result["status"], &result["signed"]), (&json!(200), &json!(true)), "{result}");
            let sent = recorder.last();
            let judged = judged(&mut webagents, &sent, (&authority, &published["keys"]));
            assert_eq!(judged, principal, "{form} {method} {target}");
        }
    }
    assert_eq!(recorder.requests().len(), 3 * REQUESTS.len());
}

#[test]
fn a_gateway_lets_in_whom_webagents_signs_for() {
    let Some(world) = World::enter("calls::a_gateway_lets_in_whom_webagents_signs_for") else { return };
    let Some(mut webagents) = Webagents::start() else { return };
    // The key set of the agent that signs, where its signatures say that it is.
    let seed = "0b".repeat(32);
    let key = restap_gateway::signature::SigningKey::from_seed([0x0b; 32]).unwrap();
    let document = json!({"keys": [key.public().to_jwk()]}).to_string();
    let key_sets = Upstream::start(move |exchange| {
        let kind = match exchange.request.target.as_str() {
            "/agents/scout/.well-known/jwks.json" => "application/json",
            "/.well-known/http-message-signatures-directory" => "application/http-message-signatures-directory+json",
            _ => return exchange.answer("404 Not Found", "", b""),
        };
        exchange.answer("200 OK", &format!("Content-Type: {kind}"), document.as_bytes());
    });
    world.terminate("c.wild.example", key_sets.address());
    let upstream = Upstream::fixed("200 OK", "", "ok");
    let gateway = Gateway::start(&format!(
        "public_url: https://b.wild.example\n{}    - {{id: any.delete, method: DELETE, endpoint: '/{{*path}}'}}\n  access:\n    \
         web_bot_auth: {{profile: authenticate, tls: {{ca: {}}}}}\n    \
         groups: {{friends: [\"agent:https://c.wild.example/**\"]}}\n    tools: {{friends: [\"any.*\"]}}\n",
        passing(&upstream),
        authority()
    ));
    let forms = ["dictionary-typed", "dictionary-untyped", "legacy-string"];
    for (number, (method, target, body)) in
        REQUESTS.into_iter().filter(|(_, target, _)| !["/", "/talk"].contains(target)).enumerate()
    {
        for form in forms {
            let added =
                webagents.ask(&json!({"sign": {"method": method, "url": format!("https://b.wild.example{target}"),
                "body": BASE64_STANDARD.encode(body), "form": form, "seeds": [seed],
                "agent": "https://c.wild.example/agents/scout"}}));
            let mut call = Call::new(method, target).header("Host", "b.wild.example").body(body);
            for (name, value) in added.as_object().unwrap() {
                call = call.header(name, value.as_str().unwrap());
            }
            let answer = gateway.call(&call);
            assert_eq!(answer.status, 200, "{form} {method} {target}: {}", answer.text());
            let caller =
                if form == "legacy-string" { "https://c.wild.example" } else { "https://c.wild.example/agents/scout" };
            assert_eq!(upstream.last().header("restap-caller"), Some(caller), "{form} {number}");
            gateway.call(&call).refused(401, "unauthorized");
        }
    }
    // Each set was fetched once.
    assert_eq!(key_sets.requests().len(), 2);
}
