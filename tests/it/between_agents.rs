//! Agents that call each other: one gateway signs, another one believes it, once; and keys change meanwhile.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use http::{HeaderMap, HeaderName};
use restap_gateway::signature::{Claim, KeySet, Nonces, Profile, Request as Signed, Scheme};
use serde_json::{Value, json};

use crate::servers::Server;
use crate::support::world::{authority, fixture, terminate};
use crate::support::{Call, Connection, Gateway, Request, Response, Upstream, Watched, World, passing, run, until};

const TOKEN: &str = "token-of-the-agent-that-calls";

/// A gateway at a.wild.example, whose agent calls others; and where its program reaches it.
fn calling(world: &World, rest: &str) -> (Gateway, SocketAddr) {
    let gateway = Gateway::start(&format!(
        "{}agent: {{name: Scout, talk: off, rest: {{listen: 127.0.0.1:0, token: {TOKEN}, tls: {{ca: {}}}, {rest}}}}}\n",
        world.at("a.wild.example"),
        authority()
    ));
    let address = agent_side(&gateway);
    (gateway, address)
}

fn agent_side(gateway: &Gateway) -> SocketAddr {
    let line = gateway.wait_for_line("rest_request is served on http://");
    line.rsplit_once("http://").unwrap().1.trim().parse().unwrap()
}

/// Who may use what, where callers sign.
fn believing(tools: &str) -> String {
    format!(
        "  access:\n    web_bot_auth: {{profile: authenticate, tls: {{ca: {}}}}}\n    \
         groups: {{friends: [\"agent:https://a.wild.example/**\"], others: [\"agent:https://c.wild.example/**\"]}}\n    \
         tools: {tools}\n",
        authority()
    )
}

fn call(agent_side: SocketAddr, arguments: &Value) -> Value {
    let call = Call::post("/rest_request", arguments).header("Authorization", &format!("Bearer {TOKEN}"));
    Connection::open(agent_side).call(&call).ok()
}

/// A request again, as it was received.
fn again(request: &Request) -> Call {
    let call = Call::new(&request.method, &request.target).body(request.body.clone());
    let length = |name: &str| name.eq_ignore_ascii_case("content-length");
    request.headers.iter().filter(|(name, _)| !length(name)).fold(call, |call, (name, value)| call.header(name, value))
}

#[test]
fn an_agent_signs_what_it_asks_and_another_gateway_lets_it_in_as_itself() {
    let Some(world) =
        World::enter("between_agents::an_agent_signs_what_it_asks_and_another_gateway_lets_it_in_as_itself")
    else {
        return;
    };
    let upstream = Upstream::fixed("200 OK", "", "for friends alone");
    let (_calling, agent_side) = calling(&world, "sign: always");
    let file = passing(&upstream) + &believing("{friends: [any.get, any.post], others: [any.put]}");
    let called = Gateway::start(&(world.at("b.wild.example") + &file));
    for (method, body) in [("GET", None), ("POST", Some("{\"a\": 1}"))] {
        let url = "https://b.wild.example/things?of=mine";
        let mut arguments = json!({"method": method, "url": url});
        if let Some(body) = body {
            arguments["body"] = body.into();
        }
        let result = call(agent_side, &arguments);
        assert_eq!((&result["status"], &result["text"]), (&json!(200), &json!("for friends alone")), "{result}");
        assert_eq!((&result["signed"], &result["signed_as"]), (&json!(true), &json!("https://a.wild.example")));
        let seen = upstream.last();
        assert_eq!(seen.header("restap-caller"), Some("https://a.wild.example"));
        assert_eq!(seen.header("restap-caller-kind"), Some("agent"));
        assert_eq!(seen.body, body.unwrap_or_default().as_bytes());
    }
    let before = upstream.requests().len();
    let result = call(agent_side, &json!({"method": "PUT", "url": "https://b.wild.example/things", "body": "x"}));
    assert_eq!(result["status"], 403, "{result}");
    let log = called.wait_for_line(" 403 ");
    assert!(log.contains("https://a.wild.example"), "{log}");
    assert_eq!(upstream.requests().len(), before);
}

