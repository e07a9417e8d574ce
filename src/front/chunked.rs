//! Where a chunked body ends (RFC 9112, section 7.1), judged strictly and without touching its bytes.

/// Bytes of one size line with its extensions, and of all trailers together.
const LINE_BYTES_MAX: usize = 4 << 10;

/// The body breaks the chunked coding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the chunked body is malformed")]
pub(super) struct Malformed;

/// Follows a chunked body from its first size line to the empty line that ends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Chunked {
    state: State,
    /// Bytes of the line, or of the trailers, so far.
    line: usize,
    /// The size that the line has named so far, or the bytes of the chunk that are still to come.
    size: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Size,
    Extension,
    SizeLf,
    Data,
    DataCr,
    DataLf,
    TrailerStart,
    Trailer,
    TrailerLf,
    EndLf,
    End,
}

impl Chunked {
    pub(super) fn new() -> Self {
        Self { state: State::Size, line: 0, size: 0 }
    }

    /// How many of `bytes` belong to the body.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<usize, Malformed> {
        let mut at = 0;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            if self.state == State::End {
                break;
            }
            if self.state == State::Data {
                let data = self.size.min(rest.len() as u64);
                self.size -= data;
                at += data as usize;
                if self.size == 0 {
                    self.state = State::DataCr;
                }
                continue;
            }
            self.state = self.step(*rest.first().ok_or(Malformed)?)?;
            at += 1;
        }
        Ok(at)
    }

    pub(super) fn is_done(&self) -> bool {
        self.state == State::End
    }

    fn step(&mut self, byte: u8) -> Result<State, Malformed> {
        self.line += 1;
        if self.line > LINE_BYTES_MAX {
            return Err(Malformed);
        }
        match (self.state, byte) {
            (State::Size, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') if self.line <= 15 => {
                let digit = char::from(byte).to_digit(16).ok_or(Malformed)?;
                self.size = self.size << 4 | u64::from(digit);
                Ok(State::Size)
            }
            (State::Size, b';' | b' ' | b'\t') if self.line > 1 => Ok(State::Extension),
            (State::Size, b'\r') if self.line > 1 => Ok(State::SizeLf),
            (State::Extension | State::Trailer, b'\t' | b' '..=b'~' | 0x80..) => Ok(self.state),
            (State::Extension, b'\r') => Ok(State::SizeLf),
            (State::SizeLf, b'\n') => {
                self.line = 0;
                Ok(if self.size == 0 { State::TrailerStart } else { State::Data })
            }
            (State::DataCr, b'\r') => Ok(State::DataLf),
            (State::DataLf, b'\n') => {
                self.line = 0;
                Ok(State::Size)
            }
            (State::TrailerStart, b'\r') => Ok(State::EndLf),
            (State::TrailerStart, b'!'..=b'~') => Ok(State::Trailer),
            (State::Trailer, b'\r') => Ok(State::TrailerLf),
            (State::TrailerLf, b'\n') => Ok(State::TrailerStart),
            (State::EndLf, b'\n') => Ok(State::End),
            _ => Err(Malformed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that belong to the body, fed whole and byte by byte.
    fn length(bytes: &str) -> Result<usize, Malformed> {
        let mut whole = Chunked::new();
        let taken = whole.take(bytes.as_bytes());
        let mut single = Chunked::new();
        let mut count = 0;
        let one_by_one = bytes.bytes().try_for_each(|byte| single.take(&[byte]).map(|taken| count += taken));
        assert_eq!(taken, one_by_one.map(|()| count), "{bytes:?}");
        taken.and_then(|taken| if whole.is_done() { Ok(taken) } else { Err(Malformed) })
    }

    #[test]
    fn a_body_ends_where_its_last_chunk_does() {
        for body in ["0\r\n\r\n", "5\r\nhello\r\n0\r\n\r\n", "a;x=\"y\"\r\n0123456789\r\n00\r\nT: v\r\n\r\n"] {
            assert_eq!(length(&format!("{body}GET / HTTP/1.1")), Ok(body.len()), "{body:?}");
        }
    }

    #[test]
    fn what_parsers_disagree_on_is_malformed() {
        for body in [
            "5\nhello\r\n0\r\n\r\n",
            "5\r\nhello0\r\n\r\n",
            "5\r\nhello\n0\r\n\r\n",
            "\r\n0\r\n\r\n",
            "0x5\r\nhello\r\n0\r\n\r\n",
            "+5\r\nhello\r\n0\r\n\r\n",
            "fffffffffffffffff\r\nhello\r\n0\r\n\r\n",
            "0\r\n folded\r\n\r\n",
            "0\r\n\n",
        ] {
            assert_eq!(length(body), Err(Malformed), "{body:?}");
        }
        assert_eq!(length(&format!("1;{}\r\na\r\n0\r\n\r\n", "x".repeat(5000))), Err(Malformed));
    }
}
