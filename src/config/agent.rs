//! One agent: `agent:`, or an entry of `agents:`.

use serde_json::{Map, Value, json};

use super::elsewhere::From;
use super::imports::Import;
use super::settings::Agent;
use crate::capability::settings::Report;
use crate::restap::catalog::Card;
use crate::yaml::{Fields, Mismatch, Node, Problem, Scalar, Slot, Switch};
use crate::{capability, egress, identity, store, talk};

/// The key of the one agent at the origin.
pub(super) const SINGLE: &str = "agent";

/// An agent as it is written; its upstreams are still what the operator calls them.
#[derive(Debug)]
pub(super) struct Draft<'d> {
    /// Where it is written.
    pub(super) node: Node<'d>,
    /// Position of the file that it is written in.
    pub(super) file: usize,
    pub(super) agent: Agent,
    /// Where each of `agent.capabilities` is written.
    pub(super) capabilities: Vec<Node<'d>>,
    /// Descriptions of APIs among them, which are read once all upstreams are known.
    pub(super) imports: Vec<Import<'d>>,
    /// The agent elsewhere that it is.
    pub(super) from: Option<From<'d>>,
}

/// An entry of `capabilities:`.
enum Entry<'d> {
    One(Option<Node<'d>>, Box<capability::Settings>),
    Many(Box<Import<'d>>),
}

impl<'d> Draft<'d> {
    /// Reads the agent of this key, at `base` unless it says otherwise; `None` in a schema, or where no mapping stands.
    pub(super) fn take(key: &str, base: &str, slot: Slot<'_, 'd>) -> Option<Self> {
        slot.section("agent", |fields| {
            let name = fields.optional("name", "The agent's name; under `agents` its key unless written.");
            let description = fields.optional("description", "What it is for.");
            let contact = fields.optional("contact", "Whom to ask about it.");
            let version = fields.optional::<Scalar>("version", "Shown in the catalog and in health.").map(Into::into);
            let doc = "The path of its base URL; / for `agent` and where a `host` is written, else /agents/NAME.";
            let base_path = fields.with("base_path", doc, base_path);
            let host = fields.with("host", "The host name that it alone answers.", host);
            let doc = "The name or the URL of an upstream: the default of its capabilities and of its talk.";
            let upstream = fields.optional::<String>("upstream", doc);
            let from = From::take(fields);
            let written = from.as_ref().map(|from| from.base.url.to_string());
            let upstream = upstream.as_deref().or(written.as_deref());
            let dialect = if from.is_some() { talk::settings::DIALECT_OF_AN_AGENT } else { talk::settings::DIALECT };
            let talk =
                fields.with("talk", "How it talks, or off; the built-in guide answers unless written.", |slot| {
                    slot.switch(|slot| talk::Settings::take(slot, upstream, dialect))
                });
            let news = fields.with("news", "Its feeds, or off.", |slot| slot.switch(store::NewsSettings::take));
            let capabilities = fields.with("capabilities", "What it can do.", |slot| {
                slot.list(|slot| {
                    slot.mapping_with_or(
                        "openapi",
                        |slot| {
                            slot.section("capabilities_of", |fields| {
                                let doc = "Capabilities out of an OpenAPI description, in place of one by hand.";
                                let import = fields.required_with("openapi", doc, Import::take);
                                import.map(|import| Entry::Many(Box::new(import)))
                            })
                        },
                        |slot| {
                            let node = slot.node();
                            Some(Entry::One(node, Box::new(capability::Settings::take(slot, upstream)?)))
                        },
                    )
                })
            });
            let packages = fields.with("packages", "Packages that help clients.", |slot| slot.list(package));
            let protocols = fields.optional("protocols", "Related protocols and whether they are served.");
            let cors = fields.with("cors", "Which web pages may use the agent.", cors);
            let access =
                fields.with("access", "Who may do what; without it everything is open.", identity::Settings::take);

            let rest = fields.with("rest", "The tool with which the agent calls web APIs and other agents.", |slot| {
                egress::Settings::take(slot)
            });

            let node = fields.node()?;
            if let Some(node) = node.get("talk").and_then(|talk| talk.get("news")).filter(|_| news == Some(Switch::Off))
            {
                fields.problem(Problem::error(node, "`news` does nothing here: the agent has `news: off`").at_key());
            }
            if let Some(node) = node.get("follow_news").filter(|_| news == Some(Switch::Off)) {
                let problem =
                    Problem::error(node, "`follow_news` does nothing here: the agent has `news: off`").at_key();
                fields.problem(problem.help("leave one of them out"));
            }
            if news == Some(Switch::Off) {
                let reporting = capabilities.iter().flatten().filter_map(|entry| match entry {
                    Entry::One(node, settings) if settings.report != Report::Off => node.as_ref(),
                    _ => None,
                });
                for node in reporting {
                    let Some(node) = node.get("report") else { continue };
                    let problem = Problem::error(node, "`report` does nothing here: the agent has `news: off`");
                    fields.problem(problem.at_key().help("leave one of them out"));
                }
            }
            let default_base = if host.is_some() { String::new() } else { base.to_owned() };
            let (mut places, mut by_hand, mut imports) = (Vec::new(), Vec::new(), Vec::new());
            for entry in capabilities.unwrap_or_default() {
                match entry {
                    Entry::One(node, settings) => {
                        places.extend(node);
                        by_hand.push(*settings);
                    }
                    Entry::Many(import) => imports.push(*import),
                }
            }
            let agent = Agent {
                key: key.to_owned(),
                base_path: base_path.unwrap_or(default_base),
                host,
                card: Card { name: name.unwrap_or_else(|| key.to_owned()), description, contact },
                version,
                talk: match talk {
                    Some(Switch::Off) => None,
                    Some(Switch::On(talk)) => Some(talk),
                    Some(Switch::Default) | None if from.is_some() => Some(talk::Settings::to_agent()),
                    Some(Switch::Default) | None => Some(talk::Settings::guide()),
                },
                news: match news {
                    Some(Switch::Off) => None,
                    Some(Switch::On(news)) => Some(news),
                    Some(Switch::Default) | None => Some(store::NewsSettings::default()),
                },
                capabilities: by_hand,
                packages: packages.unwrap_or_default(),
                protocols: protocols.unwrap_or_default(),
                rest,
                cors,
                access,
                follow: None,
            };
            Some(Self { node, file: 0, agent, capabilities: places, imports, from })
        })
    }

    /// Where what calls it by its address is written: its `host`, its `base_path`, or its own key.
    pub(super) fn address_node(&self) -> Node<'d> {
        self.node.get("base_path").or(self.node.get("host")).unwrap_or(self.node)
    }
}

