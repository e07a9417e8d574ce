//! `EventStream`: the binary frames of AWS (`application/vnd.amazon.eventstream`), which data can't describe.

use flate2::Crc;

/// Length, length of the headers, and a checksum of both.
const PRELUDE: usize = 12;
/// The checksum behind a frame.
const CHECKSUM: usize = 4;

/// Cuts frames out of bytes that come in any pieces; it buffers one frame at most.
#[derive(Debug)]
pub(crate) struct EventStream {
    limit: usize,
    frame: Vec<u8>,
}

/// One frame.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BinaryFrame {
    /// The type of an event, or `exception`.
    pub(crate) name: String,
    /// JSON, or empty.
    pub(crate) payload: Vec<u8>,
}

/// The bytes are no such frames, or a frame is over the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Broken;

impl EventStream {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, frame: Vec::new() }
    }

    /// Reads on in `input` up to the end of the next frame; `None` once all of it is read.
    pub(crate) fn next(&mut self, input: &mut &[u8]) -> Result<Option<BinaryFrame>, Broken> {
        if !self.fill(PRELUDE, input) {
            return Ok(None);
        }
        let prelude = self.frame.get(..PRELUDE - CHECKSUM).unwrap_or_default();
        let total = number(&self.frame, 0) as usize;
        let headers = number(&self.frame, 4) as usize;
        let shortest = PRELUDE + headers + CHECKSUM;
        if checksum(prelude) != number(&self.frame, 8) || total < shortest || total > self.limit {
            return Err(Broken);
        }
        if !self.fill(total, input) {
            return Ok(None);
        }
        let (body, sum) = self.frame.split_at(total - CHECKSUM);
        if checksum(body) != number(sum, 0) {
            return Err(Broken);
        }
        let (headers, payload) = body.get(PRELUDE..).unwrap_or_default().split_at(headers);
        let frame = BinaryFrame { name: name(headers)?, payload: payload.to_owned() };
        self.frame.clear();
        Ok(Some(frame))
    }

    /// Whether the input may not end here.
    pub(crate) fn is_cut(&self) -> bool {
        !self.frame.is_empty()
    }

    fn fill(&mut self, length: usize, input: &mut &[u8]) -> bool {
        let missing = length.saturating_sub(self.frame.len()).min(input.len());
        let (more, rest) = input.split_at(missing);
        self.frame.extend_from_slice(more);
        *input = rest;
        self.frame.len() >= length
    }
}

/// The name of a frame with these headers.
fn name(mut headers: &[u8]) -> Result<String, Broken> {
    let mut name = String::new();
    let mut exception = false;
    while !headers.is_empty() {
        let length = usize::from(take(&mut headers, 1)?.first().copied().unwrap_or_default());
        let key = take(&mut headers, length)?;
        let kind = take(&mut headers, 1)?.first().copied().unwrap_or_default();
        let length = match kind {
            0 | 1 => 0,
            2 => 1,
            3 => 2,
            4 => 4,
            5 | 8 => 8,
            9 => 16,
            6 | 7 => take(&mut headers, 2)?.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)),
            _ => return Err(Broken),
        };
        let value = take(&mut headers, length)?;
        match key {
            b":event-type" => name = String::from_utf8_lossy(value).into_owned(),
            b":message-type" => exception = matches!(value, b"exception" | b"error"),
            _ => {}
        }
    }
    Ok(if exception { "exception".to_owned() } else { name })
}

fn take<'b>(bytes: &mut &'b [u8], length: usize) -> Result<&'b [u8], Broken> {
    let (taken, rest) = bytes.split_at_checked(length).ok_or(Broken)?;
    *bytes = rest;
    Ok(taken)
}

fn number(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).unwrap_or_default().iter().fold(0, |number, byte| number << 8 | u32::from(*byte))
}

fn checksum(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encoded(headers: &[(&str, &str)], payload: &str) -> Vec<u8> {
        let mut head = Vec::new();
        for (key, value) in headers {
            head.push(key.len() as u8);
            head.extend(key.as_bytes());
            head.push(7);
            head.extend((value.len() as u16).to_be_bytes());
            head.extend(value.as_bytes());
        }
        let total = (PRELUDE + head.len() + payload.len() + CHECKSUM) as u32;
        let mut frame = [total.to_be_bytes(), (head.len() as u32).to_be_bytes()].concat();
        frame.extend(checksum(&frame).to_be_bytes());
        frame.extend(head);
        frame.extend(payload.as_bytes());
        frame.extend(checksum(&frame).to_be_bytes());
        frame
    }

    #[test]
    fn frames_are_named_by_their_type_and_exceptions_by_being_one() {
        let mut bytes = encoded(&[(":message-type", "event"), (":event-type", "messageStop")], "{}");
        bytes.extend(encoded(
            &[(":message-type", "exception"), (":exception-type", "throttlingException")],
            "{\"a\":1}",
        ));
        for size in [1, 7, 1000] {
            let mut stream = EventStream::new(1000);
            let mut frames = Vec::new();
            for mut piece in bytes.chunks(size) {
                while let Some(frame) = stream.next(&mut piece).unwrap() {
                    frames.push((frame.name, frame.payload));
                }
            }
            assert_eq!(frames, [("messageStop".into(), b"{}".to_vec()), ("exception".into(), b"{\"a\":1}".to_vec())]);
            assert!(!stream.is_cut());
        }
    }

    #[test]
    fn a_flipped_bit_is_found_and_a_frame_over_the_limit_refused() {
        let good = encoded(&[(":event-type", "x")], "{}");
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            assert_eq!(EventStream::new(1000).next(&mut &bad[..]), Err(Broken), "{at}");
        }
        assert_eq!(EventStream::new(good.len() - 1).next(&mut &good[..]), Err(Broken));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = EventStream::new(50).next(&mut &bytes[..]);
            let _ = name(&bytes);
        }
    }
}
