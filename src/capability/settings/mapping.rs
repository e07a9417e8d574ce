//! What is written of a mapping: `transform`, `receive_as`, `errors`.

use http::StatusCode;
use regex::Regex;
use serde_json::{Value, json};

use super::super::jq::Jq;
use crate::restap::ErrorCode;
use crate::yaml::{Fields, Mismatch, Problem, Slot, Value as _};

/// Bytes of a compiled pattern.
const PATTERN_BYTES_MAX: usize = 1 << 20;

/// `transform:` of a route.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Transform {
    /// Of the request's JSON, or of null where there is no body.
    pub request: Option<Jq>,
    /// Of the JSON of a 2xx answer.
    pub response: Option<Jq>,
}

/// How an answer is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReceiveAs {
    /// As its `Content-Type` says.
    Auto,
    /// JSON, also with a guard or a function call around it.
    Json,
    /// XML, made JSON.
    Xml,
    /// CSV with names in its first line, made JSON.
    Csv,
    /// A form, made JSON.
    Form,
    /// Text, made UTF-8.
    Text,
    /// Bytes that pass.
    Binary,
}

/// One entry of `errors:`.
#[derive(Debug, Clone, PartialEq)]
pub struct ErrorRule {
    /// Which answers.
    pub when: Condition,
    /// The status that they get, 400 and above.
    pub status: StatusCode,
    /// The code; the one that fits the status unless set.
    pub code: Option<ErrorCode>,
    /// The sentence.
    pub message: Option<Message>,
}

/// What an answer must be for a rule to apply; all that is set must hold.
#[derive(Debug, Clone, Default)]
pub struct Condition {
    /// Its status.
    pub status: Option<StatusCode>,
    /// A JSON Pointer into its body.
    pub pointer: Option<String>,
    /// What stands there.
    pub equals: Option<Value>,
    /// What the text there matches.
    pub matches: Option<Regex>,
    /// Whether anything stands there.
    pub exists: Option<bool>,
}

/// The sentence of an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// A JSON Pointer to it.
    At(String),
    /// Itself.
    Text(String),
}

impl PartialEq for Condition {
    fn eq(&self, other: &Self) -> bool {
        let pattern = |condition: &Self| condition.matches.as_ref().map(|pattern| pattern.as_str().to_owned());
        (self.status, &self.pointer, &self.equals, self.exists, pattern(self))
            == (other.status, &other.pointer, &other.equals, other.exists, pattern(other))
    }
}

impl Transform {
    pub(super) fn take(slot: Slot<'_, '_>) -> Option<Self> {
        slot.section("transform", |fields| {
            let doc = "jq: `.` is the JSON body; $path, $query and $headers are the request's.";
            let request = fields.with("request", doc, program);
            let doc = "jq over the JSON of a 2xx answer; also $status and $response_headers.";
            let response = fields.with("response", doc, program);
            Some(Self { request, response })
        })
    }
}

fn program(slot: Slot<'_, '_>) -> Option<Jq> {
    slot.parsed("a mapping in jq such as .data", None)
}

impl ReceiveAs {
    pub(super) fn take(slot: Slot<'_, '_>) -> Option<Self> {
        slot.word(&[
            ("auto", Self::Auto),
            ("json", Self::Json),
            ("xml", Self::Xml),
            ("csv", Self::Csv),
            ("form", Self::Form),
            ("text", Self::Text),
            ("binary", Self::Binary),
        ])
    }
}

impl ErrorRule {
    pub(super) fn take(slot: Slot<'_, '_>) -> Option<Self> {
        slot.section("error_rule", |fields| {
            let when = fields.required_with("when", "Which answers are errors; all that is written must hold.", when);
            let status = fields.required_with("status", "The status that the caller gets, 400 to 599.", |slot| {
                slot.integer(400_u16..=599).and_then(|status| StatusCode::from_u16(status).ok())
            });
            let doc = "The code that the caller gets; the one that fits the status unless written.";
            let code = fields.with("code", doc, |slot| {
                let words: Vec<_> = ErrorCode::ALL.iter().map(|code| (code.as_str(), *code)).collect();
                slot.word(&words)
            });
            let doc = "A JSON Pointer to the sentence in the answer, such as /error, or the sentence itself.";
            let message = fields.optional::<String>("message", doc).map(|message| match message.strip_prefix('/') {
                Some(_) => Message::At(message),
                None => Message::Text(message),
            });
            Some(Self { when: when?, status: status?, code, message })
        })
    }
}

fn when(slot: Slot<'_, '_>) -> Option<Condition> {
    slot.section("error_condition", |fields| {
        let status = fields.with("status", "The answer's status.", |slot| {
            slot.integer(200_u16..=599).and_then(|status| StatusCode::from_u16(status).ok())
        });
        let pointer = fields.with("pointer", "A JSON Pointer into the answer, such as /ok.", pointer);
        let equals = fields
            .with("equals", "The value that stands there.", |slot| slot.value(json!({}), |node| Ok(node.to_json())));
        let matches = fields.with("matches", "A regular expression that the text there matches.", |slot| {
            slot.value(json!({"type": "string"}), |node| {
                let text = node.as_text().ok_or_else(|| Mismatch::found(node, "a regular expression"))?;
                let built = regex::RegexBuilder::new(text).size_limit(PATTERN_BYTES_MAX).build();
                built.map_err(|_| Mismatch::found(node, "a regular expression"))
            })
        });
        let exists = fields.with("exists", "Whether anything stands there.", bool::take);
        if pointer.is_none() && fields.get("pointer").is_none() {
            fields.useless(&["equals", "matches", "exists"], "there is no `pointer` to what it is about");
            if let Some(node) = fields.node().filter(|_| fields.get("status").is_none()) {
                let problem = Problem::error(node, "every answer would be an error").at_key();
                fields.problem(problem.help("write `status`, or `pointer` with `equals`, `matches` or `exists`"));
            }
        }
        Some(Condition { status, pointer, equals, matches, exists })
    })
}

fn pointer(slot: Slot<'_, '_>) -> Option<String> {
    slot.value(json!({"type": "string"}), |node| match node.as_text() {
        Some(text) if text.is_empty() || text.starts_with('/') => Ok(text.to_owned()),
        _ => Err(Mismatch::found(node, "a JSON Pointer such as /ok")),
    })
}

/// Reports what keys of a route do nothing beside each other.
pub(super) fn fits(fields: &Fields<'_, '_>, receive_as: Option<ReceiveAs>, raw: bool) {
    let written = |name: &str| fields.get("transform").and_then(|transform| transform.get(name));
    if let Some(node) = written("response").filter(|_| receive_as == Some(ReceiveAs::Binary)) {
        fields.problem(Problem::error(node, "`response` does nothing here: bytes pass as they are").at_key());
    }
    if let Some(node) = written("request").filter(|_| raw) {
        fields.problem(Problem::error(node, "`request` does nothing here: raw bodies are not looked at").at_key());
    }
}
