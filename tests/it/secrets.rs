//! One run of everything that knows a session or a credential, at the most talkative log level. What `support` looks for
//! in every test is looked for here in metrics too.

use std::sync::Arc;

use serde_json::json;
use tempfile::TempDir;

use crate::support::{Call, Gateway, Upstream, delta, end, secrets, until};

const SESSIONS: [&str; 4] =
    ["sess_secret_aaaaaaaaaa", "sess_secret_bbbbbbbbbb", "sess_secret_cccccccccc", "sess_secret_dddddddddd"];

/// A chat service that fails, breaks off, repeats its credential in an error, or answers.
fn model() -> Upstream {
    Upstream::start(|exchange| {
        let text = exchange.request.text();
        assert!(text.contains("sk-run-secret-1"), "the credential is for the service");
        if text.contains("fail") {
            let error = json!({"error": {"message": "Incorrect API key provided: sk-run-secret-1"}}).to_string();
            exchange.answer("400 Bad Request", "Content-Type: application/json", error.as_bytes());
        } else if text.contains("refuse") {
            exchange.answer("401 Unauthorized", "", b"sk-run-secret-1 is no key of ours");
        } else if text.contains("break") {
            exchange.open_stream();
            exchange.send(delta("half"));
        } else if text.contains("leave") {
            exchange.wait_until_left();
        } else {
            exchange.stream(&(delta("fine") + &end("stop")));
        }
    })
}

/// An agent that answers every talk later.
fn agent() -> Upstream {
    Upstream::start(|exchange| {
        assert!(exchange.request.text().contains("sk-run-secret-2"), "the credential is for the agent");
        match exchange.request.method.as_str() {
            "POST" => exchange.json(&json!({"query_id": "theirs-1", "status": "processing"})),
            _ => exchange.json(&json!({"status": "completed", "result": "followed"})),
        }
    })
}

fn everything(gateway: &Gateway, session: &str) {
    let talk = |message: &str| Call::post("/agents/model/talk", &json!({"message": message})).session(session);
    for message in ["hi", "fail", "refuse", "break"] {
        let answer = gateway.call(&talk(message));
        assert_eq!(answer.status, if message == "hi" { 200 } else { 502 });
        let streamed = gateway.call(&talk(message).streamed());
        if message == "break" {
            secrets::assert_none_in("an error frame", &streamed.events().only("error").to_string());
        }
    }
    let body = json!({"message": "hi", "session_id": session, "dispatch_id": format!("d-{session}"), "query_id": "q"});
    for _ in 0..2 {
        let accepted = gateway.post("/agents/model/talk", &body);
        assert_eq!(accepted.status, 202);
        let target = format!("/agents/model/query/{}", accepted.json()["query_id"].as_str().unwrap());
        until("it is answered", || (gateway.get(&target).ok()["status"] == "completed").then_some(()));
    }
    let once = talk("hi").header("Idempotency-Key", &format!("k-{session}"));
    assert_eq!(gateway.call(&once).ok(), gateway.call(&once).ok());
    let other = talk("other").header("Idempotency-Key", &format!("k-{session}"));
    gateway.call(&other).refused(422, "idempotency_key_reused");
    gateway.call(&Call::post("/agents/model/news", &json!({"type": "note"})).session(session)).ok();
    gateway.get(&format!("/agents/model/news?session_id={session}&limit=0")).refused(400, "invalid_limit");
    gateway.get(&format!("/agents/model/news?session_id={session}")).ok();
    gateway.call(&Call::get(&format!("/nowhere?session_id={session}")).session(session)).refused(404, "not_found");
    gateway.call(&talk("hi").session(session)).refused(400, "invalid_session_id");
    let call = Call::post("/agents/agent/talk", &json!({"message": "hi", "session_id": session}));
    assert_eq!(gateway.call(&call).ok()["reply"], "followed");
    let mut connection = gateway.connect();
    connection.send(talk("leave").bytes());
    drop(connection);
}

#[test]
fn no_session_id_and_no_credential_is_read_in_a_log_a_metric_an_error_or_a_request() {
    let (model, agent) = (model(), agent());
    let file = format!(
        "log: {{level: trace}}\nstore: {{embedded: {{path: data}}}}\nupstreams:\n  \
         model: {{url: {}, api_key: sk-run-secret-1}}\n  agent: {{url: {}, api_key: sk-run-secret-2}}\nagents:\n  \
         model: {{name: M, talk: {{upstream: model, dialect: openai-chat, model: m}}}}\n  \
         agent: {{name: A, talk: {{upstream: agent, dialect: restap}}}}\n",
        model.url(),
        agent.url()
    );
    let directory = Arc::new(TempDir::new().unwrap());
    let mut gateway = Gateway::start_in(directory.clone(), &file);
    for session in &SESSIONS[..3] {
        everything(&gateway, session);
    }
    let minted = gateway.post("/agents/model/talk", &json!({"message": "hi"})).ok();
    let (status, metrics) = gateway.admin("/metrics");
    assert!(status == 200 && metrics.contains("restap_"), "{metrics}");
    secrets::assert_none_in("a metric", &metrics);
    secrets::assert_none_in("a catalog", gateway.get("/agents/model/.well-known/restap.json").text());
    gateway.kill();
    let before = gateway.logs();
    drop(gateway);
    for file in std::fs::read_dir(directory.path().join("data")).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        secrets::assert_none_in("the store", &String::from_utf8_lossy(&bytes));
    }
    let gateway = Gateway::start_in(directory, &file);
    everything(&gateway, SESSIONS[3]);
    let logs = before + &gateway.logs();
    assert!(logs.lines().count() > 80 && logs.contains("upstream_auth"), "{logs}");
    // What is looked for is what was used.
    let used =
        SESSIONS.into_iter().chain([minted["session_id"].as_str().unwrap(), "sk-run-secret-1", "sk-run-secret-2"]);
    let known: Vec<String> = secrets::all();
    for secret in used {
        assert!(known.iter().any(|known| known == secret), "{secret}");
        assert!(!logs.contains(secret), "{secret} is in the log");
    }
}
