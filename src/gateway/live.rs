//! `Live`: one configuration, assembled. A request keeps the one that it began with.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use http::HeaderValue;
use serde_json::{Map, Value};
use tokio::runtime::Handle;

use super::agent_side::Tokens;
use super::following;
use super::handler::capability::Call;
use super::handler::talk::later::Queries;
use super::job::Reports;
use super::router::Agents;
use super::signing_keys;
use super::tools::Tools;
use super::views::{View, Views};
use super::who::{Guard, Surroundings, Who};
use crate::cache::Cache;
use crate::capability::{Capability, CookiePolicy, Service, Table};
use crate::catalog::{self, Document, Facts};
use crate::config::Cidr;
use crate::config::settings::{self, Config, Limits};
use crate::egress::Tool;
use crate::keyring::{Held, KeyringError};
use crate::net::{self, Client, tls};
use crate::signature::normal_authority;
use crate::store::settings::NewsSessions;
use crate::store::{AgentId, Keys, NewsSettings};
use crate::talk::Dialect;
use crate::talk::dialect::{Conversation, Problem};
use crate::talk::settings::{DialectChoice, History, NewsContext};
use crate::telemetry::{self, Metrics};
use crate::upstream::{self, Upstream, Upstreams};

/// Everything that a request is answered by.
#[derive(Debug)]
pub(super) struct Live {
    pub agents: Vec<Arc<Agent>>,
    pub routes: Agents,
    /// Which agent calls its tool.
    pub tokens: Tokens,
    pub limits: Limits,
    /// Answers that `route.cache` keeps, of all agents.
    pub cache: Arc<Cache>,
    pub log: telemetry::Settings,
    pub directory: Directory,
    /// Kept for the next configuration, which takes over those that stay as they are.
    upstreams: Upstreams,
    trusted_proxies: Vec<Cidr>,
    /// The host of `public_url`.
    public_host: Option<String>,
    /// The same with its port, as a signature names it.
    pub public_authority: Option<String>,
}

/// What the origin answers where no agent lives there.
#[derive(Debug)]
pub(super) struct Directory {
    pub root: Document,
    pub api_catalog: Document,
}

/// One agent that is served.
#[derive(Debug)]
pub(super) struct Agent {
    pub key: Arc<str>,
    pub id: AgentId,
    pub name: String,
    pub version: String,
    pub base_path: String,
    pub host: Option<String>,
    pub views: Views,
    /// `access`; `None` where everything is open.
    pub guard: Option<Guard>,
    pub table: Table,
    /// By capability id.
    pub calls: HashMap<Box<str>, Arc<Call>>,
    pub talk: Option<Arc<Talk>>,
    pub news: Option<NewsSettings>,
    pub cors: Option<Vec<HeaderValue>>,
    /// Talk streams that are open.
    pub streams: Arc<AtomicUsize>,
    /// Readers that wait for news.
    pub waiters: Arc<AtomicUsize>,
    pub queries: Arc<Queries>,
    /// Reports of calls that are being appended.
    pub reports: Arc<Reports>,
    /// `rest_request`.
    pub tool: Option<Tool>,
    /// What it signs with.
    pub keys: Held,
    /// Whose news it reads.
    pub follows: Option<following::Source>,
}

impl Agent {
    /// The agent as this caller sees it.
    pub(super) fn view(&self, who: &Who) -> Arc<View> {
        self.views.of(self.guard.as_ref(), who)
    }
}

/// How an agent talks.
#[derive(Debug)]
pub(super) struct Talk {
    pub dialect: Arc<Dialect>,
    /// `None` is the guide.
    pub upstream: Option<Arc<Upstream>>,
    pub model: Option<String>,
    pub system: Option<String>,
    pub options: Map<String, Value>,
    pub streaming: bool,
    pub upstream_streaming: bool,
    pub history: History,
    pub news: NewsContext,
}

