//! An event stream as a caller reads it: frame by frame, keep-alives apart.

use serde_json::Value;

/// One event.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Frame {
    pub event: String,
    pub data: Value,
}

impl Frame {
    /// `message.delta`'s text.
    pub(crate) fn text(&self) -> &str {
        self.data["text"].as_str().unwrap_or_default()
    }
}

/// What a stream held.
#[derive(Debug, Default)]
pub(crate) struct Events {
    pub frames: Vec<Frame>,
    /// Lines that are comments.
    pub keep_alives: usize,
}

impl Events {
    /// Reads whole frames, and holds them to the form that every caller can read: LF alone, one `data` line,
    /// the event's name repeated inside it.
    pub(crate) fn parse(text: &str) -> Self {
        assert!(!text.contains('\r'), "an event stream has LF alone: {text:?}");
        let mut events = Self::default();
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            if line.starts_with(':') {
                assert_eq!(line, ": keep-alive");
                events.keep_alives += 1;
                continue;
            }
            let event = line.strip_prefix("event: ").unwrap_or_else(|| panic!("no event line: {line:?} in {text:?}"));
            let data = lines.next().and_then(|line| line.strip_prefix("data: ")).unwrap_or_else(|| panic!("{text:?}"));
            assert_eq!(lines.next(), Some(""), "a frame ends with one empty line: {text:?}");
            let data: Value = serde_json::from_str(data).unwrap();
            assert_eq!(data["event"], event);
            events.frames.push(Frame { event: event.to_owned(), data });
        }
        events
    }

    /// The events' names, in order.
    pub(crate) fn names(&self) -> Vec<&str> {
        self.frames.iter().map(|frame| frame.event.as_str()).collect()
    }

    /// What the deltas say together.
    pub(crate) fn text(&self) -> String {
        self.frames.iter().filter(|frame| frame.event == "message.delta").map(Frame::text).collect()
    }

    /// The data of the only event of that name.
    pub(crate) fn only(&self, event: &str) -> &Value {
        let mut named = self.frames.iter().filter(|frame| frame.event == event);
        let only = named.next().unwrap_or_else(|| panic!("no {event} in {self:?}"));
        assert!(named.next().is_none(), "more than one {event} in {self:?}");
        &only.data
    }
}
