//! The rules of `/news`.

use serde_json::Value;

use super::offers::{NewsSessions, Offers, text};
use super::report::{Report, Verdict};
use super::rule::{
    NEWS_DECLARED, NEWS_HEADER, NEWS_INVALID, NEWS_ITEMS, NEWS_KEPT, NEWS_MISSING, NEWS_POST, NEWS_PRECEDENCE,
    NEWS_READ, NEWS_SCOPED, NEWS_SILENT, NEWS_SINCE, NEWS_STORED, NEWS_STREAM,
};
use super::seen::{Answer, NewsSeen, Reply, Seen, short};

pub(super) fn judge(seen: &Seen, offers: &Offers, report: &mut Report) {
    let news = &seen.news;
    let listed = offers.news_read || offers.news_post;
    let bare = match &news.bare {
        Reply::NotAsked(why) => return report.rest("news", Verdict::Skipped((*why).to_owned())),
        Reply::Failed(why) => return report.note(&NEWS_READ, Verdict::Broken(why.clone())),
        Reply::Came(answer) => answer,
    };
    let missing = bare.is_missing();
    if missing && !listed {
        let why = "the catalog lists no news, and there are none".to_owned();
        return report.rest("news", Verdict::NotOffered(why));
    }
    let read = match news.read() {
        _ if missing && !offers.news_read => {
            report.note(&NEWS_READ, Verdict::NotOffered("the catalog lists no reading of news".to_owned()));
            None
        }
        reply => match reply.answer() {
            Some(answer) if answer.withheld().is_some() => {
                report.note(&NEWS_READ, Verdict::Skipped(answer.withheld().unwrap_or_default()));
                None
            }
            _ => {
                report.hold(&NEWS_READ, unreadable(reply));
                items(reply)
            }
        },
    };
    scoping(news, offers, report);
    writing(news, offers, report);
    let newest = items(&news.after).or(read);
    if let Some(items) = newest.filter(|items| !items.is_empty()) {
        report.hold(&NEWS_ITEMS, items.iter().find_map(shapeless));
    }
    if let Some(later) = items(&news.since) {
        let old = later.iter().filter_map(time).find(|time| *time <= news.since_time);
        report.hold(&NEWS_SINCE, old.map(|time| format!("since={} gives an item of {time}", news.since_time)));
    }
    if let Some(answer) = news.again.answer() {
        report.hold(&NEWS_STREAM, answer.says_stream().then(|| "GET was answered with text/event-stream".to_owned()));
    }
}

impl NewsSeen {
    /// Whether a read without a session was refused as one that lacks something.
    pub fn is_refused_bare(&self) -> bool {
        matches!(self.bare.status(), Some(400 | 422))
    }

    /// Whether a session is needed: the server says so, or takes the same read with one.
    pub fn wants_session(&self) -> bool {
        let taken = self.takes_header() || self.by_query.answer().is_some_and(Answer::is_success);
        self.is_refused_bare() && (taken || self.bare.is_error(400, "missing_session_id"))
    }

    /// The first read that is allowed.
    pub fn read(&self) -> &Reply {
        match (self.wants_session(), self.takes_header()) {
            (false, _) => &self.bare,
            (true, true) => &self.by_header,
            (true, false) => &self.by_query,
        }
    }

    /// Whether the session was taken from the header.
    pub fn takes_header(&self) -> bool {
        self.by_header.answer().is_some_and(Answer::is_success)
    }

    /// The newest timestamp of the read after the post.
    pub fn newest(&self) -> Option<i64> {
        items(&self.after)?.iter().filter_map(time).max()
    }

    /// Whether a reply shows the item that was posted.
    pub fn shows_mark(&self, reply: &Reply) -> Option<bool> {
        let found = items(reply)?.iter().any(|item| item.to_string().contains(&self.mark));
        Some(found && !self.mark.is_empty())
    }
}

fn items(reply: &Reply) -> Option<Vec<Value>> {
    reply.value()?.get("items")?.as_array().cloned()
}

fn time(item: &Value) -> Option<i64> {
    let timestamp = item.get("timestamp")?;
    timestamp.as_i64().or_else(|| timestamp.as_f64().map(|it| it as i64))
}

fn unreadable(reply: &Reply) -> Option<String> {
    let answer = match reply {
        Reply::Came(answer) => answer,
        Reply::Failed(why) => return Some(why.clone()),
        Reply::NotAsked(_) => return Some("no session that was tried is taken".to_owned()),
    };
    if !answer.is_success() || answer.flaw.is_some() {
        return Some(answer.told());
    }
    if !answer.says_json() {
        return Some(format!("Content-Type is `{}`", short(&answer.content_type)));
    }
    match answer.json().as_ref().and_then(|body| body.get("items")) {
        None => Some("there is no `items`".to_owned()),
        Some(Value::Array(items)) if items.iter().all(Value::is_object) => None,
        Some(Value::Array(_)) => Some("an item is no object".to_owned()),
        Some(_) => Some("`items` is no array".to_owned()),
    }
}

