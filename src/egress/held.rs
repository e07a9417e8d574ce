//! `Held`: the credentials that this process holds, and whether a text would give one away.

use aho_corasick::{AhoCorasick, AhoCorasickBuilder, BuildError};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD_NO_PAD;

use super::refused::{Code, Refused};
use super::views;
use crate::yaml::Secret;

/// Parts of the name of an environment variable that holds a credential.
const NAME_PARTS: [&str; 10] =
    ["KEY", "SECRET", "TOKEN", "PASSWORD", "PASSWD", "CREDENTIAL", "PRIVATE", "AUTH", "SESSION", "COOKIE"];

/// Characters of a value that is taken for a credential because of its variable's name.
const VARIABLE_MIN: usize = 16;

/// Characters of a credential that is known to be one. A shorter one stands in any text by chance.
const CREDENTIAL_MIN: usize = 8;

/// Credentials that are searched for, the first in the order of their names.
const CREDENTIALS_MAX: usize = 4096;

/// The credentials that this process holds, in the order of their names.
#[derive(Debug)]
pub struct Held {
    names: Vec<Box<str>>,
    /// As they are, in either case: a host's name arrives in lower case.
    plain: Patterns,
    base64: Patterns,
    hex: Patterns,
}

/// What to look for, and which credential each is a form of.
#[derive(Debug)]
struct Patterns {
    automaton: AhoCorasick,
    owner: Vec<usize>,
}

/// One credential and how it is called where it is refused.
#[derive(Debug, Clone)]
pub struct Credential {
    /// The variable, or the key of gateway.yaml.
    pub name: String,
    /// Its value.
    pub value: Secret,
}

impl Credential {
    /// What an environment variable holds, if its name and its value look like a credential's.
    pub fn of_variable(name: &str, value: &str) -> Option<Self> {
        let upper = name.to_uppercase();
        let named = NAME_PARTS.iter().any(|part| upper.contains(part));
        let long = value.chars().count() >= VARIABLE_MIN && !value.bytes().all(|byte| byte.is_ascii_digit());
        let place = ["http://", "https://", "/"].iter().any(|start| value.starts_with(start));
        (named && long && !place).then(|| Self { name: name.to_owned(), value: Secret::new(value) })
    }

    /// What is written where a credential belongs. The parts of `Bearer …` and the like are credentials too.
    pub fn of_setting(name: &str, value: &Secret) -> Vec<Self> {
        let text = value.expose();
        let parts = text.split_whitespace().filter(|part| *part != text);
        let worth = |text: &str| {
            let digits = text.bytes().all(|byte| byte.is_ascii_digit());
            text.chars().count() >= if digits { VARIABLE_MIN } else { CREDENTIAL_MIN }
        };
        let all = std::iter::once(text).chain(parts).filter(|text| worth(text));
        all.map(|text| Self { name: name.to_owned(), value: Secret::new(text) }).collect()
    }
}

impl Held {
    /// Prepares the search, in whatever order the credentials are given.
    pub fn new(mut credentials: Vec<Credential>) -> Result<Self, BuildError> {
        credentials.sort_by(|one, other| one.name.cmp(&other.name));
        credentials.truncate(CREDENTIALS_MAX);
        let (mut plain, mut base64, mut hex) = (Vec::new(), Vec::new(), Vec::new());
        for (owner, credential) in credentials.iter().enumerate() {
            let value = credential.value.expose().as_bytes();
            plain.push((owner, value.to_vec()));
            plain.push((owner, value.iter().rev().copied().collect()));
            // A form writes a space as a plus.
            plain.push((owner, value.iter().map(|byte| if *byte == b' ' { b'+' } else { *byte }).collect()));
            let hexadecimal = hex_of(value);
            let encoded = base64_of(value);
            // What was encoded twice.
            hex.extend(encoded.iter().map(|inner| (owner, hex_of(inner))));
            base64.extend(encoded.iter().flat_map(|inner| base64_of(inner)).map(|outer| (owner, outer)));
            let upper = hexadecimal.to_ascii_uppercase();
            base64.extend(
                [&hexadecimal, &upper].into_iter().flat_map(|inner| base64_of(inner)).map(|outer| (owner, outer)),
            );
            hex.push((owner, hexadecimal));
            base64.extend(encoded.into_iter().map(|encoded| (owner, encoded)));
        }
        Ok(Self {
            names: credentials.into_iter().map(|credential| credential.name.into()).collect(),
            plain: Patterns::new(plain, true)?,
            base64: Patterns::new(base64, false)?,
            hex: Patterns::new(hex, false)?,
        })
    }

    /// Refuses texts that hold a credential, as it is or encoded. The name is told, never the value.
    pub fn check<'t>(&self, texts: impl IntoIterator<Item = &'t [u8]>) -> Result<(), Refused> {
        let found = texts.into_iter().filter_map(|text| self.first_in(text)).min();
        let Some(name) = found.and_then(|owner| self.names.get(owner)) else { return Ok(()) };
        let message =
            format!("The request contains the value of {name}, a credential this program holds, so it was not sent.");
        Err(Refused::new(Code::CredentialInRequest, message))
    }

    fn first_in(&self, text: &[u8]) -> Option<usize> {
        if self.names.is_empty() {
            return None;
        }
        let mut first = None;
        let mut note = |found: Option<usize>| first = [first, found].into_iter().flatten().min();
        views::decoded(text, &mut |view| {
            note(self.plain.first_in(view));
            note(self.base64.first_in(&views::base64(view)));
            note(self.hex.first_in(&views::hexadecimal(view)));
        });
        first
    }
}

impl Patterns {
    fn new(patterns: Vec<(usize, Vec<u8>)>, any_case: bool) -> Result<Self, BuildError> {
        let (owner, texts): (Vec<usize>, Vec<Vec<u8>>) = patterns.into_iter().unzip();
        let automaton = AhoCorasickBuilder::new().ascii_case_insensitive(any_case).build(texts)?;
        Ok(Self { automaton, owner })
    }

    fn first_in(&self, text: &[u8]) -> Option<usize> {
        let found = self.automaton.find_overlapping_iter(text);
        found.filter_map(|found| self.owner.get(found.pattern().as_usize()).copied()).min()
    }
}

/// What a text becomes inside of a longer one that is encoded in base64: one form for each of the three ways in which it
/// may lie across the groups of three bytes, without the digits that its neighbours share.
fn base64_of(text: &[u8]) -> Vec<Vec<u8>> {
    let aligned = |offset: usize| {
        let padded: Vec<u8> = std::iter::repeat_n(0, offset).chain(text.iter().copied()).collect();
        let encoded = BASE64_STANDARD_NO_PAD.encode(&padded);
        let start = (offset * 8).div_ceil(6);
        let end = padded.len() * 8 / 6;
        encoded.as_bytes().get(start..end).map(<[u8]>::to_vec)
    };
    (0..3).filter_map(aligned).collect()
}

fn hex_of(text: &[u8]) -> Vec<u8> {
    let digits = |byte: &u8| [byte >> 4, byte & 15].map(|digit| char::from_digit(u32::from(digit), 16));
    text.iter().flat_map(digits).flatten().map(|digit| digit as u8).collect()
}

#[cfg(test)]
mod tests;
