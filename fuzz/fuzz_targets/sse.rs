//! Event streams: what is read does not depend on where the bytes are cut.
#![no_main]

use libfuzzer_sys::fuzz_target;
use restap_gateway::sse::Decoder;

fn frames(parts: &[&[u8]]) -> Vec<String> {
    let mut decoder = Decoder::new(1 << 12);
    let mut frames = Vec::new();
    for part in parts {
        let mut input = *part;
        while let Ok(Some(frame)) = decoder.next(&mut input) {
            frames.push(format!("{frame:?}"));
        }
        if !input.is_empty() {
            frames.push("too long".to_owned());
            return frames;
        }
    }
    frames.extend(decoder.finish().map(|frame| format!("{frame:?}")));
    frames
}

fuzz_target!(|input: (u16, &[u8])| {
    let (at, bytes) = input;
    let whole = frames(&[bytes]);
    let (one, two) = bytes.split_at(usize::from(at) % (bytes.len() + 1));
    assert_eq!(frames(&[one, two]), whole);
});
