//! `- openapi: {…}` among the capabilities of an agent: what a description of an API says, in place of entries by hand.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::agent::Draft;
use super::documents::{Documents, Named};
use super::room::{Bases, Room};
use crate::capability::{self, Capability, Settings, Table};
use crate::net::Url;
use crate::openapi::{self, Bundle, Filter, Imported, Location, Operation, Options, Outcome, SendAs, Wanted};
use crate::restap::catalog::{Parameter, Style};
use crate::yaml::document::TEXT_MAX;
use crate::yaml::{Document, Fields, Kind, Mismatch, Node, Problem, Report, Severity, Slot, nearest};

/// Bytes of the schema of a body: the whole one is held against requests, and what is published of it is less anyway.
const INPUT_BYTES: usize = 256 << 10;

/// Reasons for which an operation is skipped that are no surprise to anybody.
const EXPECTED: [&str; 3] = ["filtered", "deprecated", "unsupported_method"];

/// Operations that a warning names.
const NAMED_MAX: usize = 5;

/// One document as it is named.
#[derive(Debug)]
pub(super) struct Import<'d> {
    /// The section.
    node: Node<'d>,
    origin: Origin,
    filter: Filter,
    prefix: String,
    overrides: Vec<(&'d str, Node<'d>)>,
    /// The key of its upstream; empty until it is known.
    pub(super) upstream: String,
}

#[derive(Debug)]
enum Origin {
    File(PathBuf),
    Url(String),
}

impl<'d> Import<'d> {
    /// Reads the section `openapi`.
    pub(super) fn take(slot: Slot<'_, 'd>) -> Option<Self> {
        slot.section("openapi", |fields| {
            let file =
                fields.optional::<PathBuf>("file", "The description: Swagger 2.0, OpenAPI 3.0 or 3.1, YAML or JSON.");
            let doc = "Where the description is fetched from, in place of `file`.";
            let url = fields.with("url", doc, |slot| {
                slot.parsed::<Url>(
                    "a URL such as http://127.0.0.1:5000/openapi.json",
                    Some("[Hh][Tt][Tt][Pp][Ss]?://.+"),
                )
            });
            fields.optional::<String>("upstream", "The name or the URL of the service; the agent's unless written.");
            let list = |fields: &mut Fields<'_, 'd>, name, doc: &str| {
                fields.optional::<Vec<String>>(name, doc).unwrap_or_default()
            };
            let include = list(fields, "include", "Patterns of ids to take, such as pet.*; all unless written.");
            let exclude = list(fields, "exclude", "Patterns of ids to leave out.");
            let tags = list(fields, "tags", "Tags to take; all unless written.");
            let paths = list(fields, "paths", "Patterns of paths to take: * stays in a segment, ** does not.");
            let methods = list(fields, "methods", "Methods to take, as in the description.");
            let prefix = fields.or_with("prefix", String::new(), "In front of every endpoint, such as /shop.", prefix);
            let overrides =
                fields.with("overrides", "By id: keys of the capability that are other than imported.", |slot| {
                    slot.map(|id, slot| {
                        let node = slot.node();
                        Settings::take_part(slot);
                        Some((id, node?))
                    })
                });
            let node = fields.node()?;
            let filter = Filter::default().tags(&tags, &[]).methods(&methods);
            let filter = filter.ids(&include, &exclude).and_then(|filter| filter.paths(&paths, &[]));
            let filter = match filter {
                Ok(filter) => filter,
                Err(problem) => {
                    fields.problem(Problem::error(node, problem.to_string()));
                    return None;
                }
            };
            let origin = match (file, url, fields.get("file"), fields.get("url")) {
                (_, _, Some(_), Some(url)) => {
                    let problem = Problem::error(url, "a description is in a file or at a URL, not both").at_key();
                    fields.problem(problem.help("keep one of them"));
                    return None;
                }
                (_, _, None, None) => {
                    let problem =
                        Problem::error(node, "neither `file` nor `url` says where the description is").at_key();
                    fields.problem(problem.help("write one of them"));
                    return None;
                }
                (file, url, ..) => file.map(Origin::File).or(url.map(|url| Origin::Url(url.to_string())))?,
            };
            let overrides = overrides.unwrap_or_default();
            Some(Self { node, origin, filter, prefix, overrides, upstream: String::new() })
        })
    }

