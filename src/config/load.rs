//! From files to a `Config`: read all, check all, and only then decide.

use std::path::{Path, PathBuf};

use super::agent::Draft;
use super::documents::{Documents, Named};
use super::include::{self, Trouble};
use super::part::{self, Part};
use super::server::Server;
use super::source::{Against, Reading};
use super::sources::Sources;
use super::upstreams::Upstreams;
use super::{Config, Environment, Loaded, check};
use super::{elsewhere, imports};
use crate::store;
use crate::yaml::document::TEXT_MAX;
use crate::yaml::file::read_text;
use crate::yaml::{Diagnostic, Document, Kind, Problem, Report, Severity, Slot};

/// Reads gateway.yaml and what it includes.
pub(super) fn file(path: &Path, environment: Environment<'_>, against: Against<'_>) -> Reading {
    let name = path.display().to_string();
    let text = read_text(path, TEXT_MAX as u64).map_err(|reason| vec![Diagnostic::of_file(&name, reason)]);
    let directory = path.parent().unwrap_or(Path::new(""));
    let main = text.and_then(|text| Document::parse(&name, directory, text).map_err(|unreadable| vec![*unreadable]));
    match main {
        Ok(main) => documents(main, Some(path), environment, against),
        Err(problems) => unreadable(problems, Some(path)),
    }
}

/// Reads a text as if it were gateway.yaml in this directory.
pub(super) fn text(
    name: &str,
    text: String,
    directory: &Path,
    environment: Environment<'_>,
    against: Against<'_>,
) -> Reading {
    match Document::parse(name, directory, text) {
        Ok(main) => documents(main, None, environment, against),
        Err(problem) => unreadable(vec![*problem], None),
    }
}

fn unreadable(problems: Vec<Diagnostic>, path: Option<&Path>) -> Reading {
    let documents = path.into_iter().map(Path::to_owned).collect();
    Reading { outcome: Err(problems), sources: Sources::new(documents, Vec::new(), Vec::new()) }
}

fn documents(main: Document, path: Option<&Path>, environment: Environment<'_>, against: Against<'_>) -> Reading {
    let Files { documents, paths, patterns, unreadable, troubles } = Files::beside(main, path, environment);
    let report = Report::default();
    for document in &documents {
        report.open(document);
    }
    let config = documents.split_first().and_then(|(main, included)| {
        let list = main.root().get("include");
        for (entry, trouble) in troubles {
            let Some(node) = list.and_then(|list| list.children().nth(entry)) else { continue };
            report.add(match trouble {
                Trouble::Error(message) => Problem::error(node, message),
                Trouble::Empty => Problem::warning(node, "no file matches this pattern"),
            });
        }
        assemble(main, included, !unreadable.is_empty(), against, &report)
    });
    let paths = path.into_iter().map(Path::to_owned).chain(paths).collect();
    let sources = Sources::new(paths, patterns, report.files());
    let mut diagnostics = report.into_diagnostics(&documents);
    diagnostics.extend(unreadable);
    let outcome = match config {
        Some(config) if diagnostics.iter().all(|diagnostic| diagnostic.severity == Severity::Warning) => {
            Ok(Loaded { config, warnings: diagnostics })
        }
        _ => Err(diagnostics),
    };
    Reading { outcome, sources }
}

/// All files, the main one first.
struct Files {
    documents: Vec<Document>,
    /// Of the included ones.
    paths: Vec<PathBuf>,
    /// What of `include:` is a pattern, below its directory.
    patterns: Vec<String>,
    /// Files that are no YAML.
    unreadable: Vec<Diagnostic>,
    /// What is wrong with an entry of `include:`, by its position.
    troubles: Vec<(usize, Trouble)>,
}

