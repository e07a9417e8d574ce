//! `Report`: what became of every operation, and every place where a document is odd.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use super::bundle::clipped;

/// Notes that are kept; more are counted.
const NOTES_MAX: usize = 20_000;

/// Places of one code that are shown to people who did not ask for all.
const PLACES_SHOWN: usize = 3;

/// How much a note matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Nothing is lost.
    Info,
    /// Something is weaker or other than the document says.
    Warning,
    /// Something is lost.
    Error,
}

/// One place where a document is odd.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Note {
    /// Such as `broken_ref`; docs/import.md lists them.
    pub code: &'static str,
    /// How much it matters.
    pub severity: Severity,
    /// The document.
    pub file: String,
    /// A JSON pointer into it.
    pub pointer: String,
    /// From 1.
    pub line: u32,
    /// What is odd, in a sentence without a full stop.
    pub message: String,
    /// What to do about it.
    pub fix: String,
    /// `METHOD path` of the operation that was read when it was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
}

/// What became of one operation of the document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// As in the document, upper case.
    pub method: String,
    /// As in the document.
    pub path: String,
    /// The document that it stands in.
    pub file: String,
    /// A JSON pointer into it.
    pub pointer: String,
    /// From 1.
    pub line: u32,
    /// The id that it got; `None` if it was skipped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Why it was skipped: a code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped: Option<&'static str>,
    /// Why, as a sentence.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// What to do to have it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub fix: String,
}

/// What became of every operation, and what is odd.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Report {
    /// In the order of the document.
    pub operations: Vec<Outcome>,
    /// In the order in which they were found.
    pub notes: Vec<Note>,
    /// Notes that are not among `notes`.
    pub more_notes: usize,
}

impl Report {
    pub(super) fn add(&mut self, note: Note) {
        if self.notes.len() < NOTES_MAX {
            self.notes.push(note);
        } else {
            self.more_notes += 1;
        }
    }

    /// Operations that were taken.
    pub fn taken(&self) -> usize {
        self.operations.iter().filter(|outcome| outcome.id.is_some()).count()
    }

    /// Whether something was lost.
    pub fn has_errors(&self) -> bool {
        self.notes.iter().any(|note| note.severity == Severity::Error)
    }

    /// Makes an operation that was taken one that was skipped.
    pub fn skip(&mut self, id: &str, code: &'static str, reason: String, fix: &str) {
        if let Some(outcome) = self.operations.iter_mut().find(|outcome| outcome.id.as_deref() == Some(id)) {
            outcome.id = None;
            outcome.skipped = Some(code);
            outcome.reason = reason;
            fix.clone_into(&mut outcome.fix);
        }
    }

    /// For people: a line for every operation, then what is odd, by code.
    pub fn render(&self, all: bool) -> String {
        let mut text = String::new();
        let width =
            self.operations.iter().map(|outcome| clipped(&outcome.path).chars().count()).max().unwrap_or(0).min(60);
        for outcome in &self.operations {
            let Outcome { method, file, line, pointer, reason, fix, .. } = outcome;
            let path = clipped(&outcome.path);
            let _ = match (&outcome.id, outcome.skipped) {
                (Some(id), _) => writeln!(text, "  taken    {method:<7} {path:<width$}  {id}"),
                (None, code) => writeln!(
                    text,
                    "  skipped  {method:<7} {path:<width$}  {}: {reason}; {fix} ({file}:{line} {})",
                    code.unwrap_or("skipped"),
                    clipped(pointer),
                ),
            };
        }
        for (code, notes) in self.by_code() {
            let Some(first) = notes.first() else { continue };
            let severity = match first.severity {
                Severity::Info => "note",
                Severity::Warning => "warning",
                Severity::Error => "error",
            };
            let _ = writeln!(text, "{severity}: {code}, {} times: {}", notes.len(), first.fix);
            let shown = if all { notes.len() } else { PLACES_SHOWN };
            for note in notes.iter().take(shown) {
                let _ = writeln!(text, "  {}:{} {}: {}", note.file, note.line, clipped(&note.pointer), note.message);
            }
            if notes.len() > shown {
                let _ = writeln!(text, "  … and {} more; -v lists them", notes.len() - shown);
            }
        }
        if self.more_notes > 0 {
            let _ = writeln!(text, "… and {} more notes than are kept", self.more_notes);
        }
        text
    }

    /// Numbers for people: found, taken, and skipped for which reasons.
    pub fn summary(&self) -> String {
        let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
        for outcome in self.operations.iter().filter(|outcome| outcome.id.is_none()) {
            *reasons.entry(outcome.skipped.unwrap_or("skipped")).or_default() += 1;
        }
        let skipped = self.operations.len() - self.taken();
        let mut text = format!("{} operations: {} taken, {skipped} skipped", self.operations.len(), self.taken());
        if !reasons.is_empty() {
            let reasons: Vec<_> = reasons.iter().map(|(code, count)| format!("{code} {count}")).collect();
            let _ = write!(text, " ({})", reasons.join(", "));
        }
        text
    }

    fn by_code(&self) -> BTreeMap<&'static str, Vec<&Note>> {
        let mut by_code: BTreeMap<&'static str, Vec<&Note>> = BTreeMap::new();
        for note in &self.notes {
            by_code.entry(note.code).or_default().push(note);
        }
        by_code
    }
}