    /// Its section.
    pub(super) fn node(&self) -> Node<'d> {
        self.node
    }

    /// The URL that it is fetched from, if it is.
    pub(super) fn url(&self) -> Option<&str> {
        match &self.origin {
            Origin::Url(url) => Some(url),
            Origin::File(_) => None,
        }
    }

    /// The document, or a problem.
    fn bundle(&self, documents: &Documents, report: &Report<'d>) -> Option<Bundle> {
        let told = |problem: Problem<'d>| report.add(problem);
        match &self.origin {
            Origin::File(path) => {
                let node = self.node.get("file").unwrap_or(self.node);
                let elsewhere = || Err("it is elsewhere, and nothing is fetched for a file".to_owned());
                let read = read_file(path, &mut |part| report.file(part), &mut |_, _| elsewhere());
                read.map_err(|reason| told(Problem::error(node, reason))).ok()
            }
            Origin::Url(url) => {
                let node = self.node.get("url").unwrap_or(self.node);
                let Some(copy) = documents.get(&Named::description(url)) else {
                    let problem =
                        Problem::warning(node, "the description could not be read yet: its capabilities are missing");
                    told(problem.help("it is asked for again and again; see /ready of the admin listener"));
                    return None;
                };
                copy.bundle().map_err(|reason| told(Problem::warning(node, reason.to_string()))).ok()
            }
        }
    }
}

/// Adds what every document of an agent says to its capabilities. What is written by hand wins.
pub(super) fn expand<'d>(draft: &mut Draft<'d>, bases: &Bases, documents: &Documents, report: &Report<'d>) {
    for import in std::mem::take(&mut draft.imports) {
        let Some(bundle) = import.bundle(documents, report) else { continue };
        let options = Options {
            filter: import.filter.clone(),
            prefix: import.prefix.clone(),
            name: plain_name(&import.upstream),
            base_url: Some("http://upstream".to_owned()),
            input_bytes: INPUT_BYTES,
            ..Options::default()
        };
        match openapi::import(&bundle, &options) {
            Ok(imported) => take_all(draft, &import, imported, bases, report),
            Err(reason) => {
                let problem = match import.origin {
                    Origin::File(_) => {
                        Problem::error(import.node.get("file").unwrap_or(import.node), reason.to_string())
                    }
                    Origin::Url(_) => {
                        Problem::warning(import.node.get("url").unwrap_or(import.node), reason.to_string())
                    }
                };
                report.add(problem);
            }
        }
    }
}

fn take_all<'d>(
    draft: &mut Draft<'d>,
    import: &Import<'d>,
    mut imported: Imported,
    bases: &Bases,
    report: &Report<'d>,
) {
    let known: HashSet<&str> = imported.operations.iter().map(|operation| operation.id.as_str()).collect();
    for (id, node) in import.overrides.iter().filter(|(id, _)| !known.contains(id)) {
        let problem = Problem::warning(*node, format!("the description has no operation `{id}`")).at_key();
        report.add(match nearest(id, known.iter().copied()) {
            Some(near) => problem.help(format!("did you mean `{near}`?")),
            None => problem.help("`restap-gateway import` lists the ids"),
        });
    }
    drop(known);
    let mut room = Room::of(draft);
    for operation in std::mem::take(&mut imported.operations) {
        let id = operation.id.clone();
        let settings = match import.overrides.iter().find(|(of, _)| *of == operation.id) {
            Some((_, node)) => overridden(&operation, *node, &import.upstream, report),
            None => settings(&operation, &import.upstream),
        };
        let Some(settings) = settings else {
            imported.report.skip(&id, "bad_operation", "it can't be made a capability".to_owned(), "write it by hand");
            continue;
        };
        if let Err(reason) = room.take(draft, settings, bases) {
            imported.report.skip(&id, "taken", reason, "leave one of them out, or write a `prefix`");
        }
    }
    tell(import, &imported, report);
}

