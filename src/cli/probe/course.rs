//! What is asked, in which order: each request only where what came before makes it fair.

use serde_json::{Value, json};

use super::ask::{Ask, Asker};
use crate::probe::{Answer, Got, NewsSeen, NewsSessions, Offers, Reply, Seen, TalkSeen};
use crate::restap::{CATALOG_PATH, NEWS_PATH, SessionId, TALK_PATH};

/// The message that is sent.
const MESSAGE: &str = "What can you do?";

/// What is no session id: it is shorter than any.
const MALFORMED: &str = "too-short";

const EVENTS: &str = "text/event-stream";
const EVENTS_OR_JSON: &str = "text/event-stream, application/json";

const READ_ONLY: Reply = Reply::NotAsked("--read-only leaves out what writes");

pub(super) async fn run(asker: &Asker<'_>, read_only: bool) -> Seen {
    let mut seen = Seen { is_private: asker.is_private(), ..Seen::default() };
    seen.catalog = asker.ask(Ask::get(CATALOG_PATH)).await;
    if let Reply::Failed(_) = seen.catalog {
        // Nobody is there, or nobody who answers.
        return seen;
    }
    let offers = Offers::of(seen.catalog.value().as_ref());
    seen.talk =
        if read_only { TalkSeen { whole: READ_ONLY, ..TalkSeen::default() } } else { talk(asker, &offers).await };
    let session = seen.talk.whole.session().unwrap_or_else(SessionId::mint);
    seen.news = news(asker, &offers, &session, read_only).await;
    for get in offers.gets {
        let reply = asker.ask(Ask::get(&get.path).accept("application/json, */*;q=0.8")).await;
        seen.gets.push(Got { id: get.id, output_schema: get.output_schema, reply });
    }
    seen
}

async fn talk(asker: &Asker<'_>, offers: &Offers) -> TalkSeen {
    let message = json!({"message": MESSAGE});
    let mut seen = TalkSeen { whole: asker.ask(Ask::post(TALK_PATH, &message)).await, ..TalkSeen::default() };
    if !seen.whole.answer().is_some_and(Answer::is_success) {
        return seen;
    }
    seen.streamed = asker.ask(Ask::post(TALK_PATH, &message).accept(EVENTS)).await;
    seen.empty = asker.ask(Ask::post(TALK_PATH, &"{}")).await;
    seen.broken = asker.ask(Ask::post(TALK_PATH, &"{\"message\":")).await;
    let minted = seen.whole.value().is_some_and(|body| body.get("session_id").is_some_and(Value::is_string));
    if offers.sessions == Some(true) || minted {
        let within = |id: &str| json!({"message": MESSAGE, "session_id": id});
        seen.malformed = asker.ask(Ask::post(TALK_PATH, &within(MALFORMED))).await;
        seen.malformed_streamed = asker.ask(Ask::post(TALK_PATH, &within(MALFORMED)).accept(EVENTS_OR_JSON)).await;
        let shaped = format!("Probe.{}_", SessionId::mint().expose().replace('-', ""));
        seen.shaped = asker.ask(Ask::post(TALK_PATH, &within(&shaped))).await;
    }
    seen
}

async fn news(asker: &Asker<'_>, offers: &Offers, session: &SessionId, read_only: bool) -> NewsSeen {
    let mut seen = NewsSeen { bare: asker.ask(Ask::get(NEWS_PATH)).await, ..NewsSeen::default() };
    let in_query = |id: &SessionId| format!("{NEWS_PATH}?session_id={}", id.expose());
    if seen.is_refused_bare() {
        seen.by_header = asker.ask(Ask::get(NEWS_PATH).session(Some(session))).await;
        if !seen.takes_header() {
            seen.by_query = asker.ask(Ask::get(&in_query(session))).await;
        }
    }
    let (wants, by_header) = (seen.wants_session(), seen.takes_header());
    // Where a session is needed: in the header where that is taken, else where the server takes it.
    let header = (wants && by_header).then_some(session);
    let path = if wants && !by_header { in_query(session) } else { NEWS_PATH.to_owned() };
    if wants || offers.news_sessions > NewsSessions::Unsaid {
        seen.malformed = if wants && !by_header {
            asker.ask(Ask::get(&format!("{NEWS_PATH}?session_id={MALFORMED}"))).await
        } else {
            asker.ask(Ask::get(NEWS_PATH).malformed(MALFORMED)).await
        };
    }
    let gone = seen.bare.answer().is_none_or(|answer| answer.withheld().is_some());
    if read_only || gone {
        seen.posted = if read_only { READ_ONLY } else { Reply::NotAsked("reading did not work") };
    } else {
        // Who reads the item should know what it is.
        seen.mark = format!("restap-gateway probe {}", SessionId::mint().expose());
        let mut item = json!({"type": "probe", "from": "restap-gateway probe", "message": seen.mark});
        if wants && let Some(item) = item.as_object_mut() {
            item.insert("session_id".to_owned(), session.expose().into());
        }
        seen.posted = asker.ask(Ask::post(NEWS_PATH, &item).session(header).accept(EVENTS_OR_JSON)).await;
    }
    if !seen.read().answer().is_some_and(Answer::is_success) {
        return seen;
    }
    seen.after = asker.ask(Ask::get(&path).session(header)).await;
    seen.again = asker.ask(Ask::get(&path).session(header).accept(EVENTS_OR_JSON)).await;
    if let Some(newest) = seen.newest() {
        seen.since_time = newest;
        let separator = if path.contains('?') { '&' } else { '?' };
        seen.since = asker.ask(Ask::get(&format!("{path}{separator}since={newest}")).session(header)).await;
    }
    if wants && seen.posted.answer().is_some_and(Answer::is_success) {
        let other = SessionId::mint();
        if by_header {
            seen.other = asker.ask(Ask::get(NEWS_PATH).session(Some(&other))).await;
            seen.both = asker.ask(Ask::get(&in_query(&other)).session(Some(session))).await;
        } else {
            seen.other = asker.ask(Ask::get(&in_query(&other))).await;
        }
    }
    seen
}
