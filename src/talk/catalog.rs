//! What the catalog says about talk (RESTAP, "Capability Fields").

use serde_json::json;

use crate::restap::Capability;

/// The events that every stream may bring.
const EVENTS: [&str; 5] = ["message.start", "message.delta", "message.end", "error", "done"];

/// What an agent's talk really does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Abilities {
    /// Callers may be streamed to.
    pub streams: bool,
    /// The optional events that a reply may bring: [`super::Dialect::hints`].
    pub hints: Vec<&'static str>,
    /// Turns are continued.
    pub continues: bool,
}

/// The entry `talk`.
pub fn entry(abilities: &Abilities) -> Capability {
    let Abilities { streams, hints, continues } = abilities;
    let mut output_formats = vec!["application/json".to_owned()];
    let streaming = if *streams {
        output_formats.push("text/event-stream".to_owned());
        let events: Vec<&str> = EVENTS.iter().chain(hints).copied().collect();
        json!({"supported": true, "transport": "sse", "events": events})
    } else {
        json!({"supported": false})
    };
    let message = json!({"type": "string", "minLength": 1});
    let reply = json!({"type": "string"});
    let (input, output) = if *continues {
        let session_id = json!({
            "type": "string",
            "pattern": "^[A-Za-z0-9._-]{16,128}$",
            "description": "The thread to continue; leave it out to begin one",
        });
        (json!({"message": message, "session_id": session_id}), json!({"reply": reply, "session_id": session_id}))
    } else {
        (json!({"message": message}), json!({"reply": reply}))
    };
    Capability {
        id: "talk".to_owned(),
        title: "Talk to agent".to_owned(),
        method: "POST".to_owned(),
        endpoint: "/talk".to_owned(),
        description: Some("Send a message and get the agent's reply".to_owned()),
        input_schema: Some(json!({"type": "object", "properties": input, "required": ["message"]})),
        output_schema: Some(json!({"type": "object", "properties": output, "required": ["reply"]})),
        content_types: vec!["application/json".to_owned()],
        output_formats,
        streaming: Some(streaming),
        sessions: Some(json!({"supported": continues})),
        ..Capability::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_entry_says_what_talk_does() {
        let talk = entry(&Abilities { streams: true, hints: vec!["status"], continues: true });
        let events = json!(["message.start", "message.delta", "message.end", "error", "done", "status"]);
        assert_eq!(talk.streaming, Some(json!({"supported": true, "transport": "sse", "events": events})));
        assert_eq!(talk.output_formats, ["application/json", "text/event-stream"]);
        assert_eq!(talk.sessions, Some(json!({"supported": true})));
        assert!(talk.input_schema.unwrap()["properties"].get("session_id").is_some());
    }

    #[test]
    fn an_agent_that_neither_streams_nor_remembers_says_so() {
        let talk = entry(&Abilities { streams: false, hints: vec!["status"], continues: false });
        assert_eq!(talk.streaming, Some(json!({"supported": false})));
        assert_eq!(talk.output_formats, ["application/json"]);
        assert_eq!(talk.sessions, Some(json!({"supported": false})));
        assert!(talk.input_schema.unwrap()["properties"].get("session_id").is_none());
    }
}
