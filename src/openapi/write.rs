//! gateway.yaml out of an import: readable, and every value written by a serializer.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::bundle::clipped;
use super::credential::variable;
use super::update::{self, RECORD_HEAD, Record};
use super::{Credential, Imported, Scheme, Service, entry};

/// What stands in place of a credential until its variable is set. Short enough to be no secret by itself.
const UNSET: &str = "not-set";

/// What the head of a file says of its document.
#[derive(Debug, Clone, Copy)]
pub struct Origin<'a> {
    /// File or URL.
    pub document: &'a str,
    /// The command that makes the file anew, without the program's name.
    pub command: &'a str,
}

/// The whole file.
pub fn file(imported: &Imported, origin: &Origin<'_>) -> String {
    let mut text = format!(
        "# Imported from {}.\n# Change what you like, then keep it up to date with\n#   restap-gateway {}\n\n",
        clipped(origin.document),
        clipped(origin.command)
    );
    if !imported.services.is_empty() {
        text.push_str("upstreams:\n");
    }
    for service in &imported.services {
        text.push_str(&upstream(imported, service));
    }
    for server in &imported.other_servers {
        let _ = writeln!(text, "  # another server: {}", clipped(server));
    }
    let first = imported.services.first().map_or("", |service| service.name.as_str());
    text.push_str(if imported.services.is_empty() { "agent:\n" } else { "\nagent:\n" });
    let name = imported
        .title
        .clone()
        .unwrap_or_else(|| if first.is_empty() { "Service".to_owned() } else { first.to_owned() });
    text.push_str(&key("name", &json!(name), 2));
    let said = [("description", &imported.description), ("contact", &imported.contact), ("version", &imported.version)];
    for (name, value) in said {
        if let Some(value) = value {
            text.push_str(&key(name, &json!(value), 2));
        }
    }
    if imported.operations.is_empty() {
        return text;
    }
    text.push_str(&key("upstream", &json!(first), 2));
    text.push_str("  capabilities:\n");
    let mut records = Vec::with_capacity(imported.operations.len());
    for operation in &imported.operations {
        let entry = escaped_entry(imported, operation);
        let _ = writeln!(text, "    # {}", clipped(&operation.source.name));
        text.push_str(&item(&entry, 4));
        records.push(Record::of(operation, &entry));
    }
    text.push_str(RECORD_HEAD);
    for record in &records {
        text.push_str(&record.line());
    }
    text
}

/// Variables that the operator is to set, each with what it is.
pub fn variables(imported: &Imported) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    for service in &imported.services {
        for credential in &service.credentials {
            for (what, meaning) in parts(credential) {
                let name = variable(owner(imported, service), credential, what);
                if !all.iter().any(|(known, _)| *known == name) {
                    all.push((name, format!("{meaning} of `{}`", clipped(&credential.name))));
                }
            }
        }
    }
    all
}

/// The variables of one credential of a service.
pub fn variables_of(imported: &Imported, service: &Service, credential: &Credential) -> Vec<String> {
    parts(credential).into_iter().map(|(what, _)| variable(owner(imported, service), credential, what)).collect()
}

/// The service whose name stands in front of variables: one credential of one server is one variable, and no other server
/// ever sees it.
fn owner<'i>(imported: &'i Imported, service: &'i Service) -> &'i str {
    let first = imported.services.iter().find(|first| first.url == service.url);
    first.map_or(service.name.as_str(), |first| first.name.as_str())
}

/// The entry of an operation as it stands in a file: no text of it is taken for a variable.
pub(super) fn escaped_entry(imported: &Imported, operation: &super::Operation) -> Map<String, Value> {
    let service = imported.services.get(operation.service).filter(|_| operation.service > 0);
    let mut entry = entry(operation, service.map(|service| service.name.as_str()));
    entry.values_mut().for_each(escape);
    entry
}

