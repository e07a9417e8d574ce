//! `restap-gateway probe`: before our own agents, before a server without a fault, before one with each fault, and
//! before servers that want to keep it busy.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::gateway::{PROGRAM, finish};
use crate::support::{Exchange, Finished, Gateway, Upstream, chatting, delta, end};

/// What is wrong with the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Nothing,
    CatalogIsGone,
    CatalogIsNotJson,
    CatalogSaysHtml,
    CatalogWithoutVersion,
    CatalogWithoutAgent,
    CapabilitiesAreAnObject,
    AnIdIsMissing,
    AnIdStandsTwice,
    AMethodIsMissing,
    AMethodIsUnknown,
    AnEndpointIsMissing,
    TalkIsElsewhere,
    ATitleIsANumber,
    ASchemaIsNone,
    AnEventIsNotListed,
    FormatsDisagree,
    SessionsAreAWord,
    APackageHasNoType,
    AProtocolIsNotAvailable,
    TalkIsGone,
    StreamsUnasked,
    ReplyHasAnotherName,
    TakesNoMessage,
    ErrorsAreHtml,
    MintsNothing,
    MintsShortIds,
    CountsIds,
    TakesAnyId,
    TakesAnyIdInStreams,
    TakesUuidsOnly,
    JsonForAStream,
    FramesWithoutJson,
    NoStart,
    NoDelta,
    AnotherIdOnDelta,
    NoEnd,
    TwoEnds,
    ErrorSaysNothing,
    NoDone,
    MoreAfterDone,
    AnotherNameInside,
    AnEventMoreThanListed,
    NoSessionOnDone,
    NewsHaveNoItems,
    ItemsHaveNoType,
    NewsWantAnUndeclaredSession,
    NewsTakeNoSession,
    NewsRefuseInOtherWords,
    NewsIgnoreTheHeader,
    NewsPreferTheQuery,
    NewsTakeAnyId,
    NewsRefuseItems,
    NewsReply,
    NewsForget,
    NewsAreReadOnce,
    SinceIsIgnored,
    NewsStream,
    SessionsAreMixed,
    ACapabilityIsGone,
    AnAnswerBreaksItsSchema,
}

use Fault::*;

/// Every fault, the rule that finds it, and whether the server's news belong to sessions.
const FAULTS: &[(Fault, &str, bool)] = &[
    (CatalogIsGone, "catalog.served", false),
    (CatalogIsNotJson, "catalog.json", false),
    (CatalogSaysHtml, "catalog.content_type", false),
    (CatalogWithoutVersion, "catalog.version", false),
    (CatalogWithoutAgent, "catalog.agent", false),
    (CapabilitiesAreAnObject, "catalog.capabilities", false),
    (AnIdIsMissing, "catalog.ids", false),
    (AnIdStandsTwice, "catalog.ids_unique", false),
    (AMethodIsMissing, "catalog.methods", false),
    (AMethodIsUnknown, "catalog.methods_known", false),
    (AnEndpointIsMissing, "catalog.endpoints", false),
    (TalkIsElsewhere, "catalog.fixed_endpoints", false),
    (ATitleIsANumber, "catalog.texts", false),
    (ASchemaIsNone, "catalog.schemas", false),
    (AnEventIsNotListed, "catalog.streaming", false),
    (FormatsDisagree, "catalog.output_formats", false),
    (SessionsAreAWord, "catalog.sessions", false),
    (APackageHasNoType, "catalog.packages", false),
    (AProtocolIsNotAvailable, "catalog.protocols", false),
    (TalkIsGone, "talk.served", false),
    (StreamsUnasked, "talk.default_json", false),
    (ReplyHasAnotherName, "talk.reply", false),
    (TakesNoMessage, "talk.invalid_input", false),
    (ErrorsAreHtml, "talk.error_shape", false),
    (MintsNothing, "session.minted", false),
    (MintsShortIds, "session.format", false),
    (CountsIds, "session.entropy", false),
    (TakesAnyId, "session.invalid", false),
    (TakesAnyIdInStreams, "session.invalid_sse", false),
    (TakesUuidsOnly, "session.any_shape", false),
    (JsonForAStream, "stream.negotiated", false),
    (FramesWithoutJson, "stream.frames", false),
    (NoStart, "stream.start", false),
    (NoDelta, "stream.delta", false),
    (AnotherIdOnDelta, "stream.delta", false),
    (NoEnd, "stream.end", false),
    (TwoEnds, "stream.end", false),
    (ErrorSaysNothing, "stream.error", false),
    (NoDone, "stream.done", false),
    (MoreAfterDone, "stream.done", false),
    (AnotherNameInside, "stream.event_member", false),
    (AnEventMoreThanListed, "stream.declared", false),
    (NoSessionOnDone, "stream.session", false),
    (NewsHaveNoItems, "news.read", false),
    (ItemsHaveNoType, "news.items", false),
    (NewsWantAnUndeclaredSession, "news.sessions_declared", true),
    (NewsTakeNoSession, "news.missing_session", true),
    (NewsRefuseInOtherWords, "news.missing_session", true),
    (NewsIgnoreTheHeader, "news.session_header", true),
    (NewsPreferTheQuery, "news.header_precedence", true),
    (NewsTakeAnyId, "news.invalid_session", true),
    (NewsRefuseItems, "news.post", false),
    (NewsReply, "news.never_replies", false),
    (NewsForget, "news.stored", false),
    (NewsAreReadOnce, "news.read_only", false),
    (SinceIsIgnored, "news.since", false),
    (NewsStream, "news.never_streams", false),
    (SessionsAreMixed, "news.scoped", true),
    (ACapabilityIsGone, "capability.reached", false),
    (AnAnswerBreaksItsSchema, "capability.output", false),
];

