//! XML as JSON: elements are keys, attributes `@name`, the text of an element that has more `#text`, and what stands
//! several times is a list. Prefixes of namespaces are left out. Nothing but text is guessed.

use quick_xml::Reader;
use quick_xml::escape::unescape;
use quick_xml::events::{BytesStart, Event};
use serde_json::{Map, Value};

/// Elements within each other.
const DEPTH_MAX: usize = 128;

/// Elements and attributes of a document.
const NODES_MAX: usize = 500_000;

/// An element that is open.
#[derive(Default)]
struct Open {
    name: String,
    entries: Map<String, Value>,
    text: String,
}

/// The root element under its name.
pub(super) fn parse(text: &str) -> Result<Value, String> {
    let broken = || "is not XML".to_owned();
    let mut reader = Reader::from_str(text);
    let mut open: Vec<Open> = Vec::new();
    let mut root = None;
    let mut nodes = 0_usize;
    loop {
        match reader.read_event().map_err(|_| broken())? {
            Event::Start(start) => {
                if open.len() >= DEPTH_MAX {
                    return Err(format!("is XML of more than {DEPTH_MAX} levels"));
                }
                open.push(begin(&start, &mut nodes)?);
            }
            Event::Empty(start) => close(begin(&start, &mut nodes)?, &mut open, &mut root)?,
            Event::End(_) => {
                let element = open.pop().ok_or_else(broken)?;
                close(element, &mut open, &mut root)?;
            }
            Event::Text(part) => say(&part.xml10_content(), &mut open)?,
            Event::CData(part) => say(&part.xml10_content(), &mut open)?,
            Event::GeneralRef(reference) => {
                let name = reference.xml10_content().into_owned();
                let character = unescape(&format!("&{name};")).map(std::borrow::Cow::into_owned);
                say(&character.map_err(|_| "is XML with an entity that is not known".to_owned())?, &mut open)?;
            }
            Event::DocType(_) => return Err("is XML with a DTD, which is not read".to_owned()),
            Event::Decl(_) | Event::PI(_) | Event::Comment(_) => {}
            Event::Eof => break,
        }
    }
    match root {
        Some((name, value)) if open.is_empty() => Ok(Value::Object(Map::from_iter([(name, value)]))),
        _ => Err(broken()),
    }
}

fn begin(start: &BytesStart<'_>, nodes: &mut usize) -> Result<Open, String> {
    let mut element = Open { name: local(start.local_name().as_ref()), ..Open::default() };
    *nodes += 1;
    for attribute in start.attributes() {
        let attribute = attribute.map_err(|_| "is XML with a broken attribute".to_owned())?;
        *nodes += 1;
        let name = local(attribute.key.as_ref());
        // Declarations of namespaces say nothing once prefixes are gone.
        if name == "xmlns" || name.starts_with("xmlns:") {
            continue;
        }
        let name = name.rsplit(':').next().unwrap_or_default().to_owned();
        let value = unescape(&attribute.value).map_err(|_| "is XML with an entity that is not known".to_owned())?;
        element.entries.insert(format!("@{name}"), value.into_owned().into());
    }
    if *nodes > NODES_MAX { Err(format!("is XML of more than {NODES_MAX} elements")) } else { Ok(element) }
}

fn local(name: &str) -> String {
    name.to_owned()
}

fn say(text: &str, open: &mut [Open]) -> Result<(), String> {
    match open.last_mut() {
        Some(element) => element.text.push_str(text),
        None if text.trim().is_empty() => {}
        None => return Err("is XML with text outside of its root".to_owned()),
    }
    Ok(())
}

fn close(element: Open, open: &mut [Open], root: &mut Option<(String, Value)>) -> Result<(), String> {
    let Open { name, mut entries, text } = element;
    let said = text.trim();
    let value = if entries.is_empty() {
        Value::from(if said.is_empty() { "" } else { said })
    } else {
        if !said.is_empty() {
            entries.insert("#text".to_owned(), said.into());
        }
        Value::Object(entries)
    };
    let Some(parent) = open.last_mut() else {
        if root.is_some() {
            return Err("is XML with two roots".to_owned());
        }
        *root = Some((name, value));
        return Ok(());
    };
    match parent.entries.get_mut(&name) {
        None => drop(parent.entries.insert(name, value)),
        Some(Value::Array(items)) => items.push(value),
        Some(before) => *before = Value::Array(vec![before.take(), value]),
    }
    Ok(())
}
