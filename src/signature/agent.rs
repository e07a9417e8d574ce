//! `Signature-Agent`: who says to have signed, and where its keys are to be found.

use sfv::{BareItem, Dictionary, Item, ListEntry};
use url::Url;

use super::structured::{self, Malformed};
use super::{DIRECTORY_MEDIA_TYPE, DIRECTORY_PATH, KEY_SET_PATH, Profile};

/// Characters of a value.
const VALUE_MAX: usize = 2048;

/// Where keys are, and whom a signature by one of them speaks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Discovery {
    /// What is fetched: an https URL that a stranger chose. 200 alone counts, no redirect is followed.
    pub url: String,
    /// Whether it is the well-known directory of an origin.
    pub directory: bool,
    /// Who has signed: the URL without the well-known path of its keys, such as `https://caller.example/agents/a`.
    pub principal: String,
}

impl Discovery {
    /// The media type that the answer must have: a directory has its own, elsewhere any is fine.
    pub fn media_type(&self) -> Option<&'static str> {
        self.directory.then_some(DIRECTORY_MEDIA_TYPE)
    }

    /// What a value names; the error says what is wrong with it.
    fn of(value: &str, kind: Kind, profile: Profile) -> Result<Self, Unusable> {
        let url = https(value)?;
        let origin = url.origin().ascii_serialization();
        let strict = profile == Profile::Authenticate || kind != Kind::Untyped;
        if strict {
            canonical(value, &url)?;
        }
        let spelled_alike = value.strip_suffix('/').unwrap_or(value) == origin;
        let bare = url.path() == "/" && url.query().is_none() && (spelled_alike || !strict);
        let key_set = || match url.path().strip_suffix(KEY_SET_PATH) {
            Some(agent) => {
                let principal = format!("{origin}{}", agent.trim_end_matches('/'));
                Ok(Self { url: format!("{origin}{}", url.path()), directory: false, principal })
            }
            None => Err(Unusable::Invalid("a key set's URL ends in /.well-known/jwks.json")),
        };
        let directory = || {
            let url = format!("{origin}{DIRECTORY_PATH}");
            Self { url, directory: true, principal: origin.clone() }
        };
        match kind {
            Kind::Legacy | Kind::Directory | Kind::Untyped if bare => Ok(directory()),
            Kind::Legacy | Kind::Directory => {
                Err(Unusable::Invalid("a directory is named by its origin alone, without a path"))
            }
            Kind::KeySet => key_set(),
            Kind::Untyped if profile == Profile::Authenticate => key_set(),
            // The URL itself is fetched, and is the identity but for its query.
            Kind::Untyped => {
                let mut identity = url.clone();
                identity.set_query(None);
                let identity = identity.as_str();
                let agent = identity.strip_suffix(KEY_SET_PATH).or_else(|| identity.strip_suffix(DIRECTORY_PATH));
                let principal = agent.map_or(identity, |agent| agent.trim_end_matches('/')).to_owned();
                let directory = url.path() == DIRECTORY_PATH && url.query().is_none();
                Ok(Self { url: url.into(), directory, principal })
            }
        }
    }
}

/// How a value is to be understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A lone string.
    Legacy,
    Untyped,
    KeySet,
    Directory,
}

