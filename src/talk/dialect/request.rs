//! `Request`: how a prompt becomes the request that an upstream takes.

use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE};
use http::{HeaderName, HeaderValue};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::problem::{Problems, join, nearest};
use super::template::{Line, Name, Template, Use};
use super::{Framing, Saved};
use crate::talk::Exchange;
use crate::yaml::Secret;

/// What stays as it is in a segment of a path (RFC 3986, unreserved).
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Everything that can stand in a request.
pub struct Prompt<'a> {
    /// What the caller says now.
    pub message: &'a str,
    /// The operator's system prompt. Stands nowhere unless [`super::Dialect::takes_system`].
    pub system: Option<&'a str>,
    /// News since the last turn (`news_note`). Joins the system prompt, or stands in front of the message.
    pub news: Option<&'a str>,
    /// Earlier exchanges, oldest first, already in their window. Stands nowhere unless
    /// [`super::Dialect::takes_history`].
    pub history: &'a [Exchange],
    /// The model to name.
    pub model: Option<&'a str>,
    /// The operator's `options:`, merged into the body: objects key by key, anything else replaces.
    pub options: &'a Map<String, Value>,
    /// Whether to ask for a stream. Means nothing unless [`super::Dialect::streams`].
    pub stream: bool,
    /// A key derived from the session, for upstreams that keep the conversation under a name of the client's choice.
    pub session_key: Option<&'a str>,
    /// The same as a UUID.
    pub session_uuid: Option<&'a str>,
    /// What the upstream gave at the last turn.
    pub saved: &'a Saved,
    /// The upstream's `api_key:`.
    pub credential: Option<&'a Secret>,
    /// A fresh UUID: the request's message ids are counted on from it.
    pub request_id: Uuid,
    /// The path of the upstream's URL, such as `/v1`; empty where it has none.
    pub url_prefix: &'a str,
}

/// A request as the upstream takes it; the method is `POST`.
#[derive(Debug)]
pub struct Rendered {
    /// What follows the path of the upstream's URL; may be empty where that has one.
    pub path_and_query: String,
    /// `content-type`, `accept`, `accept-encoding: identity` and the dialect's own. Values with a credential are
    /// marked sensitive.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// JSON.
    pub body: Bytes,
}

/// Why a request can't be rendered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unrenderable {
    /// The path needs a value that there is none of.
    #[error("the dialect's path needs `model`, or a session, and there is none")]
    Path,
    /// A value holds what a header can't carry.
    #[error("the header {0} can't carry its value")]
    Header(HeaderName),
}

/// The request of a dialect, compiled.
#[derive(Debug, Clone, Default)]
pub(crate) struct Request {
    /// In front of the path, unless the upstream's URL has a path.
    root: Box<str>,
    path: Line,
    pub(crate) stream_path: Option<Line>,
    /// The path is the operator's, and stands as it is.
    fixed: bool,
    headers: Box<[(HeaderName, Line)]>,
    body: Option<Template>,
    history: Option<History>,
    has_system: bool,
}

/// How earlier turns stand in a request.
#[derive(Debug, Clone)]
struct History {
    item: Template,
    assistant: Template,
    /// The upstream's words for `system`, `user` and `assistant`.
    roles: [Box<str>; 3],
}

#[derive(Debug, Clone, Copy)]
enum Role {
    System,
    User,
    Assistant,
}

const ROLES: [&str; 3] = ["system", "user", "assistant"];

impl Request {
    pub(crate) fn compile(value: Option<&Value>, at: &str, problems: &mut Problems) -> Self {
        let Some(map) = problems.map(value, at) else {
            problems.add(at, "a dialect needs `request`, which says what is sent", Some("request"));
            return Self::default();
        };
        problems.known_keys(map, at, &["root", "path", "stream_path", "headers", "body", "history"]);
        if !map.contains_key("path") {
            problems.add(at, "`path` is missing, such as /chat", Some("path"));
        }
        let body = map.get("body").map(|body| Template::compile(body, &join(at, "body"), Use::Body, problems));
        if body.is_none() {
            problems.add(at, "`body` is missing, such as {message: \"{{message}}\"}", Some("body"));
        }
        let mut request = Self {
            root: problems.text(map.get("root"), &join(at, "root")).unwrap_or_default().into(),
            path: path(map.get("path"), &join(at, "path"), problems).unwrap_or_default(),
            stream_path: path(map.get("stream_path"), &join(at, "stream_path"), problems),
            fixed: false,
            headers: headers(map.get("headers"), &join(at, "headers"), problems),
            history: history(map.get("history"), &join(at, "history"), problems),
            body,
            has_system: false,
        };
        request.has_system = request.uses(|name| *name == Name::System);
        request.check_history(at, problems);
        request
    }

    fn check_history(&self, at: &str, problems: &mut Problems) {
        let sends = |wanted: &Name| self.uses(|name| name == wanted);
        match (&self.history, sends(&Name::Messages)) {
            (None, true) => {
                problems.add(at, "{{messages}} needs `history`, which says what one turn looks like", Some("history"));
            }
            (Some(_), false) => {
                problems.add(join(at, "history"), "`history` needs {{messages}} in the body", Some("{{messages}}"));
            }
            (None, false) if self.body.is_some() && !sends(&Name::Message) => {
                problems.add(join(at, "body"), "the body sends neither {{message}} nor {{messages}}", None);
            }
            _ => {}
        }
    }

