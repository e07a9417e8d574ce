//! `Report`: what became of every rule.

use std::collections::HashMap;

use super::rule::{ALL, Level, Rule};

/// What became of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It holds.
    Held,
    /// It does not, and what was seen.
    Broken(String),
    /// It could not be judged, and why.
    Skipped(String),
    /// The server does not offer what it is about.
    NotOffered(String),
}

/// What a rule counts as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It holds.
    Held,
    /// A MUST that does not.
    Broken,
    /// A SHOULD that does not.
    Warning,
    /// It could not be judged.
    Skipped,
    /// The server does not offer what it is about.
    NotOffered,
}

impl Outcome {
    /// For programs.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Broken => "broken",
            Self::Warning => "warning",
            Self::Skipped => "skipped",
            Self::NotOffered => "not_offered",
        }
    }
}

/// One line of a report.
#[derive(Debug)]
pub struct Entry<'a> {
    /// The rule.
    pub rule: &'static Rule,
    /// What it counts as.
    pub outcome: Outcome,
    /// What was seen, or why it was not judged; empty where it holds.
    pub why: &'a str,
}

/// What became of every rule. A rule that nobody judged is skipped.
#[derive(Debug, Default)]
pub struct Report {
    verdicts: HashMap<&'static str, Verdict>,
    /// Why the rules of a group were not judged: the group's name, and a verdict.
    groups: Vec<(&'static str, Verdict)>,
}

const UNREACHED: &str = "what it is about did not come";

impl Report {
    pub(super) fn note(&mut self, rule: &'static Rule, verdict: Verdict) {
        self.verdicts.insert(rule.id, verdict);
    }

    /// Broken with `found`, or held.
    pub(super) fn hold(&mut self, rule: &'static Rule, found: Option<String>) {
        self.note(rule, found.map_or(Verdict::Held, Verdict::Broken));
    }

    /// What the rules of a group (`talk` of `talk.served`) are that get no verdict of their own.
    pub(super) fn rest(&mut self, group: &'static str, verdict: Verdict) {
        self.groups.push((group, verdict));
    }

    /// Every rule in its order.
    pub fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        ALL.iter().map(|rule| self.entry(rule))
    }

    fn entry(&self, rule: &'static Rule) -> Entry<'_> {
        let group = rule.id.split('.').next().unwrap_or_default();
        let of_group = || self.groups.iter().find(|(name, _)| *name == group).map(|(_, verdict)| verdict);
        let (outcome, why) = match self.verdicts.get(rule.id).or_else(of_group) {
            Some(Verdict::Held) => (Outcome::Held, ""),
            Some(Verdict::Broken(found)) if rule.level == Level::Must => (Outcome::Broken, found.as_str()),
            Some(Verdict::Broken(found)) => (Outcome::Warning, found.as_str()),
            Some(Verdict::Skipped(why)) => (Outcome::Skipped, why.as_str()),
            Some(Verdict::NotOffered(why)) => (Outcome::NotOffered, why.as_str()),
            None => (Outcome::Skipped, UNREACHED),
        };
        Entry { rule, outcome, why }
    }

    /// How many rules ended so.
    pub fn count(&self, outcome: Outcome) -> usize {
        self.entries().filter(|entry| entry.outcome == outcome).count()
    }

    /// Whether the catalog could be judged at all: without it nothing says that there is an agent.
    pub fn is_judged(&self) -> bool {
        !matches!(self.verdicts.get(ALL.first().map_or("", |rule| rule.id)), None | Some(Verdict::Skipped(_)))
    }

    /// Whether nothing that must hold is broken; with `strict` also nothing that should.
    pub fn passed(&self, strict: bool) -> bool {
        let fails = |outcome| outcome == Outcome::Broken || (strict && outcome == Outcome::Warning);
        self.is_judged() && !self.entries().any(|entry| fails(entry.outcome))
    }
}
