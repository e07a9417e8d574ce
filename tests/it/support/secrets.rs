//! What no test may ever read in a log, in an error or in a request to an upstream: every session id that a caller used
//! or was given, and every credential of a gateway.yaml.

use std::collections::BTreeSet;
use std::sync::Mutex;

/// Those of all tests of this run.
static KNOWN: Mutex<Known> =
    Mutex::new(Known { sessions: BTreeSet::new(), forwarded: BTreeSet::new(), credentials: BTreeSet::new() });

#[derive(Debug)]
struct Known {
    sessions: BTreeSet<String>,
    /// Those that a gateway.yaml lets through to a service by name.
    forwarded: BTreeSet<String>,
    credentials: BTreeSet<String>,
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

/// Fails where a log, a metric or an error shows any of them.
#[track_caller]
pub(crate) fn assert_none_in(what: &str, text: &str) {
    let known = KNOWN.lock().unwrap();
    let shown = known.sessions.iter().chain(&known.credentials).find(|secret| text.contains(secret.as_str())).cloned();
    drop(known);
    assert!(shown.is_none(), "{what} shows {shown:?}: {text}");
}

/// Fails where a request to an upstream shows a session id; its credential belongs there.
#[track_caller]
pub(crate) fn assert_no_session_in(what: &str, text: &str) {
    let known = KNOWN.lock().unwrap();
    let shown = known.sessions.difference(&known.forwarded).find(|id| text.contains(id.as_str())).cloned();
    drop(known);
    assert!(shown.is_none(), "{what} shows {shown:?}: {text}");
}

/// All of them.
pub(crate) fn all() -> Vec<String> {
    let known = KNOWN.lock().unwrap();
    known.sessions.iter().chain(&known.credentials).cloned().collect()
}

fn is_of_a_session(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')
}
