//! What a request's head must look like before anything reads it: RFC 9112, and stricter where parsers differ.
//!
//! Pingora's own parser is lenient in ways that have been used to smuggle requests (bare LF, equal repeated
//! lengths, `Transfer-Encoding` lists), so every HTTP/1 head is judged here on its raw bytes first.

/// Bytes of a whole head, its empty line included.
pub(super) const HEAD_BYTES_MAX: usize = 64 << 10;

/// Bytes of the request line.
const REQUEST_LINE_BYTES_MAX: usize = 8 << 10;

/// Header fields of a request; Pingora's parser itself gives up at 256.
const FIELDS_MAX: usize = 128;

/// How a request's body is delimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// So many bytes; 0 without a `Content-Length`.
    Length(u64),
    /// `Transfer-Encoding: chunked`.
    Chunked,
}

/// Why a head is refused. Either way the connection closes, since where the next request starts is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refused {
    /// It breaks HTTP; what a client should do.
    #[error("{0}")]
    Bad(&'static str),
    /// Its path or query can't be read; what a client should do.
    #[error("{0}")]
    Path(&'static str),
    /// It is over a limit.
    #[error("{0}")]
    TooLarge(&'static str),
}

use Refused::{Bad, Path, TooLarge};

/// Where the head ends, counting its empty line. `seen` bytes were searched before.
///
/// A bare LF also ends it here, so that [`check`] sees and refuses it rather than a client waiting for an answer.
pub(super) fn end_of_head(bytes: &[u8], seen: usize) -> Option<usize> {
    let start = seen.saturating_sub(3);
    let tail = bytes.get(start..)?;
    memchr::memchr_iter(b'\n', tail).find_map(|at| match tail.get(..at)? {
        [.., b'\n'] | [.., b'\n', b'\r'] => Some(start + at + 1),
        _ => None,
    })
}

/// Whether what came so far can't become a head that is accepted.
pub(super) fn over_limit(bytes: &[u8]) -> Option<Refused> {
    let no_line_yet = bytes.len() > REQUEST_LINE_BYTES_MAX
        && bytes.get(..=REQUEST_LINE_BYTES_MAX).is_some_and(|line| memchr::memchr(b'\n', line).is_none());
    if no_line_yet {
        Some(TooLarge("the request line is over 8 KiB; send long input in the body"))
    } else if bytes.len() > HEAD_BYTES_MAX {
        Some(TooLarge("the request's head is over 64 KiB; send fewer or shorter headers"))
    } else {
        None
    }
}

/// Judges one whole head, empty line included, and says how its body is delimited.
pub(super) fn check(head: &[u8]) -> Result<Framing, Refused> {
    if let Some(refused) = over_limit(head) {
        return Err(refused);
    }
    let mut lines = Lines(head);
    let version = request_line(lines.next().unwrap_or(Err(Bad("the request has no request line")))?)?;
    let mut fields = Fields::default();
    let mut count = 0;
    for line in lines {
        let line = line?;
        if line.is_empty() {
            break;
        }
        count += 1;
        if count > FIELDS_MAX {
            return Err(TooLarge("the request has more than 128 header fields; send fewer"));
        }
        fields.take(line)?;
    }
    fields.framing(version)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    Http10,
    Http11,
}

/// Lines that end in CRLF; any other CR or LF is an error.
struct Lines<'a>(&'a [u8]);

impl<'a> Iterator for Lines<'a> {
    type Item = Result<&'a [u8], Refused>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let bare = Some(Err(Bad("every line of the request's head must end in CR LF")));
        match memchr::memchr2(b'\r', b'\n', self.0) {
            Some(at) => match self.0.split_at(at) {
                (line, [b'\r', b'\n', rest @ ..]) => {
                    self.0 = rest;
                    Some(Ok(line))
                }
                _ => bare,
            },
            None => bare,
        }
    }
}

fn request_line(line: &[u8]) -> Result<Version, Refused> {
    let mut parts = line.split(|byte| *byte == b' ');
    let parts = (parts.next(), parts.next(), parts.next(), parts.next());
    let (Some(method), Some(target), Some(version), None) = parts else {
        return Err(Bad("the request line must be a method, a path and HTTP/1.1, one space apart"));
    };
    if method.is_empty() || !method.iter().copied().all(is_token) {
        return Err(Bad("the request's method is not a valid HTTP token"));
    }
    if target.first() != Some(&b'/') {
        return Err(Bad("the request's target must be a path that starts with /; this is no forward proxy"));
    }
    if target.iter().any(|byte| *byte <= b' ' || *byte == 0x7f) {
        return Err(Bad("the request's path holds a control character; percent-encode it"));
    }
    // Pingora's own reader refuses these too, without a word.
    if std::str::from_utf8(target).is_err() || target.iter().any(|byte| b"<>`#".contains(byte)) {
        return Err(Path(
            "the path or the query holds `<`, `>`, a backtick, `#` or bytes that are no UTF-8; percent-encode them",
        ));
    }
    match version {
        b"HTTP/1.1" => Ok(Version::Http11),
        b"HTTP/1.0" => Ok(Version::Http10),
        _ => Err(Bad("the request's version must be HTTP/1.1, HTTP/1.0 or HTTP/2")),
    }
}

/// What the fields of a head say of its framing.
#[derive(Default)]
struct Fields {
    host: bool,
    length: Option<u64>,
    chunked: bool,
}

