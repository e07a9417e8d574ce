//! `application/x-www-form-urlencoded`: an object of texts; what stands several times is a list.

use serde_json::{Map, Value};

use super::super::query;

pub(super) fn parse(text: &str) -> Value {
    let mut object = Map::new();
    for pair in query::pairs(text.trim()) {
        let (name, value) = (query::name(pair).into_owned(), Value::from(query::value(pair).into_owned()));
        match object.get_mut(&name) {
            None => drop(object.insert(name, value)),
            Some(Value::Array(items)) => items.push(value),
            Some(before) => *before = Value::Array(vec![before.take(), value]),
        }
    }
    Value::Object(object)
}