/// A RESTAP server that is none of ours, with one fault or none.
struct Double {
    fault: Fault,
    /// Whether news need a session.
    scoped: bool,
    minted: AtomicUsize,
    /// The feed of each session, the agent's own under the empty name.
    feeds: Mutex<BTreeMap<String, Vec<Value>>>,
    reads: AtomicUsize,
}

impl Double {
    fn start(fault: Fault, scoped: bool) -> Upstream {
        let feeds = Mutex::default();
        let double = Self { fault, scoped, minted: AtomicUsize::new(0), feeds, reads: AtomicUsize::new(0) };
        Upstream::start(move |exchange| double.answer(exchange))
    }

    fn is(&self, fault: Fault) -> bool {
        self.fault == fault
    }

    fn answer(&self, exchange: &mut Exchange<'_>) {
        let target = exchange.request.target.clone();
        let path = target.split('?').next().unwrap();
        match (exchange.request.method.as_str(), path) {
            ("GET", "/.well-known/restap.json") => self.catalog(exchange),
            ("POST", "/talk") => self.talk(exchange),
            ("GET", "/news") => self.read(exchange),
            ("POST", "/news") => self.post(exchange),
            ("GET", "/time") if self.is(AnAnswerBreaksItsSchema) => exchange.json(&json!({"now": "noon"})),
            ("GET", "/time") if !self.is(ACapabilityIsGone) => exchange.json(&json!({"now": 1})),
            ("POST", "/delete-everything") => panic!("the probe called what changes something"),
            _ => refuse(exchange, "404 Not Found", "not_found"),
        }
    }

    fn catalog(&self, exchange: &mut Exchange<'_>) {
        let mut events = vec!["message.start", "message.delta", "message.end", "error", "done"];
        events.truncate(if self.is(AnEventIsNotListed) { 4 } else { 5 });
        let mut talk = json!({"id": "talk", "title": "Talk", "method": "POST", "endpoint": "/talk",
            "output_formats": ["application/json", "text/event-stream"],
            "streaming": {"supported": true, "transport": "sse", "events": events}, "sessions": {"supported": true}});
        let mut time = json!({"id": "time", "title": "Time", "method": "GET", "endpoint": "/time",
            "output_schema": {"type": "object", "properties": {"now": {"type": "integer"}}}});
        let mut news = json!({"id": "news", "method": "GET", "endpoint": "/news"});
        let mut receive = json!({"id": "news_receive", "method": "POST", "endpoint": "/news"});
        if self.scoped && !self.is(NewsWantAnUndeclaredSession) {
            news["sessions"] = json!({"supported": true, "required": true});
            receive["sessions"] = news["sessions"].clone();
        }
        let mut delete = json!({"id": "delete", "method": "POST", "endpoint": "/delete-everything"});
        match self.fault {
            AnIdIsMissing => time["id"] = Value::Null,
            AnIdStandsTwice => time["id"] = json!("delete"),
            AMethodIsMissing => delete["method"] = Value::Null,
            AMethodIsUnknown => delete["method"] = json!("PATCH"),
            AnEndpointIsMissing => delete["endpoint"] = Value::Null,
            TalkIsElsewhere => talk["endpoint"] = json!("/chat"),
            ATitleIsANumber => delete["title"] = json!(7),
            ASchemaIsNone => delete["input_schema"] = json!({"type": "nonsense"}),
            FormatsDisagree => talk["output_formats"] = json!(["application/json"]),
            SessionsAreAWord => news["sessions"] = json!("yes"),
            _ => {}
        }
        let mut catalog = json!({"restap_version": "1.0", "agent": {"name": "Double"},
            "capabilities": [talk, news, receive, time, delete],
            "packages": [{"name": "SDK", "type": "npm-package"}], "protocols": {"mcp": {"available": false}}});
        match self.fault {
            CatalogIsGone => return refuse(exchange, "404 Not Found", "not_found"),
            CatalogIsNotJson => {
                return exchange.answer("200 OK", "Content-Type: application/json", b"<html>");
            }
            CatalogWithoutVersion => catalog["restap_version"] = Value::Null,
            CatalogWithoutAgent => catalog["agent"] = Value::Null,
            CapabilitiesAreAnObject => catalog["capabilities"] = json!({"talk": true}),
            APackageHasNoType => catalog["packages"] = json!([{"name": "SDK"}]),
            AProtocolIsNotAvailable => catalog["protocols"] = json!({"mcp": {"endpoint": "/mcp"}}),
            _ => {}
        }
        let media_type = if self.is(CatalogSaysHtml) { "text/html" } else { "application/json" };
        exchange.answer("200 OK", &format!("Content-Type: {media_type}"), catalog.to_string().as_bytes());
    }

