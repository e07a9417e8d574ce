//! `Access`: what an operator says of callers, as every request is judged by it.

use super::api_key::ApiKeys;
use super::pattern::Pattern;
use super::principal::Caller;
use super::rate::Rate;
use super::right::{Grant, Right};
use super::settings::{Limits, Settings};

/// Groups of an agent: their set is one word.
pub const GROUPS_MAX: usize = 64;

/// The groups that a caller is in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Groups(u64);

impl Groups {
    fn with(self, index: usize) -> Self {
        Self(self.0 | 1_u64.checked_shl(index as u32).unwrap_or(0))
    }

    fn has(self, index: usize) -> bool {
        self.0.checked_shr(index as u32).unwrap_or(0) & 1 == 1
    }

    /// Whether it is in none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// Where a caller stands with an agent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Standing {
    /// `deny` names it.
    pub denied: bool,
    /// Those that it matches, else the default one.
    pub groups: Groups,
}

/// Whether a request may be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Yes.
    Allowed,
    /// Not for anonymous callers.
    NeedsCredential,
    /// Not for this caller.
    Forbidden,
    /// Nothing is, for this caller.
    Denied,
}

/// `access:` of one agent.
#[derive(Debug)]
pub struct Access {
    /// The keys that callers may show.
    pub api_keys: ApiKeys,
    deny: Vec<Pattern>,
    groups: Vec<Group>,
    default: Option<usize>,
    restricts: bool,
}

#[derive(Debug)]
struct Group {
    name: Box<str>,
    members: Vec<Pattern>,
    grants: Vec<Grant>,
    limits: Limits,
}

/// A rate that a request counts against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota<'a> {
    /// The group, or the group and what it uses.
    pub name: (&'a str, Option<&'a str>),
    /// How often.
    pub rate: Rate,
}

impl Access {
    /// Takes what an operator wrote.
    pub fn new(settings: &Settings) -> Self {
        let mut groups: Vec<Group> = Vec::new();
        let index_of = |name: &str, groups: &mut Vec<Group>| {
            groups.iter().position(|group| *group.name == *name).unwrap_or_else(|| {
                groups.push(Group {
                    name: name.into(),
                    members: Vec::new(),
                    grants: Vec::new(),
                    limits: Limits::default(),
                });
                groups.len() - 1
            })
        };
        for (name, members) in &settings.groups {
            let index = index_of(name, &mut groups);
            if let Some(group) = groups.get_mut(index) {
                group.members.clone_from(members);
            }
        }
        let default = settings.default.as_deref().map(|name| index_of(name, &mut groups));
        for (name, grants) in &settings.tools {
            let index = index_of(name, &mut groups);
            if let Some(group) = groups.get_mut(index) {
                group.grants.clone_from(grants);
            }
        }
        for (name, limits) in &settings.rate {
            let index = index_of(name, &mut groups);
            if let Some(group) = groups.get_mut(index) {
                group.limits = limits.clone();
            }
        }
        Self {
            api_keys: ApiKeys::new(settings.api_keys.clone()),
            deny: settings.deny.clone(),
            groups,
            default,
            restricts: settings.restricts(),
        }
    }

    /// Whether `tools` is the whole list of what may be used.
    pub fn restricts(&self) -> bool {
        self.restricts || self.default.is_none()
    }

    /// Where a caller stands; `None` is anonymous.
    pub fn standing(&self, caller: Option<&Caller>) -> Standing {
        let is = |pattern: &Pattern| caller.is_some_and(|caller| caller.principals().any(|name| pattern.matches(name)));
        let mut groups = Groups::default();
        for (index, group) in self.groups.iter().enumerate() {
            if group.members.iter().any(is) {
                groups = groups.with(index);
            }
        }
        if groups.is_empty()
            && let Some(default) = self.default
        {
            groups = groups.with(default);
        }
        Standing { denied: self.deny.iter().any(is), groups }
    }

    /// Whether a caller of these groups may use something. The outbound tool is judged by who names it alone.
    pub fn may(&self, groups: Groups, right: Right<'_>) -> bool {
        let gives = |group: &Group| group.grants.iter().any(|grant| grant.gives(right));
        match right {
            _ if groups.is_empty() => false,
            Right::Rest => self.of(groups).any(gives),
            _ => !self.restricts || self.of(groups).any(gives),
        }
    }

    /// Judges a request.
    pub fn judge(&self, standing: Standing, verified: bool, right: Right<'_>) -> Verdict {
        match () {
            () if standing.denied => Verdict::Denied,
            () if self.may(standing.groups, right) => Verdict::Allowed,
            () if verified => Verdict::Forbidden,
            () => Verdict::NeedsCredential,
        }
    }

    /// The rates that a request counts against: of the caller's groups the most generous one, and one for what it uses
    /// where a group of the caller has some, the most generous again.
    pub fn quotas(&self, groups: Groups, right: Right<'_>) -> impl Iterator<Item = Quota<'_>> {
        let mut general: Option<Quota<'_>> = None;
        let mut special: Option<Quota<'_>> = None;
        for group in self.of(groups) {
            let widest = |known: Option<Quota<'_>>, rate: Rate| known.is_none_or(|known| rate.is_above(known.rate));
            if let Some(rate) = group.limits.rate.filter(|rate| widest(general, *rate)) {
                general = Some(Quota { name: (&group.name, None), rate });
            }
            let of_use = group.limits.tools.iter().filter(|(grant, _)| grant.gives(right));
            for (grant, rate) in of_use {
                if widest(special, *rate) {
                    special = Some(Quota { name: (&group.name, Some(grant.as_str())), rate: *rate });
                }
            }
        }
        general.into_iter().chain(special)
    }

    /// How many requests of one caller may run at a time.
    pub fn running_max(&self, groups: Groups) -> Option<u64> {
        self.of(groups).filter_map(|group| group.limits.running).max()
    }

    fn of(&self, groups: Groups) -> impl Iterator<Item = &Group> {
        self.groups.iter().enumerate().filter(move |(index, _)| groups.has(*index)).map(|(_, group)| group)
    }
}

#[cfg(test)]
mod tests;