impl Fields {
    fn take(&mut self, line: &[u8]) -> Result<(), Refused> {
        if matches!(line.first(), Some(b' ' | b'\t')) {
            return Err(Bad("a header may not be folded over several lines"));
        }
        let colon = memchr::memchr(b':', line).ok_or(Bad("a header field has no colon"))?;
        let (name, value) = line.split_at(colon);
        if name.is_empty() || !name.iter().copied().all(is_token) {
            return Err(Bad("a header's name is not a valid HTTP token"));
        }
        let value = value.get(1..).unwrap_or_default().trim_ascii();
        if value.iter().any(|byte| (*byte < b' ' && *byte != b'\t') || *byte == 0x7f) {
            return Err(Bad("a header's value holds a control character"));
        }
        if name.eq_ignore_ascii_case(b"host") {
            if std::mem::replace(&mut self.host, true) {
                return Err(Bad("the request has more than one Host"));
            }
            if !value.iter().copied().all(is_of_authority) {
                return Err(Bad("Host must be a name or an address, and at most a port"));
            }
        } else if name.eq_ignore_ascii_case(b"content-length") {
            let length = parse_length(value).ok_or(Bad("Content-Length must be one decimal number"))?;
            if self.length.replace(length).is_some() {
                return Err(Bad("the request has more than one Content-Length"));
            }
        } else if name.eq_ignore_ascii_case(b"transfer-encoding")
            && (std::mem::replace(&mut self.chunked, true) || !value.eq_ignore_ascii_case(b"chunked"))
        {
            return Err(Bad("Transfer-Encoding must be exactly chunked"));
        }
        Ok(())
    }

    fn framing(self, version: Version) -> Result<Framing, Refused> {
        match (version, self) {
            (Version::Http11, Self { host: false, .. }) => Err(Bad("the request has no Host")),
            (_, Self { chunked: true, length: Some(_), .. }) => {
                Err(Bad("the request has both Content-Length and Transfer-Encoding"))
            }
            (Version::Http10, Self { chunked: true, .. }) => {
                Err(Bad("HTTP/1.0 knows no Transfer-Encoding; send Content-Length"))
            }
            (_, Self { chunked: true, .. }) => Ok(Framing::Chunked),
            (_, Self { length, .. }) => Ok(Framing::Length(length.unwrap_or(0))),
        }
    }
}

fn parse_length(value: &[u8]) -> Option<u64> {
    // 18 digits can't overflow, and no body of an exabyte is honest.
    let digits = (1..=18).contains(&value.len()) && value.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(value).ok().filter(|_| digits)?.parse().ok()
}

/// `host` and `port` of RFC 3986, section 3.2, which leaves out what would end them, and a user in front.
fn is_of_authority(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=%:[]".contains(&byte)
}

/// `tchar` of RFC 9110, section 5.6.2.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(head: &str) -> Result<Framing, Refused> {
        check(head.as_bytes())
    }

    #[test]
    fn ordinary_heads_pass_and_tell_how_the_body_is_delimited() {
        for (head, framing) in [
            ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", Framing::Length(0)),
            ("GET /a?b=c HTTP/1.0\r\n\r\n", Framing::Length(0)),
            ("POST /talk HTTP/1.1\r\nHost: a\r\nContent-Length: 12\r\n\r\n", Framing::Length(12)),
            ("POST /talk HTTP/1.1\r\nhost:a\r\ntransfer-encoding: Chunked \r\nX-Any:\r\n\r\n", Framing::Chunked),
        ] {
            assert_eq!(judge(head), Ok(framing), "{head:?}");
        }
    }

    #[test]
    fn every_head_that_two_parsers_could_read_differently_is_refused() {
        for head in [
            "GET / HTTP/1.1\nHost: a\n\n",
            "GET / HTTP/1.1\r\nHost: a\r\n\n",
            "GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n",
            "GET / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a@b\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
            "GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
            "CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n",
            "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET / HTTP/1.2\r\nHost: a\r\n\r\n",
            "GET / HTTP/0.9\r\nHost: a\r\n\r\n",
            "G\u{7f}T / HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET /\u{1} HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\n folded: b\r\n\r\n",
            "GET / HTTP/1.1\r\nHost : a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\0\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +3\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3, 3\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
            "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
            "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        ] {
            assert!(matches!(judge(head), Err(Bad(_))), "{head:?}");
        }
    }

    #[test]
    fn what_must_be_percent_encoded_in_a_target_is_refused_as_a_path() {
        for target in [b"/<".as_slice(), b"/a?q=>", b"/#top", b"/`", b"/\xff", b"/a?q=\xc3"] {
            let head = [b"GET ", target, b" HTTP/1.1\r\nHost: a\r\n\r\n"].concat();
            assert!(matches!(check(&head), Err(Path(_))), "{target:?}");
        }
        assert!(judge("GET /Zürich?q=\"{}|^ HTTP/1.1\r\nHost: a\r\n\r\n").is_ok());
    }

    #[test]
    fn long_lines_long_heads_and_many_fields_are_too_large() {
        let line = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(9000));
        let head = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "a".repeat(70_000));
        let fields = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: a\r\n".repeat(128));
        for head in [line, head, fields] {
            assert!(matches!(judge(&head), Err(TooLarge(_))));
        }
    }

    #[test]
    fn the_end_is_found_at_any_split() {
        for head in ["GET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET / HTTP/1.1\nHost: a\n\n"] {
            let bytes = format!("{head}rest");
            for split in 0..head.len() {
                assert_eq!(end_of_head(&bytes.as_bytes()[..split], 0), None);
                assert_eq!(end_of_head(bytes.as_bytes(), split), Some(head.len()), "{head:?} at {split}");
            }
        }
    }
}