    fn mint(&self) -> String {
        let number = self.minted.fetch_add(1, Ordering::Relaxed);
        match self.fault {
            MintsShortIds => "short".to_owned(),
            CountsIds => format!("session-{number:020}"),
            // Random enough for a test, and of the usual form.
            _ => uuid::Uuid::new_v4().to_string(),
        }
    }

    fn talk(&self, exchange: &mut Exchange<'_>) {
        if self.is(TalkIsGone) {
            return refuse(exchange, "404 Not Found", "not_found");
        }
        let body: Value = serde_json::from_slice(&exchange.request.body).unwrap_or_default();
        let streams = exchange.request.header("accept").is_some_and(|accept| accept.contains("text/event-stream"));
        if !body["message"].is_string() && !self.is(TakesNoMessage) {
            if self.is(ErrorsAreHtml) {
                return exchange.answer("400 Bad Request", "Content-Type: text/html", b"<h1>No</h1>");
            }
            return refuse(exchange, "400 Bad Request", "missing_message");
        }
        let session = body["session_id"].as_str().map(str::to_owned);
        if let Some(id) = &session {
            let lenient = if streams { TakesAnyIdInStreams } else { TakesAnyId };
            let uuid = |id: &str| self.is(TakesUuidsOnly) && !id.contains("short") && id.len() != 36;
            if (id.len() < 16 && !self.is(lenient)) || uuid(id) {
                return refuse(exchange, "400 Bad Request", "invalid_session_id");
            }
        }
        let session = session.unwrap_or_else(|| self.mint());
        if (streams && !self.is(JsonForAStream))
            || (self.is(StreamsUnasked) && exchange.request.header("accept").is_none())
        {
            return exchange.stream(&self.frames(&session));
        }
        let mut answer = json!({"reply": "hello", "session_id": session});
        if self.is(ReplyHasAnotherName) {
            answer = json!({"response": "hello", "session_id": session});
        }
        if self.is(MintsNothing) {
            answer = json!({"reply": "hello"});
        }
        exchange.json(&answer);
    }

    fn frames(&self, session: &str) -> String {
        let frame = |name: &str, data: Value| {
            let mut data = data;
            data["event"] = json!(if self.is(AnotherNameInside) && name == "message.delta" { "delta" } else { name });
            match self.fault {
                FramesWithoutJson if name == "status" => format!("event: {name}\ndata: words\n\n"),
                _ => format!("event: {name}\ndata: {data}\n\n"),
            }
        };
        let start = frame("message.start", json!({"id": "m1", "session_id": session}));
        let text =
            frame("message.delta", json!({"id": if self.is(AnotherIdOnDelta) { "m2" } else { "m1" }, "text": "hi"}));
        let last = frame("message.end", json!({"id": "m1"}));
        let done = match self.fault {
            NoSessionOnDone => json!({}),
            _ => json!({"session_id": session}),
        };
        let done = frame("done", done);
        match self.fault {
            NoStart => [text, last, done].concat(),
            NoDelta => [start, last, done].concat(),
            NoEnd => [start, text, done].concat(),
            TwoEnds => [start, text, last.clone(), last, done].concat(),
            ErrorSaysNothing => [start, frame("error", json!({})), done].concat(),
            NoDone => [start, text, last].concat(),
            MoreAfterDone => [start, text, last, done, frame("error", json!({"message": "late"}))].concat(),
            AnEventMoreThanListed => [frame("status", json!({"message": "…"})), start, text, last, done].concat(),
            FramesWithoutJson => [start, frame("status", json!({})), text, last, done].concat(),
            _ => [start, text, last, done].concat(),
        }
    }

