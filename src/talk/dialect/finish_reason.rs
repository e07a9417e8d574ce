//! Why a model stopped: what the services' many words for it mean.

/// What a finish reason means for a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Finish {
    /// The ordinary end; also every word that is not known.
    Ordinary,
    /// The limit of tokens or of the context cut the reply.
    Length,
    /// A filter cut it.
    Filter,
    /// The model wants a tool called.
    Tool,
    /// It failed.
    Error,
}

/// Words of all dialects; they do not contradict each other.
const WORDS: &[(Finish, &[&str])] = &[
    (
        Finish::Length,
        &[
            "length",
            "max_tokens",
            "MAX_TOKENS",
            "max_output_tokens",
            "max_messages",
            "model_context_window_exceeded",
            "model_length",
            "limit",
        ],
    ),
    (
        Finish::Filter,
        &[
            "content_filter",
            "content_filtered",
            "content-filter",
            "refusal",
            "guardrail_intervened",
            "SAFETY",
            "RECITATION",
            "LANGUAGE",
            "BLOCKLIST",
            "PROHIBITED_CONTENT",
            "SPII",
            "IMAGE_SAFETY",
            "MODEL_ARMOR",
        ],
    ),
    (Finish::Tool, &["tool_calls", "tool_use", "tool-calls", "function_call", "TOOL_CALL", "FUNCTION_CALL"]),
    (
        Finish::Error,
        &[
            "error",
            "ERROR",
            "TIMEOUT",
            "OTHER",
            "failed",
            "cancelled",
            "abort",
            "MALFORMED_FUNCTION_CALL",
            "UNEXPECTED_TOOL_CALL",
            "MALFORMED_RESPONSE",
            "malformed_model_output",
        ],
    ),
];

impl Finish {
    pub(crate) fn of(reason: Option<&str>) -> Self {
        let known = |reason| WORDS.iter().find(|(_, words)| words.contains(&reason));
        reason.and_then(known).map_or(Self::Ordinary, |(finish, _)| *finish)
    }
}
