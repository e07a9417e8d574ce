//! Structured fields (RFC 9651), read more strictly than the RFC reads them wherever two readers could see two things.
//!
//! Refused besides what the grammar refuses: a repeated key of a dictionary or of parameters (the RFC keeps the last
//! one), decimals, dates and display strings (no field of a signature has one), and byte sequences that are not
//! canonical base64.

use std::collections::HashSet;
use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::HeaderMap;
use sfv::visitor::{DictionaryVisitor, EntryVisitor, InnerListVisitor, ItemVisitor, ParameterVisitor};
use sfv::{BareItem, BareItemFromInput, Dictionary, FieldType, Item, KeyRef, ListEntry, Parser};

/// Bytes of a field, all its lines together: two signatures with everything that belongs to them take 1 KiB.
pub const FIELD_MAX: usize = 8 * 1024;

/// Members of a dictionary: two labels are the most that a request needs.
pub const MEMBERS_MAX: usize = 16;

/// The field is none that can be read, or none that everybody would read alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed;

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no structured field, or one that readers understand differently")
    }
}

impl std::error::Error for Malformed {}

/// Reads a dictionary; an empty text is an empty one.
pub(super) fn dictionary(text: &str) -> Result<Dictionary, Malformed> {
    bounded(text)?;
    Parser::new(text).parse_dictionary_with_visitor(Strict::default()).map_err(|_| Malformed)?;
    let dictionary: Dictionary = Parser::new(text).parse().map_err(|_| Malformed)?;
    for member in dictionary.values() {
        match member {
            ListEntry::Item(item) => canonical(item, text)?,
            ListEntry::InnerList(list) => list.items.iter().try_for_each(|item| canonical(item, text))?,
        }
    }
    Ok(dictionary)
}

/// Reads a lone item.
pub(super) fn item(text: &str) -> Result<Item, Malformed> {
    bounded(text)?;
    Parser::new(text).parse_item_with_visitor(Strict::default()).map_err(|_| Malformed)?;
    let item: Item = Parser::new(text).parse().map_err(|_| Malformed)?;
    canonical(&item, text)?;
    Ok(item)
}

/// Every line of a field in one text (RFC 9110 5.2); `None` where the request has none, an error where one is not
/// printable ASCII.
pub(super) fn field(fields: &HeaderMap, name: &str) -> Result<Option<String>, Malformed> {
    let mut joined: Option<String> = None;
    for line in fields.get_all(name) {
        let line = line.to_str().map_err(|_| Malformed)?.trim_matches([' ', '\t']);
        match &mut joined {
            Some(joined) => {
                joined.push_str(", ");
                joined.push_str(line);
            }
            None => joined = Some(line.to_owned()),
        }
    }
    Ok(joined)
}

/// An item as it stands in a signature base.
pub(super) fn serialize_item(item: &Item) -> String {
    item.serialize()
}

fn bounded(text: &str) -> Result<(), Malformed> {
    if text.len() <= FIELD_MAX && text.is_ascii() { Ok(()) } else { Err(Malformed) }
}

/// Whether bytes stand in the text as their one canonical form: what was signed is then what is read.
fn canonical(item: &Item, text: &str) -> Result<(), Malformed> {
    let values = std::iter::once(&item.bare_item).chain(item.params.values());
    for value in values {
        if let BareItem::ByteSequence(bytes) = value
            && !text.contains(&format!(":{}:", BASE64_STANDARD.encode(bytes)))
        {
            return Err(Malformed);
        }
    }
    Ok(())
}

/// Walks through a field and stops at what two readers could read differently.
#[derive(Default)]
struct Strict<'de> {
    seen: HashSet<&'de str>,
}

impl<'de> Strict<'de> {
    fn see(&mut self, key: &'de KeyRef) -> Result<(), Malformed> {
        if self.seen.len() < MEMBERS_MAX && self.seen.insert(key.as_str()) { Ok(()) } else { Err(Malformed) }
    }
}

