//! What a page for people says of an error.

/// Characters that are told.
const GIST_MAX: usize = 200;

/// A page's title, or the first words of a text. Never more than one line, so that no stack trace is among it.
pub(super) fn gist(text: &str, is_html: bool) -> String {
    let said = if is_html { title(text).unwrap_or_default() } else { first_line(text) };
    let said: String = said.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(GIST_MAX).collect();
    said.chars().filter(|character| !character.is_control()).collect()
}

fn first_line(text: &str) -> &str {
    text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default()
}

fn title(page: &str) -> Option<&str> {
    let lower = page.to_ascii_lowercase();
    let from = lower.find("<title")?;
    let from = from + lower.get(from..)?.find('>')? + 1;
    let to = from + lower.get(from..)?.find("</title")?;
    page.get(from..to)
}