/// An entry of `upstreams:`.
pub(super) fn upstream(imported: &Imported, service: &Service) -> String {
    let mut text = format!("  {}:\n", service.name);
    if service.url.is_none() {
        text.push_str("    # The document names no host: say where the service is.\n");
    }
    let url = service.url.as_deref().unwrap_or("http://127.0.0.1:9000");
    text.push_str(&key("url", &json!(url), 4));
    let (mut headers, mut query) = (Map::new(), Map::new());
    if !service.credentials.is_empty() {
        let names: Vec<_> = service.credentials.iter().map(|it| clipped(&it.name)).collect();
        let _ = writeln!(text, "    # {}: set the variables, then take the defaults away.", names.join(", "));
    }
    for credential in &service.credentials {
        let placeholder =
            |what: &str| json!(format!("${{{}:-{UNSET}}}", variable(owner(imported, service), credential, what)));
        match &credential.scheme {
            Scheme::Header(name) => drop(headers.insert(name.clone(), placeholder(""))),
            Scheme::Query(name) => drop(query.insert(name.clone(), placeholder(""))),
            Scheme::Cookie(name) => {
                let before =
                    headers.get("Cookie").and_then(Value::as_str).map(|value| format!("{value}; ")).unwrap_or_default();
                let value = format!("{before}{name}={}", placeholder("").as_str().unwrap_or_default());
                headers.insert("Cookie".to_owned(), json!(value));
            }
            Scheme::Basic => {
                let basic = json!({"user": placeholder("user"), "password": placeholder("password")});
                text.push_str(&raw_key("basic", &basic, 4));
            }
            Scheme::Bearer => text.push_str(&raw_key("bearer", &placeholder("token"), 4)),
            Scheme::OAuth2 { token_url, scopes } => {
                let own = |mut value: Value| {
                    escape(&mut value);
                    value
                };
                let mut oauth2 = Map::new();
                oauth2.insert("token_url".to_owned(), own(json!(token_url)));
                oauth2.insert("client_id".to_owned(), placeholder("client_id"));
                oauth2.insert("client_secret".to_owned(), placeholder("client_secret"));
                if !scopes.is_empty() {
                    oauth2.insert("scopes".to_owned(), own(json!(scopes)));
                }
                text.push_str(&raw_key("oauth2", &oauth2.into(), 4));
            }
        }
    }
    for (name, values) in [("headers", headers), ("query", query)] {
        if !values.is_empty() {
            text.push_str(&raw_key(name, &values.into(), 4));
        }
    }
    text
}

fn parts(credential: &Credential) -> Vec<(&'static str, &'static str)> {
    match credential.scheme {
        Scheme::Header(_) | Scheme::Query(_) | Scheme::Cookie(_) => vec![("", "the key")],
        Scheme::Basic => vec![("user", "the user name"), ("password", "the password")],
        Scheme::Bearer => vec![("token", "the token")],
        Scheme::OAuth2 { .. } => vec![("client_id", "the client's id"), ("client_secret", "the client's secret")],
    }
}

/// An item of a block list at this indentation.
pub(super) fn item(entry: &Map<String, Value>, indent: usize) -> String {
    let mut text = String::new();
    for (name, value) in entry {
        text.push_str(&raw_key(name, value, indent + 2));
    }
    let rest = text.get(indent + 2..).unwrap_or_default();
    format!("{}- {rest}", " ".repeat(indent))
}

/// A key with a value that no variable stands in.
fn key(name: &str, value: &Value, indent: usize) -> String {
    let mut value = value.clone();
    escape(&mut value);
    raw_key(name, &value, indent)
}

/// A key with its value at this indentation, as lines.
pub(super) fn raw_key(name: &str, value: &Value, indent: usize) -> String {
    let pair = Map::from_iter([(name.to_owned(), value.clone())]);
    let yaml = serde_yaml::to_string(&pair).unwrap_or_default();
    let mut text = String::with_capacity(yaml.len() * 2);
    for line in yaml.lines() {
        if !line.is_empty() {
            text.extend(std::iter::repeat_n(' ', indent));
        }
        text.push_str(line);
        text.push('\n');
    }
    text
}

fn escape(value: &mut Value) {
    match value {
        Value::String(text) if text.contains("${") => *text = text.replace("${", "$${"),
        Value::Array(items) => items.iter_mut().for_each(escape),
        Value::Object(entries) => entries.values_mut().for_each(escape),
        _ => {}
    }
}

/// Merges what was imported into a file that people may have changed.
pub use update::{Earlier, Merged, merge};
