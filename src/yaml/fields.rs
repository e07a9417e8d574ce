//! `Fields`: the keys of one section. Naming a key reads it, makes it known, and describes it.

use serde_json::{Map, Value as Json, json};

use super::document::{Kind, Node};
use super::mismatch::{joined, one_of};
use super::nearest;
use super::report::{Problem, Report};
use super::slot::{Side, Slot, variable};
use super::value::{Value, Written};

/// Known keys that an error lists where none is near.
const LISTED_MAX: usize = 12;

/// The keys of one section.
///
/// A section is read by one function that asks for each of its keys once. The keys that it asked for are the keys
/// that there are: every other one is an error, and the JSON Schema of the file is what the same function asks for.
#[derive(Debug)]
pub struct Fields<'f, 'd> {
    side: FieldsSide<'f, 'd>,
    known: Vec<&'static str>,
    others: Others,
}

/// What becomes of keys that nobody asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Others {
    Refused,
    Welcome,
}

#[derive(Debug)]
enum FieldsSide<'f, 'd> {
    Read { node: Node<'d>, report: &'f Report<'d> },
    Describe { properties: Map<String, Json>, required: Vec<&'static str>, definitions: &'f mut Map<String, Json> },
}

impl<'f, 'd> Fields<'f, 'd> {
    pub(super) fn read<T>(
        node: Node<'d>,
        report: &'f Report<'d>,
        read: impl FnOnce(&mut Fields<'_, 'd>) -> Option<T>,
    ) -> Option<T> {
        let side = FieldsSide::Read { node, report };
        let mut fields = Fields { side, known: Vec::new(), others: Others::Refused };
        let value = read(&mut fields);
        if fields.others == Others::Welcome {
            return value;
        }
        for child in node.children().filter(|child| !child.key().is_some_and(|key| fields.known.contains(&key))) {
            // Nobody knows what it is, so it may be a credential under a misspelt key.
            report.hide(child);
            report.add(unknown_key(child, &fields.known));
        }
        value
    }

    pub(super) fn describe<T>(
        definitions: &mut Map<String, Json>,
        read: impl FnOnce(&mut Fields<'_, 'd>) -> Option<T>,
    ) -> Json {
        let side = FieldsSide::Describe { properties: Map::new(), required: Vec::new(), definitions };
        let mut fields = Fields { side, known: Vec::new(), others: Others::Refused };
        read(&mut fields);
        let others = fields.others == Others::Welcome;
        let FieldsSide::Describe { properties, required, .. } = fields.side else { return Json::Null };
        let mut schema = json!({"type": "object", "properties": properties, "additionalProperties": others});
        if let (Some(schema), false) = (schema.as_object_mut(), required.is_empty()) {
            schema.insert("required".into(), json!(required));
        }
        schema
    }

    /// Lets the operator write keys of any other name.
    pub fn welcome_others(&mut self) {
        self.others = Others::Welcome;
    }

    /// A key that may be missing.
    pub fn optional<T: Value>(&mut self, name: &'static str, doc: &str) -> Option<T> {
        self.with(name, doc, T::take)
    }

    /// A key that must be there.
    pub fn required<T: Value>(&mut self, name: &'static str, doc: &str) -> Option<T> {
        self.required_with(name, doc, T::take)
    }

    /// A key that stands for `default` where it is missing.
    pub fn or<T: Value + Written>(&mut self, name: &'static str, default: T, doc: &str) -> T {
        self.or_with(name, default, doc, T::take)
    }

    /// A key that may be missing, with a value that has no type of its own.
    pub fn with<T>(
        &mut self,
        name: &'static str,
        doc: &str,
        take: impl FnOnce(Slot<'_, 'd>) -> Option<T>,
    ) -> Option<T> {
        self.field(name, doc, None, take)
    }

    /// A key that must be there, with a value that has no type of its own.
    pub fn required_with<T>(
        &mut self,
        name: &'static str,
        doc: &str,
        take: impl FnOnce(Slot<'_, 'd>) -> Option<T>,
    ) -> Option<T> {
        match &mut self.side {
            FieldsSide::Describe { required, .. } => required.push(name),
            FieldsSide::Read { node, report } if node.get(name).is_none() => report.add(missing(*node, name, doc)),
            FieldsSide::Read { .. } => {}
        }
        self.field(name, doc, None, take)
    }

    /// A key that stands for `default` where it is missing, with a value that has no type of its own.
    pub fn or_with<T: Written>(
        &mut self,
        name: &'static str,
        default: T,
        doc: &str,
        take: impl FnOnce(Slot<'_, 'd>) -> Option<T>,
    ) -> T {
        self.field(name, doc, Some(default.written()), take).unwrap_or(default)
    }

