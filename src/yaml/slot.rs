//! `Slot`: the place of one value. The same code reads the value that stands there and describes what may.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use serde_json::{Map, Value as Json, json};

use super::document::{Kind, Node};
use super::fields::Fields;
use super::mismatch::{Mismatch, one_of, parse, text};
use super::report::{Problem, Report};

/// The place of one value.
///
/// A slot is either in a file, and then each of its methods reads what stands there and returns `None` once a problem
/// has been reported; or it is in the JSON Schema of the file, and then the same method writes down what it would
/// read, and always returns `None`. Code that works on slots must therefore not look at values to decide which slots
/// there are.
#[derive(Debug)]
pub struct Slot<'s, 'd> {
    pub(super) side: Side<'s, 'd>,
}

#[derive(Debug)]
pub(super) enum Side<'s, 'd> {
    Read { node: Node<'d>, report: &'s Report<'d> },
    Describe { schema: &'s mut Json, definitions: &'s mut Map<String, Json> },
}

/// What stands where something may be switched off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Switch<T> {
    /// `off` or `false`.
    Off,
    /// `true`: what a missing key does.
    Default,
    /// Settings of its own.
    On(T),
}

impl<'s, 'd> Slot<'s, 'd> {
    /// The slot of a node.
    pub fn read(node: Node<'d>, report: &'s Report<'d>) -> Self {
        Self { side: Side::Read { node, report } }
    }

    /// The slot of a schema; `definitions` receives the sections.
    pub fn describe(schema: &'s mut Json, definitions: &'s mut Map<String, Json>) -> Self {
        Self { side: Side::Describe { schema, definitions } }
    }