#[test]
fn whoever_does_not_sign_or_signs_for_another_host_stays_outside() {
    let Some(world) = World::enter("between_agents::whoever_does_not_sign_or_signs_for_another_host_stays_outside")
    else {
        return;
    };
    let upstream = Upstream::fixed("200 OK", "", "ok");
    let file = passing(&upstream) + &believing("{friends: [any.get]}");
    let called = Gateway::start(&(format!("public_url: https://b.wild.example\n{file}")));
    world.terminate("b.wild.example", called.address());
    let (silent, agent_side) = calling(&world, "sign: never");
    let result = call(agent_side, &json!({"method": "GET", "url": "https://b.wild.example/x"}));
    assert_eq!((&result["status"], &result["signed"]), (&json!(401), &json!(false)), "{result}");
    drop(silent);
    // What was signed for one host is nothing at another one.
    let (_calling, agent_side) = calling(&world, "");
    let recorder = Upstream::fixed("200 OK", "", "ok");
    world.terminate("c.wild.example", recorder.address());
    call(agent_side, &json!({"method": "GET", "url": "https://c.wild.example/x"}));
    let mut elsewhere = recorder.last();
    called.call(&again(&elsewhere)).refused(421, "misdirected");
    elsewhere.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("host"));
    hold_refused(&called.call(&again(&elsewhere).header("Host", "b.wild.example")), "signature_invalid");
    assert!(upstream.requests().is_empty());
}

/// Records what the agent of a.wild.example sends to b.wild.example.
fn recorded(world: &World, agent_side: SocketAddr, arguments: &Value) -> Request {
    let recorder = Upstream::fixed("200 OK", "", "ok");
    world.terminate("b.wild.example", recorder.address());
    let result = call(agent_side, arguments);
    assert_eq!(result["signed"], true, "{result}");
    recorder.request()
}

#[test]
fn a_request_that_is_sent_again_is_refused() {
    let Some(world) = World::enter("between_agents::a_request_that_is_sent_again_is_refused") else { return };
    let upstream = Upstream::fixed("200 OK", "", "ok");
    let (_calling, agent_side) = calling(&world, "");
    let arguments = json!({"method": "POST", "url": "https://b.wild.example/x", "body": "{}"});
    let request = recorded(&world, agent_side, &arguments);
    let file = passing(&upstream) + &believing("{friends: [any.post]}");
    let called = Gateway::start(&format!("public_url: https://b.wild.example\n{file}"));
    // What is changed on the way is refused, and spends nothing.
    let mut changed = request.clone();
    changed.body = b"[]".to_vec();
    hold_refused(&called.call(&again(&changed)), "content_digest_mismatch");
    hold_refused(&called.call(&again(&request).retarget("/y")), "signature_invalid");
    assert_eq!(called.call(&again(&request)).status, 200);
    for _ in 0..3 {
        hold_refused(&called.call(&again(&request)), "signature_replayed");
    }
    // A reload forgets nothing.
    let (status, _) = called.reload(&format!("public_url: https://b.wild.example\n{file}# changed\n"));
    assert_eq!(status, 200);
    hold_refused(&called.call(&again(&request)), "signature_replayed");
    assert_eq!(upstream.requests().len(), 1);
}

#[track_caller]
fn hold_refused(answer: &Response, code: &str) {
    let body = answer.refused(401, "unauthorized");
    assert!(body["message"].as_str().unwrap().starts_with(code), "{body}");
}

