//! A report for people and for programs.

use std::fmt::Write as _;
use std::io::IsTerminal;

use serde_json::{Value, json};

use super::super::agent::printable;
use crate::probe::{Entry, Outcome, Report, TEXT};

/// Where the text is that servers are held against.
const TEXT_URL: &str = "https://github.com/nxt3d/restap";

pub(super) fn for_programs(base: &str, report: &Report, strict: bool) -> String {
    let rules: Vec<Value> = report.entries().map(|entry| of(&entry)).collect();
    let counts: serde_json::Map<String, Value> =
        OUTCOMES.iter().map(|(outcome, ..)| (outcome.word().to_owned(), report.count(*outcome).into())).collect();
    let whole = json!({"base": base, "text": TEXT, "passed": report.passed(strict), "counts": counts, "rules": rules});
    format!("{whole}\n")
}

fn of(entry: &Entry<'_>) -> Value {
    let rule = entry.rule;
    let mut value = json!({
        "rule": rule.id, "level": rule.level.word(), "section": rule.section, "says": rule.says,
        "outcome": entry.outcome.word(),
    });
    if let Some(members) = value.as_object_mut() {
        match entry.outcome {
            Outcome::Held => {}
            Outcome::Broken | Outcome::Warning => {
                members.insert("found".to_owned(), entry.why.into());
                members.insert("mend".to_owned(), rule.mend.into());
            }
            Outcome::Skipped | Outcome::NotOffered => {
                members.insert("why".to_owned(), entry.why.into());
            }
        }
    }
    value
}

/// Each with the word and the colour that people see.
const OUTCOMES: [(Outcome, &str, &str); 5] = [
    (Outcome::Held, "held", "32"),
    (Outcome::Broken, "broken", "31"),
    (Outcome::Warning, "warning", "33"),
    (Outcome::Skipped, "skipped", "2"),
    (Outcome::NotOffered, "not offered", "2"),
];

pub(super) fn for_people(base: &str, report: &Report, strict: bool) -> String {
    let colour = std::io::stdout().is_terminal();
    let mut text = format!("{base} held against {TEXT} ({TEXT_URL})\n\n");
    for entry in report.entries() {
        let (_, word, paint) = shown(entry.outcome);
        let word = format!("{word:<11}");
        let word = if colour { format!("\u{1b}[{paint}m{word}\u{1b}[0m") } else { word };
        let _ = writeln!(text, "{word} {:<6} {:<24} {}", entry.rule.level.word(), entry.rule.id, entry.rule.says);
        let why = printable(entry.why);
        let _ = match entry.outcome {
            Outcome::Held => Ok(()),
            Outcome::Skipped | Outcome::NotOffered => writeln!(text, "{:>43} {why}", ""),
            Outcome::Broken | Outcome::Warning => writeln!(
                text,
                "{:>12}found: {why}\n{:>12}text:  \"{}\"\n{:>12}mend:  {}",
                "", "", entry.rule.section, "", entry.rule.mend
            ),
        };
    }
    let counts: Vec<String> =
        OUTCOMES.iter().map(|(outcome, word, _)| format!("{} {word}", report.count(*outcome))).collect();
    let end = match (report.is_judged(), report.passed(strict)) {
        (false, _) => "nothing was judged: the catalog was not to be had",
        (true, true) => "passed",
        (true, false) => "not passed",
    };
    let _ = writeln!(text, "\n{}: {end}", counts.join(", "));
    text
}

fn shown(outcome: Outcome) -> (Outcome, &'static str, &'static str) {
    OUTCOMES.into_iter().find(|(other, ..)| *other == outcome).unwrap_or((outcome, "", "0"))
}