fn plain(value: &BareItemFromInput<'_>) -> Result<(), Malformed> {
    match value {
        BareItemFromInput::Decimal(_) | BareItemFromInput::Date(_) | BareItemFromInput::DisplayString(_) => {
            Err(Malformed)
        }
        _ => Ok(()),
    }
}

impl<'de> DictionaryVisitor<'de> for Strict<'de> {
    type Out = ();
    type Error = Malformed;

    fn entry(&mut self, key: &'de KeyRef) -> Result<impl EntryVisitor<'de>, Malformed> {
        self.see(key)?;
        Ok(Strict::default())
    }

    fn finish(self) -> Result<(), Malformed> {
        Ok(())
    }
}

impl<'de> EntryVisitor<'de> for Strict<'de> {
    type Error = Malformed;

    fn item(self) -> Result<impl ItemVisitor<'de>, Malformed> {
        Ok(Strict::default())
    }

    fn inner_list(self) -> Result<impl InnerListVisitor<'de>, Malformed> {
        Ok(Strict::default())
    }
}

impl<'de> InnerListVisitor<'de> for Strict<'de> {
    type Error = Malformed;

    fn item(&mut self) -> Result<impl ItemVisitor<'de>, Malformed> {
        Ok(Strict::default())
    }

    fn finish(self) -> Result<impl ParameterVisitor<'de>, Malformed> {
        Ok(Strict::default())
    }
}

impl<'de> ItemVisitor<'de> for Strict<'de> {
    type Out = ();
    type Error = Malformed;

    fn bare_item(self, value: BareItemFromInput<'de>) -> Result<impl ParameterVisitor<'de, Out = ()>, Malformed> {
        plain(&value)?;
        Ok(Strict::default())
    }
}

impl<'de> ParameterVisitor<'de> for Strict<'de> {
    type Out = ();
    type Error = Malformed;

    fn parameter(&mut self, key: &'de KeyRef, value: BareItemFromInput<'de>) -> Result<(), Malformed> {
        plain(&value)?;
        self.see(key)
    }

    fn finish(self) -> Result<(), Malformed> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_two_readers_could_read_differently_is_refused() {
        for bad in [
            "a=1, a=2",
            "a=(\"x\";k;k)",
            "a=1;p=1;p=2",
            "a=1.5",
            "a=1;p=1.0",
            "a=@1700000000",
            "a=%\"x\"",
            "a=:AAA:",
            "a=:AAB=:",
            "a=:AA==:;p=:AAB=:",
            "a=1,",
            "a=\"\u{e9}\"",
            "a",
            "A=1",
            "=1",
            "a=1 b=2",
            "a=(1 2",
            "a=(1,2)",
            "a=\"x",
            "a=1234567890123456",
        ] {
            let read = dictionary(bad);
            assert!(read.is_err() || bad == "a", "{bad}: {read:?}");
        }
        let many: Vec<String> = (0..=MEMBERS_MAX).map(|n| format!("k{n}=1")).collect();
        assert!(dictionary(&many.join(", ")).is_err());
        assert!(dictionary(&many[1..].join(", ")).is_ok());
        assert!(dictionary(&format!("a=\"{}\"", "x".repeat(FIELD_MAX))).is_err());
    }

    #[test]
    fn white_space_and_order_are_kept_apart_from_meaning() {
        let read = dictionary("  sig1=( \"@method\"   \"date\" );b=2;a=1 ,\t sig2=:AAAA:  ").unwrap();
        assert_eq!(read.serialize().unwrap(), "sig1=(\"@method\" \"date\");b=2;a=1, sig2=:AAAA:");
        assert!(dictionary("").unwrap().is_empty());
    }

    #[test]
    fn lines_of_a_field_are_one_text() {
        let mut fields = HeaderMap::new();
        assert_eq!(field(&fields, "x"), Ok(None));
        fields.append("x", " a=1 ".parse().unwrap());
        fields.append("x", "b=2".parse().unwrap());
        assert_eq!(field(&fields, "x"), Ok(Some("a=1, b=2".to_owned())));
        fields.append("x", http::HeaderValue::from_bytes(b"\xe9").unwrap());
        assert_eq!(field(&fields, "x"), Err(Malformed));
    }
}
