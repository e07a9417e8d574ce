//! `demo`: two services that know nothing of RESTAP, and the gateway that makes one agent of them.

mod chat;
mod http;
mod text;

use std::net::TcpListener;
use std::path::Path;

use clap::Args;

use super::process::Start;
use super::{Fault, say};
use crate::config::{Config, Source};

/// The repository's own configuration, which the demo shows off.
const GATEWAY_YAML: &str = include_str!("../../../gateway.yaml");

/// A small legacy service and a chat service on loopback, the gateway before them, and what to try.
///
/// Example: restap-gateway demo
#[derive(Debug, Args)]
pub(super) struct Demo {}

pub(super) fn run() -> Result<(), Fault> {
    // What is tried out here should leave nothing behind.
    let text = GATEWAY_YAML.replace("store: {embedded: {path: data}}", "store: {memory: {}}");
    let (config, origin) = super::source::open(Source::text("gateway.yaml", &text, Path::new(".")))?;
    serve(&config, "text", text::answer)?;
    serve(&config, "chat", chat::answer)?;
    super::process::run(config, origin, Start::default(), |base| say(&tour(base)))
}

/// Opens one of the services where the configuration expects it.
fn serve(
    config: &Config,
    name: &str,
    answer: fn(&http::Request, &mut http::Responder<'_>) -> std::io::Result<()>,
) -> Result<(), Fault> {
    let upstream = config.upstreams.get(name).ok_or_else(|| Fault(format!("gateway.yaml has no upstream {name}")))?;
    let address = upstream.url.origin.authority();
    let listener = TcpListener::bind(&address)
        .map_err(|error| Fault(format!("the demo's {name} service can't listen on {address}: {error}")))?;
    http::serve(listener, answer);
    Ok(())
}

/// What to type, once the gateway listens at `base`.
fn tour(base: &str) -> String {
    format!(
        "A legacy text service and a chat service run behind the gateway. Together they are one RESTAP agent:\n\n  \
         {base}\n\nTry it from another terminal; Ctrl-C ends it.\n\n  \
         curl {base}/.well-known/restap.json\n  \
         curl {base}/text/reverse -H 'Content-Type: application/json' -d '{{\"text\":\"Hello World\"}}'\n  \
         curl -N {base}/talk -H 'Accept: text/event-stream' -H 'Content-Type: application/json' -d '{{\"message\":\"What can you do?\"}}'\n  \
         curl {base}/news -H 'Content-Type: application/json' -d '{{\"type\":\"reply\",\"message\":\"Hello from curl\"}}'\n\n"
    )
}
