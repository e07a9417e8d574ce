//! Room among the capabilities of an agent for those that a document brings: what is written by hand, and what came
//! before, stays.

use std::collections::{HashMap, HashSet};

use super::agent::Draft;
use crate::capability::{Capability, Pattern, Settings};

/// Where agents are: host and base path of each.
pub(super) type Bases = HashSet<(Option<String>, String)>;

/// What an agent has already.
#[derive(Debug)]
pub(super) struct Room {
    ids: HashSet<String>,
    shapes: HashMap<(String, http::Method), String>,
}

impl Room {
    /// What is left beside what this agent has.
    pub(super) fn of(draft: &Draft<'_>) -> Self {
        let all = &draft.agent.capabilities;
        let shape = |one: &Settings| ((shape(&one.endpoint), one.method.clone()), one.id.clone());
        Self { ids: all.iter().map(|one| one.id.clone()).collect(), shapes: all.iter().map(shape).collect() }
    }

    /// Gives the agent another capability, or says why it can't have it.
    pub(super) fn take(&mut self, draft: &mut Draft<'_>, settings: Settings, bases: &Bases) -> Result<(), String> {
        let key = (shape(&settings.endpoint), settings.method.clone());
        if self.ids.contains(&settings.id) {
            return Err(format!("there is a capability `{}` already", settings.id));
        }
        if let Some(other) = self.shapes.get(&key) {
            return Err(format!("`{other}` answers at its endpoint"));
        }
        if let Some(base) = enters(draft, &settings.endpoint, bases) {
            return Err(format!("another agent answers at {base}"));
        }
        if let Err(problems) = Capability::new(settings.clone()) {
            return Err(problems.first().map(ToString::to_string).unwrap_or_default());
        }
        self.ids.insert(settings.id.clone());
        self.shapes.insert(key, settings.id.clone());
        draft.agent.capabilities.push(settings);
        Ok(())
    }
}

/// The base of another agent that an endpoint leads into.
fn enters(draft: &Draft<'_>, endpoint: &str, bases: &Bases) -> Option<String> {
    let mut at = (draft.agent.host.clone(), draft.agent.base_path.clone());
    for segment in endpoint.split('/').skip(1) {
        at.1.push('/');
        at.1.push_str(segment);
        if bases.contains(&at) {
            return Some(at.1);
        }
    }
    None
}

fn shape(endpoint: &str) -> String {
    match endpoint.parse::<Pattern>() {
        Ok(pattern) => {
            pattern.names().iter().fold(endpoint.to_owned(), |text, name| text.replace(&format!("{{{name}}}"), "{}"))
        }
        Err(_) => endpoint.to_owned(),
    }
}
