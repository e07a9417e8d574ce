//! `Diagnostic`: one problem of a file, for people and for programs.

use std::fmt::Write as _;

use serde::Serialize;

use super::Excerpt;

/// How bad a problem is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The file can't be used.
    Error,
    /// The file can be used, and probably does not do what was meant.
    Warning,
}

/// Whether a text for people is coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colour {
    /// Plain text.
    Never,
    /// ANSI escapes.
    Always,
}

/// One problem, with its place in the operator's own text. As JSON it is what `check --format json` prints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    /// The file's name, as the operator wrote it or relative to the file that includes it.
    pub file: String,
    /// From 1.
    pub line: u32,
    /// In characters, from 1: where the value starts, or its key where the key is what is wrong.
    pub column: u32,
    /// Such as `agent.capabilities[2].route.upstream`; empty for the file as a whole.
    pub path: String,
    /// Whether the file can be used nevertheless.
    pub severity: Severity,
    /// What is wrong, in one sentence without a full stop.
    pub message: String,
    /// What to write instead.
    pub suggestion: Option<String>,
    /// The line of the file, for people only.
    #[serde(skip)]
    pub excerpt: Option<Excerpt>,
}

impl Diagnostic {
    /// An error of a file as a whole, such as one that is not there.
    pub fn of_file(file: &str, message: String) -> Self {
        Self {
            file: file.to_owned(),
            line: 1,
            column: 1,
            path: String::new(),
            severity: Severity::Error,
            message,
            suggestion: None,
            excerpt: None,
        }
    }

    /// `FILE:LINE:COL: error: message`, then the path, the line with a marker under the value, and `help:`.
    /// Ends with a line feed.
    pub fn render(&self, colour: Colour) -> String {
        let paint = |code: &str, text: &str| match colour {
            Colour::Never => text.to_owned(),
            Colour::Always => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
        };
        let (severity, code) = match self.severity {
            Severity::Error => ("error", RED),
            Severity::Warning => ("warning", YELLOW),
        };
        let place = format!("{}:{}:{}:", self.file, self.line, self.column);
        let mut text = format!(
            "{} {} {}\n",
            paint(BOLD, &place),
            paint(code, &format!("{severity}:")),
            paint(BOLD, &self.message)
        );
        let number = self.line.to_string();
        let margin = " ".repeat(number.len());
        if !self.path.is_empty() {
            let _ = writeln!(text, " {margin} {} {}", paint(BLUE, "in"), self.path);
        }
        if let Some(excerpt) = &self.excerpt {
            let bar = paint(BLUE, "|");
            let marker = paint(code, &"^".repeat(excerpt.width.max(1)));
            let _ = writeln!(text, " {} {bar} {}", paint(BLUE, &number), excerpt.text);
            let _ = writeln!(text, " {margin} {bar} {}{marker}", " ".repeat(excerpt.indent));
        }
        if let Some(suggestion) = &self.suggestion {
            let _ = writeln!(text, " {margin} {} {suggestion}", paint(GREEN, "help:"));
        }
        text
    }
}

const BOLD: &str = "1";
const RED: &str = "1;31";
const GREEN: &str = "1;32";
const YELLOW: &str = "1;33";
const BLUE: &str = "34";

#[cfg(test)]
mod tests {
    use super::*;

    fn unknown_upstream() -> Diagnostic {
        Diagnostic {
            file: "gateway.yaml".into(),
            line: 12,
            column: 19,
            path: "agent.upstream".into(),
            severity: Severity::Error,
            message: "there is no upstream `wether`".into(),
            suggestion: Some("did you mean `weather`?".into()),
            excerpt: Some(Excerpt { text: "agent: {upstream: wether}".into(), indent: 18, width: 6 }),
        }
    }

    #[test]
    fn people_see_place_path_line_marker_and_help() {
        let expected = "\
gateway.yaml:12:19: error: there is no upstream `wether`
    in agent.upstream
 12 | agent: {upstream: wether}
    |                   ^^^^^^
    help: did you mean `weather`?
";
        assert_eq!(unknown_upstream().render(Colour::Never), expected);
    }

    #[test]
    fn colour_changes_nothing_but_the_escapes() {
        let coloured = unknown_upstream().render(Colour::Always);
        let plain = regex::Regex::new("\u{1b}\\[[0-9;]*m").unwrap().replace_all(&coloured, "").into_owned();
        assert_ne!(coloured, plain);
        assert_eq!(plain, unknown_upstream().render(Colour::Never));
    }

    #[test]
    fn programs_get_the_seven_fields() {
        let expected = serde_json::json!({
            "file": "gateway.yaml", "line": 12, "column": 19, "path": "agent.upstream", "severity": "error",
            "message": "there is no upstream `wether`", "suggestion": "did you mean `weather`?",
        });
        assert_eq!(serde_json::to_value(unknown_upstream()).unwrap(), expected);
    }
}
