//! What an operation answers.

use std::sync::Arc;

use serde_json::Value;

use super::body::{is_json, media_type};
use super::lower::Side;
use super::survey::Survey;
use crate::yaml::{Kind, Node};

/// Statuses whose answer is the operation's, the first that has one.
const STATUSES: [&str; 6] = ["200", "201", "202", "203", "206", "207"];

/// Media types of an answer that are listed.
const FORMATS_MAX: usize = 12;

/// The schema of what an operation answers, and the media types.
pub(super) fn read<'d>(survey: &Survey<'d>, operation: Node<'d>) -> (Option<Arc<Value>>, Vec<String>) {
    let responses = operation.get("responses").filter(|it| it.kind() == Kind::Mapping);
    let all: Vec<(String, Node<'d>)> = responses
        .into_iter()
        .flat_map(Node::children)
        .filter_map(|it| Some((it.key()?.to_ascii_uppercase(), it)))
        .collect();
    let succeeds = |status: &str| {
        status == "2XX"
            || status.len() == 3 && status.starts_with('2') && status.bytes().all(|byte| byte.is_ascii_digit())
    };
    let mut successes: Vec<_> = all.iter().filter(|(status, _)| succeeds(status)).collect();
    let rank = |status: &str| {
        STATUSES.iter().position(|known| *known == status).unwrap_or(if status == "2XX" { 100 } else { 50 })
    };
    successes.sort_by_key(|(status, _)| rank(status));
    if successes.is_empty() {
        successes = all.iter().filter(|(status, _)| status == "DEFAULT").collect();
        if successes.is_empty() {
            survey.info(
                "no_success_response",
                operation,
                "nothing says what it answers".to_owned(),
                "describe a 2xx answer",
            );
        }
    }
    let mut formats: Vec<String> = Vec::new();
    let (mut json, mut other) = (None, None);
    for (_, written) in successes {
        let response = match survey.bundle.follow(*written) {
            Ok(response) => response,
            Err(reason) => {
                survey.broken_ref(*written, &reason);
                continue;
            }
        };
        for (format, schema) in contents(survey, operation, response) {
            let place = if is_json(&format) { &mut json } else { &mut other };
            *place = place.or(schema);
            if !formats.contains(&format) && formats.len() < FORMATS_MAX {
                formats.push(format);
            }
        }
    }
    let schema = json.or(other).filter(|_| survey.options.output_bytes > 0);
    (schema.map(|schema| survey.schema(schema, Side::Output)), formats)
}

/// Media types of one answer, each with its schema.
fn contents<'d>(survey: &Survey<'d>, operation: Node<'d>, response: Node<'d>) -> Vec<(String, Option<Node<'d>>)> {
    if survey.is_swagger2() {
        let Some(schema) = response.get("schema") else { return Vec::new() };
        let produces = operation.get("produces").or(survey.root.get("produces"));
        let produces = produces.into_iter().flat_map(Node::children).filter_map(Node::as_text).filter_map(media_type);
        let mut formats: Vec<_> = produces.map(|format| (format, Some(schema))).collect();
        let is_file = schema.get("type").and_then(Node::as_text) == Some("file");
        if formats.is_empty() && !is_file {
            formats.push(("application/json".to_owned(), Some(schema)));
        }
        return formats;
    }
    let content = response.get("content").into_iter().flat_map(Node::children);
    content.filter_map(|it| Some((media_type(it.key()?)?, it.get("schema")))).collect()
}
