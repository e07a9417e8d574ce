//! Bytes → frames, as the WHATWG standard reads an event stream ("Interpreting an event stream"), with two leniencies
//! that services in the wild need: a frame that the end of the stream cuts off after its last line is given by
//! [`Decoder::finish`], and a frame with a name and no data is a frame.

use std::borrow::Cow;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Cuts an event stream into frames. It buffers one frame at most, and reads each byte once, however they come.
#[derive(Debug)]
pub struct Decoder {
    limit: usize,
    /// The begin of a line whose end did not come yet.
    line: Vec<u8>,
    name: Vec<u8>,
    /// The values of the `data:` lines, each with a line feed behind it.
    data: Vec<u8>,
    /// The frame in `name` and `data` was handed out.
    given: bool,
    /// A line feed that comes next belongs to the carriage return before it.
    after_cr: bool,
    at_start: bool,
}

/// One frame. Bytes that are not UTF-8 are U+FFFD; `id` and `retry` are not kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The last `event:` line's value, unless it is empty.
    pub name: Option<Cow<'a, str>>,
    /// The `data:` lines, joined by line feeds; `None` if there was none.
    pub data: Option<Cow<'a, str>>,
}

/// A frame, or a line outside of one, is larger than the decoder's limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a server-sent event is larger than {0} bytes")]
pub struct FrameTooLong(pub usize);

impl Decoder {
    /// A decoder at the start of a stream, for frames of at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            name: Vec::new(),
            data: Vec::new(),
            given: false,
            after_cr: false,
            at_start: true,
        }
    }

    /// Reads on in `input` up to the end of the next frame; `None` once all of it is read.
    pub fn next<'a>(&'a mut self, input: &mut &[u8]) -> Result<Option<Frame<'a>>, FrameTooLong> {
        self.forget_given();
        while !input.is_empty() {
            if std::mem::take(&mut self.after_cr) {
                *input = input.strip_prefix(b"\n").unwrap_or(input);
            }
            let Some(end) = memchr::memchr2(b'\r', b'\n', input) else {
                self.bound(input.len())?;
                self.line.extend_from_slice(input);
                *input = &[];
                break;
            };
            let (piece, rest) = input.split_at(end);
            self.bound(piece.len())?;
            self.after_cr = rest.first() == Some(&b'\r');
            *input = rest.get(1..).unwrap_or_default();
            if self.end_line(piece) {
                return Ok(Some(self.give()));
            }
        }
        Ok(None)
    }

    /// The frame that the end of the stream cut off, if its last line or its blank line is missing.
    pub fn finish(&mut self) -> Option<Frame<'_>> {
        self.forget_given();
        let whole = !self.line.is_empty() && self.end_line(&[]);
        (whole || self.has_frame()).then(|| self.give())
    }

    /// Takes a line that ended with `piece`. Whether it was the blank line after a frame.
    fn end_line(&mut self, piece: &[u8]) -> bool {
        let mut buffered = std::mem::take(&mut self.line);
        let mut line = piece;
        if !buffered.is_empty() {
            buffered.extend_from_slice(piece);
            line = &buffered;
        }
        if std::mem::take(&mut self.at_start) {
            line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
        }
        let blank = line.is_empty();
        if !blank {
            self.field(line);
        }
        buffered.clear();
        self.line = buffered;
        blank && self.has_frame()
    }

    fn field(&mut self, line: &[u8]) {
        let (field, value) = match memchr::memchr(b':', line) {
            Some(colon) => (line.get(..colon).unwrap_or_default(), line.get(colon + 1..).unwrap_or_default()),
            None => (line, &[][..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => {
                self.data.extend_from_slice(value);
                self.data.push(b'\n');
            }
            b"event" => {
                self.name.clear();
                self.name.extend_from_slice(value);
            }
            _ => {}
        }
    }

    fn has_frame(&self) -> bool {
        !self.name.is_empty() || !self.data.is_empty()
    }

    fn give(&mut self) -> Frame<'_> {
        self.given = true;
        Frame { name: (!self.name.is_empty()).then(|| text(&self.name)), data: self.data.strip_suffix(b"\n").map(text) }
    }

    fn forget_given(&mut self) {
        if std::mem::take(&mut self.given) {
            self.name.clear();
            self.data.clear();
        }
    }

    fn bound(&self, more: usize) -> Result<(), FrameTooLong> {
        if self.line.len() + self.name.len() + self.data.len() + more > self.limit {
            return Err(FrameTooLong(self.limit));
        }
        Ok(())
    }
}

/// Nearly all text is UTF-8, for which the strict check is several times faster than the lossy one.
fn text(bytes: &[u8]) -> Cow<'_, str> {
    std::str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
}
