//! `Reply`: the rules of a dialect applied to the frames of one reply.

use std::ops::ControlFlow;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::fault::{Fault, excerpt};
use super::finish_reason::Finish;
use super::json::{Surrogates, unmarked};
use super::pointer::Pointer;
use super::rule::{CONVERSATION, Emit, Mode, Rule};
use super::thoughts::{Tags, Thoughts};
use super::tools::Tools;
use super::tree::Tree;
use super::{Block, Dialect, Event, Saved};
use crate::restap::ErrorCode;
use crate::talk::Failure;

/// Texts of one reply that come as snapshots.
const SNAPSHOTS_MAX: usize = 128;
/// Bytes of a value for the next turn; a larger one is not kept.
const SAVED_MAX: usize = 256 << 10;
/// Token counts, and their bytes as JSON; more are not told.
const USAGE_KEYS_MAX: usize = 64;
const USAGE_MAX: usize = 4 << 10;

/// The hints of the protocol that a RESTAP upstream may pass on, and the fields that they keep.
const HINTS: &[&str] = &["status", "tool.start", "tool.delta", "tool.end", "artifact"];
const HINT_FIELDS: &[&str] = &["text", "message", "name", "url", "media_type"];

/// One reply, as far as it was read.
#[derive(Debug)]
pub(crate) struct Reply {
    dialect: Arc<Dialect>,
    /// Whether the rules for streams are the ones that apply.
    streamed: bool,
    state: State,
}

#[derive(Debug, Default)]
struct State {
    /// Bytes of text that a reply may have.
    limit: usize,
    text: String,
    surrogates: Surrogates,
    tags: Option<Tags>,
    thoughts: Thoughts,
    /// Text that counts only if there is no other.
    full: String,
    snapshots: Vec<(String, String)>,
    tools: Tools,
    reasoned: bool,
    complete: bool,
    stopped: bool,
    reason: Option<String>,
    detail: Option<String>,
    usage: Option<Map<String, Value>>,
    suggested_actions: Option<Value>,
    saved: Saved,
    pending: Option<String>,
}

/// One frame as the rules see it.
#[derive(Clone, Copy)]
struct Frame<'f> {
    name: Option<&'f str>,
    root: &'f Tree<'f>,
    /// Its strings may hold marks in place of surrogates.
    marked: bool,
}

impl Reply {
    pub(crate) fn new(dialect: Arc<Dialect>, streamed: bool, limit: usize, mut saved: Saved) -> Self {
        // Any other slot lives for one turn.
        saved.retain(|slot, _| slot == CONVERSATION);
        let tags = dialect.tags.clone();
        Self { dialect, streamed, state: State { limit, tags, saved, ..State::default() } }
    }

    /// Reads by the rules for streams, or for whole bodies, from now on.
    pub(crate) fn read_as(&mut self, streamed: bool) {
        self.streamed = streamed;
    }

    pub(crate) fn block(&self) -> &Block {
        self.dialect.block(self.streamed)
    }

    /// Applies the rules to a frame; `framed` is its name in the framing.
    pub(crate) fn frame(
        &mut self,
        framed: Option<&str>,
        root: &Tree<'_>,
        marked: bool,
        events: &mut Vec<Event>,
    ) -> Result<(), Fault> {
        let Self { dialect, streamed, state } = self;
        let block = dialect.block(*streamed);
        let frame = Frame { name: block.name(framed, Some(root)), root, marked };
        for rule in block.rules_for(frame.name) {
            if rule.when.hold(root) {
                state.apply(rule, frame, events)?;
            }
            if state.stopped {
                break;
            }
        }
        if state.complete { state.verdict() } else { Ok(()) }
    }

    /// A frame that has a name and no data. Whether any rule is for it.
    pub(crate) fn frame_without_data(&mut self, framed: Option<&str>, events: &mut Vec<Event>) -> Result<bool, Fault> {
        let Self { dialect, streamed, state } = self;
        let block = dialect.block(*streamed);
        let frame = Frame { name: block.name(framed, None), root: &Tree::Null, marked: false };
        let speaks = |rule: &&Rule| matches!(rule.emit, Emit::End { .. } | Emit::Error { .. });
        let mut rules = block.rules_for(frame.name).filter(|rule| rule.events.is_some() && rule.when.is_empty());
        match rules.find(speaks) {
            None => Ok(false),
            Some(rule) => {
                state.apply(rule, frame, events)?;
                state.verdict().map(|()| true)
            }
        }
    }

