//! `Survey`: a document from its first line to its last operation.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::Value;

use super::bundle::{Bundle, clipped};
use super::closure::assemble;
use super::id::{self, Names};
use super::lower::{Lowered, Lowering, Side};
use super::operation::{Candidate, Draft};
use super::path::{Place, reserved, shape};
use super::report::{Note, Outcome, Report, Severity};
use super::version::Version;
use super::{Imported, Operation, Options, Service, Unreadable, server, text, version};
use crate::yaml::{Kind, Node};

/// Operations of one document.
const OPERATIONS_MAX: usize = 20_000;

/// Bytes of all schemas of one document together; when they are used up, each further one is cut to a few.
const SCHEMA_BYTES_MAX: usize = 24 << 20;
const LEFT_OVER_BYTES: usize = 512;

/// Bytes of stack: schemas may be deep, and callers need not have that much.
const STACK: usize = 64 << 20;

/// What references lead to, by the document that they stand in.
type Resolved<'d> = HashMap<(Node<'d>, &'d str), Result<Node<'d>, String>>;

/// What the parts of the import share.
pub(super) struct Survey<'d> {
    pub bundle: &'d Bundle,
    pub root: Node<'d>,
    pub options: &'d Options,
    version: Version,
    report: RefCell<Report>,
    noted: RefCell<HashSet<(&'static str, Node<'d>)>>,
    resolved: RefCell<Resolved<'d>>,
    operation: RefCell<Option<String>>,
    sides: [RefCell<Lowering<'d>>; 2],
    schema_bytes: Cell<usize>,
}

/// Runs something that may need more stack than there is.
pub(super) fn on_a_large_stack<T: Send>(work: impl FnOnce() -> Result<T, Unreadable> + Send) -> Result<T, Unreadable> {
    let failed = || Unreadable("the system has no thread left to read the document".to_owned());
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("import".into()).stack_size(STACK).spawn_scoped(scope, work);
        thread.map_err(|_| failed())?.join().unwrap_or_else(|_| Err(failed()))
    })
}

pub(super) fn import(bundle: &Bundle, options: &Options) -> Result<Imported, Unreadable> {
    let root = bundle.root().ok_or_else(|| Unreadable("the document is empty".to_owned()))?;
    let (version, newer) = version::of(root)?;
    let survey = Survey {
        bundle,
        root,
        options,
        version,
        report: RefCell::default(),
        noted: RefCell::default(),
        resolved: RefCell::default(),
        operation: RefCell::default(),
        sides: [RefCell::new(Lowering::new(Side::Input)), RefCell::new(Lowering::new(Side::Output))],
        schema_bytes: Cell::new(0),
    };
    if newer {
        let message = "this version is newer than 3.1 and is read as 3.1".to_owned();
        survey.warn("unknown_version", root, message, "look at what it says that 3.1 does not have");
    }
    Ok(survey.run())
}

impl<'d> Survey<'d> {
    pub(super) fn is_swagger2(&self) -> bool {
        self.version == Version::Swagger2
    }

    pub(super) fn is_3_1(&self) -> bool {
        self.version == Version::OpenApi31
    }