/// Why a configuration that reads well can't be served.
#[derive(Debug, thiserror::Error)]
pub enum AssembleError {
    /// An upstream's certificates or headers.
    #[error(transparent)]
    Upstream(#[from] upstream::Error),
    /// A capability.
    #[error("agent `{agent}`: capability `{capability}`: {problem}")]
    Capability {
        /// The agent's key.
        agent: String,
        /// Its id.
        capability: String,
        /// What is wrong.
        problem: String,
    },
    /// The authorities of an agent's outbound tool.
    #[error("agent `{agent}`: rest: {problem}")]
    Rest {
        /// The agent's key.
        agent: String,
        /// What is wrong.
        problem: tls::Error,
    },
    /// An agent's signing keys.
    #[error("agent `{agent}`: its signing keys can't be used: {problem}")]
    Keys {
        /// The agent's key.
        agent: String,
        /// What is wrong.
        problem: KeyringError,
    },
    /// More credentials than can be searched for.
    #[error("the credentials of the file and of the environment can't be searched for: {0}")]
    Credentials(String),
    /// A dialect.
    #[error("agent `{agent}`: the dialect can't be used: {problem}")]
    Dialect {
        /// The agent's key.
        agent: String,
        /// What is wrong.
        problem: String,
    },
    /// Certificates that key sets are fetched by.
    #[error("agent `{agent}`: access: {problem}")]
    Access {
        /// The agent's key.
        agent: String,
        /// What is wrong.
        problem: tls::Error,
    },
    /// A catalog that is too large.
    #[error("agent `{agent}`: {problem}")]
    Catalog {
        /// The agent's key.
        agent: String,
        /// What is wrong.
        problem: catalog::TooLarge,
    },
}

impl Live {
    /// Builds every room once. `before` is the configuration in force, whose counts of open streams and of queries go on
    /// and whose upstreams stay where nothing of them changes, with the certificates and secrets that hold something else
    /// now.
    pub(super) fn assemble(
        config: &Config,
        (client, metrics): (&Client, &Metrics),
        keys: &Keys,
        before: Option<(&Self, &HashSet<PathBuf>)>,
    ) -> Result<Self, AssembleError> {
        let kept = before.map(|(live, changed)| (&live.upstreams, changed));
        let upstreams = Upstreams::new(config.upstreams.clone(), client, Some(metrics), kept)?;
        let services = services(config)?;
        let tools = Tools::new(config, client)?;
        let known: HashMap<&str, &Arc<Agent>> =
            before.iter().flat_map(|(live, _)| &live.agents).map(|agent| (&*agent.key, agent)).collect();
        let mut agents = Vec::with_capacity(config.agents.len());
        for settings in &config.agents {
            let before = known.get(settings.key.as_str()).map(|agent| &***agent);
            let parts = Parts { config, client, upstreams: &upstreams, services: &services, tools: Some(&tools) };
            agents.push(Arc::new(parts.agent(settings, keys.agent(&settings.key), before)?));
        }
        let mut tokens = Tokens::default();
        for (settings, agent) in config.agents.iter().zip(&agents) {
            if let Some(rest) = &settings.rest {
                tokens.add(&rest.listen, &rest.token, agent);
            }
        }
        let cache = before.map(|(live, _)| &live.cache).filter(|cache| cache.bytes_max() == config.limits.cache);
        Ok(Self {
            cache: cache.map_or_else(|| Arc::new(Cache::new(config.limits.cache)), Arc::clone),
            routes: Agents::new(&agents),
            tokens,
            directory: directory(config),
            agents,
            upstreams,
            limits: config.limits,
            log: config.log,
            trusted_proxies: config.trusted_proxies.clone(),
            public_host: config.public_url.as_deref().map(host_of_url),
            public_authority: config.public_url.as_deref().and_then(|url| normal_authority(authority_of_url(url))),
        })
    }

    /// Begins what goes on beside requests, for as long as this is in force or a request has it.
    pub(super) fn watch(&self, runtime: &Handle) {
        self.upstreams.watch(runtime);
    }

    /// Whether a request for this host is for this gateway: once names are configured, others are somebody else's.
    pub(super) fn serves_host(&self, host: &str) -> bool {
        let named = self.public_host.is_some() || self.routes.have_hosts();
        !named
            || host == "localhost"
            || host.parse::<IpAddr>().is_ok()
            || self.public_host.as_deref() == Some(host)
            || self.routes.knows_host(host)
    }

    /// Whether what this peer says of its own callers is believed.
    pub(super) fn trusts(&self, peer: IpAddr) -> bool {
        self.trusted_proxies.iter().any(|block| block.contains(peer))
    }
}

/// What agents are made of.
struct Parts<'a> {
    config: &'a Config,
    client: &'a Client,
    upstreams: &'a Upstreams,
    services: &'a BTreeMap<&'a str, Arc<Service>>,
    /// `None` where nobody will call any.
    tools: Option<&'a Tools<'a>>,
}

