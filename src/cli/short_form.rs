//! The file that `serve --upstream` and `serve --talk` stand for.

use serde_json::{Map, Value, json};

/// What was typed in place of a file.
#[derive(Debug)]
pub(super) struct ShortForm {
    pub upstream: Option<String>,
    pub talk: Option<String>,
    pub dialect: Option<String>,
    pub model: Option<String>,
}

/// Every path of the service, with each method that an agent has.
const METHODS: [&str; 4] = ["GET", "POST", "PUT", "DELETE"];

impl ShortForm {
    pub(super) fn is_empty(&self) -> bool {
        self.upstream.is_none() && self.talk.is_none()
    }

    /// As an operator would write it.
    pub(super) fn to_yaml(&self) -> Result<String, serde_yaml::Error> {
        let mut agent = Map::new();
        agent.insert("name".into(), json!(self.upstream.as_ref().or(self.talk.as_ref())));
        if let Some(url) = &self.talk {
            let mut talk = Map::from_iter([("upstream".to_owned(), json!(url))]);
            for (key, value) in [("dialect", &self.dialect), ("model", &self.model)] {
                talk.extend(value.as_ref().map(|value| (key.to_owned(), json!(value))));
            }
            agent.insert("talk".into(), Value::Object(talk));
        }
        if let Some(url) = &self.upstream {
            agent.insert("upstream".into(), json!(url));
            let capability = |method: &&str| json!({"id": method.to_lowercase(), "method": method, "endpoint": "/{*path}"});
            agent.insert("capabilities".into(), METHODS.iter().map(capability).collect());
        }
        serde_yaml::to_string(&json!({"agent": agent}))
    }
}