    /// A frame whose data is not what it should be, under a name that means an error.
    pub(crate) fn named_error(&self, framed: Option<&str>, data: &str) -> Option<Fault> {
        let block = self.block();
        let is_error = |rule: &Rule| rule.events.is_some() && matches!(rule.emit, Emit::Error { .. });
        let mut rules = block.rules_for(block.name(framed, None));
        rules.any(is_error).then(|| Fault::told(data, data))
    }

    /// Text of a reply that is nothing but text.
    pub(crate) fn plain(&mut self, text: &str, events: &mut Vec<Event>) -> Result<(), Fault> {
        self.state.say(text, false, events)
    }

    /// Proof of the end that is not in the rules: a sentinel.
    pub(crate) fn sentinel(&mut self) {
        self.state.complete = true;
        self.state.stopped = true;
    }

    /// Nothing more will be read. `clean` is whether the upstream closed as HTTP wants it, in no middle of a frame.
    pub(crate) fn finish(&mut self, clean: bool, events: &mut Vec<Event>) -> Result<(), Fault> {
        let eof_ok = self.block().eof_ok;
        let state = &mut self.state;
        if let Some(rest) = state.surrogates.rest() {
            state.say(rest.encode_utf8(&mut [0; 4]), false, events)?;
        }
        let full = std::mem::take(&mut state.full);
        state.tell_held(events)?;
        if state.text.is_empty() {
            state.say(&full, false, events)?;
            state.tell_held(events)?;
        }
        let proven = state.complete || (eof_ok && clean);
        if !proven {
            return Err(Fault::broken_off());
        }
        state.verdict()?;
        state.tools.end_all(events);
        Ok(())
    }

    /// Whether the end is proven.
    pub(crate) fn is_complete(&self) -> bool {
        self.state.complete
    }

    /// Whether nothing more is to be read.
    pub(crate) fn is_stopped(&self) -> bool {
        self.state.stopped
    }

    /// The query id under which the reply comes later.
    pub(crate) fn pending(&self) -> Option<&str> {
        self.state.pending.as_deref()
    }

    /// All text so far.
    pub(crate) fn text(&self) -> &str {
        &self.state.text
    }

    /// Why the upstream stopped, unless it was the ordinary end.
    pub(crate) fn finish_reason(&self) -> Option<&str> {
        let reason = self.state.reason.as_deref();
        reason.filter(|reason| Finish::of(Some(reason)) != Finish::Ordinary)
    }

    pub(crate) fn usage(&self) -> Option<Value> {
        self.state.usage.clone().map(Value::Object)
    }

    pub(crate) fn suggested_actions(&self) -> Option<&Value> {
        self.state.suggested_actions.as_ref()
    }

    /// What the next turn gives to the upstream.
    pub(crate) fn saved(&self) -> &Saved {
        &self.state.saved
    }
}