    /// Whose feed a request means; what it is refused with.
    fn feed(&self, exchange: &Exchange<'_>) -> Result<String, &'static str> {
        let request = &exchange.request;
        let parameter = |name: &str| {
            let query = request.target.split_once('?').map_or("", |(_, query)| query);
            query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('=')).map(str::to_owned)
        };
        let header = request.header("restap-session-id").map(str::to_owned).filter(|_| !self.is(NewsIgnoreTheHeader));
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let body = body["session_id"].as_str().map(str::to_owned);
        let session = match self.fault {
            NewsPreferTheQuery => parameter("session_id").or(header),
            _ => header.or_else(|| parameter("session_id")),
        };
        match session.or(body) {
            _ if !self.scoped => Ok(String::new()),
            Some(id) if id.len() < 16 && !self.is(NewsTakeAnyId) => Err("invalid_session_id"),
            _ if self.is(SessionsAreMixed) && request.target.contains("since") => Ok(String::new()),
            Some(id) => Ok(id),
            None if self.is(NewsTakeNoSession) => Ok(String::new()),
            None if self.is(NewsRefuseInOtherWords) => Err("no_session"),
            None => Err("missing_session_id"),
        }
    }

    fn read(&self, exchange: &mut Exchange<'_>) {
        let feed = match self.feed(exchange) {
            Ok(feed) => feed,
            Err(code) => return refuse(exchange, "400 Bad Request", code),
        };
        let streams = exchange.request.header("accept").is_some_and(|accept| accept.contains("text/event-stream"));
        if self.is(NewsStream) && streams {
            return exchange.stream("event: done\ndata: {}\n\n");
        }
        let mut feeds = self.feeds.lock().unwrap();
        let mut items: Vec<Value> = if self.is(SessionsAreMixed) {
            feeds.values().flatten().cloned().collect()
        } else {
            feeds.get(&feed).cloned().unwrap_or_default()
        };
        if self.is(NewsAreReadOnce) && !items.is_empty() && self.reads.fetch_add(1, Ordering::Relaxed) == 0 {
            feeds.clear();
        }
        let since = exchange.request.target.split("since=").nth(1).and_then(|since| since.parse::<i64>().ok());
        if !self.is(SinceIsIgnored) {
            items.retain(|item| item["timestamp"].as_i64().unwrap() > since.unwrap_or(0));
        }
        if self.is(ItemsHaveNoType) {
            for item in &mut items {
                item["type"] = Value::Null;
            }
        }
        let key = if self.is(NewsHaveNoItems) { "news" } else { "items" };
        exchange.json(&json!({key: items, "timestamp": 1_703_012_345_000_i64}));
    }

    fn post(&self, exchange: &mut Exchange<'_>) {
        if self.is(NewsRefuseItems) {
            return refuse(exchange, "400 Bad Request", "no");
        }
        let feed = match self.feed(exchange) {
            Ok(feed) => feed,
            Err(code) => return refuse(exchange, "400 Bad Request", code),
        };
        let mut item: Value = serde_json::from_slice(&exchange.request.body).unwrap();
        item["timestamp"] = json!(1_703_012_345_000_i64);
        if !self.is(NewsForget) {
            self.feeds.lock().unwrap().entry(feed).or_default().push(item);
        }
        let mut answer = json!({"status": "received", "news_id": "n1"});
        if self.is(NewsReply) {
            answer["reply"] = json!("Thank you!");
        }
        exchange.json(&answer);
    }
}

fn refuse(exchange: &mut Exchange<'_>, status: &str, code: &str) {
    exchange.answer(status, "Content-Type: application/json", json!({"error": code}).to_string().as_bytes());
}

fn probe(arguments: &[&str]) -> Finished {
    let mut command = Command::new(PROGRAM);
    command.arg("probe").args(arguments);
    finish(command)
}

