//! A schema that stands for itself: what it refers to under `$defs` of its own, within a budget.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

use serde_json::{Map, Value};

use super::lower::{DEPTH_MAX, Definition, Lowered, Lowering};
use crate::schema::{cut, fit, size};

/// How many times its budget a schema may have for the whole of it to be put together before it is made weaker.
const WHOLE_SHARE_MAX: usize = 4;

/// Levels of a schema in which others were put in place of references.
const INLINED_DEPTH_MAX: usize = DEPTH_MAX + 16;

/// A schema with all that it refers to; and whether it is weaker than the document's.
pub(super) fn assemble(lowering: &Lowering<'_>, lowered: &Lowered, budget: usize) -> (Value, bool) {
    let root = hoisted(lowering, lowered);
    let Some(reached) = reach(lowering, &root, WHOLE_SHARE_MAX * budget) else {
        let definition = |name: &str| lowering.definition(name).map(|definition| &definition.schema);
        return (cut(&root.schema, budget, &definition), true);
    };
    let mut place =
        Placing { lowering, inlined: inlined(lowering, &root, &reached), kept: BTreeMap::new(), pending: Vec::new() };
    let mut whole = place.value(&root.schema, 0);
    for name in &reached {
        if lowering.definition(name).is_some_and(|definition| definition.embedded) {
            place.keep(name);
        }
    }
    while let Some(name) = place.pending.pop() {
        if let Some(definition) = lowering.definition(&name) {
            let schema = place.value(&definition.schema, 2);
            place.kept.insert(name, schema);
        }
    }
    if let (Value::Object(root), false) = (&mut whole, place.kept.is_empty()) {
        let kept = place.kept.into_iter().map(|(name, schema)| (name.to_string(), schema));
        root.insert("$defs".to_owned(), kept.collect::<Map<_, _>>().into());
    }
    match fit(&whole, budget) {
        Some(weaker) => (weaker, true),
        None => (whole, false),
    }
}

/// A root that is nothing but a reference says what that leads to: many clients look for `type` there.
fn hoisted(lowering: &Lowering<'_>, lowered: &Lowered) -> Lowered {
    let mut lowered = lowered.clone();
    for _ in 0..8 {
        let Some(name) = lowered.schema.get("$ref").and_then(Value::as_str).and_then(name_of) else { break };
        let Some(definition) = lowering.definition(name) else { break };
        let Value::Object(target) = &definition.schema else { break };
        let annotation = |key: &String| matches!(key.as_str(), "$ref" | "description" | "title" | "deprecated");
        let Value::Object(root) = &lowered.schema else { break };
        if !root.keys().all(annotation) {
            break;
        }
        let mut schema = target.clone();
        for (key, value) in root.iter().filter(|(key, _)| *key != "$ref") {
            schema.insert(key.clone(), value.clone());
        }
        lowered = Lowered { schema: schema.into(), refs: definition.refs.clone() };
    }
    lowered
}

/// Every name that is referred to, in the order in which it is found; `None` if all together are too large.
fn reach(lowering: &Lowering<'_>, root: &Lowered, bytes_max: usize) -> Option<Vec<Rc<str>>> {
    let mut left = bytes_max.checked_sub(size(&root.schema))?;
    let mut seen: HashSet<&str> = HashSet::new();
    let mut reached: Vec<Rc<str>> = Vec::new();
    let mut next: Vec<&Rc<str>> = root.refs.iter().rev().collect();
    while let Some(name) = next.pop() {
        let Some(definition) = lowering.definition(name).filter(|_| seen.insert(name)) else { continue };
        left = left.checked_sub(definition.bytes + name.len() + 4)?;
        reached.push(name.clone());
        next.extend(definition.refs.iter().rev());
    }
    Some(reached)
}

/// The names that are referred to once and that no circle goes through.
fn inlined(lowering: &Lowering<'_>, root: &Lowered, reached: &[Rc<str>]) -> HashSet<Rc<str>> {
    let mut uses: HashMap<&str, usize> = HashMap::new();
    let definitions: Vec<(&Rc<str>, &Definition)> =
        reached.iter().filter_map(|name| Some((name, lowering.definition(name)?))).collect();
    for name in root.refs.iter().chain(definitions.iter().flat_map(|(_, definition)| &definition.refs)) {
        *uses.entry(name).or_default() += 1;
    }
    // Without those that lead nowhere, again and again, only those stay that lead into a circle.
    let mut open: HashMap<&str, usize> =
        definitions.iter().map(|(name, definition)| (&***name, definition.refs.len())).collect();
    let mut from: HashMap<&str, Vec<&str>> = HashMap::new();
    for (name, definition) in &definitions {
        for other in &definition.refs {
            from.entry(other).or_default().push(name);
        }
    }
    let mut leaves: Vec<&str> = open.iter().filter(|(_, count)| **count == 0).map(|(name, _)| *name).collect();
    let mut straight: HashSet<&str> = HashSet::new();
    while let Some(leaf) = leaves.pop() {
        straight.insert(leaf);
        for user in from.get(leaf).into_iter().flatten() {
            if let Some(count) = open.get_mut(user) {
                *count -= 1;
                if *count == 0 {
                    leaves.push(user);
                }
            }
        }
    }
    let once = |name: &&Rc<str>| straight.contains(&***name) && uses.get(&***name) == Some(&1);
    reached.iter().filter(once).cloned().collect()
}

/// Puts definitions in place of references.
struct Placing<'l, 'd> {
    lowering: &'l Lowering<'d>,
    inlined: HashSet<Rc<str>>,
    kept: BTreeMap<Rc<str>, Value>,
    pending: Vec<Rc<str>>,
}

impl Placing<'_, '_> {
    fn value(&mut self, value: &Value, depth: usize) -> Value {
        match value {
            Value::Object(map) => match map.get("$ref").and_then(Value::as_str).and_then(name_of) {
                Some(name) => self.reference(name, map, depth),
                None => Value::Object(self.entries(map, depth)),
            },
            Value::Array(items) => items.iter().map(|item| self.value(item, depth + 1)).collect(),
            other => other.clone(),
        }
    }

    fn entries(&mut self, map: &Map<String, Value>, depth: usize) -> Map<String, Value> {
        map.iter()
            .map(|(key, value)| {
                // What is data may look like a schema.
                let data = matches!(key.as_str(), "default" | "examples" | "enum" | "const" | "required");
                (key.clone(), if data { value.clone() } else { self.value(value, depth + 1) })
            })
            .collect()
    }

    fn reference(&mut self, name: &str, beside: &Map<String, Value>, depth: usize) -> Value {
        let definition = self.lowering.definition(name);
        if let (true, Some(definition)) = (self.inlined.contains(name), definition)
            && let Value::Object(target) = &definition.schema
            && depth < INLINED_DEPTH_MAX - DEPTH_MAX
            && beside.keys().all(|key| matches!(key.as_str(), "$ref" | "description" | "title" | "deprecated"))
        {
            let mut schema = self.entries(target, depth);
            for (key, value) in beside.iter().filter(|(key, _)| *key != "$ref") {
                schema.insert(key.clone(), value.clone());
            }
            return schema.into();
        }
        self.keep(name);
        Value::Object(self.entries(beside, depth))
    }

    fn keep(&mut self, name: &str) {
        if !self.kept.contains_key(name) {
            self.kept.insert(name.into(), Value::Bool(true));
            self.pending.push(name.into());
        }
    }
}

fn name_of(reference: &str) -> Option<&str> {
    reference.strip_prefix("#/$defs/")
}
