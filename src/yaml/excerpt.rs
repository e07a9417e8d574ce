//! `Excerpt`: the line that a problem stands on, without the credentials that stand on it too.

use std::ops::Range;

use super::document::Span;

/// Bytes of a line that are shown on either side of where the problem starts.
const SIDE_MAX: usize = 100;

/// What stands where a line is cut.
const CUT: char = '…';

/// What stands in place of a credential.
const HIDDEN: char = '…';

/// The line that a problem stands on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excerpt {
    /// The line without its end.
    pub text: String,
    /// Characters in front of the marker.
    pub indent: usize,
    /// Characters under which the marker stands, at least 1.
    pub width: usize,
}

/// The line of a span. `hidden` are the ranges of the text that hold credentials, in ascending order.
pub(super) fn of(text: &str, span: Span, hidden: &[Range<usize>]) -> Option<Excerpt> {
    let line = line_around(text, span.offset)?;
    let marked = span.offset..(span.offset + span.length.max(1)).min(line.end.max(span.offset + 1));
    let in_urls = credentials_in_urls(text.get(line.clone())?).into_iter();
    let in_urls: Vec<_> = in_urls.map(|range| range.start + line.start..range.end + line.start).collect();
    let first = hidden.partition_point(|range| range.end <= line.start);
    let hidden = hidden.get(first..).unwrap_or(&[]);
    let is_hidden = |at: usize| {
        in_urls.iter().chain(hidden.iter().take_while(|range| range.start < line.end)).any(|range| range.contains(&at))
    };
    let mut excerpt = Excerpt { text: String::new(), indent: 0, width: 0 };
    let mut previous_hidden = false;
    if text.get(..line.start).is_some_and(|before| !before.is_empty() && !before.ends_with(['\n', '\u{feff}'])) {
        excerpt.text.push(CUT);
        excerpt.indent = 1;
    }
    for (at, character) in text.get(line.clone())?.char_indices() {
        let at = at + line.start;
        let hides = is_hidden(at);
        if !(hides && previous_hidden) {
            excerpt.text.push(match character {
                _ if hides => HIDDEN,
                character if character.is_control() => ' ',
                character => character,
            });
            excerpt.indent += usize::from(at < marked.start);
            excerpt.width += usize::from(marked.contains(&at));
        } else if at == marked.start {
            // The value begins inside of what is hidden: the marker stands under the one sign that is left of it.
            excerpt.indent = excerpt.indent.saturating_sub(1);
        }
        previous_hidden = hides;
    }
    let after =
        text.get(line.end..).unwrap_or_default().chars().take(SIDE_MAX).find(|next| !matches!(next, ' ' | '\t' | '\r'));
    if after.is_some_and(|after| after != '\n') {
        excerpt.text.push(CUT);
    }
    excerpt.width = excerpt.width.max(1);
    (!excerpt.text.trim().is_empty()).then_some(excerpt)
}

/// The line of a place in a text that could not be read. Nothing is known of what is a credential there, so a line
/// that speaks of one is not shown at all.
pub(super) fn unread(text: &str, line: u32, column: u32) -> Option<Excerpt> {
    let content = text.lines().nth((line as usize).checked_sub(1)?)?.trim_start_matches('\u{feff}');
    let lower = content.to_ascii_lowercase();
    if ["key", "token", "secret", "pass", "bearer", "auth", "credential", "://"].iter().any(|word| lower.contains(word))
    {
        return None;
    }
    let before = (column as usize).checked_sub(1)?;
    let offset = content.char_indices().nth(before).map_or(content.len(), |(offset, _)| offset);
    of(content, Span { line: 1, column, offset, length: 1 }, &[])
}

/// A text without what the URLs in it should not show.
pub(super) fn without_credentials(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut from = 0;
    for range in credentials_in_urls(text) {
        // What looks like a URL in the query of another is hidden already.
        let Some(before) = text.get(from..range.start) else { continue };
        shown.push_str(before);
        shown.push(HIDDEN);
        from = range.end;
    }
    shown + text.get(from..).unwrap_or_default()
}

/// The bytes of the line that a byte stands in, no more than [`SIDE_MAX`] on either side.
fn line_around(text: &str, offset: usize) -> Option<Range<usize>> {
    let first = text.ceil_char_boundary(offset.saturating_sub(SIDE_MAX));
    let start = text.get(first..offset)?.rfind('\n').map_or(first, |at| first + at + 1);
    let last = text.floor_char_boundary((offset + SIDE_MAX).min(text.len()));
    let end = text.get(offset..last)?.find('\n').map_or(last, |at| offset + at);
    let line = text.get(start..end)?;
    let start = start + (line.len() - line.trim_start_matches('\u{feff}').len());
    Some(start..(start + line.trim_start_matches('\u{feff}').trim_end().len()).max(start))
}

