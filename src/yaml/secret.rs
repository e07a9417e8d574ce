//! `Secret`: a credential out of `${ENV}` or a file; it can't be printed.

use std::fmt;

/// A credential. It has neither `Display` nor `Serialize`, and its `Debug` shows nothing of it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Box<str>);

impl Secret {
    /// Takes a value that must not be shown again.
    pub fn new(value: impl Into<Box<str>>) -> Self {
        Self(value.into())
    }

    /// The secret itself, for the wire and for comparison. Never for a log, a metric or an error.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}
