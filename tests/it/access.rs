//! Who may do what: callers, routes and outcomes, over real sockets, and what an upstream sees of it.

use serde_json::{Value, json};

use crate::support::{Call, Gateway, Response, Upstream, delta, end, until};

const PARTNER: &str = "partner-key-0123456789";
const STRANGER: &str = "stranger-key-0123456789";

/// An agent with a model, two capabilities, and three kinds of callers.
fn guarded(upstream: &Upstream, access: &str) -> String {
    format!(
        "upstreams:\n  api: {{url: {url}}}\nagent:\n  name: Guarded\n  upstream: api\n  \
         talk: {{upstream: api, dialect: openai-chat, model: m, history: {{turns: 5}}}}\n  capabilities:\n    \
         - {{id: weather.current, method: GET, endpoint: '/weather/{{city}}'}}\n    \
         - {{id: weather.change, method: POST, endpoint: '/weather/{{city}}'}}\n    \
         - {{id: orders.list, method: GET, endpoint: /orders, route: {{forward_headers: [authorization]}}}}\n  \
         access:\n    api_keys: {{partner: {PARTNER}, stranger: {STRANGER}}}\n{access}",
        url = upstream.url()
    )
}

const LISTED: &str = "    groups: {partners: [\"api_key:partner\"]}\n    \
     tools: {partners: [talk, news, \"weather.*\"], everyone: [talk, news_receive]}\n";

fn service() -> Upstream {
    Upstream::start(|exchange| match exchange.request.target.as_str() {
        "/v1/chat/completions" => exchange.stream(&(delta("fine") + &end("stop"))),
        _ => exchange.json(&json!({"ok": true})),
    })
}

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    Nobody,
    Partner,
    PartnerByHeader,
    Stranger,
    BadKey,
    BadHeader,
    Basic,
    HalfBad,
}

impl Who {
    const ALL: [Self; 8] = [
        Self::Nobody,
        Self::Partner,
        Self::PartnerByHeader,
        Self::Stranger,
        Self::BadKey,
        Self::BadHeader,
        Self::Basic,
        Self::HalfBad,
    ];

    fn asks(self, call: Call) -> Call {
        match self {
            Self::Nobody => call,
            Self::Partner => call.header("Authorization", &format!("Bearer {PARTNER}")),
            Self::PartnerByHeader => call.header("X-API-Key", PARTNER),
            Self::Stranger => call.header("authorization", &format!("bearer  {STRANGER}")),
            Self::BadKey => call.header("Authorization", "Bearer no-key-of-anybody-0123"),
            Self::BadHeader => call.header("X-API-Key", "no-key-of-anybody-0123"),
            Self::Basic => call.header("Authorization", &format!("Basic {PARTNER}")),
            Self::HalfBad => {
                call.header("Authorization", &format!("Bearer {PARTNER}")).header("X-API-Key", "no-key-of-anybody-0123")
            }
        }
    }

    fn is_bad(self) -> bool {
        matches!(self, Self::BadKey | Self::BadHeader | Self::Basic | Self::HalfBad)
    }
}

/// What is asked, and who may.
fn routes() -> Vec<(Call, &'static [Who])> {
    use Who::{Nobody, Partner, PartnerByHeader, Stranger};
    let partners: &[Who] = &[Partner, PartnerByHeader];
    let all: &[Who] = &[Nobody, Partner, PartnerByHeader, Stranger];
    vec![
        (Call::talk("hi"), all),
        (Call::talk("hi").streamed(), all),
        (Call::get("/news"), partners),
        (Call::post("/news", &json!({"type": "note"})), all),
        (Call::get("/weather/oslo"), partners),
        (Call::new("HEAD", "/weather/oslo"), partners),
        (Call::post("/weather/oslo", &json!({"rain": true})), partners),
        // What decides is what is routed, however it is spelt.
        (Call::get("/%77eather/oslo"), partners),
        (Call::get("/x/../weather/oslo"), partners),
        (Call::get("//weather//oslo"), partners),
    ]
}

