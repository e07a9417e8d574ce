//! One operation: whether it can be taken, and what it becomes.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::credential::{self, Credential, Scheme};
use super::id::{self, Names, slug, words};
use super::path::Place;
use super::survey::{Skip, Survey};
use super::{Operation, Options, Service, Source, body, parameter, response, server, text};
use crate::yaml::{Kind, Node};

/// An operation as it is found.
#[derive(Debug)]
pub(super) struct Candidate<'d> {
    /// As in the document.
    pub path: &'d str,
    /// What its path says, or what is wrong with it.
    pub place: Result<Place, String>,
    /// Upper case.
    pub method: &'d str,
    pub item: Node<'d>,
    pub node: Node<'d>,
    /// Why it is not even looked at.
    pub skip: Option<Skip>,
}

/// An operation that was read.
#[derive(Debug)]
pub(super) struct Draft {
    pub operation: Operation,
    pub url: Option<String>,
    pub credentials: Vec<Credential>,
}

/// Keys of a path item that are methods.
const METHODS: [(&str, &str); 9] = [
    ("get", "GET"),
    ("post", "POST"),
    ("put", "PUT"),
    ("delete", "DELETE"),
    ("patch", "PATCH"),
    ("head", "HEAD"),
    ("options", "OPTIONS"),
    ("trace", "TRACE"),
    ("query", "QUERY"),
];

impl<'d> Candidate<'d> {
    /// The operations of one path.
    pub(super) fn of_item(
        survey: &Survey<'d>,
        path: &'d str,
        place: &Result<Place, String>,
        item: Node<'d>,
    ) -> Vec<Self> {
        let mut found = Vec::new();
        for child in item.children() {
            let key = child.key().unwrap_or_default();
            let named = METHODS.iter().find(|(name, _)| key.eq_ignore_ascii_case(name));
            if let Some((_, method)) = named {
                found.push(Self::new(survey, (path, place), (item, child), method));
            } else if key == "additionalOperations" {
                for other in child.children() {
                    found.push(Self::new(survey, (path, place), (item, other), other.key().unwrap_or_default()));
                }
            }
        }
        found
    }

    fn new(
        survey: &Survey<'d>,
        (path, place): (&'d str, &Result<Place, String>),
        (item, node): (Node<'d>, Node<'d>),
        method: &'d str,
    ) -> Self {
        let mut candidate = Self { path, place: place.clone(), method, item, node, skip: None };
        candidate.skip = candidate.reason_to_skip(survey);
        candidate
    }

    fn reason_to_skip(&self, survey: &Survey<'d>) -> Option<Skip> {
        match self.method {
            "GET" | "POST" | "PUT" | "DELETE" | "PATCH" => {}
            "HEAD" => {
                let reason = "the gateway answers HEAD wherever it answers GET".to_owned();
                return Some(Skip::new("unsupported_method", reason, "nothing is to be done"));
            }
            other => {
                let reason = format!("an agent has no {}", super::bundle::clipped(other));
                return Some(Skip::new(
                    "unsupported_method",
                    reason,
                    "write a capability with `route: {method: …}` by hand",
                ));
            }
        }
        if self.node.kind() != Kind::Mapping {
            let reason = "what stands there is no mapping".to_owned();
            return Some(Skip::new("bad_operation", reason, "correct the document"));
        }
        let restap = self.node.get("x-restap");
        let off = restap.and_then(|it| it.get("enabled")).is_some_and(|it| it.kind() == Kind::Bool(false));
        if off {
            return Some(Skip::filtered("the document itself says `x-restap: {enabled: false}`"));
        }
        if !survey.options.deprecated && self.is_deprecated() {
            return Some(Skip::new("deprecated", "it is deprecated".to_owned(), "leave out --deprecated drop"));
        }
        let tags: Vec<&str> = self.tags().collect();
        (!survey.options.filter.wants(self.method, self.path, &tags))
            .then(|| Skip::filtered("its path, tag or method is left out"))
    }

    /// `METHOD path` as in the document.
    pub(super) fn name(&self) -> String {
        format!("{} {}", self.method, self.path)
    }

    pub(super) fn operation_id(&self) -> Option<&'d str> {
        self.node.get("operationId")?.as_text().map(str::trim).filter(|id| !id.is_empty())
    }

