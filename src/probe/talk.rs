//! The rules of `/talk` that its whole answers show: negotiation, the reply, errors and sessions.

use serde_json::Value;

use super::entropy;
use super::offers::Offers;
use super::report::{Report, Verdict};
use super::rule::{
    SESSION_ANY_SHAPE, SESSION_ENTROPY, SESSION_FORMAT, SESSION_INVALID, SESSION_INVALID_SSE, SESSION_MINTED,
    TALK_ERRORS, TALK_INPUT, TALK_JSON, TALK_REPLY, TALK_SERVED,
};
use super::seen::{Answer, Reply, Seen, short};
use super::stream;
use crate::restap::SessionId;

pub(super) fn judge(seen: &Seen, offers: &Offers, report: &mut Report) {
    let talk = &seen.talk;
    let answer = match &talk.whole {
        Reply::NotAsked(why) => return leave_out(report, &Verdict::Skipped((*why).to_owned())),
        Reply::Failed(why) => return report.note(&TALK_SERVED, Verdict::Broken(why.clone())),
        Reply::Came(answer) => answer,
    };
    if let Some(why) = answer.withheld() {
        return leave_out(report, &Verdict::Skipped(why));
    }
    if answer.is_missing() && !offers.talk {
        return leave_out(report, &Verdict::NotOffered("the catalog lists no talk, and there is none".to_owned()));
    }
    let failed = !answer.is_success() || answer.flaw.is_some();
    report.hold(&TALK_SERVED, failed.then(|| answer.told()));
    if failed {
        return;
    }
    let told = short(&answer.content_type);
    report.hold(&TALK_JSON, (!answer.says_json()).then(|| format!("Content-Type is `{told}`")));
    if answer.says_stream() {
        report.note(&TALK_REPLY, Verdict::Skipped("a stream came instead of JSON".to_owned()));
    } else {
        report.hold(&TALK_REPLY, no_reply(answer));
    }
    inputs(&[&talk.empty, &talk.broken], report);
    sessions(seen, offers, report);
}

/// Nothing of talk is judged.
fn leave_out(report: &mut Report, verdict: &Verdict) {
    for group in ["talk", "session", "stream"] {
        report.rest(group, verdict.clone());
    }
}

fn no_reply(answer: &Answer) -> Option<String> {
    let Some(body) = answer.json() else { return Some("the body is not JSON".to_owned()) };
    let has_text = |key: &str| body.get(key).is_some_and(Value::is_string);
    // The text shows both: an answer, and the note that it comes later.
    if has_text("reply") || has_text("query_id") {
        return None;
    }
    let keys = body.as_object().map(|body| body.keys().take(5).map(|key| short(key)).collect::<Vec<_>>().join(", "));
    Some(
        keys.map_or_else(|| "the body is no object".to_owned(), |keys| format!("there is no text `reply`, but {keys}")),
    )
}

fn inputs(replies: &[&Reply], report: &mut Report) {
    let answers = || replies.iter().filter_map(|reply| reply.answer()).filter(|answer| answer.withheld().is_none());
    if answers().next().is_none() {
        return;
    }
    let taken = answers().find(|answer| !(400..500).contains(&answer.status));
    report.hold(&TALK_INPUT, taken.map(|answer| format!("it was answered with {}", answer.told())));
    let refusals = || answers().filter(|answer| answer.status >= 400);
    if refusals().next().is_some() {
        let shapeless = refusals().find(|answer| answer.code().is_none());
        report.hold(
            &TALK_ERRORS,
            shapeless.map(|answer| format!("a {} has no text `error` in a JSON body", answer.status)),
        );
    }
}

fn sessions(seen: &Seen, offers: &Offers, report: &mut Report) {
    let talk = &seen.talk;
    let in_body = talk.whole.value().and_then(|body| body.get("session_id").cloned()).filter(|it| !it.is_null());
    let whole = in_body.or_else(|| stream::session(&talk.whole));
    let streamed = stream::session(&talk.streamed);
    if offers.sessions != Some(true) && whole.is_none() && streamed.is_none() {
        let why = if offers.sessions == Some(false) { "sessions.supported is false" } else { "no session is minted" };
        report.rest("session", Verdict::NotOffered(why.to_owned()));
        return;
    }
    if offers.sessions == Some(true) {
        let none = whole.is_none().then(|| "the JSON answer has no session_id".to_owned());
        report.hold(&SESSION_MINTED, none);
    } else {
        report.note(&SESSION_MINTED, Verdict::NotOffered("the catalog does not promise it".to_owned()));
    }
    let minted: Vec<&Value> = [&whole, &streamed].into_iter().flatten().collect();
    let ids: Vec<&str> = minted.iter().filter_map(|it| it.as_str()).collect();
    if !minted.is_empty() {
        let fits = minted.len() == ids.len() && ids.iter().all(|id| SessionId::parse(id).is_ok());
        report.hold(&SESSION_FORMAT, (!fits).then(|| "a minted session_id is something else".to_owned()));
    }
    if let [one, other] = ids.as_slice() {
        report.hold(&SESSION_ENTROPY, entropy::too_little(one, other));
    }
    let refused = |reply: &Reply| {
        let answer = reply.answer().filter(|answer| answer.withheld().is_none())?;
        let right = reply.is_error(400, "invalid_session_id");
        Some((!right).then(|| format!("it was answered with {}", answer.told())))
    };
    if let Some(found) = refused(&talk.malformed) {
        report.hold(&SESSION_INVALID, found);
    }
    if let Some(found) = refused(&talk.malformed_streamed) {
        report.hold(&SESSION_INVALID_SSE, found);
    }
    if let Some(answer) = talk.shaped.answer().filter(|answer| answer.withheld().is_none()) {
        report.hold(&SESSION_ANY_SHAPE, (!answer.is_success()).then(|| answer.told()));
    }
}