    /// Takes the operator's path in place of the dialect's.
    pub(crate) fn set_path(&mut self, text: &str, problems: &mut Problems) {
        if let Some(path) = path(Some(&Value::from(text)), "", problems) {
            self.path = path;
            self.stream_path = None;
            self.fixed = true;
        }
    }

    /// Whether any name in it is one of these.
    pub(crate) fn uses(&self, wanted: impl Fn(&Name) -> bool) -> bool {
        let mut found = false;
        let mut visit = |name: &Name| found |= wanted(name);
        self.path.names(&mut visit);
        self.stream_path.iter().for_each(|path| path.names(&mut visit));
        self.headers.iter().for_each(|(_, value)| value.names(&mut visit));
        self.body.iter().for_each(|body| body.names(&mut visit));
        found
    }

    /// Whether the path alone uses one of these.
    pub(crate) fn path_uses(&self, wanted: impl Fn(&Name) -> bool) -> bool {
        let mut found = false;
        self.path.names(&mut |name| found |= wanted(name));
        found
    }

    pub(crate) fn takes_history(&self) -> bool {
        self.history.is_some()
    }

    /// Whether a system prompt has a place: a field, or the first item of the history.
    pub(crate) fn takes_system(&self) -> bool {
        self.has_system || self.history.is_some()
    }

    pub(crate) fn render(&self, prompt: &Prompt<'_>, framing: Framing) -> Result<Rendered, Unrenderable> {
        let mut values = PromptValues { request: self, prompt, ids: 0 };
        let path_and_query = self.render_path(&mut values)?;
        let headers = self.render_headers(&mut values, framing)?;
        let body = self.body.as_ref().and_then(|body| body.render(&mut |name| values.value(name)));
        let mut body = body.unwrap_or_else(|| json!({}));
        merge(&mut body, prompt.options);
        Ok(Rendered { path_and_query, headers, body: Bytes::from(body.to_string()) })
    }

    fn render_path(&self, values: &mut PromptValues<'_>) -> Result<String, Unrenderable> {
        let prefix = values.prompt.url_prefix;
        let path = self.stream_path.as_ref().filter(|_| values.prompt.stream).unwrap_or(&self.path);
        let encode = |text: &str| utf8_percent_encode(text, SEGMENT).to_string();
        let path = path.render(&mut |name| values.value(name), encode).map_err(|_| Unrenderable::Path)?;
        if self.fixed {
            return Ok(path);
        }
        if prefix.is_empty() {
            return Ok(format!("{}{path}", self.root));
        }
        // The URL of a service whose path is `/` names the endpoint itself.
        if path == "/" {
            return Ok(String::new());
        }
        // `http://host/api` and `http://host` both reach `/api/chat`: what the URL ends with is not said twice.
        let (first, rest) = match path.get(1..).and_then(|path| path.find('/')) {
            Some(end) => path.split_at(end + 1),
            None => ("", &*path),
        };
        let said = !first.is_empty() && self.root.is_empty() && prefix.ends_with(first);
        Ok(if said { rest.to_owned() } else { path })
    }

    fn render_headers(
        &self,
        values: &mut PromptValues<'_>,
        framing: Framing,
    ) -> Result<Vec<(HeaderName, HeaderValue)>, Unrenderable> {
        let mut headers = vec![
            (CONTENT_TYPE, HeaderValue::from_static("application/json")),
            (ACCEPT, HeaderValue::from_static(framing.accept())),
            (ACCEPT_ENCODING, HeaderValue::from_static("identity")),
        ];
        for (name, line) in &self.headers {
            let Ok(text) = line.render(&mut |name| values.value(name), str::to_owned) else {
                continue;
            };
            let mut value = HeaderValue::from_str(&text).map_err(|_| Unrenderable::Header(name.clone()))?;
            line.names(&mut |name| value.set_sensitive(value.is_sensitive() || *name == Name::Credential));
            match headers.iter_mut().find(|(known, _)| known == name) {
                Some((_, known)) => *known = value,
                None => headers.push((name.clone(), value)),
            }
        }
        Ok(headers)
    }
}

/// Gives names their values out of a prompt.
struct PromptValues<'a> {
    request: &'a Request,
    prompt: &'a Prompt<'a>,
    ids: u128,
}