#[test]
fn every_protected_route_is_closed_to_all_who_have_no_right_and_nothing_refused_reaches_the_service() {
    let upstream = service();
    let gateway = Gateway::start(&guarded(&upstream, LISTED));
    for (call, allowed) in routes() {
        for who in Who::ALL {
            let before = upstream.requests().len();
            let answer = gateway.call(&who.asks(call.clone()));
            let status = match who {
                _ if who.is_bad() => 401,
                _ if allowed.contains(&who) => 200,
                Who::Nobody => 401,
                _ => 403,
            };
            assert_eq!(answer.status, status, "{who:?} {call:?}: {}", answer.text());
            if status == 200 {
                continue;
            }
            assert_eq!(upstream.requests().len(), before, "{who:?} {call:?} reached the service");
            assert_eq!(answer.header("www-authenticate").is_some(), status == 401, "{who:?} {call:?}");
            if !answer.body.is_empty() {
                let body = answer.refused(status, if status == 401 { "unauthorized" } else { "forbidden" });
                assert!(body["message"].as_str().unwrap().contains(if status == 401 { "send" } else { "may not use" }));
            }
        }
    }
}

#[test]
fn what_is_published_is_open_to_all_and_a_bad_credential_there_is_nobodys() {
    let upstream = service();
    let gateway = Gateway::start(&guarded(&upstream, LISTED));
    for path in ["/health", "/.well-known/restap.json", "/.well-known/skill.md", "/"] {
        for who in Who::ALL {
            assert_eq!(gateway.call(&who.asks(Call::get(path))).status, 200, "{who:?} {path}");
        }
        let nobody = gateway.get(path);
        if path != "/health" {
            assert_eq!(gateway.call(&Who::BadKey.asks(Call::get(path))).body, nobody.body, "{path}");
        }
    }
    gateway.call(&Call::new("OPTIONS", "/weather/oslo")).status.eq(&204).then_some(()).unwrap();
}