/// The report for programs, and the exit code.
fn report(base: &str, more: &[&str]) -> (Value, Option<i32>) {
    let finished = probe(&[&[base, "--json"], more].concat());
    let report = serde_json::from_str(&finished.stdout).unwrap_or_else(|error| panic!("{error}: {finished:?}"));
    (report, finished.code)
}

/// The rules that ended so.
fn those<'a>(report: &'a Value, outcome: &str) -> Vec<&'a str> {
    let rules = report["rules"].as_array().unwrap().iter();
    rules.filter(|rule| rule["outcome"] == outcome).map(|rule| rule["rule"].as_str().unwrap()).collect()
}

#[test]
fn a_server_without_a_fault_passes_and_is_asked_for_no_more_than_was_promised() {
    for scoped in [false, true] {
        let double = Double::start(Nothing, scoped);
        let (report, code) = report(&double.url(), &["--strict"]);
        assert_eq!((code, &report["passed"]), (Some(0), &json!(true)), "{report:#}");
        let (broken, warned) = (those(&report, "broken"), those(&report, "warning"));
        assert_eq!((broken, warned), (vec![], vec![]), "{report:#}");
        assert_eq!(those(&report, "skipped"), ["stream.error"], "{report:#}");
        let requests = double.requests();
        let talks = |request: &&crate::support::Request| {
            request.target == "/talk" && String::from_utf8_lossy(&request.body).contains("What can you do?")
        };
        let valid = requests.iter().filter(talks).filter(|it| !String::from_utf8_lossy(&it.body).contains("too-short"));
        assert_eq!(valid.count(), 3);
        assert_eq!(requests.iter().filter(|it| it.method == "POST" && it.target.starts_with("/news")).count(), 1);
    }
}

