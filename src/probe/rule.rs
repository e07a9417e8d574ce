//! The rules as data: what the text says, how strongly, where, and the line of gateway.yaml with which a gateway keeps it.

/// How strongly the text speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// MUST, REQUIRED, or the definition of a thing: who breaks it can't be used by who relies on it.
    Must,
    /// SHOULD, or a form that the text shows without demanding it: a warning.
    Should,
}

impl Level {
    /// As the text spells it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Must => "MUST",
            Self::Should => "SHOULD",
        }
    }
}

/// One rule of the text.
#[derive(Debug)]
pub struct Rule {
    /// Never renamed: CI looks for it.
    pub id: &'static str,
    /// How strongly the text speaks.
    pub level: Level,
    /// The heading of the text under which it stands.
    pub section: &'static str,
    /// What has to hold.
    pub says: &'static str,
    /// A whole line of gateway.yaml that keeps the rule where the gateway stands before a service.
    pub mend: &'static str,
}

macro_rules! rules {
    ($($name:ident $level:ident $id:literal, $section:expr, $says:literal, $mend:expr;)*) => {
        $(pub(super) static $name: Rule =
            Rule { id: $id, level: Level::$level, section: $section, says: $says, mend: $mend };)*

        /// Every rule, in the order in which it is reported.
        pub static ALL: &[&Rule] = &[$(&$name),*];
    };
}

const MINIMAL: &str = "Minimal Endpoint Set";
const TERMS: &str = "Key Concepts and Terms";
const DOCUMENT: &str = "The Catalog Document";
const FIELDS: &str = "Capability Fields";
const NEGOTIATION: &str = "Content negotiation";
const VOCABULARY: &str = "SSE event vocabulary for /talk";
const WIRE: &str = "SSE wire format";
const SESSIONS: &str = "Sessions (optional)";
const DIFFERENCE: &str = "Key Difference: /talk vs /news";
const READING: &str = "Reading from /news (GET)";
const WRITING: &str = "Writing to /news (POST)";
const SECURITY: &str = "Security";

const AGENT: &str = "agent: {name: My agent}";
const CAPABILITY: &str = "agent: {name: My agent, upstream: http://127.0.0.1:5000, capabilities: [{id: orders.list, method: GET, endpoint: /orders}]}";
const SCHEMA: &str = "agent: {name: My agent, upstream: http://127.0.0.1:5000, capabilities: [{id: orders.new, method: POST, endpoint: /orders, input_schema: {type: object}}]}";
const OUTPUT: &str = "agent: {name: My agent, upstream: http://127.0.0.1:5000, capabilities: [{id: orders.list, method: GET, endpoint: /orders, output_schema: {type: object}, validate: {response: enforce}}]}";
const PACKAGES: &str = "agent: {name: My agent, packages: [{name: My SDK, type: npm-package}]}";
const PROTOCOLS: &str = "agent: {name: My agent, protocols: {mcp: {available: true, endpoint: /mcp}}}";
const TALK: &str = "agent: {name: My agent, talk: {upstream: http://127.0.0.1:5000, dialect: restap}}";
const STREAMING: &str =
    "agent: {name: My agent, talk: {upstream: http://127.0.0.1:5000, dialect: restap, streaming: true}}";
const HISTORY: &str =
    "agent: {name: My agent, talk: {upstream: http://127.0.0.1:5000, model: my-model, history: {turns: 20}}}";
const NEWS: &str = "agent: {name: My agent, news: {sessions: optional}}";
const SCOPED: &str = "agent: {name: My agent, news: {sessions: required}}";
const TLS: &str = "listen: {address: \":443\", tls: {cert: cert.pem, key: key.pem}}";

