//! Where the service is: `servers` of OpenAPI 3, and `schemes`, `host` and `basePath` of Swagger 2.0.

use super::location::join_url;
use super::survey::Survey;
use crate::yaml::{Kind, Node};

/// Characters of a URL.
const URL_MAX: usize = 2_000;

/// The base URL of an operation: the operator's, else of the operation's own server, of its path, of the document.
/// `None` is a server without a host.
pub(super) fn base<'d>(survey: &Survey<'d>, nodes: [Option<Node<'d>>; 3]) -> Option<String> {
    if let Some(url) = &survey.options.base_url {
        return Some(url.trim_end_matches('/').to_owned());
    }
    let server = nodes.into_iter().flatten().find_map(|servers| servers.children().next());
    match server {
        Some(server) => of_server(survey, server),
        None if survey.is_swagger2() => of_swagger2(survey),
        None => beside_document(survey, survey.root, "/"),
    }
}

/// Servers of the document beside the first.
pub(super) fn others(survey: &Survey<'_>) -> Vec<String> {
    let servers = survey.root.get("servers").into_iter().flat_map(Node::children).skip(1);
    servers.filter_map(|server| Some(server.get("url")?.as_text()?.chars().take(URL_MAX).collect())).take(20).collect()
}

fn of_server<'d>(survey: &Survey<'d>, server: Node<'d>) -> Option<String> {
    let template = server.get("url").and_then(Node::as_text).unwrap_or("/");
    let mut url = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        url.push_str(before);
        let Some((name, after)) = after.split_once('}') else {
            url.push('{');
            rest = after;
            continue;
        };
        url.push_str(&variable(survey, server, name));
        rest = after;
    }
    url.push_str(rest);
    usable(survey, server, &url)
}

fn variable<'d>(survey: &Survey<'d>, server: Node<'d>, name: &str) -> String {
    let declared = server.get("variables").and_then(|variables| variables.get(name));
    let known = |value: &str| {
        let listed: Vec<_> =
            declared.and_then(|it| it.get("enum")).into_iter().flat_map(Node::children).map(scalar).collect();
        listed.is_empty() || listed.iter().any(|it| it == value)
    };
    if let Some(value) = survey.options.variables.get(name) {
        if known(value) {
            return value.clone();
        }
        let message = format!("`{value}` is none of the values that the server's `{name}` may have");
        survey.warn("server_variable", declared.unwrap_or(server), message, "name one of them with --server-var");
    }
    let default = declared.and_then(|it| it.get("default")).map(scalar);
    default.unwrap_or_else(|| {
        let message = format!("the server's variable `{name}` has no default");
        survey.warn(
            "server_variable",
            server,
            message,
            "give it with --server-var, or say where the service is with --url",
        );
        String::new()
    })
}

fn scalar(node: Node<'_>) -> String {
    match node.kind() {
        Kind::Text(text) => text.to_owned(),
        _ => node.to_json().to_string(),
    }
}

fn of_swagger2(survey: &Survey<'_>) -> Option<String> {
    let text = |key: &str| survey.root.get(key).and_then(Node::as_text).map(str::trim);
    let path = text("basePath").unwrap_or("/");
    let Some(host) = text("host").filter(|host| !host.is_empty()) else {
        return beside_document(survey, survey.root.get("basePath").unwrap_or(survey.root), path);
    };
    let schemes: Vec<_> =
        survey.root.get("schemes").into_iter().flat_map(Node::children).filter_map(Node::as_text).collect();
    let scheme = if schemes.contains(&"https") || !schemes.contains(&"http") { "https" } else { "http" };
    let slash = if path.starts_with('/') { "" } else { "/" };
    let host = host.split_once("://").map_or(host, |(_, host)| host);
    usable(survey, survey.root.get("host")?, &format!("{scheme}://{}{slash}{path}", host.trim_end_matches('/')))
}

fn usable<'d>(survey: &Survey<'d>, node: Node<'d>, url: &str) -> Option<String> {
    let url = url.trim();
    let lower = url.to_ascii_lowercase();
    if !(lower.starts_with("http://") || lower.starts_with("https://")) {
        return beside_document(survey, node, url);
    }
    let parsed: Result<crate::net::Url, _> = url.parse();
    if parsed.is_err() || url.len() > URL_MAX {
        let message = "the server's URL is none that can be asked".to_owned();
        survey.warn("no_server", node, message, "say where the service is with --url");
        return None;
    }
    if lower.starts_with("http://") {
        survey.info(
            "server_http",
            node,
            "the server is asked without TLS".to_owned(),
            "write https:// where it has that",
        );
    }
    Some(url.split(['?', '#']).next().unwrap_or_default().trim_end_matches('/').to_owned())
}

/// A server without a host is where the document came from.
fn beside_document<'d>(survey: &Survey<'d>, node: Node<'d>, url: &str) -> Option<String> {
    if let Some(document) = &survey.options.document_url {
        let joined = join_url(document, url).trim_end_matches('/').to_owned();
        if joined.parse::<crate::net::Url>().is_ok() {
            return Some(joined);
        }
    }
    let (code, message) = if survey.root.get("servers").is_some() || survey.is_swagger2() {
        ("server_relative", format!("the server `{}` names no host", super::bundle::clipped(url)))
    } else {
        ("no_server", "the document names no server".to_owned())
    };
    survey.warn(code, node, message, "say where the service is with --url");
    None
}
