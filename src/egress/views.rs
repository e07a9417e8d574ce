//! What a text may be read as by who receives it: without its percent-encoding, its escapes and its references to
//! characters, as base64 or hexadecimal digits without what stands between them. Each takes linear time.

use std::borrow::Cow;

use percent_encoding::percent_decode;

/// Times that a text is decoded: nobody reads one that was encoded more often.
const ROUNDS_MAX: usize = 4;

/// The text, and what it becomes when it is decoded, again and again, until nothing changes.
pub(super) fn decoded<'t>(text: &'t [u8], see: &mut dyn FnMut(&[u8])) {
    see(text);
    let mut current: Cow<'t, [u8]> = Cow::Borrowed(text);
    for _ in 0..ROUNDS_MAX {
        let mut changed = false;
        for decode in [unescaped, percent_decoded, dereferenced] {
            if let Some(decoded) = decode(&current) {
                see(&decoded);
                current = Cow::Owned(decoded);
                changed = true;
            }
        }
        if !changed {
            return;
        }
    }
}

fn percent_decoded(text: &[u8]) -> Option<Vec<u8>> {
    match percent_decode(text).into() {
        Cow::Borrowed(_) => None,
        Cow::Owned(decoded) => Some(decoded),
    }
}

/// Without the escapes of JSON and of string literals like it: `\u0041`, `\x41`, `\/`. `None` if there are none.
fn unescaped(text: &[u8]) -> Option<Vec<u8>> {
    memchr::memchr(b'\\', text)?;
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        let (before, after) = rest.split_at(at);
        out.extend_from_slice(before);
        let after = after.get(1..).unwrap_or_default();
        rest = match after.split_first() {
            None => {
                out.push(b'\\');
                after
            }
            Some((b'u', digits)) => match hex(digits, 4) {
                Some((unit, rest)) => push_unit(&mut out, unit, rest),
                None => literal(&mut out, b'u', digits),
            },
            Some((b'x', digits)) => match hex(digits, 2) {
                Some((byte, rest)) => {
                    out.push(byte as u8);
                    rest
                }
                None => literal(&mut out, b'x', digits),
            },
            Some((letter, rest)) => {
                let meant = match letter {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    other => *other,
                };
                literal(&mut out, meant, rest)
            }
        };
    }
    out.extend_from_slice(rest);
    Some(out)
}

fn literal<'r>(out: &mut Vec<u8>, byte: u8, rest: &'r [u8]) -> &'r [u8] {
    out.push(byte);
    rest
}

/// Without the references of XML and HTML to characters: `&amp;`, `&#65;`, `&#x41;`. `None` if there are none.
fn dereferenced(text: &[u8]) -> Option<Vec<u8>> {
    let (mut out, mut rest, mut found) = (Vec::with_capacity(text.len()), text, false);
    while let Some(at) = memchr::memchr(b'&', rest) {
        let (before, after) = rest.split_at(at);
        out.extend_from_slice(before);
        let after = after.get(1..).unwrap_or_default();
        rest = if let Some((character, behind)) = reference(after) {
            found = true;
            out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            behind
        } else {
            literal(&mut out, b'&', after)
        };
    }
    out.extend_from_slice(rest);
    found.then_some(out)
}

/// What the text behind an ampersand refers to, and what follows. Browsers miss no semicolon after a number.
fn reference(text: &[u8]) -> Option<(char, &[u8])> {
    for (name, character) in NAMED {
        if let Some(behind) = text.strip_prefix(name) {
            return Some((character, behind));
        }
    }
    let number = text.strip_prefix(b"#")?;
    let (radix, number) = match number.split_first() {
        Some((b'x' | b'X', digits)) => (16, digits),
        _ => (10, number),
    };
    let digit = |byte: &u8| char::from(*byte).to_digit(radix);
    let length = number.iter().take(REFERENCE_DIGITS_MAX).take_while(|byte| digit(byte).is_some()).count();
    let (digits, behind) = number.split_at_checked(length).filter(|(digits, _)| !digits.is_empty())?;
    let code =
        digits.iter().filter_map(digit).try_fold(0_u32, |code, digit| code.checked_mul(radix)?.checked_add(digit))?;
    Some((char::from_u32(code)?, behind.strip_prefix(b";").unwrap_or(behind)))
}

