//! An upstream's way of talking, as data: how a prompt becomes its request, and how its reply is read.
//!
//! A dialect is a YAML file in `builtin/`, or a mapping in gateway.yaml, in one small vocabulary. It is compiled once
//! at load; nothing is looked up by name per event.

mod builtin;
mod compile;
mod problem;
mod request;
mod template;

mod block;
mod matcher;
mod pointer;
mod rule;

mod decoder;
mod event;
mod event_stream;
mod fault;
mod finish_reason;
mod http_error;
mod json;
mod reply;
mod sequence;
mod sniff;
mod thoughts;
mod tools;
mod tree;
mod unpack;
mod utf8;

use serde_json::{Map, Value};

pub(crate) use block::{Block, Framing, NamePlace};
pub(crate) use decoder::Decoder;
pub(crate) use event::Event;
pub(crate) use fault::Fault;
pub(crate) use http_error::{ErrorReply, UpstreamHead};

pub use problem::Problem;
pub use request::{Prompt, Rendered, Unrenderable};

use problem::Problems;
use request::Request;
use rule::Emit;
use template::Name;
use thoughts::Tags;

/// Values that an upstream gave for the next turn of the same conversation, by slot. Opaque to the store.
pub type Saved = Map<String, Value>;

/// How an upstream knows that two turns belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conversation {
    /// It does not; what it is to remember goes with the request as history.
    None,
    /// By a key that the gateway derives from the session.
    Derived,
    /// By a value that it gave with an earlier reply ([`Saved`]).
    Minted,
}

/// An upstream's way of talking, compiled.
#[derive(Debug)]
pub struct Dialect {
    conversation: Conversation,
    /// What the model thinks stands between these, in front of its reply.
    tags: Option<Tags>,
    request: Request,
    stream: Option<Block>,
    response: Block,
}

impl Dialect {
    /// A dialect of the list, by name.
    pub fn built_in(name: &str) -> Option<Self> {
        // A test compiles every file of the list.
        compile::compile(&builtin::source(name)?).ok()
    }

    /// The names of the list, in its order.
    pub fn names() -> impl Iterator<Item = &'static str> {
        builtin::names()
    }

    /// The operator's own: a mapping in the vocabulary of the files.
    ///
    /// # Errors
    /// Everything that is wrong in it: unknown keys and names, bad pointers, rules that can never fire.
    pub fn compile(mapping: &Value) -> Result<Self, Vec<Problem>> {
        compile::compile(mapping)
    }

    /// The same dialect with the operator's `path:` in place of its own, for streams too.
    ///
    /// # Errors
    /// The path does not start with a slash, or holds an unknown `{{name}}`.
    pub fn with_path(mut self, path: &str) -> Result<Self, Vec<Problem>> {
        let mut problems = Problems::default();
        self.request.set_path(path, &mut problems);
        let problems = problems.into_vec();
        if problems.is_empty() { Ok(self) } else { Err(problems) }
    }

    /// How the upstream knows that two turns belong together.
    pub fn conversation(&self) -> Conversation {
        self.conversation
    }

    /// Whether earlier exchanges go with a request.
    pub fn takes_history(&self) -> bool {
        self.request.takes_history()
    }

    /// Whether a system prompt has a place in the request. If not, news stand in front of the message.
    pub fn takes_system(&self) -> bool {
        self.request.takes_system()
    }

    /// Whether a model has a place in the request.
    pub fn takes_model(&self) -> bool {
        self.request.uses(|name| *name == Name::Model)
    }

    /// Whether the request can't be sent without a model.
    pub fn needs_model(&self) -> bool {
        self.request.path_uses(|name| *name == Name::Model)
    }

    /// Whether an `api_key:` has a place in the request.
    pub fn takes_credential(&self) -> bool {
        self.request.uses(|name| *name == Name::Credential)
    }

    /// Whether the upstream can stream.
    pub fn streams(&self) -> bool {
        self.stream.is_some()
    }

    /// The optional events of the protocol that its replies may bring, in the protocol's order.
    pub fn hints(&self) -> Vec<&'static str> {
        let blocks = [self.stream.as_ref(), Some(&self.response)];
        let rules = || blocks.into_iter().flatten().flat_map(|block| &block.rules);
        let any = |wanted: fn(&Emit) -> bool| rules().any(|rule| wanted(&rule.emit) || rule.emit == Emit::Pass);
        let mut hints = Vec::new();
        if any(|emit| matches!(emit, Emit::Status { .. })) {
            hints.push("status");
        }
        if any(|emit| matches!(emit, Emit::Tool { .. })) {
            hints.extend(["tool.start", "tool.delta", "tool.end"]);
        }
        if any(|emit| matches!(emit, Emit::Artifact { .. })) {
            hints.push("artifact");
        }
        hints
    }

    /// The request for a prompt.
    ///
    /// # Errors
    /// The path needs a value that there is none of, or a value can't stand in a header.
    pub fn request(&self, prompt: &Prompt<'_>) -> Result<Rendered, Unrenderable> {
        let stream = self.stream.as_ref().filter(|_| prompt.stream);
        let framing = stream.unwrap_or(&self.response).framing;
        self.request.render(&Prompt { stream: stream.is_some(), ..*prompt }, framing)
    }

    /// How a reply is read that was asked for in this way.
    pub(crate) fn block(&self, streamed: bool) -> &Block {
        self.stream.as_ref().filter(|_| streamed).unwrap_or(&self.response)
    }
}

#[cfg(test)]
mod tests;
