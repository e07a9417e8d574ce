//! `Thoughts`: what a model thinks between two tags in front of its reply, kept out of it.

/// The tags, as in `<think>` and `</think>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tags {
    pub(crate) open: Box<str>,
    pub(crate) close: Box<str>,
}

/// Bytes of space in front of the opening tag: servers put a line break there. More is the reply's.
const SPACE_MAX: usize = 256;

/// How far the text of one reply has come. Only what it begins with is thought: tags that stand later are text that
/// somebody wrote about.
#[derive(Debug, Default)]
pub(crate) struct Thoughts {
    place: Place,
    /// Text that may be a part of a tag, shorter than one.
    held: String,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Nothing but space was read.
    #[default]
    Before,
    Within,
    /// Behind the closing tag, where space is none of the reply's.
    After,
    Text,
}

impl Thoughts {
    /// What a piece adds to the text.
    pub(crate) fn pass(&mut self, tags: &Tags, piece: &str) -> String {
        if self.place == Place::Text {
            return piece.to_owned();
        }
        let text = std::mem::take(&mut self.held) + piece;
        let mut rest = text.as_str();
        loop {
            match self.place {
                Place::Before => {
                    let begun = rest.trim_start();
                    if let Some(thoughts) = begun.strip_prefix(&*tags.open) {
                        rest = thoughts;
                        self.place = Place::Within;
                    } else if tags.open.starts_with(begun) && rest.len() <= SPACE_MAX + tags.open.len() {
                        rest.clone_into(&mut self.held);
                        return String::new();
                    } else {
                        self.place = Place::Text;
                    }
                }
                Place::Within => {
                    let Some((_, behind)) = rest.split_once(&*tags.close) else {
                        beginning_at_the_end(rest, &tags.close).clone_into(&mut self.held);
                        return String::new();
                    };
                    rest = behind;
                    self.place = Place::After;
                }
                Place::After => {
                    rest = rest.trim_start();
                    if rest.is_empty() {
                        return String::new();
                    }
                    self.place = Place::Text;
                }
                Place::Text => return rest.to_owned(),
            }
        }
    }

    /// What was held back and is text after all, at the end.
    pub(crate) fn rest(&mut self) -> String {
        let held = std::mem::take(&mut self.held);
        if self.place == Place::Before { held } else { String::new() }
    }

    /// Whether it began with thoughts.
    pub(crate) fn were_there(&self) -> bool {
        matches!(self.place, Place::Within | Place::After)
    }

    /// Whether there is text that was held back.
    pub(crate) fn holds_text(&self) -> bool {
        self.place == Place::Before && !self.held.trim().is_empty()
    }
}

/// The longest end of a text that a tag begins with.
fn beginning_at_the_end<'t>(text: &str, tag: &'t str) -> &'t str {
    let mut beginnings = tag.char_indices().rev().filter_map(|(length, _)| tag.get(..length));
    beginnings.find(|beginning| text.ends_with(beginning)).unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pieces: &[&str]) -> (String, bool) {
        let tags = Tags { open: "<think>".into(), close: "</think>".into() };
        let mut thoughts = Thoughts::default();
        let mut text: String = pieces.iter().map(|piece| thoughts.pass(&tags, piece)).collect();
        let there = thoughts.were_there();
        text.push_str(&thoughts.rest());
        (text, there)
    }

    /// A reply → its text.
    const CASES: &[(&str, &str)] = &[
        ("<think>Hm.</think>\n\nHello", "Hello"),
        ("\n <think>\nHm</think>Hello </think> there", "Hello </think> there"),
        ("Hello <think>not that</think>", "Hello <think>not that</think>"),
        ("  Hello", "  Hello"),
        ("<thinner> air", "<thinner> air"),
        ("<thi", "<thi"),
        ("<think>for ever </thin", ""),
        ("<think>a < b </ </th</think>€", "€"),
        ("<think></think>", ""),
        ("", ""),
    ];

    #[test]
    fn what_a_reply_begins_with_is_thought_and_nothing_else_wherever_it_is_cut() {
        for (reply, text) in CASES {
            assert_eq!(read(&[reply]).0, *text, "{reply}");
            let single: Vec<String> = reply.chars().map(String::from).collect();
            assert_eq!(read(&single.iter().map(String::as_str).collect::<Vec<_>>()).0, *text, "{reply}");
            for (cut, _) in reply.char_indices() {
                let (head, tail) = reply.split_at(cut);
                assert_eq!(read(&[head, tail]).0, *text, "{head}|{tail}");
            }
        }
    }

    #[test]
    fn space_is_not_held_back_for_ever() {
        let space = " ".repeat(8 << 10);
        assert_eq!(read(&[&space]).0, space);
        let single = vec![" "; 1 << 10];
        assert_eq!(read(&single).0.len(), 1 << 10);
    }

    #[test]
    fn thoughts_without_an_end_are_known() {
        assert_eq!(read(&["<think>for ever"]), (String::new(), true));
        assert_eq!(read(&["for ever"]), ("for ever".to_owned(), false));
    }
}
