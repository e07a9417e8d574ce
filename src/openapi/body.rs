//! The body of a request: which media type, and what it holds.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::bundle::clipped;
use super::lower::Side;
use super::parameter::{IN_QUERY, Parameters, written_form};
use super::survey::Survey;
use super::{Body, Form, SendAs, text};
use crate::yaml::{Kind, Node};

const JSON: &str = "application/json";
const FORM: &str = "application/x-www-form-urlencoded";
const MULTIPART: &str = "multipart/form-data";

/// Media types of one body that are listed.
const LISTED_MAX: usize = 12;

/// What is there to choose from: a media type and, in OpenAPI 3, what is said of it.
type Choice<'d> = (String, Option<Node<'d>>);

/// Reads what an operation takes as its body.
pub(super) fn read<'d>(survey: &Survey<'d>, operation: Node<'d>, parameters: &Parameters<'d>) -> Option<Body> {
    if survey.is_swagger2() {
        return of_swagger2(survey, operation, parameters);
    }
    let written = operation.get("requestBody")?;
    let body = match survey.bundle.follow(written) {
        Ok(body) => body,
        Err(reason) => {
            survey.broken_ref(written, &reason);
            return None;
        }
    };
    let content = body.get("content").into_iter().flat_map(Node::children);
    let choices: Vec<Choice<'d>> = content.filter_map(|it| Some((media_type(it.key()?)?, Some(it)))).collect();
    let Some((chosen, media)) = choose(&choices) else {
        survey.warn("no_schema_for_body", body, "the body has no media type".to_owned(), "name one under `content`");
        return None;
    };
    let required = body.get("required").is_some_and(|it| it.kind() == Kind::Bool(true));
    let schema = media.and_then(|media| media.get("schema"));
    let schema = schema.map(|schema| survey.schema(schema, Side::Input));
    if schema.is_none() {
        let message = format!("nothing says what a body of `{}` holds", clipped(&chosen));
        survey.warn("no_schema_for_body", media.unwrap_or(body), message, "give it a `schema`; any body is taken");
    }
    let encoding = media.and_then(|media| media.get("encoding")).into_iter().flat_map(Node::children);
    let encoding = encoding.filter_map(|it| Some((it.key()?.to_owned(), written_form(survey, it, "form", &IN_QUERY))));
    let encoding = encoding.filter(|(_, form)| *form != Form::default()).collect();
    Some(made(chosen, &choices, schema, encoding, required))
}

fn of_swagger2<'d>(survey: &Survey<'d>, operation: Node<'d>, parameters: &Parameters<'d>) -> Option<Body> {
    let consumes = operation.get("consumes").or(survey.root.get("consumes"));
    let consumes = consumes.into_iter().flat_map(Node::children).filter_map(Node::as_text);
    let mut choices: Vec<Choice<'d>> = consumes.filter_map(|it| Some((media_type(it)?, None))).collect();
    if let Some(body) = parameters.body {
        if let Some(field) = parameters.fields.first() {
            let message = "a body and form fields can't both be sent".to_owned();
            survey.warn("bad_parameter", *field, message, "take one of them out; the body is taken");
        }
        choices.retain(|(name, _)| !matches!(essence(name).as_str(), FORM | MULTIPART));
        if choices.is_empty() {
            choices.push((JSON.to_owned(), None));
        }
        let (chosen, _) = choose(&choices)?;
        let required = body.get("required").is_some_and(|it| it.kind() == Kind::Bool(true));
        let schema = body.get("schema").map(|schema| survey.schema(schema, Side::Input));
        if schema.is_none() {
            survey.warn(
                "no_schema_for_body",
                body,
                "nothing says what the body holds".to_owned(),
                "give it a `schema`; any body is taken",
            );
        }
        return Some(made(chosen, &choices, schema, Vec::new(), required));
    }
    if parameters.fields.is_empty() {
        return None;
    }
    let is_file = |field: &Node<'_>| field.get("type").and_then(Node::as_text) == Some("file");
    let multipart = parameters.fields.iter().any(is_file)
        || choices.iter().any(|(name, _)| essence(name) == MULTIPART)
            && !choices.iter().any(|(name, _)| essence(name) == FORM);
    let (mut properties, mut required, mut encoding) = (Map::new(), Vec::new(), Vec::new());
    for field in &parameters.fields {
        let name = field.get("name").and_then(Node::as_text).unwrap_or_default().to_owned();
        let mut schema = survey.parameter_schema(*field);
        if let (Value::Object(schema), Some(description)) =
            (&mut schema, field.get("description").and_then(Node::as_text).and_then(text::description))
        {
            schema.insert("description".to_owned(), description.into());
        }
        if field.get("required").is_some_and(|it| it.kind() == Kind::Bool(true)) {
            required.push(Value::String(name.clone()));
        }
        let is_array = schema.get("type").is_some_and(|kind| kind == "array");
        let form = if is_array { written_form(survey, *field, "form", &IN_QUERY) } else { Form::default() };
        if form != Form::default() {
            encoding.push((name.clone(), form));
        }
        properties.insert(name, schema);
    }
    let must = !required.is_empty();
    let mut schema = json!({"type": "object", "properties": properties});
    if let (Value::Object(schema), true) = (&mut schema, must) {
        schema.insert("required".to_owned(), required.into());
    }
    let chosen = if multipart { MULTIPART } else { FORM };
    Some(made(chosen.to_owned(), &[], Some(Arc::new(schema)), encoding, must))
}

