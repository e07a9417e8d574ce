//! The signature base (RFC 9421 2.5): the text that is signed, made of what a request says.

use std::collections::HashSet;

use http::HeaderMap;
use sfv::{BareItem, FieldType, InnerList, Item, ListEntry};
use url::Url;

use super::structured::{self, Malformed};

/// How a request was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// Without TLS.
    Http,
    /// With TLS.
    Https,
}

impl Scheme {
    fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}

/// What components are read from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Message<'a> {
    pub(super) method: &'a str,
    pub(super) scheme: Scheme,
    /// Normal.
    pub(super) authority: &'a str,
    pub(super) target: &'a Target,
    pub(super) fields: &'a HeaderMap,
    /// Whether components count that few verifiers know.
    pub(super) rare: bool,
}

/// A request's path and query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    path: String,
    /// Without its `?`.
    query: Option<String>,
}

impl Target {
    /// The spellings that a signer may have signed of what it sent: as it came, and as browsers write it, where that
    /// is another one (dot segments resolved, characters percent-encoded that HTTP should not carry).
    pub(super) fn spellings(path_and_query: &str) -> Vec<Self> {
        let (path, query) = match path_and_query.split_once('?') {
            Some((path, query)) => (path, Some(query.to_owned())),
            None => (path_and_query, None),
        };
        let as_sent = Self { path: if path.is_empty() { "/".to_owned() } else { path.to_owned() }, query };
        let browsers = Some(path_and_query).filter(|_| path.starts_with('/'));
        let browsers = browsers
            .and_then(|target| Url::parse(&format!("https://host.invalid{target}")).ok())
            .filter(|url| url.fragment().is_none())
            .map(|url| Self { path: url.path().to_owned(), query: url.query().map(str::to_owned) })
            .filter(|browsers| *browsers != as_sent);
        std::iter::once(as_sent).chain(browsers).collect()
    }
}

/// `host[:port]` in lower case, without the default port of either scheme: TLS may have been taken off on the way, so
/// that the scheme seen here is not the signer's. `None` for what is no host.
pub fn normal_authority(host: &str) -> Option<String> {
    let host = host.trim_matches([' ', '\t']).to_ascii_lowercase();
    let bare = host.strip_suffix(":443").or_else(|| host.strip_suffix(":80")).unwrap_or(&host);
    let (name, port) = match bare.strip_prefix('[') {
        Some(literal) => {
            let (address, port) = literal.split_once(']')?;
            address.parse::<std::net::Ipv6Addr>().ok()?;
            (None, port.strip_prefix(':').or(if port.is_empty() { None } else { Some("") }))
        }
        None => match bare.split_once(':') {
            Some((name, port)) => (Some(name), Some(port)),
            None => (Some(bare), None),
        },
    };
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    let names_a_host = name.is_none_or(|name| {
        !name.is_empty()
            && !name.starts_with('.')
            && !name.contains("..")
            && name.len() <= 253
            && name.bytes().all(legal)
    });
    let has_a_port =
        port.is_none_or(|port| port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok());
    (names_a_host && has_a_port).then(|| bare.to_owned())
}

/// The base of a member of `Signature-Input`. Refused are components that the request has not, that come twice, and
/// that are none of a request.
pub(super) fn signature_base(input: &InnerList, message: &Message<'_>) -> Result<String, Malformed> {
    let mut seen = HashSet::new();
    let mut base = String::new();
    for item in &input.items {
        let identifier = structured::serialize_item(item);
        base.extend([&identifier, ": ", &value(item, message)?, "\n"]);
        if !seen.insert(identifier) {
            return Err(Malformed);
        }
    }
    base.extend(["\"@signature-params\": ", &parameters(input)?]);
    Ok(base)
}

/// The last line of a base, which is the member of `Signature-Input` itself in its canonical form.
pub(super) fn parameters(input: &InnerList) -> Result<String, Malformed> {
    vec![ListEntry::InnerList(input.clone())].serialize().ok_or(Malformed)
}

/// The name of a component.
pub(super) fn name(item: &Item) -> Option<&str> {
    match &item.bare_item {
        BareItem::String(name) => Some(name.as_str()),
        _ => None,
    }
}

/// A parameter of a component that is a string.
pub(super) fn text_parameter<'i>(item: &'i Item, key: &str) -> Option<&'i str> {
    item.params.get(key).and_then(BareItem::as_string).map(sfv::StringRef::as_str)
}

fn value(item: &Item, message: &Message<'_>) -> Result<String, Malformed> {
    let name = name(item).ok_or(Malformed)?;
    let value = match name.strip_prefix('@') {
        Some(derived) => derived_component(derived, item, message)?,
        None => field_component(name, item, message.fields)?,
    };
    let printable = value.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    if printable { Ok(value) } else { Err(Malformed) }
}

/// RFC 9421 2.2.
fn derived_component(name: &str, item: &Item, message: &Message<'_>) -> Result<String, Malformed> {
    let Target { path, query } = message.target;
    let with_query = || query.as_ref().map_or_else(|| path.clone(), |query| format!("{path}?{query}"));
    if name == "query-param" && message.rare && item.params.len() == 1 {
        let wanted = text_parameter(item, "name").ok_or(Malformed)?;
        return query_parameter(query.as_deref().unwrap_or_default(), wanted);
    }
    if !item.params.is_empty() {
        return Err(Malformed);
    }
    match name {
        "method" => Ok(message.method.to_owned()),
        "authority" => Ok(message.authority.to_owned()),
        "scheme" => Ok(message.scheme.as_str().to_owned()),
        "path" => Ok(path.clone()),
        "query" => Ok(format!("?{}", query.as_deref().unwrap_or_default())),
        "target-uri" => Ok(format!("{}://{}{}", message.scheme.as_str(), message.authority, with_query())),
        "request-target" if message.rare => Ok(with_query()),
        _ => Err(Malformed),
    }
}

/// RFC 9421 2.2.8: the one parameter of this name, its name and its value encoded again.
fn query_parameter(query: &str, wanted: &str) -> Result<String, Malformed> {
    let encode = |text: &str| percent_encoding::utf8_percent_encode(text, &QUERY_PARAMETER).to_string();
    let mut found = url::form_urlencoded::parse(query.as_bytes()).filter(|(name, _)| encode(name) == wanted);
    match (found.next(), found.next()) {
        (Some((_, value)), None) => Ok(encode(&value)),
        _ => Err(Malformed),
    }
}

/// The percent-encode set of application/x-www-form-urlencoded, but for the space, which is `%20` here.
const QUERY_PARAMETER: percent_encoding::AsciiSet =
    percent_encoding::NON_ALPHANUMERIC.remove(b'*').remove(b'-').remove(b'.').remove(b'_');

/// RFC 9421 2.1: all lines of a field, or with `key` one member of a dictionary (2.1.2).
fn field_component(name: &str, item: &Item, fields: &HeaderMap) -> Result<String, Malformed> {
    if name.is_empty() || name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Err(Malformed);
    }
    let field = structured::field(fields, name)?.ok_or(Malformed)?;
    if item.params.is_empty() {
        return Ok(field);
    }
    let key = text_parameter(item, "key").filter(|_| item.params.len() == 1).ok_or(Malformed)?;
    match structured::dictionary(&field)?.get(key).ok_or(Malformed)? {
        ListEntry::Item(member) => Ok(structured::serialize_item(member)),
        ListEntry::InnerList(member) => parameters(member),
    }
}

#[cfg(test)]
mod tests;
