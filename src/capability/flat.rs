//! `Filled`: a request out of one flat object, by what a catalog says of a capability.
//!
//! An entry goes where a parameter of its name is, all others are the body's. One that is both goes to both. `path.id`,
//! `query.id`, `header.id`, `cookie.id` and `body.id` say which is meant, and `body` alone is the whole body.

use http::{HeaderName, HeaderValue, Method, header};
use serde_json::{Map, Value};

use super::media_type::MediaType;
use super::path::push_value;
use super::send::{Sender, Sent};
use super::settings::{SendAs, Settings};
use super::style::Form;
use crate::restap::catalog::{Location, Parameter, Style};
use crate::yaml::nearest;

/// A request, ready to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filled {
    /// As the catalog has it.
    pub method: Method,
    /// Below the agent's base, with its query.
    pub target: String,
    /// Of the inputs and of the body.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Empty where there is none.
    pub body: Vec<u8>,
}

/// Fills in what a capability's entry of a catalog asks for. An error is a sentence that says what to write.
pub fn fill(entry: &Value, input: &Value) -> Result<Filled, String> {
    let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default();
    let method: Method =
        text("method").parse().map_err(|_| "the catalog names no method that can be sent".to_owned())?;
    let parameters: Vec<Parameter> =
        entry.get("parameters").and_then(Value::as_array).into_iter().flatten().filter_map(parameter).collect();
    let schema = entry.get("input_schema").filter(|schema| !schema.is_null());
    let (mut entries, mut body) = match input {
        Value::Object(entries) => (entries.clone(), None),
        other => (Map::new(), Some(other.clone())),
    };
    let mut target = text("endpoint").to_owned();
    let (mut pairs, mut headers, mut cookies) = (Vec::new(), Vec::new(), Vec::new());
    let is_property = |name: &str| schema.and_then(|schema| schema.get("properties")?.get(name)).is_some();
    for parameter in &parameters {
        let name = parameter.name.as_str();
        let explicit = entries.shift_remove(&format!("{}.{name}", place(parameter.location)));
        let plain = match entries.get(name) {
            Some(value) if is_property(name) => Some(value.clone()),
            _ => entries.shift_remove(name),
        };
        let Some(value) = explicit.or(plain).filter(|value| !value.is_null()) else {
            if parameter.required {
                let place = place(parameter.location);
                return Err(format!("`{name}` is missing: it stands in the {place}, and a call without it is refused"));
            }
            continue;
        };
        let form = Form::of(parameter);
        match parameter.location {
            Location::Path => target = in_path(&target, name, &form, &value)?,
            Location::Query => form.push_pairs(name, &value, &mut pairs),
            Location::Header => headers.push(as_header(name, &form.to_text(&value))?),
            Location::Cookie => cookies.push(format!("{name}={}", form.to_text(&value))),
        }
    }
    if !cookies.is_empty() {
        headers.push(as_header("cookie", &cookies.join("; "))?);
    }
    if let Some(left) = target.split_once('{').and_then(|(_, rest)| rest.split('}').next()) {
        return Err(format!("`{left}` is missing: it stands in the path"));
    }
    if !is_property("body") && !parameters.iter().any(|it| it.name == "body") {
        body = body.or_else(|| entries.shift_remove("body"));
    }
    let own: Map<String, Value> = entries
        .into_iter()
        .map(|(name, value)| (name.strip_prefix("body.").map_or_else(|| name.clone(), str::to_owned), value))
        .collect();
    let takes_body = schema.is_some() || !matches!(method, Method::GET | Method::HEAD | Method::DELETE);
    if let Some(name) = own.keys().next().filter(|_| !takes_body || body.is_some()) {
        let known = nearest(name, parameters.iter().map(|parameter| parameter.name.as_str()));
        let hint = known.map(|known| format!("; did you mean `{known}`?")).unwrap_or_default();
        return Err(format!("the capability has no input `{name}`{hint}"));
    }
    if !own.is_empty() || schema.is_some() && body.is_none() && method != Method::GET {
        body = Some(Value::Object(own));
    }
    let mut filled = Filled { method, target, headers, body: Vec::new() };
    if let Some(body) = body {
        let (bytes, media_type) = encoded(entry, &body)?;
        filled.headers.push((header::CONTENT_TYPE, media_type));
        filled.body = bytes;
    }
    if !pairs.is_empty() {
        filled.target = format!("{}?{}", filled.target, pairs.join("&"));
    }
    Ok(filled)
}

