//! `Schema`: one JSON Schema (2020-12), compiled when it is first needed.

use std::sync::{Arc, OnceLock};

use jsonschema::error::{TypeKind, ValidationErrorKind as Kind};
use jsonschema::{Draft, PatternOptions, ReferencingError, Retrieve, Uri, ValidationError, Validator};
use serde_json::Value;

use super::{Part, VIOLATIONS_MAX, Violation, cost};

/// Steps that finding all violations may take. Each costs memory, and a megabyte of `[1,1,1,…]` can break its schema
/// half a million times.
const EXPLAINED_STEPS_MAX: usize = 20_000;

/// Steps back that one match of a pattern with look-around may take; patterns without are linear.
const BACKTRACKS_MAX: usize = 10_000;

/// Bytes of a compiled pattern.
const PATTERN_BYTES_MAX: usize = 1 << 20;

/// Bytes of a text out of a schema or a path that an answer shows.
const SHOWN_BYTES_MAX: usize = 200;

/// A schema and, once it was needed, its validator.
#[derive(Debug)]
pub(super) struct Schema {
    source: Arc<Value>,
    compiled: OnceLock<Result<Validator, String>>,
}

impl Schema {
    pub(super) fn new(source: Arc<Value>) -> Self {
        Self { source, compiled: OnceLock::new() }
    }

    /// As it is written.
    pub(super) fn source(&self) -> &Value {
        &self.source
    }

    /// The validator, or what is wrong with the schema. Nothing is fetched: a `$ref` leads only within the schema.
    pub(super) fn compile(&self) -> Result<&Validator, &str> {
        let compiled = self.compiled.get_or_init(|| {
            let options = jsonschema::options().with_draft(Draft::Draft202012).with_retriever(Nothing);
            let linear = PatternOptions::regex().size_limit(PATTERN_BYTES_MAX);
            let stepping = PatternOptions::fancy_regex().size_limit(PATTERN_BYTES_MAX).backtrack_limit(BACKTRACKS_MAX);
            let linear = options.clone().with_pattern_options(linear).build(&self.source);
            let built = linear.or_else(|_| options.with_pattern_options(stepping).build(&self.source));
            built.map_err(|error| match (error.kind(), error.instance_path().as_str()) {
                (Kind::Referencing(ReferencingError::Unretrievable { uri, source }), _) => format!("`{uri}` {source}"),
                (Kind::Referencing(problem), _) => problem.to_string(),
                (_, path) => format!("`{path}` {}", demand(&error)),
            })
        });
        compiled.as_ref().map_err(String::as_str)
    }

    /// What is wrong with a value: nothing, or at most [`VIOLATIONS_MAX`] violations with JSON Pointers.
    pub(super) fn check(&self, value: &Value, location: Part) -> Result<Vec<Violation>, &str> {
        let validator = self.compile()?;
        if validator.is_valid(value) {
            return Ok(Vec::new());
        }
        if cost::is_within(&self.source, value, EXPLAINED_STEPS_MAX) {
            let errors = validator.iter_errors(value).take(VIOLATIONS_MAX);
            return Ok(errors.map(|error| violation(&error, location)).collect());
        }
        Ok(vec![Violation {
            location,
            path: String::new(),
            keyword: "schema".to_owned(),
            message: "does not fit its schema, and is too large to say where; send a smaller part of it to find out"
                .to_owned(),
        }])
    }
}

/// What is fetched for a schema.
struct Nothing;

impl Retrieve for Nothing {
    fn retrieve(&self, _: &Uri<String>) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        Err("lies outside the schema, and nothing is fetched for it; put it under `$defs`".into())
    }
}

fn violation(error: &ValidationError<'_>, location: Part) -> Violation {
    Violation {
        location,
        path: clip(error.instance_path().as_str()),
        keyword: error.kind().keyword().to_owned(),
        message: demand(error),
    }
}

