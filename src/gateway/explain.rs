//! `explain`: what would become of a request, without anything being opened or asked.

use http::Method;

use super::live::{AssembleError, Live};
use super::router::Fixed;
use crate::capability::{Found, InvalidPath, NormalPath};
use crate::config::Config;
use crate::identity::{Access, Right, Verdict};
use crate::net::{Client, Roots};
use crate::store::Keys;
use crate::telemetry::Metrics;
use crate::yaml::Period;

/// A request that somebody asks about.
#[derive(Debug, Clone)]
pub struct Asked<'a> {
    /// Its method.
    pub method: Method,
    /// Its path and query, as a caller would send them.
    pub target: &'a str,
    /// Its `Host`, without a port; empty for any.
    pub host: &'a str,
}

/// What would become of it: a name and what is to be said of it, in the order in which it happens.
pub type Steps = Vec<(&'static str, String)>;

/// Why nothing can be said.
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    /// The configuration can't be served.
    #[error(transparent)]
    Assemble(#[from] AssembleError),
    /// The system.
    #[error("{0}")]
    System(String),
}

/// Says what would become of a request.
pub fn explain(config: &Config, asked: &Asked<'_>) -> Result<Steps, ExplainError> {
    let system = |error: &dyn std::fmt::Display| ExplainError::System(error.to_string());
    let client = Client::new(Roots::none());
    let metrics = Metrics::new().map_err(|error| system(&error))?;
    let keys = Keys::random().map_err(|error| system(&error))?;
    let live = Live::assemble(config, (&client, &metrics), &keys, None)?;
    let mut steps = Steps::new();
    let host = asked.host.to_ascii_lowercase();
    if !live.serves_host(&host) {
        steps.push(("answer", format!("421 misdirected: `{host}` is neither the host of public_url nor of an agent")));
        return Ok(steps);
    }
    let (path, query) = match asked.target.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (asked.target, None),
    };
    let path: NormalPath = match path.parse() {
        Ok(path) => path,
        Err(problem) => {
            steps.push(("answer", invalid(problem)));
            return Ok(steps);
        }
    };
    if path.as_str() != asked.target.split('?').next().unwrap_or_default() {
        steps.push(("path", path.as_str().to_owned()));
    }
    let Some((agent, own)) = live.routes.find(&host, &path) else {
        let answer = match path.as_str() {
            "/" => "the directory of all agents",
            "/.well-known/api-catalog" => "the api-catalog of all agents (RFC 9727)",
            _ => "404 not_found: no agent has a base URL that leads here",
        };
        steps.push(("answer", answer.to_owned()));
        return Ok(steps);
    };
    let base = if agent.base_path.is_empty() { "/" } else { &agent.base_path };
    steps.push(("agent", format!("{} at {base}", agent.key)));
    let settings = config.agents.iter().find(|settings| *settings.key == *agent.key);
    let access = settings.and_then(|settings| settings.access.as_ref()).map(Access::new);
    if let Some(fixed) = Fixed::find(agent, own.as_str()) {
        if fixed == Fixed::Reserved {
            steps.push(("answer", "404 not_found: the path is reserved, and never forwarded".to_owned()));
        } else if !fixed.takes(&asked.method) && asked.method != Method::OPTIONS {
            steps.push(("answer", format!("405 method_not_allowed: it takes {}", fixed.allow())));
        } else {
            steps.push(("route", format!("{}, answered by the gateway itself", fixed.name())));
            let right = match fixed {
                Fixed::Talk | Fixed::Query => Some(Right::Talk),
                Fixed::News if asked.method == Method::POST => Some(Right::NewsReceive),
                Fixed::News => Some(Right::News),
                _ => None,
            };
            steps.push((
                "access",
                right.map_or_else(|| "open to everybody".to_owned(), |right| rule(access.as_ref(), right)),
            ));
            if let Some(talk) = agent.talk.as_ref().filter(|_| fixed == Fixed::Talk) {
                steps.push((
                    "upstream",
                    match &talk.upstream {
                        Some(upstream) => format!("{} ({})", upstream.name, upstream.url.origin),
                        None => "none: the built-in guide answers".to_owned(),
                    },
                ));
            }
        }
        return Ok(steps);
    }
    match agent.table.find(&own, &asked.method) {
        Found::Capability(capability, params) => {
            steps.push(("route", format!("capability {}, {}", capability.id(), capability.settings().endpoint)));
            for (name, value) in params.iter() {
                steps.push(("parameter", format!("{name} = {value}")));
            }
            steps.push(("access", rule(access.as_ref(), Right::Capability(capability.id()))));
            if let Some(call) = agent.calls.get(capability.id()) {
                steps.push(("upstream", format!("{} ({})", call.upstream.name, call.upstream.url.origin)));
                // Without what the upstream adds, which may be credentials.
                if let Some(service) = call.plain_service() {
                    let target = call.capability.target(&service, &params, &asked.method, query);
                    steps.push(("request", format!("{} {}", target.method(), target.path_and_query())));
                }
                let names: Vec<&str> = call.upstream.headers().iter().map(|(name, _)| name.as_str()).collect();
                if !names.is_empty() {
                    steps.push(("headers", format!("set by the upstream: {}", names.join(", "))));
                }
                steps.push(("body", call.way_in_words().to_owned()));
                if let Some(period) = call.capability.settings().route.cache {
                    let period = Period(period);
                    steps.push(("cache", format!("for {period} at most, for callers without a credential or session")));
                }
            }
        }
        Found::MethodNotAllowed(allow) => {
            let methods: Vec<&str> = allow.methods().iter().map(Method::as_str).collect();
            steps.push(("answer", format!("405 method_not_allowed: the path takes {}", methods.join(", "))));
        }
        Found::NotFound => steps.push(("answer", "404 not_found: no capability of the agent has this path".to_owned())),
        Found::InvalidPath(problem) => steps.push(("answer", invalid(problem))),
    }
    Ok(steps)
}

fn invalid(problem: InvalidPath) -> String {
    format!("400 invalid_path: {problem}")
}

/// Who may, as far as that is known without a caller.
fn rule(access: Option<&Access>, right: Right<'_>) -> String {
    let Some(access) = access else { return "open to everybody: the agent has no `access`".to_owned() };
    let standing = access.standing(None);
    match access.judge(standing, false, right) {
        Verdict::Allowed => "anonymous callers may".to_owned(),
        Verdict::NeedsCredential => "401 for anonymous callers: `access.tools` gives it to others".to_owned(),
        Verdict::Forbidden | Verdict::Denied => "403 for anonymous callers".to_owned(),
    }
}
