//! RESTAP catalogs in all the shapes that are served: of the protocol's text, and of those who serve something like it.

use http::Method;
use serde_json::{Map, Value, json};

use super::entry::{Entry, Kind};
use super::path::{Base, Misplaced};
use super::text;
use super::{CAPABILITIES_MAX, Remote, Talk};
use crate::net::Url;

/// Keys by one of which a catalog is known.
const OF_A_CATALOG: [&str; 7] =
    ["restap_version", "restap", "agent", "provider", "endpoints", "capabilities", "service_type"];

/// Packages, and protocols, that are looked at.
const PACKAGES_MAX: usize = 100;

/// Whether a document is a catalog.
pub(super) fn is_one(document: &Map<String, Value>) -> bool {
    OF_A_CATALOG.iter().any(|key| document.contains_key(*key))
}

pub(super) fn read(catalog: &Map<String, Value>, base: &Base) -> Remote {
    let object = |key: &str| catalog.get(key).and_then(Value::as_object);
    let nobody = Map::new();
    let (agent, provider) = (object("agent").unwrap_or(&nobody), object("provider").unwrap_or(&nobody));
    let line = |key: &'static str| [agent, provider, catalog].into_iter().find_map(|from| text::line(from, &[key]));
    let own = [("public_url", catalog), ("base_url", agent), ("public_url", agent), ("base_url", catalog)];
    let own = own.into_iter().find_map(|(key, from)| text::first(from, &[key])?.parse::<Url>().ok());
    let mut reading =
        Reading { base, own, entries: Vec::new(), remote: Remote::default(), talk: None, talks: None, news: None };
    let remote = &mut reading.remote;
    // An agent's name may also stand alone, as a text.
    remote.name = line("name").or_else(|| text::line(catalog, &["agent", "provider"]));
    remote.description = [agent, catalog, provider].into_iter().find_map(|from| text::prose(from, &["description"]));
    remote.contact = line("contact");
    remote.version = [agent, provider, catalog].into_iter().find_map(|from| text::scalar(from, &["version"]));
    reading.entries(catalog);
    reading.take(catalog);
    reading.packages(catalog);
    reading.protocols(catalog);
    reading.remote
}

struct Reading<'v> {
    base: &'v Base,
    /// What the agent calls its own base.
    own: Option<Url>,
    entries: Vec<Entry<'v>>,
    remote: Remote,
    /// Where it is talked to, where its news are.
    talk: Option<&'v str>,
    news: Option<&'v str>,
    /// Whether it streams.
    talks: Option<bool>,
}

