//! `Tools`: the calls of one reply. They are hints for people; nothing is called here.

use serde_json::json;

use super::Event;
use super::tree::Tree;

/// Calls of one reply; further ones are not told.
const TOOLS_MAX: usize = 128;
/// Bytes of a call's key and of its name; a call with longer ones is not told.
const NAME_MAX: usize = 1024;

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
        let opens = !known && self.0.len() < TOOLS_MAX && key.len() <= NAME_MAX;
        if let Some(name) = name.filter(|name| opens && name.len() <= NAME_MAX) {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn told(pieces: &[(Option<&str>, Option<&str>, Option<&str>)]) -> Vec<Event> {
        let mut tools = Tools::default();
        let mut events = Vec::new();
        for (key, name, args) in pieces {
            let key = key.map(|key| Tree::Text(key.into()));
            tools.piece(key.as_ref(), name.map(str::to_owned), args.map(str::to_owned), &mut events);
        }
        tools.end_all(&mut events);
        events
    }

    #[test]
    fn calls_without_keys_do_not_merge() {
        let told = told(&[(None, Some("f"), Some("{}")), (None, Some("g"), None), (None, None, Some("{}"))]);
        let names: Vec<&str> =
            told.iter().map(|event| if let Event::Hint { name, .. } = event { *name } else { "" }).collect();
        assert_eq!(names, ["tool.start", "tool.delta", "tool.start", "tool.delta", "tool.end", "tool.end"]);
    }

    #[test]
    fn arguments_of_a_call_that_never_opened_are_not_told() {
        assert_eq!(told(&[(Some("a"), None, Some("{}")), (None, None, Some("{}"))]), []);
    }

    #[test]
    fn calls_are_bounded() {
        let long = "x".repeat(NAME_MAX + 1);
        assert_eq!(told(&[(Some(&long), Some("f"), None), (Some("k"), Some(&long), None)]), []);
        let keys: Vec<String> = (0..TOOLS_MAX + 10).map(|key| key.to_string()).collect();
        let many: Vec<_> = keys.iter().map(|key| (Some(key.as_str()), Some("f"), None)).collect();
        assert_eq!(told(&many).len(), TOOLS_MAX * 2);
    }
}
