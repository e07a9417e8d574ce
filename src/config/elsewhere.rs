//! `from:` of an agent: what an agent that exists elsewhere says of itself, beneath what the file says.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::agent::Draft;
use super::documents::{Documents, Named};
use super::room::{Bases, Room};
use super::settings::Follow;
use super::upstreams::Upstreams;
use crate::capability::{Capability, Settings, Table};
use crate::net::Url;
use crate::remote::{self, Base, Remote, below};
use crate::restap::RESERVED_PATHS;
use crate::talk;
use crate::talk::settings::DialectChoice;
use crate::yaml::{Fields, Kind, Node, Problem, Report};

/// Bytes of a credential that is looked for in a document. A shorter one stands in any text by chance.
const CREDENTIAL_MIN: usize = 8;

/// Things left out that a warning names.
const NAMED_MAX: usize = 5;

/// An agent as it is named.
#[derive(Debug)]
pub(super) struct From<'d> {
    /// Its URL.
    pub(super) node: Node<'d>,
    /// Where it is.
    pub(super) base: Base,
    url: String,
    follows: bool,
}

impl<'d> From<'d> {
    /// Asks for its keys.
    pub(super) fn take(fields: &mut Fields<'_, 'd>) -> Option<Self> {
        let doc = "The base URL of an agent that exists, RESTAP or A2A: what is not written here comes from there.";
        let written = fields.with("from", doc, |slot| {
            let node = slot.node();
            let url = slot.parsed::<Url>("a URL such as http://10.0.0.5:4101", Some("[Hh][Tt][Tt][Pp][Ss]?://.+"))?;
            Some((node?, url))
        });
        let doc = "Whether each item of its news is stored here too.";
        let follows = fields.or("follow_news", false, doc);
        if fields.get("from").is_none() {
            fields.useless(&["follow_news"], "there is no `from`");
        }
        let (node, url) = written?;
        let text = url.to_string();
        let Ok(base) = Base::parse(&text) else {
            let problem = Problem::error(node, "the address of an agent has no query");
            fields.problem(problem.help("write its base URL, such as http://10.0.0.5:4101"));
            return None;
        };
        Some(Self { node, base, url: text, follows })
    }

    /// Its document.
    pub(super) fn named(&self) -> Named {
        Named::agent(&self.url)
    }

    /// What it is called among the upstreams: the text as it is written, for a variable in it may be a credential.
    pub(super) fn key(&self) -> &'d str {
        self.node.written()
    }

    /// What it says of itself.
    fn read(&self, documents: &Documents, report: &Report<'d>) -> Option<Remote> {
        let told = |text: String, help: &str| report.add(Problem::warning(self.node, text).help(help));
        let again = "it is asked again and again; see /ready of the admin listener";
        let problem = documents.problem(&self.named()).map(|problem| format!(": {problem}")).unwrap_or_default();
        let Some(copy) = documents.get(&self.named()) else {
            let text = format!("the agent could not be read yet{problem}; what it can do is missing");
            told(text, again);
            return None;
        };
        if !problem.is_empty() {
            told(format!("the agent can't be read{problem}; its last good copy counts"), again);
        }
        let text = copy.text().unwrap_or_default();
        for credential in report.credentials() {
            let value = credential.value.expose();
            if value.len() >= CREDENTIAL_MIN && text.contains(value) {
                let path = credential.node.path();
                let message =
                    format!("the agent's document holds the credential of `{path}`, and nothing of it is taken");
                told(message, "ask whoever runs the agent how it came to know it, and use another credential");
                return None;
            }
        }
        let remote = remote::read(&self.base, text.as_bytes());
        remote.map_err(|reason| told(reason.to_string(), "`from` is the base URL of an agent")).ok()
    }
}