/// Two gateways of one agent on one store: what was believed at one of them is refused at the other.
fn hold_once_in_a_fleet(world: &World, server: &Server) {
    let upstream = Upstream::fixed("200 OK", "", "ok");
    let (_calling, agent_side) = calling(world, "");
    let request = recorded(world, agent_side, &json!({"method": "GET", "url": "https://b.wild.example/x"}));
    let file = format!(
        "public_url: https://b.wild.example\nstore:\n  {}: {{url: \"{}\"}}\n  key: AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n{}{}",
        server.scheme(),
        server.url(),
        passing(&upstream),
        believing("{friends: [any.get]}")
    );
    let fleet = [Gateway::start(&file), Gateway::start(&file)];
    // Many at once, at both: one of them is the first.
    let (believed, replayed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for number in 0..16 {
            let (gateway, call) = (&fleet[number % 2], again(&request));
            let (believed, replayed) = (&believed, &replayed);
            scope.spawn(move || {
                let answer = gateway.call(&call);
                if answer.status == 200 {
                    believed.fetch_add(1, Ordering::SeqCst);
                } else {
                    hold_refused(&answer, "signature_replayed");
                    replayed.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
    });
    assert_eq!((believed.into_inner(), replayed.into_inner()), (1, 15));
    // Also at one that was not there when it was believed.
    hold_refused(&Gateway::start(&file).call(&again(&request)), "signature_replayed");
    assert_eq!(upstream.requests().len(), 1);
}

#[test]
fn a_signature_counts_once_among_gateways_that_share_a_redis() {
    let Some(world) = World::enter("between_agents::a_signature_counts_once_among_gateways_that_share_a_redis") else {
        return;
    };
    let Some(server) = Server::redis(&[]) else { return };
    hold_once_in_a_fleet(&world, &server);
}

#[test]
fn a_signature_counts_once_among_gateways_that_share_a_postgresql() {
    let Some(world) = World::enter("between_agents::a_signature_counts_once_among_gateways_that_share_a_postgresql")
    else {
        return;
    };
    let Some(server) = Server::postgres(&["fsync=off"]) else { return };
    hold_once_in_a_fleet(&world, &server);
}

/// What a request proves by these keys.
fn judged(request: &Request, keys: &KeySet) -> Result<String, String> {
    let fields: HeaderMap = request
        .headers
        .iter()
        .map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap()))
        .collect();
    let authority = request.header("host").unwrap();
    let signed = Signed {
        method: &request.method,
        scheme: Scheme::Https,
        authority,
        target: &request.target,
        fields: &fields,
        has_body: !request.body.is_empty(),
    };
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs().cast_signed();
    let judge = || {
        let claim = Claim::read(&signed, Profile::Authenticate, &[authority.to_owned()], now)?.unwrap();
        let verified = claim.verify(keys)?;
        verified.check_body(&request.body)?;
        verified.spend(&mut Nonces::default(), now)?;
        Ok(verified.principal)
    };
    judge().map_err(|refused: restap_gateway::signature::Refused| refused.to_string())
}

#[test]
fn keys_that_are_rotated_under_load_lose_no_signature() {
    let calling = Gateway::start(&format!(
        "public_url: https://a.example\nagent: {{name: Scout, talk: off, rest: {{listen: 127.0.0.1:0, token: {TOKEN}, \
         sign: always, allow_private: [127.0.0.1], tls: {{ca: {}}}}}}}\n",
        fixture("ca.pem").display()
    ));
    let agent_side = agent_side(&calling);
    let address = calling.address();
    let key_set = move || Connection::open(address).call(&Call::get("/.well-known/jwks.json"));
    // Every request is judged when it comes, by the key set as it was read last, and read anew where a key is missing:
    // what verifiers do.
    let outcomes = Arc::new(Watched::<(usize, Vec<String>)>::default());
    let all = outcomes.clone();
    let read = move || KeySet::parse(&key_set().body, false).unwrap();
    let kept = Mutex::new(read());
    let service = Upstream::start(move |exchange| {
        let mut kept = kept.lock().unwrap();
        let outcome = judged(&exchange.request, &kept).or_else(|_| {
            *kept = read();
            judged(&exchange.request, &kept)
        });
        drop(kept);
        all.change(|(count, wrong)| {
            *count += 1;
            wrong.extend(outcome.err());
        });
        exchange.answer("200 OK", "", b"ok");
    });
    let url = format!("https://localhost:{}/x", terminate("127.0.0.1:0", "server", service.address()).port());
    let over = AtomicBool::new(false);
    let directory = calling.directory();
    let published = || key_set().ok()["keys"].as_array().unwrap().len();
    std::thread::scope(|scope| {
        let callers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut sent = 0;
                    while !over.load(Ordering::SeqCst) {
                        let arguments = json!({"method": "POST", "url": url, "body": "{}"});
                        let result = call(agent_side, &arguments);
                        assert_eq!((&result["status"], &result["signed"]), (&json!(200), &json!(true)), "{result}");
                        sent += 1;
                    }
                    sent
                })
            })
            .collect();
        let more = |than: usize| {
            until("calls go on", || outcomes.read(|(count, _)| *count > than + 8).then_some(()));
        };
        let count = || outcomes.read(|(count, _)| *count);
        for _ in 0..3 {
            for (step, then) in [(&["--stage"][..], 2), (&[][..], 2), (&["--finish"][..], 1)] {
                more(count());
                let finished = run(directory.path(), None, &[&["keys", "rotate"], step].concat());
                assert_eq!(finished.code, Some(0), "{finished:?}");
                until("the keys are published", || (published() == then).then_some(()));
                let (status, told) = calling.admin_with("POST", "/reload");
                assert_eq!(status, 200, "{told}");
            }
        }
        more(count());
        over.store(true, Ordering::SeqCst);
        let sent: usize = callers.into_iter().map(|caller| caller.join().unwrap()).sum();
        outcomes.read(|(count, wrong)| {
            assert_eq!((*count, wrong.as_slice()), (sent, &[][..]));
        });
    });
}