    pub(super) fn names(&self, options: &Options) -> Names<'d> {
        let of_document =
            self.node.get("x-restap").and_then(|it| it.get("id")?.as_text()).filter(|id| id::is_legal(id));
        let given =
            of_document.map(str::to_owned).or_else(|| id::given(&options.known_ids, self.method, self.path).cloned());
        Names {
            method: self.method.to_owned(),
            path: self.path,
            operation_id: self.operation_id(),
            tag: self.tags().next(),
            given,
        }
    }

    fn tags(&self) -> impl Iterator<Item = &'d str> {
        let tags = self.node.get("tags").into_iter().flat_map(Node::children);
        tags.filter_map(Node::as_text).filter(|tag| !tag.trim().is_empty())
    }

    fn is_deprecated(&self) -> bool {
        self.node.get("deprecated").is_some_and(|it| it.kind() == Kind::Bool(true))
    }
}

impl Draft {
    /// Reads all of an operation. What of it is odd is noted, and costs no more than itself.
    pub(super) fn read<'d>(
        survey: &Survey<'d>,
        candidate: &Candidate<'d>,
        id: String,
        endpoint: String,
        method: &'static str,
    ) -> Self {
        let node = candidate.node;
        let place = candidate.place.clone().unwrap_or_else(|_| Place {
            path: "/".to_owned(),
            names: Vec::new(),
            fixed: Vec::new(),
            asked: Vec::new(),
            suffix: None,
            fragment: false,
            rootless: false,
        });
        let parameters = parameter::read(survey, Some(candidate.item), node, &place);
        let body = body::read(survey, node, &parameters);
        if body.is_some() && matches!(candidate.method, "GET" | "DELETE") {
            survey.info(
                "body_on_get",
                node,
                format!("a {} has a body", candidate.method),
                "it is sent; not every service reads it",
            );
        }
        let (output_schema, output_formats) = response::read(survey, node);
        let security = node.get("security").or(survey.root.get("security"));
        let mut credentials = credential::of_security(survey, security);
        for hidden in parameters.credentials {
            if !credentials.iter().any(|known| known.scheme.is_same_place(&hidden.scheme)) {
                credentials.push(hidden);
            }
        }
        credentials.sort();
        let shown = |scheme: &Scheme| credentials.iter().any(|it| it.scheme.is_same_place(scheme));
        let mut list = parameters.list;
        // What the upstream sends is not asked of callers.
        list.retain(|it| match it.location {
            crate::restap::catalog::Location::Header => !shown(&Scheme::Header(it.name.clone())),
            crate::restap::catalog::Location::Query => !shown(&Scheme::Query(it.name.clone())),
            crate::restap::catalog::Location::Path | crate::restap::catalog::Location::Cookie => true,
        });
        let url =
            server::base(survey, [node.get("servers"), candidate.item.get("servers"), survey.root.get("servers")]);
        let mut route_query = place.fixed;
        route_query.extend(parameters.fixed);
        let (title, description) = said(survey, candidate);
        let operation = Operation {
            id,
            title,
            description,
            method,
            endpoint,
            parameters: list,
            output_schema,
            output_formats,
            route_method: candidate.method.to_owned(),
            route_path: place.path,
            route_query,
            service: 0,
            deprecated: candidate.is_deprecated(),
            source: Source { name: candidate.name(), operation_id: candidate.operation_id().map(str::to_owned) },
            body,
        };
        Self { operation, url, credentials }
    }
}

fn said<'d>(survey: &Survey<'d>, candidate: &Candidate<'d>) -> (String, Option<String>) {
    let text_of = |key: &str| {
        let node = candidate.node.get(key).or(candidate.item.get(key))?;
        Some((node, node.as_text()?))
    };
    let (summary, long) = (text_of("summary"), text_of("description"));
    let title = summary.and_then(|(_, text)| text::title(text));
    let title = title.or_else(|| words(candidate.operation_id()?)).and_then(|title| text::title(&title));
    let title = title.unwrap_or_else(|| text::title(&candidate.name()).unwrap_or_default());
    let description = long.or(summary);
    if let Some((node, text)) = description {
        if text::is_long(text) {
            survey.info("description_trimmed", node, "the description is long".to_owned(), "its beginning is taken");
        }
        if text::is_suspicious(text) {
            survey.info(
                "suspicious_description",
                node,
                "the description speaks to a model".to_owned(),
                "read it before agents do",
            );
        }
    }
    let description = description.and_then(|(_, text)| text::description(text));
    if !candidate.is_deprecated() {
        return (title, description);
    }
    let text = description.map_or_else(|| "Deprecated.".to_owned(), |text| format!("Deprecated. {text}"));
    (title, Some(text))
}

