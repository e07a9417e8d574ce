//! Path, query and header inputs of an operation.

use serde_json::Value;

use super::bundle::clipped;
use super::credential::{Credential, Scheme, is_key_like, is_token};
use super::lower::Side;
use super::path::Place;
use super::survey::Survey;
use super::{Form, Parameter, text};
use crate::restap::catalog::Location;
use crate::yaml::{Kind, Node};

/// Parameters of one operation.
const PARAMETERS_MAX: usize = 500;

/// Bytes of the schema of one parameter.
const SCHEMA_BYTES: usize = 4 << 10;

/// Characters of a parameter's description.
const DESCRIPTION_MAX: usize = 300;

/// Headers that are not inputs: OpenAPI says that the first three are ignored, the others belong to the connection.
const NOT_INPUTS: [&str; 12] = [
    "accept",
    "content-type",
    "authorization",
    "host",
    "connection",
    "content-length",
    "transfer-encoding",
    "te",
    "trailer",
    "upgrade",
    "cookie",
    "expect",
];

/// The inputs of an operation that are no body, and what was found among them that is none.
#[derive(Debug, Default)]
pub(super) struct Parameters<'d> {
    pub list: Vec<Parameter>,
    /// Those that are hidden, and set on the upstream instead.
    pub credentials: Vec<Credential>,
    /// `in: body` of Swagger 2.0.
    pub body: Option<Node<'d>>,
    /// `in: formData` of Swagger 2.0.
    pub fields: Vec<Node<'d>>,
    /// Fixed by the document: required, and with one value.
    pub fixed: Vec<(String, String)>,
}

/// Reads the parameters of a path and of an operation; the latter win.
pub(super) fn read<'d>(
    survey: &Survey<'d>,
    of_path: Option<Node<'d>>,
    of_operation: Node<'d>,
    place: &Place,
) -> Parameters<'d> {
    let mut nodes: Vec<(String, &'d str, Node<'d>)> = Vec::new();
    for list in [of_path.and_then(|it| it.get("parameters")), of_operation.get("parameters")].into_iter().flatten() {
        if list.kind() != Kind::List {
            survey.warn("bad_parameter", list, "`parameters` is no list".to_owned(), "make it one; it is left out");
        }
        for written in list.children() {
            let node = match survey.bundle.follow(written) {
                Ok(node) => node,
                Err(reason) => {
                    survey.broken_ref(written, &reason);
                    continue;
                }
            };
            let (name, location) = (node.get("name").and_then(Node::as_text), node.get("in").and_then(Node::as_text));
            let (Some(name), Some(location)) = (name, location) else {
                let message = "a parameter has no `name` or no `in`".to_owned();
                survey.warn("bad_parameter", written, message, "add them; it is left out");
                continue;
            };
            let key = if location == "header" { name.to_ascii_lowercase() } else { name.to_owned() };
            let known = nodes.iter().position(|(known, at, _)| *known == key && *at == location);
            let room = nodes.len() < PARAMETERS_MAX;
            match known.and_then(|position| nodes.get_mut(position)) {
                Some(known) => known.2 = node,
                None if room => nodes.push((key, location, node)),
                None => survey.warn(
                    "bad_parameter",
                    written,
                    format!("more than {PARAMETERS_MAX} parameters"),
                    "the rest is left out",
                ),
            }
        }
    }
    let mut parameters = Parameters::default();
    for (_, location, node) in nodes {
        parameters.add(survey, location, node, place);
    }
    parameters.complete(survey, of_operation, place);
    parameters
}

