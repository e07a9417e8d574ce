//! `ErrorReply`: an upstream that answers with an error status, as a failure that may be told.

use std::time::Duration;

use http::header::{CONTENT_ENCODING, CONTENT_TYPE, DATE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, StatusCode};
use serde_json::Value;

use super::fault::{Fault, excerpt};
use super::unpack::{SLICE, Unpack};
use crate::restap::ErrorCode;
use crate::talk::Failure;
use crate::talk::failure::Again;

/// Bytes of an error's body that are read.
const BODY_MAX: usize = 64 << 10;

/// What a caller is told where the upstream limits or stops it, and does not say for how long.
const RETRY_AFTER_UNKNOWN: Duration = Duration::from_secs(5);

/// The longest `Retry-After` that is believed.
const RETRY_AFTER_MAX: Duration = Duration::from_hours(24);

/// Where the services put a sentence about an error; the first text counts.
const MESSAGES: &[&str] =
    &["/error/message", "/0/error/message", "/message", "/detail/0/msg", "/detail", "/errorText", "/error", "/reply"];

/// What matters of an upstream's head.
#[derive(Debug, Clone)]
pub(crate) struct UpstreamHead {
    pub(crate) status: StatusCode,
    pub(crate) content_type: String,
    pub(crate) content_encoding: String,
    retry_after: Option<Duration>,
}

/// An error status whose body is still coming.
#[derive(Debug)]
pub(crate) struct ErrorReply {
    head: UpstreamHead,
    unpack: Option<Unpack>,
    body: Vec<u8>,
}

impl UpstreamHead {
    pub(crate) fn new(status: StatusCode, headers: &HeaderMap) -> Self {
        let text = |name: HeaderName| {
            headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().trim().to_owned()
        };
        Self {
            status,
            content_type: text(CONTENT_TYPE),
            content_encoding: text(CONTENT_ENCODING),
            retry_after: retry_after(&text(RETRY_AFTER), &text(DATE)),
        }
    }
}

impl ErrorReply {
    pub(crate) fn new(head: UpstreamHead) -> Self {
        let unpack = Unpack::new(&head.content_encoding).unwrap_or_default();
        Self { head, unpack, body: Vec::new() }
    }

    /// Whether enough of the body came.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> bool {
        for slice in bytes.chunks(SLICE) {
            match &mut self.unpack {
                None => self.body.extend_from_slice(slice),
                Some(unpack) => match unpack.push(slice) {
                    Ok(plain) => self.body.extend_from_slice(&plain),
                    Err(_) => return true,
                },
            }
            if self.body.len() >= BODY_MAX {
                self.body.truncate(BODY_MAX);
                return true;
            }
        }
        false
    }

    /// The failure, by what came of the body.
    pub(crate) fn into_fault(self) -> Fault {
        let text = String::from_utf8_lossy(&self.body);
        let body: Option<Value> = serde_json::from_str(text.trim_start_matches('\u{feff}')).ok();
        let said = body.as_ref().and_then(|body| MESSAGES.iter().find_map(|place| body.pointer(place)?.as_str()));
        let status = self.head.status.as_u16();
        let failure = match (self.head.status, said) {
            // What a service says about a refused credential can hold a part of it.
            (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, _) => Failure::new(
                ErrorCode::UpstreamAuth,
                "the service behind this agent refused the agent's credential; tell the agent's operator",
            ),
            (StatusCode::TOO_MANY_REQUESTS, said) => self.later(
                ErrorCode::UpstreamRateLimited,
                "the service behind this agent limits its callers; try again later",
                said,
            ),
            (StatusCode::SERVICE_UNAVAILABLE, said) => self.later(
                ErrorCode::UpstreamUnavailable,
                "the service behind this agent is unavailable; try again later",
                said,
            ),
            (_, Some(said)) => Failure::new(
                ErrorCode::UpstreamError,
                format!("the service behind this agent answered {status}: {}", excerpt(said)),
            ),
            (_, None) => {
                Failure::new(ErrorCode::UpstreamError, format!("the service behind this agent answered {status}"))
            }
        };
        let again = match self.head.status {
            StatusCode::NOT_FOUND => Some(Again::WithoutSaved),
            StatusCode::BAD_REQUEST | StatusCode::PAYLOAD_TOO_LARGE | StatusCode::UNPROCESSABLE_ENTITY => {
                Again::told(&text)
            }
            _ => None,
        };
        Fault { failure, again }
    }

    fn later(&self, code: ErrorCode, sentence: &str, said: Option<&str>) -> Failure {
        let message = said.map_or_else(|| sentence.to_owned(), |said| format!("{sentence} ({})", excerpt(said)));
        let retry_after = Some(self.head.retry_after.unwrap_or(RETRY_AFTER_UNKNOWN));
        Failure { code, message, retry_after }
    }
}

/// `Retry-After` (RFC 9110, section 10.2.3): seconds, or a date, which counts from the service's own clock.
fn retry_after(value: &str, date: &str) -> Option<Duration> {
    let seconds = match value.parse::<u64>() {
        Ok(seconds) => seconds,
        Err(_) => seconds_of(value)?.saturating_sub(seconds_of(date)?),
    };
    Some(Duration::from_secs(seconds.max(1)).min(RETRY_AFTER_MAX))
}

