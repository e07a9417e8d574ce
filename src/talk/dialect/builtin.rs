//! The list of dialects that every gateway knows. A new one is a file in `builtin/` and a line here.

use serde_json::Value;

const FILES: &[(&str, &str)] = &[
    ("openai-chat", include_str!("builtin/openai-chat.yaml")),
    ("openai-responses", include_str!("builtin/openai-responses.yaml")),
    ("openai-responses-stateless", include_str!("builtin/openai-responses-stateless.yaml")),
    ("anthropic", include_str!("builtin/anthropic.yaml")),
    ("gemini", include_str!("builtin/gemini.yaml")),
    ("gemini-array", include_str!("builtin/gemini-array.yaml")),
    ("ollama-chat", include_str!("builtin/ollama-chat.yaml")),
    ("ollama-generate", include_str!("builtin/ollama-generate.yaml")),
    ("cohere-v2", include_str!("builtin/cohere-v2.yaml")),
    ("bedrock-converse", include_str!("builtin/bedrock-converse.yaml")),
    ("tgi-generate", include_str!("builtin/tgi-generate.yaml")),
    ("llamacpp-completion", include_str!("builtin/llamacpp-completion.yaml")),
    ("vercel-ui", include_str!("builtin/vercel-ui.yaml")),
    ("langserve", include_str!("builtin/langserve.yaml")),
    ("langgraph", include_str!("builtin/langgraph.yaml")),
    ("dify", include_str!("builtin/dify.yaml")),
    ("rasa-rest", include_str!("builtin/rasa-rest.yaml")),
    ("botpress-converse", include_str!("builtin/botpress-converse.yaml")),
    ("flowise", include_str!("builtin/flowise.yaml")),
    ("n8n-chat", include_str!("builtin/n8n-chat.yaml")),
    ("a2a-1.0", include_str!("builtin/a2a-1.0.yaml")),
    ("a2a-0.3", include_str!("builtin/a2a-0.3.yaml")),
    ("restap", include_str!("builtin/restap.yaml")),
    ("text", include_str!("builtin/text.yaml")),
    ("json", include_str!("builtin/json.yaml")),
];

/// The names, in the order of the list.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|(name, _)| *name)
}

/// The file of a dialect.
pub(crate) fn source(name: &str) -> Option<Value> {
    let (_, file) = FILES.iter().find(|(known, _)| *known == name)?;
    serde_yaml::from_str(file).ok()
}
