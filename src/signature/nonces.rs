//! `Nonces`: which signatures were seen, so that each is accepted once.

use std::collections::{BTreeSet, HashMap};

use ring::digest::{SHA256, digest};

/// Nonces that are remembered: at 64 bytes or so each, a few MiB. Of 27 signed requests a second all are remembered
/// for the hour that a signature may be valid.
const NONCES_MAX: usize = 100_000;

/// What was spent, until its signature is valid no longer. When it is full nothing more is accepted, rather than
/// something forgotten.
#[derive(Debug)]
pub struct Nonces {
    spent: HashMap<[u8; 32], i64>,
    /// The same, the first to be forgotten first.
    by_end: BTreeSet<(i64, [u8; 32])>,
    most: usize,
}

impl Default for Nonces {
    fn default() -> Self {
        Self::bounded(NONCES_MAX)
    }
}

impl Nonces {
    /// Remembers no more than this.
    pub fn bounded(most: usize) -> Self {
        Self { spent: HashMap::new(), by_end: BTreeSet::new(), most }
    }

    /// Whether this principal uses the nonce for the first time; `until` and `now` are Unix seconds.
    pub fn spend(&mut self, principal: &str, nonce: &str, until: i64, now: i64) -> bool {
        while let Some(first) = self.by_end.first().copied().filter(|(end, _)| *end < now) {
            self.by_end.remove(&first);
            self.spent.remove(&first.1);
        }
        // No principal has a line feed in it.
        let digest = digest(&SHA256, format!("{principal}\n{nonce}").as_bytes());
        let Ok(key) = <[u8; 32]>::try_from(digest.as_ref()) else { return false };
        if self.spent.contains_key(&key) || self.spent.len() >= self.most {
            return false;
        }
        self.spent.insert(key, until);
        self.by_end.insert((until, key));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nonce_is_spent_once_a_principal_until_its_signature_has_expired() {
        let mut nonces = Nonces::default();
        assert!(nonces.spend("https://a.example", "n", 100, 0));
        assert!(!nonces.spend("https://a.example", "n", 100, 100));
        assert!(nonces.spend("https://b.example", "n", 100, 100));
        assert!(nonces.spend("https://a.example", "n", 300, 101));
        assert!(!nonces.spend("https://a.example", "n", 300, 101));
    }

    #[test]
    fn what_is_full_accepts_nothing_until_something_may_be_forgotten() {
        let mut nonces = Nonces::bounded(2);
        assert!(nonces.spend("a", "1", 10, 0));
        assert!(nonces.spend("a", "2", 20, 0));
        assert!(!nonces.spend("a", "3", 20, 10));
        assert!(nonces.spend("a", "3", 20, 11));
        assert!(!nonces.spend("a", "2", 20, 11));
    }
}
