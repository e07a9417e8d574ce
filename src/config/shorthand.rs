//! `Shorthand`: the file that a few flags of the command line stand for.

use serde_json::{Map, Value, json};

/// `serve --upstream URL`, `serve --talk URL --model NAME`, or both: one agent at the origin, without a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shorthand {
    /// `--listen`.
    pub listen: Option<String>,
    /// `--upstream`: a service that every method and path is passed on to.
    pub upstream: Option<String>,
    /// `--talk`: a chat service.
    pub talk: Option<String>,
    /// `--dialect` of the chat service.
    pub dialect: Option<String>,
    /// `--model` of the chat service.
    pub model: Option<String>,
}

/// Characters of YAML and of variables do no harm in a value: it is written as data.
impl Shorthand {
    /// The file. Loading it does what the flags mean.
    pub fn to_yaml(&self) -> String {
        let mut file = Map::new();
        file.extend(self.listen.as_ref().map(|listen| ("listen".to_owned(), json!(listen))));
        let mut agent = Map::from_iter([("name".to_owned(), json!(self.name()))]);
        agent.extend(self.upstream.as_ref().map(|upstream| ("upstream".to_owned(), json!(upstream))));
        if let Some(upstream) = &self.talk {
            let mut talk = Map::from_iter([("upstream".to_owned(), json!(upstream))]);
            talk.extend(self.dialect.as_ref().map(|dialect| ("dialect".to_owned(), json!(dialect))));
            talk.extend(self.model.as_ref().map(|model| ("model".to_owned(), json!(model))));
            agent.insert("talk".to_owned(), Value::Object(talk));
        }
        if self.upstream.is_some() {
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