#[test]
fn every_fault_is_found_by_its_rule_with_a_line_that_mends_it() {
    assert!(FAULTS.len() >= 20);
    let mut wrong = Vec::new();
    for (fault, rule, scoped) in FAULTS {
        let double = Double::start(*fault, *scoped);
        let (report, code) = report(&double.url(), &[]);
        let found = report["rules"].as_array().unwrap().iter().find(|it| it["rule"] == *rule).unwrap();
        let must = found["level"] == "MUST";
        let expected = if must { ("broken", 1) } else { ("warning", 0) };
        if (found["outcome"].as_str().unwrap(), code.unwrap()) != expected {
            wrong.push(format!("{fault:?}: {found}, exit {code:?}, broken {:?}", those(&report, "broken")));
        }
        for key in ["found", "mend", "section", "says"] {
            if found[key].as_str().is_none_or(str::is_empty) {
                wrong.push(format!("{fault:?}: nothing in {key}: {found}"));
            }
        }
        // A fault is not blamed on what is sound.
        let blamed = [those(&report, "broken"), those(&report, "warning")].concat();
        if blamed.len() > 2 {
            wrong.push(format!("{fault:?}: blamed are {blamed:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn our_own_agents_pass_with_and_without_what_they_may_leave_out() {
    let chat = Upstream::chat(&(delta("hello") + &end("stop")));
    let talking = chatting(&chat.url());
    for file in [
        "agent: {name: Guide}\n".to_owned(),
        "agent: {name: Silent, talk: off, news: off}\n".to_owned(),
        talking.clone(),
        talking.replace("model: m,", "model: m, streaming: false,"),
        talking.replace("model: m,", "model: m, history: {turns: 0},"),
        format!("{talking}  news: {{sessions: required}}\n"),
        format!("{talking}  news: {{sessions: ignored}}\n"),
        format!("{talking}  packages: [{{name: A, type: sdk}}]\n  protocols: {{mcp: {{available: false}}}}\n"),
    ] {
        let gateway = Gateway::start(&file);
        let (report, code) = report(&gateway.url(), &["--strict"]);
        assert_eq!(code, Some(0), "{file}: {:?} {:?}", those(&report, "broken"), those(&report, "warning"));
        assert!(those(&report, "held").len() > 15, "{file}: {report:#}");
    }
}

#[test]
fn an_agent_under_a_path_and_one_behind_a_key_are_judged_too() {
    let file = "agents:\n  a:\n    name: A\n    access: {api_keys: {ci: sk-probe-test-0123456789}, groups: {own: [api_key:ci]}, \
                tools: {own: [talk, news]}}\n";
    let gateway = Gateway::start(file);
    let base = format!("{}/agents/a", gateway.url());
    let (closed, code) = report(&base, &[]);
    assert_eq!(code, Some(0), "{closed:#}");
    let skipped = those(&closed, "skipped");
    assert!(skipped.contains(&"talk.served") && skipped.contains(&"news.read"), "{skipped:?}");
    let (open, code) = report(&base, &["--token", "sk-probe-test-0123456789", "--strict"]);
    assert_eq!(code, Some(0), "{open:#}");
    assert!(those(&open, "held").contains(&"talk.reply") && those(&open, "held").contains(&"news.stored"));
    let finished = probe(&[&base, "--header", "X-API-Key: sk-probe-test-0123456789"]);
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert!(
        finished.stdout.contains("passed") && !finished.stdout.contains("sk-probe-test-0123456789"),
        "{finished:?}"
    );
}

#[test]
fn read_only_writes_nothing() {
    let double = Double::start(Nothing, false);
    let (report, code) = report(&double.url(), &["--read-only"]);
    assert_eq!(code, Some(0), "{report:#}");
    assert!(double.requests().iter().all(|request| request.method == "GET"));
    assert!(those(&report, "skipped").contains(&"talk.served") && those(&report, "held").contains(&"news.read"));
}

#[test]
fn people_read_what_was_found_where_it_stands_and_what_mends_it() {
    let double = Double::start(NewsReply, false);
    let finished = probe(&[&double.url()]);
    assert_eq!(finished.code, Some(1), "{finished:?}");
    for part in
        ["broken", "news.never_replies", "found: the answer has a `reply`", "text:  \"Key Difference", "mend:  agent:"]
    {
        assert!(finished.stdout.contains(part), "{part}: {}", finished.stdout);
    }
    assert!(!finished.stdout.contains('\u{1b}'), "no colour where nobody looks");
    assert_eq!(probe(&["ftp://nowhere"]).code, Some(1));
    assert_eq!(probe(&[]).code, Some(2));
    let wrong = probe(&[&double.url(), "--header", "sk-secret-without-name"]);
    assert!(wrong.code == Some(1) && !wrong.stderr.contains("sk-secret"), "{wrong:?}");
    let nobody = probe(&[&Upstream::unreachable()]);
    assert!(nobody.code == Some(1) && nobody.stdout.contains("no connection"), "{nobody:?}");
}

#[test]
fn a_server_that_never_ends_is_left_in_time() {
    let drip = |exchange: &mut Exchange<'_>, head: &str, part: &[u8]| {
        exchange.send(format!("HTTP/1.1 200 OK\r\n{head}\r\nConnection: close\r\n\r\n"));
        let began = Instant::now();
        while began.elapsed() < Duration::from_mins(1) {
            if exchange.connection.socket.write_all(part).is_err() {
                break;
            }
            std::thread::sleep(Duration::from_millis(if part.len() > 100 { 0 } else { 50 }));
        }
        exchange.close();
    };
    let flood = vec![b' '; 64 << 10];
    let endless = Upstream::start(move |exchange| drip(exchange, "Content-Type: application/json", &flood));
    let dripping = Upstream::start(move |exchange| drip(exchange, "Content-Type: application/json", b" "));
    let circle = Upstream::start(|exchange| exchange.answer("302 Found", "Location: /again", b""));
    let elsewhere = Upstream::start(|exchange| exchange.answer("302 Found", "Location: http://192.0.2.1/", b""));
    for (server, what) in [
        (&endless, "longer than"),
        (&dripping, "did not end within 1 s"),
        (&circle, "redirect"),
        (&elsewhere, "redirect"),
    ] {
        let began = Instant::now();
        let (report, code) = report(&server.url(), &["--timeout", "1"]);
        assert!(began.elapsed() < Duration::from_secs(30));
        assert_eq!(code, Some(1), "{report:#}");
        let served = &report["rules"][0];
        assert!(served["found"].as_str().unwrap().contains(what), "{what}: {served}");
    }
}

#[test]
fn answers_of_wrong_kinds_end_in_findings() {
    for body in [
        "[]",
        "null",
        "7",
        "\"\"",
        "{\"capabilities\":7}",
        "{\"capabilities\":[7,{}]}",
        "{\"packages\":{},\"protocols\":[]}",
    ] {
        let server = Upstream::fixed("200 OK", "Content-Type: application/json", body);
        let (report, code) = report(&server.url(), &["--timeout", "5"]);
        assert_eq!(code, Some(1), "{body}: {report:#}");
    }
}