/// What is demanded of the value, in words that go after its name. Nothing of the input is shown but names of
/// properties.
fn demand(error: &ValidationError<'_>) -> String {
    match error.kind() {
        Kind::Type { kind: TypeKind::Single(kind) } => format!("must be {}", with_article(&kind.to_string())),
        Kind::Type { kind: TypeKind::Multiple(kinds) } => {
            let kinds: Vec<_> = kinds.iter().map(|kind| with_article(&kind.to_string())).collect();
            format!("must be {}", kinds.join(" or "))
        }
        Kind::Required { property: Value::String(property) } => format!("needs the property `{}`", clip(property)),
        Kind::Required { property } => format!("needs the property {}", code(property)),
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            format!("has properties that are not taken: {}; remove them", names(unexpected))
        }
        Kind::Enum { options } => match options.as_array().map(Vec::as_slice) {
            Some(options) => format!("must be one of {}", values(options)),
            None => "must be one of the listed values".to_owned(),
        },
        Kind::Constant { expected_value } => format!("must be {}", code(expected_value)),
        Kind::Minimum { limit } => format!("must be at least {limit}"),
        Kind::Maximum { limit } => format!("must be at most {limit}"),
        Kind::ExclusiveMinimum { limit } => format!("must be more than {limit}"),
        Kind::ExclusiveMaximum { limit } => format!("must be less than {limit}"),
        Kind::MultipleOf { multiple_of } => format!("must be a multiple of {multiple_of}"),
        Kind::MinLength { limit } => format!("must have at least {limit} characters"),
        Kind::MaxLength { limit } => format!("must have at most {limit} characters"),
        Kind::MinItems { limit } => format!("must have at least {limit} items"),
        Kind::MaxItems { limit } => format!("must have at most {limit} items"),
        Kind::AdditionalItems { limit } => format!("must have at most {limit} items"),
        Kind::UnevaluatedItems { .. } => "has items that are not taken; remove them".to_owned(),
        Kind::MinProperties { limit } => format!("must have at least {limit} properties"),
        Kind::MaxProperties { limit } => format!("must have at most {limit} properties"),
        Kind::UniqueItems => "must not hold the same item twice".to_owned(),
        Kind::Contains => "must hold more or fewer items of the kind that `contains` describes".to_owned(),
        Kind::Pattern { pattern } => format!("must match the pattern `{}`", clip(pattern)),
        Kind::Format { format } => format!("must be in the format `{}`", clip(format)),
        Kind::PropertyNames { error } => format!("has a property whose name is not taken: a name {}", demand(error)),
        Kind::FalseSchema => "must not be there".to_owned(),
        Kind::Not { .. } => "must not fit the schema under `not`".to_owned(),
        Kind::OneOfMultipleValid { .. } => "fits several of its alternatives, and must fit exactly one".to_owned(),
        Kind::AnyOf { context } | Kind::OneOfNotValid { context } => {
            alternatives(context, error.instance_path().as_str())
        }
        Kind::BacktrackLimitExceeded { .. } | Kind::RegexEngineFailure { .. } => {
            "can't be held against its pattern; a shorter value may help".to_owned()
        }
        _ => format!("breaks `{}`", clip(error.kind().keyword())),
    }
}

/// The branch with the fewest faults is most likely the one that was meant. One for another type of value comes last.
fn alternatives(branches: &[Vec<ValidationError<'static>>], here: &str) -> String {
    let is_other_type = |error: &ValidationError<'_>| {
        matches!(error.kind(), Kind::Type { .. }) && error.instance_path().as_str() == here
    };
    let faults = |branch: &&Vec<ValidationError<'static>>| (branch.iter().any(is_other_type), branch.len());
    let closest = branches.iter().filter(|branch| !branch.is_empty()).min_by_key(faults);
    let count = branches.len();
    match closest.and_then(|branch| branch.first()) {
        // One level: a recursive schema would go on for as long as the input does.
        Some(error) if !matches!(error.kind(), Kind::AnyOf { .. } | Kind::OneOfNotValid { .. }) => {
            let path = error.instance_path().as_str();
            let place = if path == here { "it".to_owned() } else { format!("`{}`", clip(path)) };
            format!("fits none of its {count} alternatives; for the closest one {place} {}", demand(error))
        }
        _ => format!("fits none of its {count} alternatives"),
    }
}

fn with_article(kind: &str) -> String {
    match kind {
        "null" => kind.to_owned(),
        "array" | "integer" | "object" => format!("an {kind}"),
        _ => format!("a {kind}"),
    }
}

fn names(names: &[String]) -> String {
    list(names.iter().map(|name| format!("`{}`", clip(name))))
}

fn values(values: &[Value]) -> String {
    list(values.iter().map(code))
}

/// The first few, and how many there are beyond them.
fn list(shown: impl ExactSizeIterator<Item = String>) -> String {
    const SHOWN: usize = 10;
    let more = shown.len().saturating_sub(SHOWN);
    let text = shown.take(SHOWN).collect::<Vec<_>>().join(", ");
    if more == 0 { text } else { format!("{text} and {more} more") }
}

fn code(value: &Value) -> String {
    format!("`{}`", clip(&value.to_string()))
}

fn clip(text: &str) -> String {
    let end = text.floor_char_boundary(SHOWN_BYTES_MAX);
    match text.split_at_checked(end) {
        Some((shown, rest)) if !rest.is_empty() => format!("{shown}…"),
        _ => text.to_owned(),
    }
}