impl Files {
    fn beside(mut main: Document, path: Option<&Path>, environment: Environment<'_>) -> Self {
        main.fill_in(environment);
        let found = include::find(main.root().get("include"), path);
        let mut files = Self {
            documents: vec![main],
            paths: Vec::new(),
            patterns: found.patterns,
            unreadable: Vec::new(),
            troubles: found.problems,
        };
        for include::File { path, entry } in found.files {
            let document = match read_text(&path, TEXT_MAX as u64) {
                Ok(text) => Document::parse(&path.display().to_string(), path.parent().unwrap_or(Path::new("")), text),
                Err(reason) => {
                    files.troubles.push((entry, Trouble::Error(reason)));
                    files.paths.push(path);
                    continue;
                }
            };
            match document {
                Ok(mut document) => {
                    document.fill_in(environment);
                    files.documents.push(document);
                }
                Err(unreadable) => files.unreadable.push(*unreadable),
            }
            files.paths.push(path);
        }
        files
    }
}

fn assemble<'d>(
    main: &'d Document,
    included: &'d [Document],
    incomplete: bool,
    against: Against<'_>,
    report: &Report<'d>,
) -> Option<Config> {
    if main.root().kind() == Kind::Null {
        report.add(Problem::error(main.root(), "the file is empty").help(SHORTEST));
        return None;
    }
    let (mut server, first) = part::gateway(Slot::read(main.root(), report))?;
    if !against.listen.is_empty() {
        server.listen = against.listen.iter().map(|listen| (listen.clone(), None)).collect();
        server.ways.clear();
    }
    let others = included.iter().map(|file| part::included(Slot::read(file.root(), report)).unwrap_or_default());
    let (upstreams, mut agents) = gather(std::iter::once(first).chain(others));
    if agents.is_empty() && !incomplete && main.root().get("agent").is_none() {
        report.add(Problem::error(main.root(), "there is no agent").help(SHORTEST));
    }
    let mut upstreams = Upstreams::new(upstreams, incomplete, report);
    check::check(&server, &mut agents, &mut upstreams, report);
    expand(&mut agents, &server.store, against.documents, &mut upstreams, report);
    if let Some(running) = against.running {
        check::reload::check(&server, &agents, running, main.root(), report);
    }
    let Server { listen, ways, public_url, admin, store, limits, trusted_proxies, log } = server;
    Some(Config {
        ways,
        listen: listen.into_iter().map(|(listen, _)| listen).collect(),
        public_url,
        admin,
        store,
        limits,
        trusted_proxies,
        log,
        upstreams: upstreams.finish(report),
        agents: agents.into_iter().map(|draft| draft.agent).collect(),
        credentials: report.secrets().into_iter().map(|secret| (secret.node.path(), secret.value)).collect(),
    })
}

/// Adds what documents say to the agents that name them.
fn expand<'d>(
    agents: &mut [Draft<'d>],
    store: &store::Settings,
    documents: &Documents,
    upstreams: &mut Upstreams<'d>,
    report: &Report<'d>,
) {
    let folder =
        if let store::settings::Engine::Embedded { path, .. } = &store.engine { Some(path.clone()) } else { None };
    let imports = agents.iter().flat_map(|draft| &draft.imports).filter_map(imports::Import::url);
    let elsewhere = agents.iter().filter_map(|draft| draft.from.as_ref()).map(elsewhere::From::named);
    documents.expect(folder, imports.map(Named::description).chain(elsewhere).collect());
    let bases = agents.iter().map(|draft| (draft.agent.host.clone(), draft.agent.base_path.clone())).collect();
    for draft in agents {
        imports::expand(draft, &bases, documents, report);
        elsewhere::expand(draft, &bases, (documents, upstreams), report);
    }
}

/// What to write into a file without an agent.
const SHORTEST: &str = "add one, such as agent: {name: Assistant, talk: {upstream: http://127.0.0.1:11434, dialect: ollama-chat, model: llama3.2}}";

fn gather<'d>(parts: impl Iterator<Item = Part<'d>>) -> (Vec<Vec<part::Entry<'d>>>, Vec<Draft<'d>>) {
    let (mut upstreams, mut agents) = (Vec::new(), Vec::new());
    for (file, part) in parts.enumerate() {
        upstreams.push(part.upstreams);
        agents.extend(part.agents.into_iter().map(|draft| Draft { file, ..draft }));
    }
    (upstreams, agents)
}