fn place(location: Location) -> &'static str {
    match location {
        Location::Path => "path",
        Location::Query => "query",
        Location::Header => "header",
        Location::Cookie => "cookie",
    }
}

/// A parameter as any server may publish it: all but the name may be missing.
fn parameter(entry: &Value) -> Option<Parameter> {
    let text = |key: &str| entry.get(key).and_then(Value::as_str);
    let location = match text("location").or_else(|| text("in")) {
        Some("path") => Location::Path,
        Some("header") => Location::Header,
        Some("cookie") => Location::Cookie,
        None | Some("query") => Location::Query,
        Some(_) => return None,
    };
    let mut parameter = Parameter::new(text("name")?, location, text("type").unwrap_or("string"));
    parameter.required |= entry.get("required").and_then(Value::as_bool).unwrap_or(false);
    parameter.style = entry.get("style").and_then(|style| serde_json::from_value::<Style>(style.clone()).ok());
    parameter.explode = entry.get("explode").and_then(Value::as_bool);
    parameter.schema = entry.get("schema").cloned().map(Into::into);
    Some(parameter)
}

/// A tail keeps its slashes; in anything else they are data.
fn in_path(target: &str, name: &str, form: &Form, value: &Value) -> Result<String, String> {
    let tail = format!("{{*{name}}}");
    let mut written = String::new();
    if target.contains(&tail) {
        for (number, segment) in form.to_text(value).split('/').enumerate() {
            if number > 0 {
                written.push('/');
            }
            push_value(segment, &mut written);
        }
        return Ok(target.replace(&tail, &written));
    }
    form.push_path(name, value, &mut written);
    if written.is_empty() {
        return Err(format!("`{name}` is empty: it stands in the path"));
    }
    Ok(target.replace(&format!("{{{name}}}"), &written))
}

fn as_header(name: &str, text: &str) -> Result<(HeaderName, HeaderValue), String> {
    let problem = || format!("`{name}` can't be sent: a header carries visible ASCII characters only");
    Ok((name.parse().map_err(|_| problem())?, HeaderValue::from_str(text).map_err(|_| problem())?))
}

/// The body as the first media type that can be made of JSON.
fn encoded(entry: &Value, body: &Value) -> Result<(Vec<u8>, HeaderValue), String> {
    let listed = entry.get("content_types").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let listed: Vec<String> = listed.map(str::to_owned).collect();
    let kind = |listed: &String| {
        let media_type = MediaType::of(listed);
        match media_type.essence() {
            "application/x-www-form-urlencoded" => Some(SendAs::Form),
            "multipart/form-data" => Some(SendAs::Multipart),
            _ if media_type.is_json() => Some(SendAs::Json),
            _ if media_type.is_xml() => Some(SendAs::Xml),
            _ if media_type.is_text() => Some(SendAs::Text),
            _ => None,
        }
    };
    let is_json = |listed: &String| MediaType::of(listed).is_json();
    let first = if listed.iter().any(is_json) { Some(SendAs::Json) } else { listed.iter().find_map(kind) };
    if let (None, Some(other)) = (first, listed.first()) {
        // Bytes of a kind of their own: the text as it is.
        let media_type = HeaderValue::from_str(other).map_err(|_| "the catalog names no media type".to_owned())?;
        return Ok((super::style::text(body).into_owned().into_bytes(), media_type));
    }
    let mut settings = Settings::new("call", Method::POST, "/", "");
    settings.content_types = listed;
    settings.input_schema = entry.get("input_schema").cloned().map(Into::into);
    settings.route.send_as = first.unwrap_or_default();
    match Sender::new(&settings).encode(body) {
        Ok(Sent::Body(bytes, media_type)) => Ok((bytes.into(), media_type)),
        Ok(Sent::Query(_)) => Err("the body can't be sent".to_owned()),
        Err(problem) if problem.path.is_empty() => Err(format!("the body {problem}")),
        Err(problem) => Err(format!("`{}` in the body {problem}", problem.path)),
    }
}

