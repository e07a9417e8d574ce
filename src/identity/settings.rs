//! `Settings`: `access:` of an agent.

use std::path::PathBuf;

use super::access::GROUPS_MAX;
use super::api_key::{ApiKey, CHARACTERS_MIN};
use super::pattern::Pattern;
use super::rate::Rate;
use super::right::Grant;
use crate::net::Url;
use crate::yaml::{Fields, Kind, Mismatch, Node, Problem, ReadableFile, Secret, Slot, Value, nearest};

/// The group of whoever matches none, unless the file says otherwise.
pub const DEFAULT_GROUP: &str = "everyone";

/// What `default` says where nobody is in a group by default.
const NONE: &str = "none";

/// Names that mean something else in this vocabulary.
const RESERVED_GROUPS: [&str; 5] = ["owner", "admin", "user", "all", NONE];

/// Characters of a group's name.
const GROUP_NAME_MAX: usize = 32;

/// Requests of a caller that may run at once.
const RUNNING_MAX: u64 = 1_000_000;

/// `access:` of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Keys that callers may show.
    pub api_keys: Vec<ApiKey>,
    /// Issuers of tokens that callers may show.
    pub jwt: Vec<Issuer>,
    /// What signatures of agents are good for.
    pub web_bot_auth: WebBotAuth,
    /// Who is refused whatever else holds.
    pub deny: Vec<Pattern>,
    /// Groups and who is in them, in the order of the file.
    pub groups: Vec<(String, Vec<Pattern>)>,
    /// The group of whoever matches none; `None` is `none`.
    pub default: Option<String>,
    /// Groups and what they may use.
    pub tools: Vec<(String, Vec<Grant>)>,
    /// Groups and how much of it.
    pub rate: Vec<(String, Limits)>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            api_keys: Vec::new(),
            jwt: Vec::new(),
            web_bot_auth: WebBotAuth::default(),
            deny: Vec::new(),
            groups: Vec::new(),
            default: Some(DEFAULT_GROUP.to_owned()),
            tools: Vec::new(),
            rate: Vec::new(),
        }
    }
}

/// An entry of `jwt`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issuer {
    /// `iss` of its tokens.
    pub issuer: String,
    /// `aud` of tokens for this agent: one of these.
    pub audience: Vec<String>,
    /// Where its keys are.
    pub jwks: Jwks,
    /// The claim whose values are groups.
    pub groups_claim: Option<String>,
    /// PEM file of the authorities to trust for the keys' URL.
    pub ca: Option<PathBuf>,
}

/// Where an issuer's keys are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Jwks {
    /// A URL.
    Url(Url),
    /// A file.
    File(PathBuf),
}

/// `web_bot_auth`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WebBotAuth {
    /// How much a signature must prove.
    pub profile: Profile,
    /// PEM file of the authorities to trust for the agents' key sets.
    pub ca: Option<PathBuf>,
}

/// What signatures of agents are good for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Profile {
    /// Nothing; they are not looked at.
    #[default]
    Off,
    /// To know whom a request names, for logs and rates.
    Identify,
    /// To be let in.
    Authenticate,
}

/// How much each caller of a group may do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Limits {
    /// Requests of everything together.
    pub rate: Option<Rate>,
    /// Requests that run at once.
    pub running: Option<u64>,
    /// Requests of what these name.
    pub tools: Vec<(Grant, Rate)>,
}

impl Settings {
    /// Whether `tools` closes what it does not name. `rest` is judged alone; a group that may use nothing closes too.
    pub fn restricts(&self) -> bool {
        self.tools.iter().any(|(_, grants)| grants.is_empty() || grants.iter().any(|grant| !grant.is_rest()))
    }

    /// Whether an anonymous caller may use something, which is then open to everybody.
    pub fn is_open_for(&self, id: &str) -> bool {
        let Some(default) = &self.default else { return false };
        let of_default = self.tools.iter().filter(|(group, _)| group == default);
        !self.restricts() || of_default.flat_map(|(_, grants)| grants).any(|grant| grant.names(id))
    }

    /// Whether what anonymous callers do is limited.
    pub fn limits_anonymous(&self) -> bool {
        let Some(default) = &self.default else { return true };
        self.rate.iter().any(|(group, limits)| group == default && limits.rate.is_some())
    }