fn base_path(slot: Slot<'_, '_>) -> Option<String> {
    slot.value(json!({"type": "string", "pattern": "^/|\\$\\{"}), |node| {
        let path = node.as_text().map(|path| path.strip_suffix('/').unwrap_or(path));
        let legal =
            |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'{' | b'}' | b'%' | b'?' | b'#' | b'\\' | b'"');
        match path {
            Some("") if node.as_text() == Some("/") => Ok(String::new()),
            Some(path)
                if path.bytes().all(legal)
                    && path
                        .strip_prefix('/')
                        .is_some_and(|path| path.split('/').all(|segment| !matches!(segment, "" | "." | ".."))) =>
            {
                Ok(path.to_owned())
            }
            _ => Err(Mismatch::found(node, "a path such as /agents/billing")),
        }
    })
}

fn host(slot: Slot<'_, '_>) -> Option<String> {
    slot.value(json!({"type": "string"}), |node| {
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
        match node.as_text() {
            Some(host) if !host.is_empty() && host.len() <= 253 && host.bytes().all(legal) => {
                Ok(host.to_ascii_lowercase())
            }
            _ => {
                let mismatch = Mismatch::found(node, "a host name such as support.example.com");
                Err(mismatch.help("without a scheme, a port, a path or a wildcard"))
            }
        }
    })
}

fn package(slot: Slot<'_, '_>) -> Option<Map<String, Value>> {
    slot.section("package", |fields| {
        fields.required_with("name", "What the package is called.", nonempty);
        fields.required_with("type", "What kind of package it is, such as claude-plugin.", nonempty);
        fields.welcome_others();
        fields.node().map(Node::to_map)
    })
}

fn nonempty(slot: Slot<'_, '_>) -> Option<()> {
    slot.value(json!({"type": "string", "minLength": 1}), |node| match node.as_text() {
        Some(text) if !text.is_empty() => Ok(()),
        _ => Err(Mismatch::found(node, "a text that is not empty")),
    })
}

fn cors(slot: Slot<'_, '_>) -> Option<Vec<String>> {
    slot.section("cors", |fields: &mut Fields<'_, '_>| {
        fields.with("origins", "Origins such as https://app.example.com, or \"*\" for all.", |slot| slot.list(origin))
    })
}

fn origin(slot: Slot<'_, '_>) -> Option<String> {
    slot.value(json!({"type": "string"}), |node| {
        let url = node.as_text().map(str::parse::<crate::net::Url>);
        match (node.as_text(), url) {
            (Some("*"), _) => Ok("*".to_owned()),
            (Some(text), Some(Ok(url))) if url.prefix.is_empty() && url.query.is_empty() && !text.ends_with('/') => {
                Ok(url.origin.to_string())
            }
            _ => Err(Mismatch::found(node, "an origin such as https://app.example.com, or \"*\"")),
        }
    })
}
