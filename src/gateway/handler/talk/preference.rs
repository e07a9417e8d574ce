//! Whether a talk's answer may come later: `Prefer: respond-async, wait=N` (RFC 7240), or the dispatch form.

use std::time::Duration;

use http::HeaderMap;

use crate::restap::Delivery;
use crate::restap::talk::Dispatch;

/// The longest wait that a caller may prefer.
const WAIT_MAX: u64 = 60;

/// What `Prefer` says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Prefer {
    respond_async: bool,
    wait: Option<Duration>,
}

/// A talk that is answered later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Later {
    /// How the caller asked for it.
    pub form: Form,
    /// Answer at once what is done within this time.
    pub wait: Option<Duration>,
}

/// How a caller asks for an answer that comes later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// `Prefer: respond-async`.
    Prefer,
    /// A body with both `dispatch_id` and `query_id`.
    Dispatch,
}

impl Later {
    /// A caller who is streamed to has its answer at once, whatever it prefers.
    pub(super) fn of(prefer: Prefer, dispatch: &Dispatch, delivery: Delivery) -> Option<Self> {
        let form = match dispatch {
            _ if delivery == Delivery::Stream => return None,
            Dispatch { dispatch_id: Some(_), query_id: Some(_) } => Form::Dispatch,
            _ if prefer.respond_async => Form::Prefer,
            _ => return None,
        };
        Some(Self { form, wait: prefer.wait })
    }
}

/// Reads every `Prefer`; of a repeated preference the first one counts (RFC 7240, section 2).
pub(super) fn read(headers: &HeaderMap) -> Prefer {
    let mut prefer = Prefer::default();
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

/// 0 and what is no number are ignored; more than a minute is a minute.
fn wait(text: &str) -> Option<Duration> {
    let seconds = text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().unwrap_or(WAIT_MAX))?;
    (!text.is_empty() && seconds > 0).then(|| Duration::from_secs(seconds.min(WAIT_MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefer(lines: &[&str]) -> Prefer {
        read(&lines.iter().map(|line| (http::HeaderName::from_static("prefer"), line.parse().unwrap())).collect())
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
        assert!(prefer(&["return=minimal, Respond-Async"]).respond_async);
        assert!(!prefer(&["respond-asynchronously"]).respond_async);
    }

    #[test]
    fn the_dispatch_form_needs_both_ids_and_a_stream_is_never_later() {
        let both = Dispatch { dispatch_id: Some("d".into()), query_id: Some("q".into()) };
        let one = Dispatch { dispatch_id: Some("d".into()), query_id: None };
        let none = Prefer::default();
        assert_eq!(Later::of(none, &both, Delivery::Json), Some(Later { form: Form::Dispatch, wait: None }));
        assert_eq!(Later::of(none, &one, Delivery::Json), None);
        assert_eq!(Later::of(prefer(&["respond-async"]), &both, Delivery::Stream), None);
    }
}
