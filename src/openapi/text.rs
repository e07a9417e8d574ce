//! Texts out of documents: what bytes they are, and what of them people and models may see.

/// Characters of a description.
const DESCRIPTION_MAX: usize = 1_000;

/// Characters of a title.
const TITLE_MAX: usize = 80;

/// Bytes of a description that are looked at.
const READ_MAX: usize = 16 << 10;

/// Bytes as text: UTF-8 with or without a mark, or UTF-16 with one.
pub fn decode(bytes: &[u8]) -> Result<String, String> {
    let utf16 = |pairs: &[u8], unit: fn([u8; 2]) -> u16| {
        let units = pairs.chunks_exact(2).filter_map(|pair| <[u8; 2]>::try_from(pair).ok().map(unit));
        char::decode_utf16(units).collect::<Result<String, _>>().map_err(|_| "its UTF-16 is broken".to_owned())
    };
    match bytes {
        [0xff, 0xfe, rest @ ..] => utf16(rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] => utf16(rest, u16::from_be_bytes),
        [0xef, 0xbb, 0xbf, rest @ ..] => utf8(rest, 3),
        bytes => utf8(bytes, 0),
    }
}

fn utf8(bytes: &[u8], before: usize) -> Result<String, String> {
    let text = std::str::from_utf8(bytes);
    text.map(str::to_owned)
        .map_err(|error| format!("it is not UTF-8: byte {} begins no character", error.valid_up_to() + before))
}

/// One line for people: no markup, nothing that can't be seen.
pub(super) fn title(text: &str) -> Option<String> {
    let clean = clean(text);
    let line = clean.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = line.trim_end_matches('.');
    (!line.is_empty()).then(|| cut(line, TITLE_MAX))
}

/// CommonMark for people and models: no HTML, nothing that can't be seen, not too long.
pub(super) fn description(text: &str) -> Option<String> {
    let clean = clean(text);
    let mut lines = Vec::new();
    for line in clean.lines().map(str::trim_end) {
        if !(line.is_empty() && lines.last().is_none_or(|last: &&str| last.is_empty())) {
            lines.push(line);
        }
    }
    let text = lines.join("\n");
    let text = text.trim();
    (!text.is_empty()).then(|| cut(text, DESCRIPTION_MAX))
}

/// A clean text cut once more.
pub(super) fn shorter(text: &str, characters: usize) -> String {
    cut(text, characters)
}

/// Whether a text is longer than a description may be.
pub(super) fn is_long(text: &str) -> bool {
    text.chars().nth(DESCRIPTION_MAX).is_some()
}

/// Whether a text speaks to a model rather than about an operation.
pub(super) fn is_suspicious(text: &str) -> bool {
    const PHRASES: [&str; 9] = [
        "ignore previous",
        "ignore all previous",
        "ignore the above",
        "disregard previous",
        "you must always",
        "system prompt",
        "do not tell the user",
        "don't tell the user",
        "<important>",
    ];
    let text: String = text.chars().take(READ_MAX).flat_map(char::to_lowercase).collect();
    PHRASES.iter().any(|phrase| text.contains(phrase))
}

fn clean(text: &str) -> String {
    let end = text.floor_char_boundary(READ_MAX);
    without_tags(text.get(..end).unwrap_or_default()).chars().filter(|c| is_seen(*c)).collect()
}

/// Neither a control character, nor one without width, nor one that turns the direction of others.
fn is_seen(c: char) -> bool {
    let unseen = matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}');
    c == '\n' || c == '\t' || !(c.is_control() || unseen)
}

/// Leaves out `<b>`, `</p>`, `<!-- … -->` and the like; `a < b` stays.
fn without_tags(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('<') {
        out.push_str(before);
        let comment = after.starts_with("!--").then(|| after.split_once("-->")).flatten();
        let is_tag = after.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/' || c == '!');
        match (comment, after.split_once('>')) {
            (Some((_, after)), _) => rest = after,
            (None, Some((tag, after))) if is_tag && !tag.contains('<') && !tag.contains("://") => {
                let name: String =
                    tag.trim_start_matches('/').chars().take_while(char::is_ascii_alphanumeric).collect();
                if matches!(name.to_ascii_lowercase().as_str(), "br" | "p" | "li" | "div" | "tr")
                    && !out.ends_with('\n')
                {
                    out.push('\n');
                }
                rest = after;
            }
            _ => {
                out.push('<');
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

/// At most so many characters, cut at a word.
fn cut(text: &str, characters: usize) -> String {
    let Some((end, _)) = text.char_indices().nth(characters) else { return text.to_owned() };
    let room = text.char_indices().nth(characters.saturating_sub(1)).map_or(end, |(at, _)| at);
    let head = text.get(..room).unwrap_or_default();
    let word = head.rfind(char::is_whitespace).filter(|at| *at * 2 > head.len());
    format!("{}…", head.get(..word.unwrap_or(head.len())).unwrap_or_default().trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_text_in_either_form_of_unicode() {
        assert_eq!(decode(b"\xef\xbb\xbfa").unwrap(), "a");
        assert_eq!(decode(b"\xff\xfea\0\xe4\0").unwrap(), "aä");
        assert_eq!(decode(b"\xfe\xff\0a").unwrap(), "a");
        assert_eq!(decode(b"ab\xff").unwrap_err(), "it is not UTF-8: byte 2 begins no character");
    }

    #[test]
    fn what_can_not_be_seen_and_markup_is_left_out() {
        assert_eq!(title("<b>hi</b> ${x}\u{202e}\0").unwrap(), "hi ${x}");
        assert_eq!(
            description("<p>One</p><p>Two<br/>a < b, <https://x.y> <!-- no --></p>").unwrap(),
            "One\nTwo\na < b, <https://x.y>"
        );
        assert_eq!(description(" \n "), None);
    }

    #[test]
    fn a_long_text_ends_at_a_word() {
        let long = description(&"word ".repeat(1000)).unwrap();
        assert!(long.chars().count() <= DESCRIPTION_MAX && long.ends_with("word…"), "{long}");
        assert_eq!(title(&"a".repeat(100)).unwrap().chars().count(), 80);
        assert_eq!(description(&"A".repeat(200 << 10)).unwrap().chars().count(), 1_000);
    }
}
