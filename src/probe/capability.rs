//! The rules of capabilities, as far as calls that change nothing show them.

use serde_json::Value;

use super::report::{Report, Verdict};
use super::rule::{CAPABILITY_OUTPUT, CAPABILITY_REACHED};
use super::seen::{Answer, Got, Reply, Seen, short};

/// Bytes of a schema that answers are held against.
const SCHEMA_BYTES_MAX: usize = 64 << 10;

pub(super) fn judge(seen: &Seen, report: &mut Report) {
    if seen.catalog.value().is_none() {
        return;
    }
    let Some(first) = seen.gets.first() else {
        return report.rest("capability", Verdict::NotOffered("no GET can be called without an input".to_owned()));
    };
    if let Reply::NotAsked(why) = first.reply {
        return report.rest("capability", Verdict::Skipped(why.to_owned()));
    }
    report.hold(&CAPABILITY_REACHED, seen.gets.iter().find_map(unreached));
    let mut judged = seen.gets.iter().filter_map(against_schema).peekable();
    if judged.peek().is_some() {
        report.hold(&CAPABILITY_OUTPUT, judged.find_map(Result::err));
    } else {
        report.note(&CAPABILITY_OUTPUT, Verdict::NotOffered("no schema of an answer that came".to_owned()));
    }
}

fn unreached(got: &Got) -> Option<String> {
    let why = match &got.reply {
        Reply::Failed(why) => why.clone(),
        // What it is that is wanted is not ours to know; that nothing is there is.
        Reply::Came(answer) if matches!(answer.status, 404 | 405 | 500..=502 | 504..) => answer.told(),
        Reply::NotAsked(_) | Reply::Came(_) => return None,
    };
    Some(format!("`{}`: {why}", short(&got.id)))
}

/// Whether an answer breaks its schema; `None` where there is nothing to compare.
fn against_schema(got: &Got) -> Option<Result<(), String>> {
    let schema = got.output_schema.as_ref().filter(|schema| schema.to_string().len() <= SCHEMA_BYTES_MAX)?;
    let answer = got.reply.answer().filter(|answer| answer.is_success() && answer.says_json())?;
    let patterns = jsonschema::PatternOptions::regex();
    let validator = jsonschema::options().with_pattern_options(patterns).build(schema).ok()?;
    Some(differs(answer, &validator).map_or(Ok(()), |what| Err(format!("`{}`: {what}", short(&got.id)))))
}

fn differs(answer: &Answer, validator: &jsonschema::Validator) -> Option<String> {
    let Some(body) = answer.json() else { return Some("the body is not JSON".to_owned()) };
    let place = validator.validate(&body).err()?.instance_path().to_string();
    let kind = match body.pointer(&place) {
        Some(Value::Null) => "null",
        Some(Value::Object(_)) => "the object",
        Some(Value::Array(_)) => "the array",
        _ => "the value",
    };
    let place = if place.is_empty() { "the top".to_owned() } else { short(&place) };
    Some(format!("{kind} at {place} does not fit"))
}
