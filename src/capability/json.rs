//! JSON in which every key of an object stands once.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Parses a text. A repeated key is an error: which of its values counts is for every parser to choose (RFC 8259,
/// section 4), so the service might see one that was never checked.
pub(super) fn parse(text: &[u8]) -> serde_json::Result<Value> {
    let mut parser = serde_json::Deserializer::from_slice(text);
    let value = Strict.deserialize(&mut parser)?;
    parser.end()?;
    Ok(value)
}

struct Strict;

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        while let Some(item) = items.next_element_seed(Strict)? {
            array.push(item);
        }
        Ok(array.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let value = entries.next_value_seed(Strict)?;
            if object.insert(key, value).is_some() {
                return Err(A::Error::custom("a key stands twice in one object"));
            }
        }
        Ok(object.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_serde_reads_is_read_alike() {
        for text in [
            "null",
            "[]",
            "{}",
            r#" {"a": [1, -2, 2.5, 1e3, true, "x\u00e9\n", {"b": null}]} "#,
            "18446744073709551615",
        ] {
            assert_eq!(parse(text.as_bytes()).unwrap(), serde_json::from_str::<Value>(text).unwrap());
        }
    }

    #[test]
    fn a_repeated_key_is_refused_where_it_stands() {
        let error = parse(br#"{"a": {"role": "user", "role": "admin"}}"#).unwrap_err().to_string();
        assert_eq!(error, "a key stands twice in one object at line 1 column 39");
    }

    #[test]
    fn what_is_no_json_is_refused() {
        for text in [&b""[..], b"{", b"[1,]", b"{}{}", b"\xef\xbb\xbf{}", b"{\"a\":\"\xff\"}", b"NaN", b"1e999"] {
            assert!(parse(text).is_err(), "{}", text.escape_ascii());
        }
        assert!(parse("[".repeat(100_000).as_bytes()).is_err(), "nesting has an end");
    }
}
