//! Ids of operations: from what the document calls them, else from where they are.

use std::collections::{BTreeMap, HashSet};

use ring::digest::{SHA256, digest};

/// Ids of what every agent has anyway.
const RESERVED: [&str; 3] = ["talk", "news", "news_receive"];

/// Characters of a hash that tells two ids apart, and of one that stands for a name without letters.
const HASH: usize = 8;
const SHORT_HASH: usize = 6;

/// What an id is made of.
#[derive(Debug, Clone)]
pub(super) struct Names<'d> {
    /// As in the document, upper case.
    pub method: String,
    /// As in the document.
    pub path: &'d str,
    pub operation_id: Option<&'d str>,
    pub tag: Option<&'d str>,
    /// What the operator or an earlier import called it.
    pub given: Option<String>,
}

/// Whether an id is legal: words of `a-z0-9_` with dots between.
pub(super) fn is_legal(id: &str) -> bool {
    let word = |word: &str| {
        !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
    };
    id.len() <= 128 && id.split('.').all(word)
}

impl Names<'_> {
    /// The id before others are looked at; whether it had to be cut; and whether it is nothing but a hash.
    pub(super) fn id(&self, service: &str, length: usize) -> (String, bool, bool) {
        if let Some(given) = &self.given {
            return (given.clone(), false, false);
        }
        let (id, fallback) = match self.operation_id.filter(|id| !id.trim().is_empty()) {
            Some(operation_id) => (self.of_operation_id(operation_id), !has_letters(operation_id)),
            None => (self.of_path(), false),
        };
        let id = if RESERVED.contains(&id.as_str()) {
            let before = self.tag.map_or_else(|| slug(service), slug);
            format!("{before}.{id}")
        } else {
            id
        };
        if id.len() <= length {
            return (id, false, fallback);
        }
        (self.with_hash(&id, length), true, fallback)
    }

    /// The id with a hash of method and path behind it.
    pub(super) fn with_hash(&self, id: &str, length: usize) -> String {
        let room = length.saturating_sub(HASH + 1);
        let head = id.get(..id.floor_char_boundary(room)).unwrap_or_default().trim_end_matches(['_', '.']);
        format!("{head}_{}", hash(&format!("{} {}", self.method, self.path), HASH))
    }

    fn of_operation_id(&self, operation_id: &str) -> String {
        let pieces: Vec<String> =
            operation_id.split(['.', '/', ':', '#']).filter(|piece| !piece.trim().is_empty()).map(slug).collect();
        match (pieces.as_slice(), self.tag) {
            ([segment], Some(tag)) => {
                let tag = slug(tag);
                let rest = [tag.as_str(), singular(&tag)]
                    .iter()
                    .find_map(|tag| segment.strip_prefix(&format!("{tag}_")).map(str::to_owned));
                format!("{tag}.{}", rest.filter(|rest| !rest.is_empty()).unwrap_or_else(|| segment.clone()))
            }
            ([], _) => slug(operation_id),
            (pieces, _) => pieces.join("."),
        }
    }

    fn of_path(&self) -> String {
        let path = self.path.split(['?', '#']).next().unwrap_or_default();
        let segments = path.split('/').filter(|segment| !segment.is_empty()).map(|segment| {
            match segment.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
                Some(name) if !name.contains(['{', '}']) => format!("by_{}", slug(name)),
                _ => {
                    let with_names = segment.replace('{', " by ").replace('}', " ");
                    slug(&with_names)
                }
            }
        });
        let method = self.method.to_ascii_lowercase();
        let behind = self.path.split_once(['?', '#']).map(|(_, rest)| rest).filter(|rest| has_letters(rest)).map(slug);
        segments.chain(behind).chain([method]).collect::<Vec<_>>().join(".")
    }
}

