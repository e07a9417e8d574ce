//! Query strings: the caller's pairs as they came, and those that the operator sets in their place.

use std::borrow::Cow;

use http::{HeaderMap, header};
use percent_encoding::percent_decode_str;

/// The pairs of a query, none of them empty, as they stand in it.
pub(super) fn pairs(query: &str) -> impl Iterator<Item = &str> {
    query.split('&').filter(|pair| !pair.is_empty())
}

/// A pair's decoded name.
pub(super) fn name(pair: &str) -> Cow<'_, str> {
    decode(pair.split_once('=').map_or(pair, |(name, _)| name))
}

/// A pair's decoded value; empty where it has none.
pub(super) fn value(pair: &str) -> Cow<'_, str> {
    decode(pair.split_once('=').map_or("", |(_, value)| value))
}

/// The caller's query without the pairs that are set in their place; byte for byte where there are none.
pub(super) fn without(query: &str, is_set: impl Fn(&str) -> bool) -> Cow<'_, str> {
    let stays = |pair: &&str| !is_set(&name(pair));
    if query.split('&').all(|pair| stays(&pair)) {
        return Cow::Borrowed(query);
    }
    Cow::Owned(query.split('&').filter(stays).collect::<Vec<_>>().join("&"))
}

/// A cookie's value as it came.
pub(super) fn cookie(headers: &HeaderMap, name: &str) -> Option<String> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let cookies = lines.flat_map(|line| line.split(';')).filter_map(|cookie| cookie.trim().split_once('='));
    cookies.into_iter().find_map(|(known, value)| (known == name).then(|| value.to_owned()))
}

/// A query, made if there is none, to which a pair can be appended.
pub(super) fn next_pair(query: &mut Option<String>) -> &mut String {
    let query = query.get_or_insert_default();
    if !query.is_empty() {
        query.push('&');
    }
    query
}

fn decode(text: &str) -> Cow<'_, str> {
    if text.contains('+') {
        let spaced = text.replace('+', " ");
        return Cow::Owned(percent_decode_str(&spaced).decode_utf8_lossy().into_owned());
    }
    percent_decode_str(text).decode_utf8_lossy()
}