impl<'d> Parameters<'d> {
    fn add(&mut self, survey: &Survey<'d>, location: &str, node: Node<'d>, place: &Place) {
        let name = node.get("name").and_then(Node::as_text).unwrap_or_default();
        let bad = |message: String| {
            survey.warn("bad_parameter", node, message, "correct the document; the parameter is left out");
        };
        if name.is_empty() || name.len() > 200 || name.chars().any(char::is_control) {
            return bad("its name is empty, too long or holds control characters".to_owned());
        }
        if let Some((wire, _)) = place.asked.iter().find(|(wire, template)| template == name || wire == name) {
            let parameter = parameter(survey, node, wire, Location::Query);
            return self.list.push(Parameter { required: true, ..parameter });
        }
        let location = match location {
            "path" if place.names.iter().any(|known| known == name) => Location::Path,
            "path" => {
                let message = format!("the path has no `{{{}}}`", clipped(name));
                return survey.warn("extra_path_param", node, message, "add it to the path; the parameter is left out");
            }
            "query" if place.fixed.iter().any(|(known, _)| known == name) => return,
            "query" => Location::Query,
            "header" if NOT_INPUTS.contains(&name.to_ascii_lowercase().as_str()) => {
                if name.eq_ignore_ascii_case("authorization") && !survey.options.keep_key_parameters {
                    return self.hide(survey, node, Scheme::Header(name.to_owned()));
                }
                let message = format!("`{}` is no input: the gateway sets it", clipped(name));
                return survey.info("reserved_header", node, message, "nothing is to be done");
            }
            "header" if is_token(name) => Location::Header,
            "header" => return bad("no header can have this name".to_owned()),
            "cookie" => {
                let message = format!("the cookie `{}` is not taken from callers", clipped(name));
                let fix = "set it under `headers: {Cookie: …}` of the upstream where the service needs it";
                return survey.warn("cookie_parameter", node, message, fix);
            }
            "body" => {
                self.body = Some(node);
                return;
            }
            "formData" | "form" => return self.fields.push(node),
            other => return bad(format!("`in: {}` is no place for a parameter", clipped(other))),
        };
        if location != Location::Path && is_key_like(name) && !survey.options.keep_key_parameters {
            let scheme = if location == Location::Header { Scheme::Header } else { Scheme::Query };
            return self.hide(survey, node, scheme(name.to_owned()));
        }
        let parameter = parameter(survey, node, name, location);
        if place.fragment
            && parameter.required
            && location == Location::Query
            && let Some([value]) =
                parameter.schema.as_ref().and_then(|schema| schema.get("enum")?.as_array()).map(Vec::as_slice)
        {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            return self.fixed.push((parameter.name, value));
        }
        self.list.push(parameter);
    }

    fn hide(&mut self, survey: &Survey<'d>, node: Node<'d>, scheme: Scheme) {
        let name = node.get("name").and_then(Node::as_text).unwrap_or_default().to_owned();
        let message = format!("`{}` looks like a credential and is not asked of callers", clipped(&name));
        let fix = "it is sent by the upstream; --keep-key-params leaves it to callers";
        survey.warn("key_parameter_hidden", node, message, fix);
        self.credentials.push(Credential { name, scheme });
    }

    /// What the path names and the document forgot.
    fn complete(&mut self, survey: &Survey<'d>, operation: Node<'d>, place: &Place) {
        let undeclared = |name: &str, location| Parameter {
            name: name.to_owned(),
            location,
            kind: "string",
            required: true,
            description: None,
            schema: None,
            form: Form::default(),
        };
        for (name, _) in &place.asked {
            if !self.list.iter().any(|known| known.location == Location::Query && known.name == *name) {
                self.list.push(undeclared(name, Location::Query));
            }
        }
        for name in &place.names {
            if !self.list.iter().any(|known| known.location == Location::Path && known.name == *name) {
                let message = format!("`{{{}}}` of the path is not among the parameters", clipped(name));
                survey.warn("undeclared_path_param", operation, message, "declare it; it is taken as a text");
                self.list.push(undeclared(name, Location::Path));
            }
        }
        let in_path = |name: &str| place.names.iter().position(|known| known == name);
        self.list.sort_by_key(|it| (it.location != Location::Path, in_path(&it.name)));
    }
}

fn parameter<'d>(survey: &Survey<'d>, node: Node<'d>, name: &str, location: Location) -> Parameter {
    let content = node.get("content").and_then(|content| content.children().next());
    let json = content.and_then(Node::key).is_some_and(super::body::is_json);
    let schema_node = match (content, node.get("schema")) {
        (Some(content), _) => content.get("schema"),
        (None, Some(schema)) => Some(schema),
        (None, None) if survey.is_swagger2() => Some(node),
        (None, None) => None,
    };
    let schema = schema_node.map(|schema| {
        if schema == node {
            survey.parameter_schema(schema)
        } else {
            survey.small_schema(schema, Side::Input, SCHEMA_BYTES)
        }
    });
    let kind = schema.as_ref().map_or("string", kind_of);
    let required = location == Location::Path || node.get("required").is_some_and(|it| it.kind() == Kind::Bool(true));
    let description =
        node.get("description").and_then(Node::as_text).or_else(|| schema.as_ref()?.get("description")?.as_str());
    Parameter {
        name: name.to_owned(),
        location,
        kind,
        required,
        description: description.and_then(text::description).map(|text| text::shorter(&text, DESCRIPTION_MAX)),
        form: form(survey, node, kind, location, json),
        schema: schema.and_then(|schema| telling(schema, kind)),
    }
}

