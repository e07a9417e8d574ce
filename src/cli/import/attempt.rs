//! `--try`: what the service really answers, held against what its description says.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderName, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use tokio::runtime::Runtime;

use super::{Fault, import};
use crate::net::{Bounds, Client, Coding, Document, HttpVersion, Request, Roots, Timeouts, Url, peer, tls};
use crate::openapi::{Bundle, Credential, Imported, Operation, Options, Scheme, Service, write};
use crate::restap::catalog::Location;
use crate::upstream::settings::OAuth2;
use crate::upstream::token;
use crate::yaml::Secret;

/// Operations that are called.
const CALLS_MAX: usize = 200;

/// What one answer may take.
const BOUNDS: Bounds = Bounds { bytes: 8 << 20, time: Duration::from_secs(10) };

/// Bytes of the schema that an answer is held against.
const SCHEMA_BYTES: usize = 1 << 20;

/// Places that are named where an answer breaks its schema.
const VIOLATIONS_MAX: usize = 5;

/// The unreserved characters of RFC 3986 2.3 stay as they are.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Calls each GET for which the description says enough, and says what came of it.
pub(super) fn run(runtime: &Runtime, bundle: &Bundle, options: &Options) -> Result<String, Fault> {
    let options = Options { output_bytes: SCHEMA_BYTES, ..options.clone() };
    let imported = import(bundle, &options)?;
    let client = Client::new(Roots::system().map_err(Fault::new)?);
    let gets =
        imported.operations.iter().filter(|operation| operation.route_method == "GET" && operation.body.is_none());
    let mut tokens = Tokens::new();
    let (mut text, mut called, mut skipped, mut broken) = (String::new(), 0, 0, 0);
    for operation in gets {
        let service = imported.services.get(operation.service);
        let (Some(service), Some(target)) = (service.filter(|it| it.url.is_some()), target(operation)) else {
            skipped += 1;
            continue;
        };
        if called >= CALLS_MAX {
            skipped += 1;
            continue;
        }
        called += 1;
        let name = &operation.source.name;
        match runtime.block_on(call((&client, &mut tokens), (&imported, service), operation, &target)) {
            Err(problem) => drop(writeln!(text, "  {name}: {problem}")),
            Ok(document) => {
                let said = judge(operation, &document);
                broken += usize::from(said.is_err());
                let status = document.status.as_u16();
                let _ = writeln!(text, "  {name}: {status}, {}", said.unwrap_or_else(|problem| problem));
            }
        }
    }
    Ok(format!(
        "Tried {called} GETs; {skipped} need inputs that nobody knows; {broken} answer otherwise than described:\n{text}"
    ))
}

/// The path and query, where every required input has a value in the description.
fn target(operation: &Operation) -> Option<String> {
    let mut path = operation.route_path.clone();
    let mut query: Vec<String> = Vec::new();
    let encoded = |text: &str| utf8_percent_encode(text, ENCODED).to_string();
    for (name, value) in &operation.route_query {
        query.push(format!("{}={}", encoded(name), encoded(value)));
    }
    for parameter in operation.parameters.iter().filter(|parameter| parameter.required) {
        let schema = parameter.schema.as_ref()?;
        let first = |key: &str| schema.get(key).and_then(Value::as_array).and_then(|values| values.first());
        let value = schema.get("default").or(first("examples")).or(first("enum"))?;
        let value = match value {
            Value::String(text) => text.clone(),
            Value::Number(_) | Value::Bool(_) => value.to_string(),
            _ => return None,
        };
        match parameter.location {
            Location::Path => path = path.replace(&format!("{{{}}}", parameter.name), &encoded(&value)),
            Location::Query => query.push(format!("{}={}", encoded(&parameter.name), encoded(&value))),
            Location::Header | Location::Cookie => return None,
        }
    }
    let query = if query.is_empty() { String::new() } else { format!("?{}", query.join("&")) };
    Some(format!("{path}{query}"))
}

/// Tokens that were given, or why not, by what was asked for them.
type Tokens = HashMap<(String, Credential), Result<HeaderValue, String>>;

