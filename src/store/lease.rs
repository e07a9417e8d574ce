//! `Lease`: one holder at a time, in all processes that share the store.

use std::time::Duration;

use uuid::Uuid;

use super::keys::{Hash, LeaseKey};
use super::{Store, StoreError};

/// How long a lease holds without being renewed.
pub const LEASE_TERM: Duration = Duration::from_secs(10);

/// How often a holder renews.
pub const LEASE_RENEWAL: Duration = Duration::from_secs(3);

/// Proof that we hold a key. Whoever holds it renews it every [`LEASE_RENEWAL`] and releases it at the end; a holder
/// that dies loses it after [`LEASE_TERM`]. It does not survive a power loss, and need not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// What is held.
    pub key: LeaseKey,
    /// By whom: new for every acquisition.
    pub holder: Hash,
}

impl Lease {
    pub(super) fn new(key: LeaseKey) -> Self {
        Self { key, holder: *Uuid::new_v4().as_bytes() }
    }
}

impl Store {
    /// Takes a lease, or says at once that somebody else holds it (`None`). Waiting is the caller's business.
    pub async fn acquire(&self, key: LeaseKey) -> Result<Option<Lease>, StoreError> {
        let lease = Lease::new(key);
        let holder = self.engine.acquire(lease, [0; 16]).await?;
        Ok(holder.is_none().then_some(lease))
    }

    /// Holds on for another [`LEASE_TERM`]; false if the lease was lost.
    pub async fn renew(&self, lease: Lease) -> Result<bool, StoreError> {
        self.engine.renew(lease).await
    }

    /// Lets go. A lease that was lost is nobody's loss.
    pub async fn release(&self, lease: Lease) -> Result<(), StoreError> {
        self.engine.release(lease).await
    }
}
