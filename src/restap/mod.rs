//! The RESTAP protocol as plain types: what its texts name, and nothing that does I/O.

pub mod accept;
pub mod catalog;
pub mod error_code;
pub mod event;
pub mod hop_count;
pub mod news;
pub mod prefer;
pub mod session_id;
pub mod talk;

pub use accept::{Delivery, NotAcceptable};
pub use catalog::{Capability, Catalog};
pub use error_code::ErrorCode;
pub use event::TalkEvent;
pub use hop_count::HopCount;
pub use news::{NewsDraft, NewsItem, Since};
pub use prefer::Prefer;
pub use session_id::SessionId;
pub use talk::TalkRequest;

/// The version that a catalog announces as `restap_version`.
pub const RESTAP_VERSION: &str = "1.0";

/// Where every agent's catalog is, under its base URL.
pub const CATALOG_PATH: &str = "/.well-known/restap.json";

/// Where the text that teaches a model to use an agent is, under its base URL.
pub const SKILL_PATH: &str = "/.well-known/skill.md";

/// Where the whole entry of a capability is, under its base URL; the id follows.
pub const DETAIL_PATH: &str = "/.well-known/restap/capabilities/";

/// Where talk is, under every agent's base URL.
pub const TALK_PATH: &str = "/talk";

/// Where news are, under every agent's base URL.
pub const NEWS_PATH: &str = "/news";

/// Where health is, under every agent's base URL.
pub const HEALTH_PATH: &str = "/health";

/// First segments under every agent's base URL that are its own.
pub const RESERVED_PATHS: [&str; 6] = ["talk", "news", "query", "health", "rest_request", ".well-known"];

/// The header that carries a session id (RESTAP, "Identifier format and entropy"), in lower case as HTTP/2 has it.
pub const SESSION_HEADER: &str = "restap-session-id";