impl Parts<'_> {
    fn agent(&self, settings: &settings::Agent, id: AgentId, before: Option<&Agent>) -> Result<Agent, AssembleError> {
        let table = table(settings)?;
        let calls = table
            .iter()
            .filter_map(|capability| {
                let upstream = &capability.settings().route.upstream;
                let service = self.services.get(upstream.as_str())?;
                let call = Call::new(capability.clone(), service.clone(), self.upstreams.get(upstream)?.clone());
                Some((capability.id().into(), Arc::new(call)))
            })
            .collect();
        let talk = settings.talk.as_ref().map(|talk| self.talk(settings, talk).map(Arc::new)).transpose()?;
        let facts = facts(self.config, settings, talk.as_deref(), &table);
        let views = Views::new(facts, &settings.base_path)
            .map_err(|problem| AssembleError::Catalog { agent: settings.key.clone(), problem })?;
        let guard = match &settings.access {
            None => None,
            Some(access) => {
                let around = Surroundings {
                    client: self.client,
                    name: &settings.card.name,
                    authorities: authorities(self.config, settings),
                    before: before.and_then(|before| before.guard.as_ref()),
                };
                let broken = |problem| AssembleError::Access { agent: settings.key.clone(), problem };
                Some(Guard::new(access, around).map_err(broken)?)
            }
        };
        let cors =
            settings.cors.as_ref().map(|origins| origins.iter().filter_map(|origin| origin.parse().ok()).collect());
        let later = settings.talk.as_ref().map(|talk| talk.later).unwrap_or_default();
        let queries = before.map(|before| &before.queries).filter(|queries| queries.bounds() == later);
        let queries = queries.map_or_else(|| Arc::new(Queries::new(later)), Arc::clone);
        let broken = |problem| AssembleError::Keys { agent: settings.key.clone(), problem };
        let keys = self.tools.map_or(Ok(Held::default()), |_| signing_keys::held(settings)).map_err(broken)?;
        Ok(Agent {
            key: settings.key.as_str().into(),
            id,
            name: settings.card.name.clone(),
            version: settings.version.clone().unwrap_or_else(|| catalog::VERSION_DEFAULT.to_owned()),
            base_path: settings.base_path.clone(),
            host: settings.host.clone(),
            views,
            guard,
            table,
            calls,
            talk,
            news: settings.news,
            cors,
            streams: before.map_or_else(Arc::default, |before| before.streams.clone()),
            waiters: before.map_or_else(Arc::default, |before| before.waiters.clone()),
            queries,
            reports: before.map_or_else(Arc::default, |before| before.reports.clone()),
            tool: self.tools.map_or(Ok(None), |tools| tools.tool(settings, &keys.signing()))?,
            keys,
            follows: settings.follow.as_ref().and_then(|follow| {
                let upstream = self.upstreams.get(&follow.upstream)?.clone();
                Some(following::Source { agent: follow.agent.clone(), upstream, path: follow.path.clone() })
            }),
        })
    }

    fn talk(&self, agent: &settings::Agent, talk: &crate::talk::Settings) -> Result<Talk, AssembleError> {
        let broken = |problem: String| AssembleError::Dialect { agent: agent.key.clone(), problem };
        let first = |problems: Vec<Problem>| {
            broken(problems.into_iter().map(|problem| problem.message).next().unwrap_or_default())
        };
        // The guide asks nobody, so that how it would ask is of no matter.
        let asks_nobody = || DialectChoice::BuiltIn("text".to_owned()).compile();
        let dialect = match talk.dialect.compile().map_err(first)? {
            Some(dialect) => Some(dialect),
            None => asks_nobody().map_err(first)?,
        };
        let dialect = dialect.ok_or_else(|| broken("there is none".to_owned()))?;
        let dialect = match &talk.path {
            Some(path) => dialect.with_path(path).map_err(first)?,
            None => dialect,
        };
        Ok(Talk {
            upstream: talk.upstream.as_deref().and_then(|name| self.upstreams.get(name)).cloned(),
            model: talk.model.clone(),
            system: talk.system.clone(),
            options: talk.options.clone(),
            streaming: talk.streaming,
            upstream_streaming: talk.upstream_streaming && dialect.streams(),
            history: talk.history,
            news: talk.news,
            dialect: Arc::new(dialect),
        })
    }
}

impl Talk {
    /// Whether the agent itself reminds the upstream of what was said.
    pub(super) fn keeps_history(&self) -> bool {
        self.history.turns > 0 && self.dialect.takes_history()
    }

    /// Whether a session's turns belong together: `sessions.supported`.
    pub(super) fn continues(&self) -> bool {
        self.upstream.is_some() && (self.keeps_history() || self.dialect.conversation() != Conversation::None)
    }
}

