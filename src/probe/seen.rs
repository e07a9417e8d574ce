//! `Seen`: everything that a server was asked and what it answered, as plain data.

use serde_json::Value;

use crate::restap::SessionId;

/// Everything that was asked.
#[derive(Debug, Default)]
pub struct Seen {
    /// Whether the base URL is `https://`, or leads to this machine, where TLS protects nothing.
    pub is_private: bool,
    /// `GET /.well-known/restap.json`, redirects within the origin followed.
    pub catalog: Reply,
    /// What `/talk` was asked.
    pub talk: TalkSeen,
    /// What `/news` was asked.
    pub news: NewsSeen,
    /// Capabilities that were called, and what they answered.
    pub gets: Vec<Got>,
}

/// One safe capability that was called.
#[derive(Debug)]
pub struct Got {
    /// Its id.
    pub id: String,
    /// Its `output_schema`.
    pub output_schema: Option<Value>,
    /// What came.
    pub reply: Reply,
}

/// What `/talk` was asked.
#[derive(Debug, Default)]
pub struct TalkSeen {
    /// A message without `Accept` and without a session.
    pub whole: Reply,
    /// The same for `Accept: text/event-stream` alone.
    pub streamed: Reply,
    /// The same as JSON, with a session id of an unusual but valid shape.
    pub shaped: Reply,
    /// `{}`.
    pub empty: Reply,
    /// Half of a JSON text.
    pub broken: Reply,
    /// A session id that is too short.
    pub malformed: Reply,
    /// The same for `Accept: text/event-stream`.
    pub malformed_streamed: Reply,
}

/// What `/news` was asked.
#[derive(Debug, Default)]
pub struct NewsSeen {
    /// A read without a session.
    pub bare: Reply,
    /// A read with a session in the header, where a session is needed.
    pub by_header: Reply,
    /// A read with it in the query, where the header is not taken.
    pub by_query: Reply,
    /// A post, in the session where one is needed; it would accept a stream.
    pub posted: Reply,
    /// A read of the same feed after the post.
    pub after: Reply,
    /// The same read again, by who would accept a stream.
    pub again: Reply,
    /// `since` the newest timestamp of `after`.
    pub since: Reply,
    /// That timestamp.
    pub since_time: i64,
    /// A read with a malformed session, where sessions count.
    pub malformed: Reply,
    /// A read with another session, where one is needed.
    pub other: Reply,
    /// A read with the session in the header and another one in the query.
    pub both: Reply,
    /// The text by which the posted item is known again.
    pub mark: String,
}

/// What became of a request.
#[derive(Debug, Clone)]
pub enum Reply {
    /// It was not sent, and why.
    NotAsked(&'static str),
    /// Nothing that is an answer came, and why.
    Failed(String),
    /// An answer.
    Came(Answer),
}

/// An answer.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// `Content-Type`, in lower case; empty if there is none.
    pub content_type: String,
    /// The body, as far as it came.
    pub body: Vec<u8>,
    /// Why the body is not whole.
    pub flaw: Option<Flaw>,
}

/// Why a body is not whole.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Flaw {
    /// It is larger than what is read.
    #[error("the answer is longer than {0} bytes")]
    TooLong(usize),
    /// It did not end in time.
    #[error("the answer did not end within {0} s")]
    TooSlow(u64),
    /// The connection ended, or broke HTTP.
    #[error("the answer broke off: {0}")]
    Cut(String),
}

impl Default for Reply {
    fn default() -> Self {
        Self::NotAsked("it was not reached")
    }
}

impl Reply {
    /// The answer, if one came.
    pub fn answer(&self) -> Option<&Answer> {
        match self {
            Self::Came(answer) => Some(answer),
            _ => None,
        }
    }

    /// The JSON of a 2xx.
    pub fn value(&self) -> Option<Value> {
        self.answer().filter(|answer| answer.is_success()).and_then(Answer::json)
    }

    /// The status, if an answer came.
    pub fn status(&self) -> Option<u16> {
        self.answer().map(|answer| answer.status)
    }

    /// Whether it is this error of the text.
    pub fn is_error(&self, status: u16, code: &str) -> bool {
        self.answer().is_some_and(|answer| answer.status == status && answer.code().as_deref() == Some(code))
    }

    /// The session that a JSON answer names, if it is valid.
    pub fn session(&self) -> Option<SessionId> {
        SessionId::parse(self.value()?.get("session_id")?.as_str()?).ok()
    }
}

impl Answer {
    /// 200 to 299.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The body as JSON, if it is whole.
    pub fn json(&self) -> Option<Value> {
        if self.flaw.is_some() {
            return None;
        }
        serde_json::from_slice(&self.body).ok()
    }

    /// The code of an error.
    pub fn code(&self) -> Option<String> {
        Some(self.json()?.get("error")?.as_str()?.to_owned())
    }

    /// The media type without its parameters.
    pub fn media_type(&self) -> &str {
        self.content_type.split(';').next().unwrap_or_default().trim()
    }

    /// `application/json`, or a type that is JSON by its suffix.
    pub fn says_json(&self) -> bool {
        self.media_type() == "application/json" || self.media_type().ends_with("+json")
    }

    /// `text/event-stream`.
    pub fn says_stream(&self) -> bool {
        self.media_type() == "text/event-stream"
    }

    /// There is nothing at this path, or nothing by this method.
    pub fn is_missing(&self) -> bool {
        matches!(self.status, 404 | 405 | 410 | 501)
    }

    /// Why it says nothing about the server's rules: it wants a credential, money, or time.
    pub fn withheld(&self) -> Option<String> {
        let why = match self.status {
            401 | 403 => "it needs a credential; give one with --token or --header",
            402 => "it wants to be paid",
            429 => "it takes no more requests now",
            503 => "it is not available now",
            _ => return None,
        };
        Some(format!("{}: {why}", self.status))
    }

    /// Status and code, for a finding.
    pub fn told(&self) -> String {
        match (&self.flaw, self.code()) {
            (Some(flaw), _) => flaw.to_string(),
            (None, Some(code)) => format!("{} {}", self.status, short(&code)),
            (None, None) => self.status.to_string(),
        }
    }
}

/// Characters of a stranger's text that are shown.
const SHOWN_MAX: usize = 60;

/// A stranger's text on one short line.
pub(super) fn short(text: &str) -> String {
    let mut shown: String = text.chars().map(|it| if it.is_control() { ' ' } else { it }).take(SHOWN_MAX).collect();
    if text.chars().nth(SHOWN_MAX).is_some() {
        shown.push('…');
    }
    shown
}