/// Makes a root of `allOf` one object, or gives a choice of objects the type that all have. False if neither is possible.
pub(super) fn merged(root: &mut Map<String, Value>, definitions: &Value) -> bool {
    let target = |branch: &Value| {
        let name = branch.get("$ref").and_then(Value::as_str).and_then(|it| it.strip_prefix("#/$defs/"));
        name.and_then(|name| definitions.get(name).cloned()).unwrap_or_else(|| branch.clone())
    };
    let is_object = |schema: &Value| {
        schema.get("type").is_some_and(|kind| kind == "object")
            || schema.get("type").is_none() && schema.get("properties").is_some()
    };
    for choice in ["oneOf", "anyOf"] {
        if let Some(Value::Array(branches)) = root.get(choice) {
            let objects = branches.iter().all(|branch| is_object(&target(branch)));
            if objects {
                root.insert("type".to_owned(), "object".into());
            }
            return objects;
        }
    }
    let Some(Value::Array(branches)) = root.get("allOf") else { return false };
    let mut properties = match root.get("properties") {
        Some(Value::Object(own)) => own.clone(),
        _ => Map::new(),
    };
    let mut required: Vec<Value> = root.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut description = None;
    for branch in branches {
        let Value::Object(branch) = target(branch) else { return false };
        let known = |key: &String| {
            matches!(
                key.as_str(),
                "type" | "properties" | "required" | "description" | "title" | "examples" | "deprecated"
            )
        };
        if !branch.keys().all(known) || branch.get("type").is_some_and(|kind| kind != "object") {
            return false;
        }
        for (name, schema) in branch.get("properties").and_then(Value::as_object).into_iter().flatten() {
            if properties.get(name).is_some_and(|known| known != schema) {
                return false;
            }
            properties.insert(name.clone(), schema.clone());
        }
        required.extend(branch.get("required").and_then(Value::as_array).into_iter().flatten().cloned());
        description = description.or_else(|| branch.get("description").cloned());
    }
    let mut seen = HashSet::new();
    required.retain(|name| seen.insert(name.to_string()));
    root.shift_remove("allOf");
    root.insert("type".to_owned(), "object".into());
    root.insert("properties".to_owned(), properties.into());
    if !required.is_empty() {
        root.insert("required".to_owned(), required.into());
    }
    if let (Some(description), false) = (description, root.contains_key("description")) {
        root.insert("description".to_owned(), description);
    }
    true
}

/// The first service has the import's name; others say in theirs how they differ.
pub(super) fn name_services(name: &str, services: &mut [Service]) {
    let mut taken = HashSet::new();
    let first_url = services.first().and_then(|service| service.url.clone());
    for (number, service) in services.iter_mut().enumerate() {
        let mut plain = name.to_owned();
        if number > 0 {
            if service.url != first_url {
                let host = service.url.as_deref().and_then(|url| url.split("://").nth(1)).unwrap_or("other");
                plain = format!("{plain}_{}", slug(host.split(['.', '/', ':']).next().unwrap_or_default()));
            } else if service.credentials.is_empty() {
                plain.push_str("_open");
            } else {
                let schemes: Vec<_> = service.credentials.iter().map(|it| slug(&it.name)).collect();
                plain = format!("{plain}_{}", schemes.join("_"));
            }
        }
        plain.truncate(plain.floor_char_boundary(60));
        let mut unique = plain.clone();
        let mut count = 2;
        while !taken.insert(unique.clone()) {
            unique = format!("{plain}_{count}");
            count += 1;
        }
        service.name = unique;
    }
}