impl<'v> Reading<'v> {
    /// Everything that is named, whatever the shape.
    fn entries(&mut self, catalog: &'v Map<String, Value>) {
        let endpoints = catalog.get("endpoints");
        match catalog.get("capabilities") {
            Some(Value::Array(list)) => {
                if list.len() > CAPABILITIES_MAX {
                    let message = format!("it lists {} capabilities, and {CAPABILITIES_MAX} are read", list.len());
                    self.remote.notes.push(message);
                }
                for value in list.iter().take(CAPABILITIES_MAX) {
                    match value {
                        Value::String(id) => self.entries.push(Entry::named(id, endpoints)),
                        Value::Object(entry) => self.entries.push(Entry::of(None, entry)),
                        _ => {}
                    }
                }
            }
            Some(Value::Object(map)) => {
                for (id, value) in map.iter().take(CAPABILITIES_MAX) {
                    match value {
                        Value::Bool(true) => self.entries.push(Entry::named(id, endpoints)),
                        Value::Object(entry) => self.entries.push(Entry::of(Some(id), entry)),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
        let room = CAPABILITIES_MAX.saturating_sub(self.entries.len());
        match endpoints {
            Some(Value::Object(map)) => {
                for (id, value) in map.iter().take(room) {
                    self.entries.extend(Entry::of_endpoint(id, value));
                }
            }
            Some(Value::Array(list)) => {
                let entries = list.iter().take(room).filter_map(Value::as_object);
                self.entries.extend(entries.map(|entry| Entry::of(None, entry)));
            }
            _ => {}
        }
    }

    fn take(&mut self, catalog: &Map<String, Value>) {
        for entry in std::mem::take(&mut self.entries) {
            match entry.kind() {
                Kind::Talk => {
                    self.talks = self.talks.or(entry.streams());
                    self.talk = self.talk.or(entry.endpoint).or(Some("/talk"));
                }
                Kind::News => self.news = self.news.or(entry.endpoint).or(Some("/news")),
                Kind::Own => {}
                Kind::Capability => self.capability(&entry),
            }
        }
        // One that says nothing of what it can do is what the protocol's text has.
        if !catalog.contains_key("capabilities") && !catalog.contains_key("endpoints") {
            (self.talk, self.news) = (Some("/talk"), Some("/news"));
        }
        let own = self.own.clone();
        let mut path = |what: &str, endpoint: Option<&str>| match self.base.path(endpoint?, own.as_ref()) {
            Ok(path) => Some(path),
            Err(problem) => {
                self.remote.notes.push(format!("the endpoint of `{what}` {problem}, and is left out"));
                None
            }
        };
        let (talk, news) = (path("talk", self.talk), path("news", self.news));
        self.remote.talk = talk.map(|path| Talk { dialect: "restap", path, streaming: self.talks.unwrap_or(true) });
        self.remote.news = news;
    }

    fn capability(&mut self, entry: &Entry<'v>) {
        let Some(id) = entry.id() else { return };
        let note = |problem: String| format!("`{id}` {problem}, and is left out");
        let Some(endpoint) = entry.endpoint else {
            self.remote.notes.push(note("has no endpoint".to_owned()));
            return;
        };
        let path = match self.base.path(endpoint, self.own.as_ref()) {
            Ok(path) => path,
            Err(problem) => {
                self.remote.notes.push(format!("the endpoint of {}", note(problem.to_string())));
                return;
            }
        };
        let Some(methods) = entry.methods() else {
            self.remote.notes.push(note("has a method that no agent has".to_owned()));
            return;
        };
        let endpoint = self.base.relative(&path).to_owned();
        for (number, method) in methods.into_iter().enumerate() {
            if self.remote.capabilities.len() >= CAPABILITIES_MAX || self.has(&method, &endpoint) {
                continue;
            }
            let id = if number == 0 { id.clone() } else { format!("{id}.{}", method.as_str().to_ascii_lowercase()) };
            self.remote.capabilities.push(entry.capability(id, method, &endpoint, &path));
        }
    }

    fn has(&self, method: &Method, endpoint: &str) -> bool {
        self.remote.capabilities.iter().any(|known| known.method == *method && known.endpoint == endpoint)
    }

    /// What lies under the agent's own base would not be found under ours, but for its skill, of which there is one here.
    fn packages(&mut self, catalog: &Map<String, Value>) {
        let list: Vec<Map<String, Value>> = match catalog.get("packages") {
            Some(Value::Array(list)) => list.iter().take(PACKAGES_MAX).filter_map(Value::as_object).cloned().collect(),
            Some(Value::Object(map)) => {
                let named = |(name, value): (&String, &Value)| {
                    let mut package = match value {
                        Value::Object(package) => package.clone(),
                        Value::String(text) => Map::from_iter([("url".to_owned(), json!(text))]),
                        _ => return None,
                    };
                    package.entry("name").or_insert_with(|| json!(name));
                    package.entry("type").or_insert_with(|| json!(name));
                    Some(package)
                };
                map.iter().take(PACKAGES_MAX).filter_map(named).collect()
            }
            _ => return,
        };
        for package in list {
            let (Some(name), Some(_)) = (text::line(&package, &["name"]), text::line(&package, &["type"])) else {
                continue;
            };
            let relative = package.values().filter_map(Value::as_str).find(|text| text.starts_with('/'));
            match relative {
                None => self.remote.packages.push(package),
                Some(path) if path.ends_with("/skill.md") => {}
                Some(_) => self.remote.notes.push(format!("the package `{name}` lies under its base, and is left out")),
            }
        }
    }

    /// A protocol that is served under the agent's base is served under ours.
    fn protocols(&mut self, catalog: &Map<String, Value>) {
        let Some(protocols) = catalog.get("protocols").and_then(Value::as_object) else { return };
        for (name, value) in protocols.iter().take(PACKAGES_MAX) {
            let endpoint = value.get("endpoint").and_then(Value::as_str).filter(|text| !text.is_empty());
            let mut shown = value.clone();
            if name == "restap" {
                continue;
            }
            if let Some(text) = endpoint {
                match self.base.path(text, self.own.as_ref()) {
                    Ok(path) => {
                        let endpoint = self.protocol(name, &path);
                        if let Some(shown) = shown.as_object_mut() {
                            shown.insert("endpoint".to_owned(), json!(endpoint));
                        }
                    }
                    // An address elsewhere is told as it is, and nobody here asks there.
                    Err(Misplaced::Elsewhere(_)) if text.contains("://") => {}
                    Err(problem) => {
                        self.remote.notes.push(format!("the endpoint of the protocol `{name}` {problem}"));
                        continue;
                    }
                }
            }
            self.remote.protocols.insert(name.clone(), shown);
        }
    }

    /// A protocol's endpoint by the methods that protocols over HTTP use; gives what it is under the base.
    fn protocol(&mut self, name: &str, path: &str) -> String {
        let endpoint = self.base.relative(path).to_owned();
        for (method, end) in [(Method::POST, ""), (Method::GET, ".get"), (Method::DELETE, ".delete")] {
            let Some(id) = Entry::legal_id(&format!("{name}{end}")).filter(|_| !self.has(&method, &endpoint)) else {
                continue;
            };
            let mut capability = Entry::default().capability(id, method, &endpoint, path);
            capability.description = Some(format!("The agent's endpoint of the protocol {name}."));
            self.remote.capabilities.push(capability);
        }
        endpoint
    }
}