/// Characters that every reader of XML knows by a name.
const NAMED: [(&[u8], char); 5] = [(b"amp;", '&'), (b"lt;", '<'), (b"gt;", '>'), (b"quot;", '"'), (b"apos;", '\'')];

/// Digits of a number that refers to a character, zeros in front of it among them.
const REFERENCE_DIGITS_MAX: usize = 32;

/// Writes the character of a UTF-16 unit, and of the one behind it where the two belong together.
fn push_unit<'r>(out: &mut Vec<u8>, unit: u32, rest: &'r [u8]) -> &'r [u8] {
    let low =
        rest.strip_prefix(b"\\u").and_then(|digits| hex(digits, 4)).filter(|(low, _)| (0xdc00..0xe000).contains(low));
    let (character, rest) = match low {
        Some((low, behind)) if (0xd800..0xdc00).contains(&unit) => {
            (char::from_u32(0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00)), behind)
        }
        _ => (char::from_u32(unit), rest),
    };
    let mut bytes = [0; 4];
    out.extend_from_slice(character.unwrap_or(char::REPLACEMENT_CHARACTER).encode_utf8(&mut bytes).as_bytes());
    rest
}

/// So many hexadecimal digits, and what follows them.
fn hex(text: &[u8], digits: usize) -> Option<(u32, &[u8])> {
    let (digits, rest) = text.split_at_checked(digits)?;
    let value = digits.iter().try_fold(0, |value, digit| Some(value << 4 | char::from(*digit).to_digit(16)?));
    Some((value?, rest))
}

/// One alphabet for both of base64, without the white space and the line ends that may stand in it.
pub(super) fn base64(text: &[u8]) -> Vec<u8> {
    let unified = text.iter().filter(|byte| !byte.is_ascii_whitespace()).map(|byte| match byte {
        b'-' => b'+',
        b'_' => b'/',
        other => *other,
    });
    unified.collect()
}

/// The hexadecimal digits in lower case, without what separates them: `:`, `-`, spaces, `0x`.
pub(super) fn hexadecimal(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'0' if matches!(after.first(), Some(b'x' | b'X')) => rest = after.get(1..).unwrap_or_default(),
            digit if digit.is_ascii_hexdigit() => out.push(digit.to_ascii_lowercase()),
            // Letters that are no digits end a run of them.
            letter if letter.is_ascii_alphanumeric() || !letter.is_ascii() => out.push(b'.'),
            _ => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn views(text: &str) -> Vec<String> {
        let mut views = Vec::new();
        decoded(text.as_bytes(), &mut |view| views.push(String::from_utf8_lossy(view).into_owned()));
        views
    }

    #[test]
    fn a_text_is_decoded_until_nothing_changes() {
        for (text, plain) in [
            ("a%62c", "abc"),
            ("%2561", "a"),
            (r"\u0061\x62\/\\", r"ab/\"),
            ("%5cu0061", "a"),
            (r"\u002561", "a"),
            (r"\ud83d\ude00", "\u{1f600}"),
            (r"\ud83dx", "\u{fffd}x"),
            (r"a\", r"a\"),
            ("100%", "100%"),
            (r"\u00g1\xg", "u00g1xg"),
            ("&#97;&#x62;&#X0063;&#100e", "abcde"),
            ("a&amp;b&lt;&gt;&quot;&apos;", "a&b<>\"'"),
            ("&amp;#97;&#x25;62", "ab"),
            ("a=1&b=2&#;&#x;&#99999999999;&#xd800;&", "a=1&b=2&#;&#x;&#99999999999;&#xd800;&"),
        ] {
            assert_eq!(views(text).last().map(String::as_str), Some(plain), "{text}");
        }
        assert_eq!(views("plain"), ["plain"]);
    }

    #[test]
    fn what_separates_digits_is_left_out() {
        assert_eq!(base64(b"aB-_\r\n c+/="), b"aB+/c+/=");
        assert_eq!(hexadecimal(b"0x7A,0x6b 6C:6d-G6e"), b"7a6b6c6d.6e");
    }

    proptest! {
        #[test]
        fn no_text_panics_or_grows(text in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut longest = 0;
            decoded(&text, &mut |view| longest = longest.max(view.len()));
            prop_assert!(longest <= text.len());
            prop_assert!(base64(&text).len() <= text.len() && hexadecimal(&text).len() <= text.len());
        }
    }
}
