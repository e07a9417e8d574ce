//! The discovery document (RESTAP, "The Catalog Document"), put together from what is configured.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::restap::catalog::{Catalog, Endpoints, Location, Parameter, Provider};
use crate::restap::{CATALOG_PATH, Capability, HEALTH_PATH, NEWS_PATH, RESTAP_VERSION, SKILL_PATH, TALK_PATH};

use super::{Facts, NewsSessions, Talk, VERSION_DEFAULT};

/// Events that every stream has (RESTAP, "SSE event vocabulary for /talk").
const EVENTS: [&str; 5] = ["message.start", "message.delta", "message.end", "error", "done"];

/// The whole catalog, with nothing reduced.
pub(super) fn catalog(facts: Facts) -> Catalog {
    let version = facts.version.unwrap_or_else(|| VERSION_DEFAULT.to_owned());
    let name = facts.card.name.clone();
    let reads = facts.news.filter(|news| news.reads).map(|news| news.sessions);
    let posts = facts.news.filter(|news| news.posts).map(|news| news.sessions);
    let talk = facts.talk.as_ref().map(talk);
    let fixed = talk.into_iter().chain(reads.map(news_read)).chain(posts.map(news_write));
    let mut packages = facts.packages;
    if !packages.iter().any(teaches) {
        packages.push(skill_package(&name, &version));
    }
    Catalog {
        restap_version: RESTAP_VERSION,
        provider: Provider { name: name.clone(), version: version.clone() },
        endpoints: Endpoints {
            talk: facts.talk.is_some().then_some(TALK_PATH),
            news: reads.map(|_| NEWS_PATH),
            news_post: posts.map(|_| NEWS_PATH),
            catalog: CATALOG_PATH,
            health: HEALTH_PATH,
        },
        service_type: "public-agent",
        name,
        version,
        public_url: facts.public_url,
        capabilities: fixed.chain(facts.capabilities.into_iter().map(tidy)).collect(),
        agent: facts.card,
        packages,
        protocols: facts.protocols,
    }
}

fn talk(talk: &Talk) -> Capability {
    let message = json!({"type": "string", "minLength": 1});
    let session_id = json!({
        "type": "string",
        "pattern": "^[A-Za-z0-9._-]{16,128}$",
        "description": "Continues a conversation: send back the one that its first reply came with"
    });
    let properties =
        if talk.sessions { json!({"message": message, "session_id": session_id}) } else { json!({"message": message}) };
    let events: Vec<_> = EVENTS.into_iter().chain(talk.optional_events.iter().map(String::as_str)).collect();
    let streams = talk.streaming.then_some("text/event-stream");
    Capability {
        id: "talk".to_owned(),
        title: "Talk to agent".to_owned(),
        method: "POST".to_owned(),
        endpoint: TALK_PATH.to_owned(),
        description: Some("Send a message, get the agent's reply".to_owned()),
        input_schema: Some(json!({"type": "object", "properties": properties, "required": ["message"]}).into()),
        content_types: vec!["application/json".to_owned()],
        output_formats: ["application/json"].into_iter().chain(streams).map(str::to_owned).collect(),
        streaming: Some(if talk.streaming {
            json!({"supported": true, "transport": "sse", "events": events})
        } else {
            json!({"supported": false})
        }),
        sessions: Some(json!({"supported": talk.sessions})),
        ..Capability::default()
    }
}

fn news_read(sessions: NewsSessions) -> Capability {
    let query = |name: &str, kind: &str, description: &str| Parameter {
        description: Some(description.to_owned()),
        ..Parameter::new(name, Location::Query, kind)
    };
    let mut parameters = vec![
        query("since", "integer", "Only items after this time in milliseconds: the last answer's timestamp"),
        query("since_id", "string", "Only items after the one with this id"),
        query("limit", "integer", "At most so many items, 1 to 1000; 100 if absent"),
        query("query_id", "string", "Only items of this query"),
    ];
    parameters.extend(session_parameter(sessions));
    Capability {
        id: "news".to_owned(),
        title: "Poll for updates".to_owned(),
        method: "GET".to_owned(),
        endpoint: NEWS_PATH.to_owned(),
        description: Some("Read what has happened; never a reply".to_owned()),
        parameters,
        output_formats: vec!["application/json".to_owned()],
        sessions: session_support(sessions),
        ..Capability::default()
    }
}

fn news_write(sessions: NewsSessions) -> Capability {
    Capability {
        id: "news_receive".to_owned(),
        title: "Receive news".to_owned(),
        method: "POST".to_owned(),
        endpoint: NEWS_PATH.to_owned(),
        description: Some("Leave a message or a reply for the agent; it is kept and never answered".to_owned()),
        parameters: session_parameter(sessions).into_iter().collect(),
        input_schema: Some(
            json!({
                "type": "object",
                "properties": {
                    "type": {"type": "string", "minLength": 1},
                    "message": {"type": "string"},
                    "from": {"type": "string"},
                    "in_reply_to": {"type": "string"},
                    "data": {}
                },
                "required": ["type"]
            })
            .into(),
        ),
        content_types: vec!["application/json".to_owned()],
        output_formats: vec!["application/json".to_owned()],
        sessions: session_support(sessions),
        ..Capability::default()
    }
}

fn session_support(sessions: NewsSessions) -> Option<Value> {
    match sessions {
        NewsSessions::Required => Some(json!({"supported": true, "required": true})),
        NewsSessions::Optional => Some(json!({"supported": true, "required": false})),
        NewsSessions::Ignored => None,
    }
}

fn session_parameter(sessions: NewsSessions) -> Option<Parameter> {
    (sessions != NewsSessions::Ignored).then(|| Parameter {
        required: sessions == NewsSessions::Required,
        description: Some("The session whose feed it is".to_owned()),
        ..Parameter::new("Restap-Session-Id", Location::Header, "string")
    })
}

/// A parameter's schema stands only where it says more than its type and description.
fn tidy(mut capability: Capability) -> Capability {
    for parameter in &mut capability.parameters {
        let description = parameter.description.as_deref();
        let is_said = |keyword: &str, value: &Value| match keyword {
            "type" => value.as_str() == Some(&parameter.kind),
            "description" => value.as_str() == description,
            _ => false,
        };
        let repeats =
            |schema: &Value| schema.as_object().is_some_and(|it| it.iter().any(|(key, value)| is_said(key, value)));
        if let Some(schema) = parameter.schema.as_mut().filter(|schema| repeats(schema))
            && let Value::Object(schema) = Arc::make_mut(schema)
        {
            schema.retain(|keyword, value| !is_said(keyword, value));
        }
        let says_nothing =
            |schema: &Value| schema.as_object().is_some_and(Map::is_empty) || *schema == Value::Bool(true);
        parameter.schema = parameter.schema.take().filter(|schema| !says_nothing(schema));
    }
    capability
}

/// Whether a package of the operator's is itself a skill.
fn teaches(package: &Map<String, Value>) -> bool {
    let is_skill = |kind: &str| kind == "claude-plugin" || kind.split('-').any(|word| word == "skill");
    package.contains_key("skill_file") || package.get("type").and_then(Value::as_str).is_some_and(is_skill)
}

fn skill_package(agent: &str, version: &str) -> Map<String, Value> {
    let entries = [
        ("name", format!("{agent} skill")),
        ("type", "skill".to_owned()),
        ("description", format!("How to use {agent}, in the SKILL.md format")),
        ("version", version.to_owned()),
        ("skill_file", SKILL_PATH.to_owned()),
    ];
    entries.into_iter().map(|(key, value)| (key.to_owned(), value.into())).collect()
}
