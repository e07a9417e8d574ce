//! `Slot`: the place of one value. The same code reads the value that stands there and describes what may.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use serde_json::{Map, Value as Json, json};

use super::document::{Kind, Node};
use super::fields::Fields;
use super::report::{Problem, Report};

/// Characters of a wrong text that an error repeats.
const QUOTED_MAX: usize = 40;

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

/// Why a scalar is not what was expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub help: Option<String>,
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
            let number = match node.kind() {
                Kind::Integer(number) => Some(number),
                Kind::Text(text) if node.is_filled_in() => text.parse().ok(),
                _ => None,
            };
            let number = number.filter(|number| (least..=most).contains(number));
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

    /// Anything, as JSON.
    pub fn json(self) -> Option<Json> {
        self.value(json!(true), |node| Ok(node.to_json()))
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
        self.either(|kind| kind == Kind::Mapping, mapping, other)
    }

    /// Two forms of the same thing: a list, or another that is read where none stands.
    pub fn list_or<T>(
        self,
        list: impl FnOnce(Slot<'_, 'd>) -> Option<T>,
        other: impl FnOnce(Slot<'_, 'd>) -> Option<T>,
    ) -> Option<T> {
        self.either(|kind| kind == Kind::List, list, other)
    }

    /// Something that `off` or `false` switches off, and that `true` leaves as it is by default.
    pub fn switch<T>(self, on: impl FnOnce(Slot<'_, 'd>) -> Option<T>) -> Option<Switch<T>> {
        self.either(
            |kind| matches!(kind, Kind::Bool(_) | Kind::Text("off")),
            |slot| {
                slot.value(json!({"enum": ["off", false, true]}), |node| match node.kind() {
                    Kind::Bool(true) => Ok(Switch::Default),
                    _ => Ok(Switch::Off),
                })
            },
            |slot| on(slot).map(Switch::On),
        )
    }

    fn either<T>(
        self,
        is_first: impl FnOnce(Kind<'d>) -> bool,
        first: impl FnOnce(Slot<'_, 'd>) -> Option<T>,
        second: impl FnOnce(Slot<'_, 'd>) -> Option<T>,
    ) -> Option<T> {
        match self.side {
            Side::Describe { schema, definitions } => {
                let (mut one, mut two) = (Json::Null, Json::Null);
                first(Slot::describe(&mut one, definitions));
                second(Slot::describe(&mut two, definitions));
                *schema = json!({"anyOf": [one, two]});
                None
            }
            Side::Read { node, .. } => {
                if is_first(node.kind()) {
                    first(self)
                } else {
                    second(self)
                }
            }
        }
    }
}

impl Mismatch {
    /// A sentence of its own.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), help: None }
    }

    /// `expected a list, found the text "no"`.
    pub fn found(node: Node<'_>, expects: &str) -> Self {
        let (found, help) = match node.kind() {
            Kind::Null => ("nothing".to_owned(), Some("write a value, or leave the key out".to_owned())),
            Kind::Text(_) => (format!("the text {}", quote(node.written())), None),
            Kind::List => ("a list".to_owned(), None),
            Kind::Mapping => ("a mapping".to_owned(), None),
            Kind::Bool(_) | Kind::Integer(_) | Kind::Float(_) => (node.written().to_owned(), None),
        };
        Self { message: format!("expected {expects}, found {found}"), help }
    }

    /// What to write instead.
    pub fn help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }

    /// The problem that it is with a node.
    pub fn about(self, node: Node<'_>) -> Problem<'_> {
        let problem = Problem::error(node, self.message);
        match self.help {
            Some(help) => problem.help(help),
            None => problem,
        }
    }
}

/// Takes the text of a node. Numbers and booleans are no text; the error says how to make them so.
pub(super) fn text<'d>(node: Node<'d>, expects: &str) -> Result<&'d str, Mismatch> {
    match node.kind() {
        Kind::Text(text) => Ok(text),
        Kind::Bool(_) | Kind::Integer(_) | Kind::Float(_) => {
            Err(Mismatch::found(node, expects).help(format!("put it in quotes: \"{}\"", node.written())))
        }
        _ => Err(Mismatch::found(node, expects)),
    }
}

pub(super) fn parse<T: FromStr>(text: &str, expects: &str) -> Result<T, Mismatch>
where
    T::Err: Display,
{
    text.parse().map_err(|error: T::Err| Mismatch::new(error.to_string()).help(format!("write {expects}")))
}

pub(super) fn one_of<T: Clone>(node: Node<'_>, words: &[(&str, T)]) -> Result<T, Mismatch> {
    let found = node.as_text().and_then(|text| words.iter().find(|(name, _)| *name == text));
    found.map(|(_, value)| value.clone()).ok_or_else(|| {
        let names = words.iter().map(|(name, _)| *name);
        let mismatch = Mismatch::found(node, &joined(names.clone(), "or"));
        let quoted = names.clone().find(|name| node.as_text().is_none() && node.written() == *name);
        let nearest = node.as_text().and_then(|text| super::nearest(text, names));
        match (quoted, nearest) {
            (Some(name), _) => mismatch.help(format!("put it in quotes: \"{name}\"")),
            (None, Some(name)) => mismatch.help(format!("did you mean `{name}`?")),
            (None, None) => mismatch,
        }
    })
}

/// `a, b or c`.
pub fn joined<'n>(names: impl IntoIterator<Item = &'n str>, last: &str) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    match names.split_last() {
        Some((end, [])) => (*end).to_owned(),
        Some((end, start)) => format!("{} {last} {end}", start.join(", ")),
        None => String::new(),
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

fn quote(text: &str) -> String {
    let mut quoted: String = text.chars().take(QUOTED_MAX).collect();
    if quoted.len() < text.len() {
        quoted.push('…');
    }
    format!("{quoted:?}")
}
