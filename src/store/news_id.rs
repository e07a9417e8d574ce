//! `NewsId`: the opaque id of an item. It orders like the feed, and it proves that a gateway with our key made it.
//!
//! The id is computed, never stored: the time of the item, which feed it is of, and a seal over both. So `since_id`
//! of an item that retention has dropped still says where to read on, and an invented one is refused.

use std::fmt;

/// `news_`, then 14 + 8 + 12 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewsId {
    /// Unix milliseconds, below 2^53.
    pub(super) timestamp: u64,
    /// Part of a keyed hash of the feed.
    pub(super) feed: u32,
    /// 48 bits of a keyed hash of both.
    pub(super) seal: u64,
}

const PREFIX: &str = "news_";
const DIGITS: usize = 34;

impl NewsId {
    /// Reads the form alone; the seal is judged by [`Keys`](super::Keys).
    pub(super) fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix(PREFIX).filter(|digits| digits.len() == DIGITS)?;
        if !digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
            return None;
        }
        let timestamp = u64::from_str_radix(digits.get(..14)?, 16).ok()?;
        let feed = u32::from_str_radix(digits.get(14..22)?, 16).ok()?;
        let seal = u64::from_str_radix(digits.get(22..)?, 16).ok()?;
        Some(Self { timestamp, feed, seal })
    }
}

impl fmt::Display for NewsId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{:014x}{:08x}{:012x}", self.timestamp, self.feed, self.seal)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn an_id_is_read_as_it_was_written(timestamp in 0..1_u64 << 53, feed: u32, seal in 0..1_u64 << 48) {
            let id = NewsId { timestamp, feed, seal };
            prop_assert_eq!(NewsId::parse(&id.to_string()), Some(id));
        }

        #[test]
        fn ids_order_like_their_timestamps(one in 0..1_u64 << 53, other in 0..1_u64 << 53) {
            let [one_id, other_id] = [one, other].map(|timestamp| NewsId { timestamp, feed: 7, seal: 9 }.to_string());
            prop_assert_eq!(one.cmp(&other), one_id.cmp(&other_id));
        }

        #[test]
        fn any_other_text_is_refused(text in "(news_)?[0-9a-fA-Fé_]{0,40}") {
            prop_assert!(NewsId::parse(&text).is_none_or(|id| id.to_string() == text));
        }
    }
}
