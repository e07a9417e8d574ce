//! Checksums of rows: what is not as it was written is reported, never served.

use crate::store::engine::RecordKey;

/// Of an item, and of where it stands.
pub(super) fn of_item(feed: u64, timestamp: u64, json: &[u8]) -> i64 {
    of(&[&feed.to_le_bytes(), &timestamp.to_le_bytes(), json])
}

/// Of a record, and of which it is.
pub(super) fn of_record(key: RecordKey, version: u64, body: &[u8]) -> i64 {
    of(&[&[key.kind as u8], &key.hash, &version.to_le_bytes(), body])
}

fn of(parts: &[&[u8]]) -> i64 {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(part);
    }
    let mut sum = [0; 8];
    hasher.finalize_xof().fill(&mut sum);
    i64::from_le_bytes(sum)
}