async fn call(
    (client, tokens): (&Client, &mut Tokens),
    (imported, service): (&Imported, &Service),
    operation: &Operation,
    target: &str,
) -> Result<Document, String> {
    let url: Url = service
        .url
        .as_deref()
        .unwrap_or_default()
        .parse()
        .map_err(|problem: crate::net::InvalidUrl| problem.to_string())?;
    let settings = peer::Settings {
        origin: url.origin.clone(),
        tls: tls::Settings::default(),
        version: HttpVersion::Auto,
        connect: BOUNDS.time,
        write: BOUNDS.time,
        read: BOUNDS.time,
    };
    let peer = client.peer(&settings).map_err(|problem| problem.to_string())?;
    let mut headers = HeaderMap::new();
    headers.insert(USER_AGENT, HeaderValue::from_static(crate::net::USER_AGENT));
    let accept = operation.output_formats.first().and_then(|format| HeaderValue::from_str(format).ok());
    headers.insert(ACCEPT, accept.unwrap_or(HeaderValue::from_static("application/json, */*;q=0.5")));
    let mut target = format!("{}{target}", url.prefix);
    for credential in &service.credentials {
        if let Some(asked) = oauth2((imported, service), credential) {
            let key = (service.name.clone(), credential.clone());
            let token = match tokens.get(&key) {
                Some(known) => known.clone(),
                None => token(client, &asked).await.map_err(|problem| problem.to_string()),
            };
            headers.insert(AUTHORIZATION, tokens.entry(key).or_insert(token).clone()?);
        }
        show((imported, service), credential, &mut headers, &mut target);
    }
    let request = Request {
        method: Method::GET,
        target: target.parse().map_err(|_| "its path can't be asked for".to_owned())?,
        headers,
        body: Bytes::new(),
        coding: Coding::Decoded,
        timeouts: Timeouts { first_byte: Some(BOUNDS.time), idle: Some(BOUNDS.time) },
    };
    client.fetch(&peer, request, BOUNDS).await.map_err(|problem| problem.to_string())
}

/// What a token is asked for with, where the variables are set.
fn oauth2((imported, service): (&Imported, &Service), credential: &Credential) -> Option<OAuth2> {
    let Scheme::OAuth2 { token_url, scopes } = &credential.scheme else { return None };
    let names = write::variables_of(imported, service, credential);
    let mut values = names.into_iter().map(|name| std::env::var(name).ok().map(Secret::new));
    let (client_id, client_secret) = (values.next()??, values.next()??);
    Some(OAuth2 { token_url: token_url.parse().ok()?, client_id, client_secret, scopes: scopes.clone() })
}

/// Shows the credential whose variables are set.
fn show(
    (imported, service): (&Imported, &Service),
    credential: &Credential,
    headers: &mut HeaderMap,
    target: &mut String,
) {
    let variables: Option<Vec<String>> =
        write::variables_of(imported, service, credential).into_iter().map(|name| std::env::var(name).ok()).collect();
    let Some(values) = variables else { return };
    let mut set = |name: &str, value: String| {
        if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), HeaderValue::from_str(&value)) {
            headers.insert(name, value);
        }
    };
    match (&credential.scheme, values.as_slice()) {
        (Scheme::Header(name), [value]) => set(name, value.clone()),
        (Scheme::Cookie(name), [value]) => set("cookie", format!("{name}={value}")),
        (Scheme::Bearer, [token]) => set(AUTHORIZATION.as_str(), format!("Bearer {token}")),
        (Scheme::Basic, [user, password]) => {
            use base64::Engine as _;
            let pair = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
            set(AUTHORIZATION.as_str(), format!("Basic {pair}"));
        }
        (Scheme::Query(name), [value]) => {
            let separator = if target.contains('?') { '&' } else { '?' };
            let (name, value) = (utf8_percent_encode(name, ENCODED), utf8_percent_encode(value, ENCODED));
            let _ = write!(target, "{separator}{name}={value}");
        }
        _ => {}
    }
}

/// Whether an answer is what the description says; an error says where it is not.
fn judge(operation: &Operation, document: &Document) -> Result<String, String> {
    if !document.status.is_success() {
        return Ok("not looked at".to_owned());
    }
    let Some(schema) = &operation.output_schema else { return Ok("nothing says what it answers".to_owned()) };
    let media_type =
        document.headers.get(CONTENT_TYPE).and_then(|it| it.to_str().ok()).unwrap_or_default().to_ascii_lowercase();
    if !media_type.contains("json") {
        let shown: String = media_type.chars().take(60).collect();
        return Ok(format!("`{shown}` is not looked at"));
    }
    let body: Value =
        serde_json::from_slice(&document.body).map_err(|_| "says that it is JSON, and is none".to_owned())?;
    match crate::schema::violations(schema, &body, VIOLATIONS_MAX) {
        Ok(violations) if violations.is_empty() => Ok("as described".to_owned()),
        Ok(violations) => Err(format!("breaks its schema: {}", violations.join("; "))),
        Err(problem) => Ok(format!("its schema can't be used: {problem}")),
    }
}
