//! The embedded engine keeps the contract, and what only it promises.

use std::collections::HashMap;
use std::sync::Arc;

use super::*;
use crate::store::contract::{self, Bench, TestClock};

fn bench() -> Bench {
    let clock = TestClock::new();
    let directory = tempfile::tempdir().unwrap();
    let time = clock.clone();
    let open = move |limits| {
        let bounds = Arc::new(Bounds::new(limits, HashMap::new()));
        let taken = Taken::take(&directory.path().join("data"), Some(&contract::key())).unwrap();
        contract::store(taken.open(bounds.clone(), time.clone()).unwrap(), bounds)
    };
    Bench { clock, open: Box::new(open), durable: true }
}

contract::hold!(bench);