/// Adds what the agent elsewhere says of itself to the agent of the file, whose own words win.
pub(super) fn expand<'d>(
    draft: &mut Draft<'d>,
    bases: &Bases,
    (documents, upstreams): (&Documents, &mut Upstreams<'d>),
    report: &Report<'d>,
) {
    let Some(from) = draft.from.take() else { return };
    let talk = draft.node.get("talk").filter(|talk| talk.kind() == Kind::Mapping);
    let Some(mut remote) = from.read(documents, report) else {
        if draft.node.get("talk").is_none() {
            draft.agent.talk = None;
        }
        return;
    };
    let mut notes = std::mem::take(&mut remote.notes);
    let mut places = Places::of(draft, &from, upstreams, report);
    identity(draft, &mut remote);
    if draft.node.get("talk").is_none() || talk.is_some_and(|talk| asks_the_agent(talk)) {
        match remote.talk.take().map(|talk| (places.place(&talk.path), talk)) {
            Some((Some((upstream, path)), remote)) => {
                let settings = draft.agent.talk.get_or_insert_with(talk::Settings::to_agent);
                settings.dialect = DialectChoice::BuiltIn(remote.dialect.to_owned());
                settings.path = settings.path.take().or(Some(path));
                settings.upstream = Some(upstream);
                settings.upstream_streaming &= remote.streaming;
            }
            Some((None, _)) => notes.push("its talk is not under the URL of `upstream`, and is left out".to_owned()),
            // A talk that the file asks for is tried where the protocol has it.
            None if talk.is_some() => notes.push("it says nothing of a talk".to_owned()),
            None => draft.agent.talk = Some(talk::Settings::guide()),
        }
    }
    if from.follows {
        draft.agent.follow = remote
            .news
            .as_deref()
            .and_then(|news| places.place(news))
            .map(|(upstream, path)| Follow { agent: from.base.url.to_string(), upstream, path });
        if draft.agent.follow.is_none() {
            notes.push("it has no news to follow".to_owned());
        }
    }
    capabilities(draft, remote.capabilities, bases, &mut places, &mut notes);
    if !notes.is_empty() {
        let more = notes.len().saturating_sub(NAMED_MAX);
        let named = notes.into_iter().take(NAMED_MAX).collect::<Vec<_>>().join("; ");
        let more = if more > 0 { format!("; and {more} more") } else { String::new() };
        report.add(Problem::warning(from.node, format!("of the agent: {named}{more}")));
    }
}

/// Whether a talk in the file says nothing of whom it is with.
fn asks_the_agent(talk: Node<'_>) -> bool {
    talk.get("upstream").is_none() && talk.get("dialect").is_none()
}

/// Who the agent is, as far as the file does not say it.
fn identity(draft: &mut Draft<'_>, remote: &mut Remote) {
    let written = |key: &str| draft.node.get(key).is_some();
    let agent = &mut draft.agent;
    if let Some(name) = remote.name.take().filter(|_| !written("name")) {
        agent.card.name = name;
    }
    if !written("description") {
        agent.card.description = remote.description.take();
    }
    if !written("contact") {
        agent.card.contact = remote.contact.take();
    }
    if !written("version") {
        agent.version = remote.version.take();
    }
    let name = |package: &Map<String, Value>| package.get("name").cloned();
    let own: Vec<_> = agent.packages.iter().map(name).collect();
    agent.packages.extend(remote.packages.drain(..).filter(|package| !own.contains(&name(package))));
    for (protocol, value) in std::mem::take(&mut remote.protocols) {
        agent.protocols.entry(protocol).or_insert(value);
    }
}

