//! `Prefer`: whether an answer may come later, and how long it may be waited for (RFC 7240).

use std::time::Duration;

use http::HeaderMap;

/// The longest wait that a caller may prefer.
const WAIT_MAX: u64 = 60;

/// What the `Prefer` headers of a request say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Prefer {
    /// `respond-async`.
    pub respond_async: bool,
    /// `wait=N`: from a second to a minute.
    pub wait: Option<Duration>,
}

impl Prefer {
    /// Reads every `Prefer`; of a repeated preference the first one counts (section 2). Others are not looked at.
    pub fn read(headers: &HeaderMap) -> Self {
        let mut prefer = Self::default();
        let lines = headers.get_all("prefer").iter().filter_map(|line| line.to_str().ok());
        for preference in lines.flat_map(|line| line.split(',')) {
            let preference = preference.split(';').next().unwrap_or_default();
            let (name, value) = preference.split_once('=').unwrap_or((preference, ""));
            match name.trim().to_ascii_lowercase().as_str() {
                "respond-async" => prefer.respond_async = true,
                "wait" if prefer.wait.is_none() => prefer.wait = wait(value.trim().trim_matches('"')),
                _ => {}
            }
        }
        prefer
    }
}

/// 0 and what is no number are ignored; more than a minute is a minute.
fn wait(text: &str) -> Option<Duration> {
    let seconds = text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().unwrap_or(WAIT_MAX))?;
    (!text.is_empty() && seconds > 0).then(|| Duration::from_secs(seconds.min(WAIT_MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefer(lines: &[&str]) -> Prefer {
        let name = http::HeaderName::from_static("prefer");
        Prefer::read(&lines.iter().map(|line| (name.clone(), line.parse().unwrap())).collect())
    }

    #[test]
    fn a_wait_is_a_number_of_seconds_up_to_a_minute() {
        for (lines, wait) in [
            (&["respond-async, wait=10"][..], Some(10)),
            (&["respond-async; x=1", "Wait = \"5\""], Some(5)),
            (&["wait=100"], Some(60)),
            (&["wait=99999999999999999999"], Some(60)),
            (&["wait=0"], None),
            (&["wait=-1"], None),
            (&["wait"], None),
            (&["wait=3, wait=7"], Some(3)),
        ] {
            assert_eq!(prefer(lines).wait.map(|wait| wait.as_secs()), wait, "{lines:?}");
        }
    }

    #[test]
    fn an_answer_may_come_later_only_where_the_preference_stands_whole() {
        assert!(prefer(&["return=minimal, Respond-Async"]).respond_async);
        assert!(!prefer(&["respond-asynchronously"]).respond_async);
    }
}
