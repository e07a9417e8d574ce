//! The scripts, and what they answer.

use std::time::Duration;

use redis::{Script, Value};

use crate::store::StoreError;
use crate::store::keys::Hash;

/// What the scripts share stands before each of them.
macro_rules! script {
    ($file:literal) => {
        Script::new(concat!(include_str!("common.lua"), include_str!($file)))
    };
}

pub(super) struct Scripts {
    pub(super) commit: Script,
    pub(super) page: Script,
    pub(super) record: Script,
    pub(super) acquire: Script,
    pub(super) renew: Script,
    pub(super) release: Script,
    pub(super) spend: Script,
    pub(super) sweep: Script,
}

impl Default for Scripts {
    fn default() -> Self {
        Self {
            commit: script!("commit.lua"),
            page: script!("page.lua"),
            record: script!("record.lua"),
            acquire: script!("acquire.lua"),
            renew: script!("renew.lua"),
            release: script!("release.lua"),
            spend: script!("spend.lua"),
            sweep: script!("sweep.lua"),
        }
    }
}

/// A list that a script returned.
pub(super) struct Answer(Vec<Value>);

impl Answer {
    pub(super) fn list(value: Value) -> Result<Self, StoreError> {
        match value {
            Value::Array(values) => Ok(Self(values)),
            _ => Err(unreadable()),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn bytes(&self, at: usize) -> Result<&[u8], StoreError> {
        match self.0.get(at) {
            Some(Value::BulkString(bytes)) => Ok(bytes),
            _ => Err(unreadable()),
        }
    }

    /// A number, as itself or in decimal.
    pub(super) fn number(&self, at: usize) -> Result<u64, StoreError> {
        self.some_number(at)?.ok_or_else(unreadable)
    }

    /// A number, or nothing.
    pub(super) fn some_number(&self, at: usize) -> Result<Option<u64>, StoreError> {
        match self.0.get(at) {
            Some(Value::Int(number)) => u64::try_from(*number).map(Some).map_err(|_| unreadable()),
            Some(Value::BulkString(text)) if text.is_empty() => Ok(None),
            Some(Value::BulkString(text)) => {
                let text = std::str::from_utf8(text).map_err(|_| unreadable())?;
                text.parse().map(Some).map_err(|_| unreadable())
            }
            Some(Value::Nil) | None => Ok(None),
            Some(_) => Err(unreadable()),
        }
    }
}

pub(super) fn unreadable() -> StoreError {
    StoreError::Corrupt("what Redis answers".into())
}

pub(super) fn hex(hash: Hash) -> String {
    format!("{:032x}", u128::from_be_bytes(hash))
}

pub(super) fn hash(hex: &[u8]) -> Result<Hash, StoreError> {
    let hex = std::str::from_utf8(hex).map_err(|_| unreadable())?;
    u128::from_str_radix(hex, 16).map(u128::to_be_bytes).map_err(|_| unreadable())
}

/// The scripts count in floating point, exactly up to 2^53; half of that leaves room for a sum.
pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX).min(1 << 52)
}