fn ids(catalog: &Response) -> Vec<String> {
    let catalog = catalog.ok();
    let all = catalog["capabilities"].as_array().unwrap();
    all.iter().map(|capability| capability["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_caller_sees_in_the_catalog_what_it_may_use() {
    let upstream = service();
    let gateway = Gateway::start(&guarded(&upstream, LISTED));
    let catalog = |who: Who| gateway.call(&who.asks(Call::get("/.well-known/restap.json")));
    let (nobody, partner, stranger) = (catalog(Who::Nobody), catalog(Who::Partner), catalog(Who::Stranger));
    assert_eq!(ids(&nobody), ["talk", "news", "news_receive"]);
    assert_eq!(ids(&partner), ["talk", "news", "news_receive", "weather.current", "weather.change"]);
    assert_eq!(ids(&stranger), ["talk", "news_receive"]);
    assert_eq!(stranger.ok()["endpoints"].get("news"), None);
    let varies = Some("Authorization, X-API-Key, Signature-Input, Accept-Encoding");
    for (answer, cached) in
        [(&nobody, "public, max-age=60"), (&partner, "private, no-cache"), (&stranger, "private, no-cache")]
    {
        assert_eq!((answer.header("cache-control"), answer.header("vary")), (Some(cached), varies));
    }
    assert_ne!(nobody.header("etag"), partner.header("etag"));
    let again = Who::Partner.asks(Call::get("/.well-known/restap.json"));
    let etag = partner.header("etag").unwrap();
    assert_eq!(gateway.call(&again.header("If-None-Match", etag)).status, 304);
    assert_eq!(gateway.call(&Call::get("/.well-known/restap.json").header("If-None-Match", etag)).status, 200);
    let whole = Call::get("/.well-known/restap/capabilities/weather.current");
    gateway.call(&whole).refused(404, "not_found");
    gateway.call(&Who::Partner.asks(whole)).ok();
    let skill = gateway.get("/.well-known/skill.md");
    assert!(!skill.text().contains("weather"), "{}", skill.text());
}

#[test]
fn the_guide_tells_nobody_of_what_it_may_not_use() {
    let upstream = service();
    let file = guarded(&upstream, LISTED);
    let talk = file.find("  talk:").unwrap();
    let rest = &file[talk..];
    let file = format!("{}{}", &file[..talk], &rest[rest.find('\n').unwrap() + 1..]);
    let gateway = Gateway::start(&file);
    let told = |who: Who| gateway.call(&who.asks(Call::talk("weather"))).ok()["reply"].as_str().unwrap().to_owned();
    assert!(!told(Who::Nobody).contains("weather."));
    assert!(told(Who::Partner).contains("weather.current"));
    assert!(!told(Who::Partner).contains("orders.list"));
}

#[test]
fn without_tools_everything_is_open_and_a_bad_credential_is_401_all_the_same() {
    let upstream = service();
    let gateway = Gateway::start(&guarded(&upstream, ""));
    for (call, _) in routes() {
        for who in Who::ALL {
            let status = if who.is_bad() { 401 } else { 200 };
            assert_eq!(gateway.call(&who.asks(call.clone())).status, status, "{who:?} {call:?}");
        }
    }
    assert_eq!(ids(&gateway.get("/.well-known/restap.json")).len(), 6);
}

#[test]
fn who_is_denied_is_refused_whatever_it_could_use() {
    let upstream = service();
    let access = format!("{LISTED}    deny: [\"api_key:partner\"]\n");
    let gateway = Gateway::start(&guarded(&upstream, &access));
    for (call, _) in routes() {
        let answer = gateway.call(&Who::Partner.asks(call));
        assert_eq!(answer.status, 403);
    }
    assert!(upstream.requests().is_empty());
}

#[test]
fn with_no_default_group_whoever_is_in_none_may_use_nothing() {
    let upstream = service();
    let access = "    groups: {partners: [\"api_key:partner\"]}\n    default: none\n";
    let gateway = Gateway::start(&guarded(&upstream, access));
    assert_eq!(gateway.call(&Who::Nobody.asks(Call::get("/weather/oslo"))).status, 401);
    assert_eq!(gateway.call(&Who::Stranger.asks(Call::talk("hi"))).status, 403);
    gateway.call(&Who::Partner.asks(Call::get("/weather/oslo"))).ok();
}

#[test]
fn the_service_is_told_who_calls_and_never_by_the_caller_itself() {
    let upstream = service();
    let gateway = Gateway::start(&guarded(&upstream, ""));
    let forged = |call: Call| call.header("Restap-Caller", "root").header("Restap-Caller-Kind", "agent");
    let told = || {
        let request = upstream.last();
        let of = |name: &str| request.header(name).map(str::to_owned);
        (of("restap-caller-kind"), of("restap-caller"), of("authorization"), of("x-api-key"))
    };
    gateway.call(&forged(Who::Partner.asks(Call::get("/weather/oslo")))).ok();
    assert_eq!(told(), (Some("api_key".into()), Some("partner".into()), None, None));
    gateway.call(&forged(Who::PartnerByHeader.asks(Call::talk("hi")))).ok();
    assert_eq!(told(), (Some("api_key".into()), Some("partner".into()), None, None));
    gateway.call(&forged(Call::get("/weather/oslo"))).ok();
    assert_eq!(told(), (None, None, None, None));
    // The operator sends this header on, so it may be the service's.
    let answer = gateway.call(&Call::get("/orders").header("Authorization", "Bearer of-the-service-itself"));
    assert_eq!((answer.status, told().2), (200, Some("Bearer of-the-service-itself".into())));
}

#[test]
fn a_conversation_of_one_caller_gives_nothing_to_another() {
    let upstream = service();
    let gateway = Gateway::start(&guarded(&upstream, ""));
    let id = "shared-session-0123456789";
    let said = |who: Who, message: &str| {
        gateway.call(&who.asks(Call::talk(message).session(id))).ok();
        upstream.last().text()
    };
    said(Who::Partner, "my secret is a tulip");
    assert!(said(Who::Partner, "again").contains("my secret is a tulip"));
    for who in [Who::Stranger, Who::Nobody] {
        assert!(!said(who, "what is the secret?").contains("tulip"), "{who:?}");
    }
    assert!(said(Who::PartnerByHeader, "still there?").contains("my secret is a tulip"));
}

#[test]
fn a_feed_is_read_by_who_opened_it_and_written_by_all_who_may_post() {
    let upstream = service();
    let gateway = Gateway::start(&guarded(&upstream, ""));
    let note = json!({"type": "note", "message": "for the partner alone"});
    let (by_post, by_talk) = ("session-by-post-0123456789", "session-by-talk-0123456789");
    gateway.call(&Who::Partner.asks(Call::post("/news", &note).session(by_post))).ok();
    gateway.call(&Who::Partner.asks(Call::talk("hi").session(by_talk))).ok();
    for session in [by_post, by_talk] {
        gateway.call(&Who::Stranger.asks(Call::post("/news", &note).session(session))).ok();
        let read = |who: Who| gateway.call(&who.asks(Call::get("/news").session(session)));
        assert!(!read(Who::Partner).ok()["items"].as_array().unwrap().is_empty());
        for who in [Who::Stranger, Who::Nobody] {
            let refused = read(who).refused(403, "forbidden");
            assert_eq!(refused["items"], json!([]));
            // Nor does it reach the model of another caller's conversation.
            gateway.call(&who.asks(Call::talk("anything new?").session(session))).ok();
            assert!(!upstream.last().text().contains("for the partner alone"), "{who:?}");
        }
    }
    gateway.call(&Who::Partner.asks(Call::talk("anything new?").session(by_post))).ok();
    assert!(upstream.last().text().contains("for the partner alone"));
}

#[test]
fn an_idempotency_key_of_one_caller_is_nothing_to_another() {
    let upstream = service();
    let gateway = Gateway::start(&guarded(&upstream, ""));
    let call = Call::talk("once").header("Idempotency-Key", "the-same-key");
    for who in [Who::Partner, Who::Stranger, Who::Nobody, Who::Partner] {
        gateway.call(&who.asks(call.clone())).ok();
    }
    assert_eq!(upstream.requests().len(), 3);
    let note = Call::post("/news", &json!({"type": "note"})).header("Idempotency-Key", "the-same-key");
    let ids: Vec<Value> = [Who::Partner, Who::Stranger, Who::Partner]
        .map(|who| gateway.call(&who.asks(note.clone())).ok()["news_id"].clone())
        .into();
    assert_eq!((ids[0] == ids[2], ids[0] == ids[1]), (true, false));
}

#[test]
fn a_talk_that_is_answered_later_belongs_to_its_caller() {
    let upstream = service();
    let gateway = Gateway::start(&guarded(&upstream, ""));
    let session = "session-of-a-later-answer-01";
    let call = Call::talk("later").session(session).header("Prefer", "respond-async");
    let accepted = gateway.call(&Who::Partner.asks(call));
    assert_eq!(accepted.status, 202);
    let id = accepted.json()["query_id"].as_str().unwrap().to_owned();
    until("it is answered", || (gateway.get(&format!("/query/{id}")).ok()["status"] == "completed").then_some(()));
    let read = |who: Who| gateway.call(&who.asks(Call::get("/news").session(session)));
    assert_eq!(read(Who::Partner).ok()["items"][0]["type"], "query.completed");
    read(Who::Stranger).refused(403, "forbidden");
    assert_eq!(upstream.last().header("restap-caller"), Some("partner"));
}

#[test]
fn a_digest_stands_for_its_key() {
    let upstream = service();
    // printf %s abc | sha256sum
    let digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    let file = guarded(&upstream, LISTED).replace(PARTNER, &format!("\"sha256:{digest}\""));
    let gateway = Gateway::start(&file);
    gateway.call(&Call::get("/news").header("X-API-Key", "abc")).ok();
    // The digest itself opens nothing.
    for shown in [digest.to_owned(), format!("sha256:{digest}")] {
        gateway.call(&Call::get("/news").header("X-API-Key", &shown)).refused(401, "unauthorized");
    }
}

#[test]
fn a_credential_that_is_sent_twice_is_a_bad_request() {
    let upstream = service();
    let gateway = Gateway::start(&guarded(&upstream, LISTED));
    let twice = Who::Partner.asks(Who::Partner.asks(Call::get("/weather/oslo")));
    gateway.call(&twice).refused(400, "bad_request");
    assert!(upstream.requests().is_empty());
}

#[test]
fn the_log_names_the_caller_and_never_its_key() {
    let upstream = service();
    let gateway = Gateway::start(&format!("log: {{level: trace, format: json}}\n{}", guarded(&upstream, LISTED)));
    gateway.call(&Who::Partner.asks(Call::get("/weather/oslo"))).ok();
    gateway.wait_for_line("\"caller\":\"api_key:partner\"");
    gateway.call(&Who::Stranger.asks(Call::get("/weather/oslo"))).refused(403, "forbidden");
    gateway.wait_for_line("\"caller\":\"api_key:stranger\"");
}