rules! {
    CATALOG_SERVED Must "catalog.served", MINIMAL, "GET /.well-known/restap.json answers with the catalog", AGENT;
    CATALOG_JSON Must "catalog.json", TERMS, "the catalog is a JSON document, and an object", AGENT;
    CATALOG_TYPE Should "catalog.content_type", TERMS, "the catalog says that it is application/json", AGENT;
    CATALOG_VERSION Should "catalog.version", DOCUMENT, "restap_version is a text", AGENT;
    CATALOG_AGENT Should "catalog.agent", DOCUMENT, "agent says at least a name", AGENT;
    CATALOG_CAPABILITIES Must "catalog.capabilities", DOCUMENT, "capabilities is an array of objects", CAPABILITY;
    CATALOG_IDS Must "catalog.ids", FIELDS, "every capability has an id", CAPABILITY;
    CATALOG_UNIQUE Must "catalog.ids_unique", FIELDS, "no id stands twice", CAPABILITY;
    CATALOG_METHODS Must "catalog.methods", TERMS, "every capability specifies its HTTP method", CAPABILITY;
    CATALOG_KNOWN_METHODS Should "catalog.methods_known", FIELDS, "methods are GET, POST, PUT or DELETE", CAPABILITY;
    CATALOG_ENDPOINTS Must "catalog.endpoints", TERMS, "every capability specifies its endpoint, a path", CAPABILITY;
    CATALOG_FIXED Must "catalog.fixed_endpoints", MINIMAL, "talk is POST /talk, and news are GET and POST /news", AGENT;
    CATALOG_TEXTS Must "catalog.texts", FIELDS, "titles and descriptions are texts, content types and formats arrays of texts", CAPABILITY;
    CATALOG_SCHEMAS Must "catalog.schemas", FIELDS, "input and output schemas are JSON Schemas", SCHEMA;
    CATALOG_STREAMING Must "catalog.streaming", FIELDS, "streaming says supported, and if so transport sse and the five required events", STREAMING;
    CATALOG_FORMATS Should "catalog.output_formats", FIELDS, "output_formats of talk and streaming.supported agree", STREAMING;
    CATALOG_SESSIONS Must "catalog.sessions", FIELDS, "sessions says supported, and required where news need a session, as booleans", HISTORY;
    CATALOG_PACKAGES Must "catalog.packages", DOCUMENT, "every package has a name and a type", PACKAGES;
    CATALOG_PROTOCOLS Must "catalog.protocols", "Top-Level protocols Field", "every protocol says available, and its endpoint is a text", PROTOCOLS;
    SECURITY_HTTPS Should "security.https", SECURITY, "HTTPS is used for all requests", TLS;
    TALK_SERVED Must "talk.served", MINIMAL, "POST /talk takes a message and answers", TALK;
    TALK_JSON Must "talk.default_json", NEGOTIATION, "without Accept the answer is application/json", TALK;
    TALK_REPLY Must "talk.reply", SESSIONS, "the JSON answer has its text in reply, or a query_id where it comes later", TALK;
    TALK_INPUT Should "talk.invalid_input", SECURITY, "a body without a message, or that is no JSON, is refused with 4xx", TALK;
    TALK_ERRORS Should "talk.error_shape", SESSIONS, "a refusal is JSON with a code in error", TALK;
    SESSION_MINTED Must "session.minted", FIELDS, "with sessions.supported a session_id is minted and returned", HISTORY;
    SESSION_FORMAT Must "session.format", SESSIONS, "a minted session_id matches ^[A-Za-z0-9._-]{16,128}$", HISTORY;
    SESSION_ENTROPY Must "session.entropy", SESSIONS, "a minted session_id has 122 bits of entropy", HISTORY;
    SESSION_INVALID Must "session.invalid", SESSIONS, "a malformed session_id is 400 invalid_session_id", HISTORY;
    SESSION_INVALID_SSE Must "session.invalid_sse", SESSIONS, "it is the same error for who wants a stream", HISTORY;
    SESSION_ANY_SHAPE Must "session.any_shape", SESSIONS, "every session_id within the bounds is taken, whatever its shape", HISTORY;
    STREAM_NEGOTIATED Must "stream.negotiated", NEGOTIATION, "Accept: text/event-stream is answered with a stream, or with 406", STREAMING;
    STREAM_FRAMES Must "stream.frames", WIRE, "every frame has an event line and a data line with a JSON object", STREAMING;
    STREAM_START Must "stream.start", VOCABULARY, "a message begins with message.start and its id", STREAMING;
    STREAM_DELTA Must "stream.delta", VOCABULARY, "at least one message.delta follows, each with the id and a text", STREAMING;
    STREAM_END Must "stream.end", VOCABULARY, "a message is ended once, by message.end with its id", STREAMING;
    STREAM_ERROR Must "stream.error", VOCABULARY, "an error frame says what happened in message", STREAMING;
    STREAM_DONE Must "stream.done", VOCABULARY, "done ends the stream: once, and nothing after it", STREAMING;
    STREAM_EVENT Should "stream.event_member", WIRE, "event inside of the data is the frame's own name", STREAMING;
    STREAM_DECLARED Should "stream.declared", FIELDS, "streaming.events lists the events that come", STREAMING;
    STREAM_SESSION Must "stream.session", SESSIONS, "a minted session_id stands on message.start and on done", HISTORY;
    NEWS_READ Must "news.read", MINIMAL, "GET /news answers with JSON that has an array items", NEWS;
    NEWS_ITEMS Should "news.items", "End to End Example Flow", "every item has a type and a timestamp in milliseconds", NEWS;
    NEWS_DECLARED Must "news.sessions_declared", SESSIONS, "who requires a session on /news says so in the catalog", SCOPED;
    NEWS_MISSING Must "news.missing_session", SESSIONS, "who requires a session answers 400 missing_session_id without one", SCOPED;
    NEWS_HEADER Should "news.session_header", SESSIONS, "scoped news take the session from Restap-Session-Id", SCOPED;
    NEWS_PRECEDENCE Must "news.header_precedence", SESSIONS, "the header beats the query parameter", SCOPED;
    NEWS_INVALID Must "news.invalid_session", SESSIONS, "a malformed session_id is 400 invalid_session_id on /news too", SCOPED;
    NEWS_POST Must "news.post", WRITING, "POST /news takes an item and answers with 2xx", NEWS;
    NEWS_SILENT Must "news.never_replies", DIFFERENCE, "POST /news sends no reply", NEWS;
    NEWS_STORED Should "news.stored", WRITING, "what was posted can be read", NEWS;
    NEWS_KEPT Must "news.read_only", READING, "reading changes nothing: the same item is there again", NEWS;
    NEWS_SINCE Must "news.since", READING, "since leaves out what is not newer", NEWS;
    NEWS_STREAM Must "news.never_streams", "Streaming /talk responses (optional)", "/news never streams, whatever Accept says", NEWS;
    NEWS_SCOPED Must "news.scoped", SESSIONS, "with a required session, one session's item is not shown to another", SCOPED;
    CAPABILITY_REACHED Must "capability.reached", TERMS, "a capability is an endpoint that can be called: safe GETs are answered", CAPABILITY;
    CAPABILITY_OUTPUT Should "capability.output", FIELDS, "output_schema describes the answer", OUTPUT;
}
