//! `Accept` → the form of a talk's answer (RESTAP, "Content negotiation"; RFC 9110, section 12.5.1), and whether it may be
//! compressed.

use http::HeaderMap;
use http::header::ACCEPT_ENCODING;

/// How a talk is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// One complete JSON body.
    Json,
    /// Server-sent events.
    Stream,
}

/// The caller accepts nothing but a stream, and this agent does not stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this agent does not stream; send Accept: application/json")]
pub struct NotAcceptable;

/// A weight in thousandths, 0 to 1000.
type Weight = u16;

/// Weights of the ranges that matter; `None` where a range was not listed.
#[derive(Debug, Default)]
struct Listed {
    stream: Option<Weight>,
    json: Option<Weight>,
    application: Option<Weight>,
    any: Option<Weight>,
}

impl Delivery {
    /// Decides by the values of all `Accept` headers. `streaming` is whether the agent streams to its callers.
    ///
    /// A stream is given exactly when `text/event-stream` is listed by name with q > 0 and q not lower than that
    /// of a listed `application/json`; everything else gets JSON. Parameters other than q are ignored, a range
    /// with a broken q is dropped, of a repeated range the highest q counts.
    pub fn negotiate<'a>(accept: impl IntoIterator<Item = &'a str>, streaming: bool) -> Result<Self, NotAcceptable> {
        let listed = Listed::read(accept);
        let wants_stream = listed.stream.is_some_and(|stream| stream > 0 && stream >= listed.json.unwrap_or(0));
        match (wants_stream, streaming) {
            (true, true) => Ok(Self::Stream),
            (true, false) if !listed.accepts_json() => Err(NotAcceptable),
            (false, false) if listed.stream.is_some_and(|q| q > 0) && !listed.accepts_json() => Err(NotAcceptable),
            _ => Ok(Self::Json),
        }
    }
}

impl Listed {
    fn read<'a>(accept: impl IntoIterator<Item = &'a str>) -> Self {
        let mut listed = Self::default();
        for range in accept.into_iter().flat_map(|value| value.split(',')) {
            let mut parts = range.split(';');
            let name = parts.next().unwrap_or_default().trim().to_ascii_lowercase();
            let slot = match name.as_str() {
                "text/event-stream" => &mut listed.stream,
                "application/json" => &mut listed.json,
                "application/*" => &mut listed.application,
                "*/*" => &mut listed.any,
                _ => continue,
            };
            if let Some(weight) = weight(parts) {
                *slot = Some(slot.map_or(weight, |before| before.max(weight)));
            }
        }
        listed
    }

    /// Whether JSON would do; the most specific range counts.
    fn accepts_json(&self) -> bool {
        self.json.or(self.application).or(self.any).is_some_and(|weight| weight > 0)
    }
}

/// The q of a range's parameters: 1 without one, `None` if it is broken.
fn weight<'a>(parameters: impl Iterator<Item = &'a str>) -> Option<Weight> {
    for parameter in parameters {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        if name.trim().eq_ignore_ascii_case("q") {
            return parse_weight(value.trim());
        }
    }
    Some(1000)
}

/// `0`, `0.5`, `1.000`: RFC 9110's qvalue, at most three decimals.
fn parse_weight(text: &str) -> Option<Weight> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    if decimals.len() > 3 || !decimals.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let thousandths: Weight = format!("{decimals:0<3}").parse().ok()?;
    match (whole, thousandths) {
        ("0", thousandths) => Some(thousandths),
        ("1", 0) => Some(1000),
        _ => None,
    }
}

/// Whether gzip is accepted, and not less than the plain form (RFC 9110, section 12.5.3).
pub fn accepts_gzip(request: &HeaderMap) -> bool {
    let (mut gzip, mut any, mut identity) = (None, None, None);
    let values = request.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    for coding in values.flat_map(|value| value.split(',')) {
        let mut parts = coding.split(';');
        let slot = match parts.next().unwrap_or_default().trim().to_ascii_lowercase().as_str() {
            "gzip" | "x-gzip" => &mut gzip,
            "*" => &mut any,
            "identity" => &mut identity,
            _ => continue,
        };
        *slot = weight(parts).or(*slot);
    }
    gzip.or(any).is_some_and(|weight| weight > 0 && weight >= identity.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn streaming(accept: &str) -> Delivery {
        Delivery::negotiate([accept], true).unwrap()
    }

    #[test]
    fn a_stream_must_be_asked_for_by_name() {
        for accept in ["", "*/*", "application/json", "text/*", "text/html", "nonsense;;,", "text/event-stream;q=0"] {
            assert_eq!(streaming(accept), Delivery::Json, "{accept}");
        }
        for accept in [
            "text/event-stream",
            "TEXT/Event-Stream",
            "text/event-stream; charset=utf-8",
            "*/*, text/event-stream;q=0.1",
        ] {
            assert_eq!(streaming(accept), Delivery::Stream, "{accept}");
        }
        assert_eq!(Delivery::negotiate(std::iter::empty(), true), Ok(Delivery::Json));
    }

    #[test]
    fn json_wins_only_with_a_higher_weight() {
        for (accept, expected) in [
            ("text/event-stream, application/json", Delivery::Stream),
            ("application/json, text/event-stream", Delivery::Stream),
            ("application/json;q=0.5, text/event-stream;q=0.4", Delivery::Json),
            ("application/json;q=0.5, text/event-stream;q=0.4, text/event-stream;q=0.6", Delivery::Stream),
            ("application/json;q=high, text/event-stream;q=0.1", Delivery::Stream),
            ("text/event-stream;q=1.5", Delivery::Json),
        ] {
            assert_eq!(streaming(accept), expected, "{accept}");
        }
    }

    #[test]
    fn without_streaming_only_a_caller_that_takes_no_json_is_refused() {
        for accept in [
            "text/event-stream",
            "text/event-stream, application/json;q=0",
            "text/event-stream, */*, application/*;q=0",
            "text/event-stream, text/html",
        ] {
            assert_eq!(Delivery::negotiate([accept], false), Err(NotAcceptable), "{accept}");
        }
        for accept in [
            "text/event-stream, application/json",
            "text/event-stream, */*;q=0.1",
            "text/event-stream, application/*",
            "text/html",
            "",
        ] {
            assert_eq!(Delivery::negotiate([accept], false), Ok(Delivery::Json), "{accept}");
        }
    }
}