fn shapeless(item: &Value) -> Option<String> {
    if text(item, "type").is_empty() {
        return Some("an item has no type".to_owned());
    }
    time(item).is_none().then(|| "an item has no timestamp that is a number".to_owned())
}

/// Who may read without a session, and what a session does.
fn scoping(news: &NewsSeen, offers: &Offers, report: &mut Report) {
    let wants = news.wants_session();
    let Some(bare) = news.bare.answer() else { return };
    let required = offers.news_sessions == NewsSessions::Required;
    match bare.status {
        _ if wants => {
            let right = news.bare.is_error(400, "missing_session_id");
            report.hold(&NEWS_MISSING, (!right).then(|| bare.told()));
        }
        200..300 if required => {
            let told = "the catalog says that a session is required, and a read without one is answered".to_owned();
            report.note(&NEWS_MISSING, Verdict::Broken(told));
        }
        _ if required => {}
        _ => report.note(&NEWS_MISSING, Verdict::NotOffered("no session is required".to_owned())),
    }
    if wants {
        let silent = (offers.news_sessions != NewsSessions::Required)
            .then(|| "the catalog has no sessions.required for news".to_owned());
        report.hold(&NEWS_DECLARED, silent);
        let refused = (!news.takes_header()).then(|| "a session in the header alone is not taken".to_owned());
        report.hold(&NEWS_HEADER, refused);
    } else {
        let why = "no session is required";
        for rule in [&NEWS_DECLARED, &NEWS_HEADER, &NEWS_PRECEDENCE, &NEWS_SCOPED] {
            report.note(rule, Verdict::NotOffered(why.to_owned()));
        }
    }
    match news.malformed.answer() {
        Some(answer) if answer.withheld().is_none() => {
            let right = news.malformed.is_error(400, "invalid_session_id");
            report.hold(&NEWS_INVALID, (!right).then(|| format!("it was answered with {}", answer.told())));
        }
        Some(_) => {}
        None => report.note(&NEWS_INVALID, Verdict::NotOffered("sessions do not count on /news".to_owned())),
    }
    if news.shows_mark(&news.after) == Some(true) && wants {
        if let Some(shown) = news.shows_mark(&news.other) {
            report.hold(&NEWS_SCOPED, shown.then(|| "another session reads the item".to_owned()));
        }
        if let Some(shown) = news.shows_mark(&news.both) {
            report.hold(&NEWS_PRECEDENCE, (!shown).then(|| "the query parameter was followed".to_owned()));
        } else if news.both.answer().is_some() {
            report.note(&NEWS_PRECEDENCE, Verdict::Broken("both together are refused".to_owned()));
        }
    }
}

/// What becomes of an item that is posted.
fn writing(news: &NewsSeen, offers: &Offers, report: &mut Report) {
    let skip = |report: &mut Report, verdict: &Verdict| {
        for rule in [&NEWS_POST, &NEWS_SILENT, &NEWS_STORED, &NEWS_KEPT] {
            report.note(rule, verdict.clone());
        }
    };
    let answer = match &news.posted {
        Reply::NotAsked(why) => return skip(report, &Verdict::Skipped((*why).to_owned())),
        Reply::Failed(why) => return report.note(&NEWS_POST, Verdict::Broken(why.clone())),
        Reply::Came(answer) => answer,
    };
    if let Some(why) = answer.withheld() {
        return skip(report, &Verdict::Skipped(why));
    }
    if answer.is_missing() && !offers.news_post {
        return skip(report, &Verdict::NotOffered("the catalog lists no posting of news".to_owned()));
    }
    report.hold(&NEWS_POST, (!answer.is_success()).then(|| answer.told()));
    if !answer.is_success() {
        return;
    }
    let body = answer.json().unwrap_or_default();
    let replies = match body.get("reply") {
        _ if answer.says_stream() => Some("it was answered with text/event-stream".to_owned()),
        Some(Value::String(_) | Value::Object(_)) => Some("the answer has a `reply`".to_owned()),
        _ => None,
    };
    report.hold(&NEWS_SILENT, replies);
    let Some(stored) = news.shows_mark(&news.after) else { return };
    report.hold(&NEWS_STORED, (!stored).then(|| "it is not among the items that are read afterwards".to_owned()));
    if stored && let Some(kept) = news.shows_mark(&news.again) {
        report.hold(&NEWS_KEPT, (!kept).then(|| "a second read does not have it".to_owned()));
    }
}