fn table(settings: &settings::Agent) -> Result<Table, AssembleError> {
    let broken = |number: usize, problem: String| AssembleError::Capability {
        agent: settings.key.clone(),
        capability: settings.capabilities.get(number).map(|capability| capability.id.clone()).unwrap_or_default(),
        problem,
    };
    let mut capabilities = Vec::with_capacity(settings.capabilities.len());
    for (number, capability) in settings.capabilities.iter().enumerate() {
        let compiled = Capability::new(capability.clone());
        capabilities.push(
            compiled
                .map_err(|problems| broken(number, problems.first().map(ToString::to_string).unwrap_or_default()))?,
        );
    }
    Table::new(capabilities).map_err(|problems| match problems.into_iter().next() {
        Some((number, problem)) => broken(number, problem.to_string()),
        None => broken(0, String::new()),
    })
}

fn services(config: &Config) -> Result<BTreeMap<&str, Arc<Service>>, AssembleError> {
    let mut services = BTreeMap::new();
    for (name, settings) in &config.upstreams {
        let cookies = match settings.cookies {
            upstream::settings::Cookies::Drop => CookiePolicy::Drop,
            upstream::settings::Cookies::Pass => CookiePolicy::Pass,
        };
        let service = Service::new(&settings.url, &settings.headers, &settings.query, cookies).map_err(|problem| {
            AssembleError::Capability { agent: String::new(), capability: name.clone(), problem: problem.to_string() }
        })?;
        services.insert(name.as_str(), Arc::new(service));
    }
    Ok(services)
}

/// What is published of an agent.
pub(super) fn facts(config: &Config, agent: &settings::Agent, talk: Option<&Talk>, table: &Table) -> Facts {
    Facts {
        card: agent.card.clone(),
        version: agent.version.clone(),
        public_url: config.public_url.as_ref().map(|url| format!("{url}{}", agent.base_path)),
        talk: talk.map(|talk| catalog::Talk {
            streaming: talk.streaming,
            sessions: talk.continues(),
            optional_events: talk.dialect.hints().iter().map(|name| (*name).to_owned()).collect(),
        }),
        news: agent.news.map(|news| catalog::News {
            sessions: match news.sessions {
                NewsSessions::Required => catalog::NewsSessions::Required,
                NewsSessions::Optional => catalog::NewsSessions::Optional,
                NewsSessions::Ignored => catalog::NewsSessions::Ignored,
            },
            reads: true,
            posts: true,
        }),
        capabilities: table.iter().map(|capability| capability.published()).collect(),
        packages: agent.packages.clone(),
        protocols: agent.protocols.clone(),
    }
}

fn directory(config: &Config) -> Directory {
    let entries: Vec<catalog::Entry> = config
        .agents
        .iter()
        .map(|agent| catalog::Entry {
            name: agent.card.name.clone(),
            description: agent.card.description.clone(),
            base: base_url(config, agent),
        })
        .collect();
    Directory { root: catalog::directory(&entries), api_catalog: catalog::api_catalog(&entries) }
}

/// Where an agent is: absolute where a public URL or a host is known.
pub(super) fn base_url(config: &Config, agent: &settings::Agent) -> String {
    match (&agent.host, &config.public_url) {
        (Some(host), _) => format!("https://{host}{}", agent.base_path),
        (None, Some(url)) => format!("{url}{}", agent.base_path),
        (None, None) => agent.base_path.clone(),
    }
}

/// The hosts that requests to an agent may be signed for; none where any may be.
fn authorities(config: &Config, agent: &settings::Agent) -> Vec<String> {
    let public = config.public_url.as_deref().and_then(|url| url.split_once("://"));
    let public = public.and_then(|(_, rest)| rest.split('/').next());
    public.into_iter().chain(agent.host.as_deref()).filter_map(normal_authority).collect()
}

fn host_of_url(url: &str) -> String {
    crate::front::host_of(authority_of_url(url)).to_ascii_lowercase()
}

fn authority_of_url(url: &str) -> &str {
    url.split_once("://").map_or(url, |(_, rest)| rest).split('/').next().unwrap_or_default()
}

/// An agent's discovery document, without anything being opened.
pub fn catalog(config: &Config, agent: &settings::Agent) -> Result<String, AssembleError> {
    let client = Client::new(net::Roots::none());
    let upstreams = Upstreams::new(config.upstreams.clone(), &client, None, None)?;
    let services = services(config)?;
    let parts = Parts { config, client: &client, upstreams: &upstreams, services: &services, tools: None };
    let agent = parts.agent(agent, AgentId::default(), None)?;
    Ok(String::from_utf8_lossy(agent.views.whole().published.catalog.body()).into_owned())
}
