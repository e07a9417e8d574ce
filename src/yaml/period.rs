//! `Period`: a time span as an operator writes it.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The units in milliseconds, from the largest.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// The longest period: a hundred years, so that it can be added to any clock.
const MILLISECONDS_MAX: u64 = 36_500 * 86_400_000;

/// A time span of at least 1 ms: `250ms`, `30s`, `5m`, `1h`, `7d`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Period(pub Duration);

/// The text is no period.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPeriod {
    /// No whole number and unit.
    #[error("not a period: a whole number and ms, s, m, h or d")]
    Syntax,
    /// 0.
    #[error("a period must be at least 1ms")]
    Zero,
    /// More than a hundred years.
    #[error("a period is at most 36500d")]
    TooLong,
}

impl Period {
    /// A regular expression of what [`FromStr`] reads, for the JSON Schema.
    pub(super) const PATTERN: &'static str = "[0-9]+(ms|s|m|h|d)";
}

impl FromStr for Period {
    type Err = InvalidPeriod;

    fn from_str(text: &str) -> Result<Self, InvalidPeriod> {
        let digits = text.find(|digit: char| !digit.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit).ok_or(InvalidPeriod::Syntax)?;
        if number.is_empty() {
            return Err(InvalidPeriod::Syntax);
        }
        let number: u64 = number.parse().map_err(|_| InvalidPeriod::TooLong)?;
        match number.checked_mul(*factor) {
            Some(0) => Err(InvalidPeriod::Zero),
            Some(milliseconds @ ..=MILLISECONDS_MAX) => Ok(Self(Duration::from_millis(milliseconds))),
            _ => Err(InvalidPeriod::TooLong),
        }
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let milliseconds = self.0.as_millis() as u64;
        match UNITS.iter().find(|(_, factor)| milliseconds.is_multiple_of(*factor)) {
            Some((name, factor)) => write!(f, "{}{name}", milliseconds / factor),
            None => write!(f, "{milliseconds}ms"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_are_a_number_and_a_unit() {
        for (text, milliseconds) in
            [("250ms", 250), ("30s", 30_000), ("5m", 300_000), ("1h", 3_600_000), ("7d", 604_800_000)]
        {
            assert_eq!(text.parse(), Ok(Period(Duration::from_millis(milliseconds))), "{text}");
        }
    }

    #[test]
    fn other_texts_are_no_periods() {
        for text in ["", "30", "s", "30 s", "1.5s", "-1s", "1h30m", "1min", "1S", "1us"] {
            assert_eq!(text.parse::<Period>(), Err(InvalidPeriod::Syntax), "{text}");
        }
        assert_eq!("0s".parse::<Period>(), Err(InvalidPeriod::Zero));
        for text in ["36501d", "99999999999999999999s", "18446744073709551615d"] {
            assert_eq!(text.parse::<Period>(), Err(InvalidPeriod::TooLong), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn what_is_written_is_read_back(milliseconds in 1..=MILLISECONDS_MAX) {
            let period = Period(Duration::from_millis(milliseconds));
            proptest::prop_assert_eq!(period.to_string().parse(), Ok(period));
        }
    }
}
