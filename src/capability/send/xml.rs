//! XML out of JSON: `@name` is an attribute, `#text` the text, and a list an element for each item.

use std::fmt::Write;

use serde_json::Value;

use super::super::style;
use super::Unsendable;

/// The element around a body of several entries.
const ROOT: &str = "request";

/// A whole document. `root` is the element around the value; without one an object of one entry is it.
pub(super) fn write(value: &Value, root: Option<&str>) -> Result<String, Unsendable> {
    let mut text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>".to_owned();
    match (root, value) {
        (Some(root), value) => element(root, value, &mut text)?,
        (None, Value::Object(entries)) if entries.len() == 1 => match entries.iter().next() {
            Some((name, value)) if !value.is_array() && !is_special(name) => element(name, value, &mut text)?,
            _ => element(ROOT, value, &mut text)?,
        },
        (None, value) => element(ROOT, value, &mut text)?,
    }
    Ok(text)
}

/// Whether a text can be the name of an element or an attribute: with an ASCII letter first, and no more than XML 1.0
/// takes.
pub(in super::super) fn is_name(name: &str) -> bool {
    let begins = |character: char| character.is_alphabetic() || character == '_';
    let goes_on = |character: char| character.is_alphanumeric() || matches!(character, '_' | '-' | '.' | ':');
    name.starts_with(begins) && name.chars().all(goes_on) && !name.ends_with(':') && name.matches(':').count() <= 1
}

fn is_special(name: &str) -> bool {
    name.starts_with(['@', '#'])
}

fn element(name: &str, value: &Value, text: &mut String) -> Result<(), Unsendable> {
    if !is_name(name) {
        let shown = name.chars().take(40).collect::<String>();
        return Err(Unsendable::root(format!("has a key that can be no element of XML: {shown:?}")));
    }
    match value {
        Value::Array(items) => return items.iter().try_for_each(|item| element(name, item, text)),
        Value::Null => drop(write!(text, "<{name}/>")),
        Value::Object(entries) => {
            text.push('<');
            text.push_str(name);
            for (key, value) in entries {
                let Some(attribute) = key.strip_prefix('@') else { continue };
                if !is_name(attribute) {
                    return Err(Unsendable::root("has a key after `@` that can be no attribute of XML"));
                }
                let _ = write!(text, " {attribute}=\"");
                escaped(&style::text(value), true, text)?;
                text.push('"');
            }
            text.push('>');
            for (key, value) in entries.iter().filter(|(key, _)| !key.starts_with('@')) {
                if key == "#text" { escaped(&style::text(value), false, text)? } else { element(key, value, text)? }
            }
            let _ = write!(text, "</{name}>");
        }
        scalar => {
            let _ = write!(text, "<{name}>");
            escaped(&style::text(scalar), false, text)?;
            let _ = write!(text, "</{name}>");
        }
    }
    Ok(())
}

fn escaped(value: &str, attribute: bool, text: &mut String) -> Result<(), Unsendable> {
    for character in value.chars() {
        match character {
            '&' => text.push_str("&amp;"),
            '<' => text.push_str("&lt;"),
            '>' => text.push_str("&gt;"),
            '"' if attribute => text.push_str("&quot;"),
            // White space in an attribute would be read as plain spaces, and a carriage return as a line feed.
            '\t' | '\n' if attribute => drop(write!(text, "&#{};", u32::from(character))),
            '\r' => text.push_str("&#13;"),
            '\t' | '\n' => text.push(character),
            '\0'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => {
                return Err(Unsendable::root("holds a control character, which XML can't carry"));
            }
            character => text.push(character),
        }
    }
    Ok(())
}