    /// Reads or describes the section.
    pub fn take(slot: Slot<'_, '_>) -> Option<Self> {
        slot.section("access", |fields| {
            let doc = "Keys by name: the key itself or sha256:HEX. Callers send Authorization: Bearer or X-API-Key.";
            let api_keys = fields.with("api_keys", doc, api_keys);
            let jwt = fields.with("jwt", "Issuers whose tokens callers may send as Authorization: Bearer.", |slot| {
                slot.list(Issuer::take)
            });
            let doc = "What signatures of agents (Web Bot Auth) are good for: off, identify (logs and rates) or authenticate (groups).";
            let web_bot_auth = fields.with("web_bot_auth", doc, WebBotAuth::take);
            let deny = fields.with("deny", "Identities that are refused, whatever else holds.", |slot| slot.list(identity));
            let doc = "Groups and the identities that are in them. A caller is in every group that it matches.";
            let groups = fields.with("groups", doc, |slot| {
                slot.map(|name, slot| {
                    check_group_name(name, &slot);
                    Some((name.to_owned(), slot.list(identity)?))
                })
            });
            let default =
                fields.or_with("default", DEFAULT_GROUP.to_owned(), "The group of whoever matches none, or none.", |slot| {
                    default_group(slot)
                });
            let doc = "Groups and what they may use: ids of capabilities, patterns on them, talk, news, news_receive, rest. \
                       As soon as anything but rest stands here, nothing else may be used.";
            let tools = fields
                .with("tools", doc, |slot| slot.map(|name, slot| Some((name.to_owned(), slot.list(Grant::take)?))));
            let rate = fields.with("rate", "Groups and how often each of their callers may ask, such as 60/m.", |slot| {
                slot.map(|name, slot| Some((name.to_owned(), Limits::take(slot)?)))
            });

            let settings = Self {
                api_keys: api_keys.unwrap_or_default(),
                jwt: jwt.unwrap_or_default(),
                web_bot_auth: web_bot_auth.unwrap_or_default(),
                deny: deny.unwrap_or_default(),
                groups: groups.unwrap_or_default(),
                default: (default != NONE).then_some(default),
                tools: tools.unwrap_or_default(),
                rate: rate.unwrap_or_default(),
            };
            fields.node()?;
            settings.check_groups(fields);
            settings.check_identities(fields);
            Some(settings)
        })
    }

    /// Every group that something is said of exists.
    fn check_groups(&self, fields: &Fields<'_, '_>) {
        let known: Vec<&str> =
            self.groups.iter().map(|(name, _)| name.as_str()).chain(self.default.as_deref()).collect();
        for key in ["tools", "rate"] {
            for node in fields.get(key).into_iter().flat_map(Node::children) {
                let name = node.key().unwrap_or_default();
                if !known.contains(&name) {
                    let problem = Problem::error(node, format!("there is no group `{name}`")).at_key();
                    fields.problem(match nearest(name, known.iter().copied()) {
                        Some(near) => problem.help(format!("did you mean `{near}`?")),
                        None => problem.help("name its members under `groups`, or write it as `default`"),
                    });
                }
            }
        }
        let groups = known.iter().collect::<std::collections::HashSet<_>>().len();
        if let Some(node) = fields.get("groups").filter(|_| groups > GROUPS_MAX) {
            fields.problem(Problem::error(node, format!("an agent has {GROUPS_MAX} groups at most")).at_key());
        }
        // Whoever asks without a credential would speak as the agent.
        let default = self.default.as_deref();
        for node in fields.get("tools").into_iter().flat_map(Node::children) {
            let rest = node.children().find(|entry| entry.as_text() == Some(super::right::REST));
            if let Some(entry) = rest.filter(|_| node.key() == default) {
                let problem = Problem::error(entry, "`rest` can't be granted to callers that nobody has verified");
                fields.problem(problem.help("name it for a group whose members prove who they are"));
            }
        }
    }

    /// An identity that nobody can prove would do nothing.
    fn check_identities(&self, fields: &Fields<'_, '_>) {
        let of_groups = fields.get("groups").into_iter().flat_map(Node::children).flat_map(Node::children);
        for node in fields.get("deny").into_iter().flat_map(Node::children).chain(of_groups) {
            let Some(Ok(pattern)) = node.as_text().map(str::parse::<Pattern>) else { continue };
            if let Some((problem, help)) = self.unprovable(&pattern) {
                let problem = Problem::error(node, problem);
                fields.problem(match help {
                    Some(help) => problem.help(help),
                    None => problem,
                });
            }
        }
    }

