//! JSON as services send it: repaired where only the encoding of a character or the size of a number is wrong.

use super::tree::Tree;

/// Where surrogates that have no partner are kept while a frame is parsed: private-use characters that nothing sends.
const MARKS: u32 = 0x10_F000;

/// A number that the widest float can't hold is the widest float.
const WIDEST: &str = "1.7976931348623157e308";

/// The text is not JSON, and may not be skipped: it may be text of the reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NotJson;

/// Reads the values of a text, of which there may be several in a row, and gives them to `take`: at least one, and
/// whether their strings may hold marks in place of surrogates, which [`Surrogates`] and [`unmarked`] know.
pub(crate) fn read<R>(text: &str, take: impl FnOnce(&[Tree<'_>], bool) -> R) -> Result<R, NotJson> {
    if let Ok(value) = serde_json::from_str(text) {
        return Ok(take(&[value], false));
    }
    let repaired = repaired(text);
    let values = serde_json::Deserializer::from_str(&repaired).into_iter().collect::<Result<Vec<_>, _>>();
    match values {
        Ok(values) if !values.is_empty() => Ok(take(&values, true)),
        _ => Err(NotJson),
    }
}

/// Text of a reply, put together again where an escaped surrogate pair was split between two pieces.
#[derive(Debug, Default)]
pub(crate) struct Surrogates {
    /// A high surrogate whose other half may come with the next piece.
    held: Option<u16>,
}

impl Surrogates {
    /// The next piece, as it can be said now.
    pub(crate) fn join(&mut self, piece: &str, marked: bool) -> String {
        if self.held.is_none() && !marked {
            return piece.to_owned();
        }
        let mut said = String::with_capacity(piece.len() + 4);
        for character in piece.chars() {
            match (self.held.take(), unit(character).filter(|_| marked)) {
                (Some(high), Some(low)) if is_low(low) => said.extend(char::decode_utf16([high, low]).flatten()),
                (held, now) => {
                    said.extend(held.map(|_| char::REPLACEMENT_CHARACTER));
                    match now {
                        None => said.push(character),
                        Some(low) if is_low(low) => said.push(char::REPLACEMENT_CHARACTER),
                        Some(high) => self.held = Some(high),
                    }
                }
            }
        }
        said
    }

    /// Whether a character waits for its other half.
    pub(crate) fn holds(&self) -> bool {
        self.held.is_some()
    }

    /// What was held, once nothing more comes.
    pub(crate) fn rest(&mut self) -> Option<char> {
        self.held.take().map(|_| char::REPLACEMENT_CHARACTER)
    }
}

/// A text that is no part of the reply's: its marks become U+FFFD.
pub(crate) fn unmarked(text: &str, marked: bool) -> String {
    let plain = |character| if marked && unit(character).is_some() { char::REPLACEMENT_CHARACTER } else { character };
    text.chars().map(plain).collect()
}

/// The same JSON with marks for lone surrogates and without numbers that no float holds.
fn repaired(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) =
        rest.find(|character: char| character == '"' || character == '-' || character.is_ascii_digit())
    {
        let (before, token) = rest.split_at(start);
        out.push_str(before);
        rest = if token.starts_with('"') { string(token, &mut out) } else { number(token, &mut out) };
    }
    out.push_str(rest);
    out
}

/// Copies a string token; what follows it.
fn string<'t>(token: &'t str, out: &mut String) -> &'t str {
    let mut characters = token.char_indices().skip(1);
    out.push('"');
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => {
                out.push('"');
                return token.get(at + 1..).unwrap_or_default();
            }
            '\\' => match escaped_unit(token, at) {
                Some(high) if is_surrogate(high) => {
                    let low = escaped_unit(token, at + 6).filter(|low| !is_low(high) && is_low(*low));
                    let escapes = if low.is_some() { 2 } else { 1 };
                    match low {
                        Some(_) => out.push_str(token.get(at..at + 12).unwrap_or_default()),
                        None => out.extend(char::from_u32(MARKS + u32::from(high) - 0xD800)),
                    }
                    characters.by_ref().take(escapes * 6 - 1).for_each(drop);
                }
                _ => {
                    out.push('\\');
                    out.extend(characters.next().map(|(_, escaped)| escaped));
                }
            },
            _ => out.push(character),
        }
    }
    ""
}