#[cfg(test)]
#[expect(clippy::needless_pass_by_value, reason = "a value that is written where it is used reads best")]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry() -> Value {
        json!({
            "id": "it", "method": "PUT", "endpoint": "/u/{id}/f/{*rest}",
            "parameters": [
                {"name": "id", "type": "integer", "location": "path", "required": true},
                {"name": "rest", "location": "path"},
                {"name": "tags", "type": "array", "location": "query"},
                {"name": "filter", "type": "object", "location": "query", "style": "deepObject"},
                {"name": "X-Ids", "type": "array", "location": "header"},
                {"name": "sid", "location": "cookie"},
                {"name": "q", "location": "query", "required": true},
            ],
            "input_schema": {"type": "object", "properties": {"id": {}, "note": {}}},
        })
    }

    fn told(entry: &Value, input: Value) -> String {
        fill(entry, &input).unwrap_err()
    }

    #[test]
    fn one_flat_object_fills_path_query_headers_and_body() {
        let input = json!({"id": 7, "rest": "a b/c", "tags": ["x", "y"], "filter": {"n": 1}, "X-Ids": [1, 2], "sid": "s",
            "q": "a&b", "note": "n", "more": [1]});
        let filled = fill(&entry(), &input).unwrap();
        assert_eq!(filled.target, "/u/7/f/a%20b/c?tags=x&tags=y&filter[n]=1&q=a%26b");
        assert_eq!(serde_json::from_slice::<Value>(&filled.body).unwrap(), json!({"id": 7, "note": "n", "more": [1]}));
        let headers: Vec<_> =
            filled.headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
        assert_eq!(headers, ["x-ids: 1,2", "cookie: sid=s", "content-type: application/json"]);
    }

    #[test]
    fn a_place_may_be_named_and_the_body_given_whole() {
        let named = fill(&entry(), &json!({"path.id": 1, "rest": "r", "q": 1, "body.id": 2})).unwrap();
        assert_eq!((named.target.as_str(), named.body.as_slice()), ("/u/1/f/r?q=1", &b"{\"id\":2}"[..]));
        let whole = fill(&entry(), &json!({"id": 1, "rest": "r", "q": 1, "body": [1]}));
        assert!(whole.is_err(), "`id` would go to the body too");
        let list = json!({"method": "POST", "endpoint": "/l", "input_schema": {"type": "array"}});
        assert_eq!(fill(&list, &json!([1])).unwrap().body, b"[1]");
        assert_eq!(fill(&list, &json!({"body": [1]})).unwrap().body, b"[1]");
    }

    #[test]
    fn what_is_wrong_is_said() {
        assert_eq!(
            told(&entry(), json!({"id": 1, "rest": "r"})),
            "`q` is missing: it stands in the query, and a call without it is refused"
        );
        assert!(told(&entry(), json!({})).starts_with("`id` is missing: it stands in the path"));
        let get = json!({"method": "GET", "endpoint": "/w/{city}", "parameters": [{"name": "units"}]});
        assert_eq!(told(&get, json!({})), "`city` is missing: it stands in the path");
        let get = json!({"method": "GET", "endpoint": "/w", "parameters": [{"name": "units"}]});
        assert_eq!(told(&get, json!({"unit": 1})), "the capability has no input `unit`; did you mean `units`?");
        let header = json!({"method": "GET", "endpoint": "/w", "parameters": [{"name": "X-A", "location": "header"}]});
        assert_eq!(
            told(&header, json!({"X-A": "\n"})),
            "`X-A` can't be sent: a header carries visible ASCII characters only"
        );
    }

    #[test]
    fn a_body_is_what_the_capability_takes() {
        let of = |content_types: Value| {
            let entry = json!({"method": "POST", "endpoint": "/x", "content_types": content_types});
            let filled = fill(&entry, &json!({"a": [1, 2]})).unwrap();
            (String::from_utf8(filled.body).unwrap(), filled.headers[0].1.to_str().unwrap().to_owned())
        };
        assert_eq!(
            of(json!(["application/x-www-form-urlencoded"])),
            ("a=1&a=2".into(), "application/x-www-form-urlencoded".into())
        );
        assert_eq!(of(json!(["text/xml", "application/vnd.api+json"])).1, "application/vnd.api+json");
        assert_eq!(of(json!([])), ("{\"a\":[1,2]}".into(), "application/json".into()));
    }
}