    fn unprovable(&self, pattern: &Pattern) -> Option<(String, Option<String>)> {
        match pattern {
            Pattern::ApiKey(Some(name)) if !self.api_keys.iter().any(|key| key.name == *name) => {
                let names = self.api_keys.iter().map(|key| &*key.name);
                let near = nearest(name, names).map(|near| format!("did you mean `api_key:{near}`?"));
                let help = near.unwrap_or_else(|| format!("add it under `api_keys`: {name}: \"${{NAME}}\""));
                Some((format!("there is no API key `{name}`"), Some(help)))
            }
            Pattern::ApiKey(None) if self.api_keys.is_empty() => {
                Some(("there are no API keys".into(), Some("add them under `api_keys`".into())))
            }
            Pattern::Jwt { issuer, claim } => {
                let Some(known) = self.jwt.iter().find(|known| *known.issuer == **issuer) else {
                    let near = nearest(issuer, self.jwt.iter().map(|known| known.issuer.as_str()));
                    let help = match near {
                        Some(near) => format!("did you mean `jwt:{near}`?"),
                        None => "add the issuer under `jwt`".to_owned(),
                    };
                    return Some((format!("there is no issuer {issuer}"), Some(help)));
                };
                let of_group = claim.as_ref().is_some_and(|(name, _)| &**name == "group");
                (of_group && known.groups_claim.is_none()).then(|| {
                    let help = "say which claim holds groups: `groups_claim: groups`".to_owned();
                    ("tokens of this issuer have no groups here".to_owned(), Some(help))
                })
            }
            Pattern::Agent(_) | Pattern::Key(_) | Pattern::Domain(_)
                if self.web_bot_auth.profile != Profile::Authenticate =>
            {
                let help = "write `web_bot_auth: authenticate`";
                Some(("no caller can prove this: signatures are not enough to be let in".into(), Some(help.into())))
            }
            _ => None,
        }
    }
}

impl Issuer {
    fn take(slot: Slot<'_, '_>) -> Option<Self> {
        slot.section("jwt", |fields| {
            let issuer = fields.required::<String>("issuer", "`iss` of its tokens.");
            let doc = "`aud` of tokens for this agent: a name or a list of names.";
            let audience = fields.required_with("audience", doc, |slot| {
                slot.list_or(Vec::<String>::take, |slot| String::take(slot).map(|one| vec![one]))
            });
            let doc = "Where its keys are (JWK Set): a URL, or {file: …}.";
            let jwks = fields.required_with("jwks", doc, |slot| {
                slot.mapping_or(
                    |slot| {
                        slot.section("jwks_file", |fields| {
                            let file = fields.required::<ReadableFile>("file", "The file, read again now and then.");
                            Some(Jwks::File(file?.into()))
                        })
                    },
                    |slot| {
                        let expects = "a URL such as https://id.example.com/.well-known/jwks.json";
                        slot.parsed::<Url>(expects, Some("[Hh][Tt][Tt][Pp][Ss]?://.+")).map(Jwks::Url)
                    },
                )
            });
            let groups_claim =
                fields.optional("groups_claim", "The claim whose values are groups: jwt:ISSUER#group=VALUE.");
            let ca = fields.with("tls", "TLS towards the keys' URL.", authorities);
            if fields.get("jwks").is_some_and(|jwks| jwks.kind() == Kind::Mapping) {
                fields.useless(&["tls"], "the keys are in a file");
            }
            let (issuer, audience, jwks) = (issuer?, audience?, jwks?);
            for name in ["issuer", "audience"] {
                let empty = if name == "issuer" { issuer.is_empty() } else { audience.is_empty() };
                if let Some(node) = fields.get(name).filter(|_| empty) {
                    fields.problem(Problem::error(node, format!("`{name}` is empty, and no token is for nobody")));
                }
            }
            Some(Self { issuer, audience, jwks, groups_claim, ca })
        })
    }
}

impl WebBotAuth {
    fn take(slot: Slot<'_, '_>) -> Option<Self> {
        const WORDS: [(&str, Profile); 3] =
            [("off", Profile::Off), ("identify", Profile::Identify), ("authenticate", Profile::Authenticate)];
        slot.mapping_or(
            |slot| {
                slot.section("web_bot_auth", |fields| {
                    let profile = fields.word("profile", &WORDS, Profile::Off, "What signatures are good for.");
                    let ca = fields.with("tls", "TLS towards the agents' key sets.", authorities);
                    if profile == Profile::Off {
                        fields.useless(&["tls"], "no key set is fetched while signatures are off");
                    }
                    Some(Self { profile, ca })
                })
            },
            |slot| {
                let either = slot.node().filter(|node| node.kind() == Kind::Bool(false));
                if either.is_some() {
                    return Some(Self::default());
                }
                slot.word(&WORDS).map(|profile| Self { profile, ca: None })
            },
        )
    }
}

fn authorities(slot: Slot<'_, '_>) -> Option<PathBuf> {
    slot.section("fetch_tls", |fields| {
        let ca =
            fields.optional::<ReadableFile>("ca", "PEM file of the authorities to trust in place of the system's.");
        ca.map(Into::into)
    })
}