/// Why a `Signature-Agent` can't be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unusable {
    /// What the signature covers is not what the field has.
    NotCovered(&'static str),
    /// The dictionary has no member of this key.
    NoMember,
    /// The member must not be looked at: nobody is named.
    Ignored(&'static str),
    /// The value breaks a rule.
    Invalid(&'static str),
}

/// The field.
#[derive(Debug)]
pub(super) enum SignatureAgent {
    /// One string: what was sent before the field was a dictionary.
    Legacy(String),
    /// A value a label.
    Members(Dictionary),
}

impl SignatureAgent {
    pub(super) fn parse(field: &str) -> Result<Self, Malformed> {
        if field.trim_start().starts_with('"') {
            let item = structured::item(field)?;
            return match item.bare_item {
                BareItem::String(value) if item.params.is_empty() => Ok(Self::Legacy(value.as_str().to_owned())),
                _ => Err(Malformed),
            };
        }
        let members = structured::dictionary(field)?;
        if members.is_empty() { Err(Malformed) } else { Ok(Self::Members(members)) }
    }

    /// What the member names that a signature covers; `key` is the parameter of the covered component, if it has one.
    pub(super) fn discovery(&self, key: Option<&str>, profile: Profile) -> Result<Discovery, Unusable> {
        match (self, key) {
            (Self::Legacy(value), None) => Discovery::of(value, Kind::Legacy, profile),
            (Self::Legacy(_), Some(_)) => {
                Err(Unusable::NotCovered("Signature-Agent is a lone string, which is covered without a key"))
            }
            (Self::Members(_), None) => Err(Unusable::NotCovered(
                "Signature-Agent is a dictionary, of which a signature covers its own member: \"signature-agent\";key=\"LABEL\"",
            )),
            (Self::Members(members), Some(key)) => match members.get(key) {
                None => Err(Unusable::NoMember),
                Some(ListEntry::InnerList(_)) => Err(Unusable::Invalid("the member is a list")),
                Some(ListEntry::Item(item)) => member(item, profile),
            },
        }
    }
}

fn member(item: &Item, profile: Profile) -> Result<Discovery, Unusable> {
    let Some(value) = item.bare_item.as_string() else {
        return Err(Unusable::Invalid("the member is no string"));
    };
    if profile == Profile::Identify && !item.params.is_empty() {
        return Err(Unusable::Ignored("members with parameters are ignored"));
    }
    let mut kind = Kind::Untyped;
    for (key, value) in &item.params {
        kind = match (key.as_str(), value.as_token().map(sfv::TokenRef::as_str)) {
            ("type", Some("jwks_uri")) => Kind::KeySet,
            ("type", Some("directory")) => Kind::Directory,
            ("type", Some(_)) => {
                return Err(Unusable::Invalid("keys are found by type=jwks_uri or type=directory alone"));
            }
            ("type", None) => return Err(Unusable::Invalid("its type is no token")),
            _ => return Err(Unusable::Invalid("it has a parameter that is not known")),
        };
    }
    Discovery::of(value.as_str(), kind, profile)
}

/// An absolute https URL without a user or a fragment.
fn https(value: &str) -> Result<Url, Unusable> {
    if value.is_empty() || value.len() > VALUE_MAX {
        return Err(Unusable::Invalid("the value is empty or longer than 2048 characters"));
    }
    let absolute = value.split_once("://").filter(|(_, rest)| !rest.starts_with(['/', '\\']));
    let Some((scheme, rest)) = absolute else {
        return Err(Unusable::Invalid("the value is no absolute URL"));
    };
    if !scheme.eq_ignore_ascii_case("https") {
        return Err(Unusable::Invalid("the value must be an https URL"));
    }
    let url = Url::parse(value).map_err(|_| Unusable::Invalid("the value is no absolute URL"))?;
    let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err(Unusable::Invalid("the value has a user in it"));
    }
    if value.contains('#') {
        return Err(Unusable::Invalid("the value has a fragment"));
    }
    Ok(url)
}

/// One spelling alone names an agent: no query, no dot or empty segment, the path as everybody writes it.
fn canonical(value: &str, url: &Url) -> Result<(), Unusable> {
    if value.contains('?') {
        return Err(Unusable::Invalid("the value has a query"));
    }
    let rest = value.split_once("://").map_or(value, |(_, rest)| rest);
    let path = rest.find('/').and_then(|at| rest.get(at..)).unwrap_or_default();
    if path.contains("//") || (!path.is_empty() && path != url.path()) {
        return Err(Unusable::Invalid("the path of the value is not in its canonical form"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
