//! `Lowering`: schemas of a document as JSON Schema 2020-12. What a `$ref` leads to gets a name under `$defs` and is read
//! once, so that no circle is followed and nothing is copied.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use serde_json::{Map, Value, json};

use super::bundle::clipped;
use super::survey::Survey;
use crate::schema::size;
use crate::yaml::{Kind, Node};

/// Levels of one schema as JSON. A file that an import writes must be readable, and so must a catalog be to clients.
pub(super) const DEPTH_MAX: usize = 48;

/// Schemas of one document that are read; each may be long.
const STEPS_MAX: usize = 2_000_000;

/// References from one to the next.
const HOPS_MAX: usize = 64;

/// Which way a schema's values go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// To the service: nothing that is read only.
    Input,
    /// From it: nothing that is written only.
    Output,
}

/// All schemas that were read for one side.
#[derive(Debug)]
pub(super) struct Lowering<'d> {
    side: Side,
    names: HashMap<Node<'d>, Rc<str>>,
    taken: HashSet<Rc<str>>,
    definitions: HashMap<Rc<str>, Definition>,
    pending: Vec<(Node<'d>, Rc<str>)>,
    refs: Vec<Rc<str>>,
    hidden: HashMap<Node<'d>, Rc<HashSet<&'d str>>>,
    steps: usize,
}

/// What a name under `$defs` stands for.
#[derive(Debug)]
pub(super) struct Definition {
    pub schema: Value,
    /// Names that it refers to, as often as it does.
    pub refs: Vec<Rc<str>>,
    pub bytes: usize,
    /// It stood under `$defs` in the document itself, where somebody may look for it.
    pub embedded: bool,
}

/// A schema whose `$ref`s lead to `#/$defs/NAME`, and those names.
#[derive(Debug, Clone)]
pub(super) struct Lowered {
    pub schema: Value,
    pub refs: Vec<Rc<str>>,
}

impl<'d> Lowering<'d> {
    pub(super) fn new(side: Side) -> Self {
        Self {
            side,
            names: HashMap::new(),
            taken: HashSet::new(),
            definitions: HashMap::new(),
            pending: Vec::new(),
            refs: Vec::new(),
            hidden: HashMap::new(),
            steps: 0,
        }
    }

    /// Reads a schema and everything that it refers to.
    pub(super) fn lower(&mut self, survey: &Survey<'d>, node: Node<'d>) -> Lowered {
        let schema = self.schema(survey, node, 0, &Rc::default());
        self.finish(survey, schema)
    }

    /// The same of a parameter of Swagger 2.0, which is a schema itself.
    pub(super) fn lower_parameter(&mut self, survey: &Survey<'d>, node: Node<'d>) -> Lowered {
        const OF_PARAMETERS: [&str; 5] = ["required", "description", "example", "examples", "readOnly"];
        let children = node.children().filter(|child| !child.key().is_some_and(|key| OF_PARAMETERS.contains(&key)));
        let schema = self.keywords(survey, node, &children.collect::<Vec<_>>(), 0, &Rc::default());
        self.finish(survey, schema)
    }

    pub(super) fn definition(&self, name: &str) -> Option<&Definition> {
        self.definitions.get(name)
    }

    fn finish(&mut self, survey: &Survey<'d>, schema: Value) -> Lowered {
        let refs = std::mem::take(&mut self.refs);
        while let Some((node, name)) = self.pending.pop() {
            let schema = self.schema(survey, node, 0, &Rc::default());
            let refs = std::mem::take(&mut self.refs);
            let bytes = size(&schema);
            let embedded = matches!(node.pointer().rsplit('/').nth(1), Some("$defs"));
            self.definitions.insert(name, Definition { schema, refs, bytes, embedded });
        }
        Lowered { schema, refs }
    }

    /// One schema. `hidden` are properties that its composition hides.
    pub(super) fn schema(
        &mut self,
        survey: &Survey<'d>,
        node: Node<'d>,
        depth: usize,
        hidden: &Rc<HashSet<&'d str>>,
    ) -> Value {
        self.steps += 1;
        if depth > DEPTH_MAX || self.steps > STEPS_MAX {
            let message = "the schema is nested too deeply, or there are too many".to_owned();
            survey.warn("schema_truncated", node, message, "what is below is taken as it comes");
            return Value::Bool(true);
        }
        match node.kind() {
            Kind::Bool(value) => Value::Bool(value),
            Kind::Mapping => {
                let written = node.get("$ref");
                if let (Some(written), Some(Kind::Text(reference))) = (written, written.map(Node::kind)) {
                    return self.reference(survey, node, (written, reference), depth);
                }
                let children: Vec<_> = node.children().collect();
                self.keywords(survey, node, &children, depth, hidden)
            }
            _ => {
                let message = "a schema must be a mapping".to_owned();
                survey.warn("bad_keyword", node, message, "correct the document; anything is taken here");
                Value::Bool(true)
            }
        }
    }

