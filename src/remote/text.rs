//! Texts of strangers: bounded, and without what a terminal or a log would obey.

use serde_json::{Map, Value};

/// Characters of a name or a title, and of a description.
pub(super) const NAME_MAX: usize = 200;
pub(super) const DESCRIPTION_MAX: usize = 4_000;

/// Texts of a list.
const LIST_MAX: usize = 32;

/// The first of these keys that holds a text which says something.
pub(super) fn first<'v>(object: &'v Map<String, Value>, keys: &[&str]) -> Option<&'v str> {
    keys.iter().find_map(|key| object.get(*key).and_then(Value::as_str).filter(|text| !text.trim().is_empty()))
}

/// The same as a line.
pub(super) fn line(object: &Map<String, Value>, keys: &[&str]) -> Option<String> {
    first(object, keys).map(|text| shown(text, NAME_MAX, false)).filter(|text| !text.is_empty())
}

/// The same as a text of several lines.
pub(super) fn prose(object: &Map<String, Value>, keys: &[&str]) -> Option<String> {
    first(object, keys).map(|text| shown(text, DESCRIPTION_MAX, true)).filter(|text| !text.is_empty())
}

/// A text or a number, as a version is written.
pub(super) fn scalar(object: &Map<String, Value>, keys: &[&str]) -> Option<String> {
    line(object, keys).or_else(|| keys.iter().find_map(|key| object.get(*key)?.as_number().map(ToString::to_string)))
}

/// A text without control characters, no longer than this.
pub(super) fn shown(text: &str, characters: usize, lines: bool) -> String {
    let legal = |character: &char| !character.is_control() || (lines && *character == '\n');
    let mut shown: String = text.trim().chars().filter(legal).take(characters).collect();
    if text.trim().chars().filter(legal).nth(characters).is_some() {
        shown.pop();
        shown.push('…');
    }
    shown
}

/// A list of media types.
pub(super) fn media_types(value: Option<&Value>) -> Vec<String> {
    let texts = value.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let legal = |text: &&str| text.contains('/') && text.len() <= NAME_MAX && http::HeaderValue::from_str(text).is_ok();
    texts.filter(legal).take(LIST_MAX).map(str::to_owned).collect()
}
