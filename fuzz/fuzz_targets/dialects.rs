//! Dialects: whatever a service answers, its caller sees one whole answer, and nothing panics.
#![no_main]

use std::sync::Arc;
use std::time::Instant;

use http::{HeaderMap, StatusCode};
use libfuzzer_sys::fuzz_target;
use restap_gateway::restap::Delivery;
use restap_gateway::talk::turn::{Carries, Timers};
use restap_gateway::talk::{Dialect, Ending, Opening, Step, Turn};

const NAMES: [&str; 12] = [
    "openai-chat", "openai-responses", "anthropic", "gemini", "ollama-chat", "cohere-v2", "bedrock-converse", "langgraph",
    "dify", "a2a-1.0", "restap", "json",
];

fuzz_target!(|input: (u8, bool, bool, u16, &[u8])| {
    let (which, streamed, stream, at, bytes) = input;
    let name = NAMES[usize::from(which) % NAMES.len()];
    let Some(dialect) = Dialect::built_in(name) else { return };
    let now = Instant::now();
    let mut turn = Turn::begin(
        Opening {
            dialect: Arc::new(dialect),
            streamed,
            delivery: if stream { Delivery::Stream } else { Delivery::Json },
            message_id: "msg_1".into(),
            session_id: None,
            timers: Timers::default(),
            reply_limit: 1 << 16,
            carries: Carries::Nothing,
            saved: restap_gateway::talk::Saved::default(),
            credential: None,
        },
        now,
    );
    let (one, two) = bytes.split_at(usize::from(at) % (bytes.len() + 1));
    let mut steps = vec![turn.head(StatusCode::OK, &HeaderMap::new(), now)];
    steps.push(turn.chunk(one, now));
    steps.push(turn.chunk(two, now));
    steps.push(turn.end(now));
    let _: Vec<Step> = steps;
    let _ = std::any::type_name::<Ending>();
});