/// Seconds since 1970 of a date such as `Sun, 06 Nov 1994 08:49:37 GMT`.
fn seconds_of(date: &str) -> Option<u64> {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let mut parts = date.split_once(", ")?.1.split([' ', ':']);
    let number = |parts: &mut std::str::Split<'_, _>| parts.next()?.parse::<u64>().ok();
    let day = number(&mut parts)?;
    let month = MONTHS.find(parts.next().filter(|month| month.len() == 3)?)? as u64 / 3;
    let year = number(&mut parts).filter(|year| (1970..10_000).contains(year))?;
    let (hour, minute, second) = (number(&mut parts)?, number(&mut parts)?, number(&mut parts)?);
    if parts.next() != Some("GMT") || day > 31 || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    // Years begin in March here, so that a leap day is a year's last.
    let (year, month) = if month < 2 { (year - 1, month + 10) } else { (year, month - 2) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day;
    Some(((days.checked_sub(719_469)?) * 24 + hour) * 3600 + minute * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(status: u16, headers: &[(&'static str, &str)], body: &str) -> Fault {
        let headers = headers.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()));
        let head = UpstreamHead::new(StatusCode::from_u16(status).unwrap(), &headers.collect());
        let mut reply = ErrorReply::new(head);
        reply.push(body.as_bytes());
        reply.into_fault()
    }

    #[test]
    fn a_date_counts_from_the_date_of_the_answer() {
        assert_eq!(seconds_of("Thu, 01 Jan 1970 00:00:00 GMT"), Some(0));
        assert_eq!(seconds_of("Sun, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777));
        assert_eq!(seconds_of("Thu, 29 Feb 2024 12:00:00 GMT"), Some(1_709_208_000));
        assert_eq!(seconds_of("Mon, 30 Nov 2026 14:00:12 GMT"), Some(1_796_047_212));
        for bad in ["", "soon", "Sun, 06 Nov 1994", "Sun, 06 Foo 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:37 CET"] {
            assert_eq!(seconds_of(bad), None, "{bad}");
        }
        let (now, later) = ("Mon, 30 Nov 2026 14:00:12 GMT", "Mon, 30 Nov 2026 14:01:12 GMT");
        assert_eq!(retry_after(later, now), Some(Duration::from_mins(1)));
        assert_eq!(retry_after(now, later), Some(Duration::from_secs(1)));
        assert_eq!(retry_after("7", ""), Some(Duration::from_secs(7)));
        assert_eq!(retry_after("99999999999", ""), Some(RETRY_AFTER_MAX));
        assert_eq!(retry_after("-1", ""), None);
    }

    #[test]
    fn every_status_has_its_code() {
        let code = |status| fault(status, &[], "").failure.code;
        assert_eq!(code(429), ErrorCode::UpstreamRateLimited);
        assert_eq!(code(503), ErrorCode::UpstreamUnavailable);
        assert_eq!([code(401), code(403)], [ErrorCode::UpstreamAuth; 2]);
        for status in [100, 302, 400, 404, 408, 500, 502, 504, 529] {
            assert_eq!(code(status), ErrorCode::UpstreamError, "{status}");
        }
    }

    #[test]
    fn the_caller_is_told_when_to_come_back() {
        assert_eq!(fault(429, &[("retry-after", "7")], "").failure.retry_after, Some(Duration::from_secs(7)));
        assert_eq!(fault(503, &[], "").failure.retry_after, Some(RETRY_AFTER_UNKNOWN));
        assert_eq!(fault(500, &[("retry-after", "7")], "").failure.retry_after, None);
    }

    #[test]
    fn the_services_sentence_is_found_and_never_told_about_a_credential() {
        for body in [
            r#"{"error":{"message":"bad model"}}"#,
            r#"[{"error":{"message":"bad model"}}]"#,
            r#"{"error":"invalid","message":"bad model"}"#,
            r#"{"error":"bad model"}"#,
            r#"{"detail":[{"msg":"bad model"}]}"#,
            r#"{"detail":"bad model"}"#,
        ] {
            let message = fault(400, &[], body).failure.message;
            assert!(message.ends_with("answered 400: bad model"), "{body}: {message}");
        }
        for status in [401, 403] {
            let message = fault(status, &[], r#"{"error":{"message":"bad key sk-abc"}}"#).failure.message;
            assert!(!message.contains("sk-abc"));
        }
        assert!(fault(502, &[], "<html>Bad gateway</html>").failure.message.ends_with("answered 502"));
    }

    #[test]
    fn what_a_second_attempt_could_leave_out_is_recognised() {
        assert_eq!(fault(404, &[], "").again, Some(Again::WithoutSaved));
        let overflow = r#"{"error":{"code":400,"type":"exceed_context_size_error","message":"too big"}}"#;
        assert_eq!(fault(400, &[], overflow).again, Some(Again::WithHalfTheHistory));
        assert_eq!(fault(500, &[], overflow).again, None);
        assert_eq!(fault(400, &[], r#"{"error":"bad"}"#).again, None);
    }

    #[test]
    fn an_endless_body_is_cut() {
        let mut reply = ErrorReply::new(UpstreamHead::new(StatusCode::BAD_GATEWAY, &HeaderMap::new()));
        assert!(!reply.push(&[b'x'; 1000]));
        assert!(reply.push(&vec![b'x'; 1 << 20]));
        assert_eq!(reply.body.len(), BODY_MAX);
    }
}
