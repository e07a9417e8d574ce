//! The rules of the catalog.

use std::collections::HashSet;

use serde_json::Value;

use super::offers::{Fixed, capabilities, fixed, text};
use super::report::{Report, Verdict};
use super::rule::{
    CATALOG_AGENT, CATALOG_CAPABILITIES, CATALOG_ENDPOINTS, CATALOG_FIXED, CATALOG_FORMATS, CATALOG_IDS, CATALOG_JSON,
    CATALOG_KNOWN_METHODS, CATALOG_METHODS, CATALOG_PACKAGES, CATALOG_PROTOCOLS, CATALOG_SCHEMAS, CATALOG_SERVED,
    CATALOG_SESSIONS, CATALOG_STREAMING, CATALOG_TEXTS, CATALOG_TYPE, CATALOG_UNIQUE, CATALOG_VERSION, SECURITY_HTTPS,
};
use super::seen::{Reply, Seen, short};

/// Events that every stream must know (RESTAP, "SSE event vocabulary for /talk").
const REQUIRED_EVENTS: [&str; 5] = ["message.start", "message.delta", "message.end", "error", "done"];

/// Places that one finding names.
const NAMED_MAX: usize = 3;

pub(super) fn judge(seen: &Seen, report: &mut Report) {
    let https = "the base URL is http://, where everybody on the way reads along".to_owned();
    report.hold(&SECURITY_HTTPS, (!seen.is_private).then_some(https));
    let answer = match &seen.catalog {
        Reply::NotAsked(why) => return report.note(&CATALOG_SERVED, Verdict::Skipped((*why).to_owned())),
        Reply::Failed(why) => return report.note(&CATALOG_SERVED, Verdict::Broken(why.clone())),
        Reply::Came(answer) => answer,
    };
    if let Some(why) = answer.withheld() {
        return report.note(&CATALOG_SERVED, Verdict::Skipped(why));
    }
    let failed = !answer.is_success() || answer.flaw.is_some();
    report.hold(&CATALOG_SERVED, failed.then(|| answer.told()));
    if failed {
        return;
    }
    let catalog = answer.json();
    report.hold(
        &CATALOG_JSON,
        match &catalog {
            None => Some("it is not JSON".to_owned()),
            Some(Value::Object(_)) => None,
            Some(_) => Some("it is no object".to_owned()),
        },
    );
    let told = short(&answer.content_type);
    report.hold(&CATALOG_TYPE, (!answer.says_json()).then(|| format!("Content-Type is `{told}`")));
    if let Some(catalog) = catalog.filter(Value::is_object) {
        document(&catalog, report);
    }
}

fn document(catalog: &Value, report: &mut Report) {
    let has = |key: &str| catalog.get(key).is_some_and(|it| !it.is_null());
    report
        .hold(&CATALOG_VERSION, text(catalog, "restap_version").is_empty().then(|| "it has no restap_version".into()));
    let name = catalog.get("agent").map(|agent| text(agent, "name")).unwrap_or_default();
    report.hold(&CATALOG_AGENT, name.is_empty().then(|| "it has no agent.name".to_owned()));
    match catalog.get("packages") {
        None | Some(Value::Null) => report.note(&CATALOG_PACKAGES, Verdict::NotOffered("no packages".into())),
        Some(packages) => report.hold(&CATALOG_PACKAGES, broken_packages(packages)),
    }
    match catalog.get("protocols") {
        None | Some(Value::Null) => report.note(&CATALOG_PROTOCOLS, Verdict::NotOffered("no protocols".into())),
        Some(protocols) => report.hold(&CATALOG_PROTOCOLS, broken_protocols(protocols)),
    }
    let entries = catalog.get("capabilities").and_then(Value::as_array);
    report.hold(
        &CATALOG_CAPABILITIES,
        match entries {
            None if has("capabilities") => Some("capabilities is no array".to_owned()),
            None => Some("it has no capabilities".to_owned()),
            Some(entries) if entries.iter().any(|it| !it.is_object()) => Some("an entry is no object".to_owned()),
            Some(_) => None,
        },
    );
    if entries.is_some() {
        each(catalog, report);
    }
}

