//! `Problem`: what is wrong in a dialect, and where.

use serde_json::{Map, Value};

use super::builtin;

/// What is wrong in a dialect that an operator wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// JSON pointer into the mapping.
    pub pointer: String,
    /// What is wrong, and what to write instead.
    pub message: String,
    /// The nearest known name.
    pub suggestion: Option<String>,
}

impl Problem {
    /// There is no dialect of this name.
    pub(crate) fn unknown(name: &str) -> Self {
        let names: Vec<&str> = builtin::names().collect();
        Self {
            pointer: String::new(),
            message: format!("there is no dialect `{name}`; known are {}", names.join(", ")),
            suggestion: nearest(name, &names).map(str::to_owned),
        }
    }
}

/// All that is wrong in one dialect.
#[derive(Debug, Default)]
pub(crate) struct Problems(Vec<Problem>);

impl Problems {
    pub(crate) fn add(&mut self, at: impl Into<String>, message: impl Into<String>, suggestion: Option<&str>) {
        self.0.push(Problem { pointer: at.into(), message: message.into(), suggestion: suggestion.map(str::to_owned) });
    }

    /// Every key that is none of these is a problem.
    pub(crate) fn known_keys(&mut self, map: &Map<String, Value>, at: &str, known: &[&str]) {
        for key in map.keys().filter(|key| !known.contains(&key.as_str())) {
            let message = format!("`{key}` is no key here; known are {}", known.join(", "));
            self.add(join(at, key), message, nearest(key, known));
        }
    }

    /// A map, or a problem if there is something else.
    pub(crate) fn map<'v>(&mut self, value: Option<&'v Value>, at: &str) -> Option<&'v Map<String, Value>> {
        match value? {
            Value::Object(map) => Some(map),
            _ => self.wrong(at, "a mapping"),
        }
    }

    /// A text, or a problem if there is something else.
    pub(crate) fn text<'v>(&mut self, value: Option<&'v Value>, at: &str) -> Option<&'v str> {
        match value? {
            Value::String(text) => Some(text),
            _ => self.wrong(at, "a text"),
        }
    }

    /// A list of texts; one text alone is a list of one. Empty where there is nothing.
    pub(crate) fn texts<'v>(&mut self, value: Option<&'v Value>, at: &str) -> Vec<&'v str> {
        match value {
            None => Vec::new(),
            Some(Value::String(text)) => vec![text],
            Some(Value::Array(items)) => {
                let texts = items.iter().enumerate();
                texts.filter_map(|(index, item)| self.text(Some(item), &format!("{at}/{index}"))).collect()
            }
            Some(_) => self.wrong(at, "a text or a list of texts").unwrap_or_default(),
        }
    }

    /// `true` or `false`; false where there is nothing.
    pub(crate) fn flag(&mut self, value: Option<&Value>, at: &str) -> bool {
        match value {
            None => false,
            Some(Value::Bool(flag)) => *flag,
            Some(_) => self.wrong(at, "true or false").unwrap_or_default(),
        }
    }

    fn wrong<T>(&mut self, at: &str, expected: &str) -> Option<T> {
        self.add(at, format!("this must be {expected}"), None);
        None
    }

    pub(crate) fn into_vec(self) -> Vec<Problem> {
        self.0
    }
}

/// The pointer of a key of the object at `at`.
pub(crate) fn join(at: &str, key: &str) -> String {
    format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"))
}

/// The known name that is most like this one, if any is.
pub(crate) fn nearest<'n>(name: &str, known: &[&'n str]) -> Option<&'n str> {
    let likeness = |known: &str| strsim::jaro_winkler(name, known);
    let best = known.iter().copied().max_by(|one, other| likeness(one).total_cmp(&likeness(other)))?;
    (likeness(best) > 0.75).then_some(best)
}
