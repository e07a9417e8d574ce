//! `Sniff`: what a body is, by its first bytes. Labels lie; they only break ties.

use super::Framing;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// How an event stream can begin: its fields, a comment, and the stray lines of Flowise.
const FIELDS: &[&[u8]] = &[b"data:", b"event:", b"id:", b"retry:", b":", b"message:", b"message\n", b"message\r"];

/// Media types of JSON values in a row.
const SEQUENCES: &[&str] = &[
    "application/x-ndjson",
    "application/ndjson",
    "application/jsonl",
    "application/x-jsonlines",
    "application/stream+json",
];

/// Looks at the first bytes of a body until they say what it is. It keeps eight of them at most.
#[derive(Debug)]
pub(crate) struct Sniff {
    /// What the request asked for.
    asked: Framing,
    /// Whether the dialect could have streamed in place of a whole body.
    may_stream: bool,
    /// The media type says that values come in a row.
    labelled_sequence: bool,
    seen: Vec<u8>,
    after_mark: bool,
}

/// What a body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// As it was asked for.
    Asked,
    /// An event stream, read by the rules that were asked for.
    AskedAsEvents,
    /// An event stream although none was asked for, read by the rules for streams.
    Events,
    /// Values in a row where a stream or a body was asked for, read by the rules for streams.
    Sequence,
    /// One JSON body although a stream was asked for, read by the rules for bodies.
    Whole,
    /// A web page.
    Page,
}

impl Sniff {
    pub(crate) fn new(asked: Framing, may_stream: bool, content_type: &str) -> Self {
        let media_type = content_type.split(';').next().unwrap_or_default().trim();
        let labelled_sequence = SEQUENCES.iter().any(|known| media_type.eq_ignore_ascii_case(known));
        Self { asked, may_stream, labelled_sequence, seen: Vec::new(), after_mark: false }
    }

    /// Takes bytes off `input` until they suffice; white space in front of anything but text is dropped.
    pub(crate) fn push(&mut self, input: &mut &[u8]) -> Option<Shape> {
        if self.asked == Framing::Text && !self.may_stream {
            return Some(Shape::Asked);
        }
        while let Some((byte, rest)) = input.split_first() {
            if self.asked != Framing::Text && self.seen.is_empty() && byte.is_ascii_whitespace() {
                *input = rest;
                continue;
            }
            self.seen.push(*byte);
            *input = rest;
            if self.asked != Framing::Text && !self.after_mark && BYTE_ORDER_MARK.starts_with(&self.seen) {
                if self.seen.len() == BYTE_ORDER_MARK.len() {
                    self.after_mark = true;
                    self.seen.clear();
                }
                continue;
            }
            if let Some(shape) = self.shape() {
                return Some(shape);
            }
        }
        None
    }

    /// The bytes that it took off the input, once it has said what they are or the body ended.
    pub(crate) fn take_seen(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.seen)
    }

    fn shape(&self) -> Option<Shape> {
        let first = self.seen.first()?;
        let opens_json = matches!(first, b'{' | b'[');
        match self.asked {
            Framing::Text => {}
            _ if *first == b'<' => return Some(Shape::Page),
            Framing::Sse if opens_json && self.labelled_sequence => return Some(Shape::Sequence),
            Framing::Sse | Framing::AwsEventStream if opens_json => return Some(Shape::Whole),
            Framing::Sse | Framing::AwsEventStream => return Some(Shape::Asked),
            Framing::Json if opens_json && self.labelled_sequence && self.may_stream => return Some(Shape::Sequence),
            Framing::Json | Framing::JsonSeq => {}
        }
        if FIELDS.iter().any(|field| self.seen.starts_with(field)) {
            return Some(match self.asked {
                Framing::JsonSeq => Shape::AskedAsEvents,
                _ if self.may_stream => Shape::Events,
                _ => Shape::Asked,
            });
        }
        let may_become_events = FIELDS.iter().any(|field| field.starts_with(&self.seen));
        (!may_become_events).then_some(Shape::Asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The shape, and what of the body comes after the sniffing, one byte a time.
    fn sniffed(asked: Framing, may_stream: bool, label: &str, body: &str) -> (Option<Shape>, String) {
        let mut sniff = Sniff::new(asked, may_stream, label);
        let mut shape = None;
        let mut rest = body.as_bytes();
        while shape.is_none() && !rest.is_empty() {
            let (mut byte, after) = rest.split_at(1);
            shape = sniff.push(&mut byte);
            rest = if byte.is_empty() { after } else { rest };
        }
        let body = [sniff.take_seen(), rest.to_vec()].concat();
        (shape, String::from_utf8_lossy(&body).into_owned())
    }

    #[test]
    fn the_bytes_beat_the_label() {
        for label in ["text/event-stream", "application/json", "text/plain", ""] {
            let shape = |asked, body| sniffed(asked, true, label, body).0;
            assert_eq!(shape(Framing::Sse, "data: {}"), Some(Shape::Asked));
            assert_eq!(shape(Framing::Sse, "\n\r\n {\"a\":1}"), Some(Shape::Whole));
            assert_eq!(shape(Framing::Sse, "[]"), Some(Shape::Whole));
            assert_eq!(shape(Framing::Json, "data:{}"), Some(Shape::Events));
            assert_eq!(shape(Framing::Json, ": ping"), Some(Shape::Events));
            assert_eq!(shape(Framing::Json, "message\ndata:x"), Some(Shape::Events));
            assert_eq!(shape(Framing::Json, "{\"a\":1}"), Some(Shape::Asked));
            assert_eq!(shape(Framing::JsonSeq, "event: x"), Some(Shape::AskedAsEvents));
            assert_eq!(shape(Framing::JsonSeq, "{}"), Some(Shape::Asked));
            assert_eq!(shape(Framing::Json, "\u{feff} <html>"), Some(Shape::Page));
        }
    }

    #[test]
    fn the_label_breaks_ties() {
        assert_eq!(sniffed(Framing::Sse, true, "application/x-ndjson; charset=utf-8", "{}").0, Some(Shape::Sequence));
        assert_eq!(sniffed(Framing::Json, true, "Application/JSONL", "{}").0, Some(Shape::Sequence));
        assert_eq!(sniffed(Framing::Json, false, "application/jsonl", "{}").0, Some(Shape::Asked));
    }

    #[test]
    fn no_byte_of_the_body_is_lost() {
        for (asked, body, rest) in [
            (Framing::Sse, "\u{feff}\n data: x", "data: x"),
            (Framing::Json, "dat", "dat"),
            (Framing::Json, "database", "database"),
            (Framing::Json, "\"x\"", "\"x\""),
            (Framing::Text, " \u{feff}<b>", " \u{feff}<b>"),
        ] {
            assert_eq!(sniffed(asked, true, "", body).1, rest, "{body:?}");
        }
        assert_eq!(sniffed(Framing::Text, false, "", "<b>"), (Some(Shape::Asked), "<b>".into()));
    }

    #[test]
    fn endless_white_space_is_not_kept() {
        let mut sniff = Sniff::new(Framing::Sse, true, "");
        for _ in 0..100 {
            assert_eq!(sniff.push(&mut &[b'\n'; 1000][..]), None);
        }
        assert!(sniff.take_seen().is_empty());
    }
}
