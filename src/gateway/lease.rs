//! `Held`: a lease that is renewed for as long as this value lives.

use std::sync::Arc;

use tokio::task::JoinHandle;

use crate::store::{LEASE_RENEWAL, Lease, Store, StoreError};

/// A lease of ours, let go when this is dropped.
pub(super) struct Held {
    lease: Lease,
    store: Arc<Store>,
    renewal: JoinHandle<()>,
    ended: bool,
}

impl Held {
    /// Takes over a lease that was just acquired.
    pub(super) fn new(store: &Arc<Store>, lease: Lease) -> Self {
        let renewing = store.clone();
        let renewal = tokio::spawn(async move {
            loop {
                tokio::time::sleep(LEASE_RENEWAL).await;
                if !matches!(renewing.renew(lease).await, Ok(true) | Err(StoreError::Unavailable(_))) {
                    return;
                }
            }
        });
        Self { lease, store: store.clone(), renewal, ended: false }
    }

    /// For the change of the store that ends it.
    pub(super) fn lease(&self) -> Lease {
        self.lease
    }

    /// The store has ended it together with what it was held for.
    pub(super) fn ended(mut self) {
        self.ended = true;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.renewal.abort();
        if !self.ended {
            let (store, lease) = (self.store.clone(), self.lease);
            // One that can't be let go of ends by itself.
            tokio::spawn(async move { drop(store.release(lease).await) });
        }
    }
}