    /// A key whose value is one of a few words, `default` where it is missing. If `off` is one of them, `false` means
    /// the same, and `true` the default.
    pub fn word<T: Clone + PartialEq>(
        &mut self,
        name: &'static str,
        words: &[(&'static str, T)],
        default: T,
        doc: &str,
    ) -> T {
        let written = words.iter().find(|(_, value)| *value == default).map(|(name, _)| json!(name));
        let off = words.iter().find(|(name, _)| *name == "off").map(|(_, value)| value.clone());
        let value = self.field(name, doc, written, |slot| match &off {
            None => slot.word(words),
            Some(off) => {
                let names = words.iter().map(|(name, _)| json!(name)).chain([json!(false), json!(true)]);
                let schema = json!({"anyOf": [{"enum": names.collect::<Vec<_>>()}, variable()]});
                slot.value(schema, |node| match node.kind() {
                    Kind::Bool(false) => Ok(off.clone()),
                    Kind::Bool(true) => Ok(default.clone()),
                    _ => one_of(node, words),
                })
            }
        });
        value.unwrap_or(default)
    }

    /// Makes a key of a section under `section` one that must be there, where it need not be elsewhere.
    pub fn require_in(&mut self, section: &'static str, name: &'static str, or: &'static str, doc: &str) {
        match &mut self.side {
            FieldsSide::Describe { properties, .. } => {
                if let Some(schema) = properties.get_mut(section).and_then(Json::as_object_mut) {
                    schema.insert("anyOf".into(), json!([{"required": [name]}, {"required": [or]}]));
                }
            }
            FieldsSide::Read { node, report } => {
                let section = node.get(section).filter(|section| section.kind() == Kind::Mapping);
                if let Some(section) =
                    section.filter(|section| section.get(name).is_none() && section.get(or).is_none())
                {
                    report.add(missing(section, name, doc));
                }
            }
        }
    }

    /// The section itself; `None` in a schema.
    pub fn node(&self) -> Option<Node<'d>> {
        match self.side {
            FieldsSide::Read { node, .. } => Some(node),
            FieldsSide::Describe { .. } => None,
        }
    }

    /// What stands under a key, whether it could be read or not; `None` in a schema.
    pub fn get(&self, name: &str) -> Option<Node<'d>> {
        self.node()?.get(name)
    }

    /// Reports a problem that concerns more than one key.
    pub fn problem(&self, problem: Problem<'d>) {
        if let FieldsSide::Read { report, .. } = self.side {
            report.add(problem);
        }
    }

    /// The report that problems go to; `None` in a schema.
    pub fn report(&self) -> Option<&'f Report<'d>> {
        match self.side {
            FieldsSide::Read { report, .. } => Some(report),
            FieldsSide::Describe { .. } => None,
        }
    }

    /// Reports every key of `useless` that is written although `because` makes it do nothing.
    pub fn useless(&self, useless: &[&str], because: &str) {
        for node in useless.iter().filter_map(|name| self.get(name)) {
            let name = node.key().unwrap_or_default();
            self.problem(Problem::error(node, format!("`{name}` does nothing here: {because}")).at_key());
        }
    }

    fn field<T>(
        &mut self,
        name: &'static str,
        doc: &str,
        default: Option<Json>,
        take: impl FnOnce(Slot<'_, 'd>) -> Option<T>,
    ) -> Option<T> {
        self.known.push(name);
        match &mut self.side {
            FieldsSide::Read { node, report } => take(Slot { side: Side::Read { node: node.get(name)?, report } }),
            FieldsSide::Describe { properties, definitions, .. } => {
                let mut schema = Json::Null;
                take(Slot::describe(&mut schema, definitions));
                if let Some(schema) = schema.as_object_mut() {
                    schema.insert("description".into(), json!(doc));
                    schema.extend(default.map(|default| ("default".into(), default)));
                }
                properties.insert(name.to_owned(), schema);
                None
            }
        }
    }
}

fn missing<'d>(section: Node<'d>, name: &str, doc: &str) -> Problem<'d> {
    let problem = Problem::error(section, format!("`{name}` is missing")).at_key();
    problem.help(format!("add `{name}`: {}", doc.trim_end_matches('.')))
}

fn unknown_key<'d>(child: Node<'d>, known: &[&'static str]) -> Problem<'d> {
    let key = child.key().unwrap_or_default();
    let problem = Problem::error(child, format!("unknown key `{key}`")).at_key();
    match nearest(key, known.iter().copied()) {
        Some(name) => problem.help(format!("did you mean `{name}`?")),
        None if known.is_empty() => problem.help("there are no keys here; write {}"),
        None if known.len() == 1 => problem.help(format!("the only key is {}", known.concat())),
        None if known.len() <= LISTED_MAX => {
            problem.help(format!("the keys are {}", joined(known.iter().copied(), "and")))
        }
        None => {
            let listed = known.iter().take(LISTED_MAX).copied();
            problem.help(format!(
                "the keys are {}, …; `restap-gateway schema` prints all",
                listed.collect::<Vec<_>>().join(", ")
            ))
        }
    }
}