/// What it can do, as routes to it.
fn capabilities(
    draft: &mut Draft<'_>,
    found: Vec<remote::Capability>,
    bases: &Bases,
    places: &mut Places<'_, '_, '_>,
    notes: &mut Vec<String>,
) {
    let (mut room, by_hand) = (Room::of(draft), draft.agent.capabilities.len());
    let own: HashSet<String> = draft.agent.capabilities.iter().map(|one| one.id.clone()).collect();
    for one in found {
        let mut segments = one.endpoint.split('/').skip(1);
        let first = segments.next().unwrap_or_default();
        let (id, endpoint) = (one.id.clone(), one.endpoint.clone());
        if first.is_empty() || RESERVED_PATHS.contains(&first) {
            notes.push(format!("`{id}` is left out: every agent answers {endpoint} itself"));
            continue;
        }
        let Some((upstream, path)) = places.place(&one.path) else {
            notes.push(format!("`{id}` is left out: it is not under the URL of `upstream`"));
            continue;
        };
        if let Err(reason) = room.take(draft, settings(one, &upstream, path), bases) {
            // What the file has under the same id is what the operator wants in its place.
            if !own.contains(&id) {
                notes.push(format!("`{id}` is left out: {reason}"));
            }
        }
    }
    let compiled = draft.agent.capabilities.iter().filter_map(|one| Capability::new(one.clone()).ok()).collect();
    let Err(problems) = Table::new(compiled) else { return };
    let mut broken: Vec<_> = problems.into_iter().filter(|(number, _)| *number >= by_hand).collect();
    broken.sort_by_key(|(number, _)| std::cmp::Reverse(*number));
    for (number, problem) in broken {
        if number < draft.agent.capabilities.len() {
            let gone = draft.agent.capabilities.remove(number);
            notes.push(format!("`{}` is left out: {problem}", gone.id));
        }
    }
}

/// One that passes what it is asked, and what is answered: the agent judges its own requests.
fn settings(one: remote::Capability, upstream: &str, path: String) -> Settings {
    let mut settings = Settings::new(&one.id, one.method, &one.endpoint, upstream);
    settings.route.path = path;
    settings.title = one.title.unwrap_or(one.id);
    settings.description = one.description;
    settings.parameters = one.parameters;
    settings.input_schema = one.input_schema.map(std::sync::Arc::new);
    settings.output_schema = one.output_schema.map(std::sync::Arc::new);
    settings.content_types = one.content_types;
    settings.output_formats = one.output_formats;
    settings
}

/// Where on which upstream a path of the agent's origin is.
struct Places<'d, 'u, 'r> {
    /// What it is asked through, and the path in front of its requests.
    upstream: (String, String),
    /// Where nothing else is written: the origin, for what is not under the base.
    origin: Option<Url>,
    origin_key: String,
    node: Node<'d>,
    upstreams: &'u mut Upstreams<'d>,
    report: &'r Report<'d>,
}

impl<'d, 'u, 'r> Places<'d, 'u, 'r> {
    fn of(draft: &Draft<'d>, from: &From<'d>, upstreams: &'u mut Upstreams<'d>, report: &'r Report<'d>) -> Self {
        let url = &from.base.url;
        let written = draft.node.get("upstream").and_then(|node| Some((node, node.as_text()?)));
        let upstream = match written {
            Some((node, text)) => {
                let key = if text.contains("://") {
                    node.written().to_owned()
                } else {
                    upstreams.key(text, draft.file).unwrap_or_default()
                };
                (key, upstreams.prefix(text, draft.file).unwrap_or_default())
            }
            None => (from.key().to_owned(), url.prefix.to_string()),
        };
        let origin = Url { prefix: "".into(), ..url.clone() };
        Self {
            upstream,
            origin: written.is_none().then_some(origin),
            origin_key: format!("{} (origin)", from.key()),
            node: from.node,
            upstreams,
            report,
        }
    }

    fn place(&mut self, path: &str) -> Option<(String, String)> {
        let slashed = |rest: &str| if rest.is_empty() { "/".to_owned() } else { rest.to_owned() };
        if let Some(rest) = below(&self.upstream.1, path) {
            return Some((self.upstream.0.clone(), slashed(rest)));
        }
        let origin = self.origin.clone()?;
        self.upstreams.add(&self.origin_key, origin, self.node, self.report);
        Some((self.origin_key.clone(), path.to_owned()))
    }
}