/// Gives every operation an id of its own, whatever their order. Gives the numbers of those whose id another one has.
pub(super) fn distinct(names: &[Names<'_>], ids: &mut [String], length: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..names.len().min(ids.len())).collect();
    // An id that was given stays with whom it was given to.
    order.sort_by_key(|number| names.get(*number).map(|it| (it.given.is_none(), it.path, it.method.clone())));
    let mut taken = HashSet::new();
    let mut changed = Vec::new();
    // Clients for which a dot is no character of a name write `_` for it.
    let key = |id: &str| id.replace('.', "_");
    for number in order {
        let (Some(it), Some(id)) = (names.get(number), ids.get_mut(number)) else { continue };
        if !taken.insert(key(id)) {
            *id = it.with_hash(id, length);
            let mut count = 2;
            while !taken.insert(key(id)) {
                let tail = format!("_{count}");
                let room = id.floor_char_boundary(length.saturating_sub(tail.len()));
                id.truncate(room);
                id.push_str(&tail);
                count += 1;
            }
            changed.push(number);
        }
    }
    changed
}

/// Words of lower-case letters and digits with `_` between: `getHTTPResponse2` is `get_http_response2`.
pub(super) fn slug(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    let characters: Vec<char> = text.chars().collect();
    let mut pending = false;
    for (at, &c) in characters.iter().enumerate() {
        if !c.is_ascii_alphanumeric() {
            pending = true;
            continue;
        }
        let before = at.checked_sub(1).and_then(|at| characters.get(at)).copied().unwrap_or(' ');
        let after = characters.get(at + 1).copied().unwrap_or(' ');
        let begins = c.is_ascii_uppercase()
            && (before.is_ascii_lowercase()
                || before.is_ascii_digit()
                || before.is_ascii_uppercase() && after.is_ascii_lowercase());
        if (pending || begins) && !out.is_empty() {
            out.push('_');
        }
        pending = false;
        out.push(c.to_ascii_lowercase());
    }
    if out.is_empty() { format!("x{}", hash(text, SHORT_HASH)) } else { out }
}

/// Words for people: `getHTTPResponse` is `Get http response`.
pub(super) fn words(text: &str) -> Option<String> {
    let text = has_letters(text).then(|| slug(text).replace('_', " "))?;
    let mut characters = text.chars();
    let first = characters.next()?;
    Some(first.to_uppercase().chain(characters).collect())
}

fn has_letters(text: &str) -> bool {
    text.bytes().any(|byte| byte.is_ascii_alphanumeric())
}

fn singular(tag: &str) -> &str {
    tag.strip_suffix('s').unwrap_or(tag)
}

fn hash(text: &str, characters: usize) -> String {
    let digest = digest(&SHA256, text.as_bytes());
    let nibbles = digest.as_ref().iter().flat_map(|byte| [byte >> 4, byte & 15]);
    nibbles.take(characters).filter_map(|nibble| char::from_digit(u32::from(nibble), 16)).collect()
}

/// The operations by `METHOD path`, for who asks for their earlier ids.
pub(super) fn given<'m>(known: &'m BTreeMap<String, String>, method: &str, path: &str) -> Option<&'m String> {
    known.get(&format!("{method} {path}")).filter(|id| is_legal(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names<'d>(operation_id: Option<&'d str>, tag: Option<&'d str>, path: &'d str) -> Names<'d> {
        Names { method: "GET".into(), path, operation_id, tag, given: None }
    }

    fn id(operation_id: &str, tag: Option<&str>) -> String {
        names(Some(operation_id), tag, "/x").id("petstore", 64).0
    }

    #[test]
    fn an_operation_is_called_by_its_tag_and_what_it_does() {
        assert_eq!(id("findPetsByStatus", Some("pet")), "pet.find_pets_by_status");
        assert_eq!(id("ContainerInspect", Some("Container")), "container.inspect");
        assert_eq!(id("user_list", Some("Users")), "users.list");
        assert_eq!(id("repos/get", Some("repos")), "repos.get");
        assert_eq!(id("getHTTPResponse2", None), "get_http_response2");
        assert_eq!(id("news", None), "petstore.news");
        assert_eq!(id("talk", Some("chat")), "chat.talk");
        assert_eq!(id("x\r\nInjected: 1", None), "x_injected.1");
        assert!(id("取引照会", None).starts_with('x'));
    }

    #[test]
    fn without_a_name_it_is_called_by_where_it_is() {
        assert_eq!(names(None, None, "/stacks/{id}/items").id("a", 64).0, "stacks.by_id.items.get");
        assert_eq!(names(None, None, "/a/{Sid}.json").id("a", 64).0, "a.by_sid_json.get");
        assert_eq!(names(None, None, "/").id("a", 64).0, "get");
    }

    #[test]
    fn a_long_id_ends_with_a_hash_that_nothing_else_changes() {
        let long = "listConfirmedSubscriptionPaymentMethodAuthorizationRequestsForOrganizationMembers";
        let (id, cut, _) = names(Some(long), Some("administration"), "/x").id("a", 64);
        assert!(cut && id.len() == 64 && is_legal(&id), "{id}");
        assert!(id.ends_with(&hash("GET /x", 8)));
    }

    #[test]
    fn of_two_with_one_id_the_first_in_order_of_paths_keeps_it() {
        let both = [names(Some("x"), None, "/b"), names(Some("x"), None, "/a")];
        let mut ids: Vec<_> = both.iter().map(|it| it.id("a", 64).0).collect();
        assert_eq!(distinct(&both, &mut ids, 64), [0]);
        assert_eq!(ids[1], "x");
        assert_eq!(ids[0], format!("x_{}", hash("GET /b", 8)));
    }
}
