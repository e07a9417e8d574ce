//! `errors:`: answers that are errors although their status says otherwise, or that should say it better.

use http::StatusCode;
use serde_json::Value;

use super::super::settings::{ErrorRule, Message};
use super::code_of;

/// Characters of a service's own words.
const MESSAGE_MAX: usize = 500;

impl ErrorRule {
    /// Whether all of its conditions hold.
    pub(super) fn applies(&self, status: StatusCode, body: &Value) -> bool {
        let when = &self.when;
        let found = when.pointer.as_deref().map(|pointer| body.pointer(pointer));
        let value = found.flatten();
        when.status.is_none_or(|wanted| wanted == status)
            && when.exists.is_none_or(|wanted| value.is_some() == wanted)
            && when.equals.as_ref().is_none_or(|wanted| value.is_some_and(|value| is_equal(value, wanted)))
            && when.matches.as_ref().is_none_or(|pattern| value.is_some_and(|value| pattern.is_match(&said(value))))
            && (found.is_none()
                || when.exists.is_some()
                || when.equals.is_some()
                || when.matches.is_some()
                || value.is_some())
    }

    /// The code that it is told with.
    pub(super) fn code(&self) -> &'static str {
        self.code.map_or_else(|| code_of(self.status), crate::restap::ErrorCode::as_str)
    }

    /// The sentence: a text of the rule, or what the answer says at a place.
    pub(super) fn message(&self, body: &Value) -> String {
        let text = match &self.message {
            Some(Message::Text(text)) => text.clone(),
            Some(Message::At(pointer)) => body.pointer(pointer).map(said).unwrap_or_default(),
            None => String::new(),
        };
        if text.trim().is_empty() {
            return "the service behind this agent refused the request".to_owned();
        }
        text.chars().filter(|character| !character.is_control()).take(MESSAGE_MAX).collect()
    }
}

/// Numbers are equal by their value: 1 is 1.0.
fn is_equal(value: &Value, wanted: &Value) -> bool {
    value == wanted
        || value.as_f64().zip(wanted.as_f64()).is_some_and(|(value, wanted)| value.total_cmp(&wanted).is_eq())
}

fn said(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
