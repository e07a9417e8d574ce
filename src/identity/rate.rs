//! `Rate`: how often, as an operator writes it: `60/m`, `50/s`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::yaml::{Slot, Value, Written};

/// The units, from the shortest.
const UNITS: [(&str, u64); 4] = [("s", 1), ("m", 60), ("h", 3_600), ("d", 86_400)];

/// Requests that a rate may allow.
const COUNT_MAX: u64 = 1_000_000;

/// So many in a time: a bucket of that many tokens which is refilled evenly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Tokens of the bucket, at least 1.
    pub count: u64,
    /// How long it takes to fill it.
    pub per: Duration,
}

/// The text is no rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRate {
    /// No number, slash and unit.
    #[error("not a rate: a whole number, a slash, and s, m, h or d")]
    Syntax,
    /// 0.
    #[error("a rate allows at least one request; who may do nothing is left out of `tools`")]
    Zero,
    /// Too many.
    #[error("a rate allows 1000000 requests at most")]
    TooMany,
}

impl Rate {
    /// How long one token takes.
    pub fn interval(self) -> Duration {
        Duration::from_nanos((self.per.as_nanos() as u64) / self.count.max(1))
    }

    /// Whether it allows more than another in the same time.
    pub fn is_above(self, other: Self) -> bool {
        self.interval() < other.interval()
    }
}

impl FromStr for Rate {
    type Err = InvalidRate;

    fn from_str(text: &str) -> Result<Self, InvalidRate> {
        let (count, unit) = text.split_once('/').ok_or(InvalidRate::Syntax)?;
        let (_, seconds) = UNITS.iter().find(|(name, _)| *name == unit).ok_or(InvalidRate::Syntax)?;
        if count.is_empty() || !count.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(InvalidRate::Syntax);
        }
        match count.parse() {
            Ok(0) => Err(InvalidRate::Zero),
            Ok(count @ ..=COUNT_MAX) => Ok(Self { count, per: Duration::from_secs(*seconds) }),
            _ => Err(InvalidRate::TooMany),
        }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = UNITS.iter().find(|(_, seconds)| *seconds == self.per.as_secs()).map_or("s", |(name, _)| name);
        write!(f, "{}/{unit}", self.count)
    }
}

impl Value for Rate {
    fn take(slot: Slot<'_, '_>) -> Option<Self> {
        slot.parsed("a rate such as 60/m or 50/s", Some("[0-9]+/[smhd]"))
    }
}

impl Written for Rate {
    fn written(&self) -> serde_json::Value {
        self.to_string().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_a_number_and_a_unit() {
        for (text, count, seconds) in
            [("60/m", 60, 60), ("50/s", 50, 1), ("1/h", 1, 3_600), ("1000000/d", 1_000_000, 86_400)]
        {
            let rate: Rate = text.parse().unwrap();
            assert_eq!((rate.count, rate.per.as_secs(), rate.to_string().as_str()), (count, seconds, text));
        }
        for (text, error) in [
            ("", InvalidRate::Syntax),
            ("60", InvalidRate::Syntax),
            ("60/min", InvalidRate::Syntax),
            ("60 / m", InvalidRate::Syntax),
            ("-1/s", InvalidRate::Syntax),
            ("1.5/s", InvalidRate::Syntax),
            ("/s", InvalidRate::Syntax),
            ("0/s", InvalidRate::Zero),
            ("1000001/s", InvalidRate::TooMany),
            ("99999999999999999999/s", InvalidRate::TooMany),
        ] {
            assert_eq!(text.parse::<Rate>(), Err(error), "{text}");
        }
    }
}