/// Copies a number token; what follows it.
fn number<'t>(token: &'t str, out: &mut String) -> &'t str {
    let part = |character: char| character.is_ascii_digit() || matches!(character, '-' | '+' | '.' | 'e' | 'E');
    let end = token.find(|character| !part(character)).unwrap_or(token.len());
    let (number, rest) = token.split_at(end);
    let too_wide = number.parse::<f64>().is_ok_and(f64::is_infinite);
    out.push_str(if too_wide { WIDEST } else { number });
    rest
}

/// The code unit of the escape `\uXXXX` at `at`.
fn escaped_unit(text: &str, at: usize) -> Option<u16> {
    let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
    u16::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'))
}

/// The surrogate that a mark stands for.
fn unit(character: char) -> Option<u16> {
    u32::from(character).checked_sub(MARKS).filter(|unit| *unit < 0x800).map(|unit| unit as u16 + 0xD800)
}

fn is_surrogate(unit: u16) -> bool {
    (0xD800..0xE000).contains(&unit)
}

fn is_low(unit: u16) -> bool {
    (0xDC00..0xE000).contains(&unit)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn values(text: &str) -> Result<Vec<Value>, NotJson> {
        read(text, |values, _| values.iter().map(Tree::to_value).collect())
    }

    /// What the deltas of these JSON strings say.
    fn said(pieces: &[&str]) -> String {
        let mut surrogates = Surrogates::default();
        let mut said = String::new();
        for piece in pieces {
            let join = |values: &[Tree<'_>], marked| surrogates.join(values[0].as_str().unwrap(), marked);
            said.push_str(&read(piece, join).unwrap());
        }
        said.extend(surrogates.rest());
        said
    }

    #[test]
    fn a_pair_may_be_whole_or_split_between_pieces() {
        assert_eq!(said(&[r#""a\ud83d\ude00b""#]), "a😀b");
        assert_eq!(said(&[r#""a\ud83d""#, r#""\ude00b""#]), "a😀b");
        assert_eq!(said(&[r#""\uD83D""#, r#""""#, r#""\uDE00""#]), "😀");
    }

    #[test]
    fn a_surrogate_without_its_other_half_is_a_replacement_character() {
        assert_eq!(said(&[r#""a\ud83d b""#]), "a\u{fffd} b");
        assert_eq!(said(&[r#""a\ud83d""#]), "a\u{fffd}");
        assert_eq!(said(&[r#""a\ude00\ud83d\ud83d\ude00""#]), "a\u{fffd}\u{fffd}😀");
        assert_eq!(said(&[r#""\ud83d""#, r#""x""#]), "\u{fffd}x");
        assert_eq!(said(&[r#""\\ud83d \"\ud83d\"""#]), "\\ud83d \"\u{fffd}\"");
    }

    #[test]
    fn characters_that_serve_as_marks_stay_themselves_where_nothing_was_repaired() {
        assert_eq!(said(&["\"\u{10f03d}\""]), "\u{10f03d}");
        assert_eq!(unmarked("\u{10f03d}", false), "\u{10f03d}");
        assert_eq!(unmarked("\u{10f03d}", true), "\u{fffd}");
    }

    #[test]
    fn numbers_of_any_size_are_read() {
        let parsed = values(r#"{"n":1e999,"m":-1E400,"i":123456789012345678901234567890,"s":"1e999","t":1}"#).unwrap();
        assert_eq!(parsed[0]["s"], json!("1e999"));
        assert_eq!(parsed[0]["t"], json!(1));
    }

    #[test]
    fn values_in_a_row_are_all_read_and_anything_else_is_refused() {
        assert_eq!(values(r#"{"a":1}{"b":2} [3]"#).unwrap(), [json!({"a":1}), json!({"b":2}), json!([3])]);
        for bad in
            ["", " ", "nope", "{\"a\":NaN}", "{\"a\":1}x", "{\"a\":", "\"\\ud83d", "\"\\", "\"\\u", "{\"a\":\"\u{1}\"}"]
        {
            assert_eq!(values(bad), Err(NotJson), "{bad:?}");
        }
        assert_eq!(values(&"[".repeat(100_000)), Err(NotJson));
    }
}
