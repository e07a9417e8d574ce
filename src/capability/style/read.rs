//! Reading an input, in the service's own form or in one that callers write instead.

use serde_json::{Map, Value};

use crate::restap::catalog::Style;

use super::super::query;
use super::{Form, Holds};

/// Brackets after a name, as in `filter[a][b]`.
const DEPTH_MAX: usize = 16;

impl Form {
    /// Whether a pair of a query belongs to the parameter `name`.
    pub(in super::super) fn owns(&self, name: &str, pair_name: &str) -> bool {
        let in_brackets =
            || pair_name.strip_prefix(name).is_some_and(|rest| rest.starts_with('[') && rest.ends_with(']'));
        match self.holds {
            _ if pair_name == name => true,
            Holds::Scalar => false,
            Holds::List => in_brackets(),
            Holds::Object => in_brackets() || self.is_spread() && self.properties.iter().any(|it| **it == *pair_name),
        }
    }

    /// What a query says for the parameter; `None` where it stands nowhere. Texts stay texts.
    pub(in super::super) fn of_query(&self, name: &str, query: &str) -> Option<Value> {
        let mine = query::pairs(query).filter(|pair| self.owns(name, &query::name(pair)));
        let pairs: Vec<_> =
            mine.map(|pair| (query::name(pair).into_owned(), query::value(pair).into_owned())).collect();
        if pairs.is_empty() {
            return None;
        }
        let whole = || -> Vec<&str> {
            pairs.iter().filter(|(pair_name, _)| pair_name == name).map(|(_, value)| value.as_str()).collect()
        };
        match self.holds {
            Holds::Scalar => whole().first().map(|text| self.scalar(text)),
            Holds::List => {
                let texts = whole();
                if texts.len() == pairs.len() {
                    return Some(self.list(&texts));
                }
                let mut items = Map::new();
                for (pair_name, value) in &pairs {
                    let path = pair_name.strip_prefix(name).unwrap_or_default();
                    insert(&mut items, &bracketed(path), value);
                }
                Some(lists(Value::Object(items), true))
            }
            Holds::Object => {
                let mut object = match whole().as_slice() {
                    [text, ..] => match self.object(text) {
                        Value::Object(object) => object,
                        other => return Some(other),
                    },
                    [] => Map::new(),
                };
                for (pair_name, value) in pairs.iter().filter(|(pair_name, _)| pair_name != name) {
                    match pair_name.strip_prefix(name).filter(|rest| rest.starts_with('[')) {
                        Some(path) => insert(&mut object, &bracketed(path), value),
                        None => drop(object.insert(pair_name.clone(), value.as_str().into())),
                    }
                }
                Some(lists(Value::Object(object), false))
            }
        }
    }

    /// What one text says: a path's segment, a header's value, a cookie's.
    pub(in super::super) fn of_text(&self, text: &str) -> Value {
        match self.holds {
            Holds::Scalar => self.scalar(text),
            Holds::List => self.list(&[text]),
            Holds::Object => self.object(text),
        }
    }

    /// Whether an object's properties stand as parameters of their own.
    pub(super) fn is_spread(&self) -> bool {
        self.style == Style::Form && self.explode
    }

    fn scalar(&self, text: &str) -> Value {
        let json = if self.style == Style::Json { serde_json::from_str(text).ok() } else { None };
        json.unwrap_or_else(|| text.into())
    }

    fn list(&self, texts: &[&str]) -> Value {
        if let [text] = texts
            && let Some(json @ Value::Array(_)) = json(text, '[')
        {
            return json;
        }
        let item = |text: &str| Value::from(text.trim());
        let repeats = self.explode && matches!(self.style, Style::Form | Style::DeepObject);
        let one_each = self.explode && texts.len() > 1 || repeats && !self.commas_end_items;
        if one_each || self.style == Style::Json {
            return texts.iter().map(|text| item(text)).collect();
        }
        texts.iter().flat_map(|text| text.split(self.separator(text, texts.len()))).map(item).collect()
    }

    /// The service's own delimiter, or a comma where that does not stand in the text.
    fn separator(&self, text: &str, texts: usize) -> char {
        let own = self.delimiter();
        if text.contains(own) || texts > 1 { own } else { ',' }
    }

    /// `R,100,G,200`, or `R=100,G=200` where it is exploded; or JSON.
    fn object(&self, text: &str) -> Value {
        if let Some(json @ Value::Object(_)) = json(text, '{') {
            return json;
        }
        let separator = self.separator(text, 1);
        let words: Vec<&str> = text.split(separator).map(str::trim).collect();
        let pairs: Option<Vec<(&str, &str)>> = if words.iter().all(|word| word.contains('=')) {
            words.iter().map(|word| word.split_once('=')).collect()
        } else {
            let (pairs, rest) = words.as_chunks::<2>();
            rest.is_empty().then(|| pairs.iter().map(|[name, value]| (*name, *value)).collect())
        };
        match pairs {
            Some(pairs) => pairs.into_iter().map(|(name, value)| (name.to_owned(), Value::from(value))).collect(),
            None => text.into(),
        }
    }
}

/// A text that is JSON of the kind that begins so.
fn json(text: &str, begins: char) -> Option<Value> {
    if text.trim_start().starts_with(begins) { serde_json::from_str(text).ok() } else { None }
}

/// The names in brackets: `[a][b]` is `a`, `b`, and `[]` the empty one.
fn bracketed(path: &str) -> Vec<&str> {
    let inner = path.strip_prefix('[').and_then(|path| path.strip_suffix(']')).unwrap_or_default();
    inner.splitn(DEPTH_MAX, "][").collect()
}

/// Puts a value at a path. Under an empty name each value is the next item.
fn insert(object: &mut Map<String, Value>, path: &[&str], value: &str) {
    let Some((first, rest)) = path.split_first() else { return };
    let name = if first.is_empty() { object.len().to_string() } else { (*first).to_owned() };
    if rest.is_empty() {
        match object.get_mut(&name) {
            // Repeated: a list.
            Some(Value::Object(items)) => drop(items.insert(items.len().to_string(), value.into())),
            Some(before) => {
                *before = Map::from_iter([("0".to_owned(), before.take()), ("1".to_owned(), value.into())]).into();
            }
            None => drop(object.insert(name, value.into())),
        }
        return;
    }
    let inner = object.entry(name).or_insert_with(|| Value::Object(Map::new()));
    if let Value::Object(inner) = inner {
        insert(inner, rest, value);
    }
}

/// Objects whose keys count from 0 are lists.
fn lists(value: Value, whole: bool) -> Value {
    let Value::Object(object) = value else { return value };
    let counts = !object.is_empty() && object.keys().enumerate().all(|(number, key)| *key == number.to_string());
    if whole || counts {
        return object.into_iter().map(|(_, value)| lists(value, false)).collect();
    }
    object.into_iter().map(|(key, value)| (key, lists(value, false))).collect::<Map<_, _>>().into()
}
