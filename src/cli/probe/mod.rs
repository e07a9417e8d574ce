//! `probe`: any RESTAP server, held against the protocol's text rule by rule.

mod ask;
mod course;
mod print;

use std::time::Duration;

use clap::Args;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::agent::Agent;
use super::{Fault, say};
use crate::probe::judge;
use crate::restap::SESSION_HEADER;

/// Hold a server against the protocol's text, rule by rule, and say which line of gateway.yaml would mend what is broken.
///
/// It reads the catalog and the news, and calls at most five GET capabilities that need no input. It sends one message
/// to /talk, three times at most (whole, streamed, in a session of its own), with some requests that a server has to
/// refuse, and posts one item to /news; --read-only leaves all of these out. Other capabilities are never called.
///
/// What a server does not offer is no fault. A MUST that is broken ends it with 1, a SHOULD is a warning.
///
/// Example: restap-gateway probe http://127.0.0.1:8080
#[derive(Debug, Args)]
pub(super) struct Probe {
    /// The agent's base URL.
    base: String,
    /// Post nothing: no message to /talk, no item to /news.
    #[arg(long)]
    read_only: bool,
    /// Warnings end it with 1 too.
    #[arg(long)]
    strict: bool,
    /// For programs.
    #[arg(long)]
    json: bool,
    /// Sent as `Authorization: Bearer`; `@FILE` reads it from a file.
    #[arg(long, value_name = "TOKEN")]
    token: Option<String>,
    /// Sent with every request, as "Name: value"; may be given more than once.
    #[arg(long = "header", value_name = "HEADER")]
    headers: Vec<String>,
    /// How long each answer may take, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=600))]
    timeout: u64,
}

/// Bytes of a file that holds a token.
const TOKEN_BYTES_MAX: usize = 16 << 10;

impl Probe {
    pub(super) fn run(self) -> Result<(), Fault> {
        let agent = Agent::at(&self.base)?;
        let headers = self.headers()?;
        let seen = agent.within(async |client, peer| {
            let asker = ask::Asker::new(&agent, client, peer, headers.clone(), Duration::from_secs(self.timeout));
            Ok(course::run(&asker, self.read_only).await)
        })?;
        let report = judge(&seen);
        // A server may repeat what it was sent.
        let hide = |text: &str| {
            let shown = headers.values().filter_map(|value| value.to_str().ok());
            let secrets = shown.map(|value| value.strip_prefix("Bearer ").unwrap_or(value)).filter(|it| it.len() > 3);
            secrets.fold(text.to_owned(), |text, secret| text.replace(secret, "…"))
        };
        let text = if self.json {
            print::for_programs(&self.base, &report, self.strict)
        } else {
            print::for_people(&self.base, &report, self.strict)
        };
        say(&hide(&text));
        if report.passed(self.strict) { Ok(()) } else { Err(Fault(String::new())) }
    }

    fn headers(&self) -> Result<HeaderMap, Fault> {
        let mut headers = HeaderMap::new();
        if let Some(token) = &self.token {
            let token = match token.strip_prefix('@') {
                Some(path) => std::fs::read_to_string(path).map_err(|error| Fault(format!("{path}: {error}")))?,
                None => token.clone(),
            };
            let value = format!("Bearer {}", token.trim()).parse().ok().filter(|_| token.len() <= TOKEN_BYTES_MAX);
            let value: HeaderValue = value.ok_or_else(|| Fault::new("the token holds what no header can carry"))?;
            headers.insert(AUTHORIZATION, value);
        }
        for header in &self.headers {
            let (name, value) = header.split_once(':').ok_or_else(|| wrong("it has no colon"))?;
            let name: HeaderName = name.trim().parse().map_err(|_| wrong("what stands before the colon is no name"))?;
            if [ACCEPT, CONTENT_TYPE].contains(&name) || name.as_str() == SESSION_HEADER {
                return Err(wrong(&format!("{name} is what the probe varies itself")));
            }
            let value: HeaderValue =
                value.trim().parse().map_err(|_| wrong("what stands after the colon is no value of a header"))?;
            headers.append(name, value);
        }
        headers.values_mut().for_each(|value| value.set_sensitive(true));
        Ok(headers)
    }
}

/// A header that can't be sent; it may hold a credential, so it is not repeated.
fn wrong(what: &str) -> Fault {
    Fault(format!("a --header is written \"Name: value\": {what}"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::config::Config;
    use crate::probe::ALL;

    #[test]
    fn every_line_that_mends_is_a_file_that_can_be_used() {
        for rule in ALL {
            assert!(!rule.mend.contains('\n'), "{} is mended by one line", rule.id);
            let agent = if rule.mend.starts_with("agent:") { "" } else { "\nagent: {name: My agent}" };
            let text = format!("{}{agent}\n", rule.mend);
            let Err(problems) = Config::from_text("gateway.yaml", &text, Path::new("."), &|_| None) else { continue };
            // Its certificates are the reader's own.
            let other = problems.iter().find(|it| !it.path.starts_with("listen.tls."));
            assert!(other.is_none(), "{}: {other:?}", rule.id);
        }
    }
}