impl PromptValues<'_> {
    fn value(&mut self, name: &Name) -> Option<Value> {
        let prompt = self.prompt;
        match name {
            Name::Message => Some(self.message().into()),
            Name::Messages => Some(self.messages().into()),
            Name::System => self.system().map(Value::from),
            Name::Model => prompt.model.map(Value::from),
            Name::Stream => Some(prompt.stream.into()),
            Name::SessionKey => prompt.session_key.map(Value::from),
            Name::SessionUuid => prompt.session_uuid.map(Value::from),
            Name::Credential => prompt.credential.map(|secret| secret.expose().into()),
            Name::Saved(slot) => prompt.saved.get(&**slot).cloned(),
            Name::Uuid => Some(self.next_id().into()),
            Name::Role | Name::Text => None,
        }
    }

    /// The message, with the news in front of it where there is no system prompt to join.
    fn message(&self) -> String {
        match self.prompt.news {
            Some(news) if !self.request.takes_system() => format!("{news}\n\n{}", self.prompt.message),
            _ => self.prompt.message.to_owned(),
        }
    }

    fn system(&self) -> Option<String> {
        match (self.prompt.system, self.prompt.news) {
            (Some(system), Some(news)) => Some(format!("{system}\n\n{news}")),
            (system, news) => system.or(news).map(str::to_owned),
        }
    }

    fn messages(&mut self) -> Vec<Value> {
        let (request, prompt) = (self.request, self.prompt);
        let Some(history) = &request.history else {
            return Vec::new();
        };
        let mut items = Vec::with_capacity(prompt.history.len() * 2 + 2);
        if !request.has_system
            && let Some(system) = self.system()
        {
            items.extend(self.item(history, Role::System, &system));
        }
        for exchange in prompt.history {
            items.extend(self.item(history, Role::User, &exchange.user));
            items.extend(self.item(history, Role::Assistant, &exchange.assistant));
        }
        items.extend(self.item(history, Role::User, &self.message()));
        items
    }

    fn item(&mut self, history: &History, role: Role, text: &str) -> Option<Value> {
        let (template, word) = match (role, &history.roles) {
            (Role::System, [word, _, _]) | (Role::User, [_, word, _]) => (&history.item, word),
            (Role::Assistant, [_, _, word]) => (&history.assistant, word),
        };
        template.render(&mut |name| match name {
            Name::Role => Some(word.as_ref().into()),
            Name::Text => Some(text.into()),
            Name::Uuid => Some(self.next_id().into()),
            _ => None,
        })
    }

    /// Ids differ in their last bits, so that they stay UUIDs of the same version.
    fn next_id(&mut self) -> String {
        let id = Uuid::from_u128(self.prompt.request_id.as_u128() ^ self.ids);
        self.ids += 1;
        id.to_string()
    }
}

fn merge(body: &mut Value, options: &Map<String, Value>) {
    let Value::Object(body) = body else {
        return;
    };
    for (key, value) in options {
        match (body.get_mut(key), value) {
            (Some(inner @ Value::Object(_)), Value::Object(more)) => merge(inner, more),
            _ => {
                body.insert(key.clone(), value.clone());
            }
        }
    }
}

fn path(value: Option<&Value>, at: &str, problems: &mut Problems) -> Option<Line> {
    let text = problems.text(value, at)?;
    if !text.starts_with('/') || text.bytes().any(|byte| byte <= b' ' || byte == b'#' || byte >= 0x7f) {
        let fixed = format!("/{}", text.trim_start_matches('/'));
        problems.add(at, "a path starts with / and has no space, # or unencoded character", Some(&fixed));
    }
    Some(Line::compile(text, at, Use::Line, problems))
}

fn headers(value: Option<&Value>, at: &str, problems: &mut Problems) -> Box<[(HeaderName, Line)]> {
    let Some(map) = problems.map(value, at) else {
        return Box::default();
    };
    let headers = map.iter().filter_map(|(name, value)| {
        let at = join(at, name);
        let text = problems.text(Some(value), &at)?;
        let Ok(header) = name.parse::<HeaderName>() else {
            problems.add(at, format!("`{name}` is no name of a header"), None);
            return None;
        };
        Some((header, Line::compile(text, &at, Use::Line, problems)))
    });
    headers.collect()
}

fn history(value: Option<&Value>, at: &str, problems: &mut Problems) -> Option<History> {
    let map = problems.map(value, at)?;
    problems.known_keys(map, at, &["item", "item_assistant", "roles"]);
    let Some(item) = map.get("item") else {
        problems.add(at, "`item` is missing, such as {role: \"{{role}}\", content: \"{{text}}\"}", Some("item"));
        return None;
    };
    let item = Template::compile(item, &join(at, "item"), Use::Item, problems);
    let assistant = match map.get("item_assistant") {
        Some(own) => Template::compile(own, &join(at, "item_assistant"), Use::Item, problems),
        None => item.clone(),
    };
    let mut roles = ROLES.map(Box::from);
    let at_roles = join(at, "roles");
    for (role, word) in problems.map(map.get("roles"), &at_roles).into_iter().flatten() {
        let word = problems.text(Some(word), &join(&at_roles, role)).unwrap_or_default();
        if let Some((_, slot)) = ROLES.iter().zip(&mut roles).find(|(known, _)| *known == role) {
            *slot = word.into();
        } else {
            let message = format!("`{role}` is no role; known are {}", ROLES.join(", "));
            problems.add(join(&at_roles, role), message, nearest(role, &ROLES));
        }
    }
    Some(History { item, assistant, roles })
}
