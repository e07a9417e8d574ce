//! Where agents call the outbound tool, and whether their requests can be signed.

use std::collections::HashMap;

use super::super::agent::Draft;
use super::super::server::Server;
use super::super::upstreams::place;
use crate::egress::settings::Sign;
use crate::front::Listen;
use crate::keyring::Keyring;
use crate::yaml::{Node, Problem, Report};

/// Reports listeners that serve somebody else too, tokens that tell nothing apart, and requests that are never sent.
pub(super) fn check<'d>(server: &Server<'d>, agents: &[Draft<'d>], report: &Report<'d>) {
    let mut tokens: HashMap<(&Listen, &str), Node<'d>> = HashMap::new();
    for draft in agents {
        let (Some(rest), Some(node)) = (&draft.agent.rest, draft.node.get("rest")) else { continue };
        let at = |name: &str| node.get(name).unwrap_or(node);
        let taken = !matches!(&rest.listen, Listen::Tcp(address) if address.port() == 0);
        if taken && server.listen.iter().any(|(listen, _)| *listen == rest.listen) {
            let problem = Problem::error(at("listen"), format!("callers are served at {} already", rest.listen));
            report.add(problem.help("give `rest.listen` another port: what is there speaks for the agent"));
        }
        if taken && server.admin.as_ref().is_some_and(|admin| admin.listen == rest.listen) {
            let problem = Problem::error(at("listen"), format!("operators are served at {} already", rest.listen));
            report.add(problem.help("give `rest.listen` another port"));
        }
        if let Some(earlier) = tokens.insert((&rest.listen, rest.token.expose()), at("token")) {
            let message =
                format!("the token at {} is the same, so that nobody knows which agent calls", place(earlier));
            report.add(Problem::error(at("token"), message).help("give each agent a token of its own"));
        }
        let keyring = Keyring::new(&rest.signing_keys, &draft.agent.key);
        keyring.files().into_iter().for_each(|path| report.file(path));
        if let Err(problem) = keyring.read() {
            report.add(Problem::error(at("signing_keys"), problem.to_string()));
        }
        let https = match (&draft.agent.host, &server.public_url) {
            (Some(_), _) => true,
            (None, Some(url)) => url.starts_with("https://"),
            (None, None) => false,
        };
        if rest.sign == Sign::Always && !https {
            let message = "nothing can be signed as this agent, so that every request is refused";
            report.add(
                Problem::warning(at("sign"), message).help("set `public_url` to the https address of the gateway"),
            );
        }
    }
}
