//! `Tree`: JSON as a frame brings it, which borrows its texts and keeps its keys in a row.
//!
//! A frame has few keys, is looked at by a score of rules, and is dropped: hashing its keys would cost more than all the
//! rest.

use std::borrow::Cow;
use std::fmt;

use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Number, Value};

/// One JSON value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Tree<'t> {
    Null,
    Bool(bool),
    Number(Number),
    Text(Cow<'t, str>),
    Array(Vec<Tree<'t>>),
    /// Of a key that stands twice the last one counts.
    Object(Vec<(Cow<'t, str>, Tree<'t>)>),
}

impl Tree<'_> {
    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        match self {
            Self::Object(entries) => entries.iter().rev().find(|(known, _)| known == key).map(|(_, value)| value),
            _ => None,
        }
    }

    pub(crate) fn as_str(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn is_null(&self) -> bool {
        *self == Self::Null
    }

    /// The same as a value that owns its texts.
    pub(crate) fn to_value(&self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(flag) => Value::Bool(*flag),
            Self::Number(number) => Value::Number(number.clone()),
            Self::Text(text) => Value::String(text.clone().into_owned()),
            Self::Array(items) => Value::Array(items.iter().map(Self::to_value).collect()),
            Self::Object(entries) => {
                Value::Object(entries.iter().map(|(key, value)| (key.clone().into_owned(), value.to_value())).collect())
            }
        }
    }
}

/// Compact JSON.
impl fmt::Display for Tree<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

impl Serialize for Tree<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(flag) => serializer.serialize_bool(*flag),
            Self::Number(number) => number.serialize(serializer),
            Self::Text(text) => serializer.serialize_str(text),
            Self::Array(items) => serializer.collect_seq(items),
            Self::Object(entries) => {
                let mut map = serializer.serialize_map(Some(entries.len()))?;
                for (key, value) in entries {
                    map.serialize_entry(key, value)?;
                }
                map.end()
            }
        }
    }
}

impl<'de: 't, 't> Deserialize<'de> for Tree<'t> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Tree<'de>, E> {
        Ok(Tree::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Tree<'de>, E> {
        Ok(Tree::Bool(flag))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Tree<'de>, E> {
        Ok(Tree::Number(number.into()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Tree<'de>, E> {
        Ok(Tree::Number(number.into()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Tree<'de>, E> {
        Ok(Number::from_f64(number).map_or(Tree::Null, Tree::Number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Tree<'de>, E> {
        Ok(Tree::Text(text.to_owned().into()))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Tree<'de>, E> {
        Ok(Tree::Text(text.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Tree<'de>, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Tree::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree<'de>, A::Error> {
        let mut entries = Vec::new();
        while let Some((Key(key), value)) = map.next_entry()? {
            entries.push((key, value));
        }
        Ok(Tree::Object(entries))
    }
}

/// A key, borrowed unless it holds an escape.
#[derive(Deserialize)]
#[serde(transparent)]
struct Key<'k>(#[serde(borrow)] Cow<'k, str>);

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_tree_is_the_json_that_it_was_read_from() {
        let text = r#"{"a":[1,-2,1.5,true,null,"x\n\"é",{}],"b\n":{"c":"d"}}"#;
        let tree: Tree<'_> = serde_json::from_str(text).unwrap();
        assert_eq!(tree.to_string(), text);
        assert_eq!(tree.to_value(), serde_json::from_str::<Value>(text).unwrap());
        assert!(matches!(tree.get("b\n").and_then(|b| b.get("c")), Some(Tree::Text(Cow::Borrowed("d")))));
    }

    #[test]
    fn of_a_key_that_stands_twice_the_last_one_counts() {
        let tree: Tree<'_> = serde_json::from_str(r#"{"a":1,"a":2}"#).unwrap();
        assert_eq!(tree.get("a").map(Tree::to_value), Some(json!(2)));
        assert_eq!(tree.to_value(), json!({"a": 2}));
    }
}