/// The operations that somebody may miss, in one warning.
fn tell<'d>(import: &Import<'d>, imported: &Imported, report: &Report<'d>) {
    let missed = imported
        .report
        .operations
        .iter()
        .filter(|outcome| outcome.skipped.is_some_and(|code| !EXPECTED.contains(&code)));
    let missed: Vec<&Outcome> = missed.collect();
    let node = import.node.get("file").or(import.node.get("url")).unwrap_or(import.node);
    if imported.report.taken() == 0 {
        let problem =
            Problem::warning(node, format!("nothing of the description is taken: {}", imported.report.summary()));
        report.add(problem.help("`restap-gateway import` says why, operation by operation"));
        return;
    }
    if missed.is_empty() {
        return;
    }
    let named: Vec<_> = missed
        .iter()
        .take(NAMED_MAX)
        .map(|it| format!("{} {} ({})", it.method, it.path, it.skipped.unwrap_or_default()))
        .collect();
    let more = if missed.len() > NAMED_MAX { format!(" and {} more", missed.len() - NAMED_MAX) } else { String::new() };
    let text = format!("{} operations of the description are left out: {}{more}", missed.len(), named.join(", "));
    report.add(
        Problem::warning(node, text).help("`restap-gateway import` says why; a `prefix` makes room for reserved paths"),
    );
}

/// Leaves out what could not be served as it is, so that a file which is made of the rest passes `check`.
pub fn keep_sound(imported: &mut Imported) {
    let mut sound = Vec::with_capacity(imported.operations.len());
    let mut compiled = Vec::with_capacity(imported.operations.len());
    for operation in std::mem::take(&mut imported.operations) {
        let capability = settings(&operation, "upstream").map(Capability::new);
        let problem = match capability {
            Some(Ok(capability)) => {
                compiled.push(capability);
                sound.push(operation);
                continue;
            }
            Some(Err(problems)) => problems.first().map(ToString::to_string),
            None => None,
        };
        let reason = problem.unwrap_or_else(|| "it can't be made a capability".to_owned());
        imported.report.skip(&operation.id, "bad_path", reason, "correct the document, or write it by hand");
    }
    let broken = Table::new(compiled).err().unwrap_or_default();
    let broken: HashMap<usize, String> =
        broken.into_iter().map(|(number, problem)| (number, problem.to_string())).collect();
    for (number, operation) in sound.into_iter().enumerate() {
        match broken.get(&number) {
            None => imported.operations.push(operation),
            Some(reason) => {
                imported.report.skip(
                    &operation.id,
                    "ambiguous_route",
                    reason.clone(),
                    "leave one of them out, or change its path",
                );
            }
        }
    }
}

/// A capability as the entry would be read that an import writes.
pub(super) fn settings(operation: &Operation, upstream: &str) -> Option<Settings> {
    let mut settings = Settings::new(&operation.id, operation.method.parse().ok()?, &operation.endpoint, upstream);
    settings.title.clone_from(&operation.title);
    settings.description.clone_from(&operation.description);
    settings.parameters = operation.parameters.iter().map(parameter).collect();
    settings.output_schema.clone_from(&operation.output_schema);
    settings.output_formats.clone_from(&operation.output_formats);
    settings.route.method = operation.route_method.parse().ok()?;
    settings.route.path.clone_from(&operation.route_path);
    let literal = |(name, value): &(String, String)| (name.clone(), value.replace('{', "{{").replace('}', "}}"));
    settings.route.query = operation.route_query.iter().map(literal).collect();
    if let Some(body) = &operation.body {
        settings.input_schema.clone_from(&body.schema);
        settings.content_types.clone_from(&body.content_types);
        settings.input_required = body.required;
        settings.route.send_as = match body.send_as {
            SendAs::AsIs => capability::settings::SendAs::Json,
            SendAs::Form => capability::settings::SendAs::Form,
            SendAs::Multipart => capability::settings::SendAs::Multipart,
        };
        let encoding = |(name, form): &(String, openapi::Form)| {
            let encoding = capability::settings::Encoding {
                style: style(form),
                explode: form.explode,
                ..capability::settings::Encoding::default()
            };
            (name.clone(), encoding)
        };
        settings.route.encoding = body.encoding.iter().map(encoding).collect();
    }
    if settings.input_schema.is_some() || !settings.parameters.is_empty() {
        settings.validate_request = capability::settings::Validate::Enforce;
    }
    Some(settings)
}

fn parameter(parameter: &openapi::Parameter) -> Parameter {
    Parameter {
        required: parameter.required,
        description: parameter.description.clone(),
        schema: parameter.schema.clone().map(Arc::new),
        style: style(&parameter.form),
        explode: parameter.form.explode,
        ..Parameter::new(&parameter.name, parameter.location, parameter.kind)
    }
}

fn style(form: &openapi::Form) -> Option<Style> {
    form.style.and_then(|style| serde_json::from_value(json!(style)).ok())
}

