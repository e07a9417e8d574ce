//! What no test may ever read in a log, in an error or in a request to an upstream: every session id that a caller used
//! or was given, and every credential of a gateway.yaml.

use std::collections::BTreeSet;
use std::sync::Mutex;

/// Those of all tests of this run.
static KNOWN: Mutex<Known> = Mutex::new(Known {
    sessions: BTreeSet::new(),
    forwarded: BTreeSet::new(),
    credentials: BTreeSet::new(),
    keys: BTreeSet::new(),
});

#[derive(Debug)]
struct Known {
    sessions: BTreeSet<String>,
    /// Those that a gateway.yaml lets through to a service by name.
    forwarded: BTreeSet<String>,
    credentials: BTreeSet<String>,
    /// API keys of callers, which no upstream may see either.
    keys: BTreeSet<String>,
}

/// Where a session id stands in a body.
const FIELDS: [&str; 4] = ["\"session_id\":\"", "\"session_id\": \"", "\"sessionId\":\"", "session_id="];

/// Remembers the session ids of a request or an answer.
pub(crate) fn learn_sessions(text: &str) {
    for field in FIELDS {
        for (at, _) in text.match_indices(field) {
            let id: String = text[at + field.len()..].chars().take_while(|c| is_of_a_session(*c)).collect();
            learn_session(&id);
        }
    }
}

/// Remembers a session id. One that breaks the grammar is none, and may be told.
pub(crate) fn learn_session(id: &str) {
    if (16..=128).contains(&id.len()) && id.chars().all(is_of_a_session) {
        KNOWN.lock().unwrap().sessions.insert(id.to_owned());
    }
}

/// Remembers a session id that the operator sends on.
pub(crate) fn forward_session(id: &str) {
    KNOWN.lock().unwrap().forwarded.insert(id.to_owned());
}

/// Remembers the credentials of a gateway.yaml.
pub(crate) fn learn_credentials(file: &str) {
    for (at, key) in file.match_indices("api_key: ") {
        let value: String = file[at + key.len()..].chars().take_while(|c| is_of_a_session(*c)).collect();
        // A shorter one is a placeholder, and a word that may stand anywhere.
        if value.len() >= 8 {
            KNOWN.lock().unwrap().credentials.insert(value);
        }
    }
}

/// Remembers the API keys of callers that a gateway.yaml names, as `api_keys: {name: KEY, …}`.
pub(crate) fn learn_api_keys(file: &str) {
    for part in file.split("api_keys: {").skip(1) {
        for pair in part.split('}').next().unwrap().split(',') {
            let value = pair.rsplit(' ').next().unwrap().trim_matches('"');
            if value.len() >= 8 && !value.starts_with("sha256:") {
                KNOWN.lock().unwrap().keys.insert(value.to_owned());
            }
        }
    }
}

/// Remembers what a caller sends to prove who it is, good or bad.
pub(crate) fn learn_header(name: &str, value: &str) {
    let value = value.rsplit(' ').next().unwrap();
    let proves = ["authorization", "x-api-key", "signature"].iter().any(|known| name.eq_ignore_ascii_case(known));
    if proves && value.len() >= 16 {
        KNOWN.lock().unwrap().credentials.insert(value.to_owned());
    }
}

/// Fails where a log, a metric or an error shows any of them.
#[track_caller]
pub(crate) fn assert_none_in(what: &str, text: &str) {
    let known = KNOWN.lock().unwrap();
    let all = known.sessions.iter().chain(&known.credentials).chain(&known.keys);
    let shown = all.into_iter().find(|secret| text.contains(secret.as_str())).cloned();
    drop(known);
    assert!(shown.is_none(), "{what} shows {shown:?}: {text}");
}

/// Fails where a request to an upstream shows a session id or a caller's API key; its own credential belongs there.
#[track_caller]
pub(crate) fn assert_no_session_in(what: &str, text: &str) {
    let known = KNOWN.lock().unwrap();
    let all = known.sessions.difference(&known.forwarded).chain(known.keys.difference(&known.forwarded));
    let shown = all.into_iter().find(|id| text.contains(id.as_str())).cloned();
    drop(known);
    assert!(shown.is_none(), "{what} shows {shown:?}: {text}");
}

/// All of them.
pub(crate) fn all() -> Vec<String> {
    let known = KNOWN.lock().unwrap();
    known.sessions.iter().chain(&known.credentials).chain(&known.keys).cloned().collect()
}

fn is_of_a_session(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')
}
