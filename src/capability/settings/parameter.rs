//! One entry of `parameters:`.

use crate::restap::catalog::{Location, Parameter, Style};
use crate::yaml::{Fields, JsonSchema, Problem, Slot, Value as _};

const LOCATIONS: [(&str, Location); 4] =
    [("path", Location::Path), ("query", Location::Query), ("header", Location::Header), ("cookie", Location::Cookie)];

/// Reads one; `endpoint` decides where it stands if it does not say so.
pub(super) fn take(slot: Slot<'_, '_>, endpoint: &str) -> Option<Parameter> {
    slot.section("parameter", |fields| {
        let name = fields.required::<String>("name", "As it stands in the request.");
        let in_path = name.as_deref().is_some_and(|name| {
            endpoint.contains(&format!("{{{name}}}")) || endpoint.contains(&format!("{{*{name}}}"))
        });
        let doc = "Where it stands: path if the endpoint has it as {name}, else query, unless written.";
        let location = fields.with("location", doc, |slot| slot.word(&LOCATIONS));
        let location = location.unwrap_or(if in_path { Location::Path } else { Location::Query });
        let kinds = ["string", "number", "integer", "boolean", "array", "object"].map(|kind| (kind, kind));
        let kind = fields.word("type", &kinds, "string", "Its JSON type.");
        let doc = "Whether a call without it is refused; one in the path always is.";
        let required = fields.with("required", doc, bool::take);
        let description = fields.optional("description", "For people and models.");
        let schema = fields
            .optional::<JsonSchema>("schema", "JSON Schema, where it says more than `type`; or {file: path}.")
            .map(super::shared);
        let (style, explode, allow_reserved) = form(fields, location);
        let allow_slash = fields.or("allow_slash", false, "Whether one in the path may hold `/`.");
        if let Some(node) = fields.get("required").filter(|_| location == Location::Path && required == Some(false)) {
            let problem = Problem::error(node, "a parameter in the path is always required");
            fields.problem(problem.help("leave `required` out"));
        }
        if location != Location::Path {
            fields.useless(&["allow_slash"], "only a parameter in the path can hold a slash that is not data");
        }
        Some(Parameter {
            name: name?,
            kind: kind.to_owned(),
            required: required.unwrap_or(location == Location::Path),
            description,
            location,
            schema,
            style,
            explode,
            allow_reserved,
            allow_slash,
        })
    })
}

/// `style`, `explode` and `allow_reserved`.
fn form(fields: &mut Fields<'_, '_>, location: Location) -> (Option<Style>, Option<bool>, bool) {
    let doc = "How the service wants a list or an object written; other forms are then taken too and rewritten.";
    let style = fields.with("style", doc, |slot| slot.word(&STYLES));
    let doc = "Whether each item or property stands by itself; true for form and deepObject unless written.";
    let explode = fields.optional("explode", doc);
    let doc = "Whether reserved characters of one in the query go to the service without being encoded.";
    let allow_reserved = fields.or("allow_reserved", false, doc);
    let fitting: &[Style] = match location {
        Location::Query => &[Style::Form, Style::SpaceDelimited, Style::PipeDelimited, Style::DeepObject, Style::Json],
        Location::Path => &[Style::Simple, Style::Label, Style::Matrix, Style::Json],
        Location::Header => &[Style::Simple, Style::Json],
        Location::Cookie => &[Style::Form, Style::Json],
    };
    if let (Some(node), Some(style)) = (fields.get("style"), style)
        && !fitting.contains(&style)
    {
        let word = |style: &Style| STYLES.iter().find(|(_, known)| known == style).map_or("", |(word, _)| word);
        let words = fitting.iter().map(word).collect::<Vec<_>>().join(", ");
        let place = LOCATIONS.iter().find(|(_, known)| *known == location).map_or("", |(word, _)| word);
        let problem = Problem::error(node, format!("a {place} parameter is not written as `{}`", word(&style)));
        fields.problem(problem.help(format!("the styles of one are {words}")));
    }
    if style == Some(Style::Json) {
        fields.useless(&["explode"], "JSON has no other form");
    }
    if location != Location::Query {
        fields.useless(&["allow_reserved"], "only a query has reserved characters that are data");
    }
    (style, explode, allow_reserved)
}

/// The styles of parameters and of a form's fields.
pub(super) const STYLES: [(&str, Style); 8] = [
    ("form", Style::Form),
    ("spaceDelimited", Style::SpaceDelimited),
    ("pipeDelimited", Style::PipeDelimited),
    ("deepObject", Style::DeepObject),
    ("simple", Style::Simple),
    ("label", Style::Label),
    ("matrix", Style::Matrix),
    ("json", Style::Json),
];