/// A schema without what the parameter says itself; `None` if nothing is left.
fn telling(schema: Value, kind: &str) -> Option<Value> {
    let Value::Object(mut schema) = schema else { return (schema != Value::Bool(true)).then_some(schema) };
    schema.shift_remove("description");
    schema.shift_remove("title");
    let says_type_alone = schema.len() == 1 && schema.get("type").and_then(Value::as_str) == Some(kind);
    (!schema.is_empty() && !says_type_alone).then(|| schema.into())
}

/// The one JSON type of a schema; of several, text.
fn kind_of(schema: &Value) -> &'static str {
    const KINDS: [&str; 6] = ["string", "number", "integer", "boolean", "array", "object"];
    let known = |kind: &str| KINDS.into_iter().find(|known| *known == kind);
    match schema.get("type") {
        Some(Value::String(kind)) => known(kind).unwrap_or("string"),
        Some(Value::Array(kinds)) => {
            match kinds.iter().filter_map(Value::as_str).filter(|kind| *kind != "null").collect::<Vec<_>>().as_slice() {
                [kind] => known(kind).unwrap_or("string"),
                _ => "string",
            }
        }
        _ if schema.get("items").is_some() => "array",
        _ if schema.get("properties").is_some() => "object",
        _ => match schema.get("allOf").and_then(Value::as_array).map(Vec::as_slice) {
            Some([one]) => kind_of(one),
            _ => "string",
        },
    }
}

fn form<'d>(survey: &Survey<'d>, node: Node<'d>, kind: &str, location: Location, json: bool) -> Form {
    if json {
        return Form { style: Some("json"), explode: None };
    }
    let (default, styles): (_, &[&'static str]) = match location {
        Location::Query | Location::Cookie => ("form", &IN_QUERY),
        Location::Path => ("simple", &["simple", "label", "matrix"]),
        Location::Header => ("simple", &["simple"]),
    };
    if !matches!(kind, "array" | "object") {
        let written = node.get("style").and_then(Node::as_text);
        return if location == Location::Path && matches!(written, Some("label" | "matrix")) {
            written_form(survey, node, default, styles)
        } else {
            Form::default()
        };
    }
    // Where a style is named, callers may write in whichever way they know.
    let form = written_form(survey, node, default, styles);
    Form { style: form.style.or(Some(default)), ..form }
}

/// The styles of a query, and of the fields of a form.
pub(super) const IN_QUERY: [&str; 4] = ["form", "spaceDelimited", "pipeDelimited", "deepObject"];

/// `style` and `explode`, or `collectionFormat`, where they are not the default.
pub(super) fn written_form<'d>(
    survey: &Survey<'d>,
    node: Node<'d>,
    default: &'static str,
    styles: &[&'static str],
) -> Form {
    if survey.is_swagger2() {
        // The default of Swagger 2.0 is `csv`, which is OpenAPI's `form` without `explode`.
        let is_query = default == "form";
        return match node.get("collectionFormat").and_then(Node::as_text).unwrap_or("csv") {
            "multi" => Form::default(),
            "ssv" | "pipes" if !is_query => Form::default(),
            "ssv" => Form { style: Some("spaceDelimited"), explode: Some(false) },
            "pipes" => Form { style: Some("pipeDelimited"), explode: Some(false) },
            "csv" => Form { explode: is_query.then_some(false), ..Form::default() },
            other => {
                let message = format!("`collectionFormat: {}` is not known", clipped(other));
                survey.warn("unsupported_style", node, message, "it is written with commas");
                Form { explode: is_query.then_some(false), ..Form::default() }
            }
        };
    }
    let written = node.get("style").and_then(Node::as_text);
    let style = written.and_then(|written| styles.iter().copied().find(|known| *known == written));
    if let (Some(written), None) = (written, style) {
        let message = format!("`style: {}` is not known here", clipped(written));
        survey.warn("unsupported_style", node, message, "it is written in the default style");
    }
    let exploded = match node.get("explode").map(Node::kind) {
        Some(Kind::Bool(explode)) => Some(explode),
        _ => None,
    };
    let by_default = matches!(style.unwrap_or(default), "form" | "deepObject");
    Form { style: style.filter(|style| *style != default), explode: exploded.filter(|explode| *explode != by_default) }
}
