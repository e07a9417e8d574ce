//! `Offers`: what a catalog says that a server does, read as leniently as the catalogs in the wild need.

use serde_json::Value;

/// What is offered. `None` is where the catalog does not say.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Offers {
    /// Whether a talk is listed.
    pub talk: bool,
    /// Whether reading news is listed.
    pub news_read: bool,
    /// Whether posting news is listed.
    pub news_post: bool,
    /// Whether talk streams.
    pub streaming: Option<bool>,
    /// The events that its streams are said to have.
    pub events: Option<Vec<String>>,
    /// Whether talk continues sessions.
    pub sessions: Option<bool>,
    /// What a session is to news.
    pub news_sessions: NewsSessions,
    /// Capabilities that can be called without an input and change nothing.
    pub gets: Vec<SafeGet>,
}

/// What a catalog says that a session is to news.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NewsSessions {
    /// Nothing, or that they are ignored.
    #[default]
    Unsaid,
    /// A feed of its own for who names one.
    Optional,
    /// Needed.
    Required,
}

/// A capability that can be called without an input and changes nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SafeGet {
    /// Its id.
    pub id: String,
    /// Its path under the base URL.
    pub path: String,
    /// Its `output_schema`.
    pub output_schema: Option<Value>,
}

/// Capabilities that are called at most.
const GETS_MAX: usize = 5;

impl Offers {
    /// What a catalog says; nothing where there is none.
    pub fn of(catalog: Option<&Value>) -> Self {
        let mut offers = Self::default();
        let Some(catalog) = catalog else { return offers };
        for capability in capabilities(catalog) {
            offers.add(capability);
        }
        // Catalogs of the first days have the fixed endpoints here alone.
        let has = |name: &str| catalog.get("endpoints").and_then(|it| it.get(name)).is_some_and(|it| !it.is_null());
        offers.talk |= has("talk");
        offers.news_read |= has("news");
        offers.news_post |= has("news_post");
        offers
    }

    fn add(&mut self, capability: &Value) {
        let sessions = |key: &str| capability.get("sessions").and_then(|it| it.get(key)).and_then(Value::as_bool);
        match fixed(capability) {
            Some(Fixed::Talk) => {
                self.talk = true;
                let streaming = capability.get("streaming");
                self.streaming = streaming.and_then(|it| it.get("supported")).and_then(Value::as_bool);
                self.events = streaming
                    .and_then(|it| it.get("events"))
                    .and_then(Value::as_array)
                    .map(|events| events.iter().filter_map(Value::as_str).map(str::to_owned).collect());
                self.sessions = sessions("supported");
            }
            Some(fixed) => {
                self.news_read |= fixed == Fixed::ReadNews;
                self.news_post |= fixed == Fixed::PostNews;
                let said = match (sessions("supported"), sessions("required")) {
                    (_, Some(true)) => NewsSessions::Required,
                    (Some(true), _) => NewsSessions::Optional,
                    _ => NewsSessions::Unsaid,
                };
                self.news_sessions = self.news_sessions.max(said);
            }
            None if self.gets.len() < GETS_MAX => self.gets.extend(safe_get(capability)),
            None => {}
        }
    }
}

/// An endpoint that the text itself names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fixed {
    Talk,
    ReadNews,
    PostNews,
}

/// Which one a capability is, by its id or by where it is.
pub(super) fn fixed(capability: &Value) -> Option<Fixed> {
    let id = text(capability, "id");
    let (endpoint, method) = (text(capability, "endpoint"), text(capability, "method").to_ascii_uppercase());
    match id {
        "talk" => Some(Fixed::Talk),
        "news" if method == "POST" => Some(Fixed::PostNews),
        "news" => Some(Fixed::ReadNews),
        "news_receive" => Some(Fixed::PostNews),
        _ => match (method.as_str(), endpoint) {
            ("POST", "/talk") => Some(Fixed::Talk),
            ("GET", "/news") => Some(Fixed::ReadNews),
            ("POST", "/news") => Some(Fixed::PostNews),
            _ => None,
        },
    }
}

/// The entries of a catalog that are objects.
pub(super) fn capabilities(catalog: &Value) -> impl Iterator<Item = &Value> {
    let entries = catalog.get("capabilities").and_then(Value::as_array);
    entries.into_iter().flatten().filter(|entry| entry.is_object())
}

/// A text of an object; empty if there is none.
pub(super) fn text<'a>(object: &'a Value, key: &str) -> &'a str {
    object.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// A GET under the base URL that needs no input.
fn safe_get(capability: &Value) -> Option<SafeGet> {
    let path = text(capability, "endpoint");
    let needs = |parameter: &Value| parameter.get("required").and_then(Value::as_bool) == Some(true);
    let of_schema = |schema: &Value| schema.get("required").and_then(Value::as_array).is_some_and(|it| !it.is_empty());
    let is_plain = path.starts_with('/') && !path.starts_with("//") && !path.contains(['{', '}', ':', '*', '<', '#']);
    let list = capability.get("parameters").and_then(Value::as_array);
    let wants =
        list.is_some_and(|list| list.iter().any(needs)) || capability.get("input_schema").is_some_and(of_schema);
    let is_get = text(capability, "method").eq_ignore_ascii_case("GET");
    (is_get && is_plain && !wants).then(|| SafeGet {
        id: text(capability, "id").to_owned(),
        path: path.to_owned(),
        output_schema: capability.get("output_schema").cloned(),
    })
}
