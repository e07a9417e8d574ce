//! `Rotation`: how gateways that know `store.key` come to one secret that names everything, and how that key is changed.
//!
//! The secret is made once, by the first gateway that reaches the server, and lies there wrapped under `store.key`: the
//! server alone tells nobody which ids it knows, and a gateway with another key can't read the names. A new key wraps the
//! same secret once more, so that whatever was named before is found, by gateways with the old key and with the new one.
//! The wrap of the old key goes when a gateway starts with the new one and without `previous_key`.

use uuid::Uuid;

use crate::store::keys::{Hash, Keys};

/// A wrap as the engine keeps it: the fingerprint of its key, and its bytes.
pub(in crate::store) type Kept = (Hash, Vec<u8>);

/// Serial number, nonce, wrapped secret, fingerprint of the secret.
const WRAP_LENGTH: usize = 4 + 16 + 32 + 16;

/// What a start leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::store) struct Rotation {
    /// What names everything.
    pub(in crate::store) secret: [u8; 32],
    /// Wraps to keep from now on.
    pub(in crate::store) put: Vec<Kept>,
    /// Wraps to forget.
    pub(in crate::store) forget: Vec<Hash>,
}

struct Wrap {
    serial: u32,
    nonce: Uuid,
    veiled: [u8; 32],
    check: Hash,
}

impl Rotation {
    /// `None` if the store was made with another key.
    pub(in crate::store) fn of(current: &Keys, previous: Option<&Keys>, kept: &[Kept]) -> Option<Self> {
        if kept.is_empty() {
            let secret = Keys::random().ok()?.secret()?;
            let put = vec![(current.fingerprint(), Wrap::make(1, current, secret).write())];
            return Some(Self { secret, put, forget: Vec::new() });
        }
        let find = |keys: &Keys| {
            let (_, bytes) = kept.iter().find(|(fingerprint, _)| *fingerprint == keys.fingerprint())?;
            let wrap = Wrap::read(bytes)?;
            Some((wrap.serial, wrap.open(keys)?))
        };
        if let Some((serial, secret)) = find(current) {
            let old = |(_, bytes): &&Kept| Wrap::read(bytes).is_none_or(|wrap| wrap.serial < serial);
            let forget = match previous {
                Some(_) => Vec::new(),
                None => kept.iter().filter(old).map(|(fingerprint, _)| *fingerprint).collect(),
            };
            return Some(Self { secret, put: Vec::new(), forget });
        }
        let (_, secret) = find(previous?)?;
        let last = kept.iter().filter_map(|(_, bytes)| Wrap::read(bytes)).map(|wrap| wrap.serial).max()?;
        let put = vec![(current.fingerprint(), Wrap::make(last.saturating_add(1), current, secret).write())];
        Some(Self { secret, put, forget: Vec::new() })
    }
}

impl Wrap {
    fn make(serial: u32, keys: &Keys, secret: [u8; 32]) -> Self {
        let (nonce, mut veiled) = (Uuid::new_v4(), secret);
        keys.veil(&nonce.to_string(), &mut veiled);
        Self { serial, nonce, veiled, check: Keys::of(secret).fingerprint() }
    }

    fn open(&self, keys: &Keys) -> Option<[u8; 32]> {
        let mut secret = self.veiled;
        keys.veil(&self.nonce.to_string(), &mut secret);
        (Keys::of(secret).fingerprint() == self.check).then_some(secret)
    }

    fn write(&self) -> Vec<u8> {
        [&self.serial.to_be_bytes(), self.nonce.as_bytes().as_slice(), &self.veiled, &self.check].concat()
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        if bytes.len() != WRAP_LENGTH {
            return None;
        }
        let (serial, rest) = bytes.split_first_chunk()?;
        let (nonce, rest) = rest.split_first_chunk()?;
        let (veiled, rest) = rest.split_first_chunk()?;
        let (check, _) = rest.split_first_chunk()?;
        let nonce = Uuid::from_bytes(*nonce);
        Some(Self { serial: u32::from_be_bytes(*serial), nonce, veiled: *veiled, check: *check })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply(kept: &mut Vec<Kept>, rotation: &Rotation) {
        kept.retain(|(fingerprint, _)| !rotation.forget.contains(fingerprint));
        kept.extend(rotation.put.iter().cloned());
    }

    #[test]
    fn a_key_is_changed_without_changing_a_name() {
        let [old, new, other] = [(); 3].map(|()| Keys::random().unwrap());
        let mut kept = Vec::new();
        let first = Rotation::of(&old, None, &kept).unwrap();
        apply(&mut kept, &first);
        assert_eq!(Rotation::of(&old, None, &kept).unwrap().secret, first.secret);
        assert_eq!(Rotation::of(&new, None, &kept), None, "another key");
        assert_eq!(Rotation::of(&new, Some(&other), &kept), None);
        // Both are taken while the gateways are restarted one by one, in whatever order.
        let changing = Rotation::of(&new, Some(&old), &kept).unwrap();
        assert_eq!(changing.secret, first.secret);
        apply(&mut kept, &changing);
        let late = Rotation::of(&old, None, &kept).unwrap();
        assert_eq!((late.secret, late.put.len(), late.forget.len()), (first.secret, 0, 0));
        assert_eq!(Rotation::of(&new, Some(&old), &kept).unwrap().put, []);
        // Without `previous_key` it is over.
        let done = Rotation::of(&new, None, &kept).unwrap();
        assert_eq!((done.secret, done.forget.len()), (first.secret, 1));
        apply(&mut kept, &done);
        assert_eq!(Rotation::of(&old, None, &kept), None);
        assert_eq!(Rotation::of(&new, Some(&old), &kept).unwrap().secret, first.secret);
    }

    #[test]
    fn a_wrap_shows_nothing_and_a_damaged_one_opens_nothing() {
        let key = Keys::random().unwrap();
        let made = Rotation::of(&key, None, &[]).unwrap();
        let (fingerprint, wrap) = made.put[0].clone();
        assert!(!wrap.windows(8).any(|window| made.secret.windows(8).any(|secret| secret == window)));
        for at in [4, 20, 60] {
            let mut wrap = wrap.clone();
            wrap[at] ^= 1;
            assert_eq!(Rotation::of(&key, None, &[(fingerprint, wrap)]), None, "{at}");
        }
        assert_eq!(Rotation::of(&key, None, &[(fingerprint, wrap[..40].to_vec())]), None);
    }
}
