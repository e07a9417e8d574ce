//! `Settings`: the section `rest:` of an agent.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use serde_json::json;

use crate::front::Listen;
use crate::net::Allowed;
use crate::signature::Form;
use crate::yaml::{Mismatch, Problem, ReadableFile, Secret, Slot, Value as _, Written};

/// Where agents call the tool unless the file says so.
pub const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8081);

/// Where signing keys are kept, beside the file.
const SIGNING_KEYS: &str = "keys/";

/// Characters of an entry of `secrets`. A shorter one stands in any request by chance.
const SECRET_MIN: usize = 8;

/// `rest:`.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Where the agent calls it: loopback, or a unix socket.
    pub listen: Listen,
    /// Tells which agent calls.
    pub token: Secret,
    /// Whether requests are signed.
    pub sign: Sign,
    /// Private addresses that the agent may call.
    pub allow_private: Vec<Allowed>,
    /// How `Signature-Agent` is written.
    pub signature_agent: Form,
    /// The directory of signing keys.
    pub signing_keys: PathBuf,
    /// What never leaves in a request, beside the credentials that are known anyway.
    pub secrets: Vec<Secret>,
    /// PEM file of the authorities to trust in place of the system's.
    pub ca: Option<PathBuf>,
}

/// `rest.sign`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Sign {
    /// Where it can be.
    #[default]
    Auto,
    /// What can't be signed is not sent.
    Always,
    /// Nothing is signed.
    Never,
}

impl Settings {
    /// Reads `rest:`.
    pub fn take(slot: Slot<'_, '_>) -> Option<Self> {
        slot.section("rest", |fields| {
            let listen = fields.or_with(
                "listen",
                Listen::Tcp(LISTEN),
                "Where the agent calls the tool: a loopback address or a unix socket; agents may share one.",
                listen,
            );
            let token = fields.required("token", "Tells which agent calls; sent as Authorization: Bearer.");
            let words = [("auto", Sign::Auto), ("always", Sign::Always), ("never", Sign::Never)];
            let doc = "Whether requests are signed: where it can be, always or never.";
            let sign = fields.word("sign", &words, Sign::default(), doc);
            let allow_private = fields.or_with(
                "allow_private",
                List(Vec::new()),
                "Private addresses that the agent may call: an IP address or a block of them, with or without a port.",
                |slot| slot.list(allowed).map(List),
            );
            let words = [("untyped", Form::Untyped), ("typed", Form::Typed), ("legacy", Form::Legacy)];
            let doc = "How Signature-Agent is written: no single form is understood by every service.";
            let signature_agent = fields.word("signature_agent", &words, Form::default(), doc);
            let doc = "The directory of signing keys, relative to this file; made if it is not there.";
            let signing_keys = fields.or("signing_keys", SIGNING_KEYS.to_owned(), doc);
            let secrets = fields.or_with(
                "secrets",
                List(Vec::new()),
                "What never leaves in a request, beside the credentials of this file and of the environment.",
                |slot| slot.list(secret).map(List),
            );
            let ca = fields.with("tls", "TLS towards the services that are called.", |slot| {
                slot.section("rest_tls", |fields| {
                    let doc = "PEM file of the authorities to trust in place of the system's.";
                    fields.optional::<ReadableFile>("ca", doc)
                })
            });
            if sign == Sign::Never {
                fields.useless(&["signature_agent", "signing_keys"], "`sign: never` signs nothing");
            }
            let directory = fields.node()?.document().directory();
            Some(Self {
                listen,
                token: token?,
                sign,
                allow_private: allow_private.0,
                signature_agent,
                signing_keys: directory.join(signing_keys),
                secrets: secrets.0,
                ca: ca.map(Into::into),
            })
        })
    }
}

/// A list that is empty by default.
struct List<T>(Vec<T>);

impl<T> Written for List<T> {
    fn written(&self) -> serde_json::Value {
        json!([])
    }
}

fn listen(slot: Slot<'_, '_>) -> Option<Listen> {
    let (node, report) = (slot.node(), slot.report());
    let listen = Listen::take(slot)?;
    if !listen.is_loopback() {
        let problem = Problem::error(node?, "whoever reaches this address could call others in the agent's name");
        report?.add(problem.help("listen on 127.0.0.1, or on a unix socket such as unix:/run/agent.sock"));
        return None;
    }
    Some(listen)
}

fn allowed(slot: Slot<'_, '_>) -> Option<Allowed> {
    let (node, report) = (slot.node(), slot.report());
    let allowed: Allowed = slot.value(json!({"type": "string"}), |node| {
        let expects = "an address such as 127.0.0.1, 10.0.0.0/8 or [::1]:8080";
        let Some(text) = node.as_text() else { return Err(Mismatch::found(node, expects)) };
        text.parse::<Allowed>().map_err(|error| Mismatch::found(node, expects).help(error.to_string()))
    })?;
    if allowed.is_futile() {
        let problem = Problem::warning(node?, "metadata and the local link are never called, whatever this list says");
        report?.add(problem.help("take the entry out"));
    }
    Some(allowed)
}

fn secret(slot: Slot<'_, '_>) -> Option<Secret> {
    let (node, report) = (slot.node(), slot.report());
    let secret = Secret::take(slot)?;
    if secret.expose().chars().count() >= SECRET_MIN {
        return Some(secret);
    }
    let problem = Problem::error(
        node?,
        format!("a secret of fewer than {SECRET_MIN} characters stands in any request by chance"),
    );
    report?.add(problem.help("take it out"));
    None
}
