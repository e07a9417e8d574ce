//! `ByteSize`: bytes as an operator writes them.

use std::fmt;
use std::str::FromStr;

/// The units, from the largest that [`fmt::Display`] uses; decimal ones are read, and never written.
const UNITS: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1_000),
    ("B", 1),
];

/// A number of bytes, at least 1: `512KiB`, `1MiB` (powers of 1024), `10MB` (powers of 1000), or a plain number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteSize(pub u64);

/// The text is no size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSize {
    /// No whole number and unit.
    #[error("not a size: a whole number and B, KiB, MiB, GiB or TiB (KB, MB, GB, TB count in thousands)")]
    Syntax,
    /// 0.
    #[error("a size must be at least 1 byte")]
    Zero,
    /// More than 64 bits can count.
    #[error("the size is larger than any machine")]
    TooLarge,
}

impl ByteSize {
    /// A regular expression of what [`FromStr`] reads, for the JSON Schema.
    pub(super) const PATTERN: &'static str = "[0-9]+([KMGT]i?)?B|[0-9]+";
}

impl FromStr for ByteSize {
    type Err = InvalidSize;

    fn from_str(text: &str) -> Result<Self, InvalidSize> {
        let digits = text.find(|digit: char| !digit.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let factor = match unit {
            "" => 1,
            unit => UNITS.iter().find(|(name, _)| *name == unit).ok_or(InvalidSize::Syntax)?.1,
        };
        if number.is_empty() {
            return Err(InvalidSize::Syntax);
        }
        let number: u64 = number.parse().map_err(|_| InvalidSize::TooLarge)?;
        match number.checked_mul(factor) {
            Some(0) => Err(InvalidSize::Zero),
            Some(bytes) => Ok(Self(bytes)),
            None => Err(InvalidSize::TooLarge),
        }
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let binary = |(name, factor): &(&str, u64)| name.len() != 2 && self.0.is_multiple_of(*factor);
        match UNITS.iter().find(|unit| binary(unit)) {
            Some((name, factor)) => write!(f, "{}{name}", self.0 / factor),
            None => write!(f, "{}B", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_a_number_and_a_unit() {
        for (text, bytes) in [
            ("1", 1),
            ("4096", 4096),
            ("7B", 7),
            ("512KiB", 512 << 10),
            ("1MiB", 1 << 20),
            ("3GiB", 3 << 30),
            ("1TiB", 1 << 40),
            ("10MB", 10_000_000),
            ("2KB", 2_000),
        ] {
            assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
        }
    }

    #[test]
    fn other_texts_are_no_sizes() {
        for text in ["", "MiB", "1 MiB", "1mib", "1M", "1.5MiB", "-1", "1MiBx", "0x10"] {
            assert_eq!(text.parse::<ByteSize>(), Err(InvalidSize::Syntax), "{text}");
        }
        assert_eq!("0MiB".parse::<ByteSize>(), Err(InvalidSize::Zero));
        for text in ["99999999999999999999", "18446744073709551615KiB"] {
            assert_eq!(text.parse::<ByteSize>(), Err(InvalidSize::TooLarge), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn what_is_written_is_read_back(bytes in 1_u64..) {
            proptest::prop_assert_eq!(ByteSize(bytes).to_string().parse(), Ok(ByteSize(bytes)));
        }
    }
}
