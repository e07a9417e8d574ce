//! `explain`: what would become of a request, without asking anybody.

use crate::support::run;

const FILE: &str = "\
upstreams: {api: {url: 'http://127.0.0.1:9/v1', bearer: sk-not-to-be-seen, query: {key: not-to-be-seen}}}
agents:
  weather:
    upstream: api
    capabilities:
      - {id: weather.current, endpoint: '/weather/{city}', route: {path: '/current/{city}', query: {units: metric}, cache: 30s}}
      - {id: weather.post, method: POST, endpoint: /reports}
    access: {groups: {staff: ['api_key:ci']}, api_keys: {ci: k-0123456789abcdef}, tools: {staff: [weather.post], everyone: [talk, 'weather.current']}, default: everyone}
  plain: {}
";

#[track_caller]
fn explained(arguments: &[&str], parts: &[&str]) {
    let directory = tempfile::tempdir().unwrap();
    let finished = run(directory.path(), Some(FILE), &[&["explain"], arguments].concat());
    assert_eq!(finished.code, Some(0), "{finished:?}");
    for part in parts {
        assert!(finished.stdout.contains(part), "{part:?} is not in {}", finished.stdout);
    }
    assert!(!finished.stdout.contains("not-to-be-seen"), "{}", finished.stdout);
}

#[test]
fn a_capability_is_followed_to_its_service() {
    explained(
        &["get", "/agents/weather/weather/Oslo?lang=en"],
        &[
            "agent      weather at /agents/weather\n",
            "route      capability weather.current, /weather/{city}\n",
            "parameter  city = Oslo\n",
            "access     anonymous callers may\n",
            "upstream   api (http://127.0.0.1:9)\n",
            "request    GET /v1/current/Oslo?",
            "units=metric",
            "authorization",
            "cache      for 30s at most, for callers without a credential or session",
        ],
    );
    explained(&["POST", "/agents/weather/reports"], &["access     401 for anonymous callers"]);
}

#[test]
fn what_the_gateway_answers_itself_is_told_and_so_is_what_it_refuses() {
    explained(
        &["POST", "/agents/plain/talk"],
        &["route      talk", "access     open to everybody", "the built-in guide answers"],
    );
    explained(&["GET", "/agents/plain/talk"], &["405 method_not_allowed: it takes POST"]);
    explained(
        &["GET", "/agents/plain/x/../.well-known/restap.json"],
        &["path       /agents/plain/.well-known/restap.json"],
    );
    explained(&["GET", "/agents/plain/.well-known/other"], &["404 not_found: the path is reserved"]);
    explained(&["GET", "/agents/weather/nowhere"], &["404 not_found: no capability of the agent has this path"]);
    explained(&["DELETE", "/agents/weather/reports"], &["405 method_not_allowed: the path takes POST"]);
    explained(&["GET", "/agents"], &["404 not_found: no agent"]);
    explained(&["GET", "/"], &["the directory of all agents"]);
    explained(&["GET", "/%2e%2e/x"], &["400 invalid_path"]);
    explained(&["GET", "/agents/plain/health", "--json"], &[r#"{"step":"agent","what":"plain at /agents/plain"}"#]);
}
