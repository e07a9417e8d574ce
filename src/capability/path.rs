//! `NormalPath`: a request's path, decided once.

use std::borrow::Cow;
use std::str::FromStr;

use percent_encoding::percent_decode_str;

/// A request's path in the one form that routing, access rules and everything else see.
///
/// Dot segments, plain or percent-encoded, are resolved and `//` is `/`. Of percent-encodings those of unreserved
/// characters (RFC 3986, section 2.3) are decoded, since both spellings name the same resource; all others stay,
/// in upper case, since `%3B` and `;` do not. What may not stand plain in a path (spaces, `"`, `{`, UTF-8) is
/// encoded. So two requests for one resource have one `NormalPath`, and every `%` in it begins an encoding.
///
/// An encoded slash stays `%2F`: whether it is allowed depends on the parameter that takes it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NormalPath(Box<str>);

/// Why a path is refused: 400 `invalid_path`. The sentences are for the caller and show nothing of the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPath {
    /// No leading slash.
    #[error("the path must start with a slash")]
    NotAbsolute,
    /// More `..` than segments before it.
    #[error("the path leads above the root; remove the `..` segments that have no segment before them")]
    AboveRoot,
    /// A control byte, plain or encoded.
    #[error("the path holds a control character; remove it")]
    Control,
    /// `\`, plain or encoded.
    #[error("the path holds a backslash; separate segments with `/`")]
    Backslash,
    /// `%` without two hexadecimal digits.
    #[error("the path holds a `%` that is not followed by two hexadecimal digits; write `%25` for a percent sign")]
    BrokenEncoding,
    /// The decoded bytes are no text.
    #[error("the path does not decode to UTF-8; percent-encode its characters as UTF-8")]
    NotUtf8,
    /// `%2F` where no parameter takes a slash.
    #[error("the path holds an encoded slash (`%2F`), which is not taken here; a value may not contain `/`")]
    EncodedSlash,
    /// A parameter that is `.` or `..`, or has one of them between slashes.
    #[error("a path parameter may not be `.` or `..`, nor contain them as a segment")]
    DotParameter,
    /// A parameter goes into a header of the service, and a header can't carry it.
    #[error("a path parameter may hold only visible ASCII characters and inner spaces here")]
    NoHeaderValue,
}

impl NormalPath {
    /// The path as it is sent on; empty only where [`Self::strip_base`] left nothing.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What follows `base`, if this path lies under it: segments are compared whole, so `/a` holds `/a` and
    /// `/a/b`, not `/ab`. The path of the base itself leaves the empty path, with a trailing slash it leaves `/`.
    pub fn strip_base(&self, base: &str) -> Option<Self> {
        let rest = self.0.strip_prefix(base)?;
        (rest.is_empty() || rest.starts_with('/')).then(|| Self(rest.into()))
    }

    /// Whether some segment holds `%2F`.
    pub fn has_encoded_slash(&self) -> bool {
        self.0.contains("%2F")
    }

    /// Each segment: where it begins in [`Self::as_str`], and its decoded text. `/a/` has two, the last one empty.
    pub(super) fn segments(&self) -> impl Iterator<Item = (usize, Cow<'_, str>)> {
        let mut start = 0;
        self.0.strip_prefix('/').into_iter().flat_map(|rest| rest.split('/')).map(move |segment| {
            let at = start + 1;
            start = at + segment.len();
            (at, percent_decode_str(segment).decode_utf8_lossy())
        })
    }
}

impl FromStr for NormalPath {
    type Err = InvalidPath;

    /// Takes a request target's path, without its query.
    fn from_str(path: &str) -> Result<Self, InvalidPath> {
        let rest = path.strip_prefix('/').ok_or(InvalidPath::NotAbsolute)?;
        let mut normal = String::with_capacity(path.len() + 16);
        let mut segments = rest.split('/').peekable();
        while let Some(segment) = segments.next() {
            let before = normal.len();
            normal.push('/');
            push_normal(segment, &mut normal)?;
            let open = match normal.get(before..).unwrap_or_default() {
                "/" | "/." => {
                    normal.truncate(before);
                    true
                }
                "/.." => {
                    normal.truncate(before);
                    normal.truncate(normal.rfind('/').ok_or(InvalidPath::AboveRoot)?);
                    true
                }
                _ => false,
            };
            // RFC 3986, section 5.2.4: what ends in an empty or a dot segment names the directory, with its slash.
            if open && segments.peek().is_none() {
                normal.push('/');
            }
        }
        Ok(Self(normal.into()))
    }
}

/// Appends one segment in its normal form.
pub(super) fn push_normal(segment: &str, normal: &mut String) -> Result<(), InvalidPath> {
    let mut decoded = Vec::with_capacity(segment.len());
    let mut bytes = segment.bytes();
    while let Some(byte) = bytes.next() {
        let encoded = byte == b'%';
        let byte = if encoded { hex_pair(&mut bytes).ok_or(InvalidPath::BrokenEncoding)? } else { byte };
        match byte {
            0..=0x1f | 0x7f => return Err(InvalidPath::Control),
            b'\\' => return Err(InvalidPath::Backslash),
            _ if is_unreserved(byte) || !encoded && is_delimiter(byte) => normal.push(char::from(byte)),
            _ => push_encoded(byte, normal),
        }
        decoded.push(byte);
    }
    std::str::from_utf8(&decoded).map(drop).map_err(|_| InvalidPath::NotUtf8)
}

/// Appends a value so that it is data wherever it stands in a URL: everything but unreserved characters is encoded.
pub(super) fn push_value(value: &str, text: &mut String) {
    for byte in value.bytes() {
        if is_unreserved(byte) { text.push(char::from(byte)) } else { push_encoded(byte, text) }
    }
}

fn hex_pair(bytes: &mut impl Iterator<Item = u8>) -> Option<u8> {
    let mut digit = || char::from(bytes.next()?).to_digit(16);
    Some((digit()? << 4 | digit()?) as u8)
}

fn push_encoded(byte: u8, text: &mut String) {
    text.push_str(percent_encoding::percent_encode_byte(byte));
}

/// RFC 3986, section 2.3.
fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// What else may stand plain in a segment: sub-delims, `:` and `@` (RFC 3986, section 3.3).
fn is_delimiter(byte: u8) -> bool {
    matches!(byte, b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b';' | b'=' | b':' | b'@')
}

#[cfg(test)]
mod tests;