impl State {
    /// Applies a rule whose `event` and `if` hold.
    fn apply(&mut self, rule: &Rule, frame: Frame<'_>, events: &mut Vec<Event>) -> Result<(), Fault> {
        let mut result = Ok(());
        let _ = rule.each.each(frame.root, &mut |item| {
            if rule.filter.hold(item) {
                result = self.act(&rule.emit, item, frame, events);
            }
            if result.is_err() || self.stopped { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        result
    }

    fn act(&mut self, emit: &Emit, item: &Tree<'_>, frame: Frame<'_>, events: &mut Vec<Event>) -> Result<(), Fault> {
        let plain = |text: &str| unmarked(text, frame.marked);
        match emit {
            Emit::Text { value, mode, key, separator } => {
                if let Some(text) = first_text(value, item) {
                    match mode {
                        Mode::Delta => self.delta(text, separator, frame.marked, events)?,
                        Mode::Full => self.keep_full(&plain(text))?,
                        Mode::Snapshot => self.snapshot(text, first(key, item), frame.marked, events)?,
                        Mode::Replace => self.replace(&plain(text), events)?,
                    }
                }
            }
            Emit::Reasoning { value } => self.reasoned |= first_text(value, item).is_some(),
            Emit::Tool { key, name, args } => {
                let name = first(name, item).and_then(Tree::as_str).filter(|name| !name.is_empty());
                let args = first(args, item).map(|args| args.as_str().map_or_else(|| args.to_string(), str::to_owned));
                self.tools.piece(first(key, item), name.map(plain), args.as_deref().map(plain), events);
            }
            Emit::ToolEnd { key } => {
                if let Some(key) = first(key, item) {
                    self.tools.end(key, events);
                }
            }
            Emit::Status { value } => {
                if let Some(text) = first_text(value, item).filter(|text| !text.is_empty()) {
                    events.push(Event::hint("status", [("text", json!(plain(text)))]));
                }
            }
            Emit::Artifact { value, name } => {
                if let Some(url) = first(value, item).and_then(Tree::as_str) {
                    let media_type = first_text(name, item).map(plain);
                    events
                        .push(Event::hint("artifact", [("url", json!(plain(url))), ("media_type", json!(media_type))]));
                }
            }
            Emit::Pass => {
                if let Some(name) = HINTS.iter().find(|hint| Some(**hint) == frame.name) {
                    let field = |key: &&'static str| Some((*key, json!(plain(item.get(key)?.as_str()?))));
                    events.push(Event::hint(name, HINT_FIELDS.iter().filter_map(field)));
                }
            }
            Emit::Conversation { value, slot } => {
                if let Some(value) = first(value, item) {
                    self.save(slot, value);
                }
            }
            Emit::Usage { value, slot } => {
                if let Some(value) = first(value, item) {
                    self.count(slot.as_deref(), value);
                }
            }
            Emit::SuggestedActions { value } => {
                self.suggested_actions = first(value, item).map(Tree::to_value).or(self.suggested_actions.take());
            }
            Emit::Pending { value } => {
                self.pending = first_text(value, item).map(plain);
                self.stopped |= self.pending.is_some();
            }
            Emit::End { value, detail, stop } => {
                self.complete = true;
                self.stopped |= *stop;
                self.reason = first_text(value, item).map(plain).or(self.reason.take());
                self.detail = first_text(detail, item).map(plain).or(self.detail.take());
            }
            Emit::Error { value, default } => {
                let said = match first(value, item) {
                    None => default.as_deref().unwrap_or("it gives no reason").to_owned(),
                    Some(Tree::Text(text)) if text.is_empty() => "it gives no reason".to_owned(),
                    Some(Tree::Text(text)) => plain(text),
                    Some(other) => plain(&other.to_string()),
                };
                return Err(Fault::told(&said, &frame.root.to_string()));
            }
        }
        Ok(())
    }

    /// Whether a complete reply is one.
    fn verdict(&self) -> Result<(), Fault> {
        let finish = Finish::of(self.reason.as_deref());
        let because = || self.detail.as_deref().or(self.reason.as_deref()).map(excerpt).unwrap_or_default();
        let no_text =
            |message: String| Err(Fault { failure: Failure::new(ErrorCode::UpstreamNoText, message), again: None });
        let held = self.surrogates.holds() || self.thoughts.holds_text();
        let has_text = !self.text.is_empty() || !self.full.is_empty() || held;
        match finish {
            Finish::Error => match &self.detail {
                Some(detail) => Err(Fault::told(detail, detail)),
                None => Err(Fault::upstream(format!("the service behind this agent failed ({})", because()))),
            },
            _ if has_text => Ok(()),
            Finish::Filter => no_text(format!("the service behind this agent filtered its reply ({})", because())),
            Finish::Length if self.reasoned || self.thoughts.were_there() => {
                no_text(format!("the service behind this agent spent its whole length on reasoning ({})", because()))
            }
            Finish::Length => {
                no_text(format!("the service behind this agent reached its length before any text ({})", because()))
            }
            _ if finish == Finish::Tool || !self.tools.is_empty() => {
                no_text("the service behind this agent asked for a tool call in place of a reply".to_owned())
            }
            _ => Ok(()),
        }
    }

    fn say(&mut self, piece: &str, marked: bool, events: &mut Vec<Event>) -> Result<(), Fault> {
        let joined = self.surrogates.join(piece, marked);
        let said = match &self.tags {
            Some(tags) => self.thoughts.pass(tags, &joined),
            None => joined,
        };
        self.tell(said, events)
    }

    fn tell(&mut self, said: String, events: &mut Vec<Event>) -> Result<(), Fault> {
        if said.is_empty() {
            return Ok(());
        }
        self.bound(self.text.len() + said.len())?;
        self.text.push_str(&said);
        events.push(Event::Text(said));
        Ok(())
    }

    /// What might have become a tag and did not.
    fn tell_held(&mut self, events: &mut Vec<Event>) -> Result<(), Fault> {
        let held = self.thoughts.rest();
        self.tell(held, events)
    }

    fn delta(&mut self, text: &str, separator: &str, marked: bool, events: &mut Vec<Event>) -> Result<(), Fault> {
        if !separator.is_empty() && !text.is_empty() && !self.text.is_empty() {
            self.say(separator, false, events)?;
        }
        self.say(text, marked, events)
    }

    fn keep_full(&mut self, text: &str) -> Result<(), Fault> {
        self.bound(self.full.len() + text.len())?;
        self.full.push_str(text);
        Ok(())
    }

    fn snapshot(
        &mut self,
        text: &str,
        key: Option<&Tree<'_>>,
        marked: bool,
        events: &mut Vec<Event>,
    ) -> Result<(), Fault> {
        let key = key.map(Tree::to_string).unwrap_or_default();
        let kept: usize = self.snapshots.iter().map(|(key, text)| key.len() + text.len()).sum();
        self.bound(kept + key.len() + text.len())?;
        let known = self.snapshots.iter().position(|(known, _)| *known == key);
        let before = known.map(|index| self.snapshots.swap_remove(index).1).unwrap_or_default();
        if let Some(new) = text.strip_prefix(&*before) {
            self.say(new, marked, events)?;
        }
        if self.snapshots.len() < SNAPSHOTS_MAX {
            self.snapshots.push((key, text.to_owned()));
        }
        Ok(())
    }

    /// What was said can't be taken back in a stream: the new text follows it there, and is all the reply elsewhere.
    fn replace(&mut self, text: &str, events: &mut Vec<Event>) -> Result<(), Fault> {
        let text = match &self.tags {
            Some(tags) => &Thoughts::default().pass(tags, text),
            None => text,
        };
        if let Some(new) = text.strip_prefix(&*self.text) {
            return self.say(new, false, events);
        }
        self.say(&format!("\n\n{text}"), false, events)?;
        text.clone_into(&mut self.text);
        Ok(())
    }

    fn save(&mut self, slot: &str, value: &Tree<'_>) {
        if self.saved.get(slot).and_then(Value::as_str).is_some_and(|known| Some(known) == value.as_str()) {
            return;
        }
        let bytes = match value {
            Tree::Text(text) => text.len(),
            Tree::Array(_) | Tree::Object(_) => value.to_string().len(),
            _ => 0,
        };
        if bytes <= SAVED_MAX {
            self.saved.insert(slot.to_owned(), value.to_value());
        } else {
            self.saved.remove(slot);
        }
    }

    fn count(&mut self, slot: Option<&str>, value: &Tree<'_>) {
        if value.to_string().len() > USAGE_MAX {
            return;
        }
        let counts = match (slot, value.to_value()) {
            (None, Value::Object(counts)) => counts,
            (slot, count) => [(slot.unwrap_or("tokens").to_owned(), count)].into_iter().collect(),
        };
        let usage = self.usage.get_or_insert_default();
        for (key, count) in counts {
            if usage.len() < USAGE_KEYS_MAX || usage.contains_key(&key) {
                usage.insert(key, count);
            }
        }
    }

    fn bound(&self, bytes: usize) -> Result<(), Fault> {
        if bytes > self.limit {
            return Err(Fault::too_large(self.limit));
        }
        Ok(())
    }
}

/// The first place that holds something.
fn first<'v, 't>(places: &[Pointer], item: &'v Tree<'t>) -> Option<&'v Tree<'t>> {
    places.iter().filter_map(|place| place.first(item)).find(|value| !value.is_null())
}

/// The first place that holds a text.
fn first_text<'v>(places: &[Pointer], item: &'v Tree<'_>) -> Option<&'v str> {
    places.iter().find_map(|place| place.first(item)?.as_str())
}