/// `user:password` and the query of every URL in a line.
fn credentials_in_urls(line: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    for (scheme, _) in line.match_indices("://") {
        let start = scheme + 3;
        let url = line.get(start..).unwrap_or_default();
        let url = url.get(..url.find([' ', '"', '\'', ',']).unwrap_or(url.len())).unwrap_or_default();
        let authority = url.find(['/', '?', '#']).unwrap_or(url.len());
        if let Some(end) = url.get(..authority).and_then(|authority| authority.rfind('@')) {
            found.push(start..start + end);
        }
        if let Some(query) = url.find('?').filter(|query| query + 1 < url.len()) {
            found.push(start + query + 1..start + url.len());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn excerpt(text: &str, marked: &str, hidden: &[&str]) -> (String, String) {
        let range = |part: &str| text.find(part).map(|start| start..start + part.len()).unwrap();
        let marked = range(marked);
        let span = Span { line: 1, column: 1, offset: marked.start, length: marked.len() };
        let hidden: Vec<_> = hidden.iter().map(|part| range(part)).collect();
        let excerpt = of(text, span, &hidden).unwrap();
        (excerpt.text, " ".repeat(excerpt.indent) + &"^".repeat(excerpt.width))
    }

    #[test]
    fn the_marker_stands_under_the_value() {
        for (text, marked, line, marker) in [
            ("a: 1\nb: two\nc: 3", "two", "b: two", "   ^^^"),
            ("größe: zwei\r\n", "zwei", "größe: zwei", "       ^^^^"),
            ("\ttab: x", "x", " tab: x", "      ^"),
            ("\u{feff}a: b", "b", "a: b", "   ^"),
        ] {
            assert_eq!(excerpt(text, marked, &[]), (line.into(), marker.into()));
        }
    }

    #[test]
    fn credentials_are_cut_out_and_the_marker_follows() {
        let text = "llm: {api_key: sk-123, url: nowhere}";
        let (line, marker) = excerpt(text, "nowhere", &["sk-123"]);
        assert_eq!(
            (line.as_str(), marker.as_str()),
            ("llm: {api_key: …, url: nowhere}", "                       ^^^^^^^")
        );
        let (line, marker) = excerpt(text, "sk-123", &["sk-123"]);
        assert_eq!((line.as_str(), marker.as_str()), ("llm: {api_key: …, url: nowhere}", "               ^"));
    }

    #[test]
    fn credentials_in_urls_are_cut_out_too() {
        let (line, marker) = excerpt("{url: \"http://me:pw@host/?key=k\", x: 1}", "1", &[]);
        assert_eq!(
            (line.as_str(), marker.as_str()),
            ("{url: \"http://…@host/?…\", x: 1}", "                             ^")
        );
    }

    #[test]
    fn a_text_can_be_quoted_without_them() {
        for (text, shown) in [
            ("http://me:pw@host/?k=v", "http://…@host/?…"),
            ("a http://h/ https://me@h", "a http://h/ https://…@h"),
            ("http://h/?q=x://me@h", "http://h/?…"),
            ("no URL: a@b?c", "no URL: a@b?c"),
        ] {
            assert_eq!(without_credentials(text), shown);
        }
    }

    #[test]
    fn a_very_long_line_is_cut_on_both_sides() {
        let text = format!("{}x{}", "ä".repeat(5_000), "ö".repeat(5_000));
        let (line, marker) = excerpt(&text, "x", &[]);
        assert_eq!(line.chars().count(), 1 + 50 + 1 + 49 + 1);
        assert_eq!(marker.chars().count(), 52);
    }

    #[test]
    fn a_line_that_could_not_be_read_is_shown_unless_it_speaks_of_a_credential() {
        let text = "a: b: c\napi_key: sk: 1\n";
        assert_eq!(unread(text, 1, 5).unwrap(), Excerpt { text: "a: b: c".into(), indent: 4, width: 1 });
        assert_eq!(unread(text, 2, 12), None);
        assert_eq!(unread(text, 9, 1), None);
    }

    proptest::proptest! {
        #[test]
        fn no_text_and_no_place_is_too_odd(text in "[a-zä\\n\\t:/?@{}… ]{0,300}", offset in 0_usize..400, length in 0_usize..50) {
            let span = Span { line: 1, column: 1, offset, length };
            if let Some(excerpt) = of(&text, span, &[3..9, 20..21]) {
                proptest::prop_assert!(!excerpt.text.contains('\n'));
                proptest::prop_assert!(excerpt.width >= 1);
            }
            unread(&text, offset as u32, length as u32);
        }
    }
}