    /// The node that stands here; `None` in a schema.
    pub fn node(&self) -> Option<Node<'d>> {
        match self.side {
            Side::Read { node, .. } => Some(node),
            Side::Describe { .. } => None,
        }
    }

    /// The report that problems go to; `None` in a schema.
    pub fn report(&self) -> Option<&'s Report<'d>> {
        match self.side {
            Side::Read { report, .. } => Some(report),
            Side::Describe { .. } => None,
        }
    }

    /// Reports a problem with the value that stands here.
    pub fn problem(&self, problem: impl FnOnce(Node<'d>) -> Problem<'d>) {
        if let Side::Read { node, report } = self.side {
            report.add(problem(node));
        }
    }

    /// A value of any kind: the schema it has, and how a node becomes one.
    pub fn value<T>(self, schema: Json, read: impl FnOnce(Node<'d>) -> Result<T, Mismatch>) -> Option<T> {
        match self.side {
            Side::Describe { schema: described, .. } => {
                *described = schema;
                None
            }
            Side::Read { node, .. } if node.is_unset() => None,
            Side::Read { node, report } => match read(node) {
                Ok(value) => Some(value),
                Err(mismatch) => {
                    report.add(mismatch.about(node));
                    None
                }
            },
        }
    }

    /// Text.
    pub fn text(self) -> Option<String> {
        self.value(json!({"type": "string"}), |node| text(node, "text").map(str::to_owned))
    }

    /// Text with a syntax of its own. `expects` names it: "a URL such as http://127.0.0.1:9000".
    pub fn parsed<T>(self, expects: &str, pattern: Option<&str>) -> Option<T>
    where
        T: FromStr,
        T::Err: Display,
    {
        let schema = pattern.map_or(json!({"type": "string"}), text_like);
        self.value(schema, |node| parse(text(node, expects)?, expects))
    }

    /// `true` or `false`.
    pub fn boolean(self) -> Option<bool> {
        let schema = json!({"anyOf": [{"type": "boolean"}, variable()]});
        self.value(schema, |node| match node.kind() {
            Kind::Bool(value) => Ok(value),
            Kind::Text("true") if node.is_filled_in() => Ok(true),
            Kind::Text("false") if node.is_filled_in() => Ok(false),
            Kind::Text("yes" | "on") => Err(Mismatch::found(node, "true or false").help("write true")),
            Kind::Text("no" | "off") => Err(Mismatch::found(node, "true or false").help("write false")),
            _ => Err(Mismatch::found(node, "true or false")),
        })
    }

    /// A whole number.
    pub fn integer<T>(self, range: RangeInclusive<T>) -> Option<T>
    where
        T: Copy + TryFrom<i128> + Into<i128>,
    {
        let (least, most): (i128, i128) = ((*range.start()).into(), (*range.end()).into());
        let schema = json!({"type": "integer", "minimum": least as i64, "maximum": most as u64});
        let expects = format!("a whole number from {least} to {most}");
        self.value(json!({"anyOf": [schema, variable()]}), |node| {
            let number = node.as_whole_number().filter(|number| (least..=most).contains(number));
            number.and_then(|number| T::try_from(number).ok()).ok_or_else(|| Mismatch::found(node, &expects))
        })
    }

    /// One of a few words.
    pub fn word<T: Clone>(self, words: &[(&str, T)]) -> Option<T> {
        self.word_or_hint(words, |_| None)
    }

    /// One of a few words; `hint` says what to do with another that is near to none of them.
    pub fn word_or_hint<T: Clone>(self, words: &[(&str, T)], hint: impl FnOnce(&str) -> Option<String>) -> Option<T> {
        let names: Vec<&str> = words.iter().map(|(name, _)| *name).collect();
        self.value(json!({"anyOf": [{"enum": names}, variable()]}), |node| {
            one_of(node, words).map_err(|mismatch| {
                let help = mismatch.help.or_else(|| hint(node.as_text()?));
                Mismatch { help, ..mismatch }
            })
        })
    }

    /// A mapping with any keys, as JSON.
    pub fn map_of_json(self) -> Option<Map<String, Json>> {
        self.value(json!({"type": "object"}), |node| match node.kind() {
            Kind::Mapping => Ok(node.to_map()),
            _ => Err(Mismatch::found(node, "a mapping")),
        })
    }

    /// A list; what can't be read is reported and left out.
    pub fn list<T>(self, mut item: impl FnMut(Slot<'_, 'd>) -> Option<T>) -> Option<Vec<T>> {
        match self.side {
            Side::Describe { schema, definitions } => {
                let mut items = Json::Null;
                item(Slot::describe(&mut items, definitions));
                *schema = json!({"type": "array", "items": items});
                None
            }
            Side::Read { node, report } => match node.kind() {
                Kind::List => Some(node.children().filter_map(|child| item(Slot::read(child, report))).collect()),
                _ => self.value(Json::Null, |node| Err(Mismatch::found(node, "a list"))),
            },
        }
    }

    /// A mapping whose keys the operator chooses; what can't be read is reported and left out. In a schema there is one
    /// entry, without a key.
    pub fn map<T>(self, mut entry: impl FnMut(&'d str, Slot<'_, 'd>) -> Option<T>) -> Option<Vec<T>> {
        match self.side {
            Side::Describe { schema, definitions } => {
                let mut values = Json::Null;
                entry("", Slot::describe(&mut values, definitions));
                *schema = json!({"type": "object", "additionalProperties": values});
                None
            }
            Side::Read { node, report } if node.kind() == Kind::Mapping => {
                let entries = node.children();
                Some(
                    entries
                        .filter_map(|child| entry(child.key().unwrap_or_default(), Slot::read(child, report)))
                        .collect(),
                )
            }
            Side::Read { .. } => self.value(Json::Null, |node| Err(Mismatch::found(node, "a mapping"))),
        }
    }

    /// A mapping with keys of ours. `name` is what the schema calls it, the same for the same keys.
    pub fn section<T>(self, name: &str, read: impl FnOnce(&mut Fields<'_, 'd>) -> Option<T>) -> Option<T> {
        match self.side {
            Side::Describe { schema, definitions } => {
                *schema = json!({"$ref": format!("#/$defs/{name}")});
                if !definitions.contains_key(name) {
                    definitions.insert(name.to_owned(), Json::Null);
                    let described = Fields::describe(definitions, read);
                    definitions.insert(name.to_owned(), described);
                }
                None
            }
            Side::Read { node, report } if node.kind() == Kind::Mapping => Fields::read(node, report, read),
            Side::Read { .. } => self.value(Json::Null, |node| Err(Mismatch::found(node, "a mapping"))),
        }
    }

    /// Two forms of the same thing: a mapping, or another that is read where none stands.
    pub fn mapping_or<T>(
        self,
        mapping: impl FnOnce(Slot<'_, 'd>) -> Option<T>,
        other: impl FnOnce(Slot<'_, 'd>) -> Option<T>,
    ) -> Option<T> {
        self.either(|node| node.kind() == Kind::Mapping, mapping, other)
    }

    /// Two forms of the same thing: a mapping with this key, or another that is read where none stands.
    pub fn mapping_with_or<T>(
        self,
        key: &str,
        mapping: impl FnOnce(Slot<'_, 'd>) -> Option<T>,
        other: impl FnOnce(Slot<'_, 'd>) -> Option<T>,
    ) -> Option<T> {
        self.either(|node| node.get(key).is_some(), mapping, other)
    }

    /// Two forms of the same thing: a list, or another that is read where none stands.
    pub fn list_or<T>(
        self,
        list: impl FnOnce(Slot<'_, 'd>) -> Option<T>,
        other: impl FnOnce(Slot<'_, 'd>) -> Option<T>,
    ) -> Option<T> {
        self.either(|node| node.kind() == Kind::List, list, other)
    }

    /// Something that `off` or `false` switches off, and that `true` leaves as it is by default.
    pub fn switch<T>(self, on: impl FnOnce(Slot<'_, 'd>) -> Option<T>) -> Option<Switch<T>> {
        self.either(
            |node| matches!(node.kind(), Kind::Bool(_) | Kind::Text("off" | "no" | "on" | "yes")),
            |slot| {
                slot.value(json!({"anyOf": [{"enum": ["off", false, true]}, variable()]}), |node| match node.kind() {
                    Kind::Bool(false) | Kind::Text("off") => Ok(Switch::Off),
                    Kind::Bool(true) => Ok(Switch::Default),
                    Kind::Text("no") => Err(Mismatch::found(node, "a mapping or off").help("write off")),
                    _ => Err(Mismatch::found(node, "a mapping or off").help("write true, or leave the key out")),
                })
            },
            |slot| on(slot).map(Switch::On),
        )
    }

    fn either<T>(
        self,
        is_first: impl FnOnce(Node<'d>) -> bool,
        first: impl FnOnce(Slot<'_, 'd>) -> Option<T>,
        second: impl FnOnce(Slot<'_, 'd>) -> Option<T>,
    ) -> Option<T> {
        match self.side {
            Side::Describe { schema, definitions } => {
                let (mut one, mut two) = (Json::Null, Json::Null);
                first(Slot::describe(&mut one, definitions));
                second(Slot::describe(&mut two, definitions));
                let forms = [one, two].into_iter().flat_map(|form| match form {
                    // A form that has forms itself adds them to ours.
                    Json::Object(mut form) if form.len() == 1 && form.contains_key("anyOf") => {
                        form.remove("anyOf").and_then(|forms| Some(forms.as_array()?.clone())).unwrap_or_default()
                    }
                    form => vec![form],
                });
                *schema = json!({"anyOf": forms.collect::<Vec<_>>()});
                None
            }
            Side::Read { node, .. } => {
                if is_first(node) {
                    first(self)
                } else {
                    second(self)
                }
            }
        }
    }
}

/// The schema of a text in which a variable stands for a value.
pub(super) fn variable() -> Json {
    json!({"type": "string", "pattern": "\\$\\{"})
}

/// The schema of a text that matches a regular expression, or holds a variable.
pub fn text_like(pattern: &str) -> Json {
    json!({"type": "string", "pattern": format!("^({pattern})$|\\$\\{{")})
}