    fn reference(
        &mut self,
        survey: &Survey<'d>,
        node: Node<'d>,
        (written, reference): (Node<'d>, &'d str),
        depth: usize,
    ) -> Value {
        let target = match target(survey, node, reference) {
            Ok(target) => target,
            Err(reason) => {
                survey.broken_ref_at(written, reference, &reason);
                return Value::Bool(true);
            }
        };
        let Some(target) = target else {
            let message = format!("`{}` leads to itself", clipped(reference));
            survey.warn("ref_loop", written, message, "correct the document; anything is taken here");
            return Value::Bool(true);
        };
        let name = self.name(survey, target);
        self.refs.push(name.clone());
        let mut schema = Map::from_iter([("$ref".to_owned(), Value::String(format!("#/$defs/{name}")))]);
        let mut nullable = false;
        let (mut beside, mut dropped) = (Vec::new(), 0);
        for child in node.children() {
            match child.key().unwrap_or_default() {
                "$ref" | "readOnly" | "writeOnly" => {}
                "nullable" | "x-nullable" => nullable = child.kind() == Kind::Bool(true),
                "description" | "title" | "deprecated" => beside.push(child),
                key if key.starts_with("x-") => {}
                _ if survey.is_3_1() => beside.push(child),
                _ => dropped += 1,
            }
        }
        if dropped > 0 {
            let message = "what stands beside `$ref` counts only since OpenAPI 3.1".to_owned();
            survey.info("ref_sibling_dropped", written, message, "write `allOf: [{$ref: …}]` where it is meant");
        }
        if let Value::Object(siblings) = self.keywords(survey, node, &beside, depth, &Rc::default()) {
            schema.extend(siblings);
        }
        if nullable { or_null(schema) } else { schema.into() }
    }

    fn name(&mut self, survey: &Survey<'d>, target: Node<'d>) -> Rc<str> {
        if let Some(name) = self.names.get(&target) {
            return name.clone();
        }
        let key = target.key().map(str::to_owned);
        let key = key.or_else(|| Some(survey.bundle.location_of(target)?.stem())).unwrap_or_default();
        let legal = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-') { c } else { '_' };
        let plain: String = key.chars().take(60).map(legal).collect();
        let plain = if plain.is_empty() { "Schema".to_owned() } else { plain };
        let mut name: Rc<str> = plain.as_str().into();
        let mut count = 2;
        while !self.taken.insert(name.clone()) {
            name = format!("{plain}_{count}").into();
            count += 1;
        }
        self.names.insert(target, name.clone());
        self.pending.push((target, name.clone()));
        name
    }

    /// Names of properties of this schema, and of what it is made of, that this side does not have.
    pub(super) fn hidden(&mut self, survey: &Survey<'d>, node: Node<'d>, depth: usize) -> Rc<HashSet<&'d str>> {
        if let Some(known) = self.hidden.get(&node) {
            return known.clone();
        }
        // What refers to itself hides nothing more.
        self.hidden.insert(node, Rc::default());
        let mut names = HashSet::new();
        if let Some(reference) = node.get("$ref").and_then(Node::as_text).filter(|_| depth < HOPS_MAX) {
            if let Ok(target) = survey.resolve(node, reference) {
                names.extend(self.hidden(survey, target, depth + 1).iter());
            }
        } else if depth < HOPS_MAX {
            let properties = node.get("properties").into_iter().flat_map(Node::children);
            names.extend(properties.filter(|it| self.is_hidden(survey, *it)).filter_map(Node::key));
            for branch in node.get("allOf").into_iter().flat_map(Node::children) {
                names.extend(self.hidden(survey, branch, depth + 1).iter());
            }
        }
        let names = Rc::new(names);
        self.hidden.insert(node, names.clone());
        names
    }

    pub(super) fn is_hidden(&self, survey: &Survey<'d>, property: Node<'d>) -> bool {
        let keyword = if self.side == Side::Input { "readOnly" } else { "writeOnly" };
        let says = |node: Node<'d>| node.get(keyword).is_some_and(|it| it.kind() == Kind::Bool(true));
        says(property) || property.get("$ref").is_some() && survey.bundle.follow(property).is_ok_and(says)
    }

    /// Makes something under `$defs` of the document itself known by its name.
    pub(super) fn embed(&mut self, survey: &Survey<'d>, node: Node<'d>) {
        let name = self.name(survey, node);
        self.refs.push(name);
    }
}

/// What a chain of references leads to in the end; `None` is a circle.
fn target<'d>(survey: &Survey<'d>, node: Node<'d>, reference: &'d str) -> Result<Option<Node<'d>>, String> {
    let first = survey.resolve(node, reference)?;
    let mut target = first;
    for _ in 0..HOPS_MAX {
        let Some(Kind::Text(next)) = target.get("$ref").map(Node::kind) else { return Ok(Some(first)) };
        let Ok(following) = survey.resolve(target, next) else { return Ok(Some(first)) };
        target = following;
    }
    Ok(None)
}

/// The schema, or null.
pub(super) fn or_null(mut schema: Map<String, Value>) -> Value {
    let mut outside = Map::new();
    for annotation in ["title", "description", "deprecated", "default", "examples"] {
        outside.extend(schema.shift_remove(annotation).map(|value| (annotation.to_owned(), value)));
    }
    outside.insert("anyOf".to_owned(), json!([schema, {"type": "null"}]));
    outside.into()
}