/// The entry that an import would write, with the operator's keys in place of its own.
fn overridden<'d>(operation: &Operation, node: Node<'d>, upstream: &str, report: &Report<'d>) -> Option<Settings> {
    let mut entry = openapi::entry(operation, None);
    merge(&mut entry, node.to_map());
    let text = Value::Object(entry).to_string();
    let document = Document::parse_foreign(&operation.id, node.document().directory(), text).ok()?;
    let own = Report::default();
    let settings = Settings::take(Slot::read(document.root(), &own), Some(upstream));
    let problems = own.into_diagnostics(std::slice::from_ref(&document));
    for problem in problems.iter().filter(|problem| problem.severity == Severity::Error) {
        let at = node.nearest(&format!("/{}", problem.path.replace('.', "/")));
        let told = Problem::error(at, format!("with this, `{}` can't be used: {}", operation.id, problem.message));
        report.add(match &problem.suggestion {
            Some(help) => told.help(help.clone()),
            None => told,
        });
    }
    settings
}

/// `route` and `validate` are merged key by key; everything else takes the place of what was imported.
fn merge(entry: &mut Map<String, Value>, with: Map<String, Value>) {
    for (key, value) in with {
        match (entry.get_mut(&key), value) {
            (Some(Value::Object(own)), Value::Object(other)) if matches!(key.as_str(), "route" | "validate") => {
                own.extend(other);
            }
            (_, value) => drop(entry.insert(key, value)),
        }
    }
}

/// The name that ids get in front which an agent keeps for itself.
fn plain_name(upstream: &str) -> String {
    if upstream.contains("://") { "api".to_owned() } else { upstream.rsplit(':').next().unwrap_or("api").to_owned() }
}

/// Who is asked for a document that is elsewhere, and whether it is below the first.
pub type Remote<'f> = &'f mut dyn FnMut(&Location, bool) -> Result<Vec<u8>, String>;

/// Reads a document and what it refers to below its folder; links lead nowhere else. `part` is told of each file.
/// `remote` is asked for what is elsewhere.
pub fn read_file(path: &Path, part: &mut dyn FnMut(PathBuf), remote: Remote<'_>) -> Result<Bundle, String> {
    let bytes = read(path, part)?;
    let name = path.file_name().map(PathBuf::from).unwrap_or_default();
    let mut bundle = Bundle::new(Location::File(name), &bytes).map_err(|problem| problem.to_string())?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let root = folder.canonicalize().map_err(|error| format!("{}: {error}", folder.display()))?;
    while let Some(Wanted { location, .. }) = bundle.wanted() {
        let bytes = match &location {
            // Nothing of the internet is below a folder.
            Location::Url(_) => remote(&location, false),
            Location::File(file) => match folder.join(file).canonicalize() {
                Ok(real) if real.starts_with(&root) => read(&real, part),
                Ok(_) => {
                    Err("it leads out of the folder of the first document, and files elsewhere are not read".to_owned())
                }
                Err(error) => Err(error.to_string()),
            },
        };
        bundle.give(location, bytes);
    }
    Ok(bundle)
}

fn read(path: &Path, part: &mut dyn FnMut(PathBuf)) -> Result<Vec<u8>, String> {
    part(path.to_owned());
    let about = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let file = std::fs::metadata(path).map_err(|error| about(&error))?;
    if !file.is_file() {
        return Err(about(&"it is no file"));
    }
    if file.len() > TEXT_MAX as u64 {
        return Err(about(&format!("it is larger than {} MiB", TEXT_MAX >> 20)));
    }
    std::fs::read(path).map_err(|error| about(&error))
}

fn prefix(slot: Slot<'_, '_>) -> Option<String> {
    slot.value(json!({"type": "string"}), |node| match (node.kind(), node.as_text()) {
        (Kind::Text(_), Some("")) => Ok(String::new()),
        (_, Some(text)) if is_prefix(text) => Ok(text.trim_end_matches('/').to_owned()),
        _ => Err(Mismatch::found(node, "a path such as /shop")),
    })
}

/// Whether a text can stand in front of every endpoint.
pub fn is_prefix(text: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'-' | b'_' | b'.' | b'~');
    let segments = text.strip_prefix('/').map(|rest| rest.trim_end_matches('/'));
    segments.is_some_and(|rest| rest.bytes().all(legal) && rest.split('/').all(|it| !matches!(it, "" | "." | "..")))
}