    /// What a reference leads to. A large document has thousands that lead to the same.
    pub(super) fn resolve(&self, from: Node<'d>, reference: &'d str) -> Result<Node<'d>, String> {
        let key = (from.document().root(), reference);
        if let Some(known) = self.resolved.borrow().get(&key) {
            return known.clone();
        }
        let found = self.bundle.resolve(from, reference);
        self.resolved.borrow_mut().insert(key, found.clone());
        found
    }

    pub(super) fn info(&self, code: &'static str, at: Node<'d>, message: String, fix: &str) {
        self.note(code, Severity::Info, at, message, fix);
    }

    pub(super) fn warn(&self, code: &'static str, at: Node<'d>, message: String, fix: &str) {
        self.note(code, Severity::Warning, at, message, fix);
    }

    pub(super) fn broken_ref(&self, at: Node<'d>, reason: &str) {
        let written = at.get("$ref").unwrap_or(at);
        self.broken_ref_at(written, written.as_text().unwrap_or_default(), reason);
    }

    pub(super) fn broken_ref_at(&self, at: Node<'d>, reference: &str, reason: &str) {
        let (code, fix) = if reference.starts_with('#') || reference.is_empty() {
            ("broken_ref", "correct the document; anything is taken here")
        } else {
            ("external_ref", "put it below the document's folder, or see --allow-remote; anything is taken here")
        };
        self.note(code, Severity::Error, at, format!("`{}` can't be followed: {reason}", clipped(reference)), fix);
    }

    fn note(&self, code: &'static str, severity: Severity, at: Node<'d>, message: String, fix: &str) {
        // What many operations refer to is odd once.
        if !self.noted.borrow_mut().insert((code, at)) {
            return;
        }
        let note = Note {
            code,
            severity,
            file: at.document().name().to_owned(),
            pointer: at.pointer(),
            line: at.key_span().line.max(1),
            message,
            fix: fix.to_owned(),
            operation: self.operation.borrow().clone(),
        };
        self.report.borrow_mut().add(note);
    }

    /// The schema of a body, within the budget of its side.
    pub(super) fn schema(&self, node: Node<'d>, side: Side) -> Arc<Value> {
        let budget = if side == Side::Input { self.options.input_bytes } else { self.options.output_bytes };
        let (schema, weaker) = self.assembled(node, side, budget);
        if weaker && side == Side::Input {
            let message = format!("the schema has more than {} KiB with all that it refers to", budget >> 10);
            self.info("schema_truncated", node, message, "it is made weaker; what the service takes is still taken");
        }
        let schema = if side == Side::Input { self.client_safe(node, schema) } else { schema };
        Arc::new(schema)
    }

    /// A schema of a few bytes.
    pub(super) fn small_schema(&self, node: Node<'d>, side: Side, budget: usize) -> Value {
        self.assembled(node, side, budget).0
    }

    /// The schema that a parameter of Swagger 2.0 is itself.
    pub(super) fn parameter_schema(&self, node: Node<'d>) -> Value {
        let [input, _] = &self.sides;
        let lowered = input.borrow_mut().lower_parameter(self, node);
        assemble(&input.borrow(), &lowered, 4 << 10).0
    }

    fn assembled(&self, node: Node<'d>, side: Side, budget: usize) -> (Value, bool) {
        let [input, output] = &self.sides;
        let lowering = if side == Side::Input { input } else { output };
        let lowered: Lowered = lowering.borrow_mut().lower(self, node);
        let left = SCHEMA_BYTES_MAX.saturating_sub(self.schema_bytes.get()).max(LEFT_OVER_BYTES);
        let (schema, weaker) = assemble(&lowering.borrow(), &lowered, budget.min(left));
        self.schema_bytes.set(self.schema_bytes.get() + crate::schema::size(&schema));
        (schema, weaker)
    }

    /// Some clients take no schema whose root is not an object, an array or a value of one type.
    fn client_safe(&self, node: Node<'d>, schema: Value) -> Value {
        let Value::Object(mut root) = schema else { return schema };
        if root.contains_key("type") || !["allOf", "anyOf", "oneOf"].iter().any(|keyword| root.contains_key(*keyword)) {
            return root.into();
        }
        let definitions = root.get("$defs").cloned().unwrap_or_default();
        let merged = super::operation::merged(&mut root, &definitions);
        if !merged {
            let message = "the root of the body's schema is a choice, and some clients take none".to_owned();
            self.info("root_union", node, message, "give it `type: object` and properties where that is possible");
        }
        root.into()
    }

    fn run(self) -> Imported {
        for document in self.bundle.documents() {
            for (node, help) in document.duplicate_keys() {
                let message =
                    format!("the key `{}` stands twice, and the last counts", clipped(node.key().unwrap_or_default()));
                self.warn("duplicate_key", node, message, help);
            }
        }
        if let Some(webhooks) = self.root.get("webhooks").or(self.root.get("x-webhooks")) {
            self.info(
                "webhook_ignored",
                webhooks,
                "webhooks are calls of the service, not to it".to_owned(),
                "nothing is to be done",
            );
        }
        let candidates = self.candidates();
        let names: Vec<Names<'d>> = candidates.iter().map(|it| it.names(self.options)).collect();
        let ids = self.ids(&candidates, &names);
        let mut drafts = Vec::new();
        let mut shapes: HashMap<(String, &'static str), usize> = HashMap::new();
        let bare: HashSet<(&str, &str)> = candidates
            .iter()
            .filter(|it| it.place.as_ref().is_ok_and(|place| place.suffix.is_none()))
            .filter_map(|it| Some((it.place.as_ref().ok()?.path.as_str(), it.method)))
            .collect();
        for (number, (candidate, id)) in candidates.iter().zip(&ids).enumerate() {
            match self.taken(candidate, id, &bare, &shapes, &candidates) {
                Ok((endpoint, method)) => {
                    shapes.insert((shape(&endpoint), method), number);
                    *self.operation.borrow_mut() = Some(candidate.name());
                    let draft = Draft::read(&self, candidate, id.clone(), endpoint, method);
                    self.operation.borrow_mut().take();
                    drafts.push(draft);
                    self.outcome(candidate, Some(id), None);
                }
                Err(skip) => self.outcome(candidate, None, Some(skip)),
            }
        }
        let (services, operations) = self.services(drafts);
        let info = self.root.get("info");
        let said =
            |key: &str| info.and_then(|info| info.get(key)).map(|it| it.as_text().unwrap_or(it.written()).to_owned());
        let contact = info.and_then(|info| info.get("contact"));
        let contact = contact.and_then(|it| it.get("email").or(it.get("url"))?.as_text()).and_then(text::title);
        let other_servers = server::others(&self);
        Imported {
            title: said("title").as_deref().and_then(text::title),
            description: said("description").as_deref().and_then(text::description),
            version: said("version").as_deref().and_then(text::title),
            contact,
            services,
            other_servers,
            operations,
            report: self.report.into_inner(),
        }
    }

    /// Whether an operation is taken, and where its agent answers for it.
    fn taken(
        &self,
        candidate: &Candidate<'d>,
        id: &str,
        bare: &HashSet<(&str, &str)>,
        shapes: &HashMap<(String, &'static str), usize>,
        all: &[Candidate<'d>],
    ) -> Result<(String, &'static str), Skip> {
        if let Some(skip) = &candidate.skip {
            return Err(skip.clone());
        }
        let place =
            candidate.place.as_ref().map_err(|problem| Skip::new("bad_path", problem.clone(), "correct the path"))?;
        if !self.options.filter.wants_id(id) {
            return Err(Skip::filtered("its id is left out"));
        }
        let patch = candidate.method == "PATCH";
        if patch && !self.options.patch {
            return Err(Skip::new("unsupported_method", "PATCH is not wanted".to_owned(), "leave out --patch skip"));
        }
        let method = match candidate.method {
            "GET" => "GET",
            "PUT" => "PUT",
            "DELETE" => "DELETE",
            _ => "POST",
        };
        let suffixed = place.fragment || bare.contains(&(place.path.as_str(), candidate.method));
        let endpoint = place.endpoint(&self.options.prefix, suffixed, patch);
        if let Some(reason) = reserved(&endpoint) {
            return Err(Skip::new(
                "reserved_path",
                reason,
                "give the import a `prefix`, which goes in front of every path",
            ));
        }
        if let Some(other) = shapes.get(&(shape(&endpoint), method)).and_then(|number| all.get(*number)) {
            let reason = format!("`{}` takes the same requests", other.name());
            return Err(Skip::new("ambiguous_route", reason, "leave one of them out, or change its path"));
        }
        Ok((endpoint, method))
    }

    fn outcome(&self, candidate: &Candidate<'d>, id: Option<&str>, skip: Option<Skip>) {
        let node = candidate.node;
        let (code, reason, fix) =
            skip.map_or((None, String::new(), String::new()), |it| (Some(it.code), it.reason, it.fix));
        self.report.borrow_mut().operations.push(Outcome {
            method: candidate.method.to_owned(),
            path: candidate.path.to_owned(),
            file: node.document().name().to_owned(),
            pointer: node.pointer(),
            line: node.key_span().line.max(1),
            id: id.map(str::to_owned),
            skipped: code,
            reason,
            fix,
        });
    }

    fn candidates(&self) -> Vec<Candidate<'d>> {
        let mut candidates = Vec::new();
        let Some(paths) = self.root.get("paths").filter(|it| it.kind() == Kind::Mapping) else {
            self.warn("operation_skipped", self.root, "there are no `paths`".to_owned(), "nothing can be taken");
            return candidates;
        };
        for item in paths.children() {
            let path = item.key().unwrap_or_default();
            if path.starts_with("x-") {
                continue;
            }
            let place = Place::read(path);
            if place.as_ref().is_ok_and(|place| place.rootless) {
                self.warn("bad_path", item, "the path has no slash in front".to_owned(), "one is added");
            }
            if place.as_ref().is_ok_and(|place| place.fragment) {
                self.info(
                    "fragment_in_path",
                    item,
                    "no request can carry the fragment of a path".to_owned(),
                    "its agent answers at a path with its name",
                );
            }
            if place.as_ref().is_ok_and(|place| !place.fragment && place.suffix.is_some()) {
                self.info("query_in_path", item, "the path holds a query".to_owned(), "it is sent as parameters");
            }
            let mut items = vec![item];
            match self.bundle.follow(item) {
                Ok(target) if target != item => items.push(target),
                Ok(_) => {}
                Err(reason) => self.broken_ref(item, &reason),
            }
            if item.kind() != Kind::Mapping {
                self.warn(
                    "operation_skipped",
                    item,
                    "what is at this path is no mapping".to_owned(),
                    "correct the document; nothing is taken of it",
                );
            }
            for item in items {
                candidates.extend(Candidate::of_item(self, path, &place, item));
                if candidates.len() > OPERATIONS_MAX {
                    candidates.truncate(OPERATIONS_MAX);
                    self.warn(
                        "operation_skipped",
                        item,
                        format!("there are more than {OPERATIONS_MAX} operations"),
                        "split the document",
                    );
                    return candidates;
                }
            }
        }
        candidates
    }

    fn ids(&self, candidates: &[Candidate<'d>], names: &[Names<'d>]) -> Vec<String> {
        let length = self.options.id_length;
        let mut ids = Vec::with_capacity(names.len());
        for (candidate, names) in candidates.iter().zip(names) {
            let (id, cut, fallback) = names.id(&self.options.name, length);
            if candidate.skip.is_none() && cut {
                self.info(
                    "id_truncated",
                    candidate.node,
                    format!("its id was longer than {length} characters"),
                    "give it one with `x-restap: {id: …}`",
                );
            }
            if candidate.skip.is_none() && fallback {
                self.warn(
                    "id_fallback",
                    candidate.node,
                    "its operationId has no letters that an id can have".to_owned(),
                    "give it an id with `x-restap: {id: …}`",
                );
            }
            ids.push(id);
        }
        // What is not taken takes no id from others.
        let kept: Vec<usize> = candidates
            .iter()
            .enumerate()
            .filter(|(_, it)| it.skip.is_none() && it.place.is_ok())
            .map(|(number, _)| number)
            .collect();
        let kept_names: Vec<_> = kept.iter().filter_map(|number| names.get(*number).cloned()).collect();
        let mut kept_ids: Vec<_> = kept.iter().filter_map(|number| ids.get(*number).cloned()).collect();
        for changed in id::distinct(&kept_names, &mut kept_ids, length) {
            let Some(candidate) = kept.get(changed).and_then(|number| candidates.get(*number)) else { continue };
            let same_name = candidate
                .operation_id()
                .is_some_and(|own| candidates.iter().filter(|other| other.operation_id() == Some(own)).count() > 1);
            let code = if same_name { "duplicate_operation_id" } else { "id_collision" };
            self.warn(
                code,
                candidate.node,
                "another operation has the same id".to_owned(),
                "a hash is appended; give it one with `x-restap: {id: …}`",
            );
        }
        for (number, id) in kept.into_iter().zip(kept_ids) {
            if let Some(place) = ids.get_mut(number) {
                *place = id;
            }
        }
        ids
    }

    /// One service for every base URL with its credentials, that of the most operations first.
    fn services(&self, drafts: Vec<Draft>) -> (Vec<Service>, Vec<Operation>) {
        let mut groups: Vec<(Service, usize)> = Vec::new();
        let mut of = Vec::with_capacity(drafts.len());
        for draft in &drafts {
            let known = groups.iter().position(|(it, _)| it.url == draft.url && it.credentials == draft.credentials);
            let position = known.unwrap_or_else(|| {
                let service =
                    Service { name: String::new(), url: draft.url.clone(), credentials: draft.credentials.clone() };
                groups.push((service, 0));
                groups.len() - 1
            });
            if let Some((_, uses)) = groups.get_mut(position) {
                *uses += 1;
            }
            of.push(position);
        }
        let mut order: Vec<usize> = (0..groups.len()).collect();
        order.sort_by_key(|position| std::cmp::Reverse(groups.get(*position).map_or(0, |(_, uses)| *uses)));
        let mut services: Vec<Service> =
            order.iter().filter_map(|position| Some(groups.get(*position)?.0.clone())).collect();
        super::operation::name_services(&self.options.name, &mut services);
        if services.iter().filter_map(|service| service.url.as_deref()).collect::<HashSet<_>>().len() > 1 {
            self.info(
                "multiple_hosts",
                self.root,
                "the operations are at several servers".to_owned(),
                "each is an upstream of its own",
            );
        }
        let operations = drafts.into_iter().zip(of).map(|(draft, position)| {
            let service = order.iter().position(|at| *at == position).unwrap_or_default();
            Operation { service, ..draft.operation }
        });
        (services, operations.collect())
    }
}

/// Why an operation is not taken.
#[derive(Debug, Clone)]
pub(super) struct Skip {
    code: &'static str,
    reason: String,
    fix: String,
}

impl Skip {
    pub(super) fn new(code: &'static str, reason: String, fix: &str) -> Self {
        Self { code, reason, fix: fix.to_owned() }
    }

    pub(super) fn filtered(reason: &str) -> Self {
        Self::new("filtered", reason.to_owned(), "change what the import includes and excludes")
    }
}