impl Limits {
    fn take(slot: Slot<'_, '_>) -> Option<Self> {
        slot.mapping_or(
            |slot| {
                slot.section("rate", |fields| {
                    let rate = fields.optional("rate", "Requests of everything together, such as 50/s.");
                    let running = fields.with("running", "Requests of one caller that run at once.", |slot| {
                        slot.integer(1..=RUNNING_MAX)
                    });
                    let doc = "Ids of capabilities, or patterns on them, and how often each caller may use those.";
                    let tools = fields.with("tools", doc, |slot| {
                        slot.map(|name, slot| {
                            let grant = name.parse::<Grant>();
                            if let Err(problem) = &grant {
                                // In a schema there is no name.
                                slot.problem(|node| Problem::error(node, problem.to_string()).at_key());
                            }
                            let rate = Rate::take(slot);
                            Some((grant.ok()?, rate?))
                        })
                    });
                    Some(Self { rate, running, tools: tools.unwrap_or_default() })
                })
            },
            |slot| Rate::take(slot).map(|rate| Self { rate: Some(rate), ..Self::default() }),
        )
    }
}

impl Value for Grant {
    fn take(slot: Slot<'_, '_>) -> Option<Self> {
        slot.parsed("the id of a capability such as weather.current, or a pattern such as weather.*", None)
    }
}

fn api_keys(slot: Slot<'_, '_>) -> Option<Vec<ApiKey>> {
    let (node, report) = (slot.node(), slot.report());
    let keys = slot.map(|name, slot| {
        let (node, report) = (slot.node(), slot.report());
        let secret = Secret::take(slot)?;
        let (node, report) = (node?, report?);
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        if name.is_empty() || !name.bytes().all(legal) {
            let problem = Problem::error(node, format!("{name:?} can't be the name of an API key")).at_key();
            report.add(problem.help("a name is letters, digits, `.`, `_` and `-`"));
        }
        let sendable = secret.expose().bytes().all(|byte| byte.is_ascii_graphic());
        if !sendable {
            report
                .add(Problem::error(node, "a header can't carry this key: it is not visible ASCII, or holds a space"));
        } else if secret.expose().len() < CHARACTERS_MIN && !secret.expose().starts_with("sha256:") {
            let problem =
                Problem::warning(node, format!("a key of less than {CHARACTERS_MIN} characters can be guessed"));
            report.add(problem.help("make one with: openssl rand -hex 32"));
        }
        match ApiKey::new(name, &secret) {
            Ok(key) => Some(key),
            Err(problem) => {
                report.add(Problem::error(node, problem.to_string()));
                None
            }
        }
    })?;
    for (index, key) in keys.iter().enumerate() {
        if let Some(other) = keys.iter().take(index).find(|other| other.digest == key.digest) {
            let node = node?.get(&key.name)?;
            let problem = Problem::error(node, format!("`{}` is the same key as `{}`", key.name, other.name));
            report?.add(problem.help("give every caller a key of its own"));
        }
    }
    Some(keys)
}

fn identity(slot: Slot<'_, '_>) -> Option<Pattern> {
    slot.parsed(
        "agent:https://*.partner.example/**, api_key:NAME, jwt:ISSUER#group=NAME, cert:dns:NAME, key:THUMBPRINT or domain:HOST",
        Some("(agent|api_key|jwt|cert|key|domain):.+"),
    )
}

fn check_group_name(name: &str, slot: &Slot<'_, '_>) {
    let legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-');
    let fits = name.len() <= GROUP_NAME_MAX
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.bytes().all(legal);
    if !fits {
        slot.problem(|node| {
            let problem = Problem::error(node, format!("{name:?} can't be the name of a group")).at_key();
            problem.help("a name is lower-case letters, digits, `_` and `-`, and begins with a letter")
        });
    } else if RESERVED_GROUPS.contains(&name) {
        slot.problem(|node| {
            Problem::error(node, format!("`{name}` can't be the name of a group: it is reserved")).at_key()
        });
    }
}

fn default_group(slot: Slot<'_, '_>) -> Option<String> {
    slot.value(serde_json::json!({"type": "string"}), |node| match node.as_text() {
        Some(name) if name == NONE => Ok(name.to_owned()),
        Some(name)
            if !name.is_empty()
                && name.len() <= GROUP_NAME_MAX
                && !RESERVED_GROUPS.contains(&name)
                && name.starts_with(|first: char| first.is_ascii_lowercase())
                && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b'-')) =>
        {
            Ok(name.to_owned())
        }
        _ => Err(Mismatch::found(node, "the name of a group, or none")),
    })
}
