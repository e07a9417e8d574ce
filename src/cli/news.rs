//! `news`: reads, follows and posts the news of any RESTAP agent.

use std::collections::{HashSet, VecDeque};
use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::time::Duration;

use bytes::Bytes;
use chrono::{DateTime, SecondsFormat, Utc};
use clap::Args;
use clap::builder::TypedValueParser;
use clap::error::ErrorKind;
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde_json::{Map, Value};

use super::agent::{self, Agent, printable};
use super::{Fault, complain, say};
use crate::net::{Client, Coding, Peer, Request, Timeouts};
use crate::restap::{SESSION_HEADER, SessionId};

/// How long an agent is asked to hold an empty answer back.
const WAIT: Duration = Duration::from_secs(30);

/// How long its answer may take beyond that.
const PATIENCE: Duration = Duration::from_secs(15);

/// Between two looks at an agent that does not wait.
const PAUSE: Duration = Duration::from_secs(2);

/// Between tries while it can't be asked: twice as long each time.
const RETRY: Duration = Duration::from_millis(250);
const RETRY_MAX: Duration = Duration::from_secs(10);

/// The longest `Retry-After` that is kept to.
const RETRY_AFTER_MAX: Duration = Duration::from_mins(5);

/// Bytes of a page.
const PAGE_BYTES_MAX: usize = 64 << 20;

/// Items whose repetition would be noticed.
const REMEMBERED: usize = 10_000;

/// Read an agent's news, follow them, or post an item.
///
/// Example: restap-gateway news http://127.0.0.1:8080 --follow
#[derive(Debug, Args)]
pub(super) struct News {
    /// The agent's base URL.
    base: String,
    /// Only items after this time, in unix milliseconds; without it the newest.
    #[arg(long, value_name = "N")]
    since: Option<u64>,
    /// The feed of this session; without it the agent's own. It is sent in a header.
    #[arg(long, value_name = "ID", value_parser = SessionArgument)]
    session: Option<SessionId>,
    /// Go on with what comes, also while the agent restarts.
    #[arg(long)]
    follow: bool,
    /// Post an item of this type.
    #[arg(long, value_name = "TYPE", conflicts_with_all = ["since", "follow"])]
    post: Option<String>,
    /// The text of the item.
    #[arg(long, value_name = "TEXT", requires = "post")]
    message: Option<String>,
    /// Anything else that the item says, as JSON.
    #[arg(long, value_name = "JSON", requires = "post", value_parser = json)]
    data: Option<Value>,
    /// Print each item, or the answer to a post, as one line of JSON.
    #[arg(long)]
    json: bool,
}

fn json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|problem| format!("it is not JSON: {problem}"))
}

/// A session id is a secret: a mistyped one is not repeated on the terminal.
#[derive(Debug, Clone)]
struct SessionArgument;

impl TypedValueParser for SessionArgument {
    type Value = SessionId;

    fn parse_ref(
        &self,
        command: &clap::Command,
        _: Option<&clap::Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<SessionId, clap::Error> {
        SessionId::parse(value.to_str().unwrap_or_default()).map_err(|_| {
            let rule = "a session id must match ^[A-Za-z0-9._-]{16,128}$";
            clap::Error::raw(ErrorKind::ValueValidation, rule).with_cmd(command)
        })
    }
}

impl News {
    pub(super) fn run(self) -> Result<(), Fault> {
        let agent = Agent::at(&self.base)?;
        match &self.post {
            Some(kind) => self.post(&agent, kind),
            None => agent.within(async |client, peer| Reading::new(&self, &agent, client, peer).run().await),
        }
    }

    fn post(&self, agent: &Agent, kind: &str) -> Result<(), Fault> {
        let mut item = Map::from_iter([("type".to_owned(), Value::from(kind))]);
        item.extend(self.message.as_deref().map(|message| ("message".to_owned(), Value::from(message))));
        item.extend(self.data.clone().map(|data| ("data".to_owned(), data)));
        let mut headers = self.headers();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let request = Request {
            method: Method::POST,
            target: agent.target("/news")?,
            headers,
            body: Bytes::from(Value::Object(item).to_string()),
            coding: Coding::Decoded,
            timeouts: Timeouts { first_byte: Some(WAIT), idle: Some(PATIENCE) },
        };
        let answer = agent.within(async |client, peer| {
            let response = client.send(peer, request).await.map_err(Fault::new)?;
            agent::answer(response, PAGE_BYTES_MAX).await
        })?;
        let id = answer.get("news_id").and_then(Value::as_str);
        match (self.json, id) {
            (false, Some(id)) => say(&format!("{}\n", printable(id))),
            _ => say(&format!("{answer}\n")),
        }
        Ok(())
    }

    fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("application/json"))]);
        // The grammar of a session id is that of a header's value.
        let session = self.session.as_ref().and_then(|session| HeaderValue::from_str(session.expose()).ok());
        if let Some(mut session) = session {
            session.set_sensitive(true);
            headers.insert(HeaderName::from_static(SESSION_HEADER), session);
        }
        headers
    }
}

/// What became of one question.
enum Asked {
    Page(Value),
    /// It may be better later.
    Later(Fault, Option<Duration>),
    Refused(Fault),
}

/// A feed that is read.
struct Reading<'a> {
    news: &'a News,
    agent: &'a Agent,
    client: &'a Client,
    peer: &'a Peer,
    since: Option<u64>,
    shown: Shown,
}

impl<'a> Reading<'a> {
    fn new(news: &'a News, agent: &'a Agent, client: &'a Client, peer: &'a Peer) -> Self {
        Self { news, agent, client, peer, since: news.since, shown: Shown::default() }
    }

    async fn run(mut self) -> Result<(), Fault> {
        // A first answer says that there is an agent; whoever follows one has a mistyped URL otherwise.
        let mut page = match self.ask(None).await {
            Asked::Page(page) => page,
            Asked::Later(fault, _) | Asked::Refused(fault) => return Err(fault),
        };
        loop {
            let more = self.take(&page)?;
            if self.shown.nobody_reads || !(more || self.news.follow) {
                return Ok(());
            }
            page = if more { self.next_page().await? } else { self.coming().await? };
        }
    }

    /// The page behind one that was cut.
    async fn next_page(&mut self) -> Result<Value, Fault> {
        if self.news.follow {
            return self.coming().await;
        }
        match self.ask(None).await {
            Asked::Page(page) => Ok(page),
            Asked::Later(fault, _) | Asked::Refused(fault) => Err(fault),
        }
    }

    /// The next page that the agent gives, however long it is away.
    async fn coming(&mut self) -> Result<Value, Fault> {
        let (mut pause, mut is_away) = (RETRY, false);
        loop {
            let began = tokio::time::Instant::now();
            match self.ask(Some(WAIT)).await {
                Asked::Page(page) => {
                    if is_away {
                        complain("the agent answers again");
                    }
                    if items(&page).is_empty() && began.elapsed() < PAUSE {
                        // Not every agent waits, and none is asked without a pause.
                        tokio::time::sleep(PAUSE).await;
                    }
                    return Ok(page);
                }
                Asked::Refused(fault) => return Err(fault),
                Asked::Later(fault, after) => {
                    if !std::mem::replace(&mut is_away, true) {
                        complain(&format!("{fault}; it is asked again until it answers"));
                    }
                    tokio::time::sleep(after.unwrap_or(pause)).await;
                    pause = RETRY_MAX.min(pause * 2);
                }
            }
        }
    }

    async fn ask(&self, wait: Option<Duration>) -> Asked {
        let since = self.since.map(|since| format!("?since={since}")).unwrap_or_default();
        let target = match self.agent.target(&format!("/news{since}")) {
            Ok(target) => target,
            Err(fault) => return Asked::Refused(fault),
        };
        let mut headers = self.news.headers();
        if let Some(wait) = wait {
            let wait = HeaderValue::try_from(format!("wait={}", wait.as_secs()));
            headers.extend(wait.ok().map(|wait| (HeaderName::from_static("prefer"), wait)));
        }
        let request = Request {
            method: Method::GET,
            target,
            headers,
            body: Bytes::new(),
            coding: Coding::Decoded,
            timeouts: Timeouts { first_byte: Some(WAIT + PATIENCE), idle: Some(PATIENCE) },
        };
        let response = match self.client.send(self.peer, request).await {
            Ok(response) => response,
            Err(problem) => return Asked::Later(Fault::new(problem), None),
        };
        let (status, after) = (response.status, retry_after(&response.headers));
        let is_passing = status.is_server_error() || status.as_u16() == 408 || status.as_u16() == 429;
        match agent::answer(response, PAGE_BYTES_MAX).await {
            Ok(page) if page.get("items").is_some_and(Value::is_array) => Asked::Page(page),
            Ok(_) => Asked::Refused(Fault::new("the answer has no items, so there is no RESTAP agent at this URL")),
            // A connection that ends within an answer is as passing as one that can't be made.
            Err(fault) if is_passing || status.is_success() && self.since.is_some() => Asked::Later(fault, after),
            Err(fault) => Asked::Refused(fault),
        }
    }