fn made(
    chosen: String,
    choices: &[Choice<'_>],
    schema: Option<Arc<Value>>,
    encoding: Vec<(String, Form)>,
    required: bool,
) -> Body {
    let send_as = match essence(&chosen).as_str() {
        FORM => SendAs::Form,
        MULTIPART => SendAs::Multipart,
        _ => SendAs::AsIs,
    };
    let mut content_types = vec![chosen];
    if send_as != SendAs::AsIs {
        content_types.push(JSON.to_owned());
    }
    for (name, _) in choices {
        if !content_types.contains(name) && content_types.len() < LISTED_MAX {
            content_types.push(name.clone());
        }
    }
    let schema = if send_as == SendAs::Multipart { schema.map(files_described) } else { schema };
    Body { schema, content_types, send_as, encoding, required }
}

/// Says of every field that is a file that it is one.
fn files_described(schema: Arc<Value>) -> Arc<Value> {
    let mut schema = schema;
    let value = Arc::make_mut(&mut schema);
    for property in value.get_mut("properties").and_then(Value::as_object_mut).into_iter().flat_map(Map::values_mut) {
        let is_file = property.get("format").is_some_and(|format| format == "binary");
        if let (Value::Object(property), true) = (property, is_file) {
            property.entry("description").or_insert_with(|| "A file.".into());
        }
    }
    schema
}

/// The media type that is sent: what an agent writes most easily.
fn choose<'d>(choices: &[Choice<'d>]) -> Option<Choice<'d>> {
    choices.iter().min_by_key(|(name, _)| rank(&essence(name))).cloned()
}

fn rank(essence: &str) -> u8 {
    match essence {
        JSON => 0,
        json if is_json(json) => 1,
        FORM => 2,
        MULTIPART => 3,
        xml if xml.ends_with("/xml") || xml.ends_with("+xml") => 4,
        text if text.starts_with("text/") => 5,
        "application/octet-stream" => 6,
        "*/*" => 8,
        _ => 7,
    }
}

/// Whether a media type is JSON, its parameters aside.
pub(super) fn is_json(media_type: &str) -> bool {
    let essence = essence(media_type);
    essence == JSON || essence == "text/json" || essence.ends_with("+json")
}

/// A media type as it may be listed; `None` if it is none.
pub(super) fn media_type(text: &str) -> Option<String> {
    let text = text.trim();
    let legal = |byte: u8| byte == b' ' || byte.is_ascii_graphic();
    (text.len() <= 200 && text.contains('/') && text.bytes().all(legal)).then(|| text.to_owned())
}

pub(super) fn essence(media_type: &str) -> String {
    media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}
