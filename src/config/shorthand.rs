//! `Shorthand`: the file that a few flags of the command line stand for.

use serde_json::{Map, Value, json};

/// `serve --upstream URL`, `serve --talk URL --model NAME`, or both: one agent at the origin, without a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shorthand {
    /// `--listen`.
    pub listen: Option<String>,
    /// `--upstream`: a service that every method and path is passed on to.
    pub upstream: Option<String>,
    /// `--openapi`: a description of the service, by URL or as a file; its operations in place of every path.
    pub openapi: Option<String>,
    /// `--talk`: a chat service.
    pub talk: Option<String>,
    /// `--dialect` of the chat service.
    pub dialect: Option<String>,
    /// `--model` of the chat service.
    pub model: Option<String>,
}

impl Shorthand {
    /// The file. Loading it does what the flags mean; nothing in a flag is taken for a variable.
    pub fn to_yaml(&self) -> String {
        let mut file = Map::new();
        file.extend(self.listen.as_ref().map(|listen| ("listen".to_owned(), literal(listen))));
        let mut agent = Map::from_iter([("name".to_owned(), json!(self.name()))]);
        let upstream = self.upstream.clone().or_else(|| self.openapi.as_deref().and_then(origin_of));
        agent.extend(upstream.as_ref().map(|upstream| ("upstream".to_owned(), literal(upstream))));
        if let Some(upstream) = &self.talk {
            let mut talk = Map::from_iter([("upstream".to_owned(), literal(upstream))]);
            talk.extend(self.dialect.as_ref().map(|dialect| ("dialect".to_owned(), literal(dialect))));
            talk.extend(self.model.as_ref().map(|model| ("model".to_owned(), literal(model))));
            agent.insert("talk".to_owned(), Value::Object(talk));
        }
        if let Some(openapi) = &self.openapi {
            let key = if openapi.contains("://") { "url" } else { "file" };
            agent.insert("capabilities".to_owned(), json!([{"openapi": {key: literal(openapi)}}]));
        } else if self.upstream.is_some() {
            let capabilities = ["GET", "POST", "PUT", "DELETE"].map(|method| {
                let id = format!("service.{}", method.to_ascii_lowercase());
                json!({"id": id, "method": method, "endpoint": "/{*path}"})
            });
            agent.insert("capabilities".to_owned(), json!(capabilities));
        }
        file.insert("agent".to_owned(), Value::Object(agent));
        serde_yaml::to_string(&file).unwrap_or_default()
    }

    fn name(&self) -> &'static str {
        if self.talk.is_some() { "Assistant" } else { "Service" }
    }
}

/// `http://host:1` of `http://host:1/openapi.json`: a service mostly describes itself.
fn origin_of(url: &str) -> Option<String> {
    Some(url.parse::<crate::net::Url>().ok()?.origin.to_string())
}

fn literal(text: &str) -> Value {
    Value::String(text.replace("${", "$${"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::Config;

    fn load(shorthand: &Shorthand) -> Config {
        let yaml = shorthand.to_yaml();
        Config::from_text("flags", &yaml, Path::new(""), &|_| None).unwrap().config
    }

    #[test]
    fn a_chat_service_becomes_an_agent() {
        let shorthand = Shorthand {
            listen: Some("127.0.0.1:0".into()),
            talk: Some("http://127.0.0.1:11434".into()),
            dialect: Some("ollama-chat".into()),
            model: Some("a: ${B}".into()),
            ..Shorthand::default()
        };
        let expected = "\
listen: 127.0.0.1:0
agent:
  name: Assistant
  talk:
    upstream: http://127.0.0.1:11434
    dialect: ollama-chat
    model: 'a: $${B}'
";
        assert_eq!(shorthand.to_yaml(), expected);
        let talk = load(&shorthand).agents.remove(0).talk.unwrap();
        assert_eq!(talk.model.as_deref(), Some("a: ${B}"));
    }

    #[test]
    fn a_service_becomes_an_agent_that_passes_everything_on() {
        let shorthand = Shorthand { upstream: Some("http://127.0.0.1:5000".into()), ..Shorthand::default() };
        let agent = load(&shorthand).agents.remove(0);
        let route =
            |one: &crate::capability::Settings| format!("{} {} {}", one.method, one.endpoint, one.route.upstream);
        let expected = ["GET", "POST", "PUT", "DELETE"];
        let expected = expected.map(|method| format!("{method} /{{*path}} http://127.0.0.1:5000"));
        assert_eq!(agent.capabilities.iter().map(route).collect::<Vec<_>>(), expected);
    }
}
