//! `Tools`: the calls of one reply. They are hints for people; nothing is called here.

use serde_json::json;

use super::Event;
use super::tree::Tree;

/// Calls of one reply; further ones are not told.
const TOOLS_MAX: usize = 128;

/// The calls of one reply, in the order in which they opened.
#[derive(Debug, Default)]
pub(crate) struct Tools(Vec<Tool>);

#[derive(Debug)]
struct Tool {
    key: String,
    name: String,
    open: bool,
}

impl Tools {
    /// A piece of a call: it opens with its first name, and arguments follow. Calls differ by key; a piece without a
    /// key belongs to the call before it, or opens one.
    pub(crate) fn piece(
        &mut self,
        key: Option<&Tree<'_>>,
        name: Option<String>,
        args: Option<String>,
        events: &mut Vec<Event>,
    ) {
        let key = match (key, &name, self.0.last()) {
            (Some(key), _, _) => key.to_string(),
            (None, None, Some(last)) => last.key.clone(),
            (None, _, _) => format!("#{}", self.0.len()),
        };
        let mut known = self.0.iter().any(|tool| tool.key == key);
        if let Some(name) = name.filter(|_| !known && self.0.len() < TOOLS_MAX) {
            events.push(Event::hint("tool.start", [("name", json!(name))]));
            self.0.push(Tool { key, name, open: true });
            known = true;
        }
        if let Some(args) = args.filter(|args| known && !args.is_empty()) {
            events.push(Event::hint("tool.delta", [("text", json!(args))]));
        }
    }

    /// A call is done.
    pub(crate) fn end(&mut self, key: &Tree<'_>, events: &mut Vec<Event>) {
        let key = key.to_string();
        let open = self.0.iter_mut().filter(|tool| tool.open && tool.key == key);
        open.for_each(|tool| tool.end(events));
    }

    /// The reply is over, and with it every call.
    pub(crate) fn end_all(&mut self, events: &mut Vec<Event>) {
        self.0.iter_mut().filter(|tool| tool.open).for_each(|tool| tool.end(events));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Tool {
    fn end(&mut self, events: &mut Vec<Event>) {
        self.open = false;
        events.push(Event::hint("tool.end", [("name", json!(self.name))]));
    }
}