    /// Shows a page and moves on behind it; whether there is more at once.
    fn take(&mut self, page: &Value) -> Result<bool, Fault> {
        let items = items(page);
        for item in items {
            self.shown.item(item, self.news.json);
        }
        let newest = items.iter().filter_map(|item| item.get("timestamp")?.as_u64()).max();
        let said = page.get("timestamp").and_then(Value::as_u64);
        let before = self.since;
        self.since = match (said, newest) {
            // Agents that name an earlier time than their newest item's would show it again.
            (said, Some(newest)) => Some(newest.max(said.unwrap_or_default())),
            // One that has lost its last items begins again where it is now.
            (Some(said), None) => Some(said),
            (None, None) => self.since,
        };
        let more = page.get("more").and_then(Value::as_bool).unwrap_or(false);
        // Backwards from the newest, what lies beyond is not asked for.
        let forwards = before.is_some_and(|since| since > 0);
        if more && forwards && self.since == before {
            return Err(Fault::new("the agent says that there is more, and gives nothing"));
        }
        Ok(more && forwards)
    }
}

fn items(page: &Value) -> &[Value] {
    page.get("items").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds: u64 = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(RETRY_AFTER_MAX))
}

/// What was shown.
#[derive(Default)]
struct Shown {
    known: HashSet<String>,
    order: VecDeque<String>,
    /// Whoever read what is printed has left.
    nobody_reads: bool,
}

impl Shown {
    /// Shows an item, unless it was shown before.
    fn item(&mut self, item: &Value, json: bool) {
        let id = item.get("id").and_then(Value::as_str).map_or_else(|| item.to_string(), str::to_owned);
        if !self.known.insert(id.clone()) {
            return;
        }
        self.order.push_back(id);
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        let line = if json { format!("{item}\n") } else { line(item, std::io::stdout().is_terminal()) };
        let mut out = std::io::stdout().lock();
        self.nobody_reads |= out.write_all(line.as_bytes()).and_then(|()| out.flush()).is_err();
    }
}

/// An item for people: when, what, who, and what it says. Nothing of it moves the cursor.
fn line(item: &Value, is_terminal: bool) -> String {
    let text = |key: &str| item.get(key).and_then(Value::as_str).map(printable).unwrap_or_default();
    let word = |key: &str| text(key).replace(['\n', '\t'], " ");
    let time = item.get("timestamp").and_then(Value::as_i64).and_then(DateTime::<Utc>::from_timestamp_millis);
    let time = time.map(|time| time.to_rfc3339_opts(SecondsFormat::Millis, true)).unwrap_or_default();
    let mut line = if is_terminal { format!("\u{1b}[2m{time}\u{1b}[0m ") } else { format!("{time} ") };
    // Writing into a String does not fail.
    let kind = word("type");
    let _ = if is_terminal { write!(line, "\u{1b}[1m{kind}\u{1b}[0m") } else { write!(line, "{kind}") };
    let from = word("from");
    if !from.is_empty() {
        let _ = write!(line, " from {from}");
    }
    for part in text("message").lines() {
        let _ = write!(line, "\n  {part}");
    }
    if let Some(data) = item.get("data").filter(|data| !data.is_null()) {
        let _ = write!(line, "\n  {}", printable(&data.to_string()));
    }
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_item_is_lines_that_can_not_move_the_cursor() {
        let item = json!({"id": "n", "type": "reply", "timestamp": 1_700_000_000_123_u64, "from": "b\u{1b}[2J\nnote",
            "message": "one\ntwo\r\u{9b}31m", "data": {"a": 1}});
        let expected = "2023-11-14T22:13:20.123Z reply from b[2J note\n  one\n  two31m\n  {\"a\":1}\n";
        assert_eq!(line(&item, false), expected);
        assert_eq!(line(&json!({"type": "note", "message": "\u{202e}"}), false), " note\n");
    }

    #[test]
    fn a_pause_is_named_in_seconds_and_bounded() {
        let after =
            |value: &'static str| retry_after(&HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static(value))]));
        assert_eq!(after("3"), Some(Duration::from_secs(3)));
        assert_eq!(after("86400"), Some(RETRY_AFTER_MAX));
        assert_eq!(after("Wed, 21 Oct 2015 07:28:00 GMT"), None);
    }
}