/// Rules about every capability.
fn each(catalog: &Value, report: &mut Report) {
    let all = || capabilities(catalog).enumerate();
    let named = |(index, it): (usize, &Value)| match text(it, "id") {
        "" => format!("capabilities[{index}]"),
        id => format!("`{}`", short(id)),
    };
    let wrong = |is_wrong: &dyn Fn(&Value) -> Option<String>| {
        let told = |entry: (usize, &Value)| is_wrong(entry.1).map(|what| format!("{} {what}", named(entry)));
        let found: Vec<String> = all().filter_map(told).take(NAMED_MAX).collect();
        (!found.is_empty()).then(|| found.join("; "))
    };
    let said = |key: &'static str, is_wrong: fn(&str) -> bool, what: &'static str| {
        wrong(&move |it: &Value| is_wrong(text(it, key)).then(|| what.to_owned()))
    };
    report.hold(&CATALOG_IDS, said("id", str::is_empty, "has no id"));
    let mut ids = HashSet::new();
    let twice = capabilities(catalog).map(|it| text(it, "id")).find(|id| !id.is_empty() && !ids.insert(*id));
    report.hold(&CATALOG_UNIQUE, twice.map(|id| format!("`{}` stands twice", short(id))));
    report.hold(&CATALOG_METHODS, said("method", str::is_empty, "has no method"));
    let other = |method: &str| !method.is_empty() && !["GET", "POST", "PUT", "DELETE"].contains(&method);
    report.hold(&CATALOG_KNOWN_METHODS, said("method", other, "has another method"));
    let unreachable = |it: &str| !it.starts_with('/') && !it.starts_with("http://") && !it.starts_with("https://");
    report.hold(&CATALOG_ENDPOINTS, said("endpoint", unreachable, "has no endpoint that is a path"));
    report.hold(&CATALOG_FIXED, wrong(&misplaced));
    report.hold(&CATALOG_TEXTS, wrong(&wrong_texts));
    report.hold(&CATALOG_SCHEMAS, wrong(&wrong_schema));
    report.hold(&CATALOG_SESSIONS, wrong(&wrong_sessions));
    let talk = capabilities(catalog).find(|it| fixed(it) == Some(Fixed::Talk));
    match talk.and_then(|talk| Some((talk, talk.get("streaming").filter(|it| !it.is_null())?))) {
        None => {
            let why = "the catalog says nothing of streaming";
            report.note(&CATALOG_STREAMING, Verdict::NotOffered(why.to_owned()));
            report.note(&CATALOG_FORMATS, Verdict::NotOffered(why.to_owned()));
        }
        Some((talk, streaming)) => {
            report.hold(&CATALOG_STREAMING, wrong_streaming(streaming));
            report.hold(&CATALOG_FORMATS, formats_disagree(talk, streaming));
        }
    }
}

fn misplaced(capability: &Value) -> Option<String> {
    let (path, method) = match fixed(capability)? {
        Fixed::Talk => ("/talk", "POST"),
        Fixed::ReadNews => ("/news", "GET"),
        Fixed::PostNews => ("/news", "POST"),
    };
    let (endpoint, said) = (text(capability, "endpoint"), text(capability, "method"));
    // A base URL may have a path, and some catalogs repeat it.
    let elsewhere = !endpoint.is_empty() && !endpoint.ends_with(path);
    let otherwise = !said.is_empty() && !said.eq_ignore_ascii_case(method);
    (elsewhere || otherwise).then(|| format!("is {} {} instead of {method} {path}", short(said), short(endpoint)))
}

