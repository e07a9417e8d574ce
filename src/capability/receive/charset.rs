//! Bytes as text, whatever charset they are in.

use std::borrow::Cow;

use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};

/// Bytes of an XML document in which its declaration stands.
const DECLARATION_MAX: usize = 128;

/// A byte order mark beats the head, which beats an XML declaration. Where nothing is said it is UTF-8, or else what
/// browsers take in that case. What is not in the charset becomes U+FFFD.
pub(super) fn decode<'b>(bytes: &'b [u8], label: Option<&str>, is_xml: bool) -> Cow<'b, str> {
    let named = label.and_then(|label| Encoding::for_label(label.as_bytes()));
    let named = named.or_else(|| if is_xml { declared(bytes) } else { None });
    let fallback = if std::str::from_utf8(bytes).is_ok() { UTF_8 } else { WINDOWS_1252 };
    // Takes the mark away.
    let (text, ..) = named.unwrap_or(fallback).decode(bytes);
    text
}

/// `encoding` of an XML declaration.
fn declared(bytes: &[u8]) -> Option<&'static Encoding> {
    let head = bytes.get(..DECLARATION_MAX.min(bytes.len()))?;
    let head: String = head.iter().map(|byte| char::from(*byte)).collect();
    let declaration = head.strip_prefix("<?xml")?.split("?>").next()?;
    let (_, rest) = declaration.split_once("encoding")?;
    let quoted = rest.trim_start().strip_prefix('=')?.trim_start();
    let quote = quoted.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
    Encoding::for_label(quoted.get(1..)?.split(quote).next()?.as_bytes())
}
