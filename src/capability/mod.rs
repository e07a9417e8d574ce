//! Capabilities: which one a request names, and what the service behind it is asked.

pub mod flat;
pub mod headers;
pub mod receive;
pub mod send;
pub mod settings;
pub mod validate;

mod body;
mod coerce;
mod entry;
#[cfg(test)]
mod fixture;
mod jq;
mod json;
mod location;
mod media_type;
mod params;
mod path;
mod pattern;
mod query;
mod rewrite;
mod service;
mod style;
mod table;
mod template;
mod trie;

pub use body::Received;
pub use entry::{Body, Capability, CapabilityError};
pub use headers::{request_headers, response_headers};
pub use jq::{Effort, Jq, JqError, Limit, Val, Variables};
pub use location::Return;
pub use params::Params;
pub use path::{InvalidPath, NormalPath};
pub use pattern::{InvalidPattern, Pattern, PatternProblem};
pub use rewrite::Target;
pub use service::{CookiePolicy, InvalidService, Service};
pub use settings::{Route, Settings};
pub use table::{Allow, Found, Table};
pub use template::InvalidTemplate;