fn wrong_texts(capability: &Value) -> Option<String> {
    let is = |key: &str, fits: fn(&Value) -> bool| capability.get(key).is_none_or(|it| it.is_null() || fits(it));
    let list = |it: &Value| it.as_array().is_some_and(|it| it.iter().all(Value::is_string));
    ["title", "description"]
        .into_iter()
        .find_map(|key| (!is(key, Value::is_string)).then(|| format!("has a {key} that is no text")))
        .or_else(|| {
            let lists = ["content_types", "output_formats"].into_iter();
            lists.filter(|key| !is(key, list)).map(|key| format!("has {key} that are no array of texts")).next()
        })
}

fn wrong_schema(capability: &Value) -> Option<String> {
    let wrong = |key: &&&str| capability.get(**key).is_some_and(|it| !it.is_null() && !is_schema(it));
    ["input_schema", "output_schema"].iter().find(wrong).map(|key| format!("has an {key} that is no JSON Schema"))
}

/// Whether any of the drafts takes it: the text names none.
fn is_schema(schema: &Value) -> bool {
    (schema.is_object() || schema.is_boolean())
        && (jsonschema::draft202012::meta::is_valid(schema)
            || jsonschema::draft201909::meta::is_valid(schema)
            || jsonschema::draft7::meta::is_valid(schema)
            || jsonschema::draft6::meta::is_valid(schema)
            || jsonschema::draft4::meta::is_valid(schema))
}

fn wrong_sessions(capability: &Value) -> Option<String> {
    let sessions = capability.get("sessions").filter(|it| !it.is_null())?;
    let fits = |key: &str, needed: bool| sessions.get(key).map_or(!needed, Value::is_boolean);
    let wrong = !sessions.is_object() || !fits("supported", true) || !fits("required", false);
    wrong.then(|| "has sessions without a boolean supported".to_owned())
}

fn wrong_streaming(streaming: &Value) -> Option<String> {
    let Some(supported) = streaming.get("supported").and_then(Value::as_bool) else {
        return Some("streaming has no boolean supported".to_owned());
    };
    if !supported {
        return None;
    }
    if text(streaming, "transport") != "sse" {
        return Some("streaming.transport is not `sse`".to_owned());
    }
    let Some(events) = streaming.get("events").and_then(Value::as_array) else {
        return Some("streaming.events is no array".to_owned());
    };
    let has = |wanted: &str| events.iter().any(|it| it.as_str() == Some(wanted));
    let missing = REQUIRED_EVENTS.into_iter().find(|wanted| !has(wanted));
    missing.map(|wanted| format!("streaming.events lacks {wanted}"))
}

fn formats_disagree(talk: &Value, streaming: &Value) -> Option<String> {
    let supported = streaming.get("supported").and_then(Value::as_bool)?;
    let formats = talk.get("output_formats").and_then(Value::as_array)?;
    let listed = formats.iter().any(|it| it.as_str() == Some("text/event-stream"));
    let lists = if listed { "list" } else { "do not list" };
    (supported != listed)
        .then(|| format!("streaming.supported is {supported}, and output_formats {lists} text/event-stream"))
}

fn broken_packages(packages: &Value) -> Option<String> {
    let Some(packages) = packages.as_array() else { return Some("packages is no array".to_owned()) };
    let lacks = |package: &Value| ["name", "type"].into_iter().find(|key| text(package, key).is_empty());
    let found = packages.iter().enumerate().find_map(|(index, package)| Some((index, lacks(package)?)));
    found.map(|(index, key)| format!("packages[{index}] has no {key}"))
}

fn broken_protocols(protocols: &Value) -> Option<String> {
    let Some(protocols) = protocols.as_object() else { return Some("protocols is no object".to_owned()) };
    let wrong = |entry: &Value| {
        !entry.get("available").is_some_and(Value::is_boolean)
            || entry.get("endpoint").is_some_and(|it| !it.is_null() && !it.is_string())
    };
    let found = protocols.iter().find(|(_, entry)| wrong(entry));
    found.map(|(name, _)| format!("protocols.{} has no boolean available, or an endpoint that is no text", short(name)))
}
